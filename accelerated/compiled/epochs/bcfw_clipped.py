"""Block-coordinate Frank-Wolfe where some weights must be >= 0, over problems with dense weights: a pass of visits.

clip(x) replaces w(alpha) = x. It is not linear, so scores of outputs do not follow from distances, as they do in
:mod:`accelerated.compiled.epochs.bcfw`. Directions are stored instead, and a step costs O(d) for each output of the
example.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import add_dense, flush, oracle, prepared, room, task_loss
from accelerated.kernel import kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_SHARE, PAIRWISE_STEPS

__all__ = ["DirectionSets", "Point", "clipped_pass", "more_room", "new_direction_sets"]

ROOM = 8  # initial room for outputs of an example


class DirectionSets(NamedTuple):
    """Example i has outputs[i] outputs, from place slots[i] on of alpha, losses (places,) and directions (places, d).

    room[i]: its room for outputs. restless[i]: whether its last visit changed weights.
    """

    outputs: np.ndarray
    room: np.ndarray
    slots: np.ndarray
    restless: np.ndarray
    alpha: np.ndarray
    losses: np.ndarray
    directions: np.ndarray


class Point(NamedTuple):
    """x = w(alpha) and its mean (d,); w (1, 1, d) = clip(x), whose entries first..last - 1 are >= 0. They change in
    place.
    """

    x: np.ndarray
    mean: np.ndarray
    w: np.ndarray
    first: int
    last: int


class Scratch(NamedTuple):
    """scores, towards (outputs,): of one example, the scores and the change of its alpha for a step of 1. v (d,): a
    direction.
    """

    scores: np.ndarray
    towards: np.ndarray
    v: np.ndarray


def new_direction_sets(n: int, d: int) -> DirectionSets:
    """One output each: the true one, with all the weight. Its direction and loss are 0."""
    slots, alpha = np.arange(n) * ROOM, np.zeros(n * ROOM)
    alpha[slots] = 1.0
    counts = np.ones(n, np.int64), np.full(n, ROOM), slots, np.zeros(n, np.bool_)
    return DirectionSets(*counts, alpha, np.zeros(n * ROOM), np.zeros((n * ROOM, d)))


def more_room(sets: DirectionSets) -> DirectionSets:
    """The sets with room for one more output in each. Full ones move to the end of the arrays, with twice the room."""
    full = np.flatnonzero(sets.outputs == sets.room)
    if len(full) == 0:
        return sets
    size = 2 * sets.room[full]
    slots = len(sets.alpha) + np.cumsum(size) - size
    longer = [np.concatenate([x, np.zeros((size.sum(), *x.shape[1:]))]) for x in sets[4:]]
    for i, slot in zip(full.tolist(), slots.tolist(), strict=True):
        m, before = sets.outputs[i], sets.slots[i]
        for x in longer:
            x[slot : slot + m] = x[before : before + m]
        sets.slots[i], sets.room[i] = slot, 2 * m
    return DirectionSets(*sets[:4], *longer)


@kernel
def clipped_pass(problem, visits, done, sets, point):
    """A visit for each example: sets and point change in place. Returns the fields of the next ``Done`` as a plain
    tuple.

    visits, done: as for :func:`accelerated.compiled.epochs.bcfw.bcfw_pass`.
    """
    order, calls, pairwise, lam_n, capacity, line_search, average = visits
    t, loss, mean_loss = done
    n, most = len(order), np.max(sets.room)
    work = room(problem, order, 0, n, point.w)
    scratch = Scratch(np.empty(most), np.empty(most), np.empty(len(point.x)))
    clip(point)
    for k in range(n):
        i = order[k]
        if not calls and not sets.restless[i]:
            continue
        m = sets.outputs[i]
        before = np.dot(sets.alpha[sets.slots[i] : sets.slots[i] + m], sets.losses[sets.slots[i] : sets.slots[i] + m])
        if calls:
            join_best(problem, i, capacity, sets, point, work, scratch)
            m = sets.outputs[i]
        alpha, losses = sets.alpha[sets.slots[i] : sets.slots[i] + m], sets.losses[sets.slots[i] : sets.slots[i] + m]
        _, best, violation = worst_pair(sets, i, point, scratch)
        sets.restless[i] = violation > EQUAL * np.max(losses)
        if calls:
            for a in range(m):
                scratch.towards[a] = (1.0 if a == best else 0.0) - alpha[a]
            step(sets, i, 1.0, lam_n, -1.0 if line_search else 2.0 * n / (2.0 * n + t), point, scratch)
        for _ in range(PAIRWISE_STEPS if pairwise else 0):
            worst, best, left = worst_pair(sets, i, point, scratch)
            if left <= PAIRWISE_SHARE * violation:
                break
            scratch.towards[:m] = 0.0
            scratch.towards[best] += 1.0
            scratch.towards[worst] -= 1.0
            step(sets, i, alpha[worst], lam_n, -1.0, point, scratch)
        t += 1
        loss += (np.dot(alpha, losses) - before) / n
        share = 2.0 / (t + 1.0) if average else 1.0
        mean_loss += share * (loss - mean_loss)
        if average:
            for j in range(len(point.x)):
                point.mean[j] += share * (point.x[j] - point.mean[j])
    return t, loss, mean_loss


@kernel
def clip(point):
    """w = clip(x)."""
    for j in range(len(point.x)):
        point.w[0, 0, j] = 0.0 if point.first <= j < point.last and point.x[j] < 0.0 else point.x[j]


@kernel
def join_best(problem, i, capacity, sets, point, work, scratch):
    """The best output joins the set, unless an output with its direction and loss is there. In a full set it takes the
    place of an idle output.
    """
    v, m, first, place = scratch.v, sets.outputs[i], sets.slots[i], sets.outputs[i]
    ready = prepared(problem, point.w, 0.0, work)
    oracle(problem, i, 1.0, np.zeros((0, 8)), point.w, ready, 0.0, work)
    v[:] = 0.0
    gradient = v.reshape((1, 1, len(v)))
    add_dense(problem, i, 1.0, work, gradient)
    flush(problem, 1.0, ready, work, gradient)
    loss = task_loss(problem, i, work)
    for a in range(first, first + m):
        if sets.losses[a] == loss and np.all(sets.directions[a] == v):
            return
    if m >= capacity:
        score_outputs(sets, i, point, scratch)
        lowest = np.inf
        for a in range(m):
            if sets.alpha[first + a] == 0.0 and scratch.scores[a] < lowest:
                place, lowest = a, scratch.scores[a]
    sets.directions[first + place], sets.losses[first + place], sets.alpha[first + place] = v, loss, 0.0
    sets.outputs[i] = max(m, place + 1)


@kernel
def score_outputs(sets, i, point, scratch):
    """scores (m,) = loss + <direction, w> of each output."""
    for a in range(sets.outputs[i]):
        total, v = sets.losses[sets.slots[i] + a], sets.directions[sets.slots[i] + a]
        for j in range(len(v)):
            total += v[j] * point.w[0, 0, j]
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
def step(sets, i, most, lam_n, fixed, point, scratch):
    """alpha_i <- alpha_i + gamma towards, with x and w to match. gamma in [0, most] maximises the dual, or is ``fixed``
    if that is >= 0.
    """
    v, m, first, gain = scratch.v, sets.outputs[i], sets.slots[i], 0.0
    v[:] = 0.0
    for a in range(m):
        gain += scratch.towards[a] * scratch.scores[a]
        if scratch.towards[a] != 0.0:
            v += scratch.towards[a] * sets.directions[first + a]
    gamma = fixed if fixed >= 0.0 else best_step(point, v, gain, most, lam_n)
    if gamma == 0.0:
        return
    for j in range(len(v)):
        point.x[j] -= gamma / lam_n * v[j]
    sets.alpha[first : first + m] += gamma * scratch.towards[:m]
    clip(point)


@kernel
def slope(point, v, gain, free, ratio):
    """n times the dual's derivative at x - ratio v; free: ||v||^2 over the weights that may be negative."""
    total = gain - ratio * free
    for j in range(point.first, point.last):
        total += (max(point.x[j] - ratio * v[j], 0.0) - max(point.x[j], 0.0)) * v[j]
    return total


@kernel
def best_step(point, v, gain, most, lam_n):
    """As :func:`reference.optimizers.nonnegative.best_step`: bisection over the gammas where an entry changes sign,
    then a linear root.
    """
    free, bound, count = 0.0, 0.0, 0
    turns = np.empty(point.last - point.first + 2)
    for j in range(len(v)):
        if point.first <= j < point.last:
            bound += v[j] * v[j]
        else:
            free += v[j] * v[j]
    if not np.isfinite(free + bound) or not gain > 0.0:
        return 0.0
    if slope(point, v, gain, free, most / lam_n) >= 0.0:
        return most
    for j in range(point.first, point.last):
        turn = lam_n * point.x[j] / v[j] if v[j] != 0.0 else 0.0
        if 0.0 < turn < most:
            turns[count + 1] = turn
            count += 1
    turns[0], turns[count + 1] = 0.0, most
    turns[1 : count + 1].sort()
    low, high = 0, count + 1
    while high - low > 1:
        middle = (low + high) // 2
        if slope(point, v, gain, free, turns[middle] / lam_n) > 0.0:
            low = middle
        else:
            high = middle
    start, end, length = turns[low], turns[high], free
    for j in range(point.first, point.last):
        if point.x[j] - 0.5 * (start + end) / lam_n * v[j] > 0.0:
            length += v[j] * v[j]
    if not length > 0.0:
        return end
    return min(end, start + lam_n * slope(point, v, gain, free, start / lam_n) / length)
