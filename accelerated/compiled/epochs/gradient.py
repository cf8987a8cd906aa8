"""Sums over the examples of a problem: losses and gradients. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

from accelerated.compiled.problems import (
    add_dense,
    add_rows,
    exact,
    flush,
    only_value,
    oracle,
    prepared,
    remember,
    room,
    task_loss,
)
from accelerated.kernel import kernel

__all__ = ["gradient_range", "value_range"]


@kernel
def gradient_range(problem, batch, lo, hi, w, mu, kept, g):
    """Sums over examples batch[lo:hi]: losses, task losses, exact calls; gradients are added to g.

    The oracle's answers are stored if ``kept`` has room.
    """
    (W, A), (G_W, G_A) = w, g
    work = room(problem, batch, lo, hi, A)
    ready = prepared(problem, A, mu, work)
    total, cost, certified = 0.0, 0.0, 0
    for k in range(lo, hi):
        total += oracle(problem, batch[k], 1.0, W, A, ready, mu, work)
        cost += task_loss(problem, batch[k], work)
        certified += exact(problem, work)
        if len(kept.outputs) > 0:
            remember(problem, batch[k], work, kept)
            flush(problem, 1.0, ready, work, G_A)
        add_rows(problem, batch[k], 1.0, work, G_W)
        add_dense(problem, batch[k], 1.0, work, G_A)
    flush(problem, 1.0, ready, work, G_A)
    return total, cost, certified


@kernel
def value_range(problem, batch, lo, hi, w, mu):
    """The sum of the losses of examples batch[lo:hi]."""
    W, A = w
    work = room(problem, batch, lo, hi, A)
    ready = prepared(problem, A, mu, work)
    total = 0.0
    for k in range(lo, hi):
        total += only_value(problem, batch[k], 1.0, W, A, ready, mu, work)
    return total
