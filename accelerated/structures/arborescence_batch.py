"""Batches of dependency trees, for layers: one call of a kernel for all sentences, over threads.

values (B, N, N + 1), float32 or float64, are those of :class:`accelerated.Arborescence`; sentence b has the first
lengths[b] tokens.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.arborescence_batch import best_range, sum_range
from accelerated.threads import in_parallel, ranges

__all__ = ["best", "sums"]


def sums(
    values: np.ndarray, lengths: np.ndarray, single_root: bool, mu: float, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The log-partitions (B,) at temperature mu and the marginals (B, N, N + 1); -inf and 0 where there is no tree, nan
    where a score is nan or +inf.
    """
    value, marginals = np.empty(len(values)), np.zeros(values.shape)

    def run(lo: int, hi: int) -> None:
        sum_range(lo, hi, values, lengths, mu, single_root, value, marginals)

    in_parallel(run, _pieces(lengths), threads)
    return value, marginals


def best(
    values: np.ndarray, lengths: np.ndarray, single_root: bool, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The highest scores (B,) and heads (B, N), -1 past a sentence's length and where there is no tree."""
    value, heads = np.empty(len(values)), np.full(values.shape[:2], -1)
    in_parallel(
        lambda lo, hi: best_range(lo, hi, values, lengths, single_root, value, heads), _pieces(lengths), threads
    )
    return value, heads


def _pieces(lengths: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of sentences, by the squares of their lengths."""
    return ranges(np.concatenate([[0], np.cumsum(lengths**2)])) if len(lengths) else []
