"""The rows of W that examples touch, computed once for all epochs: passes leave the other rows for later."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import touched
from accelerated.kernel import kernel

__all__ = ["touched_rows"]


@kernel
def touched_rows(problem, n, n_rows):
    """(start, rows): example i touches rows[start[i] : start[i + 1]] of W, each named once."""
    start, rows, seen = np.zeros(n + 1, np.int64), np.empty(1024, np.uint32), np.full(n_rows, -1)
    for i in range(n):
        used = touched(problem, i)
        filled = start[i]
        if filled + len(used) > len(rows):
            more = np.empty(2 * (filled + len(used)), np.uint32)
            more[:filled] = rows[:filled]
            rows = more
        for j in used:
            if seen[j] != i:
                seen[j] = i
                rows[filled] = j
                filled += 1
        start[i + 1] = filled
    return start, rows[: start[n]].copy()
