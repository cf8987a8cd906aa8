"""Classes as a problem: a row of scores for each example; weights W (F, Lp), and A is empty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.copies import add_to, copy_to
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.structures.table import Listed, listed_room, smooth_max
from accelerated.compiled.sweeps import padded
from accelerated.kernel import kernel

__all__ = ["ClassProblem", "class_room", "class_scores"]


class ClassProblem(NamedTuple):
    """Example i has entries offsets[i]:offsets[i + 1] of ``indices`` and ``data``, and class labels[i]; cost (L, L) is
    by (true, predicted).

    outputs: the number of best outputs over which squared l2 smooths the max; or ENTROPY, or MAX.
    """

    offsets: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    outputs: int


class Work(NamedTuple):
    """Room for one example. listed: its list; excess (Lp,): the weights of classes less the truth; here (L,): the
    classes where excess is not 0.
    """

    listed: Listed
    excess: np.ndarray
    here: np.ndarray


@kernel
def class_room(L, outputs):
    """Room for one example."""
    return Work(listed_room(padded(L), outputs), np.zeros(padded(L)), np.zeros(L, np.int64))


@kernel
def class_scores(problem, i, s, W, scores):
    """scores (Lp,) = s * the sum of the features' rows of W, plus the task losses. Returns the true class's own
    score.
    """
    y = problem.labels[i]
    scores[:] = 0.0
    for e in range(problem.offsets[i], problem.offsets[i + 1]):
        x, j = entry(problem.data, e), problem.indices[e]
        for label in range(W.shape[1]):
            scores[label] = muladd(x, W[j, label], scores[label])
    gold = s * scores[y]
    for label in range(problem.cost.shape[0]):
        scores[label] = s * scores[label] + problem.cost[y, label]
    return gold


@answers(oracles.room, ClassProblem)
def room(problem, batch, lo, hi, A):
    return class_room(problem.cost.shape[0], problem.outputs)


@answers(oracles.oracle, ClassProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    listed, excess = work.listed, work.excess
    gold = class_scores(problem, i, s, W, listed.scores)
    value = smooth_max(listed, problem.cost.shape[0], problem.outputs, mu)
    excess[:] = 0.0
    for c in range(listed.state[0]):
        excess[listed.rows[c]] += listed.weights[c]
    excess[problem.labels[i]] -= 1.0
    return value - gold


@answers(oracles.add_rows, ClassProblem)
def add_rows(problem, i, factor, work, G):
    excess, here, m = work.excess, work.here, 0
    for label in range(len(here)):
        if excess[label] != 0.0:
            here[m] = label
            m += 1
    for e in range(problem.offsets[i], problem.offsets[i + 1]):
        x, j = factor * entry(problem.data, e), problem.indices[e]
        if 4 * m < len(here):
            for a in range(m):
                G[j, here[a]] += x * excess[here[a]]
        elif m > 0:
            for label in range(G.shape[1]):
                G[j, label] = muladd(x, excess[label], G[j, label])


@answers(oracles.task_loss, ClassProblem)
def task_loss(problem, i, work):  # excess is less the truth, whose task loss is 0
    total = 0.0
    for label in range(problem.cost.shape[0]):
        total += problem.cost[problem.labels[i], label] * work.excess[label]
    return total


@answers(oracles.exact, ClassProblem)
def exact(problem, work):
    return work.listed.state[1] == 1


@answers(oracles.touched, ClassProblem)
def touched(problem, i):
    return problem.indices[problem.offsets[i] : problem.offsets[i + 1]]


@room_for.register
def _(problem: ClassProblem) -> StoredAnswers:
    n, Lp = len(problem.labels), int(padded(len(problem.cost)))
    if 8 * n * Lp > MOST:
        return nothing()
    return nothing()._replace(scores=np.zeros((n, Lp)), outputs=np.full(n, -1))


@answers(oracles.remember_rows, ClassProblem)
def remember_rows(problem, i, work, kept):
    kept.outputs[i] = 1
    copy_to(work.excess, kept.scores[i])


@answers(oracles.recall_rows, ClassProblem)
def recall_rows(problem, i, kept, work):
    copy_to(kept.scores[i], work.excess)


@answers(oracles.subtract, ClassProblem)
def subtract(problem, i, work, other):
    add_to(-1.0, other.excess, work.excess)
