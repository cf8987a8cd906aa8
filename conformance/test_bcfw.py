"""Block-coordinate Frank-Wolfe against its equations with every output listed, against a generic solver, against batch Frank-Wolfe."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.test_models import sequence_model
from conformance.tolerances import close


class Listed:
    """A structural SVM with every output listed: for example i, directions V[i] (m, d) and losses loss[i] (m,), the truth first.

    The others follow by the smallest last label, then backwards: the order in which ties are broken.
    """

    def __init__(self, lam):
        self.lam, self.V, self.loss = lam, [], []

    def add(self, features, cost):
        """An example: features and task losses of its outputs, the truth first."""
        self.V.append(np.array(features) - features[0])
        self.loss.append(np.array(cost, dtype=np.float64))

    def w(self, alpha):
        return -sum(a @ V for a, V in zip(alpha, self.V, strict=True)) / (self.lam * len(self.V))

    def dual(self, alpha):
        w = self.w(alpha)
        return sum(a @ loss for a, loss in zip(alpha, self.loss, strict=True)) / len(self.V) - 0.5 * self.lam * w @ w

    def primal(self, w):
        worst = [np.max(loss + V @ w) for V, loss in zip(self.V, self.loss, strict=True)]
        return np.mean(worst) + 0.5 * self.lam * w @ w


def features(x, y, L, start_stop):
    """The joint feature vector of a labelling, written out."""
    n, F = x.shape
    x = np.concatenate([x, np.zeros((n, 2 * start_stop))], axis=1)
    if start_stop and n:
        x[0, F] = x[-1, F + 1] = 1.0
    weights, pairs = np.zeros((x.shape[1], L)), np.zeros((L, L))
    for t in range(n):
        weights[:, y[t]] += x[t]
        if t:
            pairs[y[t - 1], y[t]] += 1
    return np.concatenate([weights.ravel(), pairs.ravel()])


def listed(X, Y, L, lam, *, start_stop=True, cost=None):
    """A small labelling problem, listed."""
    problem, cost = Listed(lam), 1.0 - np.eye(L) if cost is None else cost
    for x, y in zip(X, Y, strict=True):
        y = tuple(int(label) for label in y)
        others = sorted(set(itertools.product(range(L), repeat=len(y))) - {y}, key=lambda z: z[::-1])
        outputs = [y, *others]
        problem.add(
            [features(np.asarray(x), z, L, start_stop) for z in outputs],
            [sum(cost[a, b] for a, b in zip(y, z, strict=True)) for z in outputs],
        )
    return problem


def labelling(rng, lengths, F=3, L=3):
    return [rng.normal(size=(n, F)) for n in lengths], [rng.integers(0, L, n) for n in lengths]


def hinge(backend, X, Y, L=3, F=3, **options):
    model = backend.SequenceModel(F, L, **options)
    return backend.StructuralHinge(model, model.pack(X, Y))


def by_hand(problem, epochs, seed, *, cached_passes, average, line_search=True):
    """(w, dual) to be returned after each epoch, by the equations; weights alpha over every output, w = w(alpha) afresh each time."""
    n, lam, rng, t = len(problem.V), problem.lam, np.random.default_rng(seed), 0
    alpha = [np.eye(len(loss))[0] for loss in problem.loss]
    mean, known, returned = [a.copy() for a in alpha], [[0] for _ in alpha], []
    restless = [False] * n

    def scores(i):
        return problem.loss[i] + problem.V[i] @ problem.w(alpha)

    def move(i, towards, most, gamma=None):
        v = towards @ problem.V[i]
        if gamma is None:
            gamma = min(most, lam * n * (towards @ scores(i)) / (v @ v)) if v @ v > 0 else 0.0
        alpha[i] = alpha[i] + gamma * towards
        alpha[i][np.abs(alpha[i]) < 1e-15] = 0.0

    def pair(i):
        g, mine = scores(i), np.array(known[i])
        active = mine[alpha[i][mine] > 0]
        apart = g[mine].max() - g[active].min()
        worst = next(y for y in active if g[y] <= g[active].min() + 1e-6 * apart)
        return worst, next(y for y in mine if g[y] >= g[mine].max() - 1e-6 * apart), apart

    for _ in range(epochs):
        for number, order in enumerate([rng.permutation(n) for _ in range(1 + cached_passes)]):
            for i in order:
                if number > 0 and not restless[i]:
                    continue
                if number == 0:
                    s = int(np.argmax(scores(i)))
                    s = s if scores(i)[s] > scores(i)[0] else 0
                    known[i] += [s] if s not in known[i] else []
                _, s, violation = pair(i)
                restless[i] = violation > 1e-6 * problem.loss[i][known[i]].max()
                if number == 0:
                    move(i, np.eye(len(alpha[i]))[s] - alpha[i], 1.0, None if line_search else 2 * n / (2 * n + t))
                for _ in range(10 if cached_passes else 0):
                    worst, best, left = pair(i)
                    if left <= 0.05 * violation:
                        break
                    move(i, np.eye(len(alpha[i]))[best] - np.eye(len(alpha[i]))[worst], alpha[i][worst])
                t += 1
                share = 1.0 if average == "last" else 2 / (t + 1)
                mean = [m + share * (a - m) for m, a in zip(mean, alpha, strict=True)]
        returned.append((problem.w(mean), problem.dual(mean)))
    return returned


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


@pytest.mark.parametrize(
    "options",
    [
        {"average": "weighted"},
        {"capacity": 2},
        {"capacity": 3, "cached_passes": 1, "average": "weighted"},
        {
            "cached_passes": 0,
            "average": "weighted",
            "line_search": False,
            "epochs": 30,
        },  # more outputs than first had room
    ],
)
def test_panels_take_the_same_steps(other, rng, options):
    """Real features: from the same orders, the same weights and bounds to rounding."""
    X, Y = labelling(rng, (5, 1, 6, 0, 4, 6, 2), L=4)
    options = {"lam": 0.01, "epochs": 6, "tol": 0.0, "rng": 3, **options}
    ours, theirs = (b.bcfw(hinge(b, X, Y, L=4), **options) for b in (reference, other))
    close(theirs.x, ours.x)
    for field in ("objective", "dual", "gap"):
        close([getattr(row, field) for row in theirs.history], [getattr(row, field) for row in ours.history])


def test_panels_agree_on_letters(other):
    words = reference.load_letters().take(np.arange(0, 6000, 100))
    runs = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        runs.append(b.bcfw(b.StructuralHinge(model, model.pack(words.X, words.Y)), lam=0.01, epochs=3, tol=0.0, rng=0))
    close(runs[1].x, runs[0].x)
    close(runs[1].history[-1].dual, runs[0].history[-1].dual)


@given(problem=strategies.sequence_problems(integer=True), options=st.sampled_from([{}, {"cached_passes": 0}]))
def test_ties_zeros_and_empty_sequences(backend, problem, options):
    """Integer features tie all over: trajectories may differ, bounds may not."""
    model, data = sequence_model(backend, problem)
    everything = listed(
        problem.X,
        problem.Y,
        problem.n_labels,
        0.5,
        start_stop=problem.options["start_stop"],
        cost=problem.options.get("cost"),
    )
    result = backend.bcfw(
        backend.StructuralHinge(model, data), lam=0.5, epochs=3, tol=0.0, average="last", rng=0, **options
    )
    close(result.fun, everything.primal(result.x))
    assert result.certificate >= -1e-9 and np.all(np.diff([row.dual for row in result.history]) >= -1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("average", ["weighted", "last"])
def test_features_of_any_scale(backend, rng, scale, average):
    """Squares overflow or vanish; what is returned is finite and certified all the same."""
    X, Y = labelling(rng, (2, 3, 1))
    objective = hinge(backend, [scale * x for x in X], Y)
    result = backend.bcfw(objective, lam=0.1, epochs=5, tol=0.0, average=average, rng=0)
    assert np.all(np.isfinite(result.x)) and np.isfinite(result.fun) and result.certificate >= -1e-9
    assert result.history[-1].dual >= 0


@pytest.mark.parametrize("lengths", [(0,), (3,), (0, 0), (1,)])
def test_one_example_and_nothing_to_learn(backend, rng, lengths):
    X, Y = labelling(rng, lengths)
    for average, tol in (("weighted", 0.1), ("last", 1e-2)):
        result = backend.bcfw(hinge(backend, X, Y), lam=0.1, epochs=300, tol=tol, average=average, rng=0)
        assert result.success and result.certificate <= tol * result.fun
    one_label = hinge(backend, X, [0 * y for y in Y], L=1)
    result = backend.bcfw(one_label, lam=0.1, rng=0)
    assert result.nit == 1 and result.fun == 0.0 and not np.any(result.x)


def test_no_epochs_is_the_start(backend, rng):
    X, Y = labelling(rng, (2, 3))
    result = backend.bcfw(hinge(backend, X, Y), lam=0.1, epochs=0)
    assert result.history == () and not np.any(result.x) and result.fun == result.certificate == 2.5


def test_rng_and_callback(backend, rng):
    X, Y = labelling(rng, (2, 3, 4))
    objective = hinge(backend, X, Y)
    one, two = (backend.bcfw(objective, lam=0.1, epochs=2, tol=0.0, rng=r) for r in (5, np.random.default_rng(5)))
    assert np.array_equal(one.x, two.x)
    assert not np.array_equal(one.x, backend.bcfw(objective, lam=0.1, epochs=2, tol=0.0, rng=6).x)
    seen = []
    stopped = backend.bcfw(objective, lam=0.1, tol=0.0, callback=lambda row: seen.append(row) or row.epoch == 2)
    assert tuple(seen) == stopped.history and stopped.nit == 2 and "callback" in stopped.message and stopped.success


@given(problem=strategies.sequence_problems())
def test_corners_are_the_planes_of_the_hinge(backend, space, problem):
    model, data = sequence_model(backend, problem, space.put(0.0))
    objective = backend.StructuralHinge(model, data)
    w = np.random.default_rng(5).normal(size=model.size).astype(space.dtype)
    everything = listed(
        problem.X,
        problem.Y,
        problem.n_labels,
        1.0,
        start_stop=problem.options["start_stop"],
        cost=problem.options.get("cost"),
    )
    batch = [len(problem.X) - 1, 0]
    corners = objective.corners(space.put(w), batch)
    directions, losses = space.get(corners.directions), space.get(corners.losses)
    assert directions.shape == (2, 1, model.size) and losses.shape == (2, 1)
    assert directions.dtype == losses.dtype == space.dtype and space.get(corners.count).tolist() == [1, 1]
    for b, i in enumerate(batch):
        V, loss = everything.V[i].astype(np.float64), everything.loss[i]
        close(losses[b, 0] + directions[b, 0] @ w, np.max(loss + V @ w), space.dtype, 10.0)
        same = np.all(np.abs(V - directions[b, 0]) <= 1e-5, axis=1) & (loss == losses[b, 0])
        assert np.any(same)


def test_corners_by_rank(backend, space, rng):
    X, Y = rng.normal(size=(3, 2)), np.array([0, 2, 1])
    model = backend.MulticlassModel(2, 3)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    w = rng.normal(size=6).astype(space.dtype)
    corners = objective.corners(space.put(w), k=5)
    assert space.get(corners.count).tolist() == [3, 3, 3]
    for x, y, directions, losses in zip(X, Y, space.get(corners.directions), space.get(corners.losses), strict=True):
        planes = [np.outer(x, np.eye(3)[c] - np.eye(3)[y]).ravel() for c in range(3)]
        values = [(c != y) + planes[c] @ w for c in range(3)]
        close(losses[:3] + directions[:3] @ w, np.sort(values)[::-1], space.dtype, 10.0)
        assert np.all(losses[3:] == -np.inf) and not np.any(directions[3:])
        for loss, direction in zip(losses[:3], directions[:3], strict=True):
            assert any(loss == (c != y) and np.allclose(direction, planes[c], atol=1e-5) for c in range(3))


def test_bad_input_is_named(backend, rng):
    X, Y = labelling(rng, (2, 3))
    objective = hinge(backend, X, Y)
    for options, message in (
        ({"lam": 0.0}, "lam: the dual needs a finite number > 0, got 0.0"),
        ({"lam": np.nan}, "lam: the dual needs"),
        ({"tol": -1.0}, "tol: expected a finite number >= 0, got -1.0"),
        ({"epochs": -1}, "epochs: expected an integer >= 0, got -1"),
        ({"cached_passes": -1}, "cached_passes: expected an integer >= 0"),
        ({"capacity": 0}, "capacity: expected an integer >= 1, got 0"),
        ({"average": "uniform"}, "average: expected one of last, weighted, got 'uniform'"),
    ):
        with pytest.raises(ValueError, match=message):
            backend.bcfw(objective, **{"lam": 0.1, **options})
    log = backend.LogLoss(objective.model, objective.data)
    with pytest.raises(backend.UnsupportedError, match="LogLoss has no corners"):
        backend.bcfw(log, lam=0.1)
    with pytest.raises(TypeError, match="bcfw needs corners"):
        backend.bcfw(object(), lam=0.1)
    with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
        objective.corners(objective.zeros(), k=0)
    with pytest.raises(ValueError, match=r"batch: expected example numbers in 0..1"):
        objective.corners(objective.zeros(), [2])
    assert objective.corners(objective.zeros(), []).directions.shape == (0, 1, objective.model.size)
    model = backend.ListModel(lambda x: np.eye(2), backend.Table, task_loss=lambda x, y: np.ones(2), size=2)
    with pytest.raises(ValueError, match="task_loss: expected 0 for the true output, got 1.0 in example 0"):
        backend.bcfw(backend.StructuralHinge(model, model.pack([0], [1])), lam=0.1)


def test_bcfw_works_in_every_namespace(backend, space, rng):
    X, Y = labelling(rng, (2, 3, 1), F=2, L=2)
    everything = listed(X, Y, 2, 0.1)
    model = backend.SequenceModel(2, 2)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    for options in ({"cached_passes": 0, "average": "weighted"}, {"cached_passes": 1, "average": "last"}):
        result = backend.bcfw(objective, lam=0.1, epochs=3, tol=0.0, rng=0, **options)
        x = space.get(result.x)
        assert x.dtype == space.dtype
        w, dual = by_hand(everything, 3, 0, **options)[-1]
        close(result.fun, everything.primal(x.astype(np.float64)), space.dtype, 10.0)
        if space.dtype == "float64" or options["cached_passes"] == 0:  # else pairs tie by rounding, and budgets differ
            close(x, w, space.dtype, 10.0)
            close(result.certificate, everything.primal(w) - dual, space.dtype, 10.0)
        assert result.certificate >= -1e-5


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
        assert run.success and run.certificate <= 1e-3 * run.fun
        assert np.all(duals <= lowest * (1 + 1e-9) + 5e-16) and np.all(np.diff(duals) >= -1e-9 * lowest)
        problem = listed(X, Y, 3, lam)
        np.testing.assert_allclose(run.fun, problem.primal(run.x), rtol=1e-5, atol=5e-16)  # losses of 1 cancel
        np.testing.assert_allclose(duals[-1], runs[0].history[-1].dual, rtol=2e-3)


@pytest.mark.parametrize("options", [{}, {"cached_passes": 0}])
def test_directions_too_long_are_not_taken(backend, rng, options):
    """Differences of features overflow, and inner products with them: the start is returned, with its true bounds."""
    X, Y = labelling(rng, (2, 3, 1))
    X = [1e308 * np.sign(x) for x in X]
    result = backend.bcfw(hinge(backend, X, Y), lam=0.1, epochs=3, tol=0.0, rng=0, **options)
    assert not np.any(result.x) and result.fun == result.certificate == 2.0 and result.history[-1].dual == 0.0


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
    result = backend.bcfw(Nowhere(), lam=0.1, tol=tol, epochs=epochs, rng=0, callback=lambda row: True)
    assert not result.success and "diverged" in result.message and result.nit == min(epochs, 1)


def test_no_epochs_on_a_solved_problem(backend, rng):
    X, Y = labelling(rng, (2, 3))
    solved = hinge(backend, X, [0 * y for y in Y], L=1)
    for tol in (0.0, 1e-3):
        result = backend.bcfw(solved, lam=0.1, epochs=0, tol=tol)
        assert result.success and result.certificate == 0.0 and "above" not in result.message
    result = backend.bcfw(hinge(backend, X, Y), lam=0.1, epochs=0)
    assert not result.success and "above 0.001" in result.message


@pytest.mark.parametrize("name", ["epochs", "cached_passes", "capacity"])
def test_truth_values_are_no_numbers_of_passes(backend, rng, name):
    X, Y = labelling(rng, (2,))
    with pytest.raises(TypeError, match=f"{name}: expected an integer >= ., got True"):
        backend.bcfw(hinge(backend, X, Y), lam=0.1, **{name: True})


def test_bcfw_works_up_to_rounding_and_says_no_more(backend, space, rng):
    """Run on until gaps are rounding: a tol below that of the dtype is never said to be reached, whatever the sign of the gap."""
    resolution = np.finfo(space.dtype).eps
    for seed in range(4):
        X, Y = labelling(np.random.default_rng(seed), (2, 1), F=2, L=2)
        model = backend.SequenceModel(2, 2)
        objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
        for tol in (0.0, 0.1 * resolution):
            result = backend.bcfw(objective, lam=0.1, epochs=15, tol=float(tol), rng=0)
            assert result.nit == 15 and "reached in" not in result.message and result.success == (tol == 0)
            w = space.get(result.x).astype(np.float64)
            close(result.fun, listed(X, Y, 2, 0.1).primal(w), space.dtype)
            assert result.certificate >= -10 * resolution
