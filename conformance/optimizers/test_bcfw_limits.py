"""Block-coordinate Frank-Wolfe where numbers end: small weights of the norm, nothing to learn, gaps of rounding;
what it refuses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import reference
from conformance.listed_svm import hinge, labelling, listed
from conformance.tolerances import close


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("lam", [1e-4, 1e-8, 1e-12, 1e-14])
def test_duals_hold_where_the_norm_hardly_counts(backend, other, lam):
    """Weights of 1e-14 next to one of 1: w stays w(alpha), so no dual lies above an objective, and panels agree."""
    rng = np.random.default_rng(0)
    X, teacher = [rng.normal(size=(n, 3)) for n in (2, 3, 1, 3)], rng.normal(size=(3, 3))
    Y = [np.argmax(x @ teacher, axis=1) for x in X]  # separable: the optimum goes to 0 with lam
    runs = [b.bcfw(hinge(b, X, Y), lam=lam, epochs=300, rng=0) for b in (reference, backend, other)]
    lowest = min(row.objective for run in runs for row in run.history)
    for run in runs:
        duals = np.array([row.dual for row in run.history])
        assert run.success == (run.certificate <= 1e-3 * run.fun)
        assert run.success if lam > 1e-10 else "rounding" in run.message  # 1e-3 of lam, next to losses of 1
        assert np.all(duals <= lowest * (1 + 1e-9) + 5e-16) and np.all(np.diff(duals) >= -1e-9 * lowest)
        problem = listed(X, Y, 3, lam)
        np.testing.assert_allclose(run.fun, problem.primal(run.x), rtol=1e-5, atol=5e-16)  # losses of 1 cancel
        np.testing.assert_allclose(duals[-1], runs[0].history[-1].dual, rtol=2e-3)


def test_no_epochs_on_a_solved_problem(backend, rng):
    X, Y = labelling(rng, (2, 3))
    solved = hinge(backend, X, [0 * y for y in Y], L=1)
    for tol in (0.0, 1e-3):
        result = backend.bcfw(solved, lam=0.1, epochs=0, tol=tol)
        assert result.success and result.certificate == 0.0 and "above" not in result.message
    nothing = backend.bcfw(solved, lam=0.1, rng=0)
    assert nothing.nit == 0 and nothing.fun == 0.0 and not np.any(nothing.x)
    result = backend.bcfw(hinge(backend, X, Y), lam=0.1, epochs=0)
    assert not result.success and "above 0.001" in result.message


class Nowhere:
    """An objective whose value is nan."""

    n = 1

    def zeros(self):
        return np.zeros(1)

    def value_and_gradient(self, w, batch=None, mu=None):
        return np.nan, w

    def corners(self, w, batch=None, k=1):
        return Plane(np.ones((1, 1, 1)), np.ones((1, 1)))


class Plane(NamedTuple):
    directions: np.ndarray
    losses: np.ndarray


@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_an_objective_that_is_no_number_is_no_success(backend, tol, epochs):
    result = backend.bcfw(Nowhere(), lam=0.1, tol=tol, epochs=epochs, rng=0, callback=lambda row, w: True)
    assert not result.success and "diverged" in result.message and result.nit == min(epochs, 1)


def test_bcfw_works_up_to_rounding_and_says_no_more(backend, space, rng):
    """Run on until gaps are rounding: a tol below that of the dtype is never said to be reached, whatever the sign
    of the gap.
    """
    resolution = np.finfo(space.dtype).eps
    for seed in range(4):
        X, Y = labelling(np.random.default_rng(seed), (2, 1), F=2, L=2)
        model = backend.SequenceModel(2, 2)
        objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
        for tol in (0.0, 0.1 * resolution):
            result = backend.bcfw(objective, lam=0.1, epochs=99, tol=float(tol), rng=0)
            assert result.nit < 99 and "rounding" in result.message and result.success == (tol == 0)
            w = space.get(result.x).astype(np.float64)
            close(result.fun, listed(X, Y, 2, 0.1).primal(w), space.dtype)
            assert 0 < result.certificate <= 1e2 * resolution


def test_bad_corners_are_named(backend, rng):
    objective = hinge(backend, *labelling(rng, (2, 3)))
    with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
        objective.corners(objective.zeros(), k=0)
    with pytest.raises(ValueError, match=r"batch: expected example numbers in 0..1"):
        objective.corners(objective.zeros(), [2])
    assert objective.corners(objective.zeros(), []).directions.shape == (0, 1, objective.model.size)
    model = backend.ListModel(lambda x: np.eye(2), backend.Table, task_loss=lambda x, y: np.ones(2), size=2)
    with pytest.raises(ValueError, match="task_loss: expected 0 for the true output, got 1.0 in example 0"):
        backend.bcfw(backend.StructuralHinge(model, model.pack([0], [1])), lam=0.1)
