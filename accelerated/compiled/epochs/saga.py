"""A pass of SAGA over packed problems, at the cost of the examples' features. Weights W (F, Lp), A (1, L, L).

The table stores the oracle's answers, from which the gradients with respect to features follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.epochs.svrg import missed
from accelerated.compiled.problems import (
    add_dense,
    add_difference,
    flush,
    oracle,
    prepared,
    recall,
    recall_rows,
    remember_rows,
    room,
    subtract,
)
from accelerated.compiled.problems.answers import StoredAnswers
from accelerated.kernel import inlined, kernel

__all__ = ["Answers", "saga_epoch", "saga_table"]


class Answers(NamedTuple):
    """The last answer for each sequence: labels, as in :class:`StoredAnswers` (its pairs are unused), and edges
    (n, L, L), the gradient with respect to the transitions.

    mean_W (F, Lp) and mean_A (1, L, L): the mean of the gradients over the sequences.
    """

    kept: StoredAnswers
    edges: np.ndarray
    mean_W: np.ndarray
    mean_A: np.ndarray


@kernel
def saga_table(problem, x, mu, stored, answers):
    """The answers at x: copied from ``stored`` if they are there, else computed. The means are left unchanged."""
    X, X_A = x
    n = len(problem.offsets) - 1
    every = np.arange(n)
    work = room(problem, every, 0, n, X_A)
    ready, edges = prepared(problem, X_A, mu, work), np.zeros_like(X_A)
    for i in range(n):
        if not recall(problem, i, stored, work):
            oracle(problem, i, 1.0, X, X_A, ready, mu, work)
        remember_rows(problem, i, work, answers.kept)
        add_dense(problem, i, 1.0, work, edges)
        flush(problem, 1.0, ready, work, edges)
        take(edges[0], answers.edges, i)


@kernel
def saga_epoch(problem, touched_rows, steps, mu, answers, shift, w):
    """One step for each example in ``steps.order``: w becomes the last iterate, and the answers follow.

    With g_i the last gradient of sequence i, G the mean of all, a = 1 / (1 + gamma (lam + kappa)) and the ``shift``
    c = a gamma kappa z, a step is

        delta = grad f_i(w) - g_i,   w <- a w - a gamma (delta + G) + c,   G <- G + delta / n

    delta touches the rows of the sequence's features. With the new G the step is w <- a (w - gamma (1 - 1/n) delta) +
    (c - a gamma G), so the sparse part may come before the rest. A row that is not touched, and so keeps its G, waits;
    m steps are then applied to it at once:

        w <- a^m w + Q_m (c - a gamma G),   Q_m = 1 + a + ... + a^(m-1)
    """
    order, gamma, a, _ = steps
    (c, c_A), (W, A) = shift, w
    n, share = len(problem.offsets) - 1, 1.0 / (len(problem.offsets) - 1)
    work, before = room(problem, order, 0, len(order), A), room(problem, order, 0, len(order), A)
    G, G_A, edges = answers.mean_W, answers.mean_A, np.zeros_like(A)
    power, Q, _ = missed(a, len(order))
    start, rows = touched_rows
    done = np.zeros(W.shape[0], np.int64)
    for k in range(len(order)):
        i = order[k]
        for e in range(start[i], start[i + 1]):
            j = rows[e]
            m = k - done[j]
            if m > 0:  # 0 * c is nan where c is -inf
                steps_of_row(power[m], W, Q[m], c, a * gamma, G, j)
                done[j] = k
        ready = prepared(problem, A, mu, work)
        oracle(problem, i, 1.0, W, A, ready, mu, work)
        recall_rows(problem, i, answers.kept, before)
        remember_rows(problem, i, work, answers.kept)
        add_dense(problem, i, 1.0, work, edges)
        flush(problem, 1.0, ready, work, edges)
        subtract(problem, i, work, before)
        add_difference(problem, i, -gamma * (n - 1) * share, work, before, W)
        add_difference(problem, i, share, work, before, G)
        for x in range(A.shape[1]):
            for y in range(A.shape[1]):
                delta = edges[0, x, y] - answers.edges[i, x, y]
                A[0, x, y] = a * A[0, x, y] - a * gamma * (delta + G_A[0, x, y]) + c_A[0, x, y]
                G_A[0, x, y] += delta * share
        take(edges[0], answers.edges, i)
    for j in range(W.shape[0]):
        m = len(order) - done[j]
        steps_of_row(power[m], W, Q[m], c, a * gamma, G, j)


@inlined
def steps_of_row(p, w, q, c, s, G, j):
    """w[j] = p w[j] + q (c[j] - s G[j])."""
    for label in range(w.shape[1]):
        w[j, label] = muladd(p, w[j, label], q * (c[j, label] - s * G[j, label]))


@inlined
def take(edges, answers, i):
    """answers[i] = edges, then edges = 0."""
    for x in range(edges.shape[0]):
        for y in range(edges.shape[1]):
            answers[i, x, y] = edges[x, y]
            edges[x, y] = 0.0
