"""Candidates of images as problems: all weights are dense, A (1, 1, d), and W is empty; features (N, d) as they are
stored.

Features are float32 or float64, weights and sums float64: a feature is widened when it is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.table import ENTROPY, listed_room, smooth_max
from accelerated.kernel import inlined, kernel

__all__ = ["CandidateProblem", "add_row", "add_weighted", "dot", "score_range"]


class CandidateProblem(NamedTuple):
    """Image i has candidates offsets[i]..offsets[i + 1] - 1; best (n,): the number of the true one within the image;
    losses (N,), which count if ``augmented``.

    outputs: the number of best outputs over which squared l2 smooths the max; ENTROPY: smoothed by entropy over all;
    MAX: not smoothed.
    """

    features: np.ndarray
    offsets: np.ndarray
    best: np.ndarray
    losses: np.ndarray
    augmented: bool
    outputs: int


@inlined
def dot(features, row, w):
    """<features[row], w>."""
    total = 0.0
    for j in range(len(w)):
        total = plus(total, features[row, j] * w[j])
    return total


@kernel
def score_range(features, first, end, w, scores):
    """scores (end - first,) = features[first:end] @ w."""
    for row in range(first, end):
        scores[row - first] = dot(features, row, w)


@inlined
def add_row(features, row, factor, G):
    """G (d,) += factor * features[row]."""
    for j in range(len(G)):
        G[j] += factor * features[row, j]


@kernel
def add_weighted(features, rows, factors, G):
    """G (d,) += the sum of factors[k] * features[rows[k]]."""
    for k in range(len(rows)):
        add_row(features, rows[k], factors[k], G)


@kernel
def longest_list(offsets, batch, lo, hi):
    """The largest number of candidates of an image among batch[lo:hi]."""
    longest = 1
    for k in range(lo, hi):
        longest = max(longest, offsets[batch[k] + 1] - offsets[batch[k]])
    return longest


@answers(oracles.room, CandidateProblem)
def room(problem, batch, lo, hi, A):
    return listed_room(longest_list(problem.offsets, batch, lo, hi), problem.outputs)


@answers(oracles.oracle, CandidateProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    first, m = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    score_range(problem.features, first, first + m, A[0, 0], work.scores)
    gold = work.scores[problem.best[i]]
    if problem.augmented:
        for y in range(m):
            work.scores[y] += problem.losses[first + y]
    return smooth_max(work, m, problem.outputs, mu) - gold


@answers(oracles.add_dense, CandidateProblem)
def add_dense(problem, i, factor, work, G):
    first, g = problem.offsets[i], G[0, 0]
    for c in range(work.state[0]):
        if work.weights[c] != 0.0:
            add_row(problem.features, first + work.rows[c], factor * work.weights[c], g)
    if work.state[2] == 1:
        add_row(problem.features, first + problem.best[i], -factor, g)


@answers(oracles.task_loss, CandidateProblem)
def task_loss(problem, i, work):
    total = 0.0
    if problem.augmented:
        for c in range(work.state[0]):
            total += work.weights[c] * problem.losses[problem.offsets[i] + work.rows[c]]
    return total


@answers(oracles.exact, CandidateProblem)
def exact(problem, work):
    return work.state[1] == 1


@room_for.register
def _(problem: CandidateProblem) -> StoredAnswers:
    n = len(problem.best)
    most = int(np.max(np.diff(problem.offsets))) if problem.outputs == ENTROPY else abs(problem.outputs)
    if 16 * n * most > MOST:
        return nothing()
    return nothing()._replace(labels=np.zeros((n, most), np.int64), weights=np.zeros((n, most)), outputs=np.full(n, -1))


@answers(oracles.remember, CandidateProblem)
def remember(problem, i, work, kept):
    kept.outputs[i] = work.state[0]
    for c in range(work.state[0]):
        kept.labels[i, c], kept.weights[i, c] = work.rows[c], work.weights[c]


@answers(oracles.recall, CandidateProblem)
def recall(problem, i, kept, work):
    if len(kept.outputs) == 0 or kept.outputs[i] < 0:
        return False
    work.state[0], work.state[2] = kept.outputs[i], 1
    for c in range(kept.outputs[i]):
        work.rows[c], work.weights[c] = kept.labels[i, c], kept.weights[i, c]
    return True


@answers(oracles.subtract, CandidateProblem)
def subtract(problem, i, work, other):
    work.state[2] = other.state[2] = 0  # both contain the truth


@answers(oracles.add_difference, CandidateProblem)
def add_difference(problem, i, factor, work, other, G):
    pass
