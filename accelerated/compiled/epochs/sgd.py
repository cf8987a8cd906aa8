"""An epoch of stochastic gradients over the examples of a problem. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import (
    add_dense,
    add_rows,
    flush,
    oracle,
    prepared,
    room,
)
from accelerated.kernel import kernel

__all__ = ["Rounds", "sgd_epoch"]


class Rounds(NamedTuple):
    """Examples in ``order``, with step sizes gamma and the weight in the mean, ``shares``, of the iterate after each
    step. weighed: the sum of the earlier weights.
    """

    order: np.ndarray
    steps: np.ndarray
    shares: np.ndarray
    weighed: float


@kernel
def sgd_epoch(problem, rounds, lam, mu, w, mean, signed, rows):
    """One step for each example: w and the weighted mean of its iterates change in place.

    signed: the range of A[0, 0] whose weights must be >= 0. rows: the rows of W to bring up to date, at least those
    that the examples touch; all of them if there is a mean. ``mean`` is empty if all shares are 0.

    A step costs the rows that the example touches, not F: the rows are s V, and shrinking changes only s. With S the
    sum of shares * s so far, the weighted sum of the iterates is S V - U, where U gathers each change of V times the S
    before it. (Write each V_t in the sum over t of shares_t s_t V_t as the sum of its changes.)
    """
    (V, A), (mean_V, mean_A), (order, steps, shares, before) = w, mean, rounds
    work = room(problem, order, 0, len(order), A)
    U, sums = np.zeros_like(mean_V), np.zeros_like(mean_V)
    s, S, weighed = 1.0, 0.0, before
    for k in range(len(order)):
        gamma, shrink = steps[k], 1.0 - steps[k] * lam
        ready = prepared(problem, A, mu, work)
        oracle(problem, order[k], s, V, A, ready, mu, work)

        s *= shrink
        if abs(s) < 1e-3:  # also if shrink = 0: S V - U loses 1/s in accuracy, so restart from s = 1
            fold(s, S, V, U, sums, rows)
            s, S = 1.0, 0.0
        add_rows(problem, order[k], -gamma / s, work, V)
        if S != 0.0:
            add_rows(problem, order[k], -gamma / s * S, work, U)
        S += shares[k] * s

        scale(shrink, A[0])
        add_dense(problem, order[k], -gamma, work, A)
        flush(problem, -gamma, ready, work, A)
        for j in range(signed[0], signed[1]):
            if A[0, 0, j] < 0.0:
                A[0, 0, j] = 0.0
        weighed += shares[k]
        if shares[k] != 0.0:
            approach(mean_A[0], shares[k] / weighed, A[0])
    fold(s, S, V, U, sums, rows)
    if weighed > before:
        for i in range(V.shape[0]):
            for j in range(V.shape[1]):
                mean_V[i, j] = (before * mean_V[i, j] + sums[i, j]) / weighed


@kernel
def fold(s, S, V, U, sums, rows):
    """sums += S V - U; then V *= s and U = 0, in these rows: the same weights with s = 1 and S = 0."""
    for i in rows:
        for j in range(V.shape[1]):
            if len(sums) > 0:
                sums[i, j] += S * V[i, j] - U[i, j]
                U[i, j] = 0.0
            V[i, j] *= s


@kernel
def scale(factor, x):
    """x *= factor."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] *= factor


@kernel
def approach(mean, share, x):
    """mean += share * (x - mean)."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            mean[i, j] += share * (x[i, j] - mean[i, j])
