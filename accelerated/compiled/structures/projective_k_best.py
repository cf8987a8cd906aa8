"""The k best projective trees: in each span of Eisner's chart the list of its k best parts, merged from those of its
halves. Only ranks i, j = 1, 2, ... with i j <= k can be among the k best.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.arborescence_batch import sentence_of
from accelerated.compiled.structures.projective import ARC_RIGHT, ARCS, LEFT, PAIR, RIGHT, descend, halves, load
from accelerated.kernel import kernel

__all__ = ["top_k_range"]


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
    """The list of a span, best first, and where each entry comes from: (split, rank on the left, rank on the right) as
    digits to the base k. Among equals the first split, then the first rank on the left, goes first.
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
