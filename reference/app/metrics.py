"""How well predicted sequences match the true ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["PUNCTUATION", "attachment_score", "position_accuracy", "sequence_accuracy"]

PUNCTUATION = frozenset(("``", "''", ",", ".", ":", ";"))  # tags of tokens that parsers are often not scored on


def position_accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> float:
    """Share of positions with the right label, over all sequences of labels (n_i,); nan without positions.

    Raises ValueError where truth and guess differ in number or lengths.
    """
    _check(truth, guess)
    right = sum(int(np.sum(y == z)) for y, z in zip(truth, guess, strict=True))
    total = sum(len(y) for y in truth)
    return right / total if total else float("nan")


def attachment_score(
    truth: Sequence[np.ndarray], guess: Sequence[np.ndarray], tags: Sequence[Sequence[str]] | None = None
) -> float:
    """Share of tokens with the right head (UAS), over all sentences of heads (n_i,); nan without tokens.

    Given ``tags`` (n_i,) of the tokens, those whose tag is in PUNCTUATION are not counted. Raises ValueError where lengths differ.
    """
    if tags is None:
        return position_accuracy(truth, guess)
    _check(truth, tags)
    _check(truth, guess)
    words = [np.array([tag not in PUNCTUATION for tag in of_one], dtype=bool) for of_one in tags]
    return position_accuracy(*([y[w] for y, w in zip(heads, words, strict=True)] for heads in (truth, guess)))


def sequence_accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> float:
    """Share of sequences (n_i,) with every label right; nan without sequences.

    Raises ValueError where truth and guess differ in number or lengths.
    """
    _check(truth, guess)
    right = sum(bool(np.all(y == z)) for y, z in zip(truth, guess, strict=True))
    return right / len(truth) if len(truth) else float("nan")


def _check(truth: Sequence[np.ndarray], guess: Sequence[Sequence[str] | np.ndarray]) -> None:
    if len(truth) != len(guess) or any(len(y) != len(z) for y, z in zip(truth, guess, strict=True)):
        raise ValueError("truth and guess: expected as many sequences, of the same lengths")
