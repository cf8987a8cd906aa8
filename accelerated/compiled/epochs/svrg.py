"""A pass of SVRG over packed problems, at the cost of the examples' features. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.problems import (
    add_dense,
    add_difference,
    flush,
    oracle,
    prepared,
    recall,
    room,
    subtract,
)
from accelerated.kernel import inlined, kernel

__all__ = ["Steps", "missed", "svrg_epoch"]


class Steps(NamedTuple):
    """Examples in ``order``, the step length gamma, a = 1 / (1 + gamma (lam + kappa)), and whether iterates are
    ``averaged``.
    """

    order: np.ndarray
    gamma: float
    a: float
    averaged: bool


@kernel
def svrg_epoch(problem, touched_rows, steps, mu, kept, start, shift, w, sums):
    """One step for each example in ``steps.order`` from the snapshot ``start``: w becomes the last iterate.

    A step is w <- a w - a gamma (g_i(w) - g_i(x)) + b, with b the ``shift``, a = 1 / (1 + gamma (lam + kappa)) and b =
    a gamma (kappa z - grad F(x)). Where ``averaged``, the iterates are added to ``sums``. Oracles at the snapshot are
    called for answers that are not in ``kept``. touched_rows: from the function of that name.

    The sparse part touches the rows of the example, and comes before w <- a w + b. A row that is not touched waits; m
    steps are then applied to it at once:

        w <- a^m w + Q_m b,   sum of its m iterates = a Q_m w + P_m b,
        Q_m = 1 + a + ... + a^(m-1), P_m = Q_1 + ... + Q_m
    """
    order, gamma, a, averaged = steps
    (X, X_A), (b, b_A), (W, A), (sum_W, sum_A) = start, shift, w, sums
    n = len(order)
    work = room(problem, order, 0, n, A)
    still = room(problem, order, 0, n, A)  # workspace for oracles at the snapshot
    ready_still = prepared(problem, X_A, mu, still)
    power, Q, P = missed(a, n)
    first, rows = touched_rows
    done = np.zeros(W.shape[0], np.int64)
    for k in range(n):
        i = order[k]
        for e in range(first[i], first[i + 1]):
            j = rows[e]
            m = k - done[j]
            if m > 0:  # 0 * b is nan where b is -inf
                if averaged:
                    add_row(a * Q[m], W, P[m], b, j, sum_W)
                step_row(power[m], W, Q[m], b, j)
                done[j] = k
        ready = prepared(problem, A, mu, work)
        oracle(problem, i, 1.0, W, A, ready, mu, work)
        if not recall(problem, i, kept, still):
            oracle(problem, i, 1.0, X, X_A, ready_still, mu, still)
        subtract(problem, i, work, still)
        add_difference(problem, i, -gamma, work, still, W)
        add_dense(problem, i, -gamma, work, A)
        add_dense(problem, i, gamma, still, A)
        flush(problem, -gamma, ready, work, A)
        flush(problem, gamma, ready_still, still, A)
        for j in range(A.shape[1]):
            step_row(a, A[0], 1.0, b_A[0], j)
            if averaged:
                add_row(1.0, A[0], 0.0, b_A[0], j, sum_A[0])
    for j in range(W.shape[0]):
        m = n - done[j]
        if averaged:
            add_row(a * Q[m], W, P[m], b, j, sum_W)
        step_row(power[m], W, Q[m], b, j)


@kernel
def missed(a, n):
    """a^m, Q_m and P_m for m = 0..n, by recurrence: without subtraction, so a = 1 is no special case."""
    power, Q, P = np.ones(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for m in range(1, n + 1):
        power[m] = a * power[m - 1]
        Q[m] = a * Q[m - 1] + 1.0
        P[m] = P[m - 1] + Q[m]
    return power, Q, P


@inlined
def step_row(p, w, q, b, j):
    """w[j] = p w[j] + q b[j]."""
    for label in range(w.shape[1]):
        w[j, label] = muladd(p, w[j, label], q * b[j, label])


@inlined
def add_row(p, w, q, b, j, total):
    """total[j] += p w[j] + q b[j]."""
    for label in range(w.shape[1]):
        total[j, label] += muladd(p, w[j, label], q * b[j, label])
