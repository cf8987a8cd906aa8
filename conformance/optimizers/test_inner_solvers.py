"""Casimir's inner solvers: SAGA is its equation, every way to run reaches the optimum, and so does a solver of
anyone's.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.finite_sums import UNEVEN, optimum, random_logistic, total
from conformance.specimens.learners import WITH_EMPTY, chains, loss_of
from reference.bounds import inner_iterations
from reference.optimizers import saga
from reference.optimizers.subproblem import Subproblem
from reference.training.counterparts import counterpart
from reference.training.smoothness import INNER, searched


@pytest.fixture(params=["log loss", "entropy", "top-k"])
def problem(backend, request):
    """(objective, mu) over five short sequences, one of them empty."""
    objective = loss_of(backend, request.param, *chains(backend, lengths=WITH_EMPTY))
    return objective, None if request.param == "log loss" else 0.5


def passing(objective, lam, kappa, mu, center, step_size):
    """A pass of SAGA by the backend's own kernels: from a point to where it ends, and the table then."""
    box = counterpart(saga.SAGA(), objective)
    subproblem = Subproblem(objective, lam, kappa, mu, center if kappa else None)

    def run(start, order, table=None):
        x, calls, table = box.one_pass(subproblem, box.snapshot(objective, start, mu), order, step_size, table)
        assert calls == len(order)
        return x, table

    return run


def textbook(objective, w, orders, gamma, lam, kappa, z, mu):
    """SAGA with the proximal step, a table (n, d) and its mean computed afresh: w after each pass."""
    g = np.array([objective.value_and_gradient(w, [i], mu)[1] for i in range(objective.n)])
    for order in orders:
        for i in order:
            new = objective.value_and_gradient(w, [i], mu)[1]
            v = new - g[i] + g.mean(axis=0)
            w = (w / gamma - v + kappa * z) / (
                1 / gamma + lam + kappa
            )  # 0 = (w' - w)/gamma + v + lam w' + kappa (w' - z)
            g[i] = new
        yield w


@pytest.mark.parametrize("kappa", [0.0, 0.03, 2.0])
def test_saga_is_its_equation(problem, kappa):
    """Three passes with one table; some examples come twice in a pass, one not at all."""
    objective, mu = problem
    rng = np.random.default_rng(0)
    s, z = rng.normal(size=(2, objective.model.size))
    orders = [np.array([1, 3, 1, 4, 0]), np.array([4, 2, 2, 1]), np.array([0, 1, 2, 3, 4])]
    run, w, table = passing(objective, 0.3, kappa, mu, z, 0.2), s, None
    for order, expected in zip(orders, textbook(objective, s, orders, 0.2, 0.3, kappa, z, mu), strict=True):
        w, table = run(w, order, table)
        np.testing.assert_allclose(w, expected, rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(run(w, orders[0][:0], table)[0], w)


@pytest.mark.beyond("long runs")
def test_a_pass_leaves_the_table_it_was_given(problem):
    """A pass may be taken back: the same table again gives the same pass."""
    objective, mu = problem
    box, subproblem = counterpart(saga.SAGA(), objective), Subproblem(objective, 0.1, 0.0, mu, None)
    start = box.snapshot(objective, np.random.default_rng(1).normal(size=objective.model.size), mu)
    order = np.arange(objective.n)
    w, _, table = box.one_pass(subproblem, start, order, 0.3, None)
    later = box.snapshot(objective, w, mu)
    first, again = (box.one_pass(subproblem, later, order[::-1], 0.3, table)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(box.one_pass(subproblem, start, order, 0.3, None)[0], w)


@pytest.mark.parametrize("problem", ["log loss", "entropy"], indirect=True)  # TopK need not have a stationary point
def test_the_optimum_is_a_fixed_point(problem):
    objective, mu = problem
    z = np.random.default_rng(2).normal(size=objective.model.size)
    best = optimum(objective, objective.model.size, 0.1, mu, 0.5, z)
    x, _ = passing(objective, 0.1, 0.5, mu, z, 0.1)(best, np.arange(objective.n))
    np.testing.assert_allclose(x, best, atol=1e-6)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("stop", ["budget", "gradient"])
@pytest.mark.parametrize("warm_start", ["center", "last", "extrapolated"])
def test_every_way_to_run_reaches_the_optimum(backend, rng, inner, stop, warm_start):
    """A smooth sum to a gap of 1e-6; the hinge behind its smoothings to a fifth of its start."""
    options = {"inner": inner, "stop": stop, "warm_start": warm_start, "lam": 0.2, "rng": 0}
    logistic = random_logistic(rng)
    run = backend.casimir(logistic, np.zeros(4), epochs=300, tol=1e-6, **options)
    best = total(logistic, optimum(logistic, 4, 0.2), 0.2)
    assert run.success and run.certificate <= 1e-6 * run.fun and -1e-9 <= run.fun - best <= run.certificate + 1e-9
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    model = backend.MulticlassModel(2, 3)
    hinge = backend.StructuralHinge(model, model.pack(X, Y), smoothing=backend.smoothings.Entropy())
    run = backend.casimir(hinge, epochs=100, tol=0.2, **options)
    assert run.success and run.certificate <= 0.2 * run.fun


@pytest.mark.parametrize("inner", ["svrg", "saga"])
@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_passes_are_as_few_as_proposition_27_says(rng, inner, lam):
    """tau and C of passes measured on some runs (the mean gap after t passes is at most C (1 - tau)^t gap_0), their
    number until (26) on others.
    """
    logistic, kappa, delta, z = random_logistic(rng), 0.3, 0.2, 3 * rng.normal(size=4)
    subproblem, box = Subproblem(logistic, lam, kappa, None, z), INNER[inner]
    L = 0.25 * float(np.max(np.sum(logistic.A**2, axis=1))) + lam  # of each component
    best = optimum(logistic, 4, lam, None, kappa, z)
    least = subproblem.value(best, logistic.value_and_gradient(best)[0])

    def gaps(seed, passes):
        draw, at, memory, found = np.random.default_rng(seed), box.snapshot(logistic, z, None), None, []
        for _ in range(passes + 1):
            found.append((subproblem.value(at.x, at.value) - least, float(np.sum((at.x - z) ** 2))))
            x, _, memory = box.one_pass(subproblem, at, draw.permutation(logistic.n), 1 / (L + kappa), memory)
            at = box.snapshot(logistic, x, None)
        return np.array(found)

    mean = np.mean([gaps(seed, 8)[:, 0] for seed in range(10)], axis=0)
    t = np.flatnonzero(mean[1:] > 1e-9 * mean[0]) + 1  # beyond, the minimum is not known
    tau = 1 - max((mean[t] / mean[0]) ** (1 / t))
    assert 0 < tau < 1, "no linear convergence"
    taken = []
    for seed in range(10, 30):
        gap, moved = gaps(seed, 8).T
        taken.append(
            int(np.argmax(gap <= 0.5 * delta * kappa * moved))
        )  # (26) never holds at z, where nothing has moved
    assert min(taken) >= 1
    assert np.mean(taken) <= inner_iterations(tau, 1.0, L=L, kappa=kappa, delta=delta)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("stop", ["budget", "gradient"])
def test_components_of_uneven_curvature(backend, inner, stop):
    """The step is that of the most curved component: nothing diverges."""
    run = backend.casimir(UNEVEN, inner=inner, stop=stop, lam=0.05, epochs=300, tol=1e-4, rng=0)
    assert run.success and run.fun - total(UNEVEN, optimum(UNEVEN, 1, 0.05), 0.05) <= run.certificate + 1e-12


def heavy_ball(problem, at, order, step_size, memory):
    """A solver of a user's: gradient steps with momentum; memory is the point before."""
    before = at.x if memory is None else memory
    return at.x - step_size * problem.gradient(at) + 0.5 * (at.x - before), 0, at.x


@pytest.mark.parametrize("stop", ["budget", "gradient"])
def test_a_solver_of_a_user(backend, rng, stop):
    logistic, calls = random_logistic(rng), []

    def counted(problem, at, order, step_size, memory):
        value, gradient = logistic.value_and_gradient(at.x)  # at is the point with F and its gradient there
        np.testing.assert_allclose([at.value, *at.gradient], [value, *gradient], rtol=1e-12)
        assert sorted(order) == list(range(logistic.n)) and step_size > 0 and problem.lam == 0.1
        calls.append(memory)
        x, _, memory = heavy_ball(problem, at, order, step_size, memory)
        return x, 7, memory

    run = backend.casimir(logistic, np.zeros(4), lam=0.1, inner=counted, stop=stop, epochs=200, tol=1e-8, rng=0)
    assert run.success and run.fun - total(logistic, optimum(logistic, 4, 0.1), 0.1) <= run.certificate + 1e-12
    fixed = backend.casimir(
        logistic, np.zeros(4), lam=0.1, kappa=0.1, step_size=0.1, inner=counted, epochs=3, stop="budget", rng=0
    )
    assert fixed.oracle_calls == 3 * (logistic.n + 7)
    firsts = sum(memory is None for memory in calls)
    assert firsts < len(calls) if stop == "gradient" else firsts == len(calls)


def test_a_pass_that_is_taken_back_leaves_no_memory(rng):
    """The memory that a pass is handed is that of the last pass that was kept."""
    logistic, seen = random_logistic(rng), []

    def worse_first(problem, at, order, step_size, memory):
        seen.append(memory)
        bad = len(seen) == 2
        return (at.x + 10.0 if bad else at.x - step_size * problem.gradient(at)), 0, f"after {len(seen)}"

    subproblem = Subproblem(logistic, 0.1, 0.1, None, np.zeros(4))
    searched(worse_first, None, 4).minimize(subproblem, np.zeros(4), 0.0, None, np.random.default_rng(0))
    assert seen == [None, "after 1", "after 1", "after 3"]


def test_a_table_beyond_the_memory_is_refused(monkeypatch, rng):
    """30 examples of 4 weights are 120 numbers."""
    logistic = random_logistic(rng)
    monkeypatch.setattr(saga, "MOST", 119)
    with pytest.raises(ValueError, match="inner: 'saga' keeps a gradient of each example, 30 of 4 numbers"):
        reference.casimir(logistic, np.zeros(4), lam=0.1, inner="saga", rng=0)
    monkeypatch.setattr(saga, "MOST", 120)
    assert reference.casimir(logistic, np.zeros(4), lam=0.1, inner="saga", rng=0).success
