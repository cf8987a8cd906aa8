"""Exponentiated gradient over packed sequences: visits that change a sequence's local scores, its marginals and its
features' weights.

W (F, Lp) and A (1, L, L) hold the dual's x; the weights are soft(x, threshold), or x itself if threshold is None, which
has kernels of its own. A visit changes x at once, so that the growth of the weights' squared norm, and with it the
dual's gain, is a sum over what the sequence touches. If the dual falls, the change is undone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.copies import copy_table, copy_to
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import gather, longest_of, room
from accelerated.compiled.problems.dual_cells import (
    aim_cells,
    begin_cells,
    growth_of,
    local_sums,
    move_cells,
    move_cells_back,
    shrunk,
    span,
)
from accelerated.compiled.reductions import only_if, plus
from accelerated.compiled.sweeps import fill, padded
from accelerated.kernel import inlined, kernel
from reference.optimizers.exponentiated_gradient import CONCENTRATION, FIRST_TRIES, GROWTH, ROUNDING, SHARPER, SHRINKAGE

__all__ = ["Points", "Visits", "eg_between", "eg_difference", "eg_epoch", "eg_from_weights", "no_points"]

EPS = float(np.finfo(np.float64).eps)


class Points(NamedTuple):
    """Local scores theta and marginals: nodes of all positions (N, Lp), edges of each sequence (n, T), one for each of
    the T transitions that have a weight. visited (n,): whether a sequence has been visited. theta_E, cells (C,): of
    cells (:mod:`accelerated.compiled.problems.edges`), which checkpoints of earlier versions do not have.
    """

    theta: np.ndarray
    theta_A: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    visited: np.ndarray
    theta_E: np.ndarray = np.zeros(0)
    cells: np.ndarray = np.zeros(0)


class Scratch(NamedTuple):
    """The new state of one sequence: target scores, theta, marginals (n, Lp), changes of weights. Target scores are
    those at w plus the task loss.

    ends (T, 2): the labels of each transition that has a weight; A, target_A, theta_A, edges and moves_A (T,) are of
    these, A the dual's x and target_A the weights. table_A and table (1, L, L) are theta_A and edges of all
    transitions: those without a weight have a score of 0, or of -inf where they are forbidden.

    target_E, theta_E, cells, moves_E (C,): of the cells of the sequence.
    """

    scores: np.ndarray
    theta: np.ndarray
    nodes: np.ndarray
    moves: np.ndarray
    ends: np.ndarray
    A: np.ndarray
    target_A: np.ndarray
    theta_A: np.ndarray
    edges: np.ndarray
    moves_A: np.ndarray
    table_A: np.ndarray
    table: np.ndarray
    target_E: np.ndarray
    theta_E: np.ndarray
    cells: np.ndarray
    moves_E: np.ndarray


def no_points(problem: Any, n_labels: int) -> Points:
    """Room for the points of a problem's sequences, none of them visited."""
    offsets, weights = problem.offsets, int(np.sum(problem.pairs.transitions != 0.0))
    nodes, edges = (int(offsets[-1]), padded(n_labels)), (len(offsets) - 1, weights)
    theta, theta_A, visited = np.zeros(nodes), np.zeros(edges), np.zeros(len(offsets) - 1, np.bool_)
    cells = np.zeros(int(problem.edges.cells[-1]) if hasattr(problem, "edges") else 0)
    return Points(theta, theta_A, theta.copy(), theta_A.copy(), visited, cells, cells.copy())


class Visits(NamedTuple):
    """For each example (n,): its part of the dual, its step length, and the rate of gain at its last visit."""

    values: np.ndarray
    steps: np.ndarray
    rates: np.ndarray


@inlined
def gather_weights(problem, position, W, threshold, scores, t):
    """:func:`gather` of soft(W, threshold)."""
    if threshold is None:
        gather(problem, position, W, scores, t)
    else:
        gather_shrunk(problem, position, W, threshold, scores, t)


@inlined
def gather_shrunk(problem, position, W, threshold, scores, t):
    data, indices, first, last = problem.data, problem.indices, problem.indptr[position], problem.indptr[position + 1]
    fill(0.0, scores, t)
    for b in range((last - first) // 4):
        e = first + 4 * b
        x0, x1, x2, x3 = entry(data, e), entry(data, e + 1), entry(data, e + 2), entry(data, e + 3)
        j0, j1, j2, j3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
        for label in range(scores.shape[1]):
            one = muladd(x0, shrunk(W[j0, label], threshold), scores[t, label])
            two = muladd(x1, shrunk(W[j1, label], threshold), one)
            three = muladd(x2, shrunk(W[j2, label], threshold), two)
            scores[t, label] = muladd(x3, shrunk(W[j3, label], threshold), three)
    for e in range(last - (last - first) % 4, last):
        x, j = entry(data, e), indices[e]
        for label in range(scores.shape[1]):
            scores[t, label] = muladd(x, shrunk(W[j, label], threshold), scores[t, label])
    pairs = problem.pairs
    if len(pairs.rows) > 0:
        for e in range(pairs.indptr[position], pairs.indptr[position + 1]):
            weight = shrunk(W[pairs.rows[e], pairs.columns[e]], threshold)
            scores[t, pairs.labels[e]] += entry(pairs.data, e) * weight


@kernel
def eg_epoch(problem, order, cost, lam_n, mu, threshold, points, visits, w):
    """A visit for each sequence in ``order``: points, ``visits`` and the dual's x change in place. Returns the number
    of oracle calls.

    cost (L, L) is the model's; problem.cost is that of the objective, 0 for the log loss.
    """
    (values, steps, rates), (W, A) = visits, w
    work, new, calls = room(problem, order, 0, len(order), A), new_scratch(problem, order, W, A), 0
    for k in range(len(order)):
        i, eta = order[k], steps[order[k]]
        keep, share = (1.0 - eta, eta / mu) if mu > 0.0 else (1.0, eta)
        first = not points.visited[i]
        if first:
            begin(problem, i, cost, points, new)
        for t in range(problem.offsets[i + 1] - problem.offsets[i]):
            gather_weights(problem, problem.offsets[i] + t, W, threshold, new.scores, t)
            for label in range(A.shape[1]):
                new.scores[t, label] += problem.cost[problem.labels[problem.offsets[i] + t], label]
        for e in range(len(new.ends)):
            new.target_A[e] = shrunk(new.A[e], threshold)
        aim_cells(problem, i, threshold, W, new)
        tries, done = FIRST_TRIES if first else 1, False
        while tries > 0 and not done:
            tries -= 1
            take_step(problem, i, keep, share, points, new.target_A, new)
            value, size = expected(problem, i, mu, new, work)
            growth = 0.5 * lam_n * move(problem, i, points, 1.0 / lam_n, threshold, W, new)
            gain = value - values[i] - growth
            calls += 1
            done = gain >= -ROUNDING * EPS * (size + abs(growth)) or (first and tries == 0 and np.isfinite(gain))
            if not done:
                move_back(problem, i, W, new)
                if first:
                    sharpen(problem, i, points)
        if done:
            store(problem, i, new, points)
            values[i] = value
            rates[i] = (gain if gain > 0.0 else 0.0) / eta
            steps[i] = GROWTH * eta if mu == 0.0 or GROWTH * eta < 1.0 else 1.0
        else:
            steps[i] = SHRINKAGE * eta
    put(new, A)
    return calls


@kernel
def eg_between(problem, lam_n, mu, before, share, points, values, w):
    """Move the theta of each sequence to (1 - share) times that of ``before`` plus share times its own: points, values
    and the dual's x change in place. Returns the number of oracle calls. Sequences not visited in ``before`` stay.
    """
    W, A = w
    n = len(problem.offsets) - 1
    every = np.arange(n)
    work, new, calls = room(problem, every, 0, n, A), new_scratch(problem, every, W, A), 0
    for i in range(n):
        if before.visited[i]:
            first, last = problem.offsets[i], problem.offsets[i + 1]
            copy_table(points.theta[first:last], new.scores)
            _, _, begin, end = span(problem, i)
            copy_to(points.theta_E[begin:end], new.target_E)
            take_step(problem, i, 1.0 - share, share, before, points.theta_A[i], new)
            values[i], _ = expected(problem, i, mu, new, work)
            move(problem, i, points, 1.0 / lam_n, None, W, new)
            store(problem, i, new, points)
            calls += 1
    put(new, A)
    return calls


@kernel
def eg_difference(problem, factor, points, w):
    """Add to w, for each visited sequence, factor times the truth's features less their expectation: w changes in
    place.
    """
    W, A = w
    n = len(problem.offsets) - 1
    new = new_scratch(problem, np.arange(n), W, A)
    for i in range(n):
        if points.visited[i]:
            put_truth(problem, i, new, new.nodes, new.edges)
            move(problem, i, points, -factor, None, W, new)
    put(new, A)


@kernel
def eg_from_weights(problem, cost, lam_n, mu, weights, points, values, w):
    """Set the theta of each sequence to its local scores at ``weights``: points, values and the dual's x, which is 0
    before, change in place.
    """
    (W, A), (V, B) = w, weights
    n = len(problem.offsets) - 1
    every = np.arange(n)
    work, new = room(problem, every, 0, n, A), new_scratch(problem, every, W, A)
    for e in range(len(new.ends)):
        new.target_A[e] = B[0, new.ends[e, 0], new.ends[e, 1]]
    for i in range(n):
        begin(problem, i, cost, points, new)
        for t in range(problem.offsets[i + 1] - problem.offsets[i]):
            gather(problem, problem.offsets[i] + t, V, new.scores, t)
            for label in range(A.shape[1]):
                new.scores[t, label] += problem.cost[problem.labels[problem.offsets[i] + t], label]
        aim_cells(problem, i, None, V, new)
        take_step(problem, i, 0.0, 1.0 / mu, points, new.target_A, new)
        values[i], _ = expected(problem, i, mu, new, work)
        move(problem, i, points, 1.0 / lam_n, None, W, new)
        store(problem, i, new, points)
    put(new, A)


@kernel
def new_scratch(problem, order, W, A):
    """Room for the new state of one of these sequences; it takes over the x of transitions."""
    longest, has_weight, T, C = longest_of(problem, order, 0, len(order)), problem.pairs.transitions, 0, 0
    rows = longest, W.shape[1]
    for i in order:
        _, _, begin, end = span(problem, i)
        C = max(C, end - begin)
    for a in range(A.shape[1]):
        for b in range(A.shape[1]):
            T += has_weight[a, b] != 0.0
    new = Scratch(
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty((T, 2), np.int64),
        np.empty(T),
        np.empty(T),
        np.empty(T),
        np.empty(T),
        np.empty(T),
        np.empty(A.shape),
        np.empty(A.shape),
        np.empty(C),
        np.empty(C),
        np.empty(C),
        np.empty(C),
    )
    e = 0
    for a in range(A.shape[1]):
        for b in range(A.shape[1]):
            new.table_A[0, a, b] = A[0, a, b]
            if has_weight[a, b] != 0.0:
                new.ends[e, 0], new.ends[e, 1], new.A[e] = a, b, A[0, a, b]
                e += 1
    return new


@kernel
def put(new, A):
    """Put the x of transitions into A."""
    for e in range(len(new.ends)):
        A[0, new.ends[e, 0], new.ends[e, 1]] = new.A[e]


@kernel
def begin(problem, i, cost, points, new):
    """Set the marginals to the truth, and theta to that of a distribution around the truth, for the first step."""
    first = problem.offsets[i]
    for t in range(first, problem.offsets[i + 1]):
        for label in range(len(cost)):
            points.theta[t, label] = -CONCENTRATION * cost[problem.labels[t], label]
    put_truth(problem, i, new, points.nodes[first : problem.offsets[i + 1]], points.edges[i])
    begin_cells(problem, i, points)


@kernel
def put_truth(problem, i, new, nodes, edges):
    """Set the marginals of a sequence to those of the truth."""
    first = problem.offsets[i]
    for a in range(new.table.shape[1]):
        for b in range(new.table.shape[1]):
            new.table[0, a, b] = 0.0
    for t in range(problem.offsets[i + 1] - first):
        fill(0.0, nodes, t)
        nodes[t, problem.labels[first + t]] = 1.0
        if t > 0:
            new.table[0, problem.labels[first + t - 1], problem.labels[first + t]] += 1.0
    for e in range(len(new.ends)):
        edges[e] = new.table[0, new.ends[e, 0], new.ends[e, 1]]


@kernel
def sharpen(problem, i, points):
    """Concentrate the first theta more closely around the truth."""
    for t in range(problem.offsets[i], problem.offsets[i + 1]):
        for label in range(points.theta.shape[1]):
            points.theta[t, label] *= SHARPER


@inlined
def mixed(keep, theta, share, target):
    """keep theta + share target; forbidden entries stay forbidden."""
    return keep * theta + share * target if target > -np.inf else target


@kernel
def take_step(problem, i, keep, share, points, target_A, new):
    """new.theta = keep theta + share new.scores, and the same for transitions with target_A."""
    first, L = problem.offsets[i], new.table.shape[1]
    for t in range(problem.offsets[i + 1] - first):
        for label in range(L):
            new.theta[t, label] = mixed(keep, points.theta[first + t, label], share, new.scores[t, label])
            new.nodes[t, label] = new.theta[t, label]
        for label in range(L, new.theta.shape[1]):
            new.theta[t, label] = 0.0
            new.nodes[t, label] = -np.inf
    for e in range(len(new.ends)):
        new.theta_A[e] = mixed(keep, points.theta_A[i, e], share, target_A[e])
        new.table_A[0, new.ends[e, 0], new.ends[e, 1]] = new.theta_A[e]
    _, _, begin, end = span(problem, i)
    for c in range(end - begin):
        new.theta_E[c] = keep * points.theta_E[begin + c] + share * new.target_E[c]


@kernel
def expected(problem, i, mu, new, work):
    """mu H + the mean task loss under new.theta, and the size of its terms; new.nodes and new.edges become the
    marginals.
    """
    first, n, L = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], new.table.shape[1]
    log_z, used = local_sums(problem, i, new, work)
    loss = 0.0
    for t in range(n):
        y = problem.labels[first + t]
        for label in range(L):
            p = new.nodes[t, label]
            used = plus(used, only_if(p > 0.0, new.theta[t, label]) * p)
            loss = plus(loss, problem.cost[y, label] * p)
    for e in range(len(new.ends)):
        new.edges[e] = new.table[0, new.ends[e, 0], new.ends[e, 1]]
        used = plus(used, only_if(new.edges[e] > 0.0, new.theta_A[e]) * new.edges[e])
    value = mu * (log_z - used) + loss
    return value, abs(value) + mu * abs(used)


@kernel
def move(problem, i, points, factor, threshold, W, new):
    """Move x as the marginals change from those of ``points`` to ``new``. Returns the growth of the weights' squared
    norm.
    """
    first, free, growth = problem.offsets[i], problem.pairs.free, 0.0
    for t in range(problem.offsets[i + 1] - first):
        for label in range(W.shape[1]):
            new.moves[t, label] = factor * (points.nodes[first + t, label] - new.nodes[t, label])
        for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
            x, j = entry(problem.data, e), problem.indices[e]
            if free.shape[0] > 0:
                for label in range(W.shape[1]):
                    change = x * new.moves[t, label] * free[j, label]
                    growth = plus(growth, growth_of(W[j, label], change, threshold))
                    W[j, label] += change
            else:
                for label in range(W.shape[1]):
                    change = x * new.moves[t, label]
                    growth = plus(growth, growth_of(W[j, label], change, threshold))
                    W[j, label] += change
        growth += move_pairs(problem.pairs, first + t, 1.0, new.moves, t, threshold, W)
    for e in range(len(new.ends)):
        change = factor * (points.edges[i, e] - new.edges[e])
        new.moves_A[e] = change
        growth = plus(growth, only_if(change != 0.0, growth_of(new.A[e], change, threshold)))
        new.A[e] += change
    return growth + move_cells(problem, i, factor, points, threshold, W, new)


@inlined
def move_pairs(pairs, position, factor, moves, t, threshold, W):
    """Move the x of a position's pairs; -inf stays. Returns the growth of the weights' squared norm."""
    growth = 0.0
    if len(pairs.rows) > 0:
        for e in range(pairs.indptr[position], pairs.indptr[position + 1]):
            change = factor * entry(pairs.data, e) * moves[t, pairs.labels[e]]
            if change != 0.0:
                growth += growth_of(W[pairs.rows[e], pairs.columns[e]], change, threshold)
                W[pairs.rows[e], pairs.columns[e]] += change
    return growth


@kernel
def move_back(problem, i, W, new):
    """Undo the last move of x."""
    first, free = problem.offsets[i], problem.pairs.free
    for t in range(problem.offsets[i + 1] - first):
        for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
            x, j = entry(problem.data, e), problem.indices[e]
            if free.shape[0] > 0:
                for label in range(W.shape[1]):
                    W[j, label] -= x * new.moves[t, label] * free[j, label]
            else:
                for label in range(W.shape[1]):
                    W[j, label] -= x * new.moves[t, label]
        move_pairs(problem.pairs, first + t, -1.0, new.moves, t, None, W)
    for e in range(len(new.ends)):
        new.A[e] -= new.moves_A[e]
    move_cells_back(problem, i, W, new)


@kernel
def store(problem, i, new, points):
    """Make the new theta and marginals those of the sequence."""
    first = problem.offsets[i]
    for t in range(problem.offsets[i + 1] - first):
        for label in range(new.theta.shape[1]):
            points.theta[first + t, label] = new.theta[t, label]
            points.nodes[first + t, label] = new.nodes[t, label]
    for e in range(len(new.ends)):
        points.theta_A[i, e], points.edges[i, e] = new.theta_A[e], new.edges[e]
    _, _, begin, end = span(problem, i)
    for c in range(end - begin):
        points.theta_E[begin + c], points.cells[begin + c] = new.theta_E[c], new.cells[c]
    points.visited[i] = True
