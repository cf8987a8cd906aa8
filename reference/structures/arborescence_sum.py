"""Sums over dependency trees by the matrix-tree theorem: log-partition function, arc marginals, number of trees.

The sum over all trees of the product of their arc weights is a determinant (Tutte 1948; for dependency trees Koo et al.
2007, Smith and Smith 2007, McDonald and Satta 2007). Elimination in the form of Grassmann, Taksar and Heyman (1985) for
Markov chains only adds, multiplies and divides positive numbers, so it works with logarithms. Logarithms are Python
integers, multiples of 1 / ONE. A product of weights is then exact, and nearly equal scores of 1e300 are distinguished.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place
from reference.structures.arborescence_max import ArborescenceScores, sentences

__all__ = ["number_of_trees", "tree_partition"]

ONE = 2**58  # represents the logarithm 1; logarithms of numbers up to e^31 fit int64
NOTHING = 1000  # exp(-NOTHING) counts as 0


class Elimination(NamedTuple):
    """The elimination of one token from the graph.

    token; others (r,): the remaining tokens; columns (r + 1,): their heads, the root and the remaining tokens;
    p (r + 1,): the share of each head of the token in its pivot; direct, through (r, r + 1): the shares of the old
    weight and of the path through the token in each new weight.
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
    """mu times the log-partition function of each sentence's dependency trees, and its gradient, the arc marginals (the
    exp oracle).

    mu log sum_y exp(score(y) / mu) = mu sum_k log S_k,   S_k = sum_h w_kh,
    then  w_ih += w_ik w_kh / S_k  for all i, h other than k

    Parameters
    ----------
    scores : ArborescenceScores
    mu : float > 0
        Temperature.
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array (...,)
        -inf if every tree has a forbidden arc, nan if a score is nan or +inf.
    marginals : ArborescenceScores
        values (..., n, n + 1): the probability of each arc, in [0, 1]; rows sum to 1 up to rounding;
        values[..., m, m + 1] is 0, as are rows and columns past a sentence's length.

    Notes
    -----
    Time O(n^3), memory O(n^3). The weights w = exp(scores / mu) are stored as logarithms. The marginals are the
    derivative of these steps by back-propagation; their absolute error is a few machine epsilons for any size of the
    scores and of mu. With a single root, S_k excludes the root until the last token. The sum over y is then
    sum_r w_r0 tau_r, where tau_r is the weight of all trees of the tokens with root r. The token with the largest S_k
    is eliminated first, so a token whose only possible head is the root comes last.

    Source
    ------
    The matrix-tree theorem for the trees of Martins et al., section 4; Pillutla et al., Lemma 7 (ii).
    """
    place = Place.of(scores.values)
    value, marginals = np.zeros(scores.values.shape[:-2]), np.zeros(scores.values.shape)
    for b, values in sentences(scores):
        n = len(values)
        value[b], marginals[b][:n, : n + 1] = sum_over_trees(values, mu, single_root)
    return place.floats(value), scores._replace(values=place.floats(marginals))


def sum_over_trees(values: np.ndarray, mu: float, single_root: bool) -> tuple[float, np.ndarray | float]:
    """The log-partition function of one sentence, and its marginals (n, n + 1); 0 if there is no tree."""
    if not np.all(values < np.inf):
        return np.nan, np.nan
    tops = values.max(axis=1, initial=-np.inf)
    if np.any(tops == -np.inf):
        return -np.inf, 0.0
    log_w, least = logarithms(values, tops, mu)
    log_z, steps = eliminate(log_w, single_root)
    if log_z < least:
        return -np.inf, 0.0
    value = sum(map(Fraction, tops.tolist()), Fraction(mu) * Fraction(log_z, ONE))
    return rounded(value), np.clip(backward(values.shape, steps), 0.0, 1.0)  # rounding may exceed the bounds


def logarithms(values: np.ndarray, tops: np.ndarray, mu: float) -> tuple[np.ndarray, int]:
    """(values - tops) / mu as integers (n, n + 1), and a lower bound on log Z, below which no tree is possible.

    The logarithm of a forbidden arc is not -inf but so small that trees with this arc have no weight beside the others.
    """
    n, allowed, unit = len(values), values > -np.inf, Fraction(mu) / ONE
    log_w = np.zeros(values.shape, dtype=object)
    for m, h in np.argwhere(allowed).tolist():
        log_w[m, h] = math.floor((Fraction(float(values[m, h])) - Fraction(float(tops[m]))) / unit)
    lowest = sum(log_w.min(axis=1).tolist())
    log_w[~allowed] = lowest - (2 * NOTHING + n * n) * ONE  # n^2 > log of the number of choices of heads
    return log_w, lowest - NOTHING * ONE


def eliminate(log_w: np.ndarray, single_root: bool) -> tuple[int, list[Elimination]]:
    """The log of the sum over trees, and the elimination of the tokens one by one."""
    log_w, log_z = log_w.copy(), 0
    steps: list[Elimination] = []
    remaining = np.arange(len(log_w))
    while len(remaining):
        first = int(single_root and len(remaining) > 1)  # 1: the root is excluded
        candidates = log_w[np.ix_(remaining, np.concatenate([[0], remaining + 1])[first:])]
        tops = candidates.max(axis=1)
        masses = exp(candidates - tops[:, None]).sum(axis=1)
        pivots = tops + integers(np.log(masses))
        index = int(np.argmax(pivots))
        log_z += pivots[index]
        k, others = int(remaining[index]), np.delete(remaining, index)
        columns = np.concatenate([[0], others + 1])
        p = np.zeros(len(columns))
        p[first:] = exp(log_w[k, columns[first:]] - tops[index]) / masses[index]
        direct = log_w[np.ix_(others, columns)]
        through = log_w[others, k + 1, None] + (log_w[k, columns] - pivots[index])
        odds = exp(-np.abs(direct - through))  # smaller weight / larger weight
        total = np.maximum(direct, through) + integers(np.log1p(odds))
        larger, smaller = 1.0 / (1.0 + odds), odds / (1.0 + odds)
        mostly_direct = (direct >= through).astype(bool)
        shares = np.where(mostly_direct, larger, smaller), np.where(mostly_direct, smaller, larger)
        loops = np.arange(len(others)), np.arange(len(others)) + 1
        total[loops] = direct[loops]  # a tree has no loops
        log_w[np.ix_(others, columns)] = total
        steps.append(Elimination(k, others, columns, p, *shares))
        remaining = others
    return log_z, steps


def exp(logarithm: np.ndarray) -> np.ndarray:
    """exp of integer logarithms <= 0 as floats; 0 below -NOTHING."""
    result: np.ndarray = np.exp(np.maximum(logarithm, -NOTHING * ONE).astype(np.float64) / ONE)
    return result


def integers(logarithm: np.ndarray) -> np.ndarray:
    """Float logarithms, at most 31, as integers."""
    result: np.ndarray = np.rint(logarithm * ONE).astype(np.int64).astype(object)
    return result


def rounded(x: Fraction) -> float:
    """The nearest float, or an infinity beyond the largest float."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def backward(shape: tuple[int, ...], steps: list[Elimination]) -> np.ndarray:
    """The marginals (n, n + 1): the eliminations in reverse, each with the arcs to and from its token."""
    marginals = np.zeros(shape)
    for k, others, columns, p, direct, through in reversed(steps):
        through_k = marginals[np.ix_(others, columns)] * through
        marginals[np.ix_(others, columns)] *= direct
        marginals[others, k + 1] = through_k.sum(axis=1)
        marginals[k, columns] = through_k.sum(axis=0) + p * (1.0 - through_k.sum())
    return marginals


def number_of_trees(allowed: np.ndarray, single_root: bool) -> int:
    """The exact number of trees whose arcs are all allowed (n, n + 1).

    The number is a determinant, computed by Bareiss' elimination with Python integers. The matrix is the Laplacian of
    the arcs; with a single root its first column holds the root arcs instead (Koo et al. 2007).
    """
    n, arcs = len(allowed), allowed.astype(object) * 1
    arcs[np.arange(n), np.arange(1, n + 1)] = 0
    a = np.diag(arcs[:, int(single_root) :].sum(axis=1)) - arcs[:, 1:]
    if single_root:
        a[:, :1] = arcs[:, :1]
    previous, sign = 1, 1
    for k in range(n):
        pivots = np.flatnonzero(a[k:, k])
        if len(pivots) == 0:
            return 0
        if pivots[0] > 0:
            a[[k, k + pivots[0]]], sign = a[[k + pivots[0], k]], -sign
        a[k + 1 :, k + 1 :] = (a[k, k] * a[k + 1 :, k + 1 :] - a[k + 1 :, k, None] * a[k, k + 1 :]) // previous
        previous = a[k, k]
    return sign * int(previous)
