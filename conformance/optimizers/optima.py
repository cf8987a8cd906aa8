"""Optima by generic solvers, for small problems."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import reference

__all__ = ["bracket", "lasso", "on_simplex"]


def bracket(objective, lam):
    """A proved lower and upper bound on the least of a hinge + lam/2 ||w||^2, and the weights of the upper one: SciPy's
    SLSQP on the dual over all outputs, of which an example may have 100.
    """
    planes, n, where = objective.corners(objective.zeros(), None, 100), objective.n, objective.nonnegative
    counts = np.asarray(planes.count)
    V, losses = (np.concatenate([x[i, :c] for i, c in enumerate(counts)]) for x in (planes.directions, planes.losses))
    member = np.arange(n)[:, None] == np.repeat(np.arange(n), counts)

    def weights(alpha):
        w = -(alpha @ V) / (lam * n)
        if where is not None:
            w[where] = np.maximum(w[where], 0.0)
        return w

    def dual(alpha, sign=1.0):
        w = weights(alpha)
        return sign * (alpha @ losses / n - 0.5 * lam * w @ w), sign * (losses + V @ w) / n

    found = minimize(
        lambda alpha: dual(alpha, -1.0),
        1.0 / np.repeat(counts, counts),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(V),
        constraints={"type": "eq", "fun": lambda alpha: member @ alpha - 1, "jac": lambda alpha: 1.0 * member},
        options={"ftol": 1e-20, "maxiter": 500},
    )
    alpha = np.maximum(found.x, 0.0)
    alpha /= (member @ alpha) @ member
    w = weights(alpha)
    hinge = reference.StructuralHinge.value_and_gradient(objective, w, None, 0.0)[0]
    return dual(alpha)[0], hinge + 0.5 * lam * w @ w, w


def on_simplex(Q, b, at_most=False):
    """argmax <b, a> - <a, Q a>/2 over a >= 0 of sum 1, or of sum at most 1, by SciPy's SLSQP."""
    m = len(b)
    kind = "ineq" if at_most else "eq"
    a = minimize(
        lambda a: 0.5 * a @ Q @ a - b @ a,
        np.full(m, (0.5 if at_most else 1.0) / m),
        jac=lambda a: Q @ a - b,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * m,
        constraints={"type": kind, "fun": lambda a: 1.0 - np.sum(a), "jac": lambda a: -np.ones(m)},
        options={"ftol": 1e-16, "maxiter": 1000},
    ).x
    a = np.maximum(a, 0.0)
    return a / (max(1.0, a.sum()) if at_most else a.sum())


def lasso(objective, tau, size, sigma=0.0):
    """argmin F + tau ||w||_1 + sigma/2 ||w||^2 by L-BFGS-B, w = u - v with u, v >= 0."""

    def split(x):
        w = x[:size] - x[size:]
        value, g = objective.value_and_gradient(w, None, None)
        g = g + sigma * w
        return value + 0.5 * sigma * w @ w + tau * x.sum(), np.concatenate([g + tau, tau - g])

    options, bounds = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}, [(0, None)] * (2 * size)
    x = minimize(split, np.zeros(2 * size), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return x[:size] - x[size:]
