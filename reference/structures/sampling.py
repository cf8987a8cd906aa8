"""Random numbers drawn on the host, and sampling of an index from unnormalised log-probabilities.

An output of a chain or a tree is drawn exactly and without burn-in: after one pass of messages each label is drawn
given the labels drawn before it. Branson et al. (2013) use such draws as the samples of a multi-sample update.
"""

from __future__ import annotations

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


def choose(logits: Array, uniform: Array) -> Array:
    """The index (...,) at which the distribution function reaches ``uniform``, a number in [0, 1].

    Probabilities are proportional to exp(logits), (..., m). The result is the first index whose cumulative weight
    exceeds ``uniform`` times the total; its weight is not 0 unless all weights are.
    """
    xp = array_namespace(logits)
    top = xp.max(logits, axis=-1, keepdims=True)
    weights = xp.exp(logits - xp.where(top > -xp.inf, top, xp.zeros_like(top)))
    cumulative = xp.cumulative_sum(weights, axis=-1)
    total = cumulative[..., -1:]
    reached = (cumulative > uniform[..., None] * total) | (
        cumulative >= total
    )  # uniform * total may be rounded up to total
    return xp.argmax(xp.astype(reached, xp.int64), axis=-1)
