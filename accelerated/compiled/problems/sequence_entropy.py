"""The hinge smoothed by entropy, and the log loss, over packed sequences: sum-product at a temperature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, add_of_labels
from accelerated.compiled.problems.sequence import augmented_scores
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.chain import finish, log_partition, prepare, sum_product
from accelerated.compiled.sweeps import fill, padded

__all__ = ["EntropyProblem"]


class EntropyProblem(NamedTuple):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss has cost 0 and mu = 1."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs


@answers(oracles.prepared, EntropyProblem)
def prepared(problem, A, mu, work):
    return prepare(A[0], 1.0 / mu, work.matrix, work.transposed)


@answers(oracles.oracle, EntropyProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
    value = sum_product(work.scores, n, ready, A, 0, 1.0 / mu, work.chain, work.pairs, work.edges)
    for t in range(n):
        work.scores[t, problem.labels[problem.offsets[i] + t]] -= 1.0
    return mu * value - gold


@answers(oracles.only_value, EntropyProblem)
def only_value(problem, i, s, W, A, ready, mu, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
    return mu * log_partition(work.scores, n, ready, A, 0, 1.0 / mu, work.chain, work.edges) - gold


@answers(oracles.add_rows, EntropyProblem)
def add_rows(problem, i, factor, work, G):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    pairs, free = problem.pairs, problem.pairs.free  # read once, outside the inner loop
    for t in range(n):
        for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
            x, j = factor * entry(problem.data, e), problem.indices[e]
            if free.shape[0] > 0:
                for label in range(G.shape[1]):
                    G[j, label] = muladd(x * free[j, label], work.scores[t, label], G[j, label])
            else:
                for label in range(G.shape[1]):
                    G[j, label] = muladd(x, work.scores[t, label], G[j, label])
        add_of_labels(pairs, first + t, factor, work.scores, t, G)


@answers(oracles.add_dense, EntropyProblem)
def add_dense(problem, i, factor, work, G):
    first, n, free = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], problem.pairs.transitions
    for t in range(n):
        above = oracles.parent(problem, i, t)
        if above >= 0:
            before, y = problem.labels[first + above], problem.labels[first + t]
            G[0, before, y] -= factor * free[before, y]


@answers(oracles.flush, EntropyProblem)
def flush(problem, factor, ready, work, G):
    finish(ready, work.pairs, work.edges[0])
    edges, free = work.edges, problem.pairs.transitions
    for i in range(G.shape[1]):
        for j in range(G.shape[2]):
            G[0, i, j] += factor * edges[0, i, j] * free[i, j]
            edges[0, i, j] = 0.0
    for i in range(work.pairs.shape[0]):
        fill(0.0, work.pairs, i)


@answers(oracles.task_loss, EntropyProblem)
def task_loss(problem, i, work):  # scores are marginals less the truth, whose task loss is 0
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    total = 0.0
    for t in range(n):
        y = problem.labels[first + t]
        for label in range(problem.cost.shape[1]):
            total += problem.cost[y, label] * work.scores[t, label]
    return total


@room_for.register
def _(problem: EntropyProblem) -> StoredAnswers:
    n, N, L = len(problem.offsets) - 1, int(problem.offsets[-1]), len(problem.cost)
    Lp = padded(L)
    if 8 * Lp * (N + n * L) > MOST:
        return nothing()
    return nothing()._replace(scores=np.empty((N, Lp)), pairs=np.empty((n, L, Lp)), outputs=np.full(n, -1))


@answers(oracles.remember, EntropyProblem)
def remember(problem, i, work, kept):
    n, total = problem.offsets[i + 1] - problem.offsets[i], 0.0
    oracles.remember_rows(problem, i, work, kept)
    for a in range(kept.pairs.shape[1]):
        for b in range(work.pairs.shape[1]):
            kept.pairs[i, a, b] = work.pairs[a, b]
            total = plus(total, work.pairs[a, b])
    kept.outputs[i] = 1 if n < 2 or total > 0.0 else -1  # 0: no pairs, or from the log domain, which writes elsewhere


@answers(oracles.recall, EntropyProblem)
def recall(problem, i, kept, work):
    if len(kept.outputs) == 0 or kept.outputs[i] < 0:
        return False
    oracles.recall_rows(problem, i, kept, work)
    for a in range(kept.pairs.shape[1]):
        for b in range(work.pairs.shape[1]):
            work.pairs[a, b] = kept.pairs[i, a, b]
    return True


@answers(oracles.remember_rows, EntropyProblem)
def remember_rows(problem, i, work, kept):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    for t in range(n):
        for label in range(work.scores.shape[1]):
            kept.scores[first + t, label] = work.scores[t, label]


@answers(oracles.recall_rows, EntropyProblem)
def recall_rows(problem, i, kept, work):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    for t in range(n):
        for label in range(work.scores.shape[1]):
            work.scores[t, label] = kept.scores[first + t, label]


@answers(oracles.subtract, EntropyProblem)
def subtract(problem, i, work, other):
    for t in range(problem.offsets[i + 1] - problem.offsets[i]):
        for label in range(work.scores.shape[1]):
            work.scores[t, label] -= other.scores[t, label]
