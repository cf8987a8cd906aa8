"""Paths of beta: each point is its problem's optimum, whatever came before; values in any order; what is no path."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.rules import duplicates, random_classes, random_list, words
from conformance.tolerances import close


@pytest.mark.parametrize("make", [random_classes, duplicates, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_a_path_is_its_problems(backend, rng, make, alpha):
    objective, listed_at = make(backend, rng)
    most = backend.beta_max(objective)
    path = backend.sparse_path(objective, alpha=alpha, count=4, ratio=0.1, tol=1e-10)
    np.testing.assert_allclose(path.betas, most * 0.1 ** (np.arange(4) / 3))
    assert isinstance(path, backend.SparsePath)
    assert path.betas[0] == path.beta_max == most and path.alpha == alpha
    first = path.points[0]
    assert first.iterations == 0 and 0 < first.gap < 1e-12 and first.nonzeros == 0 and not np.any(path.weights(0))
    for k, point in enumerate(path.points):
        listed = listed_at(alpha, point.beta)
        best = listed.solve()
        assert point.success and point.gap <= 1e-10 * point.fun
        close(point.fun, listed.primal(best))
        close(point.fun, listed.primal(np.asarray(path.weights(k))))
        assert np.array_equal(point.support, np.flatnonzero(path.weights(k))) and point.screenings[0].iteration == 0
        assert len(point.rejection) == len(point.reservation) == len(point.screenings)
    without = backend.sparse_path(objective, alpha=alpha, count=4, ratio=0.1, tol=1e-10, rule=None)
    for one, other in zip(path.points, without.points, strict=True):
        assert abs(one.fun - other.fun) <= max(one.gap, other.gap) + 1e-13
    work, whole = (sum(p.work for p in each.points) for each in (path, without))
    assert work < whole or (make is duplicates and work == whole)
    assert path.seconds >= sum(p.solver_seconds for p in path.points)


def test_steps_of_a_path_screen_before_they_start(backend, rng):
    """Close values of beta: the last solution's small gap removes weights before the first iteration."""
    objective, _ = random_classes(backend, rng)
    most = backend.beta_max(objective)
    path = backend.sparse_path(objective, most * np.array([0.5, 0.499, 0.498]), tol=1e-9)
    assert all(point.screenings[0].kept < path.size for point in path.points[1:])


def test_values_in_any_order_and_a_callback(backend, rng):
    objective, listed_at = random_list(backend, rng)
    most, seen = backend.beta_max(objective), []
    betas = [0.2 * most, 2 * most, 0.5 * most]
    path = backend.sparse_path(objective, betas, tol=1e-10, callback=seen.append)
    assert [repr(point) for point in seen] == [repr(point) for point in path.points] and path.points[1].nonzeros == 0
    for point, own in zip(path.points, seen, strict=True):  # the path's arrays are out of a callback's reach
        for there, here in ((point.values, own.values), (point.support, own.support)):
            assert np.array_equal(there, here) and not np.shares_memory(there, here) and not here.flags.writeable
    for k, beta in enumerate(betas):
        listed = listed_at(1.0, beta)
        close(path.points[k].fun, listed.primal(listed.solve()))
    short = backend.sparse_path(objective, count=5, callback=lambda point: point.beta < most)
    assert len(short.points) == 2
    assert len(backend.sparse_path(objective, count=1).points) == 1


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("make", [random_classes, words], ids=lambda make: make.__name__)
def test_values_up_and_down_beyond_the_largest(backend, rng, make):
    """All weights may leave and come back, whatever a solver remembers of them."""
    objective, listed_at = make(backend, rng)
    solvers = (backend.ProximalNewton(), backend.ProximalNewton(largest=2), backend.ProximalNewton(memory=1))
    orders = ((0.5, 1.2, 1.5, 1.8, 0.3), (0.05, 0.1, 0.5, 2.0, 3.0, 0.4), (0.6, 0.3, 0.1, 0.03))
    for solver, shares in zip(solvers, orders, strict=True):
        betas = backend.beta_max(objective) * np.array(shares)
        for alpha in (1.0, 0.0):
            path = backend.sparse_path(objective, betas, alpha=alpha, tol=1e-10, solver=solver)
            for beta, point in zip(betas, path.points, strict=True):
                listed = listed_at(alpha, beta)
                assert point.success and (point.nonzeros == 0) == (beta > path.beta_max)
                close(point.fun, listed.primal(listed.solve()))
