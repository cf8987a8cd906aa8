"""Training under weights that must be >= 0: the clipped dual against a generic solver, its line search against a
grid, projections, refusals.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import reference
from conformance.listed_svm import Listed, by_hand
from conformance.optimizers.optima import bracket
from conformance.tolerances import close
from reference.optimizers.bcfw import BCFW
from reference.optimizers.nonnegative import best_step, clipped
from reference.training.counterparts import counterpart


class Problem(Listed):
    """Listed outputs: example i has features A[i] (m, d), true output y[i], 0/1 losses; w[where] >= 0."""

    def __init__(self, A, y, where, lam):
        super().__init__(lam)
        self.A, self.y, self.where = A, y, where
        for a, i in zip(A, y, strict=True):
            self.add([a[i], *np.delete(a, i, axis=0)], np.arange(len(a)) > 0)

    def clip(self, w):
        w = w.copy()
        w[self.where] = np.maximum(w[self.where], 0.0)
        return w

    def w(self, alpha):
        return self.clip(super().w(alpha))

    def step(self, alpha, i, towards, most):
        """By bisection on the dual itself."""

        def value(gamma):
            return -self.dual([*alpha[:i], alpha[i] + gamma * towards, *alpha[i + 1 :]])

        inner = minimize_scalar(value, bounds=(0.0, most), method="bounded", options={"xatol": 1e-12}).x
        return min((0.0, most, inner), key=value)

    def hinge(self, backend, like=None):
        class Model(backend.ListModel):
            nonnegative = self.where

        model = Model(
            lambda i: self.A[i], backend.Table, lambda i, y: 1.0 - np.eye(len(self.A[i]))[y], size=self.A[0].shape[1]
        )
        return backend.StructuralHinge(model, model.pack(range(len(self.A)), list(self.y), like=like))


def drawn(rng, where=slice(1, 4), lam=0.1, n=6, m=4, d=5):
    return Problem([rng.normal(size=(m, d)) for _ in range(n)], rng.integers(0, m, n), where, lam)


@pytest.mark.parametrize("lam", [0.1, 0.5, 10.0])
@pytest.mark.parametrize("where", [slice(0, 5), slice(1, 4), slice(4, 5), slice(2, 2)])
def test_bcfw_finds_the_constrained_optimum(backend, rng, where, lam):
    """Some constraints hold with equality and some do not; the same optimum as a generic solver of the primal."""
    for _ in range(2):
        problem = drawn(rng, where, lam, m=3)
        low, high, w = bracket(problem.hinge(backend), lam)
        assert abs(high - low) <= 1e-6 * high
        result = backend.bcfw(problem.hinge(backend), lam=lam, tol=1e-4, epochs=200, rng=0)
        assert result.success and np.all(result.x[where] >= 0)
        close(result.fun, problem.primal(result.x))
        assert low * (1 - 1e-6) <= result.fun <= high * (1 + 2e-4)
        assert 0.5 * lam * np.sum((result.x - w) ** 2) <= 2e-4 * high  # strong convexity


def test_the_constraint_matters_here(backend, rng):
    """Free weights reach less and go below 0; a constraint that is inactive changes nothing."""
    problem, options = drawn(rng, slice(0, 5)), {"lam": 0.1, "tol": 1e-4, "epochs": 200, "rng": 0}
    bound = backend.bcfw(problem.hinge(backend), **options)
    problem.where = None
    free = backend.bcfw(problem.hinge(backend), **options)
    assert free.fun < 0.99 * bound.fun and np.any(free.x < -1e-2) and np.any(bound.x == 0) and np.any(bound.x > 0)
    j = int(np.argmax(free.x))
    problem.where = slice(j, j + 1)
    np.testing.assert_allclose(backend.bcfw(problem.hinge(backend), **options).fun, free.fun, rtol=2e-4)


@pytest.mark.parametrize("average", ["last", "weighted"])
def test_bcfw_is_its_equations(backend, rng, average):
    """The average's dual point is the average of the dual points: weights are averaged first and clipped then."""
    problem = drawn(rng, slice(0, 4))
    result = backend.bcfw(problem.hinge(backend), lam=0.1, epochs=4, tol=0.0, cached_passes=0, average=average, rng=3)
    expected = by_hand(problem, 4, 3, cached_passes=0, average=average)
    for row, (w, dual) in zip(result.history, expected, strict=True):
        np.testing.assert_allclose([row.dual, row.objective], [dual, problem.primal(w)], rtol=1e-5)


numbers = st.one_of(st.integers(-2, 2).map(float), st.floats(-3, 3, width=32))


@given(
    x=st.lists(numbers, min_size=4, max_size=4),
    v=st.lists(numbers, min_size=4, max_size=4),
    loss=numbers,
    most=st.sampled_from([0.1, 0.5, 1.0]),
    lam_n=st.sampled_from([1e-3, 1.0, 50.0]),
    where=st.sampled_from([slice(0, 4), slice(1, 3), slice(3, 4)]),
)
def test_no_step_has_a_higher_dual(x, v, loss, most, lam_n, where):
    """Against a dense grid with every kink in it: the dual along the line is concave and piecewise quadratic."""
    x, v = np.array(x), np.array(v)

    def dual(gamma):
        w = clipped(x - gamma / lam_n * v, where)
        return gamma * loss - 0.5 * lam_n * w @ w

    gamma = best_step(x, v, float(loss + clipped(x, where) @ v), most, lam_n, where)
    assert 0 <= gamma <= most
    kinks = lam_n * x[v != 0] / v[v != 0]
    grid = np.concatenate(
        [np.linspace(0, most, 400), kinks[(kinks >= 0) & (kinks <= most)], [gamma - 1e-6, gamma + 1e-6]]
    )
    best = max(dual(g) for g in np.clip(grid, 0, most))
    assert dual(gamma) >= best - 1e-9 * max(1.0, abs(best), lam_n * (x @ x), v @ v / lam_n)


def test_bcfw_in_every_namespace(backend, space, rng):
    problem = drawn(rng, slice(1, 4), lam=0.5, n=3, m=3)
    low, high, _ = bracket(problem.hinge(backend), 0.5)
    result = backend.bcfw(problem.hinge(backend, space.put(0.0)), lam=0.5, epochs=30, tol=1e-2, rng=0)
    x = space.get(result.x)
    assert x.dtype == space.dtype and np.all(x[1:4] >= 0) and result.success
    assert low * (1 - 1e-5) <= problem.primal(x.astype(np.float64)) <= high * (1 + 2e-2)


def test_sgd_projects(backend, rng):
    """One step from a start, then to the neighbourhood of the optimum, never below 0."""
    problem = drawn(rng, slice(0, 5))
    hinge, w = problem.hinge(backend), np.abs(rng.normal(size=5))
    one = backend.sgd(hinge, w, lam=0.1, step_size=0.7, epochs=1, batch_size=6, average="last", rng=0)
    g = hinge.value_and_gradient(w)[1]
    close(one.x, problem.clip(w - 0.7 * (g + 0.1 * w)))
    _, high, _ = bracket(hinge, 0.1)
    for average in ("weighted", "uniform", "last"):
        result = backend.sgd(hinge, lam=0.1, epochs=60, average=average, rng=0)
        assert np.all(result.x >= 0) and high * (1 - 1e-6) <= result.fun <= 1.2 * high


def test_sequences_with_nonnegative_transitions(other, rng):
    """A model with a kernel of its own leaves it where weights are constrained; panels take the same steps."""
    X, Y = [rng.normal(size=(n, 2)) for n in (3, 1, 4)], [rng.integers(0, 2, n) for n in (3, 1, 4)]
    runs = []
    for b in (reference, other):
        model = b.SequenceModel(2, 2, start_stop=False)
        model.nonnegative = slice(4, 8)
        hinge = b.StructuralHinge(model, model.pack(X, Y))
        assert hinge.nonnegative == slice(4, 8) and type(counterpart(BCFW(0.05), hinge)) is BCFW
        runs.append(b.bcfw(hinge, lam=0.05, tol=1e-4, epochs=300, rng=0))
        assert runs[-1].success and np.all(runs[-1].x[4:] >= 0)
    close(runs[1].x, runs[0].x)


def test_who_cannot_says_so(backend, rng):
    problem = drawn(rng, slice(1, 4))
    hinge = problem.hinge(backend)
    with pytest.raises(ValueError, match=r"w0: weights 1..3 must be >= 0, got -2.0 for weight 2"):
        backend.sgd(hinge, np.array([-1.0, 0.0, -2.0, -3.0, -1.0]), lam=0.1)
    problem.where = slice(0, 5, 2)
    with pytest.raises(ValueError, match="nonnegative: expected a slice of neighbouring weights"):
        backend.bcfw(problem.hinge(backend), lam=0.1)


def test_clipping_every_slice():
    x = np.array([-1.0, 2.0, -3.0, -0.0])
    for a, b in itertools.combinations_with_replacement(range(5), 2):
        expected = np.concatenate([x[:a], np.maximum(x[a:b], 0.0), x[b:]])
        assert np.array_equal(clipped(x, slice(a, b)), expected)
    assert clipped(x, None) is x
