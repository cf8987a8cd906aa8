"""CoNLL-U: ten columns apart by tabs, comments that start with #, a line for each word and lines for what is none.

Source: https://universaldependencies.org/format.html. Ranges of words (1-2) and empty nodes (1.1) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CONLLU", "conllu_blocks", "is_conllu"]

CONLLU = ("id", "word", "lemma", "label", "xpos", "feats", "head", "deprel", "deps", "misc")  # label: UPOS
_WORD = re.compile(r"[1-9]\d*")
_OTHER = re.compile(r"[1-9]\d*-\d+|\d+\.\d+")  # ranges, empty nodes


def is_conllu(lines: Iterable[str]) -> bool:
    """Whether the first line that is neither empty nor a comment has ten columns, of which the first is a number."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(CONLLU) and bool(_WORD.fullmatch(cells[0]) or _OTHER.fullmatch(cells[0]))


def conllu_blocks(name: str, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[list[str]]]]:
    """Of numbered lines, the number of the first word's line and the columns of each word, of each sentence."""
    rows: list[list[str]] = []
    first = 0
    for number, line in [*lines, (0, "")]:
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if not line.strip():
            if rows:
                yield first, rows
            rows = []
        elif len(cells) != len(CONLLU) or not all(cells):
            got = f"{len(cells)} of them" if all(cells) else "an empty one"
            raise ValueError(
                f"{name}: line {number}: expected the 10 columns of CoNLL-U, apart by tabs, got {got}: {line!r:.80}"
            )
        elif _WORD.fullmatch(cells[0]):
            first = first if rows else number
            rows.append(cells)
            if int(cells[0]) != len(rows):
                raise ValueError(f"{name}: line {number}: expected word {len(rows)} of its sentence, got {cells[0]}")
        elif not _OTHER.fullmatch(cells[0]):
            raise ValueError(f"{name}: line {number}: expected the number of a word, got {cells[0]!r:.80}")
