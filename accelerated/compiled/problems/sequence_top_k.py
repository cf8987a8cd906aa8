"""The hinge smoothed by squared l2 over packed sequences: projections of the scores of the best outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, add_of_label, may_change
from accelerated.compiled.problems.sequence import augmented_scores
from accelerated.compiled.structures.chain_top_k import mixture, smoothed_best
from accelerated.compiled.sweeps import load

__all__ = ["TopKProblem"]


class TopKProblem(NamedTuple):
    """The max smoothed by squared l2 over the k best outputs, or fewer where they are certified to be enough."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    k: int


@answers(oracles.outputs_of, TopKProblem)
def outputs_of(problem):
    return problem.k


@answers(oracles.prepared, TopKProblem)
def prepared(problem, A, mu, work):
    load(A[0], 1.0, work.matrix)
    return work.matrix


@answers(oracles.oracle, TopKProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    if len(work.outputs.values) != problem.k + 1 or work.outputs.labels.shape[1] < n:
        raise ValueError("work: no room for the outputs of this problem; new_work takes outputs_of(problem)")
    gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
    return smoothed_best(work.scores, n, A, ready, mu, work.outputs) - gold


@answers(oracles.add_features, TopKProblem)
def add_features(problem, i, factor, work, G):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
    here, share, pairs = work.outputs.here, work.outputs.share, problem.pairs  # taken out here, not in the inner loop
    for t in range(n):
        m = mixture(count, labels, weights, t, problem.labels[first + t], here, share)
        if m > 0:
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, j = factor * problem.data[e], problem.indices[e]
                for a in range(m):
                    if may_change(pairs, j, here[a]):
                        G[j, here[a]] += x * share[a]
            for a in range(m):
                add_of_label(pairs, first + t, factor * share[a], here[a], G)


@answers(oracles.add_transitions, TopKProblem)
def add_transitions(problem, i, factor, work, G):
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


@answers(oracles.flush, TopKProblem)
def flush(problem, factor, ready, work, G):
    pass


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
