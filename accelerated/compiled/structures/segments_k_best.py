"""Segmentations: the k best by lists of k a label at each token, and max-marginals."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.chain import longest
from accelerated.compiled.structures.segments import max_product, reverse
from accelerated.compiled.sweeps import fill, larger, load, max_plus_product, padded
from accelerated.kernel import inlined, kernel

__all__ = ["max_marginals_range", "top_k_range"]


@kernel
def top_k_range(lo, hi, batch, values, rows):
    """values (B, k) and rows (B, k, n, 3) of the k best outputs, written up to each sequence's number of outputs.

    Lists are rows of k values: t * L + j has the best of what ends at t with label j, s * L + j of what precedes j at
    s, and the row after these of all. An entry comes from entry origin[..., 1] of source origin[..., 0]: the number of
    tokens after the first, or the label.
    """
    segments, pairwise, start, length = batch
    n, k, (_, W, L) = longest(lo, hi, length), values.shape[1], segments.shape
    ends, end_origin = np.empty((n * L, k)), np.empty((n * L, k, 2), np.int64)
    starts, start_origin = np.empty((n * L + 1, k)), np.empty((n * L + 1, k, 2), np.int64)
    heads, terms, places = np.empty(max(W, L)), np.empty(max(W, L)), np.empty((2, max(W, L)), np.int64)
    for b in range(lo, hi):
        n = length[b]
        if n == 0:
            values[b, 0] = 0.0
            continue
        for t in range(n):
            for j in range(L):
                for i in range(L):
                    terms[i], places[0, i] = pairwise[i, j], (t - 1) * L + i
                if t > 0:
                    _merge(ends, L, terms, places, heads, starts, start_origin, t * L + j)
                else:
                    fill(-np.inf, starts, j)
                    starts[j, 0] = 0.0
            for j in range(L):
                for w in range(min(W, t + 1)):
                    terms[w], places[0, w] = segments[start[b] + t - w, w, j], (t - w) * L + j
                _merge(starts, min(W, t + 1), terms, places, heads, ends, end_origin, t * L + j)
        for i in range(L):
            terms[i], places[0, i] = 0.0, (n - 1) * L + i
        _merge(ends, L, terms, places, heads, starts, start_origin, n * L)
        for r in range(k):
            values[b, r] = starts[n * L, r]
            if values[b, r] > -np.inf:
                _trace(n, L, r, start_origin, end_origin, rows[b, r])


@inlined
def _merge(lists, count, terms, places, heads, out, origin, row):
    """out[row] = the k largest of lists[places[0, c]] + terms[c] for c < count, sorted; the first c first in ties."""
    k = out.shape[1]
    for c in range(count):
        heads[c], places[1, c] = lists[places[0, c], 0] + terms[c], 0
    for r in range(k):
        best, value = np.int64(0), -np.inf
        for c in range(count):
            if heads[c] > value:
                best, value = c, heads[c]
        out[row, r] = value
        rank = places[1, best]
        origin[row, r, 0], origin[row, r, 1] = best, rank
        places[1, best] = rank + 1
        heads[best] = lists[places[0, best], rank + 1] + terms[best] if rank + 1 < k else -np.inf


@kernel
def _trace(n, L, rank, start_origin, end_origin, rows):
    """rows (n, 3) of entry ``rank`` of all."""
    t, place, count = n - 1, n * L, 0
    while t >= 0:
        y, rank = start_origin[place, rank, 0], start_origin[place, rank, 1]
        w, rank = end_origin[t * L + y, rank, 0], end_origin[t * L + y, rank, 1]
        rows[count, 0], rows[count, 1], rows[count, 2] = t - w, w, y
        count += 1
        place, t = (t - w) * L + y, t - w - 1
    reverse(rows, count)


@kernel
def max_marginals_range(lo, hi, batch, values, pairs):
    """values (N, W, L) and pairs (B, n - 1, L, L): the best score with each segment, and with a segment of one label
    that ends at a token before one of the other. Written where the sequence has them.
    """
    segments, pairwise, start, length = batch
    n, (_, W, L) = longest(lo, hi, length), segments.shape
    Lp = padded(L)
    matrix, transposed, ahead = np.empty((Lp, Lp)), np.empty((Lp, Lp)), np.empty((1, Lp))
    ends, starts, after = np.empty((n, Lp)), np.empty((n, Lp)), np.empty((n, Lp))
    load(pairwise, 1.0, matrix)
    load(pairwise.T, 1.0, transposed)
    for b in range(lo, hi):
        n = length[b]
        max_product(batch, b, matrix, ends, starts)
        for s in range(n - 1, -1, -1):  # after[t]: the best of what follows an end at t
            if s == n - 1:
                fill(0.0, after, s)
            fill(-np.inf, ahead, 0)
            row = start[b] + s
            for w in range(min(W, n - s)):
                for j in range(L):
                    x = segments[row, w, j] + after[s + w, j]
                    ahead[0, j] = larger(ahead[0, j], x)
                    values[row, w, j] = starts[s, j] + x
            if s > 0:
                max_plus_product(ahead, 0, transposed, L, after, s - 1)
                for i in range(L):
                    for j in range(L):
                        pairs[b, s - 1, i, j] = ends[s - 1, i] + (pairwise[i, j] + ahead[0, j])
