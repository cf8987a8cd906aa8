"""One-slack cutting planes against a generic solver's planes, against enumeration, against block-coordinate
Frank-Wolfe.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.listed_svm import hinge, labelling, listed
from conformance.optimizers.optima import on_simplex
from conformance.tolerances import close
from reference.optimizers.cutting_planes import CuttingPlanes


def by_hand(problem, epochs):
    """(best w, its objective, dual) after each plane: planes by enumeration, the small problem by SciPy's SLSQP."""
    lam, d = problem.lam, problem.V[0].shape[1]
    a, b, w = np.zeros((1, d)), np.zeros(1), np.zeros(d)
    best, fun, returned = w, problem.primal(w), []
    for _ in range(epochs):
        if problem.primal(w) < fun:
            best, fun = w, problem.primal(w)
        worst = [int(np.argmax(loss + V @ w)) for V, loss in zip(problem.V, problem.loss, strict=True)]
        a = np.vstack([a, np.mean([V[y] for V, y in zip(problem.V, worst, strict=True)], axis=0)])
        b = np.append(b, np.mean([loss[y] for loss, y in zip(problem.loss, worst, strict=True)]))
        alpha = on_simplex(a @ a.T / lam, b)
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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_ends_when_planes_change_the_dual_no_more(backend, seed):
    """Features of very different scales: rounding keeps the dual from its maximum. The bounds hold all the same."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 3)) * np.array([1e-4, 1, 1e4]) for _ in range(5)]
    model = backend.SequenceModel(3, 3)
    objective = backend.StructuralHinge(model, model.pack(X, [rng.integers(3, size=3) for _ in X]))
    result = backend.cutting_planes(objective, lam=1e-4, tol=1e-10)
    duals = [row.dual for row in result.history]
    assert not result.success and "the last 10 have not changed the dual" in result.message
    assert duals[-11:] == [duals[-1]] * 11 and duals[-12] < duals[-1] <= result.fun and len(duals) < 200
    assert backend.cutting_planes(objective, lam=1e-4, tol=None, epochs=20).nit == 20
