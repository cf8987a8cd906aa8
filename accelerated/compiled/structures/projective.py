"""Eisner's chart: best projective dependency trees, the k best, sums, max-marginals, and trees drawn at random.

As in `reference.structures.projective_chart`, [kind, w, s] is the number of the span of width w from place s on: a loop
over s takes all spans of a width with one split, without reductions. Sums are of plain weights, each token's best head
at 1. A weight below e^-400 is lost (`exp`), with at most e^-400 of each of the fewer than 6.75^n trees that have it.
Where such a loss is not certain to be below the rounding of the sum, logarithms take over.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp, muladd
from accelerated.compiled.copies import copy_table, copy_to
from accelerated.compiled.structures.arborescence_max import sentence_of
from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.sweeps import fill, larger, padded
from accelerated.kernel import inlined, kernel

__all__ = ["best_projective", "best_range", "max_marginals_range", "sample_range", "sum_projective", "sum_range"]
__all__ += ["top_k_range"]

RIGHT, LEFT, PAIR, ARC_RIGHT, ARC_LEFT = 0, 1, 2, 3, 4  # kinds of spans
ARCS, TOPS, TOTALS = 2, 7, 10  # above the kinds of incomplete spans: the arcs; above others: a log sum in two parts
MAX, LOGS, WEIGHTS = 0, 1, 2  # what a chart holds
LONGEST = 360  # 6.75^n is a float


@kernel
def load(values, tops, mu):
    """A new chart (13, n + 1, n + 1) with the arcs' scores (values - tops) / mu, of tops (n,); whether none is nan or
    +inf.
    """
    n, sound = len(values), True
    c = np.empty((13, n + 1, n + 1))
    c[ARC_LEFT + ARCS] = -np.inf  # also into the root
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                sound &= values[m - 1, h] < np.inf
                c[ARC_RIGHT + ARCS + (h > m), abs(m - h), min(m, h)] = (values[m - 1, h] - tops[m - 1]) / mu
    return c, sound


@kernel
def unload(arcs, out):
    """The numbers (2, n + 1, n + 1) of the arcs to the right and to the left into out (n, n + 1)."""
    for m in range(1, len(out) + 1):
        for h in range(len(out) + 1):
            if h != m:
                out[m - 1, h] = arcs[int(h > m), abs(m - h), min(m, h)]


@inlined
def halves(kind, w, s, r):
    """The kind, width and first place of both halves of a span, for its split r = 0..w - 1."""
    if kind == PAIR:
        return (RIGHT, r, s), (LEFT, w - 1 - r, s + r + 1)
    if kind == RIGHT:
        return (ARC_RIGHT, r + 1, s), (RIGHT, w - 1 - r, s + r + 1)
    return (LEFT, r, s), (ARC_LEFT, w - r, s + r)


@inlined
def fold(mode, c, kind, w):
    """c[kind, w, s] = the sum or the largest, over all splits, of one half with the other."""
    spans = np.uint64(c.shape[1] - w)
    for s in range(spans):
        c[kind, w, s] = 0.0 if mode == WEIGHTS else -np.inf
    for r in range(w):
        (a, u, _), (b, v, place) = halves(kind, w, 0, r)
        d = np.uint64(place)
        if mode == WEIGHTS:
            for s in range(spans):
                c[kind, w, s] = muladd(c[a, u, s], c[b, v, s + d], c[kind, w, s])
        else:
            for s in range(spans):
                c[kind, w, s] = larger(c[kind, w, s], c[a, u, s] + c[b, v, s + d])
    if mode == LOGS:
        for s in range(spans):
            c[TOPS + kind, w, s], c[TOTALS + kind, w, s] = c[kind, w, s], 0.0
        for r in range(w):
            (a, u, _), (b, v, place) = halves(kind, w, 0, r)
            d = np.uint64(place)
            for s in range(spans):  # exp of nan, where all are -inf, is 0
                c[TOTALS + kind, w, s] += exp(c[a, u, s] + c[b, v, s + d] - c[TOPS + kind, w, s])
        for s in range(spans):
            c[kind, w, s] += np.log(c[TOTALS + kind, w, s])


@inlined
def unfold(mode, c, g, kind, w):
    """Hand g[kind, w, s] down to the halves of each split: probabilities in their shares, outside weights and scores
    with the other half.
    """
    spans = np.uint64(c.shape[1] - w)
    if mode == LOGS:  # shares sum to 1, however many digits a log sum of large scores has lost
        for s in range(spans):
            g[kind, w, s] = g[kind, w, s] / c[TOTALS + kind, w, s] if c[TOTALS + kind, w, s] > 0.0 else 0.0
    for r in range(w):
        (a, u, _), (b, v, place) = halves(kind, w, 0, r)
        d = np.uint64(place)
        if mode == WEIGHTS:
            for s in range(spans):
                g[a, u, s] = muladd(g[kind, w, s], c[b, v, s + d], g[a, u, s])
            for s in range(spans):
                g[b, v, s + d] = muladd(g[kind, w, s], c[a, u, s], g[b, v, s + d])
        elif mode == LOGS:
            for s in range(spans):
                share = g[kind, w, s] * exp(c[a, u, s] + c[b, v, s + d] - c[TOPS + kind, w, s])
                g[a, u, s] += share
                g[b, v, s + d] += share
        else:
            for s in range(spans):
                g[a, u, s] = larger(g[a, u, s], g[kind, w, s] + c[b, v, s + d])
                g[b, v, s + d] = larger(g[b, v, s + d], g[kind, w, s] + c[a, u, s])


@kernel
def inside(mode, c, single_root):
    """The chart of all spans, from its arcs. Returns the number of the whole sentence."""
    n = c.shape[1] - 1
    c[:2, 0] = 0.0
    if mode == WEIGHTS:
        c[:2, 0] = 1.0
    for w in range(1, n + 1):
        for kind in (PAIR, RIGHT, LEFT):
            fold(mode, c, kind, w)
            if kind == PAIR:
                if single_root:  # only the root alone is in a pair
                    c[PAIR, w, 0] = c[LEFT, w - 1, 1]
                for arc in (ARC_RIGHT, ARC_LEFT):
                    for s in range(n + 1 - w):
                        x, y = c[PAIR, w, s], c[arc + ARCS, w, s]
                        c[arc, w, s] = x * y if mode == WEIGHTS else x + y
    return c[RIGHT, n, 0]


@kernel
def outside(mode, c, top, single_root):
    """The chart of what is outside each span: probabilities, weights / Z (their derivatives) or scores; of the whole
    sentence ``top``.
    """
    n, zero = c.shape[1] - 1, -np.inf if mode == MAX else 0.0
    g = np.full((5, n + 1, n + 1), zero)
    g[RIGHT, n, 0] = top
    for w in range(n, 0, -1):
        for kind in (RIGHT, LEFT, PAIR):
            if kind == PAIR:
                for s in range(n + 1 - w):
                    x, right = g[ARC_RIGHT, w, s], c[ARC_RIGHT + ARCS, w, s]
                    y, left = g[ARC_LEFT, w, s], c[ARC_LEFT + ARCS, w, s]
                    if mode == MAX:
                        g[PAIR, w, s] = larger(x + right, y + left)
                    else:
                        g[PAIR, w, s] = x * right + y * left if mode == WEIGHTS else x + y
                if single_root:
                    x, y = g[LEFT, w - 1, 1], g[PAIR, w, 0]
                    g[LEFT, w - 1, 1], g[PAIR, w, 0] = larger(x, y) if mode == MAX else x + y, zero
            unfold(mode, c, g, kind, w)
    return g


@kernel
def best_projective(values, single_root):
    """Value and heads (n,) of a best tree. Without a tree, the value is -inf; with a nan or +inf entry it is nan; then
    all heads are -1.
    """
    c, sound = load(values, np.zeros(len(values)), 1.0)
    value, heads = inside(MAX, c, single_root) if sound else np.nan, np.full(len(values), -1)
    if value > -np.inf:
        descend(c, single_root, np.empty(0), np.empty((0, 0, 0, 0), np.int64), 0, heads)
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
def sum_projective(values, mu, single_root):
    """The log-partition at temperature mu, and marginals (n, n + 1): -inf and 0 if there is no tree, nan if a score is
    nan or +inf.
    """
    n, tops = len(values), row_tops(values)
    c, sound = load(values, tops, mu)
    marginals = np.full((n, n + 1), 0.0 if sound else np.nan)
    if not sound:
        return np.nan, marginals
    for arc in (ARC_RIGHT + ARCS, ARC_LEFT + ARCS):
        for w in range(1, n + 1):
            for s in range(n + 1 - w):
                c[arc, w, s] = exp(c[arc, w, s])
    z, mode = inside(WEIGHTS, c, single_root), WEIGHTS
    log_z, top = np.log(z), 1.0 / z
    if n > LONGEST or not log_z > 1.91 * n - 350.0:
        c, mode, top = load(values, tops, mu)[0], LOGS, 1.0
        log_z = inside(LOGS, c, single_root)
    if log_z > -np.inf:
        arcs = outside(mode, c, top, single_root)[ARC_RIGHT:]
        unload(np.minimum(arcs * c[ARC_RIGHT : ARC_LEFT + 1] if mode == WEIGHTS else arcs, 1.0), marginals)
    return mu * log_z + tops.sum(), marginals


@kernel
def descend(c, single_root, numbers, origin, rank, heads):
    """heads (n,) of a tree, from the whole sentence down, left halves first: each span takes its first best split, or
    draws one by the next of the numbers (2 n,) if there are any, or has that of its rank in ``origin`` if that has any.
    """
    n, k = len(heads), origin.shape[3]
    rows, waiting = np.empty((2, padded(n + 1))), np.empty((2 * n + 2, 4), np.int64)
    waiting[0], depth, drawn = (RIGHT, n, 0, rank), 1, 0
    while depth:
        depth -= 1
        kind, w, s, entry = waiting[depth]
        if kind >= ARC_RIGHT:
            child, head = (s + w, s) if kind == ARC_RIGHT else (s, s + w)
            heads[child - 1], kind = head, PAIR
        if w == 0:
            continue
        split, i, j = 0, 0, 0
        if k > 0:
            place = origin[kind, w, s, entry]
            split, i, j = place // (k * k), place // k % k, place % k
        else:
            count = 1 if kind == PAIR and s == 0 and single_root else w
            fill(-np.inf, rows, 0)
            for r in range(count):
                (a, u, p), (b, v, q) = halves(kind, w, s, r)
                rows[0, r] = c[a, u, p] + c[b, v, q]
                split = r if rows[0, r] > rows[0, split] else split
            if len(numbers):
                split = choose(rows, count, numbers[drawn])
                drawn += 1
        (a, u, p), (b, v, q) = halves(kind, w, s, split)
        waiting[depth], waiting[depth + 1], depth = (b, v, q, j), (a, u, p, i), depth + 2


@kernel
def best_range(lo, hi, values, lengths, single_root, value, heads):
    """value (B,), the highest scores, and heads (B, N) of sentences lo..hi - 1; -inf, or nan, and -1 without a tree."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], tree = best_projective(sentence_of(values, b, n), single_root)
        copy_to(tree, heads[b])


@kernel
def sum_range(lo, hi, values, lengths, single_root, mu, value, marginals):
    """value (B,), the log-partitions at temperature mu, and marginals (B, N, N + 1) of sentences lo..hi - 1."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], expected = sum_projective(sentence_of(values, b, n), mu, single_root)
        copy_table(expected, marginals[b])


@kernel
def max_marginals_range(lo, hi, values, lengths, single_root, marginals):
    """marginals (B, N, N + 1), -inf before, of sentences lo..hi - 1; nan if a score is nan or +inf."""
    for b in range(lo, hi):
        n = lengths[b]
        c, sound = load(sentence_of(values, b, n), np.zeros(n), 1.0)
        if sound:
            inside(MAX, c, single_root)
            arcs = outside(MAX, c, 0.0, single_root)[ARC_RIGHT:] + c[ARC_RIGHT : ARC_LEFT + 1]
            unload(arcs, marginals[b, :n, : n + 1])
        else:
            marginals[b, :n, : n + 1] = np.nan


@kernel
def sample_range(lo, hi, values, lengths, single_root, mu, numbers, value, heads):
    """value (B,) = mu log Z; heads (B, size, N), -1 before: draws by the numbers (B, size, 2 N) in [0, 1]."""
    for b in range(lo, hi):
        n = lengths[b]
        own = sentence_of(values, b, n)
        tops = row_tops(own)
        c, sound = load(own, tops, mu)
        value[b] = mu * inside(LOGS, c, single_root) + tops.sum() if sound else np.nan
        for s in range(heads.shape[1] if value[b] > -np.inf and n > 0 else 0):
            descend(c, single_root, numbers[b, s], np.empty((0, 0, 0, 0), np.int64), 0, heads[b, s, :n])


@kernel
def top_k_range(lo, hi, values, lengths, single_root, scores, heads):
    """scores (B, k), -inf before, and heads (B, k, N), -1 before, of sentences lo..hi - 1."""
    k = scores.shape[1]
    for b in range(lo, hi):
        n = lengths[b]
        c, sound = load(sentence_of(values, b, n), np.zeros(n), 1.0)
        best, origin = np.full((3, n + 1, n + 1, k), -np.inf), np.empty((3, n + 1, n + 1, k), np.int64)
        best[:2, 0, :, 0] = 0.0
        for w in range(1, n + 1 if sound else 0):
            for kind in (PAIR, RIGHT, LEFT):
                for s in range(n + 1 - w):
                    merge(kind, w, s, single_root, c, best, origin)
        for rank in range(k if sound else 0):
            scores[b, rank] = best[RIGHT, n, 0, rank]
            if scores[b, rank] > -np.inf:
                descend(c, single_root, np.empty(0), origin, rank, heads[b, rank, :n])


@kernel
def merge(kind, w, s, single_root, c, best, origin):
    """The list of a span, best first, merged from those of its halves, and where each entry comes from: (split, rank on
    the left, rank on the right) as digits to the base k. Among equals the first split, then the first rank on the left,
    goes first. Only ranks i, j = 1, 2, ... with i j <= k can be among the k best.
    """
    k = best.shape[3]
    values, places = best[kind, w, s], origin[kind, w, s]
    for r in range(1 if kind == PAIR and s == 0 and single_root else w):
        (a, u, p), (b, v, q) = halves(kind, w, s, r)
        left, right = best[a if a < ARC_RIGHT else PAIR, u, p], best[b if b < ARC_RIGHT else PAIR, v, q]
        x_arc = c[a + ARCS, u, p] if a >= ARC_RIGHT else 0.0
        y_arc = c[b + ARCS, v, q] if b >= ARC_RIGHT else 0.0
        for i in range(k):
            for j in range(k // (i + 1)):
                x = (left[i] + x_arc) + (right[j] + y_arc)
                if not x > values[k - 1]:
                    break
                place = k - 1
                while place > 0 and values[place - 1] < x:
                    values[place], places[place] = values[place - 1], places[place - 1]
                    place -= 1
                values[place], places[place] = x, (r * k + i) * k + j
