"""The slack of screening rules: gradients that are wrong by as much as is allowed for mislead none of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from conformance.specimens.rules import rules
from reference.screening.registry import known_of, register

EPS = np.finfo(np.float64).eps
A, B = 4.0, 40.0


def pairs(backend, copies, error):
    """Features (0, 0) and (A, B), features (0, 0) and (0, -B), the true output first, so often: at w = 0 the gradient
    is (A/4, 0), and comes out as (A/4 - error, 0)."""

    class Rounding(backend.ListModel):
        def pullback(self, data, batch, w, g):
            return super().pullback(data, batch, w, g) - error * len(batch) * np.array([1.0, 0.0])

    register(Rounding, known_of(backend.ListModel))  # what is known of the features, which nobody assumes of a subclass
    model = Rounding(lambda x: x, backend.Table, size=2)
    X = copies * [np.array([[0.0, 0.0], [A, B]]), np.array([[0.0, 0.0], [0.0, -B]])]
    return backend.LogLoss(model, model.pack(X, [0] * len(X)))


def allowed(beta, gradient):
    """delta: 4096 eps (beta + |G_j| + range_j / sqrt(n)), the ranges being A/2 for half of the examples and B/2 for
    all."""
    return 4096 * EPS * (beta + np.abs(gradient) + np.array([A / 2 / np.sqrt(2), B / 2]))


@pytest.mark.parametrize(("alpha", "copies"), [(1e-6, 1), (0.01, 1), (0.1, 1), (1e4, 256)])
def test_gradients_that_are_wrong_by_what_is_allowed(backend, alpha, copies):
    """Weight 0 leaves 0 by a hair, but its gradient is taken for beta, so that w = 0 seems to be the optimum. Bounds
    hold the optimum still.

    For small alpha that is about weight 1, whose gradient moves with the other's; for large alpha, about weight 0's
    own.
    """
    error = 0.95 * allowed(A / 4, np.array([A / 4, 0.0]))[0]
    error -= error % 2.0**-42  # so that sums over the copies are exact
    beta = A / 4 - error
    problem = backend.ElasticNetCRF(pairs(backend, copies, error), alpha=alpha, beta=beta)
    state = problem.evaluate(np.zeros(2))
    np.testing.assert_array_equal(state.gradient, [beta, 0.0])

    def residual(u):  # of A/4 (1 - tanh(A u/2)) = beta (1 + alpha u), for w_0 = -u
        return error - beta * alpha * u - A / 4 * np.tanh(A * u / 2)

    u = brentq(residual, 0.0, 1e-6, xtol=1e-30, rtol=1e-14)
    at_best = np.array([beta * (1 + alpha * u), B / 4 * np.tanh(A * u / 2)])
    assert at_best[1] > allowed(beta, np.array([beta, 0.0]))[1] if alpha < 1 else at_best[0] > beta + 0.99 * error
    for rule in rules(backend, True, alpha):
        assert np.all(rule.bounds(state) >= at_best), rule
        assert not rule.screen(state)[0], rule
