"""prox_linear's bound on the norm of the prox-gradient, by which ``tol`` ends a run: never below the norm, and equal to
it where losses are linear."""

from __future__ import annotations

import numpy as np
import pytest

from reference import Result

W = np.array([-1.0, 2.0, 4.0, -3.0])
X = np.array([[1.0, -2.0], [0.5, -1.0]])


def hinge(backend):
    """Two examples of two classes; at W and for steps ahead both losses are 1 - <x, w_0 - w_1> > 0, linear."""
    model = backend.MulticlassModel(2, 2)
    return backend.StructuralHinge(model, model.pack(X, [0, 0]))


def exact_step(objective, lam, eta):
    """argmin <g, w> + lam/2 ||w||^2 + 1/(2 eta) ||w - W||^2."""
    _, g = objective.value_and_gradient(W)
    return (W / eta - g) / (lam + 1 / eta)


@pytest.mark.parametrize(("lam", "eta"), [(0.0, 0.1), (0.5, 0.05), (3.0, 0.02), (1.0, 0.1)])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9, 1.0])
def test_the_bound_is_attained_on_the_way_to_the_exact_step(backend, lam, eta, known, share):
    """From a point a share of the way: ||w - W||/eta + sqrt(2 gap/(lam + 1/eta))/eta, of which the second is what is
    left of the way."""
    objective = hinge(backend)
    exact = exact_step(objective, lam, eta)
    norm = np.linalg.norm(exact - W) / eta

    def on_the_way(problem):
        best = exact - (W - problem.start)  # problems are moved, so that they start at W
        v = problem.start + share * (best - problem.start)
        off, at = v - best, objective.value_and_gradient(W - problem.start + v)
        gap = 0.5 * problem.lam * off @ off
        fun = at[0] + 0.5 * problem.lam * v @ v
        assert fun > 0 and np.allclose(at[1], objective.value_and_gradient(W)[1])
        return Result(v, fun, 1, True, "", "last", 0, gap if known else "none: not told", ())

    def success(tol):
        return backend.prox_linear(objective, W, lam=lam, eta=eta, inner=on_the_way, iterations=1, tol=tol).success

    assert not success(norm * (1 - 1e-6)) and success(norm * (1 + 1e-6))


@pytest.mark.parametrize("seed", range(5))
def test_no_point_hides_the_prox_gradient(backend, seed):
    """The solver may end anywhere about the exact step: a tolerance that is reached is one that the norm keeps."""
    objective, lam, eta, rng = hinge(backend), 0.5, 0.05, np.random.default_rng(seed)
    exact = exact_step(objective, lam, eta)
    norm, off = np.linalg.norm(exact - W) / eta, rng.normal(size=4)
    off *= 0.5 * np.linalg.norm(exact - W) / np.linalg.norm(off)

    def beside(problem):
        return Result(exact + off - (W - problem.start), 0.0, 1, True, "", "last", 0, "none: not told", ())

    rho = np.linalg.norm(exact + off - W) / eta
    for tol in (0.5 * norm, 0.999 * norm, rho):
        found = backend.prox_linear(
            objective, W, lam=lam, eta=eta, inner=beside, iterations=1, tol=tol, accept="always", fixed_eta=True
        )
        assert found.history[0].prox_gradient == pytest.approx(rho) and not found.success
    slack = np.linalg.norm(off) / eta  # what is added to rho, the loss being linear
    for tol, reached in ((0.999 * (rho + slack), False), (1.001 * (rho + slack), True)):
        found = backend.prox_linear(
            objective, W, lam=lam, eta=eta, inner=beside, iterations=1, tol=tol, accept="always", fixed_eta=True
        )
        assert found.success is reached
