"""Loaders: calls without arguments that any worker can make, and repeat, to read a partition.

A loader is a picklable object; called, it returns inputs X and outputs Y for the model's ``pack``. Nothing that a
worker read is lost with it, because another worker reads it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diptych.files.columns import load_columns
from reference.models.base import integer

__all__ = ["ColumnFile", "Loader", "Part", "column_parts"]

Loader = Callable[[], tuple[Any, Any]]


@dataclass(frozen=True)
class ColumnFile:
    """The sentences of a file of columns, with their labels.

    Parameters
    ----------
    path : str
        As :func:`diptych.files.columns.load_columns` takes it: a text file, or ``name.zip:member``.
    names : tuple of str, optional
        Names of the columns, "label" among them.
    """

    path: str
    names: tuple[str, ...] | None = None

    def __call__(self) -> tuple[list[Any], list[Any]]:
        sentences = load_columns(self.path, self.names)
        if sentences and "label" not in sentences[0]:
            raise ValueError(f"{self.path}: no column of labels, there are {', '.join(sentences[0])}")
        return sentences, [sentence["label"] for sentence in sentences]


@dataclass(frozen=True)
class Part:
    """Part number ``part`` of ``parts`` of what another loader reads: consecutive examples, sizes equal to within one.

    Each part reads the whole.
    """

    whole: Loader
    part: int
    parts: int

    def __post_init__(self) -> None:
        integer("parts", self.parts, 1)
        integer("part", self.part, 0, self.parts - 1)

    def __call__(self) -> tuple[Any, Any]:
        X, Y = self.whole()
        first, last = (len(Y) * (self.part + step) // self.parts for step in (0, 1))
        return X[first:last], Y[first:last]


def column_parts(paths: Sequence[str], parts: int = 1, names: Sequence[str] | None = None) -> list[Loader]:
    """Loaders of files of columns, each file in ``parts`` parts."""
    files = [ColumnFile(str(path), None if names is None else tuple(names)) for path in paths]
    return [Part(file, part, parts) if parts > 1 else file for file in files for part in range(parts)]
