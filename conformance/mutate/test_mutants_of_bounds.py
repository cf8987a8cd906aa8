"""More laws at the edges that single changes of the readable panel cross: constants of bounds and of inner solvers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import reference
from conformance.finite_sums import Logistic
from conformance.specimens.rules import random_classes
from conformance.tolerances import close
from reference.screening.problem import _divergence
from reference.screening.ranges import column_norms
from reference.screening.scored import Whole
from reference.training import prox_linear
from reference.training.arguments import CheckedSchedule


class WithoutMu(Logistic):
    """A finite sum without smoothing, which takes no mu."""

    def value_and_gradient(self, w, batch=None, mu=None):
        assert mu is None
        return super().value_and_gradient(w, batch, mu)


@pytest.mark.parametrize("schedule", [None, "const"])
def test_an_objective_without_smoothing_is_given_no_mu(backend, rng, schedule):
    loss = WithoutMu(rng.normal(size=(12, 3)), np.sign(rng.normal(size=12)))
    result = backend.casimir(loss, np.zeros(3), lam=0.1, schedule=schedule, epochs=3, rng=0)
    assert result.fun < result.history[0].objective


def test_kappa_is_that_of_proposition_29(monkeypatch):
    """Of subproblems and of the corollary: L/n - lam if L/n > 4 lam, else lam; at equality lam."""
    seen = []
    monkeypatch.setattr(prox_linear, "casimir", lambda *_, **options: seen.append(options))
    for L, lam in ((8.0, 0.25), (4.0, 0.25), (1.0, 0.25), (40.0, 2.0)):
        problem = SimpleNamespace(
            objective=SimpleNamespace(n=4), start=None, lam=lam, mu=None, L=L, passes=1, solved=None, rng=None
        )
        prox_linear.casimir_svrg(problem)
        kappa = L / 4 - lam if 4 * lam < L / 4 else lam
        assert seen[-1]["kappa"] == kappa and seen[-1]["step_size"] == 1 / (L + lam + kappa)
        assert reference.bounds.Corollary17.for_svrg(10.0, lam=lam, A=L, D=1.0, n=4).kappa == kappa


def test_the_bound_of_prox_linear_steps_is_tight_on_a_parabola():
    """One exact step of 1/L on L w^2/2 goes to 0 from anywhere: rho = L w, and F(w) - F* = L w^2/2."""
    for L, w in ((1.0, 3.0), (4.0, -0.5)):
        close(reference.bounds.stationarity(1 / L, 0.5 * L * w * w, [0.0]), (L * w) ** 2)


def test_scores_that_are_not_kept_are_extrapolated(backend, rng):
    """The loss and gradient at Z + c (Z - before), where Z are the weights."""
    hinge, _ = random_classes(backend, rng)
    loss = backend.LogLoss(hinge.model, hinge.data)
    Z, before = rng.normal(size=(2, hinge.model.size))
    for c in (0.0, 0.5, 1.0):
        value, gradient = loss.value_and_gradient(Z + c * (Z - before))
        answer = Whole(loss).loss_and_gradient(Z, before, c)
        close(answer.loss, float(value))
        close(answer.gradient, np.asarray(gradient))


def test_norms_of_columns_whose_squares_overflow():
    close(column_norms(np.array([0, 0, 1, 1]), np.array([1.0, 1e200, 3.0, -4.0]), 2), [1e200, 5.0])
    close(column_norms(np.array([0, 1]), np.array([1e-200, 2.0]), 2), [1e-200, 2.0])


def test_no_divergence_moves_all_weight_onto_a_distribution_itself():
    """KL(theta || theta) = 0, also where the true output has probability 0."""
    assert _divergence(np.array([800.0, 1e300, 0.0]), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_a_pass_of_the_online_proximal_box_is_a_step_an_example(rng):
    loss = Logistic(rng.normal(size=(7, 3)), np.sign(rng.normal(size=7)))
    box = reference.algorithms.OnlineProximal(reference.L1(0.1), reference.steps.Constant(0.1))
    assert box.epoch(loss, box.init(loss, np.zeros(3)), rng).t == 7


def test_cutting_planes_without_a_tolerance_solve_their_models_exactly(backend, rng):
    """The gap goes to 0: an inexact model would leave a share of it."""
    loss, _ = random_classes(backend, rng)
    hinge = backend.StructuralHinge(loss.model, loss.data)
    result = backend.cutting_planes(hinge, lam=0.1, epochs=60, tol=None)
    assert result.certificate <= 1e-6 * result.fun


def test_the_work_of_svrg_depends_on_ratios(rng):
    """A / mu, lam and kappa in another unit: the same number of iterations."""
    cost = reference.bounds.svrg_cost(0.3, lam=0.1, A=2.0, mu=0.5, n=10)
    close(reference.bounds.svrg_cost(3.0, lam=1.0, A=20.0, mu=0.5, n=10), cost)
    close(cost, 2.0 * (10 + 2.0 / 0.5 / 0.4))  # q = 1/4


def test_a_wrong_value_is_seen_beside_forbidden_parts(backend):
    """The allowed error is a share of the finite scores, though others are -inf."""
    scores = np.array([[1.0, -np.inf], [0.5, 2.0]])
    for value in (3.0, 3.1):
        model = backend.AlignmentModel(1, oracle=lambda scores, value=value: (value, np.array([0, 1])))
        structure = model.structure_type(scores)
        if value == 3.0:
            assert float(structure.best()[0]) == 3.0
        else:
            with pytest.raises(ValueError, match="value: expected the score of the output, 3, got 3.1"):
                structure.best()


def test_schedules_of_proxes_have_no_zero():
    steps = CheckedSchedule(lambda t, lam: np.zeros(t.shape))
    assert steps(np.arange(1, 3), 0.1).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="step_size: expected 2 finite steps > 0"):
        CheckedSchedule(steps.schedule, positive=True)(np.arange(1, 3), 0.1)


@pytest.mark.parametrize(("k", "outputs", "mixed"), [(5, 3, 3), (2, 100, 2), (4, 4, 4), (3, 1, 1)])
def test_the_width_of_a_top_k_smoothing_is_that_of_as_many_outputs_as_it_mixes(backend, k, outputs, mixed):
    """max over the simplex of m outputs of (1 - ||u||^2)/2 is at u = 1/m."""
    close(float(backend.smoothings.TopK(k).width(outputs)), 0.5 * (1 - 1 / mixed))


def test_the_max_exceeds_itself_by_nothing(backend):
    assert backend.smoothings.Max().width(1) == backend.smoothings.Max().width(100) == 0.0
