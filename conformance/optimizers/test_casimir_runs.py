"""Runs of Casimir: trajectories of the panels, ends, options, namespaces."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.finite_sums import Logistic
from conformance.optimizers.test_casimir import hinge
from conformance.tolerances import close
from reference.bounds import Corollary17, Corollary18


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


def test_trajectories_agree(other, rng):
    """Two panels from one random start: entropy to rounding; top-K while no ranks tie."""
    for smoothing, tolerance in (("Entropy", 1e-9), ("TopK", 1e-7)):
        runs = []
        for b in (reference, other):
            made = b.smoothings.TopK(3) if smoothing == "TopK" else b.smoothings.Entropy()
            objective = hinge(b, np.random.default_rng(3), made, words=8)
            w0 = np.random.default_rng(4).normal(size=objective.zeros().shape)
            runs.append(b.casimir(objective, w0, lam=0.1, mu=0.5, kappa=0.1, step_size=0.02, epochs=6, rng=2))
        np.testing.assert_allclose(runs[1].x, runs[0].x, rtol=tolerance, atol=tolerance)
        close(runs[1].certificate, runs[0].certificate)


def test_a_callback_stops_and_a_start_is_kept(backend, rng):
    objective = hinge(backend, rng)
    w0 = rng.normal(size=objective.zeros().shape)
    kept = w0.copy()
    result = backend.casimir(objective, w0, lam=0.1, epochs=9, rng=0, callback=lambda row, w: row.epoch == 2)
    assert (
        np.array_equal(w0, kept) and result.nit == 2 and result.success and "stopped by the callback" in result.message
    )
    same = backend.casimir(objective, w0, lam=0.1, epochs=2, rng=0)
    assert np.array_equal(same.x, result.x)
    none = backend.casimir(objective, w0, lam=0.1, epochs=0)
    assert np.array_equal(none.x, w0) and none.history == ()


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -1.0}, "lam: expected a finite number >= 0"),
        ({"inner": "sgd"}, "inner: expected one of svrg, saga, gradient, or a function, got 'sgd'"),
        ({"stop": "never"}, "stop: expected one of budget, gradient"),
        ({"warm_start": "zero"}, "warm_start: expected one of center, last, extrapolated"),
        ({"epochs": -1}, "epochs: expected an integer >= 0"),
        ({"tol": -1.0}, "tol: expected a number >= 0"),
        ({"lam": 0.0, "tol": 0.1}, "tol: expected a number >= 0, and lam > 0"),
        ({"step_size": 0.0}, "step_size: expected a finite number > 0"),
        ({"step_size": -1.0}, "step_size: expected a finite number > 0"),
        ({"mu": 0.0}, "mu: expected a finite number > 0"),
        ({"epochs": 2.5}, "epochs: expected an integer >= 0, got 2.5"),
        ({"schedule": "theory"}, "accuracy: schedule='theory' needs a finite number > 0"),
        ({"schedule": "theory", "accuracy": 0.1, "mu": 1.0}, "mu: schedule='theory' has its own"),
        ({"accuracy": 0.1}, "accuracy: only schedule='theory' takes one"),
        ({"schedule": "adapt", "accuracy": 0.1}, "accuracy: only schedule='theory' takes one"),
        ({"inner": ["svrg"]}, "inner: expected one of svrg, saga, gradient, or a function"),
        ({"kappa": 0.0}, "kappa: expected a finite number > 0"),
        ({"schedule": Corollary17(0.1, 1.0, 1.0), "kappa": 1.0}, "kappa: the schedule has its own"),
        ({"schedule": "fast"}, "schedule: expected 'const', 'adapt', 'theory' or an object"),
    ],
    ids=str,
)
def test_bad_options_are_named(backend, rng, options, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        backend.casimir(hinge(backend, rng), **{"lam": 0.1, **options})


def test_an_unsmoothed_hinge_is_refused(backend, rng):
    with pytest.raises(ValueError, match="objective: casimir needs a smoothing"):
        backend.casimir(hinge(backend, rng, backend.smoothings.Max()), lam=0.1)


@pytest.mark.parametrize("inner", ["svrg", "saga", "gradient"])
def test_casimir_works_in_every_namespace(backend, space, rng, inner):
    model = backend.SequenceModel(2, 3)
    X = [rng.normal(size=(n, 2)).astype(space.dtype) for n in (2, 3)]
    data = model.pack([space.put(x) for x in X], [[0, 1], [2, 1, 0]], like=space.put([0.0]))
    objective = backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    result = backend.casimir(objective, lam=0.1, mu=0.5, inner=inner, epochs=4, rng=0)
    assert space.get(result.x).dtype == space.dtype
    host = model.pack(X, [[0, 1], [2, 1, 0]])
    again = backend.casimir(
        backend.StructuralHinge(model, host, smoothing=backend.smoothings.Entropy()),
        lam=0.1,
        mu=0.5,
        inner=inner,
        epochs=4,
        rng=0,
        kappa=None,
    )
    np.testing.assert_allclose(
        space.get(result.x),
        again.x,
        rtol=1e-6 if space.dtype == "float64" else 5e-2,
        atol=1e-6 if space.dtype == "float64" else 5e-2,
    )
