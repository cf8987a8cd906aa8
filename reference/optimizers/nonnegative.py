"""Weights that must be >= 0: the slice N of an objective's weights, if it names one (``objective.nonnegative``).

    min_{w, w_N >= 0}  lam/2 ||w||^2 + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>]
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - lam/2 ||clip(w(alpha))||^2,
    w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

clip replaces the entries below 0 of N by 0: the w that attains the inner minimum of the Lagrangian is clip(w(alpha)).
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host
from reference.optimizers.base import Objective, traits

__all__ = ["best_step", "clipped", "constraint"]


def constraint(objective: Objective) -> slice | None:
    """The weights that must be >= 0, as a slice of neighbours; None where all are free."""
    where = traits(objective).nonnegative
    if where is None:
        return None
    first, last, step = where.indices(objective.zeros().shape[0])
    if step != 1:
        raise ValueError(f"nonnegative: expected a slice of neighbouring weights, got {where}")
    return slice(first, max(first, last)) if first < last else None


def clipped(x: Array, where: slice | None) -> Array:
    """x (d,) with 0 for what is below 0 in ``where``: the nearest point whose weights there are >= 0."""
    if where is None:
        return x
    xp = array_namespace(x)
    inside = x[where]
    return xp.concat([x[: where.start], xp.where(inside < 0, xp.zeros_like(inside), inside), x[where.stop :]])


def best_step(x: Array, v: Array, gain: float, most: float, lam_n: float, where: slice) -> float:
    """The gamma in [0, most] of the highest dual along w(alpha) = x - gamma/(lam n) v; ``gain``: its slope at 0, times
    n.

    n dual'(gamma) = gain + <clip(x - gamma/(lam n) v) - clip(x), v>, which falls, linearly between the gamma where an
    entry of ``where`` changes sign

    Notes
    -----
    Bisection over those gamma, in order, then the root of a linear function: O(m log m) for m = len(where). A direction
    too long for its square to be a number is not taken.
    """
    x, v = host(x).astype(np.float64), host(v).astype(np.float64)
    inside, along = x[where], v[where]
    free = float(np.sum(v[: where.start] ** 2) + np.sum(v[where.stop :] ** 2))
    if not np.isfinite(free + np.sum(along**2)) or not gain > 0:
        return 0.0

    def slope(gamma: float) -> float:
        moved = np.maximum(inside - gamma / lam_n * along, 0.0) - np.maximum(inside, 0.0)
        return float(gain - gamma / lam_n * free + moved @ along)

    if slope(most) >= 0:
        return most
    turns = lam_n * inside[along != 0] / along[along != 0]
    turns = np.concatenate([[0.0], np.sort(turns[(turns > 0) & (turns < most)]), [most]])
    low, high = 0, len(turns) - 1  # slope(turns[low]) > 0 > slope(turns[high]), up to rounding
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(turns[middle]) > 0 else (low, middle)
    at, end = float(turns[low]), float(turns[high])
    positive = inside - 0.5 * (at + end) / lam_n * along > 0
    length = free + float(np.sum(along[positive] ** 2))
    return min(end, at + lam_n * slope(at) / length) if length > 0 else end
