"""Step sizes of SVRG: the smoothness that each component needs, found where it is not known, taken back where the
guess was too small.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import UNEVEN, Parabolas, random_logistic
from conformance.tolerances import close
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking, Guess, component_smoothness, secant

LAM = 1e-3
BEST = float((UNEVEN.curvature * UNEVEN.centre).mean() / (UNEVEN.curvature.mean() + LAM))


def test_the_smoothness_of_the_average_is_not_enough(backend):
    with_average = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (UNEVEN.curvature.mean() + LAM), epochs=60, rng=0)
    assert not with_average.success and "shorter steps" in with_average.message
    over_components = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (50 + LAM), epochs=60, rng=0)
    assert over_components.success
    close(over_components.x, BEST)


def test_a_guess_that_is_too_small_is_taken_back(backend):
    """The rare component is seldom among the examples that L is tried on: passes that go wrong are repeated."""
    result = backend.svrg(UNEVEN, lam=LAM, epochs=100, rng=3)
    objectives = [row.objective for row in result.history]
    assert np.all(np.diff(objectives) <= 1e-12) and "taken back" in result.message
    np.testing.assert_allclose(result.x, BEST, rtol=1e-3)


def test_a_known_smoothness_bounds_the_guess(backend):
    class Known(Parabolas):
        def smoothness(self, mu):
            return 50.0

    known = Known(UNEVEN.curvature, UNEVEN.centre)
    steps, asked = Backtracking(), (np.zeros(1), np.arange(known.n), None, LAM)
    step, guess = steps.propose(known, Guess(), *asked)
    assert step == 1 / (50 + LAM) and not guess.guessed
    assert steps.propose(known, steps.judge(guess._replace(guessed=True), 1.0, 0.0, np.zeros(1))[1], *asked)[0] == 1 / (
        50 + LAM
    )
    close(backend.svrg(known, lam=LAM, epochs=100, rng=0).x, BEST, scale=1e3)


def test_component_smoothness_is_the_least_power_of_two_that_is_enough(rng):
    logistic = random_logistic(rng)
    w, batch = rng.normal(size=4), np.arange(10)
    below, asked = secant(logistic, w, None, batch)
    assert 0 < below <= 0.25 * (logistic.A[batch] ** 2).sum(axis=1).max() and asked == 20

    def enough(L, i):
        value, g = logistic.value_and_gradient(w, [i])
        return logistic.value_and_gradient(w - g / L, [i])[0] <= value - g @ g / (2 * L) + 1e-13

    for start in (1e-3, 0.3, below):
        L, calls = component_smoothness(logistic, w, None, batch, start)
        doublings = np.log2(L / start)
        assert doublings == round(doublings) >= 0 and calls == 20 + doublings
        assert all(enough(L, i) for i in batch)
        assert start == L or not all(enough(L / 2, i) for i in batch)
    L, _ = component_smoothness(logistic, w, None, batch, 1e-12)
    assert 0.5 * (logistic.A[batch] ** 2).sum(axis=1).max() >= L


def test_a_loss_that_rounding_hides_asks_for_no_smoothness(backend):
    """log(1 + exp(-190)) is 0 beside the scores that it is the difference of, its gradient is not."""
    model = backend.MulticlassModel(n_features=1, labels=["a", "b"])
    hinge = backend.StructuralHinge(model, model.pack([[0]], ["a"]), smoothing=backend.smoothings.Entropy())
    w = np.array([20.0, 0.0])
    value, g = hinge.value_and_gradient(w, mu=0.1)
    assert value == 0 < g @ g
    assert counterpart(Backtracking(), hinge).find(hinge, w, 0.1, np.array([0]), 1e-3, np.inf) == (1e-3, 2)


def test_parabolas_have_their_curvature():
    order = np.arange(3)
    parabolas = Parabolas([3.0, 0.5, 0.0], [1.0, 2.0, 0.0])
    close(secant(parabolas, np.zeros(1), None, order)[0], 3.0)
    assert component_smoothness(parabolas, np.zeros(1), None, order, 3.0)[0] == 3.0
    assert component_smoothness(parabolas, np.zeros(1), None, order, 0.75)[0] == 3.0
    assert component_smoothness(parabolas, np.zeros(1), None, order[:0], 0.75) == (0.75, 0)


def test_no_curvature_and_no_regulariser_give_no_step(backend):
    flat = Parabolas([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="step_size: no curvature was found at the start and lam = 0"):
        backend.svrg(flat, lam=0.0)
    result = backend.svrg(flat, [1.0], lam=0.5, epochs=60, rng=0)
    assert result.nit == 60 and abs(result.x[0]) < 1e-5  # the optimum is 0: no gap is small beside it
