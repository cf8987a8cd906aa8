"""Casimir-SVRG by name: the schedules of sections 7.2 and 7.3.1, with kappa and mu as the paper has them, and what
they reach.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import Parabolas, random_logistic
from conformance.optimizers.optima import bracket
from conformance.optimizers.test_casimir import hinge
from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.training import casimir_schedules as module


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_presets_are_their_schedules(backend, rng, lam):
    """With kappa, mu and the step size given, the runs of the corollaries' own objects; defaults are mu = 1 or 2,
    and kappa = lam for adapt.
    """
    objective = hinge(backend, rng)
    options = {"lam": lam, "step_size": 0.05, "epochs": 5, "rng": 0}
    for preset, mu, choice in (
        (backend.casimir_svrg_const, None, Corollary17(lam, 0.3, 1.0) if lam else Corollary19(0.3, 1.0)),
        (backend.casimir_svrg_const, 0.4, Corollary17(lam, 0.3, 0.4) if lam else Corollary19(0.3, 0.4)),
        (backend.casimir_svrg_adapt, None, Corollary18(lam, 0.3, 2.0) if lam else Corollary20(0.3, 2.0)),
        (backend.casimir_svrg_adapt, 0.7, Corollary18(lam, 0.3, 0.7) if lam else Corollary20(0.3, 0.7)),
    ):
        run = preset(objective, mu=mu, kappa=0.3, **options)
        same = backend.casimir(objective, schedule=choice, **options)
        assert np.array_equal(run.x, same.x) and run.oracle_calls == same.oracle_calls
    if lam:
        run = backend.casimir_svrg_adapt(objective, **options)
        assert np.array_equal(run.x, backend.casimir(objective, schedule=Corollary18(lam, lam, 2.0), **options).x)


def test_kappa_is_that_of_propositions_29_and_31(rng):
    """Four parabolas of curvature 8: backtracking finds L = 8."""
    parabolas, start = Parabolas([8.0] * 4, [1.0, -1.0, 0.5, 2.0]), np.zeros(1)
    for lam, kappa in ((0.1, 8 / 4 - 0.1), (0.4, 8 / 4 - 0.4), (0.6, 0.6), (0.0, 8 / 5)):
        choice, calls = module.Plans(lam).constant(parabolas, start, 0.5, np.random.default_rng(0))
        np.testing.assert_allclose(choice.kappa_k(7), kappa, rtol=1e-9)
        assert choice.mu_k(3) == 0.5 and calls > 0
    choice, calls = module.Plans(0.0).adaptive(parabolas, start, 0.5, np.random.default_rng(0))
    np.testing.assert_allclose(choice.kappa_k(1), 8 / 5, rtol=1e-9)
    assert choice.kappa_k(3) == 3 * choice.kappa_k(1) and choice.mu_k(2) == 0.25 and calls > 0


def test_smoothing_that_falls_stops_before_it_is_nothing():
    falling = module.Falling(0.1, 0.1, 2.0)
    mu = [falling.mu_k(k) for k in (1, 2, 50, 10**4, 10**9)]
    assert mu == sorted(mu, reverse=True) and mu[-1] == mu[-2] == 1e-10
    eta = 1 - np.sqrt(0.5) / 2
    np.testing.assert_allclose(mu[:3], 2.0 * eta ** np.array([0.5, 1.0, 25.0]), rtol=1e-12)
    assert module.Falling(0.1, 0.1, 1e-12).mu_k(1) <= 1e-12  # never above what was asked for


@pytest.mark.parametrize("warm_start", ["center", "last", "extrapolated"])
def test_presets_close_the_gap_that_their_smoothing_leaves(backend, rng, warm_start):
    """Constant smoothing to within mu D of the optimum, falling smoothing further; no step size and no constant
    given.
    """
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    model = backend.MulticlassModel(2, 3)
    objective, lam = backend.StructuralHinge(model, model.pack(X, Y), smoothing=backend.smoothings.Entropy()), 0.2
    best, D = bracket(objective, lam)[0], objective.width()
    options = {"lam": lam, "epochs": 40, "rng": 0, "warm_start": warm_start}
    for mu in (1.0, 0.1):
        constant = backend.casimir_svrg_const(objective, mu=mu, **options)
        assert constant.fun - best <= mu * D + 0.02 * best
    for mu in (None, 20.0):
        falling = backend.casimir_svrg_adapt(objective, mu=mu, **options)
        assert -1e-8 <= falling.fun - best <= falling.certificate + 1e-8
        assert falling.fun - best <= 0.05 * best, mu


def test_what_cannot_be_smoothed_is_refused(backend, rng):
    objective = hinge(backend, rng)
    with pytest.raises(ValueError, match="mu: the log loss is defined at mu = 1"):
        backend.casimir_svrg_adapt(backend.LogLoss(objective.model, objective.data), lam=0.1)
    with pytest.raises(ValueError, match="schedule: 'adapt' needs something to smooth"):
        backend.casimir_svrg_adapt(random_logistic(rng), np.zeros(4), lam=0.1)
    assert backend.casimir_svrg_const(random_logistic(rng), np.zeros(4), lam=0.1, tol=1e-4, epochs=100).success
    with pytest.raises(ValueError, match="objective: casimir needs a smoothing"):
        backend.casimir_svrg_const(hinge(backend, rng, backend.smoothings.Max()), lam=0.1)
