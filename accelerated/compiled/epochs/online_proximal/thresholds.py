"""A pass of the online proximal algorithm where the proxes shrink all weights and threshold them: l1, ridge, elastic
net.

Weights W (F, Lp), A (1, L, L). Round r maps a weight without a gradient to w <- soft(C_r w, T_r). A row of W that is
not touched waits, and rounds d, ..., k-1 are then applied to it at once: with P_r = C_d ... C_r,

    w <- P_{k-1} soft(w, sum_r T_r / P_r),
    and the sum of its models is a sum of (|w| - the threshold so far) P_r while that is > 0
"""

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
from accelerated.kernel import inlined, kernel

__all__ = ["Rounds", "Shrinking", "threshold_epoch"]

# the sums below restart after so many rounds, or once P is below SMALL, so that their differences keep their digits
STRETCH = 512
SMALL = 1e-3
FEW = 4  # rounds that a row makes up for one by one


class Rounds(NamedTuple):
    """For each round r: C and T; end, the first round of the next stretch; and, within its stretch and before and after
    the round, the product P of C, S = sum T/P, Q = sum P and M = sum P S.
    """

    C: np.ndarray
    T: np.ndarray
    end: np.ndarray
    P: np.ndarray
    S: np.ndarray
    Q: np.ndarray
    M: np.ndarray


@kernel
def rounds_ahead(C, T):
    """The effect of all rounds of an epoch; P, S, Q and M are (n, 2): before and after each round."""
    n = len(C)
    end = np.empty(n, np.int64)
    P, S, Q, M = np.ones((n, 2)), np.zeros((n, 2)), np.zeros((n, 2)), np.zeros((n, 2))
    first = 0
    for r in range(n):
        if r > first:
            P[r, 0], S[r, 0], Q[r, 0], M[r, 0] = P[r - 1, 1], S[r - 1, 1], Q[r - 1, 1], M[r - 1, 1]
        P[r, 1] = P[r, 0] * C[r]
        S[r, 1] = S[r, 0] + T[r] / P[r, 1]
        Q[r, 1] = Q[r, 0] + P[r, 1]
        M[r, 1] = M[r, 0] + P[r, 1] * S[r, 1]
        if r + 1 == n or r + 1 - first == STRETCH or P[r, 1] < SMALL:
            while first <= r:
                end[first] = r + 1
                first += 1
    return Rounds(C, T, end, P, S, Q, M)


class Shrinking(NamedTuple):
    """For each round: the step length in ``factors``, whether all weights are set to 0 before it, C and T."""

    factors: np.ndarray
    clear: np.ndarray
    C: np.ndarray
    T: np.ndarray


@kernel
def threshold_epoch(problem, touched_rows, order, shrinking, mu, averaged, w, sums):
    """A round for each sequence in ``order``: w <- soft(C (w - factor g), T), in place.

    clear: w <- 0 before the step. If ``averaged``, the models at the start of each round are added to ``sums``.
    touched_rows: from the function of that name.
    """
    (factors, clear, C, T), (W, A), (sum_W, sum_A) = shrinking, w, sums
    n = len(order)
    work = room(problem, order, 0, n, A)
    rounds = rounds_ahead(C, T)
    end, P, S = rounds.end, rounds.P, rounds.S
    start, rows = touched_rows
    done = np.zeros(
        W.shape[0], np.int64
    )  # row j has been through rounds 0, ..., done[j] - 1, and the gradient of the next
    if averaged and n > 0:
        for j in range(W.shape[0]):
            for label in range(W.shape[1]):
                sum_W[j, label] += W[j, label]
    for k in range(n):
        i = order[k]
        for e in range(start[i], start[i + 1]):
            j = rows[e]
            d = done[j]
            if not averaged and d + 1 < k and end[d] >= k:  # inlined: passing arrays costs as much as the work
                threshold(1.0 / P[d, 0], S[k - 1, 1] - S[d, 0], W, j)
                for label in range(W.shape[1]):
                    W[j, label] *= P[k - 1, 1]
            elif d + FEW >= k:
                for r in range(d, k):
                    threshold(C[r], T[r], W, j)
                    if averaged:
                        for label in range(W.shape[1]):
                            sum_W[j, label] += W[j, label]
            else:
                make_up(rounds, d, k, k, averaged, W, j, sum_W)
            done[j] = k
        if averaged:
            for a in range(A.shape[1]):
                for b in range(A.shape[2]):
                    sum_A[0, a, b] += A[0, a, b]
        ready = prepared(problem, A, mu, work)
        oracle(problem, i, 1.0, W, A, ready, mu, work)
        if clear[k]:
            for j in range(W.shape[0]):
                if done[j] < k:
                    make_up(rounds, done[j], k, k, averaged, W, j, sum_W)
                    done[j] = k
            vanish(W)
            vanish(A[0])
        add_rows(problem, i, -factors[k], work, W)
        add_dense(problem, i, -factors[k], work, A)
        flush(problem, -factors[k], ready, work, A)
        for a in range(A.shape[1]):
            threshold(C[k], T[k], A[0], a)
    for j in range(W.shape[0]):
        make_up(rounds, done[j], n, n - 1, averaged, W, j, sum_W)


@kernel
def vanish(x):
    """x = 0; forbidden entries stay forbidden."""
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            if x[a, b] > -np.inf:
                x[a, b] = 0.0


@inlined
def threshold(c, t, W, j):
    """W[j] = soft(c W[j], t)."""
    for label in range(W.shape[1]):
        x = c * W[j, label]
        above, below = x - t, x + t
        W[j, label] = (above if above > 0.0 else 0.0) + (below if below < 0.0 else 0.0)


@kernel
def make_up(rounds, d, k, last, averaged, W, j, sums):
    """Apply rounds d, ..., k-1 to row j; if averaged, sums[j] gathers its models of rounds d+1, ..., last."""
    while d < k:
        e = rounds.end[d]
        e = k if k < e else e
        if e - d <= FEW:
            for r in range(d, e):
                threshold(rounds.C[r], rounds.T[r], W, j)
                if averaged and r < last:
                    for label in range(W.shape[1]):
                        sums[j, label] += W[j, label]
        else:
            through(rounds, d, e, last if last < e else e, averaged, W, j, sums)
        d = e


@kernel
def through(rounds, d, e, last, averaged, W, j, sums):
    """`make_up` within one stretch."""
    before, after, S = rounds.P[d, 0], rounds.P[e - 1, 1], rounds.S[d, 0]
    t = rounds.S[e - 1, 1] - S
    if averaged:
        Q, M, least, most = (
            rounds.Q[last - 1, 1] - rounds.Q[d, 0],
            rounds.M[last - 1, 1] - rounds.M[d, 0],
            rounds.S[d, 1],
            rounds.S[last - 1, 1],
        )
        crossing = 0
        for label in range(W.shape[1]):
            level = abs(W[j, label]) / before + S
            crossing += 1 if level > least and level <= most else 0
            total = level * Q - M if level > most else 0.0
            sums[j, label] += total if W[j, label] > 0.0 else -total
        if crossing > 0:
            for label in range(W.shape[1]):
                level = abs(W[j, label]) / before + S
                if level > least and level <= most:
                    lo, hi = d, last - 1  # > 0 after round lo, 0 after round hi
                    while hi - lo > 1:
                        middle = (lo + hi) // 2
                        if level > rounds.S[middle, 1]:
                            lo = middle
                        else:
                            hi = middle
                    total = level * (rounds.Q[lo, 1] - rounds.Q[d, 0]) - (rounds.M[lo, 1] - rounds.M[d, 0])
                    sums[j, label] += total if W[j, label] > 0.0 else -total
    for label in range(W.shape[1]):
        x = W[j, label] / before
        above, below = x - t, x + t
        W[j, label] = after * ((above if above > 0.0 else 0.0) + (below if below < 0.0 else 0.0))
