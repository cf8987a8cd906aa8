"""Batches of matchings, for layers: one call of a kernel for all matrices, over threads.

values (B, P, Q), float32 or float64, are those of :class:`accelerated.Matching`; matrix b has the first lengths[b, 0]
rows and lengths[b, 1] columns.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.assignment_batch import best_range
from accelerated.threads import in_parallel, ranges

__all__ = ["best"]


def best(values: np.ndarray, lengths: np.ndarray, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The highest scores (B,), -inf without a matching, nan where a score is nan or +inf, and columns (B, P), -1 for
    none.
    """
    value, columns = np.empty(len(values)), np.full(values.shape[:2], -1)
    pieces = ranges(np.concatenate([[0], np.cumsum(lengths.prod(axis=1))])) if len(values) else []
    in_parallel(lambda lo, hi: best_range(lo, hi, values, lengths, value, columns), pieces, threads)
    return value, columns
