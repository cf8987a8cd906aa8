"""One-slack cutting planes against a generic solver's planes, against enumeration, against block-coordinate
Frank-Wolfe.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.listed_svm import hinge, labelling, listed, listed_problem
from conformance.models.test_models import sequence_model
from conformance.optimizers.test_bcfw import bracket
from conformance.optimizers.test_multisample import objectives
from conformance.tolerances import close
from reference.optimizers.cutting_planes import CuttingPlanes


def by_hand(problem, epochs):
    """(best w, its objective, dual) after each plane: planes by enumeration, the small problem by SciPy's SLSQP."""
    from scipy.optimize import minimize

    lam, d = problem.lam, problem.V[0].shape[1]
    a, b, w = np.zeros((1, d)), np.zeros(1), np.zeros(d)
    best, fun, returned = w, problem.primal(w), []
    for _ in range(epochs):
        if problem.primal(w) < fun:
            best, fun = w, problem.primal(w)
        worst = [int(np.argmax(loss + V @ w)) for V, loss in zip(problem.V, problem.loss, strict=True)]
        a = np.vstack([a, np.mean([V[y] for V, y in zip(problem.V, worst, strict=True)], axis=0)])
        b = np.append(b, np.mean([loss[y] for loss, y in zip(problem.loss, worst, strict=True)]))
        Q, m = a @ a.T / lam, len(b)
        alpha = minimize(
            lambda x, Q=Q, b=b: 0.5 * x @ Q @ x - b @ x,
            np.full(m, 1.0 / m),
            jac=lambda x, Q=Q, b=b: Q @ x - b,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * m,
            constraints={"type": "eq", "fun": lambda x: np.sum(x) - 1.0, "jac": lambda x: np.ones(len(x))},
            options={"ftol": 1e-16, "maxiter": 1000},
        ).x
        alpha = np.maximum(alpha, 0.0) / np.maximum(alpha, 0.0).sum()
        w = -alpha @ a / lam
        returned.append((best, fun, b @ alpha - 0.5 * lam * w @ w))
    return returned


@pytest.mark.parametrize("lam", [0.05, 1.0])
def test_runs_are_their_equations(backend, rng, lam):
    X, Y = labelling(rng, (2, 3, 1, 3))
    problem = listed(X, Y, 3, lam)
    expected = by_hand(problem, 6)
    result = backend.cutting_planes(hinge(backend, X, Y), lam=lam, epochs=6, tol=0.0)
    for row, (_, fun, dual) in zip(result.history, expected, strict=True):
        assert abs(row.dual - dual) <= 1e-3 * (row.gap + 1e-6)  # the small problem is solved to this
        close(row.gap, row.objective - row.dual)
        if row.epoch <= 2:  # then w and planes part by what the small problem leaves open
            close(row.objective, fun)
    assert result.certificate == result.history[-1].gap and result.iterate == "best"
    assert [row.oracle_calls for row in result.history] == [4 * k for k in range(1, 7)]
    close(result.fun, problem.primal(result.x))


@pytest.mark.parametrize("options", [{}, {"capacity": 1}, {"capacity": 5}])
@pytest.mark.parametrize("lam", [1e-3, 0.05, 1e3])
def test_bounds_hold_the_optimum_between_them(backend, rng, options, lam):
    X, Y = labelling(rng, (2, 1, 3, 0), F=2, L=2)
    low, high = bracket(listed(X, Y, 2, lam))
    result = backend.cutting_planes(hinge(backend, X, Y, 2, 2), lam=lam, epochs=400, tol=1e-7, **options)
    for row in result.history:
        assert row.dual <= high + 1e-12 and row.objective >= low - 1e-12 and row.gap >= -1e-12
    assert np.all(np.diff([row.dual for row in result.history]) >= 0)
    assert np.all(np.diff([row.objective for row in result.history]) <= 0)
    assert result.success and result.certificate <= 1e-7 * result.fun


def test_the_optimum_of_block_coordinate_frank_wolfe(backend, rng):
    """The same problem, the same minimum, on every structure."""
    for objective in objectives(backend, rng):
        ours = backend.cutting_planes(objective, lam=0.1, tol=1e-8)
        theirs = backend.bcfw(objective, lam=0.1, tol=1e-4, epochs=500, rng=0)
        assert ours.success and ours.certificate <= 1e-8 * ours.fun and "reached" in ours.message
        assert theirs.history[-1].dual <= ours.fun + 1e-9 and ours.history[-1].dual <= theirs.fun + 1e-9


def test_planes_are_below_the_hinge_and_weights_in_the_simplex(backend, rng):
    X, Y = labelling(rng, (2, 3, 1))
    objective, lam = hinge(backend, X, Y), 0.02
    box = CuttingPlanes(lam, 6)
    state = box.init(objective)
    for _ in range(12):
        state = box.epoch(objective, state)
        assert np.all(state.alpha >= 0) and abs(state.alpha.sum() - 1) <= 1e-12
        close(state.x, -state.alpha @ state.planes / lam)
        close(state.products, state.planes @ state.planes.T)
        w = rng.normal(size=len(state.x))
        value = objective.value_and_gradient(w)[0]
        assert np.all(state.b + state.planes @ w <= value + 1e-12)


def test_planes_of_weight_zero_make_room(backend, rng):
    X, Y = labelling(rng, (2, 3, 1))
    objective = hinge(backend, X, Y)
    narrow, wide = CuttingPlanes(0.5, 4), CuttingPlanes(0.5, 100)
    few, many = narrow.init(objective), wide.init(objective)
    for _ in range(20):
        few = narrow.epoch(objective, few)
        many = wide.epoch(objective, many)
    assert len(many.b) == 21 and len(few.b) <= max(4, np.sum(few.alpha > 0) + 1) + 1 < 21
    close(few.dual, many.dual, scale=1e3)


@given(problem=strategies.sequence_problems(integer=True))
def test_ties_zeros_and_empty_sequences(backend, problem):
    model, data = sequence_model(backend, problem)
    everything = listed_problem(problem, 0.5)
    result = backend.cutting_planes(backend.StructuralHinge(model, data), lam=0.5, epochs=60, tol=1e-6)
    close(result.fun, everything.primal(result.x))
    assert result.certificate >= -1e-9 and result.success
    assert np.all(np.diff([row.dual for row in result.history]) >= 0)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300, 1e308])
def test_features_of_any_scale(backend, rng, scale):
    """Squares overflow or vanish; what is returned is finite and certified all the same."""
    X, Y = labelling(rng, (2, 3, 1))
    objective = hinge(backend, [scale * np.sign(x) for x in X], Y)
    result = backend.cutting_planes(objective, lam=0.1, epochs=5, tol=0.0)
    assert np.all(np.isfinite(result.x)) and np.isfinite(result.fun) and result.certificate >= -1e-9


def test_panels_take_the_same_steps(other, rng):
    X, Y = labelling(rng, (5, 1, 6, 0, 4), L=4)
    runs = [b.cutting_planes(hinge(b, X, Y, L=4), lam=0.05, epochs=12, tol=0.0) for b in (reference, other)]
    close(runs[1].x, runs[0].x, scale=100.0)
    for field in ("objective", "dual", "gap"):
        close(*([getattr(row, field) for row in run.history] for run in runs), scale=100.0)


def test_cutting_planes_work_in_every_namespace(backend, space, rng):
    X, Y = labelling(rng, (2, 3, 1), F=2, L=2)
    low, high = bracket(listed(X, Y, 2, 0.3))
    model = backend.SequenceModel(2, 2)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    result = backend.cutting_planes(objective, lam=0.3, tol=1e-4, capacity=3)
    assert space.get(result.x).dtype == space.dtype and result.success
    assert result.history[-1].dual <= high + 1e-5 and result.fun >= low - 1e-5


def test_callback_and_no_epochs(backend, rng):
    X, Y = labelling(rng, (2, 3, 4))
    objective, seen = hinge(backend, X, Y), []

    def callback(row, w):
        close(row.objective, objective.value_and_gradient(w)[0] + 0.05 * w @ w)
        seen.append(row)
        return row.epoch == 3

    stopped = backend.cutting_planes(objective, lam=0.1, tol=0.0, callback=callback)
    assert tuple(seen) == stopped.history and stopped.nit == 3 and stopped.success and "callback" in stopped.message
    start = backend.cutting_planes(objective, lam=0.1, epochs=0)
    assert start.history == () and start.fun == start.certificate == 3.0 and not np.any(start.x)
    few = backend.cutting_planes(objective, lam=0.1, epochs=2, tol=1e-6)
    assert not few.success and "above 1e-06" in few.message


def test_what_it_cannot_do_is_said(backend, rng):
    X, Y = labelling(rng, (2, 3))
    objective = hinge(backend, X, Y)
    for options, error, message in (
        ({"capacity": 0}, ValueError, "capacity: expected an integer >= 1, got 0"),
        ({"lam": 0.0}, ValueError, "lam: the dual needs a finite number > 0"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"epochs": 1.5}, TypeError, "epochs: expected an integer"),
        ({"callback": 1}, TypeError, "callback: expected a callable"),
    ):
        with pytest.raises(error, match=message):
            backend.cutting_planes(objective, **{"lam": 0.1, **options})
    smooth = backend.StructuralHinge(objective.model, objective.data, smoothing=backend.smoothings.Entropy())
    with pytest.raises(ValueError, match="objective: cutting_planes solves the unsmoothed hinge"):
        backend.cutting_planes(smooth, lam=0.1)
    with pytest.raises(backend.UnsupportedError, match="cutting_planes needs planes with a task loss"):
        backend.cutting_planes(backend.LogLoss(objective.model, objective.data), lam=0.1)
    with pytest.raises(TypeError, match="objective: cutting_planes needs linearize"):
        backend.cutting_planes([1.0], lam=0.1)
