"""Block-coordinate Frank-Wolfe against its equations with every output listed, against a generic solver, against
batch Frank-Wolfe.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.listed_svm import Listed, by_hand, hinge, labelling, listed
from conformance.tolerances import close


def bracket(problem):
    """A proved lower and upper bound on the optimum, by SciPy's SLSQP on the dual."""
    from scipy.optimize import minimize

    sizes = np.cumsum([0, *(len(loss) for loss in problem.loss)])
    pieces = list(itertools.pairwise(sizes))

    def split(a):
        return [a[lo:hi] for lo, hi in pieces]

    def value_and_gradient(a):
        alpha = split(a)
        w = problem.w(alpha)
        g = [-(loss + V @ w) / len(pieces) for loss, V in zip(problem.loss, problem.V, strict=True)]
        return -problem.dual(alpha), np.concatenate(g)

    ones = np.array([[float(lo <= k < hi) for k in range(sizes[-1])] for lo, hi in pieces])
    start = np.concatenate([np.eye(hi - lo)[0] for lo, hi in pieces])
    found = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda a: ones @ a - 1, "jac": lambda a: ones},
        options={"ftol": 1e-20, "maxiter": 500},
    )
    alpha = [np.maximum(a, 0.0) / np.maximum(a, 0.0).sum() for a in split(found.x)]
    return problem.dual(alpha), problem.primal(problem.w(alpha))


@pytest.mark.parametrize("average", ["weighted", "last"])
@pytest.mark.parametrize(("cached_passes", "line_search"), [(0, True), (0, False), (1, True), (3, True)])
def test_bcfw_is_its_equations(backend, rng, average, cached_passes, line_search):
    """x = w(alpha) and the dual of the averaged alpha, after each epoch; the gap is that of the iterate returned."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    problem = listed(X, Y, 3, 0.07)
    options = {"cached_passes": cached_passes, "average": average, "line_search": line_search}
    expected = by_hand(problem, 6, 4, **options)
    result = backend.bcfw(hinge(backend, X, Y), lam=0.07, epochs=6, tol=0.0, rng=4, **options)
    close(result.x, expected[-1][0])
    for row, (w, dual) in zip(result.history, expected, strict=True):
        close(row.dual, dual)
        close(row.objective, problem.primal(w))
        close(row.gap, problem.primal(w) - dual)
    assert result.fun == result.history[-1].objective and result.certificate == result.history[-1].gap
    assert result.iterate == {"weighted": "weighted average", "last": "last"}[average]
    assert [row.oracle_calls for row in result.history] == [5 * k for k in range(1, 7)] and result.oracle_calls == 30


@pytest.mark.parametrize("average", ["weighted", "last"])
@pytest.mark.parametrize(
    "options", [{}, {"cached_passes": 0}, {"capacity": 1}, {"capacity": 2}, {"line_search": False}]
)
@pytest.mark.parametrize("lam", [1e-4, 0.05, 1e3])
def test_bounds_hold_the_optimum_between_them(backend, rng, average, options, lam):
    X, Y = labelling(rng, (2, 1, 3, 0), F=2, L=2)
    problem = listed(X, Y, 2, lam)
    low, high = bracket(problem)
    assert high - low <= 1e-6 * high
    result = backend.bcfw(hinge(backend, X, Y, 2, 2), lam=lam, epochs=60, tol=0.0, average=average, rng=1, **options)
    for row in result.history:
        assert row.dual <= high + 1e-12 and row.objective >= low - 1e-12 and row.gap >= -1e-12
        close(row.gap, row.objective - row.dual)
    duals = [row.dual for row in result.history]
    if average == "last" and options.get("line_search", True):
        assert np.all(np.diff(duals) >= -1e-12)
    if options.get("cached_passes", 3) and average == "last" and options.get("line_search", True):
        assert result.certificate <= 1e-3 * result.fun


def test_a_small_relative_gap_is_reached_and_said(backend, rng):
    X, Y = labelling(rng, (4, 3, 2, 4, 1, 4))
    for average, tol in (("last", 1e-4), ("weighted", 3e-2)):
        result = backend.bcfw(hinge(backend, X, Y), lam=0.02, tol=tol, average=average, rng=0)
        assert result.success and 0 <= result.certificate <= tol * result.fun and "reached" in result.message
        assert all(row.gap > tol * row.objective for row in result.history[:-1])
    few = backend.bcfw(hinge(backend, X, Y), lam=0.02, tol=1e-9, epochs=1, rng=0)
    assert not few.success and "after 1 epochs" in few.message


def batch_frank_wolfe(objective, lam, steps):
    """The textbook's batch method with line search: all corners at w, one step for all; dual values on the way."""
    w, loss, duals = objective.zeros(), 0.0, []
    for _ in range(steps):
        corners = objective.corners(w)
        w_s = -np.mean(corners.directions[:, 0, :], axis=0) / lam
        loss_s = np.mean(corners.losses[:, 0])
        gap, length = lam * (w - w_s) @ w - loss + loss_s, lam * (w - w_s) @ (w - w_s)
        gamma = min(1.0, gap / length) if length > 0 else 0.0
        w, loss = (1 - gamma) * w + gamma * w_s, (1 - gamma) * loss + gamma * loss_s
        duals.append(loss - 0.5 * lam * w @ w)
    return w, duals


def test_batch_frank_wolfe_has_the_same_optimum(backend, rng):
    X, Y = labelling(rng, (2, 4, 1, 3))
    objective = hinge(backend, X, Y)
    w, duals = batch_frank_wolfe(objective, 0.5, 400)
    slow = objective.value_and_gradient(w)[0] + 0.25 * w @ w
    fast = backend.bcfw(objective, lam=0.5, tol=1e-6, average="last", rng=0)
    assert np.all(np.diff(duals) >= -1e-12) and 0 <= slow - duals[-1] <= 0.05 * slow
    assert duals[-1] <= fast.fun + 1e-12 and fast.history[-1].dual <= slow + 1e-12
    assert fast.fun <= slow


def test_multiclass_and_listed_outputs(backend, rng):
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    problem = Listed(0.1)
    for x, y in zip(X, Y, strict=True):
        order = [y, *(c for c in range(3) if c != y)]
        problem.add([np.outer(x, np.eye(3)[c]).ravel() for c in order], cost[y, order])
    classes = backend.MulticlassModel(2, 3, cost=cost)
    lists = backend.ListModel(
        lambda x: np.kron(x[None, :], np.eye(3)), backend.Table, task_loss=lambda x, y: cost[y], size=6
    )
    for model in (classes, lists):
        objective = backend.StructuralHinge(model, model.pack(X, Y))
        for options in ({"cached_passes": 0, "average": "weighted"}, {"cached_passes": 2, "average": "last"}):
            result = backend.bcfw(objective, lam=0.1, epochs=5, tol=0.0, rng=2, **options)
            w, dual = by_hand(problem, 5, 2, **options)[-1]
            close(result.x, w)
            close(result.history[-1].dual, dual)
