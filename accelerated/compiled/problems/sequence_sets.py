"""Working sets of sequences and of trees: labellings. A visit looks only at the positions where they differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import largest_entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import add_column, all_may_change
from accelerated.compiled.problems.sequence import Work, augmented_scores, gather, longest_of, new_work
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.working_sets import (
    WorkingSets,
    add_labelling,
    begin_sequences,
    empty_sets,
    find_labelling,
    idle_place,
    new_sets,
    repeats,
)
from accelerated.kernel import inlined, kernel

__all__: list[str] = []


class Scratch(NamedTuple):
    """g, change, spread (outputs,): scores, changes of the weights in this visit, sums of weighted distances; scores
    (n, Lp): a copy;

    differ (n,): where outputs differ; share (Lp,), zero, and touched (outputs,): the labels of a position whose weight
    changes; counts (L, L), zero; apart: zero, as W if some of its weights may not change; work: as the oracles take it,
    with the prepared A.
    """

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    scores: np.ndarray
    differ: np.ndarray
    share: np.ndarray
    touched: np.ndarray
    counts: np.ndarray
    apart: np.ndarray
    work: Work


@answers(oracles.visiting, MaxProblem)
def visiting(problem, order, sets, w):
    longest, L, most = longest_of(problem, order, 0, len(order)), w.dense.shape[1], largest_entry(sets.room)
    work = new_work(longest, L)
    oracles.prepared(problem, w.dense, 0.0, work)
    Lp = work.scores.shape[1]
    return Scratch(
        np.zeros(most),
        np.zeros(most),
        np.zeros(most),
        np.zeros((longest, Lp)),
        np.zeros(longest, np.bool_),
        np.zeros(Lp),
        np.zeros(most, np.int64),
        np.zeros((L, L)),
        np.zeros((0 if all_may_change(problem.pairs) else w.rows.shape[0], w.rows.shape[1])),
        work,
    )


@answers(oracles.join_best, MaxProblem)
def join_best(
    problem, i, capacity, sets, w, scratch
):  # afterwards, scratch has the scores of positions and where outputs differ
    n, (W, A), work = problem.offsets[i + 1] - problem.offsets[i], w, scratch.work
    augmented_scores(problem, i, 1.0, W, A, 1.0, work.scores)
    for t in range(n):
        for label in range(work.scores.shape[1]):
            scratch.scores[t, label] = work.scores[t, label]
    value = oracles.decode(problem, i, A, work)
    if value > -np.inf and find_labelling(sets, i, n, work.labels) < 0:
        place, loss = sets.outputs[i], 0.0
        for t in range(n):
            loss += problem.cost[problem.labels[problem.offsets[i] + t], work.labels[t]]
        if not repeats(problem, sets, i, n, work.labels, loss, scratch.counts, scratch.apart):
            if place >= capacity:
                mark_differences(sets, i, n, scratch.differ)
                score_outputs(problem, sets, i, n, A, scratch)
                place = idle_place(sets, i, scratch)
            add_labelling(problem, sets, i, n, work.labels, loss, place, scratch.counts, scratch.apart)
    mark_differences(sets, i, n, scratch.differ)


@kernel
def mark_differences(sets, i, n, differ):
    """differ[t]: whether the outputs of sequence i have more than one label at t."""
    first = sets.cells[i]
    for t in range(n):
        differ[t] = False
    for a in range(1, sets.outputs[i]):
        for t in range(n):
            differ[t] |= sets.labels[first + a * n + t] != sets.labels[first + t]


@inlined
def some_scores(problem, i, n, W, differ, scores):
    """scores[t] (Lp,) with the task loss, where differ[t]."""
    first = problem.offsets[i]
    for t in range(n):
        if differ[t]:
            gather(problem, first + t, W, scores, t)
            for label in range(problem.cost.shape[1]):
                scores[t, label] += problem.cost[problem.labels[first + t], label]


@answers(oracles.score_set, MaxProblem)
def score_set(problem, i, joined, sets, w, scratch):
    n = problem.offsets[i + 1] - problem.offsets[i]
    if not joined:
        mark_differences(sets, i, n, scratch.differ)
        some_scores(problem, i, n, w.rows, scratch.differ, scratch.scores)
    score_outputs(problem, sets, i, n, w.dense, scratch)


@kernel
def score_outputs(problem, sets, i, n, A, scratch):
    """g[a] = score of output a of example i, up to what all have in common."""
    for a in range(sets.outputs[i]):
        first, total = sets.cells[i] + a * n, 0.0
        for t in range(n):
            if scratch.differ[t]:
                total += scratch.scores[t, sets.labels[first + t]]
            above = oracles.parent(problem, i, t)
            if above >= 0 and (scratch.differ[t] or scratch.differ[above]):
                total += A[0, sets.labels[first + above], sets.labels[first + t]]
        scratch.g[a] = total


@answers(oracles.move, MaxProblem)
def move(problem, i, factor, S, sets, w, sums, scratch):
    """w and sums change as for the question. The changes sum to 0, so the true output's features drop out, and so do
    positions where the outputs agree. (Differences of weights would not sum to 0: a weight near 1 loses the digits that
    a tiny one gains.)
    """
    (W, A), (U_W, U_A), average, free = w, sums, len(sums.dense) > 0, problem.pairs.transitions
    n, work = problem.offsets[i + 1] - problem.offsets[i], scratch.work
    slots, first, loss = sets.slots[i], problem.offsets[i], 0.0
    changed = 0  # the first ``changed`` of spread and change now hold places and their changes times factor
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        if change != 0.0:
            loss += change * sets.losses[slots + a]
            scratch.change[changed] = change * factor
            scratch.spread[changed] = a
            changed += 1
    for t in range(n):
        if scratch.differ[t]:
            touched = 0
            for k in range(changed):
                label = sets.labels[sets.cells[i] + np.int64(scratch.spread[k]) * n + t]
                place = 0
                while place < touched and scratch.touched[place] != label:
                    place += 1
                if place == touched:
                    scratch.touched[touched] = label
                    touched += 1
                scratch.share[label] += scratch.change[k]
            for k in range(touched):
                label = scratch.touched[k]
                share = scratch.share[label]
                scratch.share[label] = 0.0
                if touched > 1:
                    add_column(problem, first + t, share, label, W)
                    if average:
                        add_column(problem, first + t, S * share, label, U_W)
        above = oracles.parent(problem, i, t)
        if above >= 0 and (scratch.differ[t] or scratch.differ[above]):
            for k in range(changed):
                output = sets.cells[i] + np.int64(scratch.spread[k]) * n
                a, b = sets.labels[output + above], sets.labels[output + t]
                A[0, a, b] += free[a, b] * scratch.change[k]
                work.matrix[a, b] = work.transposed[b, a] = A[0, a, b]  # decode takes one of them
                if average:
                    U_A[0, a, b] += S * (free[a, b] * scratch.change[k])
    return loss


@new_sets.register
def _(problem: MaxProblem, width: int) -> WorkingSets:
    lengths = np.diff(problem.offsets)
    sets = empty_sets(lengths, lengths**2 if all_may_change(problem.pairs) else 0 * lengths)
    begin_sequences(problem, sets, np.zeros(width))
    return sets
