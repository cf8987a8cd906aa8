"""Losses of sequences without gradients: forward messages only. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import augmented_scores, prepared, room
from accelerated.compiled.structures.chain import scaled_forward
from accelerated.compiled.structures.chain_log import log_forward, log_total
from accelerated.kernel import kernel

__all__ = ["chain_losses"]


@kernel
def chain_losses(problem, lo, hi, W, A, losses):
    """losses[lo:hi] of the sequences of an EntropyProblem with cost 0, at mu = 1."""
    work = room(problem, np.arange(lo, hi), 0, hi - lo, A)
    ready = prepared(problem, A, 1.0, work)
    for i in range(lo, hi):
        n = problem.offsets[i + 1] - problem.offsets[i]
        gold = augmented_scores(problem, i, 1.0, W, A, 1.0, work.scores)
        losses[i] = 0.0
        if n > 0:
            value = scaled_forward(work.scores, n, A.shape[1], ready, work.chain.factor, work.chain.forward)
            if np.isnan(value):
                value = log_forward(work.scores, n, A, 0, np.int64(0), 1.0, work.chain)
                value += log_total(work.chain.forward, n - 1)
            losses[i] = value - gold
