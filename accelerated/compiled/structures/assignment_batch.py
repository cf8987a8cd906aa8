"""Best matchings of a batch of matrices."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.structures.assignment import best_matching, matched_sum
from accelerated.kernel import kernel

__all__ = ["best_range"]


@kernel
def best_range(lo, hi, values, lengths, value, columns):
    """value (B,), the highest scores, and columns (B, P), -1 before, of matrices lo..hi - 1 of values (B, P, Q), whose
    numbers of rows and of columns are lengths (B, 2).
    """
    for b in range(lo, hi):
        p, q = lengths[b, 0], lengths[b, 1]
        own, matched = np.empty((min(p, q), max(p, q))), np.empty(min(p, q), np.int64)
        for i in range(p):
            for j in range(q):
                if p <= q:
                    own[i, j] = values[b, i, j]
                else:
                    own[j, i] = values[b, i, j]
        value[b] = best_matching(own, matched)
        if p <= q:
            copy_to(matched, columns[b])
        elif value[b] > -np.inf:
            for j in range(q):
                columns[b, matched[j]] = j
            value[b] = matched_sum(values[b], columns[b])  # row after row
