"""Chunks (phrases, named entities) in sequences of labels, their precision, recall and F1 as the CoNLL scorer counts
them, and labels of one scheme as labels of another.

A label is ``O`` (outside) or a prefix and a type, such as ``B-NP``. Schemes are bio (also called IOB2), iob1, iobes,
bilou, bmes and bmewo (:mod:`reference.models.schemes`); prefixes may be lower-case. As no prefix has two meanings, one
set of rules reads them all, with L for E, M for I, and U and W for S. Between two successive tokens

    a chunk ends    if the first label is not O, and (it is E or S, or the second is O, B or S, or the types differ)
    a chunk begins  if the second label is not O, and (it is B or S, or the first is O, E or S, or the types differ)

So sequences that are invalid in a scheme are read, too. Naming a scheme only rejects prefixes that it does not have.
Source: Tjong Kim Sang and Buchholz (2000); the rules are those of the shared tasks' scorer, conlleval.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from reference.models.schemes import SCHEMES, Chunk, canonical, chunks_of, parts, written

MEANT = re.compile("[BI]-.+", re.IGNORECASE)
MISSPELT = re.compile("[BI][_.:/].+|.+[-_][BI]", re.IGNORECASE)  # beside O


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


def chunks(labels: Sequence[str], scheme: str | None = None) -> list[Chunk]:
    """The chunks of a sequence of labels, from left to right. ValueError for a label of none of the schemes, or not of
    the one that is given.

    Examples
    --------
    >>> chunks(["B-NP", "I-NP", "O", "I-VP", "B-VP"])
    [Chunk(type='NP', first=0, last=1), Chunk(type='VP', first=3, last=3), Chunk(type='VP', first=4, last=4)]
    """
    return chunks_of(labels, canonical("scheme", scheme), "labels", None)


def convert(labels: Sequence[str], source: str | None, target: str) -> list[str]:
    """The same chunks as labels of another scheme. A valid sequence, converted and converted back, is the same.

    Parameters
    ----------
    labels : sequence of n str
        A sequence that is invalid in its scheme is read as :func:`chunks` reads it, and the result is valid.
    source, target : "bio", "iob1", "iobes", "bilou", "bmes" or "bmewo", or another name of one, such as "IOB2"
        source None: any. ValueError for an unknown scheme, or a label that is not in it.

    Examples
    --------
    >>> convert(["B-NP", "I-NP", "O", "B-VP"], "bio", "bilou")
    ['B-NP', 'L-NP', 'O', 'U-VP']
    """
    target = canonical("target", str(target))
    return written(chunks_of(list(labels), canonical("source", source), "labels", None), labels, target)


def chunk_scores(
    truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]], scheme: str | None = None
) -> ChunkScores:
    """Precision, recall and F1 of the chunks of predicted labels. A chunk is right if first, last and type are right.

    Parameters
    ----------
    truth, guess : sequence of n sequences of str
        The labels (n_i,) of each sentence.
    scheme : str, optional
        The name of the only scheme whose labels are accepted.

    Returns
    -------
    ChunkScores
        precision = correct/found, recall = correct/expected, F1 = 2 precision recall / (precision + recall).

    Raises
    ------
    ValueError
        If sentences differ in number or lengths, or a label is not a chunk label (an ExampleError).
    """
    return scores_of(chunk_counts(truth, guess, scheme))


def chunk_counts(
    truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]], scheme: str | None = None
) -> ChunkCounts:
    """What :func:`chunk_scores` counts; counts of parts of the data add up to those of all."""
    if len(truth) != len(guess):
        raise ValueError(f"guess: expected the labels of {len(truth)} sentences, got {len(guess)}")
    scheme = canonical("scheme", scheme)
    counts = ChunkCounts(Counter(), Counter(), Counter())
    for i, (y, z) in enumerate(zip(truth, guess, strict=True)):
        if len(y) != len(z):
            raise ValueError(f"guess[{i}]: expected {len(y)} labels, got {len(z)}")
    every = [
        [chunks_of(y, scheme, name, i) for i, y in enumerate(Y)] for name, Y in (("truth", truth), ("guess", guess))
    ]
    for true, mine in zip(*every, strict=True):
        counts.correct.update(chunk.type for chunk in set(true) & set(mine))
        counts.predicted.update(chunk.type for chunk in mine)
        counts.expected.update(chunk.type for chunk in true)
    return counts


def scores_of(counts: ChunkCounts) -> ChunkScores:
    """The scores of counted chunks."""
    correct, predicted, expected = counts
    types = {kind: _scores(correct[kind], predicted[kind], expected[kind]) for kind in sorted(predicted | expected)}
    return _scores(correct.total(), predicted.total(), expected.total())._replace(types=types)


def is_chunk_label(label: str, scheme: str | None = None) -> bool:
    """Whether a label is O, or a prefix of the scheme (without one, of any) with or without a type."""
    return parts(label, canonical("scheme", scheme)) is not None


def mark_chunks(labels: Iterable[str]) -> bool:
    """Whether labels are meant to mark chunks, even if some are none: one is B or I with a type, or all are of one
    scheme and they are no bare letters that may as well be tags.
    """
    labels = frozenset(labels)
    if any(MEANT.fullmatch(label) or ("O" in labels and MISSPELT.fullmatch(label)) for label in labels):
        return True
    prefixes = {label.partition("-")[0].upper() for label in labels}
    one = any(prefixes <= {*"O", *scheme} for scheme in SCHEMES.values()) and all(map(is_chunk_label, labels))
    return one and (labels <= {*"OBIES"} or "B" in prefixes or any("-" in label for label in labels))


def _scores(correct: int, predicted: int, expected: int) -> ChunkScores:
    precision = correct / predicted if predicted else 0.0
    recall = correct / expected if expected else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return ChunkScores(precision, recall, f1, correct, predicted, expected, {})
