"""Where examples were read, so that errors about them name file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from reference.example_errors import ExampleError


class Source(NamedTuple):
    """A file and the lines of an example's tokens; without lines, what the file calls the example."""

    file: str
    lines: Sequence[int] = ()
    name: str = ""

    def at(self, token: int | None) -> str:
        """The place of a token, or of the example, as errors begin: ``a.txt, line 3``."""
        if not len(self.lines):
            return ": ".join(part for part in (self.file, self.name) if part)
        return f"{self.file}, line {self.lines[min(token or 0, len(self.lines) - 1)]}"


class Sourced(dict[str, tuple[str, ...]]):
    """A sentence of a file: a tuple of strings for each column, and where it was read."""

    __slots__ = ("source",)

    def __init__(self, columns: Any, source: Source | None = None) -> None:
        super().__init__(columns)
        self.source = source


@contextmanager
def named(examples: Sequence[Any]) -> Iterator[None]:
    """Errors about one of these examples become a ValueError that names its ``source``: ``a.txt, line 3: ...``."""
    try:
        yield
    except ExampleError as problem:
        source = getattr(examples[problem.example], "source", None)
        if source is None:
            raise
        raise ValueError(f"{source.at(problem.position)}: {problem.problem}") from None
