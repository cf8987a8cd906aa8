"""The structural hinge over packed sequences: loss-augmented max-product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, add_of_label, may_change
from accelerated.compiled.problems.sequence import augmented_scores
from accelerated.compiled.structures.chain import max_product

__all__ = ["MaxProblem"]


class MaxProblem(NamedTuple):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted)."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs


@answers(oracles.oracle, MaxProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
    return oracles.decode(problem, i, A, work) - gold


@answers(oracles.decode, MaxProblem)
def decode(problem, i, A, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    return max_product(work.scores, n, A, 0, 0, work.matrix, work.chain.forward, work.labels)


@answers(oracles.add_rows, MaxProblem)
def add_rows(problem, i, factor, work, G):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    pairs = problem.pairs  # read once, outside the inner loop
    for t in range(n):
        y, guess = problem.labels[first + t], work.labels[t]
        if y != guess:
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, j = factor * entry(problem.data, e), problem.indices[e]
                if may_change(pairs, j, guess):
                    G[j, guess] += x
                if may_change(pairs, j, y):
                    G[j, y] -= x
            add_of_label(pairs, first + t, factor, guess, G)
            add_of_label(pairs, first + t, -factor, y, G)


@answers(oracles.add_dense, MaxProblem)
def add_dense(problem, i, factor, work, G):
    first, n, free = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], problem.pairs.transitions
    for t in range(n):
        above = oracles.parent(problem, i, t)
        if above >= 0:
            before, guess = work.labels[above], work.labels[t]
            G[0, before, guess] += factor * free[before, guess]
            before, y = problem.labels[first + above], problem.labels[first + t]
            G[0, before, y] -= factor * free[before, y]


@answers(oracles.task_loss, MaxProblem)
def task_loss(problem, i, work):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    total = 0.0
    for t in range(n):
        total += problem.cost[problem.labels[first + t], work.labels[t]]
    return total
