"""Trials for a step size: the smoothness of single examples' losses. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

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

__all__ = ["largest_change", "try_components"]


@kernel
def try_components(problem, batch, touched_rows, start, limit, mu, slack, w):
    """The least L = start * 2^j such that f_i(w - g_i/L) <= f_i(w) - ||g_i||^2 / (2L) for all i of the batch that need
    at most ``limit``; and the number of oracle calls.

    touched_rows: from the function of that name; other rows of W are not read. slack: the tolerance of the inequality,
    as a share of f_i(w) and mu. inf if no finite L suffices.
    """
    W, A = w
    work, other = room(problem, batch, 0, len(batch), A), room(problem, batch, 0, len(batch), A)
    ready = prepared(problem, A, mu, work)
    G, G_A, moved, moved_A = np.empty_like(W), np.empty_like(A), np.empty_like(W), np.empty_like(A)
    first, named = touched_rows
    L, calls = start, 0
    for k in range(len(batch)):
        i = batch[k]
        rows = named[first[k] : first[k + 1]]
        for j in rows:
            for label in range(W.shape[1]):
                G[j, label] = 0.0
        G_A[:] = 0.0
        value = oracle(problem, i, 1.0, W, A, ready, mu, work)
        add_rows(problem, i, 1.0, work, G)
        add_dense(problem, i, 1.0, work, G_A)
        flush(problem, 1.0, ready, work, G_A)
        before = L
        calls += 1
        square = squared_norm(rows, G) + squares(G_A[0])
        while square > 0.0 and 0.0 < L < np.inf:
            for j in rows:
                for label in range(W.shape[1]):
                    moved[j, label] = W[j, label] - G[j, label] / L
            step_back(A[0], G_A[0], L, moved_A[0])
            calls += 1
            trial = oracle(problem, i, 1.0, moved, moved_A, prepared(problem, moved_A, mu, other), mu, other)
            if trial <= value - square / (2.0 * L) + slack * (abs(value) + mu):
                break
            L *= 2.0
            if limit < L:
                L = before
                break
    return L, calls


@kernel
def largest_change(problem, batch, touched_rows, mu, w):
    """max_i ||g_i(w - u_i) - g_i(w)||, u_i = g_i(w) / ||g_i(w)||, over the batch; and the number of oracle calls."""
    W, A = w
    work, other = room(problem, batch, 0, len(batch), A), room(problem, batch, 0, len(batch), A)
    ready = prepared(problem, A, mu, work)
    G, G_A, moved, moved_A = np.empty_like(W), np.empty_like(A), np.empty_like(W), np.empty_like(A)
    first, named = touched_rows
    largest, calls = 0.0, 0
    for k in range(len(batch)):
        i = batch[k]
        rows = named[first[k] : first[k + 1]]
        for j in rows:
            for label in range(W.shape[1]):
                G[j, label] = 0.0
        G_A[:] = 0.0
        oracle(problem, i, 1.0, W, A, ready, mu, work)
        add_rows(problem, i, 1.0, work, G)
        add_dense(problem, i, 1.0, work, G_A)
        flush(problem, 1.0, ready, work, G_A)
        norm = np.sqrt(squared_norm(rows, G) + squares(G_A[0]))
        calls += 1
        if norm > 0.0:
            for j in rows:
                for label in range(W.shape[1]):
                    moved[j, label] = W[j, label] - G[j, label] / norm
            step_back(A[0], G_A[0], norm, moved_A[0])
            calls += 1
            ready_there = prepared(problem, moved_A, mu, other)
            oracle(problem, i, 1.0, moved, moved_A, ready_there, mu, other)
            add_rows(problem, i, -1.0, other, G)
            add_dense(problem, i, -1.0, other, G_A)
            flush(problem, -1.0, ready_there, other, G_A)
            largest = max(largest, np.sqrt(squared_norm(rows, G) + squares(G_A[0])))
    return largest, calls


@kernel
def squared_norm(rows, G):
    """The sum of ||G[j]||^2 over these rows."""
    total = 0.0
    for j in rows:
        for label in range(G.shape[1]):
            total += G[j, label] * G[j, label]
    return total


@kernel
def step_back(w, g, divisor, out):
    """out = w - g / divisor."""
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            out[i, j] = w[i, j] - g[i, j] / divisor


@kernel
def squares(x):
    """The sum of squares."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
    return total
