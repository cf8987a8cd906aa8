"""Dependency trees drawn from their Gibbs distribution: head after head, by its marginals given the heads before it.

The order is that of a loop-erased random walk (Wilson 1996): branch after branch, each from its first token without a
head to where it meets the tree so far.
"""

from __future__ import annotations

import numpy as np

from reference.arrays import Array, Place, host
from reference.structures.arborescence_max import ArborescenceScores, sentences
from reference.structures.arborescence_sum import sum_over_trees
from reference.structures.sampling import choose

__all__ = ["sample"]

NO_MORE = 1e-13  # marginals up to this may be rounding


def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    """Independent dependency trees of each sentence, drawn exactly with probability exp(score(y) / mu) / Z.

    P(y) = prod_v P(y_v | the heads drawn before v's)

    Here v is the last token of a branch, which grows from the first token without a head until it meets the tree. With
    a single root, the token below it is drawn first.

    Parameters
    ----------
    scores : ArborescenceScores
    uniforms : array (..., size, n + 1)
        Independent random numbers in [0, 1); [..., s, m] determines the head of token m in sample s, [..., s, 0] the
        token below a single root.
    mu : float > 0
        Temperature.
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf if every tree has a forbidden arc.
    heads : int64 array (..., size, n)
        0 for the root, m for token m; -1 past a sentence's length, and all -1 if there is no tree.

    Notes
    -----
    Time at most O(n^4) per sample: the marginals of n sums over trees, which samples share while their arcs agree.
    Scores may differ by any amount, and an arc that no tree has is never drawn. Scores may be up to 1e300 mu in
    absolute value.

    Source
    ------
    Wilson (1996), "Generating random spanning trees more quickly than the cover time", for the order of the tokens.
    Branson et al., section 1.2, use such samples in an update.
    """
    place, numbers = Place.of(scores.values), host(uniforms).astype(np.float64)
    value, heads = np.zeros(numbers.shape[:-2]), np.full((*numbers.shape[:-1], numbers.shape[-1] - 1), -1)
    for b, values in sentences(scores):
        n = len(values)
        value[b], heads[b][:, :n] = sample_trees(values, numbers[b][:, : n + 1], mu, single_root)
    return place.floats(value), place.integers(heads)


def sample_trees(values: np.ndarray, numbers: np.ndarray, mu: float, single_root: bool) -> tuple[float, np.ndarray]:
    """mu log Z of one sentence, and heads (size, n) by the numbers (size, n + 1)."""
    n, heads = len(values), np.full((len(numbers), len(values)), -1)
    value, _ = sum_over_trees(values, mu, single_root)
    # draws of the same heads so far (-1: not drawn); and the token whose head is next, 0: that below a single root
    waiting = [(np.arange(len(numbers)), np.full(n, -1), int(not single_root))] if n and value > -np.inf else []
    while waiting:
        draws, given, token = waiting.pop()
        others = (given >= 0)[:, None] & (np.arange(n + 1) != given[:, None])
        marginals = np.asarray(sum_over_trees(np.where(others, -np.inf, values), mu, single_root)[1])
        p = marginals[token - 1] if token else marginals[:, 0]
        chosen = choose(np.log(p, where=p > NO_MORE, out=np.full(len(p), -np.inf)), None, numbers[draws, token])
        for place in np.unique(chosen):
            own, (m, h) = given.copy(), (token - 1, place) if token else (place, 0)
            own[m] = h
            free = np.flatnonzero(own < 0)
            if len(free) == 0:
                heads[draws[chosen == place]] = own
            else:
                above = int(h) if h > 0 and own[h - 1] < 0 else int(free[0]) + 1
                waiting.append((draws[chosen == place], own, above))
    return value, heads
