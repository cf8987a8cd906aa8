"""Finite sums for tests of optimisers: plain ones, and optima of sums by generic solvers."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import reference


class Quadratic:
    """mean_i curvature_i / 2 ||w - c_i||^2: a plain finite sum, with nothing of ours in it."""

    def __init__(self, centres, curvature=1.0):
        self.centres, self.n = np.asarray(centres, dtype=np.float64), len(centres)
        self.curvature = np.broadcast_to(np.asarray(curvature, dtype=np.float64), self.n)

    def zeros(self):
        return np.zeros(self.centres.shape[1])

    def value_and_gradient(self, w, batch=None, mu=None):
        i = np.arange(self.n) if batch is None else batch
        difference, curvature = w - self.centres[i], self.curvature[i]
        value = 0.5 * float((curvature * (difference**2).sum(axis=1)).mean())
        return value, (curvature[:, None] * difference).mean(axis=0)


class Parabolas(Quadratic):
    """The same in one dimension."""

    def __init__(self, curvature, centre):
        self.centre = np.asarray(centre, dtype=np.float64)
        super().__init__(self.centre[:, None], curvature)


class Logistic:
    """mean_i log(1 + exp(-y_i <x_i, w>)): a plain finite sum, with nothing of ours in it; no zeros(), no
    smoothness().
    """

    def __init__(self, X, y):
        self.A, self.n = -np.asarray(y)[:, None] * np.asarray(X), len(y)

    def value_and_gradient(self, w, batch=None, mu=None):
        A = self.A if batch is None else self.A[batch]
        z = A @ w
        return float(np.logaddexp(0.0, z).mean()), A.T @ (0.5 * (1 + np.tanh(0.5 * z))) / len(A)


def random_logistic(rng):
    """Thirty examples of four features."""
    return Logistic(rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], 30))


class One:
    """A sum of ``n`` times the same function of the weights, which gives its value and gradient."""

    def __init__(self, function, n=1):
        self.function, self.n = function, n

    def value_and_gradient(self, w, batch=None, mu=None):
        return self.function(w)


class Counting:
    """A finite sum that notes of how many examples it is asked for a gradient, call by call."""

    def __init__(self, objective):
        self.objective, self.n, self.asked = objective, objective.n, []

    def value_and_gradient(self, w, batch=None, mu=None):
        self.asked.append(self.n if batch is None else len(batch))
        return self.objective.value_and_gradient(w, batch, mu)


# One component of curvature 50, fifty of 0.01: the average's smoothness is 1.
UNEVEN = Parabolas([50.0] + [0.01] * 50, [1.0] + [-1.0] * 50)


def optimum(objective, size, lam, mu=None, kappa=0.0, center=0.0, where=None):
    """argmin F + lam/2 ||w||^2 + kappa/2 ||w - center||^2 by a generic solver; with ``where``, w[where] >= 0."""

    def whole(w):
        value, g = objective.value_and_gradient(w, None, mu)
        off = w - center
        return value + 0.5 * lam * w @ w + 0.5 * kappa * off @ off, g + lam * w + kappa * off

    if where is None:
        return minimize(whole, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    bounds = [(0.0, None) if i in range(size)[where] else (None, None) for i in range(size)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    return minimize(whole, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


def total(objective, w, lam, mu=None):
    """F + lam/2 ||w||^2."""
    return objective.value_and_gradient(w, None, mu)[0] + 0.5 * lam * w @ w


def bracket(objective, lam, l1=0.0):
    """A proved lower and upper bound on the least of a hinge + l1 ||w||_1 + lam/2 ||w||^2, and the weights of the upper
    one: SciPy's SLSQP on the dual over all outputs, of which an example may have 100.
    """
    planes, n, where = objective.corners(objective.zeros(), None, 100), objective.n, objective.nonnegative
    counts = np.asarray(planes.count)
    V, losses = (np.concatenate([x[i, :c] for i, c in enumerate(counts)]) for x in (planes.directions, planes.losses))
    member = np.arange(n)[:, None] == np.repeat(np.arange(n), counts)

    def weights(alpha):
        w = -(alpha @ V) / (lam * n)
        w = np.sign(w) * np.maximum(np.abs(w) - l1 / lam, 0.0)
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
    return dual(alpha)[0], hinge + 0.5 * lam * w @ w + l1 * np.sum(np.abs(w)), w


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
