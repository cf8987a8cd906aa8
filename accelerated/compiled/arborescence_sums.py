"""Sums over dependency trees in O(n^3): elimination without a subtraction (Grassmann, Taksar and Heyman 1985), and its derivative.

Two ways. Weights as plain numbers, each row divided by its largest, are fast, but lose those below e^-400. What is lost weighs at most
n^4 times that in all, beside the product of the rows' sums: if the sum over trees is not far above, the logarithms are taken.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import SMALLEST, exp
from accelerated.compiled.assignment import are_scores
from accelerated.compiled.reductions import plus
from accelerated.compiled.sweeps import larger, padded
from accelerated.kernel import kernel

__all__ = ["sum_over_trees"]

ROUNDING = 1e-17  # the share of the sum that may be lost


@kernel
def sum_over_trees(values, mu, single_root):
    """mu log sum_y exp(score(y) / mu) over trees, and the marginals (n, n + 1), of values (n, n + 1), C order. (-inf, zeros): there is none."""
    n = values.shape[0]
    if not are_scores(values):
        return np.nan, np.full((n, n + 1), np.nan)
    out = np.zeros((n, n + 1))
    value = _by_weights(values, mu, single_root, out)
    if np.isnan(value):
        value = _by_logarithms(values, mu, single_root, out)
    return value, out


@kernel
def _by_weights(values, mu, single_root, out):
    """The value, and the marginals in ``out``; nan if too much may have been lost."""
    n = values.shape[0]
    w, p = np.zeros((n, padded(n + 1))), np.zeros((n, padded(n + 1)))
    sums, pivots = np.empty(n), np.empty(n)
    value = _weights(values, mu, single_root, w, out, sums)
    share, log_z = 1.0, 0.0  # of the product of the rows' sums
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
    if not np.log(share) >= SMALLEST + 4.0 * np.log(n + 1.0) - np.log(ROUNDING):
        return np.nan
    _derivative(w, p, pivots, single_root, out)
    return value + mu * log_z


@kernel
def _weights(values, mu, single_root, w, out, sums):
    """Rows of w and of out: exp(values / mu) over its largest, of non-root arcs if there is a single root. Their sums; the scores taken out.

    The root arcs of a single root are over their largest once more.
    """
    n, shifts, above = values.shape[0], 0.0, -np.inf
    rows = np.empty(n)
    for m in range(n):
        w[m, 0] = -np.inf if single_root else values[m, 0]
        for j in range(1, n + 1):
            w[m, j] = values[m, j]
        w[m, m + 1] = -np.inf
        top = -np.inf
        for j in range(n + 1):
            top = larger(w[m, j], top)
        rows[m] = top if top > -np.inf else 0.0
        shifts += rows[m]
        above = larger(values[m, 0] - rows[m], above)
    for m in range(n):
        sums[m] = 0.0
        for j in range(n + 1):
            w[m, j] = exp((w[m, j] - rows[m]) / mu)
            sums[m] = plus(sums[m], w[m, j])
        if single_root and above > -np.inf:
            w[m, 0] = exp((values[m, 0] - rows[m] - above) / mu)
        for j in range(n + 1):
            out[m, j] = w[m, j]
    return shifts + above if single_root and above > -np.inf else shifts


@kernel
def _derivative(w, p, pivots, single_root, out):
    """Weights in ``out`` become marginals: times the derivative of sum_k log pivot_k, taken from the last pivot back.

    w[i, k + 1], i < k, and p[k] are those of the elimination of k.
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
    """The value, and the marginals in ``out``; the token with the largest pivot goes first."""
    n, shifts = values.shape[0], 0.0
    log_w, pivots = np.empty((n, n + 1)), np.empty(n)
    for m in range(n):
        top = -np.inf
        for j in range(n + 1):
            top = larger(values[m, j] if j != m + 1 else -np.inf, top)
        shift = top if top > -np.inf else 0.0
        shifts += shift
        for j in range(n + 1):
            log_w[m, j] = (values[m, j] - shift) / mu if j != m + 1 else -np.inf
    out[:, :] = 0.0
    order, through, p = np.arange(n), np.zeros((n, n, n + 1)), np.zeros((n, n + 1))
    log_z = 0.0
    for t in range(n):  # tokens order[t:] are left
        at = t
        for r in range(t, n):
            pivots[order[r]] = _pivot(log_w, order, t, r, single_root and t < n - 1)
            if pivots[order[r]] > pivots[order[at]]:
                at = r
        k = order[at]
        order[at], order[t] = order[t], k
        pivot = pivots[k]
        if pivot == -np.inf:
            return -np.inf
        log_z += pivot
        for s in range(t, n):
            j = order[s] + 1 if s > t else 0
            share = log_w[k, j] - pivot
            p[k, j] = np.exp(share) if j > 0 or t == n - 1 or not single_root else 0.0
            for r in range(t + 1, n):
                i = order[r]
                x = log_w[i, k + 1] + share
                if j == i + 1 or x == -np.inf:
                    continue
                y = log_w[i, j]
                apart = np.exp(-abs(x - y))
                through[k, i, j] = (1.0 if x > y else apart) / (1.0 + apart)
                log_w[i, j] = larger(x, y) + np.log1p(apart)
    for t in range(n - 1, -1, -1):
        _bring_back(order, t, p, through, out)
    return shifts + mu * log_z


@kernel
def _pivot(log_w, order, t, r, without_root):
    """log of the sum of the weights of heads of token order[r], among order[t:] and the root."""
    k = order[r]
    top = -np.inf if without_root else log_w[k, 0]
    for s in range(t, len(order)):
        top = larger(log_w[k, order[s] + 1], top)
    if top == -np.inf:
        return top
    mass = 0.0 if without_root else np.exp(log_w[k, 0] - top)
    for s in range(t, len(order)):
        mass += np.exp(log_w[k, order[s] + 1] - top)
    return top + np.log(mass)


@kernel
def _bring_back(order, t, p, through, out):
    """Token order[t] comes back: the marginals among order[t + 1:] are divided into what was there and what led through it."""
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
