"""Sums over the examples of a problem: losses and gradients. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

from accelerated.compiled.problems import (
    add_features,
    add_transitions,
    exact,
    flush,
    longest_of,
    new_work,
    oracle,
    outputs_of,
    prepared,
    task_loss,
)
from accelerated.compiled.problems.answers import remember
from accelerated.kernel import kernel

__all__ = ["gradient_range"]


@kernel
def gradient_range(problem, batch, lo, hi, W, A, mu, kept, G_W, G_A):
    """Sums over sequences batch[lo:hi]: losses, task losses, exact calls; gradients are added to G_W (F, Lp) and G_A (1, L, L).

    The oracle's answers are kept where ``kept`` has room.
    """
    work = new_work(longest_of(problem, batch, lo, hi), A.shape[1], outputs_of(problem))
    ready = prepared(problem, A, mu, work)
    total, cost, certified = 0.0, 0.0, 0
    for k in range(lo, hi):
        total += oracle(problem, batch[k], 1.0, W, A, ready, mu, work)
        cost += task_loss(problem, batch[k], work)
        certified += exact(problem, work)
        if len(kept.outputs) > 0:
            remember(problem, batch[k], work, kept)
            flush(problem, 1.0, ready, work, G_A)
        add_features(problem, batch[k], 1.0, work, G_W)
        add_transitions(problem, batch[k], 1.0, work, G_A)
    flush(problem, 1.0, ready, work, G_A)
    return total, cost, certified
