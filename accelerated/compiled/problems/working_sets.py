"""The outputs found so far for each sequence (or sentence, whose labels are heads), packed: the state of
block-coordinate Frank-Wolfe.

Directions are never stored. A step needs only their squared distances, which follow from the labellings and from the
inner products of the features of a sequence's positions. Where only some weights may change, the distance of two
directions is that of their difference, which is formed in a row of its own. The update of w touches only the features
of positions whose labels differ.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.entries import entry
from accelerated.compiled.problems.oracles import parent
from accelerated.compiled.problems.pairs import add_column, all_may_change, take_column
from accelerated.kernel import inlined, kernel

__all__ = [
    "WorkingSets",
    "add_labelling",
    "begin_sequences",
    "empty_sets",
    "find_labelling",
    "idle_place",
    "new_sets",
    "repeats",
    "set_distance",
    "store",
    "with_room",
]

ROOM = 8  # initial room for outputs of a sequence


class WorkingSets(NamedTuple):
    """Example i has n_i = lengths[i] labels (of positions; heads; or one, the number of a candidate), outputs[i]
    outputs, and room for room[i]. restless[i]: whether its last visit changed weights. Its parts of the long arrays
    start at

    slots[i]: alpha, losses (room,); cells[i]: labels (room, n_i); pairs[i]: distances (room, room), the squared
    distances of directions; squares[i]: products (n_i, n_i), the inner products of the features of positions, if all
    weights may change.

    used (3,): the used lengths of alpha, labels and distances.
    """

    lengths: np.ndarray
    outputs: np.ndarray
    room: np.ndarray
    restless: np.ndarray
    slots: np.ndarray
    cells: np.ndarray
    pairs: np.ndarray
    squares: np.ndarray
    alpha: np.ndarray
    losses: np.ndarray
    labels: np.ndarray
    distances: np.ndarray
    products: np.ndarray
    used: np.ndarray


@singledispatch
def new_sets(problem: Any, width: int) -> WorkingSets:
    """One output each: the true one, with all the weight. ``width``: the number of rows of W."""
    raise TypeError(f"no working sets for {type(problem).__name__}")


def empty_sets(lengths, squares):
    """Sets (n,) of one output each, for sequences of these lengths; labels and weights are still 0. squares (n,): room
    for their products.
    """
    n = len(lengths)
    sizes = np.array([n * ROOM, lengths.sum() * ROOM, n * ROOM**2])
    return WorkingSets(
        lengths=np.asarray(lengths),
        outputs=np.ones(n, np.int64),
        room=np.full(n, ROOM),
        restless=np.zeros(n, np.bool_),
        slots=np.arange(n) * ROOM,
        cells=(np.cumsum(lengths) - lengths) * ROOM,
        pairs=np.arange(n) * ROOM**2,
        squares=np.cumsum(squares) - squares,
        alpha=np.zeros(sizes[0]),
        losses=np.zeros(sizes[0]),
        labels=np.zeros(sizes[1], np.int32),
        distances=np.zeros(sizes[2]),
        products=np.zeros(squares.sum()),
        used=sizes,
    )


def with_room(sets: WorkingSets) -> WorkingSets:
    """The sets with room for one more output in each. Full ones move to the end of the arrays, with twice the room."""
    lengths = sets.lengths
    full = np.flatnonzero(sets.outputs == sets.room)
    if len(full) == 0:
        return sets
    room = 2 * sets.room[full]
    sizes = np.stack([room, room * lengths[full], room**2])
    starts = sets.used[:, None] + np.cumsum(sizes, axis=1) - sizes
    used = sets.used + sizes.sum(axis=1)
    longer = sets._replace(
        alpha=_extended(sets.alpha, used[0]),
        losses=_extended(sets.losses, used[0]),
        labels=_extended(sets.labels, used[1]),
        distances=_extended(sets.distances, used[2]),
        used=used,
    )
    _move(longer, lengths, full, starts[0], starts[1], starts[2])
    return longer


def _extended(x, size):
    """x, or a longer copy if x has fewer than ``size`` entries."""
    return x if len(x) >= size else np.concatenate([x, np.zeros(max(len(x), size - len(x)), x.dtype)])


@kernel
def begin_sequences(problem, sets, row):
    """The true outputs and the inner products; row (width,) is scratch, zero."""
    for i in range(len(sets.outputs)):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        sets.alpha[sets.slots[i]] = 1.0
        for t in range(n):
            sets.labels[sets.cells[i] + t] = problem.labels[first + t]
        for t in range(n if all_may_change(problem.pairs) else 0):
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                row[problem.indices[e]] += entry(problem.data, e)
            for s in range(n):
                inner = 0.0
                for e in range(problem.indptr[first + s], problem.indptr[first + s + 1]):
                    inner += entry(problem.data, e) * row[problem.indices[e]]
                sets.products[sets.squares[i] + t * n + s] = inner
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                row[problem.indices[e]] = 0.0


@kernel
def _move(sets, lengths, full, slots, cells, pairs):
    """Move the sequences ``full`` to new places with twice the room."""
    for k in range(len(full)):
        i = full[k]
        m, n = sets.outputs[i], lengths[i]
        for a in range(m):
            sets.alpha[slots[k] + a] = sets.alpha[sets.slots[i] + a]
            sets.losses[slots[k] + a] = sets.losses[sets.slots[i] + a]
            for b in range(m):
                sets.distances[pairs[k] + a * 2 * m + b] = sets.distances[sets.pairs[i] + a * m + b]
        for c in range(m * n):
            sets.labels[cells[k] + c] = sets.labels[sets.cells[i] + c]
        sets.slots[i], sets.cells[i], sets.pairs[i], sets.room[i] = slots[k], cells[k], pairs[k], 2 * m


@kernel
def find_labelling(sets, i, n, labels):
    """The place of labels[:n] in the set of sequence i, or -1."""
    for a in range(sets.outputs[i]):
        first, t = sets.cells[i] + a * n, 0
        while t < n and sets.labels[first + t] == labels[t]:
            t += 1
        if t == n:
            return a
    return -1


@kernel
def repeats(problem, sets, i, n, labels, loss, counts, apart):
    """Whether an output of example i has the direction and the loss of labels[:n], whose labels are others. The labels
    go to the first free place.
    """
    if all_may_change(problem.pairs):
        return False
    end = sets.cells[i] + sets.outputs[i] * n
    copy_to(labels[:n], sets.labels[end:])
    for b in range(sets.outputs[i]):
        same = sets.losses[sets.slots[i] + b] == loss
        if same and _distance(problem, sets, i, n, end, sets.cells[i] + b * n, counts, apart) == 0.0:
            return True
    return False


@kernel
def add_labelling(problem, sets, i, n, labels, loss, a, counts, apart):
    """Put labels[:n] at place a of example i, with weight 0; counts (L, L) and apart, as W, are scratch, zero."""
    store(sets, i, n, labels, loss, a)
    for b in range(sets.outputs[i]):
        distance = _distance(problem, sets, i, n, sets.cells[i] + a * n, sets.cells[i] + b * n, counts, apart)
        set_distance(sets, i, a, b, distance)


@kernel
def store(sets, i, n, labels, loss, a):
    """Put labels[:n] at place a of sequence i, with weight 0; its distances are not set yet."""
    first = sets.cells[i] + a * n
    sets.losses[sets.slots[i] + a] = loss
    sets.alpha[sets.slots[i] + a] = 0.0
    for t in range(n):
        sets.labels[first + t] = labels[t]
    sets.outputs[i] = max(sets.outputs[i], a + 1)


@inlined
def set_distance(sets, i, a, b, distance):
    """The squared distance of the outputs at places a and b of example i."""
    start, room = sets.pairs[i], sets.room[i]
    sets.distances[start + a * room + b] = distance
    sets.distances[start + b * room + a] = distance


@kernel
def _distance(problem, sets, i, n, x, y, counts, apart):
    """||phi(first) - phi(second)||^2 of the labellings that start at labels[x] and labels[y]."""
    labels, total, first, free = sets.labels, 0.0, problem.offsets[i], problem.pairs.transitions
    every = all_may_change(problem.pairs)
    for t in range(0 if every else n):
        if labels[x + t] != labels[y + t]:
            add_column(problem, first + t, 1.0, labels[x + t], apart)
            add_column(problem, first + t, -1.0, labels[y + t], apart)
    for t in range(0 if every else n):
        if labels[x + t] != labels[y + t]:
            total += take_column(problem, first + t, labels[x + t], apart)
            total += take_column(problem, first + t, labels[y + t], apart)
    for t in range(n if every else 0):
        if labels[x + t] != labels[y + t]:
            row = sets.squares[i] + t * n
            for s in range(n):
                if labels[x + s] != labels[y + s]:
                    same = (labels[x + t] == labels[x + s]) + (labels[y + t] == labels[y + s])
                    cross = (labels[x + t] == labels[y + s]) + (labels[y + t] == labels[x + s])
                    if same != cross:
                        total += (same - cross) * sets.products[row + s]
    for t in range(n):
        above = parent(problem, i, t)
        if above >= 0:
            counts[labels[x + above], labels[x + t]] += free[labels[x + above], labels[x + t]]
            counts[labels[y + above], labels[y + t]] -= free[labels[y + above], labels[y + t]]
    for t in range(n):
        above = parent(problem, i, t)
        if above >= 0:
            total += counts[labels[x + above], labels[x + t]] ** 2
            counts[labels[x + above], labels[x + t]] = 0.0
            total += counts[labels[y + above], labels[y + t]] ** 2
            counts[labels[y + above], labels[y + t]] = 0.0
    return total


@kernel
def idle_place(sets, i, scratch):
    """The place of the output without weight that has the lowest score; a new place if all have weight."""
    place, lowest = sets.outputs[i], np.inf
    for a in range(sets.outputs[i]):
        if sets.alpha[sets.slots[i] + a] == 0.0 and scratch.g[a] < lowest:
            place, lowest = a, scratch.g[a]
    return place
