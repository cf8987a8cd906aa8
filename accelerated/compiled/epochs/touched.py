"""The rows of W that examples touch: passes leave the other rows for later, trials leave them alone."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import touched
from accelerated.kernel import kernel

__all__ = ["touched_rows"]


@kernel
def touched_rows(problem, batch):
    """(start, rows): example batch[k] touches rows[start[k] : start[k + 1]] of W, each named once.

    place[j] is where row j is named, if it is named there. Numbers that are not yet written are read, too, so that the
    cost does not depend on the number of rows.
    """
    n, last = len(batch), 0
    for i in batch:
        for j in touched(problem, i):
            last = max(last, np.int64(j))
    start, rows, place = np.empty(n + 1, np.int64), np.empty(1024, np.uint32), np.empty(last + 1, np.int64)
    start[0] = 0
    for k in range(n):
        used = touched(problem, batch[k])
        filled = start[k]
        if filled + len(used) > len(rows):
            more = np.empty(2 * (filled + len(used)), np.uint32)
            for e in range(filled):
                more[e] = rows[e]
            rows = more
        for j in used:
            if not (start[k] <= place[j] < filled and rows[place[j]] == j):
                place[j] = filled
                rows[filled] = j
                filled += 1
        start[k + 1] = filled
    return start, rows[: start[n]].copy()
