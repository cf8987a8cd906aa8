"""Loaders: picklable callables without arguments that read a partition.

A call returns inputs X and outputs Y for the model's ``pack``, or packed data. Any worker can call a loader, and call
it again. So if a worker is lost, another one reads its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diptych.files.columns import Layout, load_tokens, refuse_comments
from diptych.files.sequences import numbered, read_sequences, relabelled
from diptych.files.treebank import check_heads, load_treebank
from reference.archives import MOST_BYTES
from reference.datasets import Sequences, load_letters
from reference.models.base import integer

Loader = Callable[[], Any]
AS_IT_LOOKS = Layout()


@dataclass(frozen=True)
class ColumnFile:
    """The sentences of a column file or a CoNLL-U file, or of a part of it, with their labels.

    Parameters
    ----------
    path : str
        As :func:`diptych.files.columns.load_columns` takes it: a text file, or ``name.zip:member``.
    layout : Layout
        Names of the columns, "label" among them, form and comments. Default: inferred from the file.
    part, parts : int
        Part number ``part`` of ``parts`` parts with about the same number of lines.
    most_bytes : int
        Maximum size of a file inside a zip.
    """

    path: str
    layout: Layout = AS_IT_LOOKS
    part: int = 0
    parts: int = 1
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        integer("parts", self.parts, 1)
        integer("part", self.part, 0, self.parts - 1)

    def __call__(self) -> tuple[list[Any], list[Any]]:
        found = load_tokens(self.path, self.layout, self.part, self.parts, most_bytes=self.most_bytes)
        sentences = found.sentences
        if sentences and "label" not in sentences[0]:
            raise ValueError(f"{self.path}: no column of labels, there are {', '.join(sentences[0])}")
        if found.layout.form == "columns":
            refuse_comments(self.path, found)
        return sentences, [sentence["label"] for sentence in sentences]


@dataclass(frozen=True)
class SequenceFile:
    """The sequences of an ``.npz`` file (:mod:`diptych.files.sequences`), or the letters of the package.

    Parameters
    ----------
    path : str
        The file, or "letters".
    labels : tuple of str, optional
        The names of labels 0, 1, ... in the result. Files may number labels differently. Default: the file's names.
    most_bytes : int
        Maximum size of a compressed file when unpacked.
    """

    path: str
    labels: tuple[str, ...] | None = None
    most_bytes: int = MOST_BYTES

    def load(self) -> Sequences:
        """The file's sequences, with its own labels."""
        return load_letters() if self.path == "letters" else read_sequences(self.path, most_bytes=self.most_bytes)

    def __call__(self) -> tuple[list[Any], list[Any]]:
        data = self.load()
        if self.labels is None and (others := numbered(data.labels)):  # other files may number theirs otherwise
            raise ValueError(f"{self.path}: {others}: give SequenceFile the labels of the model")
        if self.labels is not None:
            data = relabelled(self.path, data, self.labels)
        return data.X, data.Y


@dataclass(frozen=True)
class TreebankFile:
    """The sentences of a treebank (:mod:`diptych.files.treebank`), with their heads.

    Parameters
    ----------
    path : str
        As :func:`diptych.files.treebank.load_treebank` takes it.
    most_bytes : int
        Maximum total size of the files of a zip.
    encoding : str, optional
        Of the text.
    """

    path: str
    most_bytes: int = MOST_BYTES
    encoding: str | None = None

    def __call__(self) -> tuple[list[Any], list[Any]]:
        sentences = load_treebank(self.path, encoding=self.encoding, most_bytes=self.most_bytes)
        check_heads(sentences)
        return [sentence.fields() for sentence in sentences], [sentence.heads for sentence in sentences]


@dataclass(frozen=True)
class Part:
    """Part number ``part`` of ``parts`` parts of another loader's examples.

    The examples of a part are consecutive. Sizes of parts differ by at most one. Each part reads all examples.
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


def column_parts(
    paths: Sequence[str],
    parts: int = 1,
    layout: Layout | Sequence[str] = AS_IT_LOOKS,
    *,
    most_bytes: int = MOST_BYTES,
) -> list[Loader]:
    """Loaders of column files, each file in ``parts`` parts. layout: a Layout, or the names of the columns."""
    how = layout if isinstance(layout, Layout) else Layout(tuple(layout))
    return [ColumnFile(str(path), how, part, parts, most_bytes) for path in paths for part in range(parts)]


def parts_of(files: Sequence[Loader], parts: Sequence[int]) -> list[Loader]:
    """Loaders of the parts of other loaders. parts: the number of parts of each."""
    each = zip(files, parts, strict=True)
    return [Part(file, part, many) if many > 1 else file for file, many in each for part in range(many)]
