"""Sums over dependency trees in O(n^3), by elimination without a subtraction (Grassmann, Taksar and Heyman 1985), and
its derivative.

There are two ways. Weights as plain numbers, each row divided by its largest, are fast, but weights below e^-400 are
lost. All lost weights together are at most n^4 e^-400 of the product of the rows' sums. If the sum over trees is not
far above that, logarithms are used instead, in fixed-point numbers that hold scores of any size exactly.
"""

from __future__ import annotations

import math

import numpy as np

from accelerated.compiled.arithmetic import SMALLEST, exp
from accelerated.compiled.copies import copy_to
from accelerated.compiled.digits import add, count, difference, put, sum_less
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.arborescence_max import sentence_of
from accelerated.compiled.structures.assignment import are_scores
from accelerated.compiled.sweeps import larger, padded
from accelerated.kernel import kernel

__all__ = ["is_certain", "sum_over_trees", "sum_range"]

ROUNDING = 1e-17  # the share of the sum that may be lost
NOTHING = 1000.0  # exp(-NOTHING) is 0
FAR = 1e12  # up to this size, a difference of two differences loses less than 1e-18


@kernel
def sum_range(lo, hi, values, lengths, single_root, mu, value, marginals):
    """value (B,), the log-partitions at temperature mu, and marginals (B, N, N + 1) of sentences lo..hi - 1."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], own = sum_over_trees(sentence_of(values, b, n), mu, single_root)
        for m in range(n):
            for h in range(n + 1):
                marginals[b, m, h] = own[m, h]


@kernel
def sum_over_trees(values, mu, single_root):
    """mu log sum_y exp(score(y) / mu) over trees, and the marginals (n, n + 1), of values (n, n + 1), C order. Returns
    (-inf, zeros) if there is no tree.
    """
    n = values.shape[0]
    if not are_scores(values):
        return np.nan, np.full((n, n + 1), np.nan)
    out = np.zeros((n, n + 1))
    value = _by_weights(values, mu, single_root, out)
    if np.isnan(value):
        value = _by_logarithms(values, mu, single_root, out)
    for m in range(n):
        for j in range(n + 1):
            out[m, j] = min(max(out[m, j], 0.0), 1.0)  # outside only by rounding
    return value, out


@kernel
def _by_weights(values, mu, single_root, out):
    """The value, and the marginals in ``out``; nan if too much may have been lost."""
    n = values.shape[0]
    w, p = np.zeros((n, padded(n + 1))), np.zeros((n, padded(n + 1)))
    sums, pivots = np.empty(n), np.empty(n)
    value, rounding = _weights(values, mu, single_root, w, out, sums)
    share, log_z = 1.0, 0.0  # share of the product of the rows' sums
    for k in range(n - 1, -1, -1):
        left_out = 1 if single_root and k > 0 else 0
        pivot = 0.0
        for j in range(left_out, k + 1):
            pivot = plus(pivot, w[k, j])
        share *= pivot / sums[k]
        if not share > 0.0:
            return np.nan
        pivots[k] = pivot
        log_z += np.log(pivot)
        for j in range(k + 1):
            p[k, j] = w[k, j] / pivot
        width = padded(k + 1)
        for i in range(k):
            x = w[i, k + 1]
            for j in range(width):
                w[i, j] += x * p[k, j]
            w[i, i + 1] = 0.0  # a loop is no part of a tree
    if not is_certain(share, n):
        return np.nan
    _derivative(w, p, pivots, single_root, out)
    return value + (rounding + mu * log_z)


@kernel
def is_certain(share, n):
    """Whether a sum over trees of n tokens is so large, as a share of the product of the rows' sums, that lost weights
    are rounding.
    """
    return np.log(share) >= SMALLEST + 4.0 * np.log(n + 1.0) - np.log(ROUNDING)


@kernel
def _weights(values, mu, single_root, w, out, sums):
    """Rows of w and of out become exp(values / mu) over the row's largest; over the largest non-root arc if there is a
    single root. sums become the rows' sums.

    Returns the sum of the scores taken out, and its rounding error. The root arcs of a single root are divided by their
    largest once more; nan if they are so far below the others that rounding may lose this.
    """
    n, total, lost = values.shape[0], 0.0, 0.0
    rows, above, rest = np.empty(n), -np.inf, 0.0
    for m in range(n):
        w[m, 0] = -np.inf if single_root else values[m, 0]
        for j in range(1, n + 1):
            w[m, j] = values[m, j]
        w[m, m + 1] = -np.inf
        top = -np.inf
        for j in range(n + 1):
            top = larger(w[m, j], top)
        rows[m] = top if top > -np.inf else 0.0
        total, error = two_sum(total, rows[m])
        lost += error
        if single_root:
            x, error = two_sum(values[m, 0], -rows[m])
            if x > above or (x == above and error > rest):
                above, rest = x, error
    if single_root and above > -np.inf:
        if abs(above) > FAR * mu:
            return np.nan, np.nan
        total, error = two_sum(total, above)
        lost += error + rest
    for m in range(n):
        sums[m] = 0.0
        for j in range(n + 1):
            w[m, j] = exp((w[m, j] - rows[m]) / mu)
            sums[m] = plus(sums[m], w[m, j])
        if single_root and above > -np.inf:
            x, error = two_sum(values[m, 0], -rows[m])
            w[m, 0] = exp(((x - above) + (error - rest)) / mu) if x > -np.inf else 0.0
        for j in range(n + 1):
            out[m, j] = w[m, j]
    return total, lost


@kernel
def two_sum(x, y):
    """x + y, and its rounding error (Knuth); nan beside an infinite sum."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@kernel
def _derivative(w, p, pivots, single_root, out):
    """Weights in ``out`` become marginals: multiplied by the derivative of sum_k log pivot_k, computed from the last
    pivot back.

    w[i, k + 1], i < k, and p[k] are from the elimination of k.
    """
    n = w.shape[0]
    slope, of_p = np.zeros(w.shape), np.empty(w.shape[1])
    for k in range(n):
        width = padded(k + 1)
        for j in range(width):
            of_p[j] = 0.0
        for i in range(k):
            x, by_way_of_k = w[i, k + 1], 0.0
            for j in range(width):
                by_way_of_k = plus(by_way_of_k, slope[i, j] * p[k, j])
                of_p[j] += x * slope[i, j]
            slope[i, k + 1] = by_way_of_k
        rest = 1.0
        for j in range(k + 1):
            rest -= of_p[j] * p[k, j]
        for j in range(k + 1):
            in_pivot = j > 0 or k == 0 or not single_root
            slope[k, j] = (of_p[j] + (rest if in_pivot else 0.0)) / pivots[k]
    for i in range(n):
        for j in range(n + 1):
            out[i, j] *= slope[i, j]


@kernel
def _by_logarithms(values, mu, single_root, out):
    """The value, and the marginals in ``out``; the token with the largest pivot is eliminated first. Logarithms are
    digits, in units of 2^exponent / mu.
    """
    n = values.shape[0]
    significand, exponent = math.frexp(mu)
    out[:, :] = 0.0
    log_w, total, least = _logarithms(values, mu)
    if len(total) == 0:
        return -np.inf
    D = len(total)
    order, through, p = np.arange(n), np.zeros((n, n, n + 1)), np.zeros((n, n + 1))
    pivots, tops, masses = np.empty((n, D), np.int64), np.empty(n, np.int64), np.empty(n)
    log_z, share, x = np.zeros(D, np.int64), np.empty(D, np.int64), np.empty(D, np.int64)
    zero = np.zeros(D, np.int64)
    for t in range(n):  # tokens order[t:] remain
        place, first = t, t if single_root and t < n - 1 else t - 1  # at t - 1 in the order: the root
        for r in range(t, n):
            k = order[r]
            tops[k], masses[k] = _pivot(log_w[k], order, first, t, significand, pivots[k])
            if difference(pivots[k], pivots[order[place]], 0) > 0.0:
                place = r
        k = order[place]
        order[place], order[t] = order[t], k
        sum_less(log_z, pivots[k], zero, log_z)
        for s in range(t, n):
            j = order[s] + 1 if s > t else 0
            if s > t or first < t:
                p[k, j] = np.exp(difference(log_w[k, j], log_w[k, tops[k]], 0) / significand) / masses[k]
            sum_less(log_w[k, j], zero, pivots[k], share)
            for r in range(t + 1, n):
                i = order[r]
                if j == i + 1:  # a loop is no part of a tree
                    continue
                sum_less(log_w[i, k + 1], share, zero, x)
                gap = difference(x, log_w[i, j], 0) / significand
                odds = np.exp(-abs(gap))
                through[k, i, j] = (1.0 if gap > 0.0 else odds) / (1.0 + odds)
                if gap > 0.0:
                    log_w[i, j] = x
                add(significand * np.log1p(odds), log_w[i, j])
    if difference(log_z, least, 0) < 0.0:
        return -np.inf
    for t in range(n - 1, -1, -1):
        _bring_back(order, t, p, through, out)
    sum_less(total, log_z, zero, total)
    return difference(total, zero, exponent)


@kernel
def _logarithms(values, mu):
    """values less the largest of their rows (n, n + 1, D), the sum of these largest (D,), and a number below any sum
    that has a tree (D,); nothing if a row forbids all.

    A forbidden arc is not -inf here, but so low that a tree with one weighs nothing beside a tree without.
    """
    n, largest = values.shape[0], mu
    significand, exponent = math.frexp(mu)
    tops, bottoms = np.full(n, -1), np.full(n, -1)
    for m in range(n):
        for j in range(n + 1):
            if j != m + 1 and values[m, j] > -np.inf:
                largest = larger(abs(values[m, j]), largest)
                if tops[m] < 0 or values[m, j] > values[m, tops[m]]:
                    tops[m] = j
                if bottoms[m] < 0 or values[m, j] < values[m, bottoms[m]]:
                    bottoms[m] = j
    D = count(largest, exponent)
    log_w, total, least = np.zeros((n, n + 1, D), np.int64), np.zeros(D, np.int64), np.zeros(D, np.int64)
    if np.any(tops < 0):
        return log_w, total[:0], least
    x, top, zero = np.empty(D, np.int64), np.empty(D, np.int64), np.zeros(D, np.int64)
    for m in range(n):
        put(values[m, tops[m]], exponent, top)
        sum_less(total, top, zero, total)
        for j in range(n + 1):
            if j != m + 1 and values[m, j] > -np.inf:
                put(values[m, j], exponent, x)
                sum_less(x, zero, top, log_w[m, j])
        sum_less(least, log_w[m, bottoms[m]], zero, least)
    put(-NOTHING * significand, 0, x)
    sum_less(least, x, zero, least)
    put(-(NOTHING + n * n) * significand, 0, x)  # n^2 > log of the number of choices of heads
    sum_less(least, x, zero, x)
    for m in range(n):
        for j in range(n + 1):
            if j == m + 1 or not values[m, j] > -np.inf:
                log_w[m, j] = x
    return log_w, total, least


@kernel
def _pivot(log_w, order, first, t, significand, pivot):
    """``pivot`` becomes log of the sum of the weights (n + 1, D) of the heads order[first:], with the root at t - 1;
    returns the column of the largest weight, and the sum relative to that weight.
    """
    top = -1
    for s in range(first, len(order)):
        j = order[s] + 1 if s >= t else 0
        if top < 0 or difference(log_w[j], log_w[top], 0) > 0.0:
            top = j
    mass = 0.0
    for s in range(first, len(order)):
        j = order[s] + 1 if s >= t else 0
        mass += np.exp(difference(log_w[j], log_w[top], 0) / significand)
    copy_to(log_w[top], pivot)
    add(significand * np.log(mass), pivot)
    return top, mass


@kernel
def _bring_back(order, t, p, through, out):
    """Token order[t] returns: the marginals among order[t + 1:] are split into the arcs that were there and the paths
    through the token.
    """
    k, rest = order[t], 1.0
    for r in range(t + 1, len(order)):
        i = order[r]
        for s in range(t, len(order)):
            j = order[s] + 1 if s > t else 0
            x = out[i, j] * through[k, i, j]
            out[i, j] -= x
            out[i, k + 1] += x
            out[k, j] += x
            rest -= x
    for s in range(t, len(order)):
        j = order[s] + 1 if s > t else 0
        out[k, j] += p[k, j] * rest
