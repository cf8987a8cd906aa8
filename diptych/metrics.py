"""Scores of predicted sequences and boxes against the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diptych.chunks import chunk_scores
from reference.structures.boxes import iou

PUNCTUATION = frozenset(("``", "''", ",", ".", ":", ";"))  # tags that scores of parsers often leave out


def position_accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> float:
    """The share of positions with the right label, over all sequences of labels (n_i,); nan without positions.

    Raises ValueError if truth and guess differ in number or lengths.
    """
    _check(truth, guess)
    right = sum(int(np.sum(y == z)) for y, z in zip(truth, guess, strict=True))
    total = sum(len(y) for y in truth)
    return right / total if total else float("nan")


def attachment_score(
    truth: Sequence[np.ndarray], guess: Sequence[np.ndarray], tags: Sequence[Sequence[str]] | None = None
) -> float:
    """The share of tokens with the right head (UAS), over all sentences of heads (n_i,); nan without tokens.

    tags: the tags (n_i,) of each sentence; tokens whose tag is in PUNCTUATION are not counted. Raises ValueError if
    lengths differ.
    """
    if tags is None:
        return position_accuracy(truth, guess)
    _check(truth, tags)
    _check(truth, guess)
    words = [np.array([tag not in PUNCTUATION for tag in sentence], dtype=bool) for sentence in tags]
    return position_accuracy(*([y[w] for y, w in zip(heads, words, strict=True)] for heads in (truth, guess)))


def sequence_accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> float:
    """The share of sequences (n_i,) with every label right; nan without sequences.

    Raises ValueError if truth and guess differ in number or lengths.
    """
    _check(truth, guess)
    right = sum(bool(np.all(y == z)) for y, z in zip(truth, guess, strict=True))
    return right / len(truth) if len(truth) else float("nan")


def chunk_f1(truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]], scheme: str | None = None) -> float:
    """F1 of the chunks (named entities) in predicted labels (n_i,) of sentences; 0 without right ones.

    scheme: as in :func:`diptych.chunks.chunk_scores`, which also gives precision, recall and each type's scores. Raises
    ValueError as it does.
    """
    return chunk_scores(truth, guess, scheme).f1


def chunk_f1_scorer(estimator: Any, X: Any, y: Any, scheme: str | None = None) -> float:
    """:func:`chunk_f1` of a learner's predictions, for ``GridSearchCV(..., scoring=chunk_f1_scorer)`` and
    ``cross_val_score``; ``functools.partial`` sets the scheme.
    """
    return chunk_f1(y, estimator.predict(X), scheme)


def corloc(truth: np.ndarray, guess: np.ndarray, threshold: float = 0.5) -> float:
    """CorLoc: the share of images whose predicted box (n, 4) overlaps the true box (n, 4) by at least the threshold;
    nan without images.

    >>> corloc(np.array([[0, 0, 2, 2], [0, 0, 2, 2]]), np.array([[0, 0, 2, 1], [1, 0, 3, 2]]))
    0.5

    Raises ValueError if truth and guess differ in number. Source: Pillutla et al., section 7.1.2, "Evaluation Metric"
    (Deselaers et al. 2010). An overlap equal to the threshold counts, as in the development kit of Pascal VOC; the
    paper says above 0.5.
    """
    truth, guess = np.asarray(truth).reshape(-1, 4), np.asarray(guess).reshape(-1, 4)
    if len(truth) != len(guess):
        raise ValueError(f"guess: expected {len(truth)} boxes, one for each true one, got {len(guess)}")
    return float(np.mean(iou(guess, truth) >= threshold)) if len(truth) else float("nan")


def average_precision(
    truth: Sequence[np.ndarray], guess: Sequence[np.ndarray], confidence: Sequence[np.ndarray], threshold: float = 0.5
) -> float:
    """Average precision of Pascal VOC 2007: the mean over recalls r = 0, 0.1, ..., 1 of the best precision at recall r
    or more.

    Parameters
    ----------
    truth : for each image, its true boxes (k_i, 4); k_i may be 0
    guess : for each image, its predicted boxes (m_i, 4)
    confidence : for each image, (m_i,) numbers by which the predicted boxes of all images are ranked
        Highest first; of equals, the earlier comes first.
    threshold : float
        A predicted box is right if its overlap with its best true box of the image is at least this number, and no
        higher-ranked box has matched that true box.

    Returns
    -------
    float
        Between 0 and 1; nan if no image has a true box.

    Raises
    ------
    ValueError
        If numbers of images or of boxes differ, or a confidence is nan.

    Examples
    --------
    >>> one, other = np.array([[0, 0, 4, 4]]), np.array([[4, 4, 8, 8]])
    >>> average_precision([one, one], [one, other], [[0.3], [0.9]])  # right at rank 2: recall 1/2 at precision 1/2
    0.2727272727272727

    Source
    ------
    Everingham et al. (2010), sections 4.2 and 4.4, as Pillutla et al., section 7.1.2, use it.
    """
    if not len(truth) == len(guess) == len(confidence):
        raise ValueError(
            f"guess, confidence: expected {len(truth)}, one for each image, got {len(guess)}, {len(confidence)}"
        )
    true = [np.asarray(boxes).reshape(-1, 4) for boxes in truth]
    predicted = [np.asarray(boxes).reshape(-1, 4) for boxes in guess]
    score = [np.asarray(c, dtype=np.float64).reshape(-1) for c in confidence]
    for i, (boxes, c) in enumerate(zip(predicted, score, strict=True)):
        if len(boxes) != len(c) or np.any(np.isnan(c)):
            raise ValueError(
                f"confidence: image {i}: expected {len(boxes)} numbers, one for each box, got {c.tolist()}"
            )
    objects = sum(map(len, true))
    if objects == 0:
        return float("nan")
    ranked = sorted(((-c, i, j) for i, each in enumerate(score) for j, c in enumerate(each)), key=lambda x: x[0])
    matched: set[tuple[int, int]] = set()
    right = np.zeros(len(ranked), dtype=bool)
    for rank, (_, i, j) in enumerate(ranked):
        overlap = iou(true[i], predicted[i][j])
        if len(overlap) and overlap.max() >= threshold and (i, int(overlap.argmax())) not in matched:
            matched.add((i, int(overlap.argmax())))
            right[rank] = True
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    return float(np.mean([max(precision[10 * hits >= r * objects], default=0.0) for r in range(11)]))


def _check(truth: Sequence[np.ndarray], guess: Sequence[Sequence[str] | np.ndarray]) -> None:
    if len(truth) != len(guess) or any(len(y) != len(z) for y, z in zip(truth, guess, strict=True)):
        raise ValueError("truth and guess: expected as many sequences, of the same lengths")
