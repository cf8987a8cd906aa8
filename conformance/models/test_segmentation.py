"""Segmentation: scores written out and enumerated, packing, and planted truth learned to a certified gap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.arrays import host
from reference.optimizers.sgd import SGD
from reference.steps import Constant
from reference.structures.scores import add, inner
from reference.training.counterparts import counterpart


def packed(backend, problem, like=None):
    model = backend.SegmentationModel(problem.n_features, problem.n_edge_features)
    return model, model.pack(problem.X, problem.Y, like=like)


def weights(problem, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=problem.n_features), np.abs(rng.normal(size=problem.n_edge_features))])


def score(image, y, w):
    """The score of a labelling, written out."""
    x, edges, g = image
    node, edge = w[: x.shape[1]], w[x.shape[1] :]
    total = sum(float(node @ x[v]) for v in range(len(x)) if y[v] == 1)
    return total - sum(float(edge @ g[e]) for e, (a, b) in enumerate(edges) if y[a] != y[b])


def labellings(image):
    return list(itertools.product((0, 1), repeat=len(image[0])))


@given(problem=strategies.segmentation_problems())
def test_scores_losses_and_parts_are_their_formulas(backend, problem):
    """For every labelling of every image; and the best of them is the prediction, the hinge the worst."""
    model, data = packed(backend, problem)
    w, hinge = weights(problem), 0.0
    predicted = model.predict(data, None, w)
    for i, (image, true) in enumerate(zip(problem.X, problem.Y, strict=True)):
        piece = np.array([i])
        scores, loss = model.scores(data, piece, w), model.task_loss(data, piece)
        structure = model.structure_type(scores.unary, scores.pairwise, scores.edges)
        values, errors = [], []
        for y in labellings(image):
            parts = structure.parts(np.array(y, dtype=np.int64))
            values.append(score(image, y, w))
            errors.append(sum(a != b for a, b in zip(y, true, strict=True)))
            close(inner(scores, parts), values[-1])
            assert inner(loss, parts) == errors[-1]
        close(inner(scores, model.gold(data, piece)), score(image, true, w))
        assert inner(loss, model.gold(data, piece)) == 0
        close(score(image, predicted[i], w), max(values))
        hinge += max(np.array(values) + errors) - score(image, true, w)
    close(backend.StructuralHinge(model, data).value_and_gradient(w)[0], hinge / len(problem.X))
    assert model.counts(data) == [len(labellings(image)) for image in problem.X]


@given(problem=strategies.segmentation_problems())
def test_scores_are_submodular_with_the_loss_too(backend, problem):
    """(72) on every edge, of the scores alone and with the task loss; one weight below 0 breaks it and is refused."""
    model, data = packed(backend, problem)
    w = weights(problem)
    for i, (_, _, g) in enumerate(problem.X):
        scores = model.scores(data, np.array([i]), w)
        for pairwise in (scores.pairwise, add(scores, model.task_loss(data, np.array([i]))).pairwise):
            excess = pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0]
            assert np.all(excess >= 0)
            close(excess, 2 * g @ w[problem.n_features :])
        for k in range(problem.n_features, model.size):
            with pytest.raises(ValueError, match="weights of edge features must be >= 0"):
                model.scores(data, np.array([i]), np.where(np.arange(model.size) == k, -1e-3, w))


@given(problem=strategies.segmentation_problems())
def test_the_adjoint_identity(backend, space, problem):
    """<J dw, g> = <dw, J^T g>, in the data's namespace and dtype."""
    model, data = packed(backend, problem, space.put(0.0))
    rng = np.random.default_rng(1)
    for i, (x, edges, _) in enumerate(problem.X):
        dw, piece = weights(problem, i), np.array([i])
        change = model.scores(data, piece, space.put(dw))
        g = change._replace(
            unary=space.put(rng.normal(size=(len(x), 2))), pairwise=space.put(rng.normal(size=(len(edges), 2, 2)))
        )
        back = space.get(model.pullback(data, piece, space.put(dw), g))
        assert back.dtype == space.dtype
        left = sum((space.get(a) * space.get(b)).sum() for a, b in zip(change[:2], g[:2], strict=True))
        close(left, dw @ back, space.dtype, 100.0)
    assert [y.dtype for y in model.predict(data, None, space.put(weights(problem)))] == [np.int64] * len(problem.X)


@pytest.mark.parametrize(("height", "width"), [(0, 0), (1, 1), (1, 4), (3, 1), (3, 4)])
def test_grids_join_neighbours_once(backend, height, width):
    for connectivity, far in ((4, 1), (8, 2)):
        edges = backend.grid_edges(height, width, connectivity)
        cells = list(itertools.product(range(height), range(width)))
        expected = {
            (a, b)
            for (a, (i, j)), (b, (k, m)) in itertools.combinations(enumerate(cells), 2)
            if max(abs(i - k), abs(j - m)) == 1 and abs(i - k) + abs(j - m) <= far
        }
        assert edges.dtype == np.int64 and edges.shape == (len(expected), 2)
        assert {tuple(e) for e in edges.tolist()} == expected


def planted(rng, graphs, w, noise):
    """Images whose labels are best for the weights w (F, then G); then noise is added to the features of the nodes."""
    F = len(w) - 2
    truth, X = reference.SegmentationModel(F, 2), []
    for p, edges in graphs:
        g = np.stack([np.ones(len(edges)), rng.random(len(edges))], axis=1)
        X.append((np.concatenate([np.ones((p, 1)), rng.normal(size=(p, F - 1))], axis=1), edges, g))
    Y = truth.predict(truth.pack(X), None, w)
    noisy = [(x + noise * rng.normal(size=x.shape) * (np.arange(F) > 0), edges, g) for x, edges, g in X]
    return noisy, Y


def graphs_of(kind, rng, n):
    if kind == "general":  # a path through all nodes, and chords
        return [
            (18, np.concatenate([np.stack([np.arange(17), np.arange(1, 18)], 1), _chords(rng, 18, 12)]))
            for _ in range(n)
        ]
    return [(20, reference.grid_edges(4, 5, 8 if kind == "grid8" else 4)) for _ in range(n)]


def _chords(rng, p, e):
    ends = np.array([rng.choice(p, 2, replace=False) for _ in range(e)])
    return ends.astype(np.int64)


def wrong(Y, Z):
    return np.mean(np.concatenate(Y) != np.concatenate(Z))


@pytest.mark.parametrize("kind", ["grid4", "grid8", "general"])
def test_planted_weights_are_learned_with_a_certificate(backend, kind):
    """To a gap of 2 %; what is learned reads new images nearly as well as the truth, and better than without edges."""
    rng = np.random.default_rng(7)
    w = np.array([0.1, 1.0, -0.7, *{"grid4": (0.4, 0.5), "grid8": (0.25, 0.25), "general": (0.25, 0.3)}[kind]])
    X, Y = planted(rng, graphs_of(kind, rng, 80), w, 0.3)
    model = backend.SegmentationModel(3, 2)
    hinge = backend.StructuralHinge(model, model.pack(X[:40], Y[:40]))
    result = backend.bcfw(hinge, lam=0.2, tol=0.02, epochs=60, rng=0)
    assert result.success and 0 <= result.certificate <= 0.02 * result.fun and np.all(result.x[3:] >= 0)
    new = model.pack(X[40:])
    error, best = wrong(Y[40:], model.predict(new, None, result.x)), wrong(Y[40:], model.predict(new, None, w))
    alone = wrong(Y[40:], model.predict(new, None, np.where(np.arange(5) < 3, w, 0.0)))
    assert error <= best + 0.05 and error <= 0.75 * alone
    sgd = backend.sgd(hinge, lam=0.2, epochs=3, rng=0)
    assert np.all(sgd.x[3:] >= 0) and sgd.fun >= result.history[-1].dual


def test_panels_take_the_same_steps(other):
    rng = np.random.default_rng(3)
    X, Y = planted(rng, graphs_of("grid4", rng, 6), np.array([0.1, 1.0, -0.7, 0.4, 0.5]), 0.5)
    runs = []
    for b in (reference, other):
        model = b.SegmentationModel(3, 2)
        runs.append(b.bcfw(b.StructuralHinge(model, model.pack(X, Y)), lam=0.5, epochs=4, tol=0.0, rng=0))
    close(runs[1].x, runs[0].x)
    close([row.gap for row in runs[1].history], [row.gap for row in runs[0].history])


def odd_graphs(rng):
    """Images without nodes, without edges, of one node; grids; edges twice. Features are small integers, many of
    them 0.
    """
    sizes = [(0, []), (1, []), (3, []), (2, [[0, 1], [1, 0]]), *((20, reference.grid_edges(4, 5)) for _ in range(5))]
    X = [(rng.integers(-1, 2, (p, 3)), edges, rng.integers(0, 3, (len(edges), 2))) for p, edges in sizes]
    return X, [rng.integers(0, 2, p) for p, _ in sizes]


def passes(objective, w, order, lam):
    """A hinge at w, then three passes of stochastic gradients, whose weights of edges come to 0 and leave it."""
    at = objective.linearize(w)
    assert at.exact == 1.0 and objective.value_and_gradient(w)[0] == at.value
    sgd = counterpart(SGD(lam, Constant(0.25)), objective)
    state, found = sgd.init(objective, w), [np.array([at.value, at.task_loss]), at.gradient]
    for _ in range(3):
        state = sgd.sweep(objective, state, order)
        found += [state.x, state.mean]
    return found


def test_loops_agree_from_one_state(other, rng):
    """Real features: no ties, one trajectory in both panels; and weights of edges that a step takes below 0 are 0."""
    X, Y = odd_graphs(rng)
    X = [(x + 0.1 * rng.normal(size=x.shape), edges, g + 0.1 * rng.random(g.shape)) for x, edges, g in X]
    w, order, answers = np.abs(rng.normal(size=5)), rng.permutation(len(X)), []
    for b in (reference, other):
        model = b.SegmentationModel(3, 2)
        answers.append(passes(b.StructuralHinge(model, model.pack(X, Y)), w, order, 0.1))
    for ours, theirs in zip(*answers, strict=True):
        close(theirs, ours, scale=10.0)


def test_loops_agree_where_labellings_tie(other, rng):
    """Small integers, whose sums are exact: of labellings that tie, both panels take the one of fewest ones."""
    X, Y = odd_graphs(rng)
    for w in (np.zeros(5), *rng.integers(0, 2, (4, 5)).astype(float)):
        order, answers = rng.permutation(len(X)), []
        for b in (reference, other):
            model = b.SegmentationModel(3, 2)
            answers.append(passes(b.StructuralHinge(model, model.pack(X, Y)), w, order, 0.0)[:5])
        for ours, theirs in zip(*answers, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_weights_below_zero_are_refused(backend, rng):
    model = backend.SegmentationModel(3, 2)
    hinge = backend.StructuralHinge(model, model.pack(*odd_graphs(rng)))
    for question in (hinge.value_and_gradient, hinge.linearize):
        with pytest.raises(ValueError, match="w: weights of edge features must be >= 0, got -1.0 for edge feature 1"):
            question(np.array([1.0, 0.0, 0.0, 0.0, -1.0]))


def test_smoothings_over_the_k_best(backend):
    """The hinge smoothed over its two best labellings: gradients are those of its values; the expectation is refused
    at once.
    """
    rng = np.random.default_rng(5)
    X, Y = planted(rng, graphs_of("grid4", rng, 2), np.array([0.1, 1.0, -0.7, 0.4, 0.5]), 0.5)
    model = backend.SegmentationModel(3, 2)
    data = model.pack(X, Y)
    hinge, w = (
        backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2)),
        np.array([0.2, 0.7, -0.4, 0.3, 0.6]),
    )
    _, g = hinge.value_and_gradient(w, mu=5.0)
    steps = 1e-5 * np.eye(5)
    slopes = [
        (hinge.value_and_gradient(w + s, mu=5.0)[0] - hinge.value_and_gradient(w - s, mu=5.0)[0]) / 2e-5 for s in steps
    ]
    np.testing.assert_allclose(slopes, g, atol=1e-4)
    for refused in (
        lambda: backend.LogLoss(model, data),
        lambda: backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()),
    ):
        with pytest.raises(backend.IntractableError, match="Proposition 14"):
            refused()


IMAGE = (np.ones((3, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (IMAGE[:2], TypeError, r"X\[1\]: expected a triple \(features, edges, edge_features\), got tuple"),
        ((np.ones((3, 1)), *IMAGE[1:]), ValueError, r"X\[1\]: features: expected 2 features, got 1"),
        (
            (IMAGE[0], np.array([[0, 3]]), np.ones((1, 1))),
            ValueError,
            r"X\[1\]: edges: expected nodes in 0..2, got 0..3",
        ),
        ((IMAGE[0], np.array([[1, 1]]), np.ones((1, 1))), ValueError, r"X\[1\]: edges: edge 0 joins node 1 to itself"),
        (
            (IMAGE[0], np.array([0, 1]), np.ones((1, 1))),
            ValueError,
            r"X\[1\]: edges: expected shape \(e, 2\), got \(2,\)",
        ),
        ((IMAGE[0], np.array([[0.0, 1.0]]), np.ones((1, 1))), TypeError, r"X\[1\]: edges: expected integers"),
        (
            (*IMAGE[:2], np.ones((3, 1))),
            ValueError,
            r"X\[1\]: edge features: expected 2 rows, one for each edge, got 3",
        ),
        (
            (*IMAGE[:2], np.array([[0.0], [-0.5]])),
            ValueError,
            r"X\[1\]: edge features: expected numbers >= 0, got -0.5 for edge 1, which joins nodes 1 and 2",
        ),
        (
            (np.full((3, 2), np.nan), *IMAGE[1:]),
            ValueError,
            r"X\[1\]\[0\]: features: column 0: expected a finite number, got nan",
        ),
    ],
)
def test_bad_images_are_named(backend, image, error, message):
    with pytest.raises(error, match=message):
        backend.SegmentationModel(2, 1).pack([IMAGE, image])


@pytest.mark.parametrize(
    ("Y", "error", "message"),
    [
        ([], ValueError, "Y: expected 1 labellings, one for each of X, got 0"),
        ([[0, 1]], ValueError, r"Y\[0\]: expected 3 labels, one for each node, got 2"),
        ([[0, 1, 2]], ValueError, r"Y\[0\]\[2\]: expected labels 0 and 1, got 2"),
        ([[0.0, 1.0, 0.0]], TypeError, r"Y\[0\]: expected integers or booleans of shape \(3,\), got float64"),
    ],
)
def test_bad_labels_are_named(backend, Y, error, message):
    with pytest.raises(error, match=message):
        backend.SegmentationModel(2, 1).pack([IMAGE], Y)


def test_what_does_not_fit_is_refused(backend):
    model = backend.SegmentationModel(2, 1)
    data = model.pack([IMAGE], [[True, False, True]])
    with pytest.raises(ValueError, match="packed by a different model, with 2 features; this one has 1"):
        backend.SegmentationModel(1, 1).predict(data, None, np.zeros(2))
    with pytest.raises(ValueError, match="packed by a different model, with 1 edge features; this one has 3"):
        backend.StructuralHinge(backend.SegmentationModel(2, 3), data)
    with pytest.raises(TypeError, match="expected what model.pack returned, got list"):
        model.predict([IMAGE], None, np.zeros(3))
    with pytest.raises(ValueError, match="w: weights of edge features must be >= 0, got -0.5 for edge feature 0"):
        model.predict(data, None, np.array([1.0, 1.0, -0.5]))
    with pytest.raises(ValueError, match="Y: this data was packed without labels"):
        backend.StructuralHinge(model, model.pack([IMAGE])).value_and_gradient(np.zeros(3))
    with pytest.raises(ValueError, match="connectivity: expected 4 or 8, got 6"):
        backend.grid_edges(2, 2, 6)
    with pytest.raises(TypeError, match="height: expected an integer >= 0, got 2.5"):
        backend.grid_edges(2.5, 2)
    assert (
        model.zeros(model.pack([])).tolist() == [0.0, 0.0, 0.0]
        and model.predict(model.pack([]), None, np.zeros(3)) == []
    )


def test_a_saved_model_predicts_the_same(backend, tmp_path):
    rng = np.random.default_rng(2)
    X, _ = planted(rng, graphs_of("grid4", rng, 3), np.array([0.1, 1.0, -0.7, 0.4, 0.5]), 0.5)
    model, w = backend.SegmentationModel(3, 2), np.array([0.2, 0.7, -0.4, 0.3, 0.6])
    save_model(tmp_path / "m.npz", model, w)
    again, v, _ = load_model(tmp_path / "m.npz", backend.module)
    assert type(again) is type(model) and np.array_equal(v, w)
    for y, z in zip(model.predict(model.pack(X), None, w), again.predict(again.pack(X), None, v), strict=True):
        assert np.array_equal(host(y), host(z))
