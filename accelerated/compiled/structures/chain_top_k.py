"""The max smoothed by squared l2 over the best outputs of a chain: the top-K oracle, its weights kept beside the
labellings.

With psi the best scores: value = sum_i u_i psi_i + (mu/2)(1 - ||u||^2), u = the projection of psi/mu onto the simplex;
the gradient is sum_i u_i parts(y_i). Pillutla et al., Propositions 3 and 4, Algorithm 6 *corrected*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.chain_k_best import KBestWork, k_best, k_best_workspace
from accelerated.kernel import inlined, kernel

__all__ = ["Outputs", "mixture", "outputs_room", "smoothed_best", "weights_of"]


class Outputs(NamedTuple):
    """The best outputs of a chain of up to n positions, with weights. `outputs_room` allocates them, `smoothed_best`
    fills them.
    """

    values: np.ndarray  # (k + 1,) scores from high to low
    labels: np.ndarray  # (k + 1, n)
    weights: np.ndarray  # (k + 1,)
    state: np.ndarray  # (2,) how many weights are > 0, and whether all outputs together would have the same
    here: np.ndarray  # (k + 2,) labels of one position: `mixture`
    share: np.ndarray  # (k + 2,) and their weights
    search: KBestWork


@kernel
def outputs_room(n, L, k):
    """Room for k outputs of chains of up to n positions and L labels, and for the one after them, which certifies."""
    return Outputs(
        np.empty(k + 1),
        np.empty((k + 1, n), np.int64),
        np.empty(k + 1),
        np.zeros(2, np.int64),
        np.empty(k + 2, np.int64),
        np.empty(k + 2),
        k_best_workspace(n, L, k + 1),
    )


@inlined
def smoothed_best(scores, n, pairwise, matrix, mu, outputs):
    """The value at mu > 0 over at most the k outputs that there is room for; ``outputs`` then has their weights.

    scores, pairwise (one matrix, also in ``matrix``) as for `k_best`, which stops as soon as the rest has weight 0.
    """
    k = len(outputs.values) - 1
    count, certified = k_best(scores, n, pairwise, 0, 0, matrix, mu, outputs.values, outputs.labels, outputs.search)
    outputs.state[1] = 1 if certified else 0
    outputs.state[0] = weights_of(outputs.values, min(count, k), mu, outputs.weights)
    if count == 0:
        return -np.inf
    top = outputs.values[0]
    if not top < np.inf:  # nan or an overflow: the weights become nan, so that no gradient looks valid
        outputs.state[0], outputs.weights[0] = 1, np.nan
    inner, square = 0.0, 0.0
    for i in range(outputs.state[0]):
        inner += outputs.weights[i] * ((outputs.values[i] - top) / mu)
        square += outputs.weights[i] * outputs.weights[i]
    return top + mu * (inner + 0.5 * (1.0 - square))


@inlined
def weights_of(psi, count, mu, u):
    """The projection of psi[:count] / mu (decreasing) onto the simplex: u[:m] > 0, the rest is 0. Returns m."""
    total, m = 0.0, 0  # of z_i = (psi_i - psi_1) / mu over the support
    for i in range(count):
        z = (psi[i] - psi[0]) / mu
        if not 1.0 + (i + 1) * z > total + z:
            break
        total, m = total + z, i + 1
    for i in range(m):
        u[i] = (psi[i] - psi[0]) / mu - (total - 1.0) / m
    while m > 0 and not u[m - 1] > 0.0:  # by rounding
        m -= 1
    return m


@inlined
def mixture(count, labels, weights, t, gold, here, share):
    """The labels that position t has under weights[:count] minus the true output: here[:m] with share[:m]. Returns m, 0
    if all outputs agree with the truth.
    """
    here[0], share[0], m = gold, -1.0, 1
    for i in range(count):
        label, place = labels[i, t], 0
        while place < m and here[place] != label:
            place += 1
        if place == m:
            here[m], share[m], m = label, 0.0, m + 1
        share[place] += weights[i]
    return m if m > 1 or share[0] != share[0] else 0
