"""Prox-linear: Algorithm 5 against exact subproblems, halvings of eta, the bound behind tol, and whole runs."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from conformance.models.test_nonlinear_models import network, two_layer
from conformance.sines import exact_step, exactly, hinge, sines
from conformance.tolerances import close
from reference import Result
from reference.linearized import LinearizedObjective
from reference.optimizers.prox_linear import regularised
from reference.training.prox_linear import casimir_svrg
from reference.weighted import Weighted


def test_a_linearized_objective_is_its_definition(backend, rng):
    """Values, gradients, planes and dual points of F(.; w_k), from scores and Jacobians written out."""
    for smoothing, mu in (("Max", 0.0), ("Entropy", 0.7), ("TopK", 0.7)):
        objective = hinge(backend, rng, smoothing)
        model, data, (w, c, v) = objective.model, objective.data, rng.normal(size=(3, 3))
        convex, batch = LinearizedObjective(objective, w, c), np.arange(6)
        dz = c + v - w
        s = model.scores(data, batch, w).values + model.pushforward(data, batch, w, dz).values
        gold, losses = model.gold(data, batch).values, model.task_loss(data, batch).values
        value, parts = objective.smoothing(backend.Table(s + losses), mu)
        expected = np.mean(value - (gold * s).sum(1))
        back = model.pullback(data, batch, w, type(parts)((parts.values - gold) / 6))
        got, gradient = convex.value_and_gradient(v, None, mu)
        close(got, expected)
        close(gradient, back)
        there = objective.value_and_gradient(w, None, mu)
        for ours, theirs in zip(convex.value_and_gradient(w - c, None, mu), there, strict=True):
            close(ours, theirs)  # where it is linearized it is the objective
        found = convex.linearize(v, None, mu)
        close(found.value, expected)
        close(found.gradient, back)
        for z in rng.normal(size=(10, 3)):  # task_loss + <g, .> lies below F(.; w_k) everywhere
            assert found.task_loss + found.gradient @ z <= convex.value_and_gradient(z, None, 0.0)[0] + 1e-9
        if mu == 0:
            close(found.task_loss + found.gradient @ v, expected)
        planes = convex.corners(v, None, 4)
        heights = planes.losses + planes.directions @ v
        close(heights.max(1).mean(), convex.value_and_gradient(v, None, 0.0)[0])


def test_steps_are_algorithm_5(backend, rng):
    """With exact subproblems, w_k is argmin F_eta(.; w_{k-1}), and prox_gradient its distance over eta."""
    objective = hinge(backend, rng, n=4)
    lam, eta, w = 0.1, 1.0 / objective.model.smoothness(objective.data), rng.normal(size=3)
    seen = []
    options = {"lam": lam, "eta": eta, "inner": exactly, "iterations": 4}
    result = backend.prox_linear(objective, w, callback=lambda row, x: seen.append((row, x)), **options)
    for row, x in seen:
        following, fun = exact_step(objective, w, lam, eta)
        np.testing.assert_allclose(x, following, atol=2e-5)
        close(row.prox_gradient * eta, np.linalg.norm(x - w))
        close(row.objective, regularised(objective, x, lam))
        assert row.objective <= fun + 1e-9
        w = x
    assert result.nit == 4 and result.fun == seen[-1][0].objective and result.iterate == "last"


@pytest.mark.parametrize("kind", ["log loss", "hinge"])
def test_the_box_takes_no_step_on_which_the_objective_grows(backend, rng, kind):
    """Line 4, whatever the inner solver gives: far points, worse ones by a little, nan, and now and then a good one."""
    objective = hinge(backend, rng)
    if kind == "log loss":
        objective = backend.LogLoss(objective.model, objective.data)
    lam, mu = 0.1, None if kind == "log loss" else 0.0

    def bad(problem, k, rng):
        scale = (30.0, 0.01, np.nan, 0.3, 1e200)[k % 5]
        return problem.w - problem.center + scale * rng.normal(size=3), None

    def total(w):
        return objective.value_and_gradient(w, None, mu)[0] + 0.5 * lam * w @ w

    draws, steps = np.random.default_rng(1), {"decrease": 0, "always": 0}
    for accept in steps:
        box = backend.algorithms.ProxLinear(lam, 0.5, bad, accept)
        state = box.init(objective, rng.normal(size=3))
        for _ in range(60):
            with np.errstate(over="ignore", invalid="ignore"):
                before, state = state, box.epoch(objective, state, draws)
            assert np.all(np.isfinite(state.w)) and state.k == before.k + 1
            close(state.fun, total(state.w))
            steps[accept] += state.fun < before.fun
            if accept == "decrease":
                assert total(state.w) <= total(before.w)
                assert np.array_equal(state.w, before.w) or np.array_equal(state.w, state.w_hat)
    assert steps["decrease"] > 3 and state.fun > 10 * box.init(objective, objective.zeros()).fun


def test_the_objective_never_grows_and_ends_stationary(backend, rng):
    objective = hinge(backend, rng, "Entropy")
    w = rng.normal(size=3)
    result = backend.prox_linear(objective, w, lam=0.05, eta=0.3, mu=0.1, iterations=12, rng=0)
    values = [regularised(objective, w, 0.05)] + [row.objective for row in result.history]
    assert all(b <= a for a, b in itertools.pairwise(values))
    z, _ = exact_step(objective, result.x, 0.05, 0.2)
    assert np.linalg.norm(z - result.x) / 0.2 < 0.2 * result.history[0].prox_gradient
    assert result.success and result.oracle_calls == result.history[-1].oracle_calls


def test_eta_is_halved_where_it_must_be(backend, rng):
    """Steep sines: at the eta that is left every step obeys F(w) <= F_eta(w; w_{k-1}), at the given one not."""
    objective = hinge(backend, rng, amplitude=30.0)
    w = rng.normal(size=3)
    L = objective.model.smoothness(objective.data)
    options = {"lam": 0.1, "eta": 10.0, "inner": exactly, "iterations": 20, "rng": 0}
    result = backend.prox_linear(objective, w, **options)
    halved = sum(row.objective == before.objective for before, row in itertools.pairwise(result.history))
    assert halved > 0 and result.nit < 20
    assert f"eta halved {20 - result.nit} times to {10.0 / 2 ** (20 - result.nit):.3g}" in result.message
    assert 10.0 / 2 ** (20 - result.nit) > 0.49 / L  # at 1/L the inequality holds
    assert result.fun < regularised(objective, w, 0.1)
    fixed = backend.prox_linear(objective, w, fixed_eta=True, **options)
    assert fixed.nit == 20 and "halved" not in fixed.message and "refused" in fixed.message


W = np.array([-1.0, 2.0, 4.0, -3.0])
SIDEWAYS = [(share, None) for share in (0.0, 0.4, 0.9, 1.0)] + [(1.0, seed) for seed in range(5)]


@pytest.mark.parametrize(("lam", "eta"), [(0.0, 0.1), (0.5, 0.05), (3.0, 0.02), (1.0, 0.1)])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("share", "seed"), SIDEWAYS)
def test_tol_is_held_against_a_bound_on_the_prox_gradient(backend, lam, eta, known, share, seed):
    """||w - W||/eta + sqrt(2 gap/(lam + 1/eta))/eta: where losses are linear, the way to w and on to the exact step,
    from points on that way, where it is the norm itself, and from points beside it."""
    model = backend.MulticlassModel(2, 2)  # at W and for steps ahead both losses are 1 - <x, w_0 - w_1> > 0
    objective = backend.StructuralHinge(model, model.pack(np.array([[1.0, -2.0], [0.5, -1.0]]), [0, 0]))
    slope = objective.value_and_gradient(W)[1]
    exact = (W / eta - slope) / (lam + 1 / eta)  # argmin <g, w> + lam/2 ||w||^2 + 1/(2 eta) ||w - W||^2
    norm, w = np.linalg.norm(exact - W) / eta, W + share * (exact - W)
    if seed is not None:
        off = np.random.default_rng(seed).normal(size=4)
        w = w + 0.5 * eta * norm * off / np.linalg.norm(off)
    rho, left = np.linalg.norm(w - W) / eta, np.linalg.norm(exact - w)

    def there(problem):
        v = w - (W - problem.start)  # problems are moved, so that they start at W
        value, gradient = objective.value_and_gradient(w)
        fun, gap = value + 0.5 * problem.lam * v @ v, 0.5 * problem.lam * left**2
        assert fun > 0 and np.allclose(gradient, slope)
        return Result(v, fun, 1, True, "", "last", 0, gap if known else "none: not told", ())

    bound = rho + left / eta
    assert bound >= norm * (1 - 1e-12) and (seed is not None or np.isclose(bound, norm))
    options = {"lam": lam, "eta": eta, "inner": there, "iterations": 1, "accept": "always", "fixed_eta": True}
    for tol, reached in ((bound * (1 - 1e-6), False), (bound * (1 + 1e-6), True)):
        found = backend.prox_linear(objective, W, tol=tol, **options)
        assert found.success is reached and found.history[0].prox_gradient == pytest.approx(rho)


@pytest.mark.parametrize("schedule", ["const", "adapt"])
def test_schedules_are_those_of_section_7(backend, rng, schedule):
    """mu_k, L_k, budget and the subproblem's own lam and start; and the step size that follows from L_k."""
    objective, lam, eta, w = hinge(backend, rng, "Entropy"), 0.1, 0.5, rng.normal(size=3)
    options = {"lam": lam, "eta": eta, "mu": 0.3, "L": 7.0, "schedule": schedule, "iterations": 3, "fixed_eta": True}
    problems, points = [], [w]
    backend.prox_linear(
        objective,
        w,
        inner=lambda problem: problems.append(problem) or exactly(problem),
        budget=4,
        callback=lambda row, x: points.append(x),
        **options,
    )
    for k, (problem, before) in enumerate(zip(problems, points, strict=False), 1):
        factor = k if schedule == "adapt" else 1
        close([problem.mu, problem.L, problem.lam, problem.passes], [0.3 / factor, 7.0 * factor, lam + 1 / eta, 4])
        close(problem.start + before / (1 + eta * lam), before)  # it starts at w_{k-1}
        value = problem.objective.value_and_gradient(problem.start, None, 0.0)[0]
        close(value + 0.5 * lam * before @ before, regularised(objective, before, lam))
    by_default = backend.prox_linear(objective, w, rng=0, **options)
    calls = [row.oracle_calls for row in by_default.history]
    assert calls[0] == objective.n + 5 * 2 * objective.n + 2 * objective.n  # none to find a step size
    assert np.all(np.diff(calls) == 12 * objective.n)


def test_tolerances_are_met(backend, rng):
    """The k-th subproblem ends with a gap of at most eps_0/k, and not long before."""
    gaps, objective = [], hinge(backend, rng, "Entropy", n=4)

    def measured(problem):
        found = casimir_svrg(problem)
        gaps.append((found.fun - exactly(problem).fun, found.certificate))
        return found

    options = {"lam": 0.1, "eta": 0.2, "tolerance": 0.05, "iterations": 3, "rng": 0}
    result = backend.prox_linear(objective, rng.normal(size=3), inner=measured, **options)
    assert result.nit == 3 and len(gaps) == 3
    for k, (gap, certificate) in enumerate(gaps, 1):
        assert -1e-7 <= gap <= certificate <= 0.05 / k


def test_a_tolerance_that_is_not_met_is_no_success(backend, rng):
    """Within one pass, or with a smoothing that stays."""
    objective, w = hinge(backend, rng, "Entropy", n=4), rng.normal(size=3)
    for options in ({"budget": 1}, {"mu": 1.0, "schedule": "const", "budget": 30}):
        result = backend.prox_linear(objective, w, lam=0.1, eta=0.2, tolerance=1e-6, iterations=3, rng=0, **options)
        assert not result.success and "3 subproblems left with a gap of more than tolerance / k" in result.message
    assert backend.prox_linear(objective, w, lam=0.1, eta=0.2, tolerance=0.05, iterations=3, rng=0).success


def test_no_step_is_no_success(backend, rng):
    """Steps too long for the inequality that they must keep; an inner solver that returns nan."""
    objective, w = hinge(backend, rng, "Entropy", n=4, amplitude=4.0), rng.normal(size=3)
    result = backend.prox_linear(objective, w, lam=0.1, eta=1e9, inner=exactly, iterations=2)
    assert not result.success and "eta halved 2 times" in result.message and "no step was taken" in result.message

    def lost(problem):
        found = exactly(problem)
        return dataclasses.replace(found, x=np.nan * found.x)

    for options in ({}, {"fixed_eta": True}, {"fixed_eta": True, "accept": "always"}):
        result = backend.prox_linear(objective, w, lam=0.1, eta=0.5, inner=lost, iterations=3, **options)
        assert not result.success and np.array_equal(result.x, w) and "no step was taken" in result.message
    assert backend.prox_linear(objective, w, lam=0.1, iterations=0).success


def test_it_stops_where_it_is_stationary(backend, rng):
    objective = hinge(backend, rng, "Entropy")
    options = {"lam": 0.3, "eta": 0.2, "inner": exactly, "iterations": 200}
    result = backend.prox_linear(objective, rng.normal(size=3), tol=1e-2, **options)
    assert result.success and result.nit < 200 and result.history[-1].prox_gradient <= 1e-2
    again = backend.prox_linear(objective, result.x, tol=1e-2, **options)
    assert again.nit <= 2
    short = backend.prox_linear(objective, rng.normal(size=3), tol=1e-9, **{**options, "iterations": 1})
    assert "more than" in short.message


def test_an_interrupt_within_a_subproblem_ends_the_run(backend, rng):
    """The inner run hears Ctrl-C first; the best point so far comes back."""
    objective, seen = hinge(backend, rng, "Entropy"), []

    def ctrl_c(row, v):
        raise KeyboardInterrupt

    def interrupted(problem):
        seen.append(problem)
        return casimir_svrg(problem._replace(solved=ctrl_c) if len(seen) == 3 else problem)

    options = {"lam": 0.1, "eta": 0.1, "iterations": 9, "rng": 0, "inner": interrupted}
    result = backend.prox_linear(objective, rng.normal(size=3), **options)
    assert result.interrupted and len(result.history) == 2 and not result.success
    assert result.fun == min(row.objective for row in result.history)


def test_weights_of_examples_are_heard(backend, rng):
    """An example of weight 2 is one that occurs twice."""
    plain, w = hinge(backend, rng, "Entropy", n=3), rng.normal(size=3)
    twice = type(plain.data)(*(np.concatenate([field, field[:1]]) for field in plain.data))
    both = Weighted(plain, [2.0, 1.0, 1.0]), backend.StructuralHinge(plain.model, twice, smoothing=plain.smoothing)
    ours, theirs = (backend.prox_linear(each, w, lam=0.1, eta=0.2, inner=exactly, iterations=3).x for each in both)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_other_optimisers_solve_subproblems(backend, rng):
    """bcfw over the planes of the linearised hinge, SVRG on the smoothed one: as good as exact solutions."""
    objective, w, fun = hinge(backend, rng), rng.normal(size=3), {}
    smooth = backend.StructuralHinge(objective.model, objective.data, smoothing=backend.smoothings.Entropy())
    for name, target, inner in (
        ("bcfw", objective, lambda p: backend.bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng)),
        ("svrg", smooth, lambda p: backend.svrg(p.objective, p.start, lam=p.lam, mu=0.05, epochs=p.passes, rng=p.rng)),
        ("exact", objective, exactly),
    ):
        fun[name] = backend.prox_linear(target, w, lam=0.1, eta=0.2, inner=inner, iterations=8, budget=10, rng=0).fun
    assert fun["bcfw"] <= fun["exact"] + 0.02 and fun["svrg"] <= fun["exact"] + 0.05


def test_it_begins_where_the_model_says(backend, rng):
    """At w = 0 a two-layer score has no slope; the model's own start is drawn by the run's seed."""
    model, data = two_layer(backend, rng)
    objective = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2))
    runs = [backend.prox_linear(objective, lam=0.1, iterations=1, rng=seed) for seed in (0, 0, 1)]
    assert np.array_equal(runs[0].x, runs[1].x) and not np.array_equal(runs[0].x, runs[2].x)
    steps = backend.sgd(backend.StructuralHinge(model, data), lam=0.1, step_size=0.1, epochs=0, rng=3)
    assert np.array_equal(steps.x, model.initial(data, 3))
    nothing = backend.prox_linear(objective, lam=0.1, iterations=0, rng=3)
    assert np.array_equal(nothing.x, model.initial(data, 3)) and nothing.nit == 0


def test_networks_are_trained(backend):
    """A module of the user's, in float32: the loss falls, and its trained parameters go back into it."""
    _, net, model, X, Y = network(backend)
    data = model.pack(X, Y)
    objective, start = backend.LogLoss(model, data), model.initial(data)
    result = backend.prox_linear(objective, lam=0.01, eta=5.0, iterations=2, rng=0)
    assert result.x.dtype == np.float32 and result.fun < 0.9 * regularised(objective, start, 0.01)
    model.write(result.x)
    outputs = [int(np.argmax(net(x).detach().numpy())) for x in X]
    assert outputs == [int(y) for y in model.predict(data, None, result.x)]


def test_no_certificate_without_convexity(backend, rng):
    result = backend.lbfgs(backend.LogLoss(*sines(backend, rng)), rng.normal(size=3), lam=0.1)
    assert result.certificate == "none: the objective is not convex" and result.history[-1].gap is None
