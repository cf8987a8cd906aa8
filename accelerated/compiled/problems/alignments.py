"""Alignments as a problem: all weights are dense, A (1, 1, d), and W is empty. An example's features are (F, p q): each
feature for all pairs in turn.

A label is the column of a row, or -1 for none. Where rows may stay unaligned, the last weight is the score of an
unaligned row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.structures.assignment import are_scores, assign
from accelerated.kernel import inlined, kernel

__all__ = ["AlignmentProblem", "AlignmentWork", "add_change", "alignment_room", "pair_score"]


class AlignmentProblem(NamedTuple):
    """Example i has the entries rows[i]..rows[i + 1] - 1 of ``columns`` (the true columns of its rows), widths[i]
    columns, and pairs offsets[i]..offsets[i + 1] - 1.

    n_features: F, of a pair; those of example i start at F * offsets[i]. null: whether rows may stay unaligned;
    augmented: whether losses are added to scores. mu = 0: the maximum.
    """

    features: np.ndarray
    n_features: int
    offsets: np.ndarray
    rows: np.ndarray
    widths: np.ndarray
    columns: np.ndarray
    null: bool
    augmented: bool


class AlignmentWork(NamedTuple):
    """Room for one example. pairs: a number for each pair; cells: the matrix of a matching; best: the best column of
    each row; numbers (1,): the task loss.
    """

    pairs: np.ndarray
    cells: np.ndarray
    best: np.ndarray
    numbers: np.ndarray


@kernel
def alignment_room(problem, batch, lo, hi):
    """Room for any one of the examples batch[lo:hi]."""
    pairs = rows = 0
    for k in range(lo, hi):
        pairs = max(pairs, problem.offsets[batch[k] + 1] - problem.offsets[batch[k]])
        rows = max(rows, problem.rows[batch[k] + 1] - problem.rows[batch[k]])
    cells = pairs + rows**2 if problem.null else pairs
    return AlignmentWork(np.empty(pairs), np.empty(cells), np.empty(rows, np.int64), np.zeros(1))


@kernel
def score_pairs(problem, i, w, scores):
    """The scores (p q,) of all pairs of example i."""
    m, first = len(scores), problem.n_features * problem.offsets[i]
    scores[:] = 0.0
    for f in range(problem.n_features):
        x, weight = problem.features[first + f * m : first + (f + 1) * m], w[f]
        for k in range(m):
            scores[k] += weight * x[k]


@inlined
def pair_score(problem, i, r, c, w):
    """The score of row r with column c."""
    if c < 0:
        return w[len(w) - 1] if problem.null else 0.0
    total, m = 0.0, problem.offsets[i + 1] - problem.offsets[i]
    start = problem.n_features * problem.offsets[i] + r * problem.widths[i] + c
    for f in range(problem.n_features):
        total += w[f] * problem.features[start + f * m]
    return total


@inlined
def pair_loss(problem, i, r, c):
    """The task loss of row r with column c. Without ``null``, a pair of a row that truly has none displaces another
    pair.
    """
    true = problem.columns[problem.rows[i] + r]
    if c == true or (c < 0 and not problem.null):
        return 0.0
    return 2.0 if true < 0 and not problem.null else 1.0


@inlined
def add_pair(problem, i, r, c, factor, g):
    """g (d,) += factor * the features of row r with column c."""
    m = problem.offsets[i + 1] - problem.offsets[i]
    start = problem.n_features * problem.offsets[i] + r * problem.widths[i] + c
    if c >= 0:
        for f in range(problem.n_features):
            g[f] += factor * problem.features[start + f * m]
    elif problem.null:
        g[len(g) - 1] += factor


@inlined
def add_change(problem, i, r, before, after, factor, g):
    """g (d,) += factor * the change of row r's features from column ``before`` to column ``after``."""
    if before != after:
        add_pair(problem, i, r, after, factor, g)
        add_pair(problem, i, r, before, -factor, g)


@kernel
def augment(problem, i, w, scores):
    """Add the task losses to scores (p, q) if the problem is augmented. Returns the score of the true alignment without
    loss.
    """
    gold = 0.0
    for r in range(scores.shape[0]):
        true = problem.columns[problem.rows[i] + r]
        own = scores[r, true] if true >= 0 else w[len(w) - 1] if problem.null else 0.0
        gold += own
        if problem.augmented:
            loss = 2.0 if true < 0 and not problem.null else 1.0
            for c in range(scores.shape[1]):
                scores[r, c] += loss
            if true >= 0:
                scores[r, true] = own
    return gold


@kernel
def with_none(problem, i, w, scores, cells):
    """The scores (p, q) in the first cells as (p, q + p): each row has its own column for none."""
    p, q = scores.shape
    wide = cells[: p * (q + p)].reshape((p, q + p))
    for r in range(p):
        for c in range(q):
            wide[r, c] = scores[r, c]
        for c in range(q, q + p):
            wide[r, c] = -np.inf
        wide[r, q + r] = w[len(w) - 1] + (pair_loss(problem, i, r, -1) if problem.augmented else 0.0)
    return wide


@kernel
def transposed(scores, cells):
    """The scores (p, q) in the first cells as (q, p)."""
    p, q = scores.shape
    turned = cells[: p * q].reshape((q, p))
    for r in range(p):
        for c in range(q):
            turned[c, r] = scores[r, c]
    return turned


@answers(oracles.room, AlignmentProblem)
def room(problem, batch, lo, hi, A):
    return alignment_room(problem, batch, lo, hi)


@answers(oracles.oracle, AlignmentProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    w, p, q = A[0, 0], problem.rows[i + 1] - problem.rows[i], problem.widths[i]
    tall = p > q and not problem.null
    score_pairs(problem, i, w, work.pairs[: p * q])
    scores = work.pairs[: p * q].reshape((p, q))
    gold = augment(problem, i, w, scores)
    if problem.null:
        scores = with_none(problem, i, w, scores, work.cells)
    elif tall:
        scores = transposed(scores, work.cells)
    work.best[:p] = -1
    work.numbers[0] = 0.0
    if not are_scores(scores):
        return np.nan
    # assign needs at least as many columns as rows
    possible, column, _, _ = assign(scores)
    if not possible:
        return -np.inf
    value = 0.0
    for a in range(len(column)):
        value += scores[a, column[a]]
        if tall:
            work.best[column[a]] = a
        else:
            work.best[a] = column[a] if column[a] < q else -1
    if problem.augmented:
        for r in range(p):
            work.numbers[0] += pair_loss(problem, i, r, work.best[r])
    return value - gold


@answers(oracles.add_dense, AlignmentProblem)
def add_dense(problem, i, factor, work, G):
    first = problem.rows[i]
    for r in range(problem.rows[i + 1] - first):
        add_change(problem, i, r, problem.columns[first + r], work.best[r], factor, G[0, 0])
