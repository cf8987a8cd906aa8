"""Paths of beta: each point is its problem's optimum, whatever came before; values in any order; what is no path."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.learners import chains, loss_of
from conformance.specimens.rules import duplicates, random_classes, random_list, words
from conformance.tolerances import close


@pytest.mark.parametrize("make", [random_classes, duplicates, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-10])
def test_a_path_is_its_problems(backend, rng, make, alpha, tol):
    objective, listed_at = make(backend, rng)
    most, options = backend.beta_max(objective), {"alpha": alpha, "count": 4, "ratio": 0.1, "tol": tol}
    path, without = (backend.sparse_path(objective, **options, **rule) for rule in ({}, {"rule": None}))
    np.testing.assert_allclose(path.betas, most * 0.1 ** (np.arange(4) / 3))
    assert isinstance(path, backend.SparsePath)
    assert path.betas[0] == path.beta_max == most and path.alpha == alpha
    first = path.points[0]
    assert first.iterations == 0 and 0 < first.gap < 1e-12 and first.nonzeros == 0 and not np.any(path.weights(0))
    for k, (point, plain) in enumerate(zip(path.points, without.points, strict=True)):
        listed = listed_at(alpha, point.beta)
        least = listed.primal(listed.solve())
        assert point.success and point.gap <= tol * point.fun
        close(point.fun, listed.primal(np.asarray(path.weights(k))))
        for each in (point, plain):
            assert -1e-12 * least <= each.fun - least <= each.gap + 1e-12 * least
        assert np.array_equal(point.support, np.flatnonzero(path.weights(k))) and point.screenings[0].iteration == 0
        assert len(point.rejection) == len(point.reservation) == len(point.screenings)
    work, whole = (sum(p.work for p in each.points) for each in (path, without))
    assert work < whole or (work == whole and (make is duplicates or tol > 1e-3))
    assert path.seconds >= sum(p.solver_seconds for p in path.points)


def test_steps_of_a_path_screen_before_they_start(backend, rng):
    """Close values of beta: the last solution's small gap removes weights before the first iteration."""
    objective, _ = random_classes(backend, rng)
    most = backend.beta_max(objective)
    path = backend.sparse_path(objective, most * np.array([0.5, 0.499, 0.498]), tol=1e-9)
    assert all(point.screenings[0].kept < path.size for point in path.points[1:])


@pytest.mark.parametrize("make", [random_list, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{}, {"largest": 2}, {"memory": 1}], ids=str)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_values_in_any_order_beyond_the_largest(backend, rng, make, options, alpha):
    """All weights may leave and come back, whatever a solver remembers of them."""
    objective, listed_at = make(backend, rng)
    betas = backend.beta_max(objective) * np.array([0.2, 1.5, 2.0, 0.5, 0.1])
    solver = backend.ProximalNewton(**options)
    path = backend.sparse_path(objective, betas, alpha=alpha, tol=1e-10, solver=solver)
    for beta, point in zip(betas, path.points, strict=True):
        listed = listed_at(alpha, beta)
        assert point.success and (point.nonzeros == 0) == (beta > path.beta_max)
        close(point.fun, listed.primal(listed.solve()))


def test_a_callback_sees_copies_and_ends_a_path(backend, rng):
    objective, _ = random_list(backend, rng)
    most, seen = backend.beta_max(objective), []
    path = backend.sparse_path(objective, count=3, callback=seen.append)
    assert [repr(point) for point in seen] == [repr(point) for point in path.points]
    for point, own in zip(path.points, seen, strict=True):  # the path's arrays are out of a callback's reach
        for there, here in ((point.values, own.values), (point.support, own.support)):
            assert np.array_equal(there, here) and not np.shares_memory(there, here) and not here.flags.writeable
    short = backend.sparse_path(objective, count=5, callback=lambda point: point.beta < most)
    assert len(short.points) == 2
    assert len(backend.sparse_path(objective, count=1).points) == 1


def test_an_interrupt_ends_a_path(backend, rng):
    objective, _ = random_classes(backend, rng)

    class Interrupting(backend.AcceleratedProximalGradient):
        def step(self, memory):
            if memory.state.problem.beta < 0.5 * backend.beta_max(objective):
                raise KeyboardInterrupt
            return super().step(memory)

    path = backend.sparse_path(objective, count=5, solver=Interrupting())
    assert path.interrupted and len(path.points) == 3 and not path.points[-1].success


def test_paths_in_every_namespace(backend, space):
    objective = loss_of(backend, "log loss", *chains(backend, space.put(0.0)))
    path = backend.sparse_path(objective, [0.3 * backend.beta_max(objective)], tol=1e-3)
    assert space.get(path.weights(0)).dtype == space.dtype and path.points[0].success
