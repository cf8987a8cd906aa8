"""A pass of block-coordinate Frank-Wolfe over images of candidates: working sets are rows of the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems.candidates import add_row, dot, new_work, oracle
from accelerated.kernel import kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_SHARE, PAIRWISE_STEPS

__all__ = ["CandidateSets", "bcfw_pass_of_candidates", "candidate_sets", "sets_with_room"]


class CandidateSets(NamedTuple):
    """The outputs found so far for each image: rows (n, room) of the features, alpha and losses (n, room), how many (n,); restless (n,) says
    whether the last visit had something to move."""

    rows: np.ndarray
    alpha: np.ndarray
    losses: np.ndarray
    outputs: np.ndarray
    restless: np.ndarray


def candidate_sets(problem):
    """One output each, the true one, with all the weight."""
    n = len(problem.best)
    rows = (problem.offsets[:-1] + problem.best)[:, None].astype(np.int64)
    return CandidateSets(rows, np.ones((n, 1)), np.zeros((n, 1)), np.ones(n, np.int64), np.zeros(n, np.bool_))


def sets_with_room(sets):
    """A copy of the sets with room for one more output in each."""
    room = int(sets.outputs.max()) + 1
    longer = [np.zeros((len(sets.rows), max(room, sets.rows.shape[1])), x.dtype) for x in sets[:3]]
    for x, y in zip(sets[:3], longer, strict=True):
        y[:, : x.shape[1]] = x
    return CandidateSets(*longer, sets.outputs.copy(), sets.restless.copy())


@kernel
def bcfw_pass_of_candidates(
    problem, order, asked, pairwise, lam_n, capacity, line_search, averaged, t, loss, mean_loss, sets, x, mean
):
    """A visit of each image in ``order``, of the restless ones alone where no oracles are ``asked``: x, mean and sets change in place.

    Returns t, loss, mean_loss.
    """
    work = new_work(problem)
    n, d = len(problem.best), len(x)
    g, towards, v = np.empty(sets.rows.shape[1]), np.empty(sets.rows.shape[1]), np.empty(d)
    for i in order:
        if not (asked or sets.restless[i]):
            continue
        before = 0.0
        for a in range(sets.outputs[i]):
            before += sets.alpha[i, a] * sets.losses[i, a]
        if asked:
            oracle(problem, i, x, 0.0, work)
            join(problem, i, work.rows[0], capacity, sets, x, g)
        m = sets.outputs[i]
        worst, best, violation = worst_pair(problem, i, sets, x, g)
        if asked:
            gain = 0.0
            v[:] = 0.0
            for a in range(m):
                towards[a] = (1.0 if a == best else 0.0) - sets.alpha[i, a]
                gain += towards[a] * g[a]
                if towards[a] != 0.0:
                    add_row(problem.features, sets.rows[i, a], towards[a], v)
            gamma = best_gamma(v, gain, 1.0, lam_n) if line_search else 2.0 * n / (2.0 * n + t)
            move(i, gamma, lam_n, towards, v, sets, x)
        for _ in range(PAIRWISE_STEPS if pairwise else 0):
            worst, best, left = worst_pair(problem, i, sets, x, g)
            if left <= PAIRWISE_SHARE * violation:
                break
            for a in range(m):
                towards[a] = (1.0 if a == best else 0.0) - (1.0 if a == worst else 0.0)
            v[:] = 0.0
            add_row(problem.features, sets.rows[i, best], 1.0, v)
            add_row(problem.features, sets.rows[i, worst], -1.0, v)
            move(i, best_gamma(v, g[best] - g[worst], sets.alpha[i, worst], lam_n), lam_n, towards, v, sets, x)
        after, largest = 0.0, 0.0
        for a in range(m):
            after += sets.alpha[i, a] * sets.losses[i, a]
            largest = max(largest, sets.losses[i, a])
        loss += (after - before) / n
        t += 1
        share = 2.0 / (t + 1) if averaged else 1.0
        mean_loss += share * (loss - mean_loss)
        if averaged:
            for j in range(d):
                mean[j] += share * (x[j] - mean[j])
        sets.restless[i] = violation > EQUAL * largest
    return t, loss, mean_loss


@kernel
def join(problem, i, y, capacity, sets, x, g):
    """The set of image i with candidate y, unless it has one of the same features and loss."""
    row, m = problem.offsets[i] + y, sets.outputs[i]
    loss = problem.losses[row]
    for a in range(m):
        if sets.losses[i, a] == loss and same_rows(problem.features, sets.rows[i, a], row):
            return
    place = m
    if m >= capacity:
        score_set(problem, i, sets, x, g)
        for a in range(m):
            if sets.alpha[i, a] == 0.0 and (place == m or g[a] < g[place]):
                place = a
    sets.rows[i, place], sets.losses[i, place], sets.alpha[i, place] = row, loss, 0.0
    if place == m:
        sets.outputs[i] = m + 1


@kernel
def same_rows(features, a, b):
    """Whether two candidates have the same features."""
    j, d = 0, features.shape[1]
    while j < d and features[a, j] == features[b, j]:
        j += 1
    return j == d


@kernel
def score_set(problem, i, sets, x, g):
    """g (m,) = loss + <features - true features, x> of each output of the set."""
    gold = dot(problem.features, problem.offsets[i] + problem.best[i], x)
    for a in range(sets.outputs[i]):
        g[a] = sets.losses[i, a] + (dot(problem.features, sets.rows[i, a], x) - gold)


@kernel
def worst_pair(problem, i, sets, x, g):
    """The lowest in score of the outputs that have weight, the highest of all, and how far they are apart; their scores into g."""
    score_set(problem, i, sets, x, g)
    low, high = np.inf, -np.inf
    for a in range(sets.outputs[i]):
        high = max(high, g[a])
        if sets.alpha[i, a] > 0.0:
            low = min(low, g[a])
    violation, worst, best = high - low, -1, -1
    for a in range(sets.outputs[i]):
        if worst < 0 and sets.alpha[i, a] > 0.0 and g[a] <= low + EQUAL * violation:
            worst = a
        if best < 0 and g[a] >= high - EQUAL * violation:
            best = a
    return worst, best, violation


@kernel
def best_gamma(v, gain, most, lam_n):
    """The step in [0, most] along v that has the highest dual."""
    length = 0.0
    for j in range(len(v)):
        length += v[j] * v[j]
    if length > 0.0:
        return min(most, max(0.0, lam_n * gain / length))
    return most if gain > 0.0 else 0.0


@kernel
def move(i, gamma, lam_n, towards, v, sets, x):
    """alpha_i + gamma towards, and x to match."""
    if gamma == 0.0:
        return
    for a in range(sets.outputs[i]):
        sets.alpha[i, a] += gamma * towards[a]
    for j in range(len(x)):
        x[j] -= (gamma / lam_n) * v[j]
