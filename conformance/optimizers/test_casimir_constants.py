"""Casimir's warm start and its stop (26), where both are sharp: over a linear function subproblems are parabolas of
curvature lam + kappa."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.finite_sums import optimum, random_logistic
from reference.bounds import Corollary17

LAM, KAPPA = 0.3, 0.8


class Linear:
    """<g, w>, as a sum of one function."""

    n, g = 1, np.array([1.0, -2.0, 0.5])

    def value_and_gradient(self, w, batch=None, mu=None):
        return float(self.g @ w), self.g

    def minimiser(self, problem):
        """Of <g, w> + lam/2 ||w||^2 + kappa/2 ||w - z||^2."""
        return (problem.kappa * problem.center - self.g) / (problem.lam + problem.kappa)


def starts(backend, warm_start):
    """(problem, where its solver starts, the gradient there) of each subproblem of a run over exact solutions."""
    linear, seen = Linear(), []

    def exact(problem, at, order, step_size, memory):
        seen.append((problem, at.x, problem.gradient(at)))
        return linear.minimiser(problem), 1, None

    options = {"lam": LAM, "kappa": KAPPA, "step_size": 0.1, "inner": exact, "warm_start": warm_start, "epochs": 6}
    backend.casimir(linear, np.array([3.0, 0.0, -1.0]), **options)
    assert len(seen) == 6
    return linear, seen


def test_the_extrapolated_start_solves_a_linear_problem(backend):
    """w*(z') - w*(z) = kappa/(kappa + lam) (z' - z) there, so that from an exact w_{k-1} the start is w_k itself."""
    _, seen = starts(backend, "extrapolated")
    assert np.linalg.norm(seen[0][2]) > 1
    for _, _, gradient in seen[1:]:
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_the_other_starts_are_the_center_and_the_last_point(backend):
    for problem, x, _ in starts(backend, "center")[1]:
        np.testing.assert_array_equal(x, problem.center)
    linear, seen = starts(backend, "last")
    for (before, _, _), (_, x, gradient) in itertools.pairwise(seen):
        np.testing.assert_allclose(x, linear.minimiser(before), atol=1e-14)
        assert np.linalg.norm(gradient) > 1e-3  # not solved before it begins, as the extrapolated start is


def subproblems(backend, objective, step, warm_start, epochs):
    """(problem, points from its start to its end) of each subproblem of a run until (26), its solver going by ``step``;
    without the last, cut short."""
    found = []

    def towards(problem, at, order, step_size, memory):
        if memory is None:
            found.append((problem, [at.x]))
        np.testing.assert_array_equal(at.x, found[-1][1][-1])
        found[-1][1].append(step(problem, at))
        return found[-1][1][-1], 1, "begun"

    choice = Corollary17(LAM, KAPPA, 1.0)
    options = {"lam": LAM, "schedule": choice, "stop": "gradient", "step_size": 0.1, "warm_start": warm_start}
    backend.casimir(objective, np.array([3.0, 0.0, -1.0]), inner=towards, epochs=epochs, **options)
    return choice, found[:-1]


@pytest.mark.parametrize("warm_start", ["center", "last"])
def test_subproblems_end_as_soon_as_26_holds(backend, warm_start):
    """gap <= delta kappa/2 ||w - z||^2 at the last point, and at none before it, in steps that shorten the way to the
    solution by a fiftieth."""
    linear = Linear()

    def creep(problem, at):
        best = linear.minimiser(problem)
        return best + 0.98 * (at.x - best)

    choice, found = subproblems(backend, linear, creep, warm_start, 1500)
    assert len(found) >= 4
    for k, (problem, points) in enumerate(found, start=1):
        away = np.array(points) - linear.minimiser(problem)
        gaps = 0.5 * (LAM + KAPPA) * np.sum(away**2, axis=1)
        moved = np.sum((np.array(points) - problem.center) ** 2, axis=1)
        holds = gaps <= 0.5 * choice.delta_k(k) * KAPPA * moved
        assert holds[-1] and not np.any(holds[1:-1])  # a pass is made whatever the start is
        assert len(points) > 10


def test_26_holds_where_subproblems_end(backend, rng):
    """Of a sum that is curved, by the gradient's norm: the solution by a generic solver."""
    logistic = random_logistic(rng)
    logistic.A = logistic.A[:, :3]

    def descend(problem, at):
        return at.x - 0.1 * problem.gradient(at)

    choice, found = subproblems(backend, logistic, descend, "center", 150)
    assert len(found) >= 4
    for k, (problem, points) in enumerate(found, start=1):

        def whole(w, z=problem.center):
            off = w - z
            return logistic.value_and_gradient(w)[0] + 0.5 * LAM * w @ w + 0.5 * KAPPA * off @ off

        best = optimum(logistic, 3, LAM, None, KAPPA, problem.center)
        off = points[-1] - problem.center
        assert whole(points[-1]) - whole(best) <= 0.5 * choice.delta_k(k) * KAPPA * off @ off + 1e-12
