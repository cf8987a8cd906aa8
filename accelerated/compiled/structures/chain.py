"""Linear chains: max-product and sum-product, one chain after another.

Score of y: sum_t unary[t, y_t] + sum_{t >= 1} pairwise[y_{t-1}, y_t]. Inside, labels are padded to Lp, a multiple of 8,
with forbidden ones (-inf), and every product of a row with a matrix takes four source rows a sweep.

Sum-product works with probabilities, rescaled at each position, if that is certified to be safe (LIMIT); otherwise in
the log domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp, muladd
from accelerated.compiled.structures.chain_log import log_sum_product
from accelerated.compiled.sweeps import (
    fill,
    larger,
    largest,
    load,
    lowest_above,
    max_plus_product,
    padded,
    product,
    smaller,
    total,
)
from accelerated.kernel import inlined, kernel

# When the scaled domain is safe. Factors are exp(score - largest score), and 0 below exp(-400).
# 1. No transition is forbidden, and all their factors are >= exp(-LIMIT). Then normalisers are >= exp(-LIMIT) and
#    backward messages <= exp(LIMIT), so all paths lost to an underflow together weigh at most n L exp(2 LIMIT - 400)
#    of Z, whatever the unary scores are. This is tested once for each matrix.
# 2. Some are forbidden, but at each position every factor and every forward probability is 0 or >= exp(-LIMIT), and so
#    is the normaliser. Then no product underflows, and every 0 is exact. This is tested at each position.
# 3. Otherwise the log domain is used, about ten times slower. (A test of forward and backward messages cannot replace
#    2: neither sees a path that underflows in both in the middle of a chain, and dominates.)
LIMIT = 150.0


class Transitions(NamedTuple):
    """A pairwise matrix as sum-product needs it, prepared once for each weight vector by `prepare`."""

    factor: np.ndarray  # (Lp, Lp), exp(pairwise / mu - shift), padding 0
    factor_t: np.ndarray  # its transpose
    shift: float  # largest score, pairwise / mu
    lowest: float  # smallest score not -inf, minus shift
    dense: bool  # no -inf among the L * L scores


class Workspace(NamedTuple):
    """Scratch for chains of up to rows - 4 positions: `workspace`."""

    forward: np.ndarray  # (rows, Lp)
    factor: np.ndarray  # (rows, Lp)
    matrix: np.ndarray  # (Lp, Lp)
    rows: np.ndarray  # (2, Lp)


@kernel
def workspace(n, L):
    Lp = padded(L)
    return Workspace(np.empty((n + 4, Lp)), np.empty((n + 4, Lp)), np.empty((Lp, Lp)), np.empty((2, Lp)))


@kernel
def prepare(pairwise, inverse_mu, factor, factor_t):
    """Transitions of pairwise (L, L) * inverse_mu, written into two (Lp, Lp) arrays."""
    L = pairwise.shape[0]
    load(pairwise, inverse_mu, factor)
    shift, lowest, dense = extremes(factor, L, factor_t)
    for i in range(L):
        for j in range(factor.shape[1]):
            factor[i, j] = exp(factor[i, j] - shift)
    for i in range(L, factor.shape[0]):
        fill(0.0, factor, i)
    for i in range(factor.shape[0]):
        for j in range(factor.shape[1]):
            factor_t[j, i] = factor[i, j]  # contiguous reads: the other way round takes seven times as long
    return Transitions(factor, factor_t, shift, lowest - shift, dense)


@kernel
def extremes(matrix, L, rows):
    """The largest and the smallest finite entry of matrix (L, L), 0 if none is finite; and whether all are. rows (8,
    Lp) is scratch.
    """
    fill(
        -np.inf, rows, 0
    )  # largest, smallest finite and smallest of each column, so that whole rows are compared at once
    fill(np.inf, rows, 1)
    fill(np.inf, rows, 2)
    for i in range(L):
        for j in range(matrix.shape[1]):
            x = matrix[i, j]
            rows[0, j] = larger(rows[0, j], x)
            rows[1, j] = smaller(rows[1, j], x if x > -np.inf else np.inf)
            rows[2, j] = smaller(rows[2, j], x)
    high, low, dense = -np.inf, np.inf, True
    for j in range(L):
        high, low = larger(high, rows[0, j]), smaller(low, rows[1, j])
        dense &= rows[2, j] > -np.inf
    if high == -np.inf:
        return 0.0, 0.0, False
    return high, low, dense


# Max-product


@kernel
def max_product(scores, n, pairwise, first, stride, matrix, best, labels):
    """Largest score, labels[0:n] a maximiser; scores and best (>= n, Lp), padded with -inf.

    pairwise[first + (t - 1) * stride], of (E, L, L), lies between t - 1 and t; with stride 0 the caller has loaded it
    into matrix (Lp, Lp), else matrix is scratch. No back-pointers: scores[t] becomes the score of the best path that
    ends in each label, best[t] the part of it that comes from t - 1.
    """
    if n == 0:
        return 0.0
    L = pairwise.shape[1]
    for t in range(1, n):
        if stride != 0:
            load(pairwise[first + (t - 1) * stride], 1.0, matrix)
        _max_step(scores, matrix, L, best, t)
    y = _argmax(scores, n - 1, L)
    value = scores[n - 1, y]
    if value == -np.inf:
        for t in range(n):
            labels[t] = -1
        return value
    for t in range(n - 1, 0, -1):
        labels[t] = y
        y = predecessor(scores, t - 1, pairwise, first + (t - 1) * stride, y, best[t, y])
    labels[0] = y
    return value


@inlined
def _max_step(scores, pairwise, L, best, t):
    """best[t] from scores[t - 1], then scores[t] = best[t] + scores[t], in this order as in the textbook loop."""
    max_plus_product(scores, t - 1, pairwise, L, best, t)
    for j in range(scores.shape[1]):
        scores[t, j] = best[t, j] + scores[t, j]


@inlined
def _argmax(scores, t, L):
    """First index of the largest of scores[t, :L]."""
    top = largest(scores, t)
    for j in range(L - 1):
        if scores[t, j] == top:
            return j
    return L - 1


@inlined
def predecessor(scores, t, pairwise, e, y, best):
    """First i with scores[t, i] + pairwise[e, i, y] == best: the operation that made best, so equality is exact."""
    last = pairwise.shape[1] - 1
    for i in range(last):
        if scores[t, i] + pairwise[e, i, y] == best:
            return i
    return last


# Sum-product


@kernel
def sum_product(scores, n, transitions, pairwise, edge, inverse_mu, work, pairs, edges):
    """log Z; scores (>= n, Lp) = unary / mu becomes the node marginals; `finish` adds pairs to the transition counts.

    transitions is `prepare` of pairwise[edge], (E, L, L). A certified chain adds to pairs (Lp, Lp), other chains add to
    edges[edge], (E, L, L).
    """
    if n == 0:
        return 0.0
    L = pairwise.shape[1]
    value = scaled_forward(scores, n, L, transitions, work.factor, work.forward)
    if np.isnan(value):
        return log_sum_product(scores, n, pairwise, edge, np.int64(0), inverse_mu, work, edges)
    scaled_backward(scores, n, L, transitions.factor_t, work.factor, work.forward)
    add_pairs(work.forward, work.factor, n, L, pairs)
    return value


@kernel
def log_partition(scores, n, transitions, pairwise, edge, inverse_mu, work, edges):
    """log Z, bit for bit as by `sum_product`, without a backward pass; scores and edges are scratch afterwards."""
    if n == 0:
        return 0.0
    value = scaled_forward(scores, n, pairwise.shape[1], transitions, work.factor, work.forward)
    if np.isnan(value):
        return log_sum_product(scores, n, pairwise, edge, np.int64(0), inverse_mu, work, edges)
    return value


@kernel
def finish(transitions, pairs, edges):
    """edges (L, L) += transitions.factor * pairs: the factor that all transitions from i to j share is multiplied once,
    at the end.
    """
    for i in range(edges.shape[0]):
        for j in range(edges.shape[0]):
            edges[i, j] += transitions.factor[i, j] * pairs[i, j]


@kernel
def scaled_forward(scores, n, L, transitions, factor, forward):
    """log Z, or nan if not certified.

    With c_t the sum of forward[t] (row t of (n, Lp)): factor[t] = exp(scores[t] - top) / c_{t-1}, and
    forward[t] = (forward[t - 1] @ transitions.factor) * factor[t].
    """
    if transitions.lowest < -LIMIT:
        return np.nan
    value = (n - 1) * transitions.shift
    c = 1.0
    for t in range(n):
        top = largest(scores, t)
        if top == -np.inf:
            return np.nan
        if t == 0:
            fill(1.0, forward, t)
        else:
            product(forward, t - 1, transitions.factor, L, forward, t)
        scale = 1.0 / c
        for j in range(scores.shape[1]):
            weight = exp(scores[t, j] - top) * scale
            factor[t, j] = weight
            forward[t, j] *= weight
        c = total(forward, t)
        if not transitions.dense and not nothing_lost(scores, forward, t, top, c):
            return np.nan
        value += top + np.log(c)
    return value


@kernel
def nothing_lost(scores, forward, t, top, c):
    """The per-position half of the second certificate at LIMIT."""
    floor = np.exp(-LIMIT)
    if c < floor or lowest_above(forward, t, 0.0) < floor * c:
        return False
    return lowest_above(scores, t, -np.inf) - top >= -LIMIT


@kernel
def scaled_backward(nodes, n, L, factor_t, factor, forward):
    """nodes (n, Lp) = forward * backward, factor (n, Lp) *= backward, 0 where forward is
    (there backward may be huge).
    """
    fill(1.0 / total(forward, n - 1), nodes, n - 1)
    for t in range(n - 1, -1, -1):
        for j in range(nodes.shape[1]):
            backward = nodes[t, j]
            factor[t, j] = factor[t, j] * backward if forward[t, j] > 0.0 else 0.0
            nodes[t, j] = forward[t, j] * backward
        if t > 0:
            product(factor, t, factor_t, L, nodes, t - 1)


@kernel
def add_pairs(forward, factor, n, L, pairs):
    """pairs[i, j] += sum_{t < n - 1} forward[t, i] * factor[t + 1, j], four positions a sweep."""
    for t in range(n, n + 3):
        fill(0.0, forward, t)
        fill(0.0, factor, t)
    for b in range((n + 2) // 4):
        t = 4 * b
        for i in range(L):
            x0, x1, x2, x3 = forward[t, i], forward[t + 1, i], forward[t + 2, i], forward[t + 3, i]
            for j in range(factor.shape[1]):
                first = muladd(x0, factor[t + 1, j], muladd(x1, factor[t + 2, j], pairs[i, j]))
                pairs[i, j] = muladd(x2, factor[t + 3, j], muladd(x3, factor[t + 4, j], first))


class Chains(NamedTuple):
    """Chains lo .. hi - 1 of drivers: chain i owns rows start[i] : start[i] + length[i] of unary (N, L).

    The matrix between its positions t - 1 and t is pairwise[edge_start[i] + (t - 1) * edge_stride] of (E, L, L).
    """

    unary: np.ndarray
    pairwise: np.ndarray
    start: np.ndarray
    length: np.ndarray
    edge_start: np.ndarray
    edge_stride: int


@kernel
def viterbi_range(lo, hi, chains, value, labels):
    """value (B,) and labels (N,) of the best outputs; the smallest last label wins a tie, then backwards.

    An impossible chain has value -inf and labels -1, an empty one value 0.
    """
    unary, pairwise, start, length, edge_start, edge_stride = chains
    L = unary.shape[1]
    work = workspace(longest(lo, hi, length), L)
    scores, best, matrix = work.factor, work.forward, work.matrix
    if edge_stride == 0:
        load(pairwise[0], 1.0, matrix)
    for b in range(lo, hi):
        n, rows = length[b], slice(start[b], start[b] + length[b])
        load(unary[rows], 1.0, scores[:n])
        value[b] = max_product(scores, n, pairwise, edge_start[b], edge_stride, matrix, best, labels[rows])


@kernel
def forward_backward_range(lo, hi, chains, mu, value, nodes, edges):
    """value (B,) = mu log sum exp(score / mu), nodes (N, L) = marginals, edges (E, L, L) += marginals of each matrix's
    uses.

    An impossible chain has value -inf and marginals 0, an empty one value 0.
    """
    unary, pairwise, start, length, edge_start, edge_stride = chains
    L = unary.shape[1]
    n, Lp = longest(lo, hi, length), padded(L)
    work, scores, pairs = workspace(n, L), np.empty((n, Lp)), np.zeros((Lp, Lp))
    inverse_mu = 1.0 / mu
    shared = edge_stride == 0
    if shared:
        transitions = prepare(pairwise[0], inverse_mu, np.empty((Lp, Lp)), np.empty((Lp, Lp)))
    for b in range(lo, hi):
        n = length[b]
        load(unary[start[b] : start[b] + n], inverse_mu, scores[:n])
        if shared:
            z = sum_product(scores, n, transitions, pairwise, edge_start[b], inverse_mu, work, pairs, edges)
        else:
            z = log_sum_product(scores, n, pairwise, edge_start[b], edge_stride, inverse_mu, work, edges)
        value[b] = mu * z
        for t in range(n):
            for j in range(L):
                nodes[start[b] + t, j] = scores[t, j]
    if shared:
        finish(transitions, pairs, edges[0])


@kernel
def longest(lo, hi, length):
    n = 0
    for b in range(lo, hi):
        n = max(n, length[b])
    return n
