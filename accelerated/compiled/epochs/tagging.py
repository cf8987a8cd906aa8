"""The best labels of sequences. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import gather, longest_of, new_work
from accelerated.compiled.structures.chain import max_product
from accelerated.compiled.sweeps import load
from accelerated.kernel import kernel

__all__ = ["tag_range"]


@kernel
def tag_range(problem, batch, lo, hi, W, A, start, labels):
    """labels[start[k]:] = best labels of sequence batch[k], for k in lo..hi-1; -1 if all its labellings are
    forbidden.
    """
    work = new_work(longest_of(problem, batch, lo, hi), A.shape[1])
    load(A[0], 1.0, work.matrix)
    for k in range(lo, hi):
        first, n = problem.offsets[batch[k]], problem.offsets[batch[k] + 1] - problem.offsets[batch[k]]
        for t in range(n):
            gather(problem, first + t, W, work.scores, t)
            for label in range(A.shape[1], work.scores.shape[1]):
                work.scores[t, label] = -np.inf
        max_product(work.scores, n, A, 0, 0, work.matrix, work.chain.forward, labels[start[k] : start[k] + n])
