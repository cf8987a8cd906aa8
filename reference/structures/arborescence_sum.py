"""Sums over dependency trees by the matrix-tree theorem, without a subtraction: log-partition function, arc marginals, number of trees.

The sum over all trees of the product of their arcs' weights is a determinant (Tutte 1948; for dependency trees Koo et al. 2007, Smith and
Smith 2007, McDonald and Satta 2007). Elimination as Grassmann, Taksar and Heyman (1985) do it for Markov chains adds, multiplies and
divides positive numbers only, so that it can be done with logarithms, and no scores are too far apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, logsumexp
from reference.structures.arborescence_max import ArborescenceScores, host_values

__all__ = ["number_of_trees", "tree_partition"]


class Elimination(NamedTuple):
    """One token taken out of the graph.

    token; others (r,): the tokens left; columns (r + 1,): the root and these as heads; p (r + 1,): the share of each head of the token in
    its pivot; direct, through (r, r + 1): the share of each new weight that was there before, and that leads through the token.
    """

    token: int
    others: np.ndarray
    columns: np.ndarray
    p: np.ndarray
    direct: np.ndarray
    through: np.ndarray


def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    """mu times the log-partition function of dependency trees, and its gradient, the arc marginals (the exp oracle).

    mu log sum_y exp(score(y) / mu) = mu sum_k log S_k,  S_k = sum_h w_kh,  then  w_ih += w_ik w_kh / S_k  for all i, h but k

    Parameters
    ----------
    scores : ArborescenceScores
    mu : float
        Temperature > 0.
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array ()
        -inf where every tree uses a forbidden arc, nan where a score is nan or +inf.
    marginals : ArborescenceScores
        values (n, n + 1): the probability of each arc; rows sum to 1 up to rounding, 0 for own heads.

    Notes
    -----
    w = exp(scores / mu), kept as logarithms. The marginals are the derivative of these steps, taken backwards: the absolute error is some
    units of the last place of 1, so that one that is 0 or nearly so may come out as a tiny negative number. With a single root, S_k leaves
    the root out until the last token: then sum_y is sum_r w_r0 tau_r, tau_r being the weight of all trees of the tokens with root r.
    The token with the largest S_k goes first, so that a token that can only be the single root comes last. Time O(n^3), memory O(n^3).

    Source
    ------
    The matrix-tree theorem for the trees of Martins et al., section 4; Pillutla et al., Lemma 7 (ii).
    """
    place, values = Place.of(scores.values), host_values(scores)
    if not np.all(values < np.inf):
        return place.floats(np.nan), ArborescenceScores(place.floats(np.full(values.shape, np.nan)))
    shift = values.max(axis=1, initial=-np.inf)
    shift = np.where(shift > -np.inf, shift, 0.0)
    log_z, steps = eliminate((values - shift[:, None]) / mu, single_root)
    value = -np.inf if log_z == -np.inf else np.sum(shift) + mu * log_z
    return place.floats(value), ArborescenceScores(place.floats(backward(values.shape, steps)))


def eliminate(log_w: np.ndarray, single_root: bool) -> tuple[float, list[Elimination]]:
    """The log of the sum over trees, by taking out one token after another; (-inf, no steps) if there is no tree."""
    log_w, log_z = log_w.copy(), 0.0
    steps: list[Elimination] = []
    left = np.arange(len(log_w))
    while len(left):
        in_pivot = np.concatenate([[0], left + 1])[int(single_root and len(left) > 1) :]
        pivots = logsumexp(np, log_w[np.ix_(left, in_pivot)], axis=1)
        at = int(np.argmax(pivots))
        if pivots[at] == -np.inf:
            return -np.inf, []
        log_z += float(pivots[at])
        k, others = int(left[at]), np.delete(left, at)
        columns = np.concatenate([[0], others + 1])
        shares = log_w[k, columns] - pivots[at]
        p = np.where(np.isin(columns, in_pivot), np.exp(np.minimum(shares, 0.0)), 0.0)
        through = log_w[others, k + 1, None] + shares
        through[np.arange(len(others)), np.arange(len(others)) + 1] = -np.inf  # a loop is no part of a tree
        direct = log_w[np.ix_(others, columns)]
        total = np.logaddexp(direct, through)
        log_w[np.ix_(others, columns)] = total
        scale = np.where(total > -np.inf, total, 0.0)
        steps.append(Elimination(k, others, columns, p, np.exp(direct - scale), np.exp(through - scale)))
        left = others
    return log_z, steps


def backward(shape: tuple[int, ...], steps: list[Elimination]) -> np.ndarray:
    """The marginals (n, n + 1): tokens come back in reverse, and with them the arcs to and from them."""
    marginals = np.zeros(shape)
    for k, others, columns, p, direct, through in reversed(steps):
        by_way_of_k = marginals[np.ix_(others, columns)] * through
        marginals[np.ix_(others, columns)] *= direct
        marginals[others, k + 1] = by_way_of_k.sum(axis=1)
        marginals[k, columns] = by_way_of_k.sum(axis=0) + p * (1.0 - by_way_of_k.sum())
    return marginals


def number_of_trees(allowed: np.ndarray, single_root: bool) -> int:
    """How many trees have allowed arcs (n, n + 1) only, exactly: a determinant by Bareiss' elimination, in Python's integers.

    The matrix is the arcs' Laplacian; for a single root its first column becomes that of the root arcs (Koo et al. 2007).
    """
    n = len(allowed)
    arcs = allowed.astype(object) * 1
    a = [[-arcs[i, j + 1] for j in range(n)] for i in range(n)]
    for i in range(n):
        arcs[i, i + 1] = 0
        a[i][i] = sum(arcs[i, int(single_root) :])
        if single_root:
            a[i][0] = arcs[i, 0]
    before, sign = 1, 1
    for k in range(n):
        pivot = next((i for i in range(k, n) if a[i][k] != 0), None)
        if pivot is None:
            return 0
        if pivot != k:
            a[k], a[pivot], sign = a[pivot], a[k], -sign
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i][j] = (a[k][k] * a[i][j] - a[i][k] * a[k][j]) // before
        before = a[k][k]
    return sign * int(before)
