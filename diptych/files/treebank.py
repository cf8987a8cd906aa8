"""Treebank files: sentences with tags and heads. Reads CoNLL-X, CoNLL-U and lines of word, tag, head; writes CoNLL-U.

CoNLL-X, CoNLL-U and CoNLL-U Plus are those of :mod:`diptych.files.conllu`. In lines of word, tag, head tabs separate
the columns and blank lines the sentences; lines that start with # are comments if they have no tab, or a blank after
the #. Heads are token numbers from 1; 0 is the root. Source: Nivre et al. (2016), "Universal Dependencies v1".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diptych.files.conllu import CONLLU, Block, conllu_blocks, conllu_columns
from diptych.files.sources import Source, Sourced
from diptych.files.text import lines_of
from reference.archives import MOST_BYTES, read_zip


class Sentence(NamedTuple):
    """A sentence of n tokens: a tuple of n strings for each column, "_" for a missing value.

    heads (n,) int64: 0 for the root, else a token from 1 to n; None if the file has none. block: the lines in the form
    of CoNLL-U, including comments, ranges and empty nodes, and source: the file and the line of each token; both None
    for a sentence that was not read from a file.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: np.ndarray | None
    lemmas: tuple[str, ...]
    coarse: tuple[str, ...]
    feats: tuple[str, ...]
    relations: tuple[str, ...]
    block: Block | None = None
    source: Source | None = None

    def fields(self) -> Sourced:
        """The features of the tokens, with their source, for ``ParsingModel.pack``.

        A missing lemma becomes the word in lower case, a missing coarse tag the first two letters of the tag.
        """
        lemmas = tuple(w.lower() if x == "_" else x for w, x in zip(self.words, self.lemmas, strict=True))
        coarse = tuple(t[:2] if x == "_" else x for t, x in zip(self.tags, self.coarse, strict=True))
        return Sourced({"word": self.words, "tag": self.tags, "lemma": lemmas, "coarse": coarse}, self.source)


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
        False: ignore heads and set them to None; lines of word, tag and CoNLL-U Plus without HEAD are read too.
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
    lines = lines_of(name, content, encoding)
    columns = conllu_columns(name, lines)
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if columns is None and first.count("\t") == len(CONLLU) - 1:
        columns = CONLLU
    if columns is None:
        blocks = _plain(name, lines, heads)
    else:
        missing = "" if {"label", "xpos"} & set(columns) else "UPOS (or XPOS)"
        missing = "HEAD" if heads and "head" not in columns else missing
        if missing:
            line = next(k for k, line in enumerate(lines, 1) if line.startswith("#") and "global.columns" in line)
            raise ValueError(f"{name}, line {line}: global.columns: no {missing}, which a treebank needs beside FORM")
        blocks = conllu_blocks(name, list(enumerate(lines, 1)), columns)
    end = "\r" if b"\r\n" in content else ""
    return [_sentence(name, block._replace(end=end), heads) for block in blocks]


_FORMS = {2: "word, tag", 3: "word, tag, head"}


def _plain(name: str, lines: list[str], heads: bool) -> list[Block]:
    """The sentences of lines of word, tag, head (or word, tag) as blocks of CoNLL-U."""
    kept, width, place = list[str](), 0, 0
    for number, line in enumerate(lines, 1):
        where, cells = f"{name}, line {number}", line.split("\t")
        if not line.strip() or (line.startswith("#") and (len(cells) == 1 or line[1:2] == " ")):
            kept.append(line)
            place = place if line.strip() else 0
            continue
        forms = [width] if width else [3] if heads else [2, 3]
        if len(cells) not in forms:
            wanted = " or ".join(f"{n} columns ({_FORMS[n]})" for n in forms)
            more = "" if width else f" or {len(CONLLU)} columns (CoNLL-X or CoNLL-U without # global.columns = ...)"
            raise ValueError(f"{where}: expected {wanted}{more} separated by tabs, got {len(cells)}: {line!r:.80}")
        if not all(cells):
            raise ValueError(f"{where}: expected something in each column, got {line!r:.80}")
        width, place = len(cells), place + 1
        word, tag, head = (*cells, "_")[:3]
        kept.append("\t".join([str(place), word, "_", "_", tag, "_", head, "_", "_", "_"]))
    return conllu_blocks(name, list(enumerate(kept, 1)))


def _sentence(name: str, block: Block, with_heads: bool) -> Sentence:
    """The words of a block as a sentence."""
    missing = ("_",) * len(block.words)
    cells = dict(zip(block.columns, zip(*block.rows, strict=True), strict=True))
    lemmas, coarse, tags, feats, heads, relations = (
        cells.get(column, missing) for column in ("lemma", "label", "xpos", "feats", "head", "deprel")
    )
    tags = tuple(c if t == "_" else t for t, c in zip(tags, coarse, strict=True))
    numbers = _heads(name, block, heads) if with_heads else None
    source = Source(name, block.numbers)
    return Sentence(cells["word"], tags, numbers, lemmas, coarse, feats, relations, block, source)


def _heads(name: str, block: Block, heads: tuple[str, ...]) -> np.ndarray | None:
    """Heads (n,), or None if all are missing. ValueError for a head that is neither another token nor 0."""
    if all(head == "_" for head in heads):
        return None
    n = len(heads)
    for k, (line, head) in enumerate(zip(block.numbers, heads, strict=True), 1):
        if not re.fullmatch(r"\d{1,9}", head) or int(head) > n:
            raise ValueError(f"{name}, line {line}: head: expected a token number in 0..{n}, got {head!r}")
        if int(head) == k:
            raise ValueError(f"{name}, line {line}: head: token {k} cannot be its own head")
    return np.array([int(head) for head in heads], np.int64)


def check_heads(sentences: Iterable[Sentence]) -> None:
    """Raise ValueError for a sentence without heads; the message names file and line."""
    for sentence in sentences:
        if sentence.heads is None:
            where = "a sentence" if sentence.source is None else sentence.source.at(None)
            raise ValueError(f"{where}: head: expected heads to learn from or to score, got none in the sentence")


def write_conllu(sentences: Iterable[Sentence], comments: Iterable[Sequence[str]] | None = None) -> Iterator[str]:
    """The lines of a CoNLL-U file, without line ends. A missing head is written as "_".

    A sentence with a ``block`` is written as there, with the sentence's heads and relations. comments: lines to add to
    the comments of each sentence.
    """
    for sentence, above in zip(sentences, itertools.repeat(()) if comments is None else comments, strict=False):
        heads = ["_"] * len(sentence.words) if sentence.heads is None else map(str, sentence.heads.tolist())
        block = sentence.block or _block(sentence)
        changes: dict[str, Sequence[str]] = {"head": list(heads)}
        if "deprel" in block.columns:
            changes["deprel"] = sentence.relations
        changed = block.changed(changes, above)
        yield from (line + block.end for line in changed)


def _block(sentence: Sentence) -> Block:
    """The lines of a sentence that was not read from a file, with "_" for heads and relations."""
    columns = (sentence.words, sentence.lemmas, sentence.coarse, sentence.tags, sentence.feats)
    rows = [(str(k), *token, "_", "_", "_", "_") for k, token in enumerate(zip(*columns, strict=True), 1)]
    return Block([], [*map("\t".join, rows), ""], list(range(len(rows))), CONLLU)
