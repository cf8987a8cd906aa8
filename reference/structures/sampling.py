"""Drawing whole outputs: random numbers from the host, and the choice that one of them makes among scores.

An output of a chain or a tree is drawn exactly, with no burn-in, where messages have been passed one way: position by
position, each given those before it. Branson et al. (2013) take such draws as the samples of a multi-sample update.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, integer

__all__ = ["choose", "generator", "uniforms"]


def generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """The random numbers of a run: a generator as it is, one of this seed, or one of the system's entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    try:
        return np.random.default_rng(integer("rng", rng, 0, None))  # seeds may be long
    except TypeError:
        raise TypeError(f"rng: expected an integer >= 0, a numpy.random.Generator or None, got {rng!r}") from None


def uniforms(rng: int | np.random.Generator | None, shape: tuple[int, ...], like: Array) -> Array:
    """Numbers in [0, 1), drawn on the host in float64, in the place and dtype of ``like``."""
    return Place.of(like).floats(generator(rng).random(shape))


def choose(logits: Array, uniform: Array) -> Array:
    """The index (...,) that a number in [0, 1] picks with probability proportional to exp(logits), (..., m): the
    inverse of the distribution function.

    The first index whose cumulative weight exceeds the share ``uniform`` of the whole; never one of weight 0, unless
    all are.
    """
    xp = array_namespace(logits)
    top = xp.max(logits, axis=-1, keepdims=True)
    weights = xp.exp(logits - xp.where(top > -xp.inf, top, xp.zeros_like(top)))
    below = xp.cumulative_sum(weights, axis=-1)
    whole = below[..., -1:]
    reached = (below > uniform[..., None] * whole) | (below >= whole)  # the share may be rounded up to the whole
    return xp.argmax(xp.astype(reached, xp.int64), axis=-1)
