"""The max-marginals of matchings: shortest paths between all rows over reduced losses (Floyd and Warshall)."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.assignment import are_scores, assign, matched_sum
from accelerated.compiled.sweeps import larger, smaller
from accelerated.kernel import inlined, kernel

__all__ = ["best_with_each_pair"]

BLOCK = 32  # pivots between two passes over the whole matrix; a multiple of 8
TILE = 64  # columns at a time


@kernel
def best_with_each_pair(a):
    """The best score (p, q) of a matching with each pair of a (p, q), p <= q, C order; -inf if there is none, nan if a
    has nan or +inf.

    A node is a row with its column; all unmatched columns together are one more node.
    """
    p, q = a.shape
    if not are_scores(a):
        return np.full((p, q), np.nan)
    out = np.full((p, q), -np.inf)
    possible, column, u, v = assign(a)
    if not possible:
        return out
    value = matched_sum(a, column)
    owner = np.full(q, p)
    for i in range(p):
        owner[column[i]] = i
    n = p + 1 if p < q else p
    size = (n + 7) // 8 * 8
    loss = np.full((size, size), np.inf)  # [b, a]: node a takes a column of node b
    for i in range(p):
        for j in range(q):
            b = owner[j]
            loss[b, i] = smaller(_reduced(a, i, j, u, v), loss[b, i])
    for b in range(n):
        if p < q and b < p:
            loss[b, p] = v[column[b]]  # a row of score 0 and potential 0
        loss[b, b] = 0.0
    _close(loss)
    for i in range(p):
        for j in range(q):
            out[i, j] = value - (_reduced(a, i, j, u, v) + loss[i, owner[j]])
        out[i, column[i]] = value
    return out


@kernel
def _close(loss):
    """Shortest paths between all pairs, in place: loss (n, n) >= 0, n a multiple of 8.

    The rows of a block of pivots come first, eight at a time. Each other row then takes paths through the first of
    these pivots, in column tiles that fit the first-level cache.
    """
    n = loss.shape[0]
    eight, tile = np.empty((8, n)), np.empty((BLOCK, TILE))
    for block in range((n + BLOCK - 1) // BLOCK):
        start, stop = BLOCK * block, min(BLOCK * (block + 1), n)
        for k in range(start, stop, 8):
            for r in range(8):
                for j in range(n):
                    eight[r, j] = loss[k + r, j]
            for m in range(8):
                for r in range(8):
                    x = eight[r, k + m]
                    for j in range(n):
                        eight[r, j] = smaller(x + eight[m, j], eight[r, j])
            for i in range(start, stop):
                _through(loss, i, k, eight, 0, 0, n)
        for t in range((n + TILE - 1) // TILE):
            left = TILE * t
            width = min(TILE, n - left)
            for r in range(stop - start):
                for j in range(width):
                    tile[r, j] = loss[start + r, left + j]
            for i in range(n):
                if i < start or i >= stop:
                    for b in range((stop - start) // 8):
                        _through(loss, i, start + 8 * b, tile, 8 * b, left, width)


@inlined
def _through(loss, i, k, pivots, r, left, width):
    """Columns left to left + width - 1 of row i, by paths through nodes k to k + 7: pivots r to r + 7 hold these
    columns of the nodes' rows.
    """
    x0, x1, x2, x3 = loss[i, k], loss[i, k + 1], loss[i, k + 2], loss[i, k + 3]
    x4, x5, x6, x7 = loss[i, k + 4], loss[i, k + 5], loss[i, k + 6], loss[i, k + 7]
    for j in range(width):
        y0, y1 = (
            smaller(x0 + pivots[r, j], x1 + pivots[r + 1, j]),
            smaller(x2 + pivots[r + 2, j], x3 + pivots[r + 3, j]),
        )
        y2, y3 = (
            smaller(x4 + pivots[r + 4, j], x5 + pivots[r + 5, j]),
            smaller(x6 + pivots[r + 6, j], x7 + pivots[r + 7, j]),
        )
        loss[i, left + j] = smaller(smaller(smaller(y0, y1), smaller(y2, y3)), loss[i, left + j])


@inlined
def _reduced(a, i, j, u, v):
    """The reduced loss of row i with column j."""
    return larger(u[i] + v[j] - a[i, j], 0.0)
