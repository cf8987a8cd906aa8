"""The rows of W that examples touch: passes leave the other rows for later, trials leave them alone."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import touched
from accelerated.kernel import kernel

__all__ = ["touched_rows"]


@kernel
def touched_rows(problem, batch, n_rows):
    """(start, rows): example batch[k] touches rows[start[k] : start[k + 1]] of W (n_rows, Lp), each named once.

    place[j] is where row j is named, if it is named there: what is not yet written may be any number, so that the cost
    does not depend on n_rows.
    """
    n = len(batch)
    start, rows, place = np.zeros(n + 1, np.int64), np.empty(1024, np.uint32), np.empty(n_rows, np.int64)
    for k in range(n):
        used = touched(problem, batch[k])
        filled = start[k]
        if filled + len(used) > len(rows):
            more = np.empty(2 * (filled + len(used)), np.uint32)
            more[:filled] = rows[:filled]
            rows = more
        for j in used:
            if not (start[k] <= place[j] < filled and rows[place[j]] == j):
                place[j] = filled
                rows[filled] = j
                filled += 1
        start[k + 1] = filled
    return start, rows[: start[n]].copy()
