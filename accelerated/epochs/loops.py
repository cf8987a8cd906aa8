"""Loops over sequences of a problem: the full gradient, an epoch of SGD, tagging."""

from __future__ import annotations

import numpy as np

from accelerated.epochs.problems import add_gradient, oracle, workspace
from accelerated.kernel import kernel

__all__ = ["gradient_range", "sgd_epoch"]


@kernel
def gradient_range(problem, batch, lo, hi, W, A, mu, G_W, G_A):
    """The sum of losses of sequences batch[lo:hi]; their gradients are added to G_W (F, L) and G_A (1, L, L)."""
    longest = 0
    for k in range(lo, hi):
        longest = max(longest, problem.offsets[batch[k] + 1] - problem.offsets[batch[k]])
    work = workspace(longest, W.shape[1])
    total = 0.0
    for k in range(lo, hi):
        total += oracle(problem, batch[k], W, A, mu, work)
        add_gradient(problem, batch[k], 1.0, work, G_W, G_A)
    return total


@kernel
def sgd_epoch(problem, order, steps, shares, lam, mu, W, A, mean_W, mean_A):
    """One step for each sequence in ``order``: W, A and their running means change in place.

    steps: step sizes gamma; shares: how far the mean moves towards the new iterate after each step (0 < share <= 1).
    """
    work = workspace(np.max(problem.offsets[1:] - problem.offsets[:-1]), W.shape[1])
    for k in range(len(order)):
        oracle(problem, order[k], W, A, mu, work)
        shrink = 1.0 - steps[k] * lam
        W *= shrink
        A *= shrink
        add_gradient(problem, order[k], -steps[k], work, W, A)
        mean_W += shares[k] * (W - mean_W)
        mean_A += shares[k] * (A - mean_A)
