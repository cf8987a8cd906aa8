"""The model of labelled trees: features, adjoint, packing, and training on trees whose truth was planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.models.test_models import fields
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.optimizers.bcfw import BCFW
from reference.optimizers.saga import SAGA
from reference.optimizers.sgd import SGD
from reference.optimizers.subproblem import Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking


def tree_model(backend, problem, like=None):
    model = backend.TreeModel(problem.n_features, problem.n_labels, **problem.options)
    return model, model.pack(problem.X, problem.Y, like=like)


def make_trees(n, rng, F=4, L=3, largest=8):
    """n labelled forests of Gaussian features: the best labellings under planted weights, which are returned too."""
    model, X = reference.TreeModel(F, L), []
    for _ in range(n):
        p = int(rng.integers(1, largest + 1))
        parents = np.array([-1 if v == 0 or rng.random() < 0.1 else rng.integers(v) for v in range(p)])
        X.append((rng.normal(size=(p, F)), parents))
    w = 2.0 * rng.normal(size=model.size)
    return X, model.predict(model.pack(X), None, w), w


def accuracy(model, X, Y, w):
    return np.mean(np.concatenate(model.predict(model.pack(X), None, w)) == np.concatenate(Y))


@given(problem=strategies.tree_problems())
def test_the_adjoint_identity(backend, space, problem):
    """<J dw, g> = <dw, J^T g> on every tree, and J dw is the change of the scores (they are linear)."""
    model, data = tree_model(backend, problem, space.put(0.0))
    rng = np.random.default_rng(1)
    w, dw = rng.normal(size=model.size), rng.normal(size=model.size)
    for piece in model.chunks(data, np.arange(data.n)):
        scores = model.scores(data, piece, space.put(w))
        moved = fields(space, model.scores(data, piece, space.put(w + dw)))
        change = model.pushforward(data, piece, space.put(w), space.put(dw))
        for a, b, c in zip(moved, fields(space, scores), fields(space, change), strict=True):
            close(a - b, c, space.dtype, 10.0)
        g = scores._replace(
            unary=space.put(rng.normal(size=scores.unary.shape)),
            pairwise=space.put(rng.normal(size=scores.pairwise.shape)),
        )
        left = sum((a * b).sum() for a, b in zip(fields(space, change), fields(space, g), strict=True))
        close(left, dw @ space.get(model.pullback(data, piece, space.put(w), g)), space.dtype, 100.0)


@given(problem=strategies.tree_problems())
def test_scores_are_features_times_weights(backend, problem):
    """Written out for one tree after another: unary, roots, pairs, Hamming or weighted loss, true parts, and sizes."""
    model, data = tree_model(backend, problem)
    F, L = problem.n_features, problem.n_labels
    w = np.random.default_rng(2).normal(size=model.size)
    W, A = w[: (F + 1) * L].reshape(-1, L), w[(F + 1) * L :].reshape(L, L)
    cost = problem.options.get("cost", 1.0 - np.eye(L))
    bounds = model.squared_diameters(data)
    for i, ((x, parents), y) in enumerate(zip(problem.X, problem.Y, strict=True)):
        piece = np.array([i])
        scores = model.scores(data, piece, w)
        close(scores.unary, x @ W[:F] + (parents < 0)[:, None] * W[F])
        close(scores.pairwise, A)
        assert np.array_equal(scores.parents, parents) and scores.counts is None
        close(model.task_loss(data, piece).unary, cost[y].reshape(len(y), L))
        gold = model.gold(data, piece)
        close(gold.unary, np.eye(L)[y].reshape(len(y), L))
        pairs = np.zeros((L, L))
        below = parents >= 0
        np.add.at(pairs, (y[parents[below]], y[below]), 1.0)
        close(gold.pairwise, pairs)
        outputs = [
            model.pullback(data, piece, w, backend.Tree(*scores).parts(z)) for z in backend.Tree(*scores).enumerate()
        ]
        assert all(np.sum((a - b) ** 2) <= bounds[i] + 1e-9 for a in outputs[:9] for b in outputs)
    assert model.counts(data) == [L ** len(y) for y in problem.Y]


@given(problem=strategies.tree_problems())
def test_predict_gives_best_labellings_in_the_batch_order(backend, space, problem):
    model, data = tree_model(backend, problem, space.put(0.0))
    w = space.put(np.random.default_rng(3).normal(size=model.size))
    batch = np.arange(data.n)[::-1]
    for i, y in zip(batch, model.predict(data, batch, w), strict=True):
        tree = backend.Tree(*model.scores(data, np.array([i]), w))
        assert len(y) == len(problem.Y[i])
        close(space.get(tree.score(space.integers(y))), space.get(tree.best()[0]), space.dtype)


def test_a_path_is_a_sequence(backend, rng):
    """The same losses and gradients as the sequence model; its stop weights are 0."""
    X, Y = [rng.normal(size=(n, 3)) for n in (4, 1, 6)], [rng.integers(0, 3, n) for n in (4, 1, 6)]
    sequences, trees = backend.SequenceModel(3, 3), backend.TreeModel(3, 3)
    packed = trees.pack([(x, np.arange(len(x)) - 1) for x in X], Y)
    w = rng.normal(size=trees.size)
    longer = np.concatenate([w[:12], np.zeros(3), w[12:]])
    for smoothing, mu in (
        (backend.smoothings.Max(), 0.0),
        (backend.smoothings.Entropy(), 0.5),
        (backend.smoothings.TopK(3), 0.5),
        (backend.smoothings.SquaredL2(32), 0.5),
    ):
        ours = backend.StructuralHinge(trees, packed, smoothing=smoothing).linearize(w, mu=mu)
        theirs = backend.StructuralHinge(sequences, sequences.pack(X, Y), smoothing=smoothing).linearize(longer, mu=mu)
        close(ours.value, theirs.value)
        close(ours.gradient, np.delete(theirs.gradient, slice(12, 15)))
        close((ours.task_loss, ours.exact), (theirs.task_loss, theirs.exact))


@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize("smoothing", ["Max", "Entropy", "TopK", "SquaredL2"])
def test_gradients_are_finite_differences(backend, rng, smoothing, mu):
    """At random weights, where nothing ties; the max without smoothing is piecewise linear."""
    X, Y, _ = make_trees(6, rng)
    model = backend.TreeModel(4, 3)
    chosen = {
        "Max": backend.smoothings.Max(),
        "Entropy": backend.smoothings.Entropy(),
        "TopK": backend.smoothings.TopK(3),
        "SquaredL2": backend.smoothings.SquaredL2(16),
    }
    objective = backend.StructuralHinge(model, model.pack(X, Y), smoothing=chosen[smoothing])
    mu = 0.0 if smoothing == "Max" else mu
    w, h = rng.normal(size=model.size), 1e-5
    value, gradient = objective.value_and_gradient(w, mu=mu)
    for _ in range(3):
        d = rng.normal(size=model.size)
        ahead, behind = (objective.value_and_gradient(w + s * h * d, mu=mu)[0] for s in (1, -1))
        np.testing.assert_allclose((ahead - behind) / (2 * h), gradient @ d, atol=1e-5 * (1 + abs(value)))


def test_the_hinge_learns_planted_trees_with_a_certificate(backend, rng):
    """Block-coordinate Frank-Wolfe to a relative gap of 2 %, then other trees of the same kind."""
    X, Y, _ = make_trees(60, rng)
    model = backend.TreeModel(4, 3)
    objective = backend.StructuralHinge(model, model.pack(X[:40], Y[:40]))
    result = backend.bcfw(objective, lam=0.006, tol=0.02, epochs=100, rng=0)
    assert result.success and result.certificate <= 0.02 * result.fun
    value = objective.value_and_gradient(result.x)[0] + 0.003 * result.x @ result.x
    close(value, result.fun)
    assert accuracy(model, X[:40], Y[:40], result.x) > 0.9 and accuracy(model, X[40:], Y[40:], result.x) > 0.85


def test_the_log_loss_learns_planted_trees(backend, rng):
    X, Y, planted = make_trees(60, rng)
    model = backend.TreeModel(4, 3)
    objective = backend.LogLoss(model, model.pack(X[:40], Y[:40]))
    result = backend.lbfgs(objective, lam=0.003, iterations=60)
    gradient = objective.value_and_gradient(result.x)[1] + 0.003 * result.x
    assert np.linalg.norm(gradient) < 1e-3
    assert result.fun < objective.value_and_gradient(planted)[0] + 0.0015 * planted @ planted
    assert accuracy(model, X[:40], Y[:40], result.x) > 0.95 and accuracy(model, X[40:], Y[40:], result.x) > 0.85


def test_training_works_in_every_namespace(backend, space, rng):
    X, Y, _ = make_trees(4, rng, largest=4)
    model = backend.TreeModel(4, 3)
    data = model.pack(X, Y, like=space.put(0.0))
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2))
    result = backend.sgd(hinge, lam=0.1, mu=0.5, epochs=1, rng=0)
    assert space.get(result.x).dtype == np.dtype(space.dtype)
    log = backend.LogLoss(model, data)
    assert backend.sgd(log, lam=0.1, step_size=0.1, epochs=2, rng=0).fun < log.value_and_gradient(log.zeros())[0]


@given(problem=strategies.tree_problems(), data=st.data())
def test_panels_agree(other, problem, data):
    mu = data.draw(st.sampled_from([0.05, 0.5]))
    answers = []
    for b in (reference, other):
        model, packed = tree_model(b, problem)
        w = np.random.default_rng(9).normal(size=model.size)
        answers.append(
            (
                *b.LogLoss(model, packed).value_and_gradient(w),
                *b.StructuralHinge(model, packed, smoothing=b.smoothings.SquaredL2(256)).value_and_gradient(w, mu=mu),
            )
        )
    for ours, theirs in zip(*answers, strict=True):
        close(theirs, ours, scale=10.0 / min(mu, 1.0))


def ragged(rng, F=3, L=3):
    """Forests of 0 to 9 nodes in any order, one of roots alone, features and labels at random; features are small
    integers.
    """
    X, Y = [(rng.integers(-1, 2, (3, F)), [-1, -1, -1])], [rng.integers(0, L, 3)]
    for p in (0, 1, 2, 5, 9, 9, 7, 9):
        names = rng.permutation(p)  # of nodes whose parents come before them
        parents = np.full(p, -1)
        parents[names[1:]] = [-1 if rng.random() < 0.2 else names[rng.integers(v)] for v in range(1, p)]
        X.append((rng.integers(-1, 2, (p, F)), parents))
        Y.append(rng.integers(0, L, p))
    return X, Y


def test_gradients_agree_where_labellings_tie(other, rng):
    """Small integers, whose sums are exact: of labellings that tie, both panels take the same; also over a batch,
    and with -inf.
    """
    X, Y = ragged(rng)
    weights = [np.zeros(21), *rng.integers(-1, 2, (4, 21)).astype(float)]
    weights.append(np.where(np.arange(21) == 16, -np.inf, weights[-1]))
    for w in weights:
        for batch in (None, np.array([4, 0, 1, 4])):
            answers = []
            for b in (reference, other):
                model = b.TreeModel(3, 3)
                answers.append(b.StructuralHinge(model, model.pack(X, Y)).linearize(w, batch))
            a, b = answers
            np.testing.assert_array_equal(b.gradient, a.gradient)
            assert (b.value, b.task_loss, b.exact) == (a.value, a.task_loss, a.exact)


@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.5, None])
def test_loops_agree_from_one_state(other, rng, mu):
    """A pass of each box in both panels; at mu = 1e-3 probabilities leave the range of numbers. None: the log loss."""
    X, Y = ragged(rng)
    X = [(x + 0.1 * rng.normal(size=x.shape), parents) for x, parents in X]
    w, center = rng.normal(size=(2, 21))
    order, answers = rng.permutation(len(X)), []
    for b in (reference, other):
        model = b.TreeModel(3, 3)
        data = model.pack(X, Y)
        smoothing = b.smoothings.Entropy() if mu else b.smoothings.Max()
        objective = b.LogLoss(model, data) if mu is None else b.StructuralHinge(model, data, smoothing=smoothing)
        boxes = SGD(0.1, b.steps.Constant(0.3), mu), SVRG(average="uniform"), SAGA()
        sgd, svrg, saga = (counterpart(box, objective) for box in boxes)
        state, found = sgd.init(objective, w), []
        for _ in range(2):
            state = sgd.sweep(objective, state, order)
            found += [state.x, state.mean]
        if mu != 0.0:
            subproblem, snapshot = Subproblem(objective, 0.1, 0.2, mu, center), svrg.snapshot(objective, w, mu)
            found += [svrg.sweep(subproblem, snapshot, snapshot.x, order, 0.1)]
            found += [saga.one_pass(subproblem, saga.snapshot(objective, w, mu), order, 0.1, None)[0]]
            steps = counterpart(Backtracking(), objective)
            found += [np.array(steps.find(objective, w, mu, order, 1e-3, np.inf))]
            found += [np.array(steps.least(objective, w, mu, order))]
        else:
            bcfw = counterpart(BCFW(0.1, capacity=3, average="weighted"), objective)
            passes = bcfw.sweep(objective, bcfw.init(objective), [order, order[::-1], order])
            passes = bcfw.sweep(objective, passes, [order, order])
            found += [passes.x, passes.mean, np.array([passes.loss, passes.mean_loss, passes.t])]
        answers.append(found)
    for ours, theirs in zip(*answers, strict=True):
        close(theirs, ours)


def test_every_form_of_input_packs_alike(backend, rng):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    x, y = (rng.random((4, 5)) < 0.5).astype(float), [0, 2, 1, 0]
    model = backend.TreeModel(5, ["a", "b", "c"])
    w = rng.normal(size=model.size)
    forms = [x, scipy_sparse.csr_array(x), [np.flatnonzero(row).tolist() for row in x], backend.Rows.of(x)]
    values = [
        backend.LogLoss(model, model.pack([(features, parents)], [labels])).value_and_gradient(w)[0]
        for features in forms
        for parents in ([-1, 0, 0, 1], np.array([-1, 0, 0, 1], np.int32))
        for labels in (y, "acba", ["a", "c", "b", "a"])
    ]
    assert len(set(values)) == 1
    assert model.labels == ("a", "b", "c") and type(model)(**model.settings()).size == model.size == 6 * 3 + 9


def test_models_are_saved_and_loaded(backend, rng, tmp_path):
    X, _, w = make_trees(3, rng)
    model = backend.TreeModel(4, ["a", "b", "c"], cost=np.arange(9).reshape(3, 3) * (1.0 - np.eye(3)))
    save_model(tmp_path / "m.npz", model, w)
    again, v, _ = load_model(tmp_path / "m.npz", backend.module)
    assert again.settings() == model.settings() and np.array_equal(v, w)
    for a, b in zip(again.predict(again.pack(X), None, v), model.predict(model.pack(X), None, w), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((np.zeros((2, 3)), [-1, 0]), [0, 9], r"Y\[0\]\[1\]: expected label indices in 0..1, got 9"),
        ((np.zeros((2, 3)), [-1, 0]), [0], r"Y\[0\]: expected 2 labels, one for each node of X\[0\], got 1"),
        ((np.zeros((2, 4)), [-1, 0]), [0, 0], r"X\[0\]: expected 3 features, got 4"),
        ((np.zeros((2, 3)), [-1]), [0, 0], r"X\[0\]: expected the parents of 2 nodes, .* shape \(1,\)"),
        ((np.zeros((2, 3)), [-1, 0.5]), [0, 0], r"X\[0\]: expected the parents of 2 nodes, integers"),
        ((np.zeros((2, 3)), [-1, 2]), [0, 0], r"X\[0\]\[1\]: expected parents in -1..1, got 2"),
        ((np.zeros((2, 3)), [1, 0]), [0, 0], r"X\[0\]: parents: expected a forest, got a cycle"),
        ((np.zeros((2, 3)), [-1, 0], []), [0, 0], r"X\[0\]: expected a pair \(features, parents\), got 3 items"),
        ((np.full((2, 3), np.inf), [-1, 0]), [0, 0], r"X\[0\]\[0\]: column 0: expected a finite number, got inf"),
    ],
)
def test_bad_trees_are_named(backend, x, y, message):
    with pytest.raises(ValueError, match=message):
        backend.TreeModel(3, ["a", "b"]).pack([x], [y])


def test_data_of_another_model_is_refused(backend):
    X, Y = [(np.ones((2, 3)), [-1, 0])], [[0, 4]]
    packed = backend.TreeModel(3, 5).pack(X, Y)
    for other_, message in (
        (backend.TreeModel(2, 5), "packed by a different model, with 4 columns; this one has 3"),
        (backend.TreeModel(3, 2), "labels beyond the model's 2"),
    ):
        with pytest.raises(ValueError, match=message):
            backend.LogLoss(other_, packed)
    with pytest.raises(TypeError, match="data: expected what model.pack returned, got ChainData"):
        backend.LogLoss(backend.TreeModel(3, 5), backend.SequenceModel(4, 5).pack([np.ones((2, 4))], Y))
    with pytest.raises(ValueError, match="Y: this data was packed without labels"):
        model = backend.TreeModel(3, 5)
        backend.LogLoss(model, model.pack(X)).value_and_gradient(np.zeros(model.size))
