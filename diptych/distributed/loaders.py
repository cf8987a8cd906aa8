"""Loaders: calls without arguments that any worker can make, and repeat, to read a partition.

A loader is a picklable object; called, it returns inputs X and outputs Y for the model's ``pack``. Nothing that a
worker read is lost with it, because another worker reads it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diptych.files.columns import Layout, load_part
from diptych.files.sequences import load_sequences
from diptych.files.treebank import load_treebank
from reference.datasets import load_letters
from reference.models.base import integer

__all__ = ["ColumnFile", "Loader", "Part", "SequenceFile", "TreebankFile", "column_parts", "parts_of"]

Loader = Callable[[], tuple[Any, Any]]
AS_IT_LOOKS = Layout()


@dataclass(frozen=True)
class ColumnFile:
    """The sentences of a file of columns or of CoNLL-U, or of a part of it, with their labels.

    Parameters
    ----------
    path : str
        As :func:`diptych.files.columns.load_columns` takes it: a text file, or ``name.zip:member``.
    layout : Layout
        Names of the columns, "label" among them, form and comments; default: as the file looks.
    part, parts : int
        Part number ``part`` of ``parts``, about as many lines each.
    """

    path: str
    layout: Layout = AS_IT_LOOKS
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        integer("parts", self.parts, 1)
        integer("part", self.part, 0, self.parts - 1)

    def __call__(self) -> tuple[list[Any], list[Any]]:
        _, sentences = load_part(self.path, self.layout, self.part, self.parts)
        if sentences and "label" not in sentences[0]:
            raise ValueError(f"{self.path}: no column of labels, there are {', '.join(sentences[0])}")
        return sentences, [sentence["label"] for sentence in sentences]


@dataclass(frozen=True)
class SequenceFile:
    """The sequences of an ``.npz`` file (:mod:`diptych.files.sequences`), or the letters of the package."""

    path: str

    def __call__(self) -> tuple[list[Any], list[Any]]:
        data = load_letters() if self.path == "letters" else load_sequences(self.path)
        return data.X, data.Y


@dataclass(frozen=True)
class TreebankFile:
    """The sentences of a treebank (:mod:`diptych.files.treebank`), with their heads."""

    path: str

    def __call__(self) -> tuple[list[Any], list[Any]]:
        sentences = load_treebank(self.path)
        return [sentence.fields() for sentence in sentences], [sentence.heads for sentence in sentences]


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


def column_parts(paths: Sequence[str], parts: int = 1, layout: Layout | Sequence[str] = AS_IT_LOOKS) -> list[Loader]:
    """Loaders of files of columns, each file in ``parts`` parts; layout: a Layout, or the names of the columns."""
    how = layout if isinstance(layout, Layout) else Layout(tuple(layout))
    return [ColumnFile(str(path), how, part, parts) for path in paths for part in range(parts)]


def parts_of(files: Sequence[Loader], parts: int) -> list[Loader]:
    """Each of these loaders in ``parts`` parts."""
    return [Part(file, part, parts) if parts > 1 else file for file in files for part in range(parts)]
