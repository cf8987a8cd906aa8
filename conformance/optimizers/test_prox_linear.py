"""Prox-linear: Algorithm 5 against exact subproblems, the inequality behind it, halvings of eta, runs that go on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.optimizers.optima import bracket
from conformance.sines import exact_step, exactly, sines
from conformance.tolerances import close
from reference.linearized import LinearizedObjective
from reference.optimizers.prox_linear import regularised


def hinge(backend, rng, smoothing=None, **options):
    model, data = sines(backend, rng, **options)
    return backend.StructuralHinge(model, data, smoothing=smoothing)


def test_a_linearized_objective_is_its_definition(backend, rng):
    """Values, gradients, planes and dual points of F(.; w_k), from scores and Jacobians written out."""
    for smoothing, mu in ((None, 0.0), (backend.smoothings.Entropy(), 0.7), (backend.smoothings.TopK(2), 0.7)):
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
    result = backend.prox_linear(
        objective,
        w,
        lam=lam,
        eta=eta,
        inner=exactly,
        iterations=4,
        callback=lambda row, x: seen.append((row, x)) and None,
    )
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
    model, data = sines(backend, rng)
    objective = backend.LogLoss(model, data) if kind == "log loss" else backend.StructuralHinge(model, data)
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


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_a_huge_eta_solves_a_linear_model_at_once(backend, rng, lam):
    """Scores that are linear have no error of linearisation: one step, whatever eta is, and eta = 1e6 is the whole
    problem.
    """
    model = backend.MulticlassModel(2, 3)
    data = model.pack(rng.normal(size=(6, 2)), rng.integers(0, 3, 6))
    objective = backend.StructuralHinge(model, data)
    result = backend.prox_linear(objective, lam=lam, eta=1e6, inner=exactly, iterations=1 if lam else 3, rng=0)
    assert result.history[0].prox_gradient < 1e-4 and "halved" not in result.message
    if lam:
        assert 0 <= result.fun - bracket(objective, lam)[0] + 1e-9 <= 1e-6


def test_the_objective_never_grows_and_ends_stationary(backend, rng):
    objective = hinge(backend, rng, backend.smoothings.Entropy())
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
    result = backend.prox_linear(objective, w, lam=0.1, eta=10.0, inner=exactly, iterations=20, rng=0)
    halved = sum(row.objective == before.objective for before, row in itertools.pairwise(result.history))
    assert "eta halved" in result.message and halved > 0 and result.nit < 20
    assert 10.0 / 2 ** (20 - result.nit) > 0.49 / L  # at 1/L the inequality holds
    assert result.fun < regularised(objective, w, 0.1)
    fixed = backend.prox_linear(objective, w, lam=0.1, eta=10.0, inner=exactly, iterations=20, rng=0, fixed_eta=True)
    assert fixed.nit == 20 and "halved" not in fixed.message and "refused" in fixed.message
