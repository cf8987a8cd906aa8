"""The hinge smoothed by squared l2 over packed sequences: projections of the scores of the best outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, add_of_label, may_change
from accelerated.compiled.problems.sequence import augmented_scores, longest_of
from accelerated.compiled.structures.chain_top_k import Outputs, mixture, outputs_room, smoothed_best
from accelerated.compiled.sweeps import padded

__all__ = ["TopKProblem"]


class TopKProblem(NamedTuple):
    """The max smoothed by squared l2 over the k best outputs, or over fewer if those are certified to suffice."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    k: int


class TopKWork(NamedTuple):
    """Room for one sequence of up to n positions: scores (n, Lp), the prepared transitions (Lp, Lp), the best outputs
    with their weights.
    """

    scores: np.ndarray
    matrix: np.ndarray
    outputs: Outputs


@answers(oracles.room, TopKProblem)
def room(problem, batch, lo, hi, A):
    longest, L = longest_of(problem, batch, lo, hi), A.shape[1]
    Lp = padded(L)
    return TopKWork(np.empty((longest, Lp)), np.empty((Lp, Lp)), outputs_room(longest, L, problem.k))


@answers(oracles.oracle, TopKProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    if len(work.outputs.values) != problem.k + 1 or work.outputs.labels.shape[1] < n:
        raise ValueError("work: no room for the outputs of this problem; see room")
    gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
    return smoothed_best(work.scores, n, A, ready, mu, work.outputs) - gold


@answers(oracles.add_rows, TopKProblem)
def add_rows(problem, i, factor, work, G):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
    here, share, pairs = work.outputs.here, work.outputs.share, problem.pairs  # read once, outside the inner loop
    for t in range(n):
        m = mixture(count, labels, weights, t, problem.labels[first + t], here, share)
        if m > 0:
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, j = factor * entry(problem.data, e), problem.indices[e]
                for a in range(m):
                    if may_change(pairs, j, here[a]):
                        G[j, here[a]] += x * share[a]
            for a in range(m):
                add_of_label(pairs, first + t, factor * share[a], here[a], G)


@answers(oracles.add_dense, TopKProblem)
def add_dense(problem, i, factor, work, G):
    first, n, free = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], problem.pairs.transitions
    labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
    for t in range(1, n):
        before, y, others = problem.labels[first + t - 1], problem.labels[first + t], 0.0
        for a in range(count):
            if labels[a, t - 1] != before or labels[a, t] != y:
                weight = factor * weights[a]
                G[0, labels[a, t - 1], labels[a, t]] += weight * free[labels[a, t - 1], labels[a, t]]
                others += weight
        G[0, before, y] -= others * free[before, y]


@answers(oracles.task_loss, TopKProblem)
def task_loss(problem, i, work):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    labels, weights, count, total = work.outputs.labels, work.outputs.weights, work.outputs.state[0], 0.0
    for a in range(count):
        for t in range(n):
            total += weights[a] * problem.cost[problem.labels[first + t], labels[a, t]]
    return total


@answers(oracles.exact, TopKProblem)
def exact(problem, work):
    return work.outputs.state[1] == 1


@room_for.register
def _(problem: TopKProblem) -> StoredAnswers:
    n, N = len(problem.offsets) - 1, int(problem.offsets[-1])
    if 8 * problem.k * (N + n) > MOST:
        return nothing()
    return nothing()._replace(
        labels=np.empty((N, problem.k), np.int64), weights=np.empty((n, problem.k)), outputs=np.full(n, -1)
    )


@answers(oracles.remember_rows, TopKProblem)
def remember_rows(problem, i, work, kept):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
    kept.outputs[i] = count
    for a in range(count):
        kept.weights[i, a] = weights[a]
        for t in range(n):
            kept.labels[first + t, a] = labels[a, t]


@answers(oracles.recall_rows, TopKProblem)
def recall_rows(problem, i, kept, work):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    labels, weights, count = work.outputs.labels, work.outputs.weights, kept.outputs[i]
    work.outputs.state[0] = count
    for a in range(count):
        weights[a] = kept.weights[i, a]
        for t in range(n):
            labels[a, t] = kept.labels[first + t, a]
