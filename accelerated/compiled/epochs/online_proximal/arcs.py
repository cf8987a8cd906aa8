"""Rounds of the online proximal algorithm over packed sentences, where the regularizer is a function of the norms of
groups of templates.

Group k is scale[k] times W (d,) at its blocks, so that the prox changes one number. A group at zero has scale 0 and W =
0, and its templates are not scored. The sum of the models at the start of each round is before + S[k] W - U at the
blocks of group k: S gathers the scales, U each change of W times the S before it. Squared norms are updated by

    ||keep theta_k - gamma D_k||^2 = keep^2 ||theta_k||^2 - 2 gamma keep <theta_k, D_k> + gamma^2 ||D_k||^2,
    keep = 1 - gamma sigma,

where D is the features of the loss's best or expected arcs less those of the true arcs; the shares of each weight are
summed before they are squared. Source: Martins et al., Algorithm 3 with explicit features and equation (17),
*corrected*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import add_to, copy_table
from accelerated.compiled.problems.arc_features import leveled_scores, list_arcs
from accelerated.compiled.problems.arcs import best_of, sum_of
from accelerated.kernel import kernel

__all__ = ["L21_NORM", "SQUARED_L2", "SQUARED_L21", "Blocks", "Learned", "Penalty", "rounds_of_trees"]

SQUARED_L21, SQUARED_L2, L21_NORM = 0, 1, 2
SMALLEST, LARGEST = 1e-5, 1e5  # scales outside are multiplied into W: S W - U loses as many digits as the scale has
CANCELLED = 1e-6  # a squared norm below this share of its terms is summed afresh


class Blocks(NamedTuple):
    """Block b is bounds[b]:bounds[b + 1] of the weights, in group groups[b]; template t is in group templates[t]."""

    bounds: np.ndarray
    groups: np.ndarray
    templates: np.ndarray


class Penalty(NamedTuple):
    """kind: the first ``penalized`` groups have (weight/2) (sum of norms)^2, (weight/2) sum of squares, or weight sum_k
    shares[k] norm_k; other groups have none.

    sigma: of the steps; radius: of the ball that ends each round, or inf.
    """

    kind: int
    weight: float
    shares: np.ndarray
    penalized: int
    sigma: float
    radius: float


class Learned(NamedTuple):
    """The state that rounds change; see the module's docstring. scale, squared, S (K,); W, U, before (d,). U and before
    are empty if no sum is computed.
    """

    W: np.ndarray
    scale: np.ndarray
    squared: np.ndarray
    S: np.ndarray
    U: np.ndarray
    before: np.ndarray


@kernel
def rounds_of_trees(problem, order, steps, mu, blocks, penalty, learned):
    """A round for each sentence in ``order``: ``learned`` changes in place. Returns whether all squared norms were
    finite; rounds stop at the first that is not.

    problem: an ArcProblem; mu = 0: its hinge.
    """
    f, offsets, heads, trees, augmented = problem
    K, T, average = len(learned.scale), f.head.shape[1], len(learned.U) > 0
    levels, scratch = np.empty(T), np.zeros(len(learned.W))
    inner, length, norms, factors = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    for turn in range(len(order)):
        i, gamma = order[turn], steps[turn]
        a = offsets[i]
        n = offsets[i + 1] - a - 1
        keep = 1.0 - gamma * penalty.sigma
        if average:
            add_to(1.0, learned.scale, learned.S)
        for t in range(T):
            levels[t] = learned.scale[blocks.templates[t]]
        arcs = np.empty((n, n + 1))
        leveled_scores(f, a, n, learned.W, levels, arcs)
        _slope(arcs, heads, a, trees, augmented, mu)

        room = _room(f, arcs)
        index, shares, owners = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
        count = list_arcs(f, a, n, arcs, index, shares, owners)
        for e in range(count):
            owners[e] = blocks.templates[owners[e]]
            scratch[index[e]] += shares[e]
        inner[:] = 0.0
        length[:] = 0.0
        for e in range(count):
            inner[owners[e]] += shares[e] * learned.W[index[e]]
            length[owners[e]] += shares[e] * scratch[index[e]]
        for k in range(K):
            old, new = keep * keep * learned.squared[k], gamma * gamma * length[k]
            squared = old - 2.0 * gamma * keep * learned.scale[k] * inner[k] + new
            if not squared < np.inf:
                return False
            if learned.scale[k] != 0 and squared < CANCELLED * (old + new):
                squared = _summed(blocks, k, keep * learned.scale[k], learned.W, gamma, scratch)
            norms[k] = np.sqrt(squared) if squared > 0 else 0.0
        for e in range(count):
            scratch[index[e]] = 0.0

        _shrink(penalty, gamma, norms, factors)
        for k in range(K):
            learned.squared[k] = (factors[k] * norms[k]) ** 2
            if factors[k] == 0 or keep == 0:
                _forget(blocks, learned, k)
            if factors[k] != 0:
                learned.scale[k] = 1.0 if learned.scale[k] == 0 else keep * learned.scale[k]
        for e in range(count):
            k = owners[e]
            if factors[k] != 0:
                change = -gamma * shares[e] / learned.scale[k]
                learned.W[index[e]] += change
                if average:
                    learned.U[index[e]] += learned.S[k] * change
        for k in range(K):
            learned.scale[k] *= factors[k]
            size = abs(learned.scale[k])
            if size != 0 and not SMALLEST < size < LARGEST:
                _multiply_out(blocks, learned, k)
    return True


@kernel
def _slope(arcs, heads, a, trees, augmented, mu):
    """The gradient of the loss with respect to the scores of arcs (n, n + 1)."""
    n = len(arcs)
    if augmented:
        for m in range(n):
            for h in range(n + 1):
                arcs[m, h] += 1.0
            arcs[m, heads[a + 1 + m]] -= 1.0
    if mu > 0.0:
        copy_table(sum_of(arcs, mu, trees)[1], arcs)
    else:
        best = best_of(arcs, trees)[1]
        arcs[:] = 0.0
        for m in range(n):
            arcs[m, best[m]] = 1.0
    for m in range(n):
        arcs[m, heads[a + 1 + m]] -= 1.0


@kernel
def _room(f, arcs):
    """An upper bound on the number of features of the arcs whose value is not 0."""
    T, between, features = f.head.shape[1], f.between.shape[1], 0
    for m in range(arcs.shape[0]):
        for h in range(arcs.shape[1]):
            if arcs[m, h] != 0:
                features += T - between + between * min(abs(h - m - 1), len(f.between))
    return features


@kernel
def _summed(blocks, k, scale, W, gamma, D):
    """||scale W - gamma D||^2 over group k."""
    total = 0.0
    for b in range(len(blocks.groups)):
        if blocks.groups[b] == k:
            for j in range(blocks.bounds[b], blocks.bounds[b + 1]):
                x = scale * W[j] - gamma * D[j]
                total += x * x
    return total


@kernel
def _shrink(penalty, gamma, norms, factors):
    """factors[k] = the norm of group k after the penalty's prox and the ball, divided by its norm norms[k]; 0 if that
    is 0.
    """
    K, count, weight = len(norms), penalty.penalized, gamma * penalty.weight
    tau = 0.0
    if penalty.kind == SQUARED_L21:  # Algorithm 2 of Martins et al.
        total = 0.0
        descending = np.sort(norms[:count])[::-1]
        for j in range(count):
            total += descending[j]
            level = weight / (1.0 + (j + 1) * weight) * total
            if descending[j] - level > 0:
                tau = level
    squared = 0.0
    for k in range(K):
        b = norms[k]
        if k < count:
            if penalty.kind == SQUARED_L2:
                b /= 1.0 + weight
            else:
                b -= tau if penalty.kind == SQUARED_L21 else weight * penalty.shares[k]
        factors[k] = b / norms[k] if b > 0 else 0.0
        squared += b * b if b > 0 else 0.0
    if squared > penalty.radius * penalty.radius:
        for k in range(K):
            factors[k] *= penalty.radius / np.sqrt(squared)


@kernel
def _forget(blocks, learned, k):
    """Set group k to 0."""
    if learned.scale[k] == 0:
        return
    learned.scale[k] = 0.0
    _flush(blocks, learned, k)
    for b in range(len(blocks.groups)):
        if blocks.groups[b] == k:
            learned.W[blocks.bounds[b] : blocks.bounds[b + 1]] = 0.0


@kernel
def _multiply_out(blocks, learned, k):
    """Multiply the scale of group k into W, so that it becomes 1."""
    _flush(blocks, learned, k)
    for b in range(len(blocks.groups)):
        if blocks.groups[b] == k:
            for j in range(blocks.bounds[b], blocks.bounds[b + 1]):
                learned.W[j] *= learned.scale[k]
    learned.scale[k] = 1.0


@kernel
def _flush(blocks, learned, k):
    """before += S W - U; S and U restart at 0."""
    if len(learned.U) == 0:
        return
    for b in range(len(blocks.groups)):
        if blocks.groups[b] == k:
            for j in range(blocks.bounds[b], blocks.bounds[b + 1]):
                learned.before[j] += learned.S[k] * learned.W[j] - learned.U[j]
                learned.U[j] = 0.0
    learned.S[k] = 0.0
