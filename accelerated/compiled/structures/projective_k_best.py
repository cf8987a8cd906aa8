"""The k best projective trees: in each span of Eisner's chart the list of its k best parts, merged from those of its
halves. Only ranks i, j = 1, 2, ... with i j <= k can be among the k best.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.arborescence_batch import sentence_of
from accelerated.compiled.structures.projective import ARC_RIGHT, LEFT, PAIR, RIGHT, halves, load, new_chart
from accelerated.kernel import kernel

__all__ = ["top_k_projective_range"]


@kernel
def top_k_projective_range(lo, hi, values, lengths, single_root, scores, heads):
    """scores (B, k), -inf before, and heads (B, k, N), -1 before, of sentences lo..hi - 1."""
    k = scores.shape[1]
    for b in range(lo, hi):
        n = lengths[b]
        arcs = new_chart(n)
        if not load(sentence_of(values, b, n), np.zeros(n), 1.0, arcs):
            continue
        best, origin = np.full((3, n + 1, n + 1, k), -np.inf), np.empty((3, n + 1, n + 1, k), np.int64)
        for s in range(n + 1):
            best[RIGHT, 0, s, 0] = best[LEFT, 0, s, 0] = 0.0
        for w in range(1, n + 1):
            for kind in (PAIR, RIGHT, LEFT):
                for s in range(n + 1 - w):
                    merge(kind, w, s, single_root, arcs, best, origin)
        for rank in range(k):
            scores[b, rank] = best[RIGHT, n, 0, rank]
            if scores[b, rank] > -np.inf:
                trace(rank, best, origin, heads[b, rank, :n])


@kernel
def merge(kind, w, s, single_root, arcs, best, origin):
    """The list of a span, best first, and where each entry comes from: (split, rank on the left, rank on the right) as
    digits to the base k. Among equals the first split, then the first rank on the left, goes first.
    """
    k, first = best.shape[3], 1 if kind == RIGHT else 0
    values, places = best[kind, w, s], origin[kind, w, s]
    for r in range(first, first + (1 if kind == PAIR and s == 0 and single_root else w)):
        (a, u, p), (b, v, q) = halves(kind, w, s, r)
        arc = 0.0
        if kind != PAIR:
            arc = arcs.to_right[u, p] if kind == RIGHT else arcs.to_left[v, q]
        left, right = best[a if a < ARC_RIGHT else PAIR, u, p], best[b if b < ARC_RIGHT else PAIR, v, q]
        for i in range(k):
            for j in range(k // (i + 1)):
                x = (left[i] + arc) + right[j] if kind == RIGHT else left[i] + (right[j] + arc)
                if not x > values[k - 1]:
                    break
                place = k - 1
                while place > 0 and values[place - 1] < x:
                    values[place], places[place] = values[place - 1], places[place - 1]
                    place -= 1
                values[place], places[place] = x, (r * k + i) * k + j


@kernel
def trace(rank, best, origin, heads):
    """heads (n,) of the tree of this rank."""
    n, k = len(heads), best.shape[3]
    waiting = np.empty((2 * n + 2, 4), np.int64)
    waiting[0], depth = (RIGHT, n, 0, rank), 1
    while depth:
        depth -= 1
        kind, w, s, entry = waiting[depth]
        if kind >= ARC_RIGHT:
            child, head = (s + w, s) if kind == ARC_RIGHT else (s, s + w)
            heads[child - 1], kind = head, PAIR
        if w > 0:
            place = origin[kind, w, s, entry]
            (a, u, p), (b, v, q) = halves(kind, w, s, place // (k * k))
            waiting[depth], waiting[depth + 1], depth = (b, v, q, place % k), (a, u, p, place // k % k), depth + 2
