"""SVRG: each step is its equation, runs converge linearly to the optimum of a generic solver, bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.finite_sums import Counting, Logistic, optimum, random_logistic, total
from conformance.specimens.learners import WITH_EMPTY, chains, loss_of
from conformance.tolerances import close
from reference.optimizers.subproblem import Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart


@pytest.fixture(params=["log loss", "entropy"])
def problem(backend, request):
    """(objective, mu) over five short sequences, one of them empty."""
    objective = loss_of(backend, request.param, *chains(backend, lengths=WITH_EMPTY))
    return objective, None if request.param == "log loss" else 0.5


@pytest.mark.parametrize("kappa", [0.0, 0.03, 2.0])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_a_pass_is_its_equation(problem, average, kappa):
    """Each step solves 0 = (w' - w)/gamma + v + lam w' + kappa (w' - z); some examples come twice, one not at all."""
    objective, mu = problem
    rng = np.random.default_rng(0)
    s, z, gamma, lam = rng.normal(size=objective.model.size), rng.normal(size=objective.model.size), 0.2, 0.3
    order, w, iterates = np.array([1, 3, 1, 4, 0]), s, []
    for i in order:
        g, g_s = (objective.value_and_gradient(x, [i], mu)[1] for x in (w, s))
        v = g - g_s + objective.value_and_gradient(s, None, mu)[1]
        w = (w / gamma - v + kappa * z) / (1 / gamma + lam + kappa)
        iterates.append(w)
    expected = iterates[-1] if average == "last" else np.mean(iterates, axis=0)
    box = counterpart(SVRG(average=average), objective)
    subproblem = Subproblem(objective, lam, kappa, mu, z if kappa else None)
    start = box.snapshot(objective, s, mu)
    close(box.sweep(subproblem, start, start.x, order, gamma), expected)
    close(box.sweep(subproblem, start, start.x, order[:0], gamma), s)


def test_the_mean_of_variance_reduced_gradients_is_the_full_gradient(problem):
    """Without quadratics a step of length 1 goes from w to w - v_i(w)."""
    objective, mu = problem
    box, subproblem = counterpart(SVRG(), objective), Subproblem(objective, 0.0, 0.0, mu, None)
    start = box.snapshot(objective, np.random.default_rng(1).normal(size=objective.model.size), mu)
    for before in ([], [1], [3, 0, 1]):
        orders = [before, *([*before, i] for i in range(objective.n))]
        w, *after = (box.sweep(subproblem, start, start.x, np.array(order, np.int64), 1.0) for order in orders)
        close(w - np.mean(after, axis=0), objective.value_and_gradient(w, None, mu)[1])
        if not before:
            close(w - np.array(after), [start.gradient] * objective.n)


@pytest.mark.parametrize("kappa", [0.0, 0.5])
def test_the_optimum_is_a_fixed_point(problem, kappa):
    objective, mu = problem
    z = np.random.default_rng(2).normal(size=objective.model.size)
    best = optimum(objective, objective.model.size, 0.1, mu, kappa, z)
    subproblem = Subproblem(objective, 0.1, kappa, mu, z if kappa else None)
    for average in ("last", "uniform"):
        box = counterpart(SVRG(average=average), objective)
        x = box.sweep(subproblem, box.snapshot(objective, best, mu), best, np.arange(objective.n), 0.1)
        np.testing.assert_allclose(x, best, atol=1e-6)


@pytest.mark.parametrize("average", ["last", "uniform"])
def test_linear_convergence_to_the_optimum(backend, problem, average):
    """The gap at least halves every ten passes, down to what the optimum is known to."""
    objective, mu = problem
    lam = 0.5
    best = total(objective, optimum(objective, objective.model.size, lam, mu), lam, mu)
    result = backend.svrg(objective, lam=lam, mu=mu, epochs=80, average=average, rng=0)
    gaps = np.array([row.objective for row in result.history]) - best
    assert gaps.min() >= -1e-9
    assert all(gaps[k + 10] <= 0.5 * gaps[k] + 1e-9 for k in range(len(gaps) - 10))
    assert gaps[-1] <= 1e-6 * gaps[0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_plain_logistic_objective_of_any_scale(backend, rng, scale):
    """Steps are found without a constant, features scaled by ``scale`` and lam by its square: the same problem."""
    logistic = random_logistic(rng)
    scaled = Logistic(scale * logistic.A, -np.ones(logistic.n))
    lam = 0.05 * scale**2
    result = backend.svrg(scaled, np.zeros(4), lam=lam, epochs=300, tol=1e-10, rng=1)
    assert result.success and result.nit < 300
    close(result.fun, total(logistic, optimum(logistic, 4, 0.05), 0.05))


def test_the_certificate_is_the_gradients_norm(backend, problem):
    objective, mu = problem
    result = backend.svrg(objective, lam=0.5, mu=mu, epochs=4, rng=0)
    g = objective.value_and_gradient(result.x, None, mu)[1] + 0.5 * result.x
    close(result.certificate, g @ g)
    close(result.fun, total(objective, result.x, 0.5, mu))
    assert backend.svrg(objective, lam=0.0, mu=mu, epochs=1, rng=0).certificate.startswith("none")


def test_calls_are_counted(backend, problem):
    """Once for the full gradient and once for a step, and trials for the step size: what is asked for."""
    objective, mu = problem
    n = objective.n
    counting = Counting(objective)
    found = backend.svrg(counting, objective.zeros(), lam=0.1, mu=objective.mu or mu, epochs=3, rng=0)
    trials = found.oracle_calls - 6 * n
    assert trials > 0
    # the loop asks again for each example's gradient at the snapshot, and once for the objective at the end
    assert sum(counting.asked) == 4 * n + 3 * 2 * n + trials
