"""Block-coordinate Frank-Wolfe against its equations with every output listed, and where numbers end: small weights of
the norm, gaps of rounding, values that are no numbers. An l1 norm and weights that must be >= 0: the dual against a
generic solver, its line search against a grid, projections.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from conformance.finite_sums import bracket
from conformance.listed_svm import Listed, by_hand, hinge, labelling, listed, svm
from conformance.specimens.models import classes as classes_of
from conformance.tolerances import close
from reference.optimizers.nonnegative import best_step, clipped, shrunk
from reference.training.counterparts import counterpart


@pytest.mark.parametrize("l1", [0.0, 0.02])
@pytest.mark.parametrize("average", ["weighted", "last"])
@pytest.mark.parametrize(("cached_passes", "line_search"), [(0, True), (0, False), (1, True), (3, True)])
def test_bcfw_is_its_equations(backend, rng, average, cached_passes, line_search, l1):
    """The weights and the dual of the averaged alpha, after each epoch; the gap is that of the iterate returned."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    problem = listed(X, Y, 3, 0.07, l1=l1)
    options = {"cached_passes": cached_passes, "average": average, "line_search": line_search}
    expected = by_hand(problem, 6, 4, **options)
    result = backend.bcfw(hinge(backend, X, Y), lam=0.07, l1=l1, kappa=0.0, epochs=6, tol=0.0, rng=4, **options)
    close(result.x, expected[-1][0])
    for row, (w, dual) in zip(result.history, expected, strict=True):
        close(row.dual, dual)
        close(row.objective, problem.primal(w))
        close(row.gap, problem.primal(w) - dual)
    assert result.fun == result.history[-1].objective and result.certificate == result.history[-1].gap
    assert result.iterate == {"weighted": "weighted average", "last": "last"}[average]
    assert [row.oracle_calls for row in result.history] == [5 * k for k in range(1, 7)] and result.oracle_calls == 30


def test_multiclass_and_listed_outputs(backend, rng):
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    problem = svm(classes_of(X, Y, 3, cost=cost), 0.1)
    classes = backend.MulticlassModel(2, 3, cost=cost)
    lists = backend.ListModel(lambda x: np.kron(x[None], np.eye(3)), backend.Table, lambda x, y: cost[y], size=6)
    for model in (classes, lists):
        objective = backend.StructuralHinge(model, model.pack(X, Y))
        for options in ({"cached_passes": 0, "average": "weighted"}, {"cached_passes": 2, "average": "last"}):
            result = backend.bcfw(objective, lam=0.1, epochs=5, tol=0.0, rng=2, **options)
            w, dual = by_hand(problem, 5, 2, **options)[-1]
            close(result.x, w)
            close(result.history[-1].dual, dual)


def test_labels_without_weights_are_one_output():
    """Two labellings with equal features and losses, of which one joins a set: the attribute has a weight for A."""
    X, Y = [[["x"]], [["y"]], [["y"]]], [["A"], ["B"], ["C"]]
    for panel in (reference, accelerated):
        model = panel.TaggingModel.of(X, Y, None)
        objective = panel.StructuralHinge(model, model.pack(X, Y))
        box = counterpart(panel.algorithms.BCFW(1.0, cached_passes=0), objective)
        state = box.init(objective, objective.zeros())
        for _ in range(4):
            state = box.epoch(objective, state, np.random.default_rng(0))
        sizes = state.sets.outputs if panel is accelerated else [len(state.sets[i].alpha) for i in range(3)]
        assert sizes[0] == 2


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


@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_an_objective_that_is_no_number_is_no_success(backend, rng, tol, epochs):
    class Nowhere(backend.StructuralHinge):
        def value_and_gradient(self, w, batch=None, mu=None):
            return np.nan, w

    model = backend.SequenceModel(3, 3)
    objective = Nowhere(model, model.pack(*labelling(rng, (2, 3))))
    result = backend.bcfw(objective, lam=0.1, tol=tol, epochs=epochs, rng=0, callback=lambda row, w: True)
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


class Problem(Listed):
    """Listed outputs: example i has features A[i] (m, d), true output y[i], 0/1 losses; w[where] >= 0."""

    def __init__(self, A, y, where, lam, l1=0.0):
        super().__init__(lam, l1)
        self.A, self.y, self.where = A, y, where
        for a, i in zip(A, y, strict=True):
            self.add([a[i], *np.delete(a, i, axis=0)], np.arange(len(a)) > 0)

    def clip(self, w):
        w = w.copy()
        w[self.where] = np.maximum(w[self.where], 0.0)
        return w

    def w(self, alpha):
        return self.clip(super().w(alpha))

    step = Listed.searched

    def hinge(self, backend, like=None):
        model = backend.ListModel(
            lambda i: self.A[i], backend.Table, lambda i, y: 1.0 - np.eye(len(self.A[i]))[y], size=self.A[0].shape[1]
        )
        model.nonnegative = self.where
        return backend.StructuralHinge(model, model.pack(range(len(self.A)), list(self.y), like=like))


def drawn(rng, where=slice(1, 4), lam=0.1, n=6, m=4, d=5, l1=0.0):
    return Problem([rng.normal(size=(m, d)) for _ in range(n)], rng.integers(0, m, n), where, lam, l1)


@pytest.mark.parametrize(("lam", "l1"), [(0.1, 0.0), (0.5, 0.0), (10.0, 0.0), (0.1, 0.05), (0.5, 0.2), (0.01, 0.3)])
@pytest.mark.parametrize("where", [slice(0, 5), slice(1, 4), slice(4, 5), slice(2, 2)])
def test_bcfw_finds_the_constrained_optimum(backend, rng, where, lam, l1):
    """Some constraints hold with equality and some do not; the same optimum as a generic solver of the dual."""
    for _ in range(2):
        problem = drawn(rng, where, lam, m=3, l1=l1)
        low, high, w = bracket(problem.hinge(backend), lam, l1)
        assert abs(high - low) <= 1e-6 * high
        result = backend.bcfw(problem.hinge(backend), lam=lam, l1=l1, tol=1e-4, epochs=200, rng=0)
        assert result.success and np.all(result.x[where] >= 0)
        close(result.fun, problem.primal(result.x))
        assert low * (1 - 1e-6) <= result.fun <= high * (1 + 2e-4)
        assert 0.5 * lam * np.sum((result.x - w) ** 2) <= 2e-4 * high  # strong convexity


@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("average", ["last", "weighted"])
def test_bcfw_clips_as_its_equations_do(backend, rng, average, l1):
    """The average's dual point is the average of the dual points: weights are averaged first and clipped then."""
    problem, options = drawn(rng, slice(0, 4), l1=l1), {"cached_passes": 0, "average": average}
    result = backend.bcfw(problem.hinge(backend), lam=0.1, l1=l1, kappa=0.0, epochs=4, tol=0.0, rng=3, **options)
    expected = by_hand(problem, 4, 3, **options)
    for row, (w, dual) in zip(result.history, expected, strict=True):
        close([row.dual, row.objective], [dual, problem.primal(w)])
    close(result.x, expected[-1][0])


def test_weights_of_an_l1_norm_at_the_ends_of_its_range(backend, rng, tmp_path):
    """All are 0 from a bound on, where the dual is the objective; the gap is that of the problem, at any scale."""
    X, Y = labelling(rng, (2, 3, 1))
    objective, file = hinge(backend, X, Y), tmp_path / "run.npz"
    steepest = max(np.max(np.abs(V)) for V in listed(X, Y, 3, 1.0).V)
    for lam, l1 in ((1.0, steepest), (1e-300, 1e-3 * steepest), (1e-3, 1e300)):
        result = backend.bcfw(objective, lam=lam, l1=l1, tol=1e-9, epochs=20, rng=0)
        if l1 >= steepest:
            assert result.success and np.all(result.x == 0) and result.fun == 2.0
        assert result.history[-1].dual <= result.fun + 1e-12
    options = {"lam": 0.1, "tol": 0.0, "rng": 0}
    plain, tiny = (backend.bcfw(objective, epochs=5, l1=l1, **options) for l1 in (0.0, 1e-300))
    close(plain.x, tiny.x)
    whole = backend.bcfw(objective, epochs=5, l1=0.02, **options)
    backend.bcfw(objective, epochs=2, l1=0.02, checkpoint=file, **options)
    resumed = backend.bcfw(objective, epochs=5, l1=0.02, resume=file, **options)
    assert np.array_equal(resumed.x, whole.x) and 0 < np.sum(whole.x == 0) < np.sum(whole.x != 0)
    with pytest.raises(ValueError, match=r"l1 = 0\.02, this one has 0\.03"):
        backend.bcfw(objective, epochs=5, l1=0.03, resume=file, **options)
    with pytest.raises(ValueError, match="l1: expected a finite number >= 0, got -1"):
        backend.bcfw(objective, lam=0.1, l1=-1.0)


numbers = st.one_of(st.integers(-2, 2).map(float), st.floats(-3, 3, width=32))


@given(
    x=st.lists(numbers, min_size=4, max_size=4).map(np.array),
    v=st.lists(numbers, min_size=4, max_size=4).map(np.array),
    loss=numbers,
    most=st.sampled_from([0.1, 0.5, 1.0]),
    lam_n=st.sampled_from([1e-3, 1.0, 50.0]),
    where=st.sampled_from([slice(0, 4), slice(1, 3), slice(3, 4), None]),
    threshold=st.sampled_from([0.0, 0.7, 1.0]),
)
def test_no_step_has_a_higher_dual(x, v, loss, most, lam_n, where, threshold):
    """Against a dense grid with every kink in it: the dual along the line is concave and piecewise quadratic."""

    def dual(gamma):
        w = shrunk(x - gamma / lam_n * v, threshold, where)
        return gamma * loss - 0.5 * lam_n * w @ w

    gamma = best_step(x, v, float(loss + shrunk(x, threshold, where) @ v), most, lam_n, where, threshold)
    assert 0 <= gamma <= most
    kinks = np.concatenate([lam_n * (x - end)[v != 0] / v[v != 0] for end in (-threshold, threshold)])
    kinks = kinks[(kinks >= 0) & (kinks <= most)]
    grid = np.concatenate([np.linspace(0, most, 400), kinks, [gamma - 1e-6, gamma + 1e-6]])
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
    problem = drawn(rng, slice(0, 5))
    hinge, w = problem.hinge(backend), np.abs(rng.normal(size=5))
    one = backend.sgd(hinge, w, lam=0.1, step_size=0.7, epochs=1, batch_size=6, average="last", rng=0)
    g = hinge.value_and_gradient(w)[1]
    close(one.x, problem.clip(w - 0.7 * (g + 0.1 * w)))


def test_who_cannot_says_so(backend, rng):
    problem = drawn(rng, slice(1, 4))
    hinge = problem.hinge(backend)
    with pytest.raises(ValueError, match=r"w0: weights 1..3 must be >= 0, got -2.0 for weight 2"):
        backend.sgd(hinge, np.array([-1.0, 0.0, -2.0, -3.0, -1.0]), lam=0.1)
    problem.where = slice(0, 5, 2)
    with pytest.raises(ValueError, match="nonnegative: expected a slice of neighbouring weights"):
        backend.bcfw(problem.hinge(backend), lam=0.1)


def test_clipping_every_slice():
    """And shrinking, whose weights are where the subgradient of 1/2 ||w - x||^2 + t ||w||_1 has a 0."""
    x = np.array([-1.0, 2.0, -3.0, -0.0])
    for a, b in itertools.combinations_with_replacement(range(5), 2):
        expected = np.concatenate([x[:a], np.maximum(x[a:b], 0.0), x[b:]])
        assert np.array_equal(clipped(x, slice(a, b)), expected) and np.array_equal(
            shrunk(x, 0.0, slice(a, b)), expected
        )
        for t in (0.5, 1.0, 2.0):
            w, inside = shrunk(x, t, slice(a, b)), np.isin(np.arange(4), np.arange(4)[a:b])
            assert np.all(w[inside] >= 0) and np.array_equal((x - w)[w != 0], t * np.sign(w[w != 0]))
            assert np.all((x <= t)[w == 0]) and np.all((x >= -t)[(w == 0) & ~inside])
    assert clipped(x, None) is x and shrunk(x, 0.0) is x
