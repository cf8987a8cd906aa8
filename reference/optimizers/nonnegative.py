"""The map from a dual's point x = w(alpha) to weights, for an l1 norm and for weights that must be >= 0: those of the
slice N, if the objective has one (``objective.nonnegative``).

    min_{w, w_N >= 0}  R(w) + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>],   R(w) = l1 ||w||_1 + lam/2 ||w||^2
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - R*(lam x),   x = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

R*(lam x) = max_{w, w_N >= 0} <lam x, w> - R(w) is attained at w = shrunk(x, l1/lam): soft(x, l1/lam), and
max(x - l1/lam, 0) in N. Where w_j != 0, lam x_j w_j - l1 |w_j| = lam w_j^2. Therefore R*(lam x) = lam/2 ||w||^2, and w
is its gradient with respect to lam x. For l1 = 0, w = clip(x): the negative entries of N are set to 0.

Source: Shalev-Shwartz and Zhang (2014), "Accelerated proximal stochastic dual coordinate ascent for regularized loss
minimization": the dual with a strongly convex regulariser, and the elastic net.
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


def best_step(
    x: Array,
    v: Array,
    gain: float,
    gamma_max: float,
    lam_n: float,
    constrained: slice | None,
    threshold: float = 0.0,
    flat: float = 0.0,
) -> float:
    """The gamma in [0, gamma_max] that maximises the dual along w(alpha) = x - gamma/(lam n) v.

    n dual'(gamma) = gain + <shrunk(x - gamma/(lam n) v) - shrunk(x), v>; gain = n dual'(0)

    This slope never increases. It is linear between the kinks: the gamma where a weight becomes 0 or ceases to be 0.
    It is constant while all weights that v moves are 0. A slope up to ``flat``, the rounding of the gain, counts as 0,
    and the least of several maximisers is taken.

    Notes
    -----
    Bisection over the sorted kinks, then the root of a linear function: O(m log m) for m weights with kinks, which are
    all weights if threshold > 0, and else those in ``constrained``. 0 if the squared length of v overflows.
    """
    x, v = host(x).astype(np.float64), host(v).astype(np.float64)
    kinked = slice(0, len(x)) if constrained is None or threshold > 0 else constrained
    inside, along, low = x[kinked], v[kinked], np.full(len(x), -threshold)
    if constrained is not None:
        low[constrained] = -np.inf
    low = low[kinked]  # a weight is 0 for entries in [low, threshold]
    free = float(np.sum(v[: kinked.start] ** 2) + np.sum(v[kinked.stop :] ** 2))
    if not np.isfinite(free + np.sum(along**2)) or not gain > flat:
        return 0.0

    def weights(entries: np.ndarray) -> np.ndarray:
        result: np.ndarray = entries - np.clip(entries, low, threshold)
        return result

    def slope(gamma: float) -> float:
        moved = weights(inside - gamma / lam_n * along) - weights(inside)
        return float(gain - gamma / lam_n * free + moved @ along)

    if slope(gamma_max) >= flat:
        return gamma_max
    moves = along != 0
    kinks = np.concatenate([lam_n * (inside - end)[moves] / along[moves] for end in (low, threshold)])
    kinks = np.concatenate([[0.0], np.sort(kinks[(kinks > 0) & (kinks < gamma_max)]), [gamma_max]])
    first, last = 0, len(kinks) - 1  # slope(kinks[first]) > flat >= slope(kinks[last])
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if slope(kinks[middle]) > flat else (first, middle)
    start, end = float(kinks[first]), float(kinks[last])
    nonzero = weights(inside - 0.5 * (start + end) / lam_n * along) != 0
    length = free + float(np.sum(along[nonzero] ** 2))
    return min(end, start + lam_n * slope(start) / length) if length > 0 else end
