"""Weights that must be >= 0: the slice N of an objective's weights, if it has one (``objective.nonnegative``).

    min_{w, w_N >= 0}  lam/2 ||w||^2 + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>]
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - lam/2 ||clip(w(alpha))||^2,
    w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

clip sets the negative entries of N to 0: clip(w(alpha)) attains the inner minimum of the Lagrangian.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host

__all__ = ["best_step", "clipped", "shrunk"]


def clipped(x: Array, constrained: slice | None) -> Array:
    """x (d,) with 0 in place of negative entries in ``constrained``: the projection onto the constraint."""
    if constrained is None:
        return x
    xp = array_namespace(x)
    inside = x[constrained]
    return xp.concat(
        [x[: constrained.start], xp.where(inside < 0, xp.zeros_like(inside), inside), x[constrained.stop :]]
    )


def shrunk(x: Array, threshold: float, constrained: slice | None = None) -> Array:
    """soft(x, threshold) (d,), and max(x - threshold, 0) in ``constrained``.

    argmin_{w, w_N >= 0}  1/2 ||w - x||^2 + threshold ||w||_1
    """
    if threshold == 0:
        return clipped(x, constrained)
    return clipped(x - array_namespace(x).clip(x, -threshold, threshold), constrained)


def best_step(x: Array, v: Array, gain: float, gamma_max: float, lam_n: float, constrained: slice) -> float:
    """The gamma in [0, gamma_max] that maximises the dual along w(alpha) = x - gamma/(lam n) v.

    n dual'(gamma) = gain + <clip(x - gamma/(lam n) v) - clip(x), v>; gain = n dual'(0)

    This slope never increases. It is linear between the kinks: the gamma where an entry of ``constrained`` changes
    sign.

    Notes
    -----
    Bisection over the sorted kinks, then the root of a linear function: O(m log m) for m constrained weights. 0 if the
    squared length of v overflows.
    """
    x, v = host(x).astype(np.float64), host(v).astype(np.float64)
    inside, along = x[constrained], v[constrained]
    free = float(np.sum(v[: constrained.start] ** 2) + np.sum(v[constrained.stop :] ** 2))
    if not np.isfinite(free + np.sum(along**2)) or not gain > 0:
        return 0.0

    def slope(gamma: float) -> float:
        moved = np.maximum(inside - gamma / lam_n * along, 0.0) - np.maximum(inside, 0.0)
        return float(gain - gamma / lam_n * free + moved @ along)

    if slope(gamma_max) >= 0:
        return gamma_max
    kinks = lam_n * inside[along != 0] / along[along != 0]
    kinks = np.concatenate([[0.0], np.sort(kinks[(kinks > 0) & (kinks < gamma_max)]), [gamma_max]])
    low, high = 0, len(kinks) - 1  # slope(kinks[low]) > 0 > slope(kinks[high]), up to rounding
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(kinks[middle]) > 0 else (low, middle)
    start, end = float(kinks[low]), float(kinks[high])
    positive = inside - 0.5 * (start + end) / lam_n * along > 0
    length = free + float(np.sum(along[positive] ** 2))
    return min(end, start + lam_n * slope(start) / length) if length > 0 else end
