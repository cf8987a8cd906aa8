"""CoNLL-U: a line for each word with ten columns separated by tabs, and comments that start with #.

Source: https://universaldependencies.org/format.html. Lines of ranges of words (1-2) and of empty nodes (1.1) are
skipped in reading and kept in writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CONLLU", "conllu_blocks", "is_conllu", "sentence_lines", "with_column"]

CONLLU = ("id", "word", "lemma", "label", "xpos", "feats", "head", "deprel", "deps", "misc")  # label: UPOS
_WORD = re.compile(r"[1-9]\d*")
_OTHER = re.compile(r"[1-9]\d*-\d+|\d+\.\d+")  # ranges, empty nodes


def is_conllu(lines: Iterable[str]) -> bool:
    """Whether the first line that is neither empty nor a comment has ten columns and begins with a number."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(CONLLU) and bool(_WORD.fullmatch(cells[0]) or _OTHER.fullmatch(cells[0]))


def conllu_blocks(name: str, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[list[int], list[list[str]]]]:
    """For each sentence of numbered lines: the numbers of its words' lines, and the columns of each word."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, line in [*lines, (0, "")]:
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if not line.strip():
            if rows:
                yield numbers, rows
            rows, numbers = [], []
        elif len(cells) != len(CONLLU) or not all(cells):
            got = f"{len(cells)} of them" if all(cells) else "an empty one"
            raise ValueError(
                f"{name}: line {number}: expected the 10 columns of CoNLL-U, apart by tabs, got {got}: {line!r:.80}"
            )
        elif _WORD.fullmatch(cells[0]):
            rows.append(cells)
            numbers.append(number)
            if int(cells[0]) != len(rows):
                raise ValueError(f"{name}: line {number}: expected word {len(rows)} of its sentence, got {cells[0]}")
        elif not _OTHER.fullmatch(cells[0]):
            raise ValueError(f"{name}: line {number}: expected the number of a word, got {cells[0]!r:.80}")


def sentence_lines(lines: Iterable[str], comment: str | None = None) -> Iterator[tuple[list[str], list[int]]]:
    """For each sentence: all its lines, including comments and empty nodes, and the indices of its words' lines.

    comment: a further prefix of comment lines, besides #.
    """
    block: list[str] = []
    places: list[int] = []
    for line in [*lines, ""]:
        if line.strip():
            if _WORD.fullmatch(line.partition("\t")[0]) and not (comment and line.startswith(comment)):
                places.append(len(block))
            block.append(line)
        elif places:
            yield block, places
            block, places = [], []


def with_column(
    lines: Sequence[str], places: Sequence[int], column: int, values: Sequence[str], comments: Sequence[str] = ()
) -> list[str]:
    """The lines of a sentence with new values in a column, one for each word.

    comments: lines to add below the sentence's comments.
    """
    changed = list(lines)
    for k, value in zip(places, values, strict=True):
        cells = changed[k].split("\t")
        changed[k] = "\t".join([*cells[:column], value, *cells[column + 1 :]])
    first = next(k for k, line in enumerate(lines) if not line.startswith("#"))
    return [*changed[:first], *comments, *changed[first:]]
