"""Pages of wrong things: an entry a line, and below it, indented, what is said of it. Comments begin with #."""

from __future__ import annotations

from importlib import resources

__all__ = ["entries"]


def entries(page: str) -> list[tuple[str, str]]:
    """The entries of a page in this folder, each with what is said."""
    lines = resources.files("conformance.specimens").joinpath(page).read_text("utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    return [(entry, message[2:]) for entry, message in zip(lines[::2], lines[1::2], strict=True)]
