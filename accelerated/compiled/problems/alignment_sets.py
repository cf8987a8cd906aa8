"""Working sets of alignments, whose labels are columns. A visit scores the pairs in which an alignment differs from the
true one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import largest_entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.alignments import (
    AlignmentProblem,
    AlignmentWork,
    add_change,
    alignment_room,
    pair_score,
)
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.working_sets import (
    WorkingSets,
    empty_sets,
    idle_place,
    new_sets,
    set_distance,
    store,
)
from accelerated.kernel import kernel

__all__: list[str] = []


class Scratch(NamedTuple):
    """g, change, spread (outputs,) as the steps take them; apart (outputs,): squared distances; direction (d,); work:
    as the oracles take it.
    """

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    apart: np.ndarray
    direction: np.ndarray
    work: AlignmentWork


@new_sets.register
def _(problem: AlignmentProblem, width: int) -> WorkingSets:
    lengths = np.diff(problem.rows)
    sets = empty_sets(lengths, 0 * lengths)
    sets.alpha[sets.slots] = 1.0
    for i, p in enumerate(lengths.tolist()):
        sets.labels[sets.cells[i] : sets.cells[i] + p] = problem.columns[problem.rows[i] : problem.rows[i + 1]]
    return sets


@answers(oracles.visiting, AlignmentProblem)
def visiting(problem, order, sets, w):
    most, work = largest_entry(sets.room), alignment_room(problem, order, 0, len(order))
    each = np.zeros((4, most))
    return Scratch(each[0], each[1], each[2], each[3], np.zeros(w.dense.size), work)


@answers(oracles.join_best, AlignmentProblem)
def join_best(problem, i, capacity, sets, w, scratch):
    oracles.oracle(problem, i, 1.0, w.rows, w.dense, 0, 0.0, scratch.work)
    p, m, loss = sets.lengths[i], sets.outputs[i], scratch.work.numbers[0]
    for a in range(m):
        first = sets.cells[i] + a * p
        scratch.apart[a] = distance_of(problem, i, scratch.work.best[:p], sets.labels[first:], scratch.direction)
        if scratch.apart[a] == 0.0 and sets.losses[sets.slots[i] + a] == loss:
            return  # an output with the same features and loss is the same output
    place = m
    if m >= capacity:
        score_alignments(problem, i, sets, w.dense[0, 0], scratch)
        place = idle_place(sets, i, scratch)
    store(sets, i, p, scratch.work.best, loss, place)
    for b in range(sets.outputs[i]):
        distance = 0.0 if b == place else scratch.apart[b]
        set_distance(sets, i, place, b, distance)


@answers(oracles.score_set, AlignmentProblem)
def score_set(problem, i, joined, sets, w, scratch):
    score_alignments(problem, i, sets, w.dense[0, 0], scratch)


@answers(oracles.move, AlignmentProblem)
def move(problem, i, factor, S, sets, w, sums, scratch):
    loss, p, first = 0.0, sets.lengths[i], problem.rows[i]
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        if change != 0.0:
            loss += change * sets.losses[sets.slots[i] + a]
            for r in range(p):
                true, c = problem.columns[first + r], sets.labels[sets.cells[i] + a * p + r]
                add_change(problem, i, r, true, c, factor * change, w.dense[0, 0])
                if len(sums.dense) > 0:
                    add_change(problem, i, r, true, c, S * factor * change, sums.dense[0, 0])
    return loss


@kernel
def distance_of(problem, i, first, second, direction):
    """||phi(first) - phi(second)||^2 of columns first (p,) and second (>= p,); direction (d,) is scratch."""
    direction[:] = 0.0
    for r in range(len(first)):
        add_change(problem, i, r, second[r], first[r], 1.0, direction)
    total = 0.0
    for j in range(len(direction)):
        total += direction[j] * direction[j]
    return total


@kernel
def score_alignments(problem, i, sets, w, scratch):
    """g (m,) = loss + <features - true features, w> of each output of the set."""
    p, first = sets.lengths[i], problem.rows[i]
    for a in range(sets.outputs[i]):
        scratch.g[a] = sets.losses[sets.slots[i] + a]
        for r in range(p):
            true, c = problem.columns[first + r], sets.labels[sets.cells[i] + a * p + r]
            if c != true:
                scratch.g[a] += pair_score(problem, i, r, c, w) - pair_score(problem, i, r, true, w)
