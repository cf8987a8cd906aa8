"""Alignment: scores, adjoint and task loss written out; learning from planted alignments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.tolerances import close
from reference.optimizers.bcfw import BCFW
from reference.optimizers.sgd import SGD
from reference.steps import Constant
from reference.structures.scores import inner
from reference.training.counterparts import counterpart


def alignments(p, q, null):
    """Every alignment of p rows with q columns: all of the smaller side, or with ``null`` any part of it."""
    for y in itertools.product(range(-1, q), repeat=p):
        taken = [j for j in y if j >= 0]
        if len(set(taken)) == len(taken) and (null or len(taken) == min(p, q)):
            yield np.array(y, np.int64)


@st.composite
def problems(draw):
    """(null, F, X, Y): up to three examples, some without rows or columns."""
    null, F = draw(st.booleans()), draw(st.integers(0, 3))
    shapes = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3))
    entry = st.one_of(st.integers(-1, 1).map(float), st.floats(-2, 2, width=32))
    X = [
        np.array(draw(st.lists(entry, min_size=p * q * F, max_size=p * q * F)), np.float64).reshape(p, q, F)
        for p, q in shapes
    ]
    return null, F, X, [draw(st.sampled_from(list(alignments(p, q, null)))) for p, q in shapes]


def planted(backend, rng, null, n=12, n_features=4, noise=0.0):
    """Examples whose alignments are best under weights of unit size (and under noise in the scores)."""
    w = rng.normal(size=n_features + null)
    X = [rng.normal(size=(*rng.integers(2, 6, 2), n_features)) for _ in range(n)]
    teacher = backend.AlignmentModel(n_features, null=null)
    return X, teacher.predict(teacher.pack(X), None, w), w


@given(problem=problems())
def test_scores_are_sums_over_pairs(backend, problem):
    """For every alignment: its score, its Hamming loss, its features; the structure's outputs are these and no
    others.
    """
    null, F, X, Y = problem
    model = backend.AlignmentModel(F, null=null)
    data = model.pack(X, Y)
    w = np.random.default_rng(0).normal(size=model.size)
    diameters, counts = model.squared_diameters(data), model.counts(data)
    for i, (x, true) in enumerate(zip(X, Y, strict=True)):
        p, q = x.shape[:2]
        one = np.array([i])
        structure = backend.Matching(*model.scores(data, one, w))
        loss, gold = model.task_loss(data, one), model.gold(data, one)
        each = list(alignments(p, q, null))
        assert len(list(structure.enumerate())) == len(each) == counts[i]
        features = []
        for y in each:
            parts = structure.parts(np.where(y < 0, q + np.arange(p), y) if null else y)
            features.append(model.pullback(data, one, w, parts))
            expected = sum((x[r, c] for r, c in enumerate(y) if c >= 0), np.zeros(F))
            close(features[-1], [*expected, np.sum(y < 0)] if null else expected)
            close(structure.score(np.where(y < 0, q + np.arange(p), y) if null else y), features[-1] @ w)
            assert inner(loss, parts) == np.sum(y != true)
        close(model.pullback(data, one, w, gold), features[[y.tolist() for y in each].index(true.tolist())])
        for a, b in itertools.combinations(features, 2):
            assert np.sum((a - b) ** 2) <= diameters[i] * (1 + 1e-9) + 1e-12


@given(problem=problems())
def test_the_adjoint_identity_of_alignments(backend, space, problem):
    null, F, X, Y = problem
    model = backend.AlignmentModel(F, null=null)
    data = model.pack(X, Y, like=space.put(0.0))
    rng = np.random.default_rng(1)
    w, dw = rng.normal(size=model.size), rng.normal(size=model.size)
    for i in range(data.n):
        one = np.array([i])
        change = space.get(model.pushforward(data, one, space.put(w), space.put(dw)).values)
        before, after = (space.get(model.scores(data, one, space.put(v)).values) for v in (w, w + dw))
        allowed = before > -np.inf
        assert np.array_equal(allowed, after > -np.inf)
        close(after[allowed] - before[allowed], change[allowed], space.dtype, 10.0)
        g = rng.normal(size=change.shape)
        scores = backend.MatchingScores(space.put(g))
        close((change * g).sum(), dw @ space.get(model.pullback(data, one, space.put(w), scores)), space.dtype, 100.0)


@given(problem=problems())
def test_predicted_alignments_are_best(backend, space, problem):
    null, F, X, _ = problem
    model = backend.AlignmentModel(F, null=null)
    w = np.random.default_rng(2).normal(size=model.size)
    data = model.pack(X, like=space.put(0.0))
    for x, y in zip(X, model.predict(data, None, space.put(w)), strict=True):
        p, q = x.shape[:2]
        scores = {
            tuple(a.tolist()): sum(x[r, c] @ w[:F] if c >= 0 else (w[F] if null else 0.0) for r, c in enumerate(a))
            for a in alignments(p, q, null)
        }
        assert y.shape == (p,) and y.dtype == np.int64
        close(scores[tuple(y.tolist())], max(scores.values()), space.dtype, 10.0)


def test_the_weight_of_none_decides_how_many_rows_are_aligned(backend):
    model = backend.AlignmentModel(1, null=True)
    data = model.pack([np.array([[[3.0], [0.0]], [[2.0], [1.0]], [[0.0], [0.0]]])])
    for none, expected in ((-5.0, [0, 1, -1]), (1.5, [0, -1, -1]), (4.0, [-1, -1, -1])):
        assert model.predict(data, None, np.array([1.0, none]))[0].tolist() == expected


@pytest.mark.parametrize("null", [False, True])
def test_bcfw_learns_planted_alignments(backend, rng, null):
    """To a certified relative gap of 2 %: the training alignments, and most new ones of the same weights."""
    X, Y, w = planted(backend, rng, null, n=16)
    model = backend.AlignmentModel(4, null=null)
    hinge = backend.StructuralHinge(model, model.pack(X, Y))
    found = backend.bcfw(hinge, lam=0.003, tol=0.02, epochs=200, rng=0)
    assert found.success and 0 <= found.certificate <= 0.02 * found.fun
    value = hinge.value_and_gradient(found.x)[0] + 0.0015 * found.x @ found.x
    close(value, found.fun)
    for v in rng.normal(size=(20, model.size)):  # the certificate bounds from below
        other = found.x + 0.3 * v
        assert hinge.value_and_gradient(other)[0] + 0.0015 * other @ other >= found.fun - found.certificate - 1e-9
    new = [rng.normal(size=(5, 5, 4)) for _ in range(30)]
    data = model.pack(new)
    right = np.concatenate(model.predict(data, None, found.x)) == np.concatenate(model.predict(data, None, w))
    assert right.mean() > 0.85 and w @ found.x > 0.9 * np.linalg.norm(w) * np.linalg.norm(found.x)


@pytest.mark.parametrize("optimizer", ["casimir", "svrg"])
def test_smoothing_by_the_best_alignments_trains(backend, rng, optimizer):
    """A few passes come within twice the optimum, and their certificate does not exclude it."""
    X, Y, _ = planted(backend, rng, True, n=6)
    model = backend.AlignmentModel(4, null=True)
    data = model.pack(X, Y)
    exact = backend.bcfw(backend.StructuralHinge(model, data), lam=0.02, tol=0.01, rng=0)
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(3))
    options = {"lam": 0.02, "mu": 0.5, "epochs": 8, "rng": 0, "step_size": 0.05}
    options |= {"kappa": 0.5} if optimizer == "casimir" else {}
    result = getattr(backend, optimizer)(hinge, np.full(model.size, 1e-3), **options)
    assert exact.fun - exact.certificate <= result.fun < 2 * exact.fun
    assert result.fun - result.certificate <= exact.fun


def test_panels_train_alike(other, rng):
    """Scores without ties: one trajectory."""
    X, Y, _ = planted(reference, rng, True, n=5)
    runs = []
    for panel in (reference, other):
        model = panel.AlignmentModel(4, null=True)
        hinge = panel.StructuralHinge(model, model.pack(X, Y), smoothing=panel.smoothings.TopK(2))
        w0 = np.random.default_rng(3).normal(size=model.size)
        runs.append(panel.sgd(hinge, w0, lam=0.1, mu=1.0, step_size=0.01, epochs=2, rng=0))
    np.testing.assert_allclose(runs[1].x, runs[0].x, rtol=1e-10)


def shaped(rng, null):
    """Alignments of random shapes, among them no rows, no columns, one pair; rows at random where they may stay
    unaligned.
    """
    shapes = [(0, 0), (0, 2), (2, 0), (1, 1), (1, 3), (3, 1), (2, 5), (5, 2), (4, 4), (6, 5), (5, 7)]
    X, Y = [rng.integers(-1, 2, (p, q, 3)).astype(float) for p, q in shapes], []
    for p, q in shapes:
        y, m = np.full(p, -1), rng.integers(min(p, q) + 1) if null else min(p, q)
        y[rng.permutation(p)[:m]] = rng.permutation(q)[:m]
        Y.append(y)
    return X, Y


def passes(objective, w, order, lam):
    """A hinge at w, then two passes of stochastic gradients and five, of three orders, of block-coordinate
    Frank-Wolfe.
    """
    value, gradient, task_loss, exact = objective.linearize(w)
    assert exact == 1.0 and objective.value_and_gradient(w)[0] == value
    sgd = counterpart(SGD(lam, Constant(0.25)), objective)
    state, found = sgd.init(objective, w), [np.array([value, task_loss]), gradient]
    for _ in range(2):
        state = sgd.sweep(objective, state, order)
        found += [state.x, state.mean]
    bcfw = counterpart(BCFW(0.1, capacity=3, average="weighted"), objective)
    state = bcfw.init(objective)
    for orders in ([order, order[::-1], order], [order, order]):
        state = bcfw.sweep(objective, state, orders)
        found += [state.x, state.mean, np.array([state.loss, state.mean_loss, state.t])]
    return found


@pytest.mark.parametrize("null", [False, True])
def test_loops_agree_from_one_state(other, rng, null):
    """Real features: no ties, one trajectory in both panels."""
    X, Y = shaped(rng, null)
    X = [x + 0.1 * rng.normal(size=x.shape) for x in X]
    w, order, answers = rng.normal(size=3 + null), rng.permutation(len(X)), []
    for panel in (reference, other):
        model = panel.AlignmentModel(3, null=null)
        answers.append(passes(panel.StructuralHinge(model, model.pack(X, Y)), w, order, 0.1))
    for ours, theirs in zip(*answers, strict=True):
        close(theirs, ours, scale=10.0)


@pytest.mark.parametrize("null", [False, True])
def test_a_loop_takes_what_best_takes_where_alignments_tie(backend, rng, null):
    """Small integers, whose sums are exact: a subclass, whose loops ask ``Matching.best``, gets the same to the bit."""
    X, Y = shaped(rng, null)

    class Mine(backend.AlignmentModel):
        pass

    for w in (np.zeros(3 + null), *rng.integers(-1, 2, (4, 3 + null)).astype(float)):
        order, answers = rng.permutation(len(X)), []
        for kind in (backend.AlignmentModel, Mine):
            model = kind(3, null=null)
            answers.append(passes(backend.StructuralHinge(model, model.pack(X, Y)), w, order, 0.0)[:5])
        for ours, theirs in zip(*answers, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ([np.zeros((2, 2))], None, ValueError, r"X\[0\]: expected features of shape \(p, q, 3\), got \(2, 2\)"),
        ([np.zeros((2, 2, 4))], None, ValueError, r"X\[0\]: expected features of shape \(p, q, 3\), got \(2, 2, 4\)"),
        (
            [np.full((1, 1, 3), np.inf)],
            None,
            ValueError,
            r"X\[0\]\[0\]: column 0: feature 0: expected a finite number, got inf",
        ),
        ([np.zeros((2, 2, 3))], [], ValueError, "Y: expected 1 alignments"),
        ([np.zeros((2, 2, 3))], [[0]], ValueError, r"Y\[0\]: expected 2 columns, one for each row, got 1"),
        ([np.zeros((2, 2, 3))], [[0, 0]], ValueError, r"Y\[0\]\[1\]: expected each column once at most, got \[0, 0\]"),
        ([np.zeros((2, 2, 3))], [[0, 2]], ValueError, r"Y\[0\]\[1\]: expected columns in 0..1, or -1 for none, got 2"),
        ([np.zeros((2, 2, 3))], [[0, -1]], ValueError, r"Y\[0\]: expected 2 aligned rows \(null=True allows fewer\)"),
        ([np.zeros((2, 2, 3))], [[0.0, 1.0]], TypeError, r"Y\[0\]: expected column numbers of shape \(2,\)"),
    ],
)
def test_bad_alignments_are_named(backend, X, Y, error, message):
    with pytest.raises(error, match=message):
        backend.AlignmentModel(3).pack(X, Y)


def test_alignments_of_another_model_are_refused(backend):
    packed = backend.AlignmentModel(2, null=True).pack([np.zeros((2, 2, 2))], [[0, -1]])
    with pytest.raises(ValueError, match="data: packed by a different model, with 2 features; this one has 3"):
        backend.StructuralHinge(backend.AlignmentModel(3), packed)
    with pytest.raises(ValueError, match="null=True allows fewer"):
        backend.StructuralHinge(backend.AlignmentModel(2), packed)
    model = backend.AlignmentModel(1)
    with pytest.raises(ValueError, match="Y: this data was packed without alignments"):
        backend.StructuralHinge(model, model.pack([np.zeros((1, 1, 1))])).value_and_gradient(np.zeros(1))
    with pytest.raises(TypeError, match="null: expected True or False, got 1"):
        backend.AlignmentModel(1, null=1)
