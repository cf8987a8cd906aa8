"""Eisner's chart: best projective dependency trees, sums over them, max-marginals, and trees drawn at random.

As in `reference.structures.projective_chart`, an array [w, s] has a number for the span of each width w and first place
s: a loop over s takes all spans of a width with one split, without reductions. Sums are of plain weights, each token's
best head at 1. A weight below e^-400 is lost (`exp`), with at most e^-400 of each of the fewer than 6.75^n trees that
have it. Where such a loss is not certain to be below the rounding of the sum, logarithms take over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp, muladd
from accelerated.compiled.structures.arborescence_batch import sentence_of
from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.sweeps import fill, larger, padded
from accelerated.kernel import inlined, kernel

__all__ = [
    "LEFT",
    "PAIR",
    "RIGHT",
    "best_projective",
    "best_projective_range",
    "halves",
    "load",
    "max_marginals_range",
    "new_chart",
    "sample_projective_range",
    "sum_over_projective",
    "sum_projective_range",
]

RIGHT, LEFT, PAIR, ARC_RIGHT, ARC_LEFT = 0, 1, 2, 3, 4  # kinds of spans
MAX, LOGS, WEIGHTS = 0, 1, 2  # what a chart holds
LONGEST = 360  # 6.75^n is a float


class Chart(NamedTuple):
    """Arrays (n + 1, n + 1): complete spans, pairs, incomplete spans, and the scores of their arcs. total (n + 1,)."""

    right: np.ndarray
    left: np.ndarray
    pair: np.ndarray
    arc_right: np.ndarray
    arc_left: np.ndarray
    to_right: np.ndarray
    to_left: np.ndarray
    total: np.ndarray


@kernel
def new_chart(n):
    N = n + 1
    a, b, c, d = np.empty((N, N)), np.empty((N, N)), np.empty((N, N)), np.empty((N, N))
    return Chart(a, b, c, d, np.empty((N, N)), np.empty((N, N)), np.empty((N, N)), np.empty(N))


@kernel
def load(values, tops, mu, chart):
    """The arcs' scores (values - tops) / mu, of tops (n,). Returns whether none is nan or +inf."""
    n, sound = len(values), True
    for m in range(1, n + 1):
        chart.to_left[m, 0] = -np.inf  # into the root
        for h in range(n + 1):
            if h != m:
                sound &= values[m - 1, h] < np.inf
                x = (values[m - 1, h] - tops[m - 1]) / mu
                if h < m:
                    chart.to_right[m - h, h] = x
                else:
                    chart.to_left[h - m, m] = x
    return sound


@inlined
def fold(mode, x, w, a, b, lo, hi, shift, total):
    """x[w, s] = the sum or the largest, over splits r = lo..hi - 1, of a[r, s] with b[w - shift - r, s + r + shift]."""
    spans = np.uint64(len(total) - w)
    for s in range(spans):
        x[w, s] = 0.0 if mode == WEIGHTS else -np.inf
    for r in range(lo, hi):
        v, d = w - shift - r, np.uint64(r + shift)
        if mode == WEIGHTS:
            for s in range(spans):
                x[w, s] = muladd(a[r, s], b[v, s + d], x[w, s])
        else:
            for s in range(spans):
                x[w, s] = larger(x[w, s], a[r, s] + b[v, s + d])
    if mode == LOGS:
        for s in range(spans):
            total[s] = 0.0
        for r in range(lo, hi):
            v, d = w - shift - r, np.uint64(r + shift)
            for s in range(spans):
                total[s] += exp(a[r, s] + b[v, s + d] - x[w, s])  # of nan, where all are -inf, it is 0
        for s in range(spans):
            x[w, s] += np.log(total[s])


@inlined
def unfold(mode, x, g, w, a, ga, b, gb, lo, hi, shift, total):
    """Hand g[w, s] down to the halves of each split: probabilities in their shares, or outside weights and scores with
    the other half.
    """
    spans = np.uint64(len(total) - w)
    for r in range(lo, hi):
        v, d = w - shift - r, np.uint64(r + shift)
        if mode == WEIGHTS:
            for s in range(spans):
                ga[r, s] = muladd(g[w, s], b[v, s + d], ga[r, s])
            for s in range(spans):
                gb[v, s + d] = muladd(g[w, s], a[r, s], gb[v, s + d])
        elif mode == LOGS:
            for s in range(spans):
                share = g[w, s] * exp(a[r, s] + b[v, s + d] - x[w, s])
                ga[r, s] += share
                gb[v, s + d] += share
        else:
            for s in range(spans):
                ga[r, s] = larger(ga[r, s], g[w, s] + b[v, s + d])
                gb[v, s + d] = larger(gb[v, s + d], g[w, s] + a[r, s])


@kernel
def inside(mode, c, single_root):
    """The chart of all spans. Returns the number of the whole sentence."""
    n, total = len(c.total) - 1, c.total
    for s in range(n + 1):
        c.right[0, s] = c.left[0, s] = 1.0 if mode == WEIGHTS else 0.0
    for w in range(1, n + 1):
        fold(mode, c.pair, w, c.right, c.left, 0, w, 1, total)
        if single_root:  # only the root alone is in a pair
            c.pair[w, 0] = c.left[w - 1, 1]
        for s in range(n + 1 - w):
            x, right, left = c.pair[w, s], c.to_right[w, s], c.to_left[w, s]
            c.arc_right[w, s] = x * right if mode == WEIGHTS else x + right
            c.arc_left[w, s] = x * left if mode == WEIGHTS else x + left
        fold(mode, c.right, w, c.arc_right, c.right, 1, w + 1, 0, total)
        fold(mode, c.left, w, c.left, c.arc_left, 0, w, 0, total)
    return c.right[n, 0]


@kernel
def outside(mode, c, top, single_root):
    """The chart of what is outside each span: probabilities, weights / Z (their derivatives) or scores; of the whole
    sentence ``top``.
    """
    n, total = len(c.total) - 1, c.total
    g, zero = new_chart(n), -np.inf if mode == MAX else 0.0
    for w in range(n + 1):
        for x in (g.right, g.left, g.arc_right, g.arc_left):
            fill(zero, x, w)
    g.right[n, 0] = top
    for w in range(n, 0, -1):
        unfold(mode, c.right, g.right, w, c.arc_right, g.arc_right, c.right, g.right, 1, w + 1, 0, total)
        unfold(mode, c.left, g.left, w, c.left, g.left, c.arc_left, g.arc_left, 0, w, 0, total)
        for s in range(n + 1 - w):
            x, y = g.arc_right[w, s], g.arc_left[w, s]
            if mode == MAX:
                g.pair[w, s] = larger(x + c.to_right[w, s], y + c.to_left[w, s])
            else:
                g.pair[w, s] = x * c.to_right[w, s] + y * c.to_left[w, s] if mode == WEIGHTS else x + y
        if single_root:
            x, y = g.left[w - 1, 1], g.pair[w, 0]
            g.left[w - 1, 1], g.pair[w, 0] = larger(x, y) if mode == MAX else x + y, zero
        unfold(mode, c.pair, g.pair, w, c.right, g.right, c.left, g.left, 0, w, 1, total)
    return g


@kernel
def best_projective(values, single_root):
    """Value and heads (n,) of a best tree. Without a tree, the value is -inf; with a nan or +inf entry it is nan; then
    all heads are -1.
    """
    n = len(values)
    c, heads = new_chart(n), np.full(n, -1)
    value = inside(MAX, c, single_root) if load(values, np.zeros(n), 1.0, c) else np.nan
    if value > -np.inf:
        descend(c, single_root, np.empty(0), heads)
    return value, heads


@kernel
def row_tops(values):
    """The largest score (n,) of a head of each token; 0 if it has no possible head."""
    tops = np.zeros(len(values))
    for m in range(len(values)):
        top = -np.inf
        for h in range(len(values) + 1):
            top = larger(values[m, h], top) if h != m + 1 else top
        tops[m] = top if top > -np.inf else 0.0
    return tops


@kernel
def sum_over_projective(values, mu, single_root):
    """The log-partition at temperature mu, and marginals (n, n + 1): -inf and 0 if there is no tree, nan if a score is
    nan or +inf.
    """
    n, tops = len(values), row_tops(values)
    c, marginals = new_chart(n), np.zeros((n, n + 1))
    if not load(values, tops, mu, c):
        return np.nan, np.full((n, n + 1), np.nan)
    for w in range(1, n + 1):
        for s in range(n + 1 - w):
            c.to_right[w, s], c.to_left[w, s] = exp(c.to_right[w, s]), exp(c.to_left[w, s])
    z = inside(WEIGHTS, c, single_root)
    log_z, mode, top = np.log(z), WEIGHTS, 1.0 / z
    if n > LONGEST or not log_z > 1.91 * n - 350.0:
        load(values, tops, mu, c)
        log_z, mode, top = inside(LOGS, c, single_root), LOGS, 1.0
    if log_z == -np.inf:
        return log_z, marginals
    g = outside(mode, c, top, single_root)
    for w in range(1, n + 1):
        for s in range(n + 1 - w):
            right, left = g.arc_right[w, s], g.arc_left[w, s]
            if mode == WEIGHTS:
                right, left = right * c.arc_right[w, s], left * c.arc_left[w, s]
            marginals[s + w - 1, s] = min(right, 1.0)
            if s > 0:
                marginals[s - 1, s + w] = min(left, 1.0)
    return mu * log_z + tops.sum(), marginals


@kernel
def halves(kind, w, s, r):
    """The kind, width and first place of both halves of a span with split r."""
    if kind == PAIR:
        return (RIGHT, r, s), (LEFT, w - 1 - r, s + r + 1)
    if kind == RIGHT:
        return (ARC_RIGHT, r, s), (RIGHT, w - r, s + r)
    return (LEFT, r, s), (ARC_LEFT, w - r, s + r)


@kernel
def descend(c, single_root, numbers, heads):
    """heads (n,) of a tree, from the whole sentence down, left halves first: each span takes its first best split, or
    draws one by the next of the numbers (2 n,) if there are any.
    """
    n = len(heads)
    rows, waiting = np.empty((2, padded(n + 1))), np.empty((2 * n + 2, 3), np.int64)
    waiting[0], depth, drawn = (RIGHT, n, 0), 1, 0
    while depth:
        depth -= 1
        kind, w, s = waiting[depth]
        if kind >= ARC_RIGHT:
            child, head = (s + w, s) if kind == ARC_RIGHT else (s, s + w)
            heads[child - 1], kind = head, PAIR
        if w == 0:
            continue
        first = 1 if kind == RIGHT else 0
        count = 1 if kind == PAIR and s == 0 and single_root else w
        fill(-np.inf, rows, 0)
        best = 0
        for i in range(count):
            (_, _, _), (_, v, t) = halves(kind, w, s, first + i)
            if kind == PAIR:
                rows[0, i] = c.right[i, s] + c.left[v, t]
            elif kind == RIGHT:
                rows[0, i] = c.arc_right[1 + i, s] + c.right[v, t]
            else:
                rows[0, i] = c.left[i, s] + c.arc_left[v, t]
            best = i if rows[0, i] > rows[0, best] else best
        if len(numbers):
            best = choose(rows, count, numbers[drawn])
            drawn += 1
        left, right = halves(kind, w, s, first + best)
        waiting[depth], waiting[depth + 1], depth = right, left, depth + 2


@kernel
def best_projective_range(lo, hi, values, lengths, single_root, value, heads):
    """value (B,), the highest scores, and heads (B, N) of sentences lo..hi - 1; -inf, or nan, and -1 without a tree."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], heads[b, :n] = best_projective(sentence_of(values, b, n), single_root)


@kernel
def sum_projective_range(lo, hi, values, lengths, single_root, mu, value, marginals):
    """value (B,), the log-partitions at temperature mu, and marginals (B, N, N + 1) of sentences lo..hi - 1."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], marginals[b, :n, : n + 1] = sum_over_projective(sentence_of(values, b, n), mu, single_root)


@kernel
def max_marginals_range(lo, hi, values, lengths, single_root, marginals):
    """marginals (B, N, N + 1), -inf before, of sentences lo..hi - 1: the highest score of a tree with each arc; nan if
    a score is nan or +inf.
    """
    for b in range(lo, hi):
        n = lengths[b]
        c = new_chart(n)
        if not load(sentence_of(values, b, n), np.zeros(n), 1.0, c):
            marginals[b, :n, : n + 1] = np.nan
            continue
        inside(MAX, c, single_root)
        g = outside(MAX, c, 0.0, single_root)
        for w in range(1, n + 1):
            for s in range(n + 1 - w):
                marginals[b, s + w - 1, s] = g.arc_right[w, s] + c.arc_right[w, s]
                if s > 0:
                    marginals[b, s - 1, s + w] = g.arc_left[w, s] + c.arc_left[w, s]


@kernel
def sample_projective_range(lo, hi, values, lengths, single_root, mu, numbers, value, heads):
    """value (B,) = mu log Z; heads (B, size, N), -1 before: draws by the numbers (B, size, 2 N) in [0, 1], of sentences
    lo..hi - 1.
    """
    for b in range(lo, hi):
        n = lengths[b]
        own, c = sentence_of(values, b, n), new_chart(n)
        tops = row_tops(own)
        value[b] = mu * inside(LOGS, c, single_root) + tops.sum() if load(own, tops, mu, c) else np.nan
        for s in range(heads.shape[1] if value[b] > -np.inf and n > 0 else 0):
            descend(c, single_root, numbers[b, s], heads[b, s, :n])
