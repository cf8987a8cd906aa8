"""Treebank files: sentences with tags and heads. Reads CoNLL-X, CoNLL-U and lines of word, tag, head; writes CoNLL-U.

Blank lines separate sentences, each line is a token, and tabs separate its columns. Ten columns are CoNLL (ID, FORM,
LEMMA, UPOS or CPOSTAG, XPOS or POSTAG, FEATS, HEAD, DEPREL and two more), three are word, tag, head. Heads are token
numbers from 1; 0 is the root. Sources: Buchholz and Marsi (2006), "CoNLL-X shared task"; Nivre et al. (2016),
"Universal Dependencies v1".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diptych.files.text import lines_of
from reference.archives import MOST_BYTES, read_zip

__all__ = ["Sentence", "load_treebank", "read_sentences", "write_conllu"]


class Sentence(NamedTuple):
    """A sentence of n tokens: a tuple of n strings for each column, "_" for a missing value.

    heads (n,) int64: 0 for the root, else a token from 1 to n; None if the file has none. comments: the comment lines,
    unchanged. rows: the ten columns of each line of the file, including ranges and empty nodes; () for a sentence that
    was not read from a file.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: np.ndarray | None
    lemmas: tuple[str, ...]
    coarse: tuple[str, ...]
    feats: tuple[str, ...]
    relations: tuple[str, ...]
    comments: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def fields(self) -> dict[str, tuple[str, ...]]:
        """The features of the tokens, for ``ParsingModel.pack``.

        A missing lemma becomes the word in lower case, a missing coarse tag the first two letters of the tag.
        """
        lemmas = tuple(w.lower() if x == "_" else x for w, x in zip(self.words, self.lemmas, strict=True))
        coarse = tuple(t[:2] if x == "_" else x for t, x in zip(self.tags, self.coarse, strict=True))
        return {"word": self.words, "tag": self.tags, "lemma": lemmas, "coarse": coarse}


def load_treebank(
    path: str, *, heads: bool = True, encoding: str | None = None, most_bytes: int = MOST_BYTES
) -> list[Sentence]:
    """The sentences of a file, or of the files in a zip, in the order of their names.

    Parameters
    ----------
    path : str
        A file of one of the forms above, or a zip of such files. ``name.zip:1-160`` is the first 160 of its files,
        ``name.zip:7`` the seventh, ``name.zip:member`` the file of that full name, or of a name with that end after a
        slash. "sentences": the forty short English sentences that come with the package, four of them not projective.
    heads : bool
        False: ignore heads and set them to None; lines of word, tag are read too.
    encoding : str, optional
        As :func:`diptych.files.text.lines_of` takes it.
    most_bytes : int
        Maximum total size of the selected files of a zip (see :mod:`reference.archives`), which are stored or deflated.

    Returns
    -------
    list of Sentence

    Raises
    ------
    ValueError
        A missing file or member, or an invalid line. The message names the file and the line.
    """
    if path == "sentences":
        content = (resources.files("diptych.files") / "samples" / "sentences.conllu").read_bytes()
        return read_sentences(path, content, heads=heads)
    part = re.fullmatch(r"(.*?\.zip)(?::(.*))?", path, re.IGNORECASE)
    name = part[1] if part else path
    if not Path(name).is_file():
        missing = "no such file (the sentences that come with diptych are called sentences)"
        raise ValueError(f"{name}: {'is a folder' if Path(name).is_dir() else missing}")
    if part is None:
        return read_sentences(path, Path(path).read_bytes(), heads=heads, encoding=encoding)
    sentences: list[Sentence] = []
    for member, content in read_zip(name, choose=lambda held: _chosen(path, held, part[2]), most_bytes=most_bytes):
        sentences += read_sentences(f"{Path(name).name}/{member}", content, heads=heads, encoding=encoding)
    return sentences


def _chosen(path: str, held: list[str], part: str | None) -> list[str]:
    """The files of a zip that the part after its name selects."""
    files = sorted(name for name in held if not name.endswith(("/", "README")))
    if part is None:
        return files
    bounds = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
    if bounds:
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if not 1 <= first <= last <= len(files):
            raise ValueError(f"{path}: expected files in 1-{len(files)}, got {part}")
        return files[first - 1 : last]
    matches = [f for f in files if f == part or f.endswith(f"/{part}")]
    if len(matches) != 1:
        expected = f"a range of its {len(files)} files, such as 1-{len(files)}, or the number or the name of one"
        expected += f", such as {files[0]}" if files else ""
        raise ValueError(f"{path}: expected {expected}; {'several are' if matches else 'none is'} called {part!r}")
    return matches


def read_sentences(name: str, content: bytes, *, heads: bool = True, encoding: str | None = None) -> list[Sentence]:
    """The sentences of a file's content, as in :func:`load_treebank`; ``name`` is its name in error messages."""
    forms = (3, 10) if heads else (2, 3, 10)
    lines = lines_of(name, content, encoding)
    sentences: list[Sentence] = []
    comments: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#") and "\t" not in line and not rows:
            comments.append(line)
        elif line.strip():
            rows.append((number, _columns(f"{name}: line {number}", line, rows, forms)))
        elif rows:
            sentences.append(_sentence(name, rows, tuple(comments), heads))
            comments, rows = [], []
    return sentences


def _columns(where: str, line: str, rows: list[tuple[int, list[str]]], forms: tuple[int, ...]) -> list[str]:
    """The columns of a line. ValueError unless there are as many as in the lines above."""
    columns = line.split("\t")
    expected = (len(rows[0][1]),) if rows else forms
    if len(columns) not in expected:
        wanted = " or ".join(f"{n} columns ({_FORMS[n]})" for n in expected)
        raise ValueError(f"{where}: expected {wanted} apart by tabs, got {len(columns)}: {line!r:.80}")
    if not all(columns):
        raise ValueError(f"{where}: expected something in each column, got {line!r:.80}")
    return columns


_FORMS = {2: "word, tag", 3: "word, tag, head", 10: "CoNLL-X or CoNLL-U"}


def _sentence(name: str, rows: list[tuple[int, list[str]]], comments: tuple[str, ...], with_heads: bool) -> Sentence:
    """The lines of a block as a sentence. Ranges of tokens (3-4) and empty nodes (3.1) appear only in its ``rows``."""
    if len(rows[0][1]) < 10:
        numbered = enumerate(rows, 1)
        rows = [(n, [str(k), w, "_", "_", t, "_", *(h or "_"), "_", "_", "_"]) for k, (n, (w, t, *h)) in numbered]
    kept = tuple(tuple(columns) for _, columns in rows)
    rows = [(line, columns) for line, columns in rows if not re.fullmatch(r"\d+[-.]\d+", columns[0])]
    for k, (line, columns) in enumerate(rows, 1):
        if columns[0] != str(k):
            raise ValueError(f"{name}: line {line}: expected token number {k}, got {columns[0]!r}")
    if not rows:
        raise ValueError(f"{name}: a sentence without tokens")
    _, words, lemmas, coarse, tags, feats, heads, relations, *_ = zip(*(c for _, c in rows), strict=True)
    tags = tuple(c if t == "_" else t for t, c in zip(tags, coarse, strict=True))
    numbers = _heads(name, rows, heads) if with_heads else None
    return Sentence(words, tags, numbers, lemmas, coarse, feats, relations, comments, kept)


def _heads(name: str, rows: list[tuple[int, list[str]]], heads: tuple[str, ...]) -> np.ndarray | None:
    """Heads (n,), or None if all are missing. ValueError for a head that is neither another token nor 0."""
    if all(head == "_" for head in heads):
        return None
    n = len(rows)
    for k, ((line, _), head) in enumerate(zip(rows, heads, strict=True), 1):
        if not re.fullmatch(r"\d{1,9}", head) or int(head) > n:
            raise ValueError(f"{name}: line {line}: head: expected a token number in 0..{n}, got {head!r}")
        if int(head) == k:
            raise ValueError(f"{name}: line {line}: head: token {k} cannot be its own head")
    return np.array([int(head) for head in heads], np.int64)


def write_conllu(sentences: Iterable[Sentence]) -> Iterator[str]:
    """The lines of a CoNLL-U file, without line ends. A missing head is written as "_".

    For a sentence with ``rows`` these are written, with the sentence's heads and relations.
    """
    for sentence in sentences:
        yield from sentence.comments
        heads = ["_"] * len(sentence.words) if sentence.heads is None else sentence.heads.tolist()
        arcs = zip(map(str, heads), sentence.relations, strict=True)
        for row in sentence.rows or _rows(sentence):
            arc = next(arcs) if row[0].isdecimal() else row[6:8]
            yield "\t".join([*row[:6], *arc, *row[8:]])
        yield ""


def _rows(sentence: Sentence) -> Iterator[tuple[str, ...]]:
    """The ten columns of each token, with "_" for heads and relations."""
    columns = (sentence.words, sentence.lemmas, sentence.coarse, sentence.tags, sentence.feats)
    for k, token in enumerate(zip(*columns, strict=True), 1):
        yield (str(k), *token, "_", "_", "_", "_")
