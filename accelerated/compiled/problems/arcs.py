"""Heads of tokens as a problem: features of arcs are made as they are used. The weights are the rows of W (d / 8, 8),
and A is empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_table
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.arc_features import ArcFeatures, add_arcs, arc_scores
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.sequence import longest_of
from accelerated.compiled.structures.arborescence_max import best_tree
from accelerated.compiled.structures.arborescence_sum import sum_over_trees
from accelerated.compiled.structures.projective import best_projective, sum_projective
from accelerated.kernel import inlined, kernel

__all__ = ["ArcProblem", "best_of", "sum_of"]


class ArcProblem(NamedTuple):
    """Sentence i owns positions offsets[i]:offsets[i + 1], the first of which is its root; heads (P,) are the true
    ones; trees: whether each tree has one root, and whether its arcs may not cross.

    augmented: whether losses are added to scores. mu = 0: the maximum, else the log-partition at temperature mu.
    """

    features: ArcFeatures
    offsets: np.ndarray
    heads: np.ndarray
    trees: tuple[bool, bool]
    augmented: bool


class Work(NamedTuple):
    """Room for one sentence. excess: the weights of arcs less the truth; scaled: a copy; numbers (1,): the mean task
    loss.
    """

    excess: np.ndarray
    scaled: np.ndarray
    numbers: np.ndarray


@kernel
def best_of(values, trees):
    """Value and heads (n,) of a best tree; -inf and -1 if there is none."""
    single_root, projective = trees
    return best_projective(values, single_root) if projective else best_tree(values, single_root)


@kernel
def sum_of(values, mu, trees):
    """The log-partition at temperature mu and the marginals (n, n + 1)."""
    single_root, projective = trees
    return sum_projective(values, mu, single_root) if projective else sum_over_trees(values, mu, single_root)


@inlined
def table(cells, n):
    """The first cells as a matrix (n, n + 1)."""
    return cells[: n * (n + 1)].reshape((n, n + 1))


@answers(oracles.room, ArcProblem)
def room(problem, batch, lo, hi, A):
    n = longest_of(problem, batch, lo, hi)
    return Work(np.empty(n * n), np.empty(n * n), np.zeros(1))


@answers(oracles.oracle, ArcProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    a = problem.offsets[i]
    n = problem.offsets[i + 1] - a - 1
    scores, gold = table(work.scaled, n), 0.0
    arc_scores(problem.features, a, n, W.reshape(W.size), scores)
    for m in range(n):
        head = problem.heads[a + 1 + m]
        gold += s * scores[m, head]
        for h in range(n + 1):
            scores[m, h] = s * scores[m, h] + (1.0 if problem.augmented and h != head else 0.0)
    excess = table(work.excess, n)
    if mu > 0.0:
        value, expected = sum_of(scores, mu, problem.trees)
        copy_table(expected, excess)
    else:
        value, best = best_of(scores, problem.trees)
        excess[:] = 0.0
        for m in range(n):
            excess[m, best[m]] = 1.0
    wrong = 0.0
    for m in range(n):
        head = problem.heads[a + 1 + m]
        wrong += 1.0 - excess[m, head]
        excess[m, head] -= 1.0
    work.numbers[0] = wrong if problem.augmented else 0.0
    return value - gold


@answers(oracles.add_rows, ArcProblem)
def add_rows(problem, i, factor, work, G):
    a = problem.offsets[i]
    n = problem.offsets[i + 1] - a - 1
    excess, scaled = table(work.excess, n), table(work.scaled, n)
    for m in range(n):
        for h in range(n + 1):
            scaled[m, h] = factor * excess[m, h]
    add_arcs(problem.features, a, n, scaled, G.reshape(G.size))
