"""Block-coordinate Frank-Wolfe where weights are those of the dual's point x, shrunk: a pass of visits.

w = shrunk(x) (:mod:`reference.optimizers.nonnegative`) is not linear in x, so scores of outputs do not follow from
distances, as they do in :mod:`accelerated.compiled.epochs.bcfw`. Directions are stored instead, by their entries that
are not 0, and a step costs as much as the entries of an example's directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import add_to, largest_entry
from accelerated.compiled.problems import add_dense, add_rows, flush, oracle, prepared, room, task_loss
from accelerated.kernel import inlined, kernel
from reference.optimizers.bcfw import EQUAL, FLAT, PAIRWISE_SHARE, PAIRWISE_STEPS

__all__ = ["DirectionSets", "Point", "more_room", "new_direction_sets", "shrunk_pass"]

ROOM = 8  # initial room for outputs of an example


class DirectionSets(NamedTuple):
    """Example i has outputs[i] outputs, from place slots[i] on of alpha, losses, starts, sizes (places,). The direction
    of the output at place p is values[starts[p] : starts[p] + sizes[p]] in these ``cells`` of x, and 0 elsewhere.

    room[i]: its room for outputs. restless[i]: whether its last visit changed weights. used (1,): the used length of
    cells and values.
    """

    outputs: np.ndarray
    room: np.ndarray
    slots: np.ndarray
    restless: np.ndarray
    alpha: np.ndarray
    losses: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    cells: np.ndarray
    values: np.ndarray
    used: np.ndarray


class Point(NamedTuple):
    """x = w(alpha), its mean (empty if there is none) and w = shrunk(x, threshold), of which entries first..last - 1
    are >= 0: W and then A, in C order. They change in place.

    rows (F, Lp), dense (1, p, q): W and A as views of w.
    """

    x: np.ndarray
    mean: np.ndarray
    w: np.ndarray
    rows: np.ndarray
    dense: np.ndarray
    first: int
    last: int
    threshold: float


class Scratch(NamedTuple):
    """scores, towards (outputs,): of one example, the scores and the change of its alpha for a step of 1. here: the
    cells of its directions, in order; number (cells,): their numbers there, else -1; v, x: a direction and x in these
    cells; low: w is 0 for x in [low, threshold].

    g (cells,): a gradient, zero; rows, dense: views of it, as of w.
    """

    scores: np.ndarray
    towards: np.ndarray
    here: np.ndarray
    number: np.ndarray
    v: np.ndarray
    x: np.ndarray
    low: np.ndarray
    g: np.ndarray
    rows: np.ndarray
    dense: np.ndarray


def new_direction_sets(n: int) -> DirectionSets:
    """One output each: the true one, with all the weight. Its direction and loss are 0."""
    slots, alpha, none = np.arange(n) * ROOM, np.zeros(n * ROOM), np.zeros(n * ROOM, np.int64)
    alpha[slots] = 1.0
    counts = np.ones(n, np.int64), np.full(n, ROOM), slots, np.zeros(n, np.bool_)
    cells = np.zeros(0, np.int64), np.zeros(0), np.zeros(1, np.int64)
    return DirectionSets(*counts, alpha, np.zeros(n * ROOM), none, none.copy(), *cells)


def more_room(sets: DirectionSets, most: int) -> DirectionSets:
    """The sets with room for one more output in each, and for a direction of ``most`` cells. Full ones move to the end
    of the arrays, with twice the room. Where cells are too few, those of directions that are gone make room.
    """
    full = np.flatnonzero(sets.outputs == sets.room)
    if len(full) > 0:
        size = 2 * sets.room[full]
        slots = len(sets.alpha) + np.cumsum(size) - size
        longer = [np.concatenate([x, np.zeros(size.sum(), x.dtype)]) for x in sets[4:8]]
        for i, slot in zip(full.tolist(), slots.tolist(), strict=True):
            m, before = sets.outputs[i], sets.slots[i]
            for x in longer:
                x[slot : slot + m], x[before : before + m] = x[before : before + m], 0
            sets.slots[i], sets.room[i] = slot, 2 * m
        alpha, losses, starts, sizes = longer
        sets = sets._replace(alpha=alpha, losses=losses, starts=starts, sizes=sizes)
    if sets.used[0] + most <= len(sets.cells):
        return sets
    ends = np.cumsum(sets.sizes)
    total = int(ends[-1])
    kept = np.repeat(sets.starts - (ends - sets.sizes), sets.sizes) + np.arange(total)
    room = max(total, most)
    cells, values = (np.concatenate([x[kept], np.zeros(room, x.dtype)]) for x in (sets.cells, sets.values))
    return sets._replace(starts=ends - sets.sizes, cells=cells, values=values, used=np.array([total]))


@kernel
def shrunk_pass(problem, touched, visits, place, done, sets, point):
    """A visit for each example from order[place] on: sets and point change in place. Returns the next place, and the
    fields of the next ``Done``; examples are left where the sets have no room for another direction.

    visits, done: as for :func:`accelerated.compiled.epochs.bcfw.bcfw_pass`. touched: the rows of W of each example.
    """
    order, calls, pairwise, lam_n, capacity, line_search, average = visits
    t, loss, mean_loss = done
    n, most, d = len(order), largest_entry(sets.room), len(point.x)
    work, cut = room(problem, order, 0, n, point.dense), point.rows.size
    here, number, each, g = np.empty(d, np.int64), np.full(d, -1), np.empty((3, d)), np.zeros(d)
    rows, dense = g[:cut].reshape(point.rows.shape), g[cut:].reshape(point.dense.shape)
    scratch = Scratch(np.empty(most), np.empty(most), here, number, each[0], each[1], each[2], g, rows, dense)
    for k in range(place, n):
        i = order[k]
        if not calls and not sets.restless[i]:
            continue
        if calls and not room_for_direction(touched, i, sets, point):
            return k, t, loss, mean_loss
        m = sets.outputs[i]
        before = np.dot(sets.alpha[sets.slots[i] : sets.slots[i] + m], sets.losses[sets.slots[i] : sets.slots[i] + m])
        if calls:
            join_best(problem, touched, i, capacity, sets, point, work, scratch)
            m = sets.outputs[i]
        u = gather_cells(sets, i, point, scratch)
        alpha, losses = sets.alpha[sets.slots[i] : sets.slots[i] + m], sets.losses[sets.slots[i] : sets.slots[i] + m]
        _, best, violation = worst_pair(sets, i, point, scratch)
        sets.restless[i] = violation > EQUAL * largest_entry(losses)
        if calls:
            for a in range(m):
                scratch.towards[a] = (1.0 if a == best else 0.0) - alpha[a]
            step(sets, i, u, 1.0, lam_n, -1.0 if line_search else 2.0 * n / (2.0 * n + t), point, scratch)
        for _ in range(PAIRWISE_STEPS if pairwise else 0):
            worst, best, left = worst_pair(sets, i, point, scratch)
            if left <= PAIRWISE_SHARE * violation:
                break
            scratch.towards[:m] = 0.0
            scratch.towards[best] += 1.0
            scratch.towards[worst] -= 1.0
            step(sets, i, u, alpha[worst], lam_n, -1.0, point, scratch)
        for c in range(u):
            scratch.number[scratch.here[c]] = -1
        t += 1
        loss += (np.dot(alpha, losses) - before) / n
        share = 2.0 / (t + 1.0) if average else 1.0
        mean_loss += share * (loss - mean_loss)
        if average:
            for j in range(d):
                point.mean[j] += share * (point.x[j] - point.mean[j])
    return n, t, loss, mean_loss


@inlined
def shrink(x, low, high):
    """The weight of x: 0 in [low, high]."""
    return x - min(max(x, low), high)


@inlined
def room_for_direction(touched, i, sets, point):
    """Whether the cells that are left are enough for any direction of example i."""
    rows = touched[0][i + 1] - touched[0][i]
    return sets.used[0] + rows * point.rows.shape[1] + point.dense.size <= len(sets.cells)


@kernel
def join_best(problem, touched, i, capacity, sets, point, work, scratch):
    """The best output joins the set, unless an output with its direction and loss is there. In a full set it takes the
    place of an idle output.
    """
    m, first, place, start = sets.outputs[i], sets.slots[i], sets.outputs[i], sets.used[0]
    ready = prepared(problem, point.dense, 0.0, work)
    oracle(problem, i, 1.0, point.rows, point.dense, ready, 0.0, work)
    add_rows(problem, i, 1.0, work, scratch.rows)
    add_dense(problem, i, 1.0, work, scratch.dense)
    flush(problem, 1.0, ready, work, scratch.dense)
    size, Lp = 0, point.rows.shape[1]
    for e in range(touched[0][i], touched[0][i + 1]):
        row = np.int64(touched[1][e])
        size = take_entries(row * Lp, (row + 1) * Lp, sets, size, scratch.g)
    size = take_entries(point.rows.size, len(scratch.g), sets, size, scratch.g)
    loss = task_loss(problem, i, work)
    for a in range(first, first + m):
        if sets.losses[a] == loss and same_direction(sets, a, start, size):
            return
    if m >= capacity:
        score_outputs(sets, i, point, scratch)
        lowest = np.inf
        for a in range(m):
            if sets.alpha[first + a] == 0.0 and scratch.scores[a] < lowest:
                place, lowest = a, scratch.scores[a]
    sets.starts[first + place], sets.sizes[first + place] = start, size
    sets.losses[first + place], sets.alpha[first + place] = loss, 0.0
    sets.outputs[i] = max(m, place + 1)
    sets.used[0] += size


@kernel
def take_entries(begin, end, sets, size, g):
    """Append the entries of g in these cells to the direction that has ``size`` entries after the used ones; they
    become 0 in g. Returns its size.
    """
    for c in range(begin, end):
        if g[c] != 0.0:
            sets.cells[sets.used[0] + size], sets.values[sets.used[0] + size] = c, g[c]
            size += 1
            g[c] = 0.0
    return size


@kernel
def same_direction(sets, a, start, size):
    """Whether the output at place a has the direction of these entries."""
    if sets.sizes[a] != size:
        return False
    for e in range(size):
        b = sets.starts[a] + e
        if sets.cells[b] != sets.cells[start + e] or sets.values[b] != sets.values[start + e]:
            return False
    return True


@kernel
def gather_cells(sets, i, point, scratch):
    """here, number, x and low for the directions of example i. Returns the number of their cells."""
    u, number = 0, scratch.number
    for a in range(sets.slots[i], sets.slots[i] + sets.outputs[i]):
        for e in range(sets.starts[a], sets.starts[a] + sets.sizes[a]):
            if number[sets.cells[e]] < 0:
                number[sets.cells[e]] = 0
                scratch.here[u] = sets.cells[e]
                u += 1
    scratch.here[:u].sort()
    for c in range(u):
        j = scratch.here[c]
        number[j], scratch.x[c] = c, point.x[j]
        scratch.low[c] = -np.inf if point.first <= j < point.last else -point.threshold
    return u


@kernel
def score_outputs(sets, i, point, scratch):
    """scores (m,) = loss + <direction, w> of each output."""
    for a in range(sets.outputs[i]):
        p = sets.slots[i] + a
        total = sets.losses[p]
        for e in range(sets.starts[p], sets.starts[p] + sets.sizes[p]):
            total += sets.values[e] * point.w[sets.cells[e]]
        scratch.scores[a] = total


@kernel
def worst_pair(sets, i, point, scratch):
    """As the reference's: the output of lowest score that has weight, the output of highest score, and the difference
    of their scores.
    """
    score_outputs(sets, i, point, scratch)
    m, g, low, high = sets.outputs[i], scratch.scores, np.inf, -np.inf
    alpha = sets.alpha[sets.slots[i] : sets.slots[i] + m]
    for a in range(m):
        low = g[a] if alpha[a] > 0.0 and g[a] < low else low
        high = g[a] if g[a] > high else high
    violation, worst, best = high - low, 0, 0
    while worst < m - 1 and not (alpha[worst] > 0.0 and g[worst] <= low + EQUAL * violation):
        worst += 1
    while best < m - 1 and not g[best] >= high - EQUAL * violation:
        best += 1
    return worst, best, violation


@kernel
def step(sets, i, u, most, lam_n, fixed, point, scratch):
    """alpha_i <- alpha_i + gamma towards, with x and w to match. gamma in [0, most] maximises the dual, or is ``fixed``
    if that is >= 0.
    """
    v, x, m, first, gain, terms = scratch.v[:u], scratch.x[:u], sets.outputs[i], sets.slots[i], 0.0, 0.0
    v[:] = 0.0
    for a in range(m):
        gain += scratch.towards[a] * scratch.scores[a]
        terms += abs(scratch.towards[a]) * (abs(scratch.scores[a]) + sets.losses[first + a])
        size = sets.sizes[first + a] if scratch.towards[a] != 0.0 else 0
        for e in range(sets.starts[first + a], sets.starts[first + a] + size):
            v[scratch.number[sets.cells[e]]] += scratch.towards[a] * sets.values[e]
    gamma, high = fixed, point.threshold
    if fixed < 0.0:
        gamma = best_step(x, v, scratch.low[:u], high, gain, most, lam_n, FLAT * terms if high > 0.0 else 0.0)
    if gamma == 0.0:
        return
    for c in range(u):
        j = scratch.here[c]
        x[c] -= gamma / lam_n * v[c]
        point.x[j], point.w[j] = x[c], shrink(x[c], scratch.low[c], high)
    add_to(gamma, scratch.towards[:m], sets.alpha[first:])


@kernel
def slope(x, v, low, high, gain, free, ratio):
    """n times the dual's derivative at x - ratio v; free: ||v||^2 over the weights that are x."""
    total = gain - ratio * free
    for j in range(len(x)):
        if low[j] < high:
            total += (shrink(x[j] - ratio * v[j], low[j], high) - shrink(x[j], low[j], high)) * v[j]
    return total


@kernel
def best_step(x, v, low, high, gain, most, lam_n, flat):
    """As :func:`reference.optimizers.nonnegative.best_step`: bisection over the gammas where a weight becomes 0 or
    ceases to be 0, then a linear root.
    """
    free, bound, count = 0.0, 0.0, 0
    turns = np.empty(2 * len(x) + 2)
    for j in range(len(v)):
        if low[j] < high:
            bound += v[j] * v[j]
        else:
            free += v[j] * v[j]
    if not np.isfinite(free + bound) or not gain > flat:
        return 0.0
    if slope(x, v, low, high, gain, free, most / lam_n) >= flat:
        return most
    for j in range(len(v)):
        for end in (low[j], high):
            turn = lam_n * (x[j] - end) / v[j] if v[j] != 0.0 and low[j] < high else 0.0
            if 0.0 < turn < most:
                turns[count + 1] = turn
                count += 1
    turns[0], turns[count + 1] = 0.0, most
    turns[1 : count + 1].sort()
    first, last = 0, count + 1
    while last - first > 1:
        middle = (first + last) // 2
        if slope(x, v, low, high, gain, free, turns[middle] / lam_n) > flat:
            first = middle
        else:
            last = middle
    start, end, length = turns[first], turns[last], free
    for j in range(len(v)):
        if low[j] < high and shrink(x[j] - 0.5 * (start + end) / lam_n * v[j], low[j], high) != 0.0:
            length += v[j] * v[j]
    if not length > 0.0:
        return end
    return min(end, start + lam_n * slope(x, v, low, high, gain, free, start / lam_n) / length)
