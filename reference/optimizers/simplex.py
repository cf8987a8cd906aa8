"""Concave quadratics on the simplex, the small problems inside dual methods: Newton steps on a working set, pairs
where they are blocked.
"""

from __future__ import annotations

import numpy as np

__all__ = ["maximize_on_simplex"]

STEPS = 50  # at most so many for each variable
RIDGE = 1e-13  # of the largest curvature: a working set of dependent directions has a Newton step too


def maximize_on_simplex(Q: np.ndarray, b: np.ndarray, alpha: np.ndarray, tol: float) -> np.ndarray:
    """argmax_alpha <b, alpha> - <alpha, Q alpha>/2 over alpha >= 0, sum alpha = 1, to a gap of ``tol``.

    Parameters
    ----------
    Q : array (m, m)
        Symmetric, positive semidefinite.
    b : array (m,)
    alpha : array (m,)
        A point of the simplex to start from; no step goes below its value.
    tol : float >= 0
        Stop where max_j g_j - <alpha, g> <= tol, g = b - Q alpha: no point of the simplex is more than that above.

    Returns
    -------
    array (m,)

    Notes
    -----
    A step goes to the best point of the affine hull of the variables with weight and the one of largest g, or as far as
    weights stay >= 0; where that is nowhere, weight moves between the two variables that differ most in g. After at
    most ``STEPS`` m of them (rounding may hide a small ``tol``) the point reached is returned. O(m) and O(s^3) a step,
    s the variables with weight.
    """
    for _ in range(STEPS * len(b)):
        g = b - Q @ alpha
        if np.max(g) - alpha @ g <= tol:
            break
        towards = _newton(Q, g, alpha)
        if towards is None:
            towards = _pair(Q, g, alpha)
        moved = np.maximum(alpha + towards, 0.0)
        moved /= np.sum(moved)
        if np.array_equal(moved, alpha):
            break
        alpha = moved
    return alpha


def _newton(Q: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> np.ndarray | None:
    """The step to the best point of the working set's affine hull, cut where a weight becomes 0; None if that is at
    once.
    """
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
    towards = np.zeros_like(alpha)
    towards[free] = room * step
    blocked = free[falling][alpha[free][falling] <= -room * step[falling]]
    towards[blocked] = -alpha[blocked]
    return towards


def _pair(Q: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The best move of weight from the variable of smallest g that has some to the one of largest g."""
    i, j = int(np.argmax(g)), int(np.argmin(np.where(alpha > 0, g, np.inf)))
    curvature = Q[i, i] + Q[j, j] - 2.0 * Q[i, j]
    most = alpha[j]
    step = min(most, (g[i] - g[j]) / curvature) if curvature > 0 else most
    towards = np.zeros_like(alpha)
    towards[i], towards[j] = step, -step
    return towards
