"""Updates of one dual block over the outputs sampled for it, as in :mod:`reference.optimizers.sample_updates`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.epochs.simplex import Room, maximize_on_simplex, simplex_room
from accelerated.kernel import inlined, kernel

__all__ = ["Quadratic", "exact_update", "expand_and_swap", "quadratic_room"]


class Quadratic(NamedTuple):
    """<b, alpha> - <alpha, Q alpha>/2 of up to k outputs: Q (k, k), b, alpha, start (k,), the previous weights; g (k,):
    b - Q alpha;

    for the exact update, with the true output first: with_truth (k + 1, k + 1), gains, weights (k + 1,), simplex.
    """

    Q: np.ndarray
    b: np.ndarray
    alpha: np.ndarray
    start: np.ndarray
    g: np.ndarray
    with_truth: np.ndarray
    gains: np.ndarray
    weights: np.ndarray
    simplex: Room


@kernel
def quadratic_room(k):
    return Quadratic(
        np.zeros((k, k)),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros((k + 1, k + 1)),
        np.zeros(k + 1),
        np.zeros(k + 1),
        simplex_room(k + 1),
    )


@kernel
def expand_and_swap(quadratic, m):
    """One round of the m samples in their order: each takes the better of two moves, with the best step length."""
    Q, b, alpha, g = quadratic.Q, quadratic.b, quadratic.alpha, quadratic.g
    for j in range(m):
        taken, mean, spread = 0.0, 0.0, 0.0
        for k in range(m):
            g[k] = b[k]
            for c in range(m):
                g[k] -= Q[k, c] * alpha[c]
            taken += alpha[k]
            mean += alpha[k] * g[k]
            spread += alpha[k] * (b[k] - g[k])
        length = max(0.0, Q[j, j] - 2.0 * (b[j] - g[j]) + spread)
        expand, gain = _best_length(g[j], Q[j, j], max(0.0, 1.0 - taken))
        swap, other = _best_length(g[j] - mean, length, 1.0)
        if other > gain:
            for k in range(m):
                alpha[k] *= 1.0 - swap
            alpha[j] += swap
        else:
            alpha[j] += expand


@inlined
def _best_length(slope, curvature, most):
    """argmax and max of a slope - a^2 curvature / 2 over 0 <= a <= most."""
    if not slope > 0.0:
        return 0.0, 0.0
    a = min(most, slope / curvature) if curvature > 0.0 else most
    return a, a * slope - 0.5 * a * a * curvature


@kernel
def exact_update(quadratic, m):
    """The maximum over all weights, to rounding; the true output has the weight that is missing to a sum of 1."""
    with_truth, gains, weights = quadratic.with_truth, quadratic.gains, quadratic.weights
    taken, steepest, largest = 0.0, 0.0, 0.0
    for j in range(m):
        gains[j + 1], weights[j + 1] = quadratic.b[j], quadratic.alpha[j]
        taken += quadratic.alpha[j]
        steepest = max(steepest, abs(quadratic.b[j]))
        for k in range(m):
            with_truth[j + 1, k + 1] = quadratic.Q[j, k]
            largest = max(largest, abs(quadratic.Q[j, k]))
    weights[0] = max(0.0, 1.0 - taken)
    taken += weights[0]
    for j in range(m + 1):
        weights[j] /= taken
    maximize_on_simplex(with_truth, gains, weights, m + 1, 1e-13 * (steepest + largest), quadratic.simplex)
    for j in range(m):
        quadratic.alpha[j] = weights[j + 1]
