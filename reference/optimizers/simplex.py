"""Concave quadratics on the simplex, the subproblems of dual methods: Newton steps on a working set, and pairwise steps
where a Newton step is blocked.
"""

from __future__ import annotations

import numpy as np

__all__ = ["maximize_on_simplex"]

STEPS = 50  # the most steps, for each variable
RIDGE = 1e-13  # times the largest curvature: the Newton step exists also for linearly dependent directions


def maximize_on_simplex(
    Q: np.ndarray, b: np.ndarray, alpha: np.ndarray, tol: float, still: float = np.inf
) -> np.ndarray:
    """argmax_alpha <b, alpha> - <alpha, Q alpha>/2 over alpha >= 0, sum alpha = 1, to a gap of ``tol``.

    Parameters
    ----------
    Q : array (m, m)
        Symmetric, positive semidefinite.
    b : array (m,)
    alpha : array (m,)
        The starting point, in the simplex; no step lowers the objective.
    tol : float >= 0
        Stop when max_j g_j - <alpha, g> <= tol, g = b - Q alpha; this gap bounds the distance to the maximum.
    still : float
        Stop when so many steps have not raised the objective.

    Returns
    -------
    array (m,)

    Notes
    -----
    The working set is the variables with weight and the one of largest g. A Newton step goes towards the best point of
    its affine hull, as far as weights stay >= 0. If it cannot move at all, weight moves between the two variables that
    differ most in g. At most ``STEPS`` m steps, as rounding may keep a small ``tol`` out of reach. A step takes O(m) to
    find the largest g and O(s^3) to solve, with s variables in the working set.
    """
    highest, since = -np.inf, 0
    for _ in range(STEPS * len(b)):
        g = b - Q @ alpha
        value = 0.5 * float(alpha @ (b + g))
        highest, since = (value, 0) if value > highest else (highest, since + 1)
        if np.max(g) - alpha @ g <= tol or since > still:
            break
        direction = _newton(Q, g, alpha)
        if direction is None:
            direction = _pair(Q, g, alpha)
        moved = np.maximum(alpha + direction, 0.0)
        moved /= np.sum(moved)
        if np.array_equal(moved, alpha):
            break
        alpha = moved
    return alpha


def _newton(Q: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> np.ndarray | None:
    """The step to the best point of the working set's affine hull, cut where a weight becomes 0; None if it is 0."""
    free = np.union1d(np.flatnonzero(alpha > 0), np.argmax(g))
    curvature = Q[np.ix_(free, free)]
    top = float(np.max(np.diag(curvature)))
    if not top > 0:
        return None
    one = np.ones((len(free), 1))
    system = np.block([[curvature + RIDGE * top * np.eye(len(free)), top * one], [top * one.T, np.zeros((1, 1))]])
    step = np.linalg.solve(system, np.append(g[free], 0.0))[:-1]
    falling = step < 0
    room = np.min(alpha[free][falling] / -step[falling], initial=1.0)
    if not room > 0:
        return None
    direction = np.zeros_like(alpha)
    direction[free] = room * step
    blocked = free[falling][alpha[free][falling] <= -room * step[falling]]
    direction[blocked] = -alpha[blocked]
    return direction


def _pair(Q: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The best move of weight to the variable of largest g from the one of smallest g among those with weight."""
    i, j = int(np.argmax(g)), int(np.argmin(np.where(alpha > 0, g, np.inf)))
    curvature = Q[i, i] + Q[j, j] - 2.0 * Q[i, j]
    most = alpha[j]
    step = min(most, (g[i] - g[j]) / curvature) if curvature > 0 else most
    direction = np.zeros_like(alpha)
    direction[i], direction[j] = step, -step
    return direction
