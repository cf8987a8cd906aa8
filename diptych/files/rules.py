"""Files of rules: which labels may follow one another, begin and end a sentence (:mod:`reference.models.rules`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diptych.files.text import load_text
from reference.models.rules import KEYS, UnknownLabel
from reference.models.schemes import SCHEMES

RULES = 'forbidden = [["B-X", "B-X"]], start = [...]'


def load_rules(path: str) -> dict[str, Any]:
    """The rules of a TOML file, as ``TaggingModel`` takes them.

    Raises
    ------
    ValueError
        Naming the file: there is none, it is not TOML, it has other keys.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: expected one of {', '.join(SCHEMES)}, or a file of rules; there is no such file")
    try:
        rules = tomllib.loads("\n".join(load_text(path)))
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path}: not a TOML file: {problem}") from None
    if not rules or set(rules) - {*KEYS}:
        other = next((key for key in rules if key not in KEYS), "nothing")
        raise ValueError(f"{path}: expected rules such as {RULES} (keys: {', '.join(KEYS)}), got {other}")
    return rules


@contextmanager
def rules_named(path: str | None) -> Iterator[None]:
    """Errors about rules begin with their file, and the line of a label that the model does not have."""
    try:
        yield
    except (ValueError, TypeError) as problem:
        told = str(problem)
        if path is None or path in SCHEMES or not told.startswith("transitions: "):
            raise
        line = ""
        if isinstance(problem, UnknownLabel):
            found = [i for i, text in enumerate(load_text(path), 1) if f'"{problem.name}"' in text]
            line = f", line {found[0]}" if found else ""
        raise ValueError(f"{path}{line}: {told.removeprefix('transitions: ')}") from None
