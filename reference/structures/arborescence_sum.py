"""Sums over dependency trees by the matrix-tree theorem, without a subtraction: log-partition function, arc marginals,
number of trees.

The sum over all trees of the product of their arcs' weights is a determinant (Tutte 1948; for dependency trees Koo et
al. 2007, Smith and Smith 2007, McDonald and Satta 2007). Elimination as Grassmann, Taksar and Heyman (1985) do it for
Markov chains adds, multiplies and divides positive numbers only, so that it can be done with logarithms. These are
Python integers, multiples of 1 / ONE: a product of weights is then exact, and scores of 1e300 that tie, or nearly, are
told apart.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place
from reference.structures.arborescence_max import ArborescenceScores, host_values

__all__ = ["number_of_trees", "tree_partition"]

ONE = 2**58  # the logarithm 1; so that logarithms of numbers up to e^31 are int64
NOTHING = 1000  # exp(-NOTHING) is 0


class Elimination(NamedTuple):
    """One token taken out of the graph.

    token; others (r,): the tokens left; columns (r + 1,): the root and these as heads; p (r + 1,): the share of each
    head of the token in its pivot; direct, through (r, r + 1): the share of each new weight that was there before, and
    that leads through the token.
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

    mu log sum_y exp(score(y) / mu) = mu sum_k log S_k,   S_k = sum_h w_kh,
    then  w_ih += w_ik w_kh / S_k  for all i, h but k

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
        values (n, n + 1): the probability of each arc, in [0, 1]; rows sum to 1 up to rounding, 0 for own heads.

    Notes
    -----
    w = exp(scores / mu), kept as logarithms. The marginals are the derivative of these steps, taken backwards: the
    absolute error is some units of the last place of 1, whatever the size of the scores and of mu. With a single root,
    S_k leaves the root out until the last token: then sum_y is sum_r w_r0 tau_r, tau_r being the weight of all trees of
    the tokens with root r. The token with the largest S_k goes first, so that a token that can only be the single root
    comes last. Time O(n^3), memory O(n^3).

    Source
    ------
    The matrix-tree theorem for the trees of Martins et al., section 4; Pillutla et al., Lemma 7 (ii).
    """
    place, values = Place.of(scores.values), host_values(scores)
    if not np.all(values < np.inf):
        return place.floats(np.nan), ArborescenceScores(place.floats(np.full(values.shape, np.nan)))
    tops = values.max(axis=1, initial=-np.inf)
    if np.any(tops == -np.inf):
        return place.floats(-np.inf), ArborescenceScores(place.floats(np.zeros(values.shape)))
    log_w, least = logarithms(values, tops, mu)
    log_z, steps = eliminate(log_w, single_root)
    if log_z < least:
        return place.floats(-np.inf), ArborescenceScores(place.floats(np.zeros(values.shape)))
    value = sum(map(Fraction, tops.tolist()), Fraction(mu) * Fraction(log_z, ONE))
    marginals = np.clip(backward(values.shape, steps), 0.0, 1.0)  # beyond by rounding only
    return place.floats(rounded(value)), ArborescenceScores(place.floats(marginals))


def logarithms(values: np.ndarray, tops: np.ndarray, mu: float) -> tuple[np.ndarray, int]:
    """(values - tops) / mu as integers (n, n + 1), and what is less than the logarithm of any sum that has a tree.

    A forbidden arc is no -inf here, but so much that a tree which has one weighs nothing beside a tree which has none.
    """
    n, allowed, unit = len(values), values > -np.inf, Fraction(mu) / ONE
    log_w = np.zeros(values.shape, dtype=object)
    for m, h in np.argwhere(allowed).tolist():
        log_w[m, h] = math.floor((Fraction(float(values[m, h])) - Fraction(float(tops[m]))) / unit)
    lowest = sum(log_w.min(axis=1).tolist())
    log_w[~allowed] = lowest - (2 * NOTHING + n * n) * ONE  # n^2 > log of the number of choices of heads
    return log_w, lowest - NOTHING * ONE


def eliminate(log_w: np.ndarray, single_root: bool) -> tuple[int, list[Elimination]]:
    """The log of the sum over trees, by taking out one token after another."""
    log_w, log_z = log_w.copy(), 0
    steps: list[Elimination] = []
    left = np.arange(len(log_w))
    while len(left):
        first = int(single_root and len(left) > 1)  # 1: without the root
        candidates = log_w[np.ix_(left, np.concatenate([[0], left + 1])[first:])]
        tops = candidates.max(axis=1)
        masses = exp(candidates - tops[:, None]).sum(axis=1)
        pivots = tops + integers(np.log(masses))
        at = int(np.argmax(pivots))
        log_z += pivots[at]
        k, others = int(left[at]), np.delete(left, at)
        columns = np.concatenate([[0], others + 1])
        p = np.zeros(len(columns))
        p[first:] = exp(log_w[k, columns[first:]] - tops[at]) / masses[at]
        direct = log_w[np.ix_(others, columns)]
        through = log_w[others, k + 1, None] + (log_w[k, columns] - pivots[at])
        odds = exp(-np.abs(direct - through))  # of the smaller to the larger
        total = np.maximum(direct, through) + integers(np.log1p(odds))
        larger, smaller = 1.0 / (1.0 + odds), odds / (1.0 + odds)
        mostly_direct = (direct >= through).astype(bool)
        shares = np.where(mostly_direct, larger, smaller), np.where(mostly_direct, smaller, larger)
        loops = np.arange(len(others)), np.arange(len(others)) + 1
        total[loops] = direct[loops]  # a loop is no part of a tree
        log_w[np.ix_(others, columns)] = total
        steps.append(Elimination(k, others, columns, p, *shares))
        left = others
    return log_z, steps


def exp(logarithm: np.ndarray) -> np.ndarray:
    """e^x of integers <= 0 as floats; 0 below -NOTHING."""
    found: np.ndarray = np.exp(np.maximum(logarithm, -NOTHING * ONE).astype(np.float64) / ONE)
    return found


def integers(logarithm: np.ndarray) -> np.ndarray:
    """Logarithms in floats, at most 31, as integers."""
    found: np.ndarray = np.rint(logarithm * ONE).astype(np.int64).astype(object)
    return found


def rounded(x: Fraction) -> float:
    """The nearest float, or inf."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


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
    """How many trees have allowed arcs (n, n + 1) only, exactly: a determinant by Bareiss' elimination, in Python's
    integers.

    The matrix is the arcs' Laplacian; for a single root its first column becomes that of the root arcs
    (Koo et al. 2007).
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
