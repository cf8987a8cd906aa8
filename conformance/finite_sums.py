"""Finite sums for tests of optimisers: plain ones, and their optimum by a generic solver."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


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
