"""Prox-linear and SGD over nonlinear scores: schedules, tolerances, runs that go on, networks, what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conformance.finite_sums import UNEVEN
from conformance.models.test_nonlinear_models import network, scenes, two_layer
from conformance.sines import exactly, sines
from conformance.tolerances import close
from reference.optimizers.prox_linear import regularised
from reference.training.prox_linear import casimir_svrg
from reference.weighted import Weighted


def sine_hinge(backend, rng, smoothing=None, **options):
    model, data = sines(backend, rng, **options)
    return backend.StructuralHinge(model, data, smoothing=smoothing or backend.smoothings.Entropy())


def seen_by(inner, found):
    """An inner solver that writes down its problems."""

    def solver(problem):
        found.append(problem)
        return inner(problem)

    return solver


@pytest.mark.parametrize("schedule", ["const", "adapt"])
def test_schedules_are_those_of_section_7(backend, rng, schedule):
    """mu_k, L_k, budget and the subproblem's own lam and start; and the step size that follows from L_k."""
    problems, objective, lam, eta, w = [], sine_hinge(backend, rng), 0.1, 0.5, rng.normal(size=3)
    options = {"lam": lam, "eta": eta, "mu": 0.3, "L": 7.0, "schedule": schedule, "iterations": 3, "fixed_eta": True}
    points = [w]
    backend.prox_linear(
        objective,
        w,
        inner=seen_by(exactly, problems),
        budget=4,
        callback=lambda row, x: points.append(x) and None,
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
    problems, gaps = [], []

    def measured(problem):
        found = casimir_svrg(problem)
        best = exactly(problem).fun
        gaps.append((found.fun - best, found.certificate))
        return found

    objective = sine_hinge(backend, rng, n=4)
    result = backend.prox_linear(
        objective,
        rng.normal(size=3),
        lam=0.1,
        eta=0.2,
        tolerance=0.05,
        iterations=3,
        rng=0,
        inner=seen_by(measured, problems),
    )
    assert result.nit == 3 and len(gaps) == 3
    for k, (gap, certificate) in enumerate(gaps, 1):
        assert -1e-7 <= gap <= certificate <= 0.05 / k


def test_a_tolerance_that_is_not_met_is_no_success(backend, rng):
    """Within one pass, or with a smoothing that stays."""
    objective, w = sine_hinge(backend, rng, n=4), rng.normal(size=3)
    for options in ({"budget": 1}, {"mu": 1.0, "schedule": "const", "budget": 30}):
        result = backend.prox_linear(objective, w, lam=0.1, eta=0.2, tolerance=1e-6, iterations=3, rng=0, **options)
        assert not result.success and "3 subproblems left with a gap of more than tolerance / k" in result.message
    assert backend.prox_linear(objective, w, lam=0.1, eta=0.2, tolerance=0.05, iterations=3, rng=0).success


def test_no_step_is_no_success(backend, rng):
    """Steps too long for the inequality that they must keep; an inner solver that returns nan."""
    objective, w = sine_hinge(backend, rng, n=4, amplitude=4.0), rng.normal(size=3)
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
    objective = sine_hinge(backend, rng)
    options = {"lam": 0.3, "eta": 0.2, "inner": exactly, "iterations": 200}
    result = backend.prox_linear(objective, rng.normal(size=3), tol=1e-2, **options)
    assert result.success and result.nit < 200 and result.history[-1].prox_gradient <= 1e-2
    again = backend.prox_linear(objective, result.x, tol=1e-2, **options)
    assert again.nit <= 2
    assert (
        "more than"
        in backend.prox_linear(objective, rng.normal(size=3), tol=1e-9, lam=0.3, inner=exactly, iterations=1).message
    )


def test_an_interrupt_within_a_subproblem_ends_the_run(backend, rng):
    """The inner run hears Ctrl-C first; the best point so far comes back."""
    objective, seen = sine_hinge(backend, rng), []

    def interrupted(problem):
        if len(seen) == 2:
            return casimir_svrg(problem._replace(solved=_ctrl_c))
        seen.append(problem)
        return casimir_svrg(problem)

    result = backend.prox_linear(
        objective, rng.normal(size=3), lam=0.1, eta=0.1, iterations=9, rng=0, inner=interrupted
    )
    assert result.interrupted and len(result.history) == 2 and not result.success
    assert result.fun == min(row.objective for row in result.history)


def _ctrl_c(row, v):
    raise KeyboardInterrupt


def test_two_layers_learn(backend, rng):
    """Planted boxes: prox-linear and each schedule of SGD bring the hinge down and find most of them."""
    shape = (2, 2, 3)
    X, Y = scenes(rng, shape, counts=(4, 3, 5, 4, 3, 4))
    pattern = rng.normal(size=shape)
    for (boxes, features), true in zip(X, Y, strict=True):
        features[np.all(boxes == true, axis=1)] += 2 * pattern
    model = backend.TwoLayerModel(shape, hidden=3)
    data = model.pack(X, Y)
    objective = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(3))
    start = model.initial(data, 1)
    first = regularised(objective, start, 0.01)
    result = backend.prox_linear(objective, start, lam=0.01, iterations=8, mu=0.2, rng=0)
    assert result.fun < 0.5 * first
    assert np.mean(np.array(model.predict(data, None, result.x)) == data.best) > 0.8
    for steps in (backend.steps.Constant(0.1), backend.steps.InverseSqrt(0.3), backend.steps.InverseTime(1.0)):
        found = backend.sgd(
            backend.StructuralHinge(model, data), start, lam=0.01, step_size=steps, average="last", epochs=20, rng=0
        )
        assert found.fun < 0.7 * first and found.certificate.startswith("none")


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
    for objective in (
        backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()),
        backend.LogLoss(model, data),
    ):
        start = model.initial(data)
        result = backend.prox_linear(objective, lam=0.01, eta=5.0, iterations=2, rng=0)
        assert result.x.dtype == np.float32 and result.fun < 0.9 * regularised(objective, start, 0.01)
    model.write(result.x)
    outputs = [int(np.argmax(net(x).detach().numpy())) for x in X]
    assert outputs == [int(y) for y in model.predict(data, None, result.x)]


def test_weights_of_examples_are_heard(backend, rng):
    """An example of weight 2 is one that occurs twice."""
    model, data = sines(backend, rng, n=3)
    twice = type(data)(*(np.concatenate([field, field[:1]]) for field in data))
    once = Weighted(backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()), [2.0, 1.0, 1.0])
    plain = backend.StructuralHinge(model, twice, smoothing=backend.smoothings.Entropy())
    w = rng.normal(size=3)
    results = [backend.prox_linear(each, w, lam=0.1, eta=0.2, inner=exactly, iterations=3) for each in (once, plain)]
    np.testing.assert_allclose(results[0].x, results[1].x, atol=1e-5)


def test_other_optimisers_solve_subproblems(backend, rng):
    """bcfw over the planes of the linearised hinge, SVRG on the smoothed one: as good as the default, each within
    its passes.
    """
    objective = sine_hinge(backend, rng, backend.smoothings.Max())
    smooth, w, fun = sine_hinge(backend, np.random.default_rng(20)), rng.normal(size=3), {}
    assert np.array_equal(smooth.data.maps, objective.data.maps)
    for name, target, inner in (
        ("bcfw", objective, lambda p: backend.bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng)),
        ("svrg", smooth, lambda p: backend.svrg(p.objective, p.start, lam=p.lam, mu=0.05, epochs=p.passes, rng=p.rng)),
        ("exact", objective, exactly),
    ):
        fun[name] = backend.prox_linear(target, w, lam=0.1, eta=0.2, inner=inner, iterations=8, budget=10, rng=0).fun
    assert fun["bcfw"] <= fun["exact"] + 0.02 and fun["svrg"] <= fun["exact"] + 0.05


def test_no_certificate_without_convexity(backend, rng):
    result = backend.lbfgs(backend.LogLoss(*sines(backend, rng)), rng.normal(size=3), lam=0.1)
    assert result.certificate == "none: the objective is not convex" and result.history[-1].gap is None


def test_only_sums_of_this_package_are_linearised(backend):
    with pytest.raises(TypeError, match="expected StructuralHinge or LogLoss"):
        backend.prox_linear(UNEVEN, lam=0.1)
