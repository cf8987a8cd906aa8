"""Answers that are plain NumPy numbers, checked at once; the reference's functions take all others."""

from __future__ import annotations

import numpy as np

import reference.structures.base as reference
from accelerated.mirror import mirrors
from reference.arrays import Array
from reference.structures.base import KBest

__all__ = ["feasible", "k_best"]


@mirrors(reference.feasible)
def feasible(value: Array, where: str) -> Array:
    if type(value) is np.ndarray and (value.item() > -np.inf if value.ndim == 0 else (value > -np.inf).all()):
        return value
    return reference.feasible(value, where)


@mirrors(reference.k_best)
def k_best(scores: Array, labels: Array, k: int) -> KBest:
    if type(scores) is np.ndarray and scores.shape == (k,) and scores.item(k - 1) > -np.inf:  # the last is the lowest
        return KBest(scores, labels, np.int64(k))
    if type(scores) is np.ndarray and scores.shape[-1] == k:
        count = (scores > -np.inf).sum(axis=-1)
        if (count == k).all():
            return KBest(scores, labels, count)
    return reference.k_best(scores, labels, k)
