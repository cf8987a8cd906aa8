"""Pages of wrong things: an entry a line, and below it, indented, what is said of it. Comments begin with #."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

__all__ = ["check_refusals", "entries"]


def entries(page: str) -> list[tuple[str, str]]:
    """The entries of a page in this folder, each with what is said."""
    lines = resources.files("conformance.specimens").joinpath(page).read_text("utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    return [(entry, message[2:]) for entry, message in zip(lines[::2], lines[1::2], strict=True)]


def check_refusals(page: str, names: dict[str, Any]) -> None:
    """Each entry, evaluated with the names, raises what is said: the kind of error, a colon, the message's pattern."""
    for entry, said in entries(page):
        answer = "nothing is raised"
        try:
            eval(entry, dict(names))
        except (TypeError, ValueError) as problem:
            answer = f"{'TypeError' if isinstance(problem, TypeError) else 'ValueError'}: {problem}"
        assert re.match(said, answer, re.DOTALL), f"{entry}: {answer}"
