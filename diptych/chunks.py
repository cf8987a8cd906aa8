"""Chunks (phrases, named entities) in sequences of labels, and their precision, recall and F1 as the CoNLL scorer
counts them.

A label is ``O`` (outside) or a prefix and a type, such as ``B-NP``. One set of rules reads the schemes BIO, also called
IOB2 (each chunk begins with B), IOB1 (B only directly after a chunk of the same type), and IOBES (E ends a chunk, S is
a chunk of one token). Between two successive tokens

    a chunk ends    if the first label is not O, and (it is E or S, or the second is O, B or S, or the types differ)
    a chunk begins  if the second label is not O, and (it is B or S, or the first is O, E or S, or the types differ)

Source: Tjong Kim Sang and Buchholz (2000); the rules are those of the shared tasks' scorer, conlleval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = [
    "Chunk",
    "ChunkCounts",
    "ChunkScores",
    "chunk_counts",
    "chunk_scores",
    "chunks",
    "is_chunk_label",
    "scores_of",
]


class Chunk(NamedTuple):
    """A type ("" for labels without a type), and the first and the last token of the chunk."""

    type: str
    first: int
    last: int


class ChunkScores(NamedTuple):
    """Shares in 0..1 (0 instead of 0/0), counts of chunks, and the same for each type."""

    precision: float
    recall: float
    f1: float
    correct: int
    found: int
    expected: int
    types: dict[str, ChunkScores]


class ChunkCounts(NamedTuple):
    """Numbers of right, predicted and true chunks of each type."""

    correct: Counter[str]
    predicted: Counter[str]
    expected: Counter[str]

    def __add__(self, other: Any) -> ChunkCounts:
        return ChunkCounts(*(a + b for a, b in zip(self, other, strict=True)))


def chunks(labels: Sequence[str]) -> list[Chunk]:
    """The chunks of a sequence of labels, from left to right. ValueError for a label in none of the forms above.

    Examples
    --------
    >>> chunks(["B-NP", "I-NP", "O", "I-VP", "B-VP"])
    [Chunk(type='NP', first=0, last=1), Chunk(type='VP', first=3, last=3), Chunk(type='VP', first=4, last=4)]
    """
    result: list[Chunk] = []
    before, before_type, first = "O", "", 0
    for t, label in enumerate([*labels, "O"]):
        prefix, kind = _parts(label)
        differs = kind != before_type
        if before != "O" and (before in "ES" or prefix in "OBS" or differs):
            result.append(Chunk(before_type, first, t - 1))
        if prefix != "O" and (prefix in "BS" or before in "OES" or differs):
            first = t
        before, before_type = prefix, kind
    return result


def chunk_scores(truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> ChunkScores:
    """Precision, recall and F1 of the chunks of predicted labels. A chunk is right if first, last and type are right.

    Parameters
    ----------
    truth, guess : sequence of n sequences of str
        The labels (n_i,) of each sentence.

    Returns
    -------
    ChunkScores
        precision = correct/found, recall = correct/expected, F1 = 2 precision recall / (precision + recall).

    Raises
    ------
    ValueError
        If sentences differ in number or lengths, or a label is not a chunk label.
    """
    return scores_of(chunk_counts(truth, guess))


def chunk_counts(truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> ChunkCounts:
    """What :func:`chunk_scores` counts; counts of parts of the data add up to those of all."""
    if len(truth) != len(guess):
        raise ValueError(f"guess: expected the labels of {len(truth)} sentences, got {len(guess)}")
    counts = ChunkCounts(Counter(), Counter(), Counter())
    for i, (y, z) in enumerate(zip(truth, guess, strict=True)):
        if len(y) != len(z):
            raise ValueError(f"guess[{i}]: expected {len(y)} labels, got {len(z)}")
        true, mine = chunks(y), chunks(z)
        counts.correct.update(chunk.type for chunk in set(true) & set(mine))
        counts.predicted.update(chunk.type for chunk in mine)
        counts.expected.update(chunk.type for chunk in true)
    return counts


def scores_of(counts: ChunkCounts) -> ChunkScores:
    """The scores of counted chunks."""
    correct, predicted, expected = counts
    types = {kind: _scores(correct[kind], predicted[kind], expected[kind]) for kind in sorted(predicted | expected)}
    return _scores(correct.total(), predicted.total(), expected.total())._replace(types=types)


def is_chunk_label(label: str) -> bool:
    """Whether a label is O, or B, I, E or S with or without a type."""
    try:
        _parts(label)
    except ValueError:
        return False
    return True


def _parts(label: str) -> tuple[str, str]:
    """Prefix and type of a label; the type follows the first hyphen."""
    prefix, _, kind = label.partition("-")
    if prefix not in ("B", "I", "E", "S", "O") or (prefix == "O" and label != "O"):
        raise ValueError(f"labels: expected O, or B, I, E or S with a type, such as B-NP, got {label!r}")
    return prefix, kind


def _scores(correct: int, predicted: int, expected: int) -> ChunkScores:
    precision = correct / predicted if predicted else 0.0
    recall = correct / expected if expected else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return ChunkScores(precision, recall, f1, correct, predicted, expected, {})
