"""Segments, one sequence after another: the best output, the k best by lists of k a label at each token, max-marginals.

Score of y: the sum of segments[s, w, j] of its segments, label j on s .. s + w, and of pairwise[i, j] of neighbours.
What ends with token t is in row t, and what starts at token s in row s. Labels are padded to Lp, a multiple of 8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.chain import longest, predecessor
from accelerated.compiled.sweeps import fill, larger, largest, load, max_plus_product, padded
from accelerated.kernel import inlined, kernel

__all__ = ["SegmentBatch", "best_range", "max_marginals_range", "max_product", "reverse", "top_k_range", "trace"]


class SegmentBatch(NamedTuple):
    """Sequences lo .. hi - 1 of drivers: sequence b owns rows start[b] : start[b] + length[b] of segments (N, W, L)."""

    segments: np.ndarray
    pairwise: np.ndarray  # (L, L)
    start: np.ndarray
    length: np.ndarray


@kernel
def max_product(batch, b, matrix, ends, starts):
    """The best score of sequence b; ends[t], (>= n, Lp), becomes that of what ends with each label at t, and starts[s]
    that of what precedes each label at s. matrix (Lp, Lp): pairwise, padded with -inf.
    """
    segments, start, n, (_, W, L) = batch.segments, batch.start, batch.length[b], batch.segments.shape
    for t in range(n):
        fill(0.0 if t == 0 else -np.inf, starts, t)
        if t > 0:
            max_plus_product(ends, t - 1, matrix, L, starts, t)
        fill(-np.inf, ends, t)
        for w in range(min(W, t + 1)):
            row = start[b] + t - w
            for j in range(L):
                ends[t, j] = larger(ends[t, j], segments[row, w, j] + starts[t - w, j])
    return largest(ends, n - 1) if n > 0 else 0.0


@kernel
def best_range(lo, hi, batch, value, rows):
    """value (B,) and rows (B, n, 3) of the best outputs, written up to their number of segments; -inf where there is
    none, 0 for an empty sequence.
    """
    n, Lp = longest(lo, hi, batch.length), padded(batch.pairwise.shape[0])
    matrix, ends, starts = np.empty((Lp, Lp)), np.empty((n, Lp)), np.empty((n, Lp))
    load(batch.pairwise, 1.0, matrix)
    for b in range(lo, hi):
        value[b] = max_product(batch, b, matrix, ends, starts)
        if value[b] > -np.inf:
            trace(batch, b, value[b], ends, starts, rows[b])


@kernel
def trace(batch, b, value, ends, starts, rows):
    """rows (n, 3) of the best output, of which the number is returned. The operations that made the values are done
    again, so that equality is exact.
    """
    segments, pairwise, start, length = batch
    W, t, count = segments.shape[1], length[b] - 1, 0
    y = 0
    while t >= 0 and y < segments.shape[2] - 1 and ends[t, y] != value:
        y += 1
    while t >= 0:
        w = 0
        while w < min(W, t + 1) - 1 and segments[start[b] + t - w, w, y] + starts[t - w, y] != ends[t, y]:
            w += 1
        rows[count, 0], rows[count, 1], rows[count, 2] = t - w, w, y
        count += 1
        t -= w + 1
        if t >= 0:
            y = predecessor(ends, t, pairwise.reshape(1, *pairwise.shape), 0, y, starts[t + 1, y])
    reverse(rows, count)
    return count


@kernel
def reverse(rows, count):
    """Turn round the first ``count`` of rows (n, 3)."""
    for i in range(count // 2):
        for c in range(3):
            rows[i, c], rows[count - 1 - i, c] = rows[count - 1 - i, c], rows[i, c]


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
                    ahead[0, j] = larger(ahead[0, j], segments[row, w, j] + after[s + w, j])
                    values[row, w, j] = (segments[row, w, j] + starts[s, j]) + after[s + w, j]
            if s > 0:
                max_plus_product(ahead, 0, transposed, L, after, s - 1)
                for i in range(L):
                    for j in range(L):
                        pairs[b, s - 1, i, j] = ends[s - 1, i] + (pairwise[i, j] + ahead[0, j])
