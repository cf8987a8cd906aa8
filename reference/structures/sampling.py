"""Random numbers drawn on the host, and sampling of an index from unnormalised log-probabilities.

An output of a chain or a tree is drawn exactly and without burn-in: after one pass of messages each label is drawn
given the labels drawn before it. Branson et al. (2013) use such draws as the samples of a multi-sample update.
"""

from __future__ import annotations

import math

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, integer

__all__ = ["choose", "generator", "uniforms"]


def generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """A random generator: ``rng`` itself, a new one with this seed, or for None one with a seed from the system."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    try:
        return np.random.default_rng(integer("rng", rng, 0, None))  # seeds may be long
    except TypeError:
        raise TypeError(f"rng: expected an integer >= 0, a numpy.random.Generator or None, got {rng!r}") from None


def uniforms(rng: int | np.random.Generator | None, shape: tuple[int, ...], like: Array) -> Array:
    """Random numbers in [0, 1), drawn on the host in float64; namespace, dtype and device as ``like``."""
    return Place.of(like).floats(generator(rng).random(shape))


def choose(logits: Array, rows: Array | None, uniform: Array) -> Array:
    """The indices (..., size) at which distribution functions reach ``uniform`` (..., size), numbers in [0, 1].

    The probabilities of a row of ``logits`` (..., r, m) are proportional to its exp. ``rows`` (..., size) has the row
    of each number; None for logits (..., m), of one row. The result is the first index whose cumulative weight exceeds
    ``uniform`` times the total; its weight is not 0 unless all of the row are. It is found by bisection, in time and
    memory O(r m + size).
    """
    xp = array_namespace(logits)
    m = logits.shape[-1]
    rows = xp.zeros_like(uniform, dtype=xp.int64) if rows is None else rows
    top = xp.max(logits, axis=-1, keepdims=True)
    weights = xp.exp(logits - xp.where(top > -xp.inf, top, 0.0))
    cumulative = xp.cumulative_sum(weights, axis=-1)
    cumulative = xp.reshape(cumulative, (*uniform.shape[:-1], math.prod(cumulative.shape[uniform.ndim - 1 :])))
    total = xp.take_along_axis(cumulative, rows * m + (m - 1), axis=-1)
    first, last = xp.zeros_like(rows), xp.full_like(rows, m - 1)
    for _ in range((m - 1).bit_length()):
        middle = (first + last) // 2
        below = xp.take_along_axis(cumulative, rows * m + middle, axis=-1)
        reached = (below > uniform * total) | (below >= total)  # uniform * total may be rounded up to total
        first, last = xp.where(reached, first, middle + 1), xp.where(reached, middle, last)
    return last
