"""Candidates of images as problems: scores, oracles, gradients, an epoch of SGD and of SVRG. Weights w (d,), features (N, d) as they are kept.

Features are float32 or float64, weights and sums float64: a feature is widened when it is read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelerated.compiled.reductions import plus
from accelerated.kernel import inlined, kernel

__all__ = [
    "Answers",
    "CandidateProblem",
    "add_rows",
    "gradient_range",
    "new_answers",
    "score_range",
    "sgd_epoch",
    "svrg_epoch",
    "try_components",
]

ENTROPY, MAX = 0, -1  # for ``outputs``


class CandidateProblem(NamedTuple):
    """Images of candidates offsets[i]..offsets[i + 1] - 1; best (n,) within the image; losses (N,), of which ``augmented`` says whether they count.

    outputs: over how many of the best the max is smoothed by squared l2; ENTROPY: over all, by entropy; MAX: not at all.
    """

    features: np.ndarray
    offsets: np.ndarray
    best: np.ndarray
    losses: np.ndarray
    augmented: bool
    outputs: int


class Answers(NamedTuple):
    """What oracles answered, a row for each image: the candidates (n, room) that have weight, their weights, how many; room is 0 where nothing is kept."""

    rows: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class Work(NamedTuple):
    """Room for one image: its augmented scores; the rows, scores and weights of the outputs that count."""

    scores: np.ndarray
    rows: np.ndarray
    psi: np.ndarray
    weights: np.ndarray


@kernel
def new_answers(n, room):
    """Nothing yet, of n images."""
    return Answers(np.zeros((n, room), np.int64), np.zeros((n, room)), np.zeros(n, np.int64))


@kernel
def new_work(problem):
    """Room for any image of a problem."""
    longest = 1
    for i in range(len(problem.offsets) - 1):
        longest = max(longest, problem.offsets[i + 1] - problem.offsets[i])
    room = longest if problem.outputs == ENTROPY else abs(problem.outputs) + 1
    return Work(np.empty(longest), np.zeros(room, np.int64), np.empty(room), np.empty(room))


@inlined
def dot(features, row, w):
    """<features[row], w>."""
    total = 0.0
    for j in range(len(w)):
        total = plus(total, features[row, j] * w[j])
    return total


@kernel
def score_range(features, first, end, w, scores):
    """scores (end - first,) = features[first:end] @ w."""
    for row in range(first, end):
        scores[row - first] = dot(features, row, w)


@inlined
def add_row(features, row, factor, G):
    """G (d,) += factor * features[row]."""
    for j in range(len(G)):
        G[j] += factor * features[row, j]


@kernel
def add_rows(features, rows, factors, G):
    """G (d,) += the sum of factors[k] * features[rows[k]]."""
    for k in range(len(rows)):
        add_row(features, rows[k], factors[k], G)


@kernel
def oracle(problem, i, w, mu, work):
    """The (smoothed) hinge of image i, how many outputs have weight, and whether the smoothing is certified to be that over all outputs."""
    first, m = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    score_range(problem.features, first, first + m, w, work.scores)
    gold = work.scores[problem.best[i]]
    if problem.augmented:
        for y in range(m):
            work.scores[y] += problem.losses[first + y]
    if problem.outputs == ENTROPY:
        return softmax(work, m, mu) - gold, m, True
    if problem.outputs == MAX:
        select(work, m, 1)
        work.weights[0] = 1.0
        return work.psi[0] - gold, 1, True
    k = problem.outputs
    found = select(work, m, min(k + 1, m))
    count = min(k, found)
    value = project(work, count, mu)
    return value - gold, count, found <= k or certified(work.psi, k, mu)


@kernel
def softmax(work, m, mu):
    """mu log sum exp(scores / mu) over m scores, with all of them as outputs."""
    top = work.scores[0]
    for y in range(1, m):
        top = max(top, work.scores[y])
    total = 0.0
    for y in range(m):
        work.rows[y] = y
        work.weights[y] = math.exp((work.scores[y] - top) / mu)
        total += work.weights[y]
    for y in range(m):
        work.weights[y] /= total
    return top + mu * math.log(total)


@kernel
def select(work, m, k):
    """The k best of m scores into rows and psi, from high to low, the first of equals before later ones: k."""
    found = 0
    for y in range(m):
        x = work.scores[y]
        if found == k and not x > work.psi[k - 1]:
            continue
        at = found if found < k else k - 1
        while at > 0 and x > work.psi[at - 1]:
            work.psi[at], work.rows[at] = work.psi[at - 1], work.rows[at - 1]
            at -= 1
        work.psi[at], work.rows[at] = x, y
        found = min(found + 1, k)
    return found


@kernel
def project(work, count, mu):
    """The max over ``count`` sorted scores smoothed by squared l2, its weights into ``weights``."""
    top, total, tau = work.psi[0], 0.0, 0.0
    for k in range(count):  # the support is a prefix
        z = (work.psi[k] - top) / mu
        if not (z > -1.0 and 1.0 + (k + 1) * z > total + z):
            break
        total += z
        tau = (total - 1.0) / (k + 1)
    linear, square = 0.0, 0.0
    for k in range(count):
        z = (work.psi[k] - top) / mu
        u = z - tau if z > tau and z > -1.0 else 0.0
        work.weights[k] = u
        linear += u * z if u > 0 else 0.0
        square += u * u
    return top + mu * (linear + (1.0 - square) / 2)


@kernel
def certified(psi, k, mu):
    """Whether the k best give the max smoothed over all outputs: Proposition 4 of Pillutla et al., less its rounding."""
    average, largest = 0.0, 0.0
    for j in range(k):
        average += (psi[j] - psi[k]) / k
        largest = max(largest, abs(psi[j]))
    return average - 2.0**-52 * ((k + 2) * average + largest) >= mu / k


@kernel
def add_answer(problem, i, factor, rows, weights, count, G):
    """G (d,) += factor * (the features of the outputs by their weights)."""
    for c in range(count):
        if weights[c] != 0.0:
            add_row(problem.features, problem.offsets[i] + rows[c], factor * weights[c], G)


@kernel
def gradient_range(problem, batch, lo, hi, w, mu, kept, G):
    """Sums over images batch[lo:hi]: losses, task losses, exact answers; gradients are added to G (d,), answers kept where there is room."""
    work = new_work(problem)
    total, cost, exact = 0.0, 0.0, 0
    for k in range(lo, hi):
        i = batch[k]
        value, count, sure = oracle(problem, i, w, mu, work)
        total += value
        exact += sure
        add_answer(problem, i, 1.0, work.rows, work.weights, count, G)
        add_row(problem.features, problem.offsets[i] + problem.best[i], -1.0, G)
        if problem.augmented:
            for c in range(count):
                cost += work.weights[c] * problem.losses[problem.offsets[i] + work.rows[c]]
        if kept.rows.shape[1] > 0:
            kept.counts[i] = count
            for c in range(count):
                kept.rows[i, c], kept.weights[i, c] = work.rows[c], work.weights[c]
    return total, cost, exact


@kernel
def sgd_epoch(problem, order, steps, shares, lam, mu, w, mean):
    """A step w <- (1 - gamma lam) w - gamma g for each image in ``order``, and mean <- mean + share (w - mean): both change in place."""
    work = new_work(problem)
    for k in range(len(order)):
        i, gamma, shrink, share = order[k], steps[k], 1.0 - steps[k] * lam, shares[k]
        _, count, _ = oracle(problem, i, w, mu, work)
        for j in range(len(w)):
            w[j] *= shrink
        add_answer(problem, i, -gamma, work.rows, work.weights, count, w)
        add_row(problem.features, problem.offsets[i] + problem.best[i], gamma, w)
        for j in range(len(w)):
            mean[j] += share * (w[j] - mean[j])


@kernel
def svrg_epoch(problem, order, gamma, a, mu, x, b, kept, averaged, w, total):
    """A step w <- a (w - gamma (g_i(w) - g_i(x))) + b for each image in ``order``; where ``averaged``, iterates are added to ``total``.

    Oracles at the snapshot x are asked for where ``kept`` has nothing.
    """
    work = new_work(problem)
    still = new_work(problem)
    for k in range(len(order)):
        i = order[k]
        _, count, _ = oracle(problem, i, w, mu, work)
        add_answer(problem, i, -gamma, work.rows, work.weights, count, w)
        if kept.rows.shape[1] > 0:
            add_answer(problem, i, gamma, kept.rows[i], kept.weights[i], kept.counts[i], w)
        else:
            _, before, _ = oracle(problem, i, x, mu, still)
            add_answer(problem, i, gamma, still.rows, still.weights, before, w)
        for j in range(len(w)):
            w[j] = a * w[j] + b[j]
        if averaged:
            for j in range(len(w)):
                total[j] += w[j]


@kernel
def try_components(problem, batch, start, limit, mu, slack, w):
    """The least L = start * 2^j with f_i(w - g_i/L) <= f_i(w) - ||g_i||^2 / (2L) for all i of the batch that need no more than
    ``limit``, and the oracle calls.

    slack: what the inequality may miss, as a share of f_i(w) and mu. inf where no finite L will do.
    """
    work = new_work(problem)
    g, moved = np.empty_like(w), np.empty_like(w)
    L, calls = start, 0
    for k in range(len(batch)):
        i, before = batch[k], L
        value, count, _ = oracle(problem, i, w, mu, work)
        g[:] = 0.0
        add_answer(problem, i, 1.0, work.rows, work.weights, count, g)
        add_row(problem.features, problem.offsets[i] + problem.best[i], -1.0, g)
        calls += 1
        square = 0.0
        for j in range(len(w)):
            square += g[j] * g[j]
        while square > 0.0 and 0.0 < L < np.inf:
            for j in range(len(w)):
                moved[j] = w[j] - g[j] / L
            calls += 1
            if oracle(problem, i, moved, mu, work)[0] <= value - square / (2.0 * L) + slack * (abs(value) + mu):
                break
            L *= 2.0
            if max(limit, start) < L:
                L = before
                break
    return L, calls
