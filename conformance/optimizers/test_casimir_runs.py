"""Runs of Casimir: trajectories of the panels, ends, options, namespaces."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import Logistic
from conformance.optimizers.test_casimir import hinge
from reference.bounds import Corollary18


class Hyperbola:
    """mu log(2 cosh((w - 1)/mu)): its smoothing is part of it, so its dual at one mu is no bound at another."""

    n, mu = 1, 1.0

    def zeros(self):
        return np.zeros(1)

    def value_and_gradient(self, w, batch=None, mu=None):
        d = (w - 1) / mu
        return float(mu * np.logaddexp(d, -d)[0]), np.tanh(d)


def test_the_dual_of_another_smoothing_is_no_bound(backend):
    run = backend.casimir(Hyperbola(), lam=0.1, schedule=Corollary18(0.1, 1.0, 1.0), epochs=30, rng=0)
    assert all(row.gap >= -1e-12 for row in run.history)


def test_nothing_to_learn_ends_well(backend):
    """No features and no losses: the gradient is 0 from the start, for as many passes as you like."""
    model = backend.SequenceModel(0, 2, start_stop=False)
    objective = backend.StructuralHinge(
        model, model.pack([np.zeros((0, 0))] * 2, [[], []]), smoothing=backend.smoothings.Entropy()
    )
    run = backend.casimir(objective, lam=0.1, epochs=30, rng=0)
    assert run.success and run.fun == 0 and run.certificate == 0
    with pytest.raises(ValueError, match="schedule: 'theory' has nothing to smooth"):
        backend.casimir(objective, lam=0.1, schedule="theory", accuracy=0.1)
    with pytest.raises(ValueError, match="schedule: 'theory' needs a hinge"):
        backend.casimir(backend.LogLoss(model, objective.data), lam=0.1, schedule="theory", accuracy=0.1)


def test_too_long_steps(backend, rng):
    """Given steps are the user's: where they do harm it is said. Guessed ones are taken back."""
    objective = hinge(backend, rng)
    result = backend.casimir(
        objective, lam=10.0, mu=0.01, kappa=10.0, step_size=1e3, epochs=10, rng=0, warm_start="last"
    )
    assert result.success == (result.fun <= objective.value_and_gradient(objective.zeros(), None, 0.0)[0])
    plain = Logistic(1e6 * rng.normal(size=(20, 3)), np.sign(rng.normal(size=20)))
    assert (
        backend.casimir(plain, np.zeros(3), lam=0.1, epochs=40, rng=0).fun <= plain.value_and_gradient(np.zeros(3))[0]
    )
