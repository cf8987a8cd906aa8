"""Working sets of examples, whose one label is a class. Directions are the example's features in two columns of W."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import largest_entry
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.classes import ClassProblem, Work, class_room, class_scores
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.working_sets import (
    WorkingSets,
    empty_sets,
    find_labelling,
    idle_place,
    new_sets,
    set_distance,
    store,
)
from accelerated.compiled.structures.table import MAX, smooth_max
from accelerated.kernel import kernel

__all__: list[str] = []


class Scratch(NamedTuple):
    """g, change, spread (outputs,) as the steps take them; label (1,); work: as the oracles take it."""

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    label: np.ndarray
    work: Work


@new_sets.register
def _(problem: ClassProblem, width: int) -> WorkingSets:
    one = np.ones(len(problem.labels), np.int64)
    sets = empty_sets(one, one)
    sets.alpha[sets.slots] = 1.0
    sets.labels[sets.cells] = problem.labels
    squared_norms(problem, sets.products, np.zeros(width))
    return sets


@kernel
def squared_norms(problem, squares, row):
    """squares (n,) = ||x_i||^2, where entries of the same feature add up; row (F,) is scratch, zero."""
    for i in range(len(problem.labels)):
        first, end, total = problem.offsets[i], problem.offsets[i + 1], 0.0
        for e in range(first, end):
            row[problem.indices[e]] += entry(problem.data, e)
        for e in range(first, end):
            total += entry(problem.data, e) * row[problem.indices[e]]
        for e in range(first, end):
            row[problem.indices[e]] = 0.0
        squares[i] = total


@answers(oracles.visiting, ClassProblem)
def visiting(problem, order, sets, w):
    most = largest_entry(sets.room)
    work = class_room(problem.cost.shape[0], problem.outputs)
    return Scratch(np.zeros(most), np.zeros(most), np.zeros(most), np.zeros(1, np.int64), work)


@answers(oracles.join_best, ClassProblem)
def join_best(problem, i, capacity, sets, w, scratch):
    listed = scratch.work.listed
    class_scores(problem, i, 1.0, w.rows, listed.scores)
    smooth_max(listed, problem.cost.shape[0], MAX, 0.0)
    y, place = listed.rows[0], sets.outputs[i]
    scratch.label[0] = y
    if find_labelling(sets, i, 1, scratch.label) >= 0:
        return
    if place >= capacity:
        score_classes(sets, i, listed.scores, scratch)
        place = idle_place(sets, i, scratch)
    store(sets, i, 1, scratch.label, problem.cost[problem.labels[i], y], place)
    apart = 2.0 * sets.products[sets.squares[i]]
    for b in range(sets.outputs[i]):
        distance = apart if b != place else 0.0
        set_distance(sets, i, place, b, distance)


@answers(oracles.score_set, ClassProblem)
def score_set(problem, i, joined, sets, w, scratch):
    if not joined:
        class_scores(problem, i, 1.0, w.rows, scratch.work.listed.scores)
    score_classes(sets, i, scratch.work.listed.scores, scratch)


@kernel
def score_classes(sets, i, scores, scratch):
    """g[a] = the score of output a of example i, including its loss."""
    for a in range(sets.outputs[i]):
        scratch.g[a] = scores[sets.labels[sets.cells[i] + a]]


@answers(oracles.move, ClassProblem)
def move(problem, i, factor, S, sets, w, sums, scratch):
    loss, W, U = 0.0, w.rows, sums.rows
    for a in range(sets.outputs[i]):
        change, label = scratch.change[a], sets.labels[sets.cells[i] + a]
        if change != 0.0:
            loss += change * sets.losses[sets.slots[i] + a]
            for e in range(problem.offsets[i], problem.offsets[i + 1]):
                W[problem.indices[e], label] += factor * change * entry(problem.data, e)
                if len(U) > 0:
                    U[problem.indices[e], label] += S * factor * change * entry(problem.data, e)
    return loss
