"""Working sets of sentences, whose labels are heads.

A visit that calls the oracle scores all arcs; other visits score only the arcs of the set's trees. Weights change at
the features of arcs on which the trees differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import largest_entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.arc_features import add_arcs, arc_scores, list_arcs, squared_length, weigh_arcs
from accelerated.compiled.problems.arcs import ArcProblem, best_of, table
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.sequence import longest_of
from accelerated.compiled.problems.working_sets import (
    WorkingSets,
    empty_sets,
    find_labelling,
    idle_place,
    new_sets,
    set_distance,
    store,
)
from accelerated.kernel import kernel

__all__: list[str] = []


class Scratch(NamedTuple):
    """g, change, spread (trees,) as the steps take them; features (d,): zero; cells: a number for each arc."""

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    features: np.ndarray
    cells: np.ndarray


@new_sets.register
def _(problem: ArcProblem, width: int) -> WorkingSets:
    lengths, offsets = np.diff(problem.offsets) - 1, problem.offsets
    sets = empty_sets(lengths, 0 * lengths)
    sets.alpha[sets.slots] = 1.0
    for i, n in enumerate(lengths.tolist()):
        sets.labels[sets.cells[i] : sets.cells[i] + n] = problem.heads[offsets[i] + 1 : offsets[i + 1]]
    return sets


@answers(oracles.visiting, ArcProblem)
def visiting(problem, order, sets, w):
    most, n = largest_entry(sets.room), longest_of(problem, order, 0, len(order))
    return Scratch(np.zeros(most), np.zeros(most), np.zeros(most), np.zeros(w.rows.size), np.zeros(n * n))


@answers(oracles.join_best, ArcProblem)
def join_best(problem, i, capacity, sets, w, scratch):  # afterwards, values are the scores of all arcs
    f, heads, a = problem.features, problem.heads, problem.offsets[i]
    n = problem.offsets[i + 1] - a - 1
    values = table(scratch.cells, n)
    arc_scores(f, a, n, w.rows.reshape(w.rows.size), values)
    augmented, loss = np.empty((n, n + 1)), 0.0
    for m in range(n):
        for h in range(n + 1):
            augmented[m, h] = values[m, h] + (h != heads[a + 1 + m])
    value, best = best_of(augmented, problem.trees)
    if not value > -np.inf or find_labelling(sets, i, n, best) >= 0:
        return
    for m in range(n):
        loss += best[m] != heads[a + 1 + m]
    place = sets.outputs[i]
    if place >= capacity:
        score_trees(sets, i, n, values, scratch)
        place = idle_place(sets, i, scratch)
    store(sets, i, n, best, loss, place)
    for b in range(sets.outputs[i]):
        distance = distance_of(f, a, n, sets, i, place, b, scratch.features)
        set_distance(sets, i, place, b, distance)


@kernel
def distance_of(f, a, n, sets, i, first, second, features):
    """||phi(y) - phi(z)||^2 of the trees at two places of the set of sentence i; features (d,) is scratch, zero."""
    arcs, changed = np.zeros((n, n + 1)), 0
    x, y = sets.cells[i] + first * n, sets.cells[i] + second * n
    for m in range(n):
        if sets.labels[x + m] != sets.labels[y + m]:
            arcs[m, sets.labels[x + m]] = 1.0
            arcs[m, sets.labels[y + m]] = -1.0
            changed += 2
    if changed == 0:
        return 0.0
    tags = min(n, len(f.between))
    room = changed * (f.head.shape[1] - f.between.shape[1] + f.between.shape[1] * tags)
    index, shares, templates = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    return squared_length(index, shares, list_arcs(f, a, n, arcs, index, shares, templates), features)


@kernel
def mark_arcs(sets, i, n, arcs):
    """arcs (n, n + 1) = 1 at the arcs that some but not all trees of sentence i have; elsewhere 0, as before the
    call.
    """
    first = sets.cells[i]
    for a in range(1, sets.outputs[i]):
        for m in range(n):
            if sets.labels[first + a * n + m] != sets.labels[first + m]:
                arcs[m, sets.labels[first + a * n + m]] = arcs[m, sets.labels[first + m]] = 1.0


@answers(oracles.score_set, ArcProblem)
def score_set(problem, i, joined, sets, w, scratch):
    a = problem.offsets[i]
    n = problem.offsets[i + 1] - a - 1
    values = table(scratch.cells, n)
    if not joined:
        values[:] = 0.0
        mark_arcs(sets, i, n, values)
        weigh_arcs(problem.features, a, n, values, w.rows.reshape(w.rows.size))
    score_trees(sets, i, n, values, scratch)


@answers(oracles.move, ArcProblem)
def move(problem, i, factor, S, sets, w, sums, scratch):
    f, a = problem.features, problem.offsets[i]
    n = problem.offsets[i + 1] - a - 1
    values = table(scratch.cells, n)
    loss = change_arcs(sets, i, n, factor, values, scratch)
    add_arcs(f, a, n, values, w.rows.reshape(w.rows.size))
    if len(sums.rows) > 0:
        values *= S
        add_arcs(f, a, n, values, sums.rows.reshape(sums.rows.size))
    return loss


@kernel
def score_trees(sets, i, n, values, scratch):
    """g[a] = loss and score of tree a of sentence i, up to what all trees have in common."""
    first = sets.cells[i]
    for a in range(sets.outputs[i]):
        scratch.g[a] = sets.losses[sets.slots[i] + a]
    for m in range(n):
        alike = True
        for a in range(1, sets.outputs[i]):
            alike &= sets.labels[first + a * n + m] == sets.labels[first + m]
        if not alike:
            for a in range(sets.outputs[i]):
                scratch.g[a] += values[m, sets.labels[first + a * n + m]]


@kernel
def change_arcs(sets, i, n, factor, arcs, scratch):
    """arcs (n, n + 1) = factor * the change of each arc's weight, 0 for arcs of all trees. Returns the change of the
    weighted losses.
    """
    first, loss = sets.cells[i], 0.0
    arcs[:] = 0.0
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        loss += change * sets.losses[sets.slots[i] + a]
        for m in range(n):
            arcs[m, sets.labels[first + a * n + m]] += factor * change
    for m in range(n):
        alike = True
        for a in range(1, sets.outputs[i]):
            alike &= sets.labels[first + a * n + m] == sets.labels[first + m]
        if alike:
            arcs[m, sets.labels[first + m]] = 0.0  # the changes sum to 0 up to rounding
    return loss
