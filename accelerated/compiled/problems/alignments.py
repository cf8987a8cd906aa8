"""Alignments as a problem: all weights are dense, A (1, 1, d) and no W; features (N, F) of all pairs, row after row.

A label is the column of a row, or -1 for none; where rows may stay unaligned, the last weight is the score of none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.candidates import add_row, dot
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.structures.assignment import are_scores, assign
from accelerated.kernel import inlined, kernel

__all__ = ["AlignmentProblem", "AlignmentWork", "add_change", "alignment_room", "pair_score"]


class AlignmentProblem(NamedTuple):
    """Example i has rows rows[i]..rows[i + 1] - 1 of ``columns``, the true ones, widths[i] columns, and pairs offsets[i]..offsets[i + 1] - 1.

    null: whether rows may stay unaligned; augmented: whether losses are added to scores. mu = 0: the maximum.
    """

    features: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    widths: np.ndarray
    columns: np.ndarray
    null: bool
    augmented: bool


class AlignmentWork(NamedTuple):
    """Room for one example: cells, a number for each pair; found, the best column of each row; numbers (1,), the task loss."""

    cells: np.ndarray
    found: np.ndarray
    numbers: np.ndarray


@kernel
def alignment_room(problem, batch, lo, hi):
    """Room for one of examples batch[lo:hi]."""
    cells = rows = 1
    for k in range(lo, hi):
        p = problem.rows[batch[k] + 1] - problem.rows[batch[k]]
        cells = max(cells, p * (problem.widths[batch[k]] + (p if problem.null else 0)))
        rows = max(rows, p)
    return AlignmentWork(np.empty(cells), np.empty(rows, np.int64), np.zeros(1))


@inlined
def pair_score(problem, i, r, c, w):
    """The score of row r with column c."""
    if c >= 0:
        return dot(problem.features, problem.offsets[i] + r * problem.widths[i] + c, w[: problem.features.shape[1]])
    return w[len(w) - 1] if problem.null else 0.0


@inlined
def pair_loss(problem, i, r, c):
    """The task loss of row r with column c: without ``null``, a pair of a row that truly has none has displaced another."""
    true = problem.columns[problem.rows[i] + r]
    if c == true or (c < 0 and not problem.null):
        return 0.0
    return 2.0 if true < 0 and not problem.null else 1.0


@inlined
def add_pair(problem, i, r, c, factor, g):
    """g (d,) += factor * the features of row r with column c."""
    if c >= 0:
        row = problem.offsets[i] + r * problem.widths[i] + c
        add_row(problem.features, row, factor, g[: problem.features.shape[1]])
    elif problem.null:
        g[len(g) - 1] += factor


@inlined
def add_change(problem, i, r, before, after, factor, g):
    """g (d,) += factor * what the features of row r change by from one column to another."""
    if before != after:
        add_pair(problem, i, r, after, factor, g)
        add_pair(problem, i, r, before, -factor, g)


@answers(oracles.room, AlignmentProblem)
def room(problem, batch, lo, hi, A):
    return alignment_room(problem, batch, lo, hi)


@answers(oracles.prepared, AlignmentProblem)
def prepared(problem, A, mu, work):
    return 0


@answers(oracles.oracle, AlignmentProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    w, p, q = A[0, 0], problem.rows[i + 1] - problem.rows[i], problem.widths[i]
    gold, tall, width = 0.0, p > q and not problem.null, q + p if problem.null else q
    scores = work.cells[: p * width].reshape((q, p) if tall else (p, width))  # assign takes as many columns, or more
    for r in range(p):
        true = problem.columns[problem.rows[i] + r]
        gold += pair_score(problem, i, r, true, w)
        for c in range(q):
            score = pair_score(problem, i, r, c, w)
            if problem.augmented:
                score += pair_loss(problem, i, r, c)
            if tall:
                scores[c, r] = score
            else:
                scores[r, c] = score
        if problem.null:
            scores[r, q:] = -np.inf
            scores[r, q + r] = w[len(w) - 1] + (pair_loss(problem, i, r, -1) if problem.augmented else 0.0)
    work.found[:p] = -1
    work.numbers[0] = 0.0
    if not are_scores(scores):
        return np.nan
    possible, column, _, _ = assign(scores)
    if not possible:
        return -np.inf
    value = 0.0
    for a in range(len(column)):
        value += scores[a, column[a]]
        if tall:
            work.found[column[a]] = a
        else:
            work.found[a] = column[a] if column[a] < q else -1
    if problem.augmented:
        for r in range(p):
            work.numbers[0] += pair_loss(problem, i, r, work.found[r])
    return value - gold


@answers(oracles.add_rows, AlignmentProblem)
def add_rows(problem, i, factor, work, G):
    pass


@answers(oracles.add_dense, AlignmentProblem)
def add_dense(problem, i, factor, work, G):
    first = problem.rows[i]
    for r in range(problem.rows[i + 1] - first):
        add_change(problem, i, r, problem.columns[first + r], work.found[r], factor, G[0, 0])


@answers(oracles.flush, AlignmentProblem)
def flush(problem, factor, ready, work, G):
    pass


@answers(oracles.task_loss, AlignmentProblem)
def task_loss(problem, i, work):
    return work.numbers[0]


@answers(oracles.exact, AlignmentProblem)
def exact(problem, work):
    return True


@answers(oracles.remember, AlignmentProblem)
def remember(problem, i, work, kept):
    pass
