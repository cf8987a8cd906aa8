"""Working sets of images, whose one label is the number of a candidate. Directions are differences of two rows of
features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import largest_entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.candidates import CandidateProblem, add_row, dot, longest_list
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.working_sets import (
    WorkingSets,
    empty_sets,
    idle_place,
    new_sets,
    set_distance,
    store,
)
from accelerated.compiled.structures.table import Listed, listed_room
from accelerated.kernel import kernel

__all__: list[str] = []


class Scratch(NamedTuple):
    """g, change, spread (outputs,) as the steps take them; label (1,); work: as the oracles take it."""

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    label: np.ndarray
    work: Listed


@new_sets.register
def _(problem: CandidateProblem, width: int) -> WorkingSets:
    sets = empty_sets(np.ones(len(problem.best), np.int64), np.zeros(len(problem.best), np.int64))
    sets.alpha[sets.slots] = 1.0
    sets.labels[sets.cells] = problem.best
    return sets


@answers(oracles.visiting, CandidateProblem)
def visiting(problem, order, sets, w):
    most = largest_entry(sets.room)
    work = listed_room(longest_list(problem.offsets, order, 0, len(order)), problem.outputs)
    return Scratch(np.zeros(most), np.zeros(most), np.zeros(most), np.zeros(1, np.int64), work)


@answers(oracles.join_best, CandidateProblem)
def join_best(problem, i, capacity, sets, w, scratch):
    oracles.oracle(problem, i, 1.0, w.rows, w.dense, 0, 0.0, scratch.work)
    first, y = problem.offsets[i], scratch.work.rows[0]
    loss, m = problem.losses[first + y], sets.outputs[i]
    for a in range(m):  # an output with the same features and loss is the same output
        there = first + sets.labels[sets.cells[i] + a]
        if sets.losses[sets.slots[i] + a] == loss and same_rows(problem.features, there, first + y):
            return
    place = m
    if m >= capacity:
        score_candidates(problem, i, sets, w.dense[0, 0], scratch)
        place = idle_place(sets, i, scratch)
    scratch.label[0] = y
    store(sets, i, 1, scratch.label, loss, place)
    for b in range(sets.outputs[i]):
        distance = distance_of(problem.features, first + y, first + sets.labels[sets.cells[i] + b])
        set_distance(sets, i, place, b, distance)


@answers(oracles.score_set, CandidateProblem)
def score_set(problem, i, joined, sets, w, scratch):
    score_candidates(problem, i, sets, w.dense[0, 0], scratch)


@answers(oracles.move, CandidateProblem)
def move(problem, i, factor, S, sets, w, sums, scratch):
    loss = 0.0
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        if change != 0.0:
            row = problem.offsets[i] + sets.labels[sets.cells[i] + a]
            loss += change * sets.losses[sets.slots[i] + a]
            add_row(problem.features, row, factor * change, w.dense[0, 0])
            if len(sums.dense) > 0:
                add_row(problem.features, row, S * factor * change, sums.dense[0, 0])
    return loss


@kernel
def same_rows(features, a, b):
    """Whether two candidates have the same features."""
    j, d = 0, features.shape[1]
    while j < d and features[a, j] == features[b, j]:
        j += 1
    return j == d


@kernel
def distance_of(features, a, b):
    """||features[a] - features[b]||^2."""
    total = 0.0
    for j in range(features.shape[1]):
        apart = np.float64(features[a, j]) - np.float64(features[b, j])
        total += apart * apart
    return total


@kernel
def score_candidates(problem, i, sets, w, scratch):
    """g (m,) = loss + <features - true features, w> of each output of the set."""
    gold = dot(problem.features, problem.offsets[i] + problem.best[i], w)
    for a in range(sets.outputs[i]):
        row = problem.offsets[i] + sets.labels[sets.cells[i] + a]
        scratch.g[a] = sets.losses[sets.slots[i] + a] + (dot(problem.features, row, w) - gold)
