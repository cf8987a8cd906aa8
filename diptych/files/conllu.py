"""CoNLL-U: a line for each word with ten columns separated by tabs, and comments that start with #.

Source: https://universaldependencies.org/format.html. Lines of ranges of words (1-2) and of empty nodes (1.1) are
skipped in reading and kept in writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CONLLU", "conllu_blocks", "is_conllu"]

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
