"""Answers of kernels for batches; those that are plain NumPy numbers are checked at once, others by the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.structures.base as reference
from accelerated.arrays import like
from accelerated.mirror import mirrors
from accelerated.threads import in_parallel
from reference.arrays import Array
from reference.structures.base import KBest

__all__ = ["feasible", "k_best", "of_batch"]


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


def of_batch(
    kernel: Callable[..., Any], pieces: list[tuple[int, int]], batch: Any, place: Array, *rooms: tuple[Any, ...]
) -> Any:
    """Answers (*batch, ...) beside ``place``: what kernel(lo, hi, *arrays) writes for each piece of the batch. A room
    (number, *shape) is an array (B, *shape), filled with the number before.
    """
    arrays = [np.full((math.prod(batch), *shape), number) for number, *shape in rooms]
    in_parallel(lambda lo, hi: kernel(lo, hi, *arrays), pieces)
    return tuple(like(x.reshape((*batch, *x.shape[1:])), place) for x in arrays)
