"""Models: the adjoint identity, finite differences, packing, pieces of a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from conformance.tolerances import close


def sequence_model(backend, problem, like=None):
    model = backend.SequenceModel(problem.n_features, problem.n_labels, **problem.options)
    return model, model.pack(problem.X, problem.Y, like=like)


def multiclass_model(backend, problem, like=None):
    """Every position of the sequences as an example of its own."""
    model = backend.MulticlassModel(problem.n_features, problem.n_labels, max_rows=2)
    return model, model.pack(np.concatenate(problem.X), np.concatenate(problem.Y), like=like)


KINDS = {"sequence": sequence_model, "multiclass": multiclass_model}


def fields(space, scores):
    return [
        space.get(x)
        for name, x in zip(scores._fields, scores, strict=True)
        if name not in getattr(scores, "layout", ())
    ]


@pytest.mark.parametrize("kind", KINDS)
@given(problem=strategies.sequence_problems())
def test_the_adjoint_identity(backend, space, kind, problem):
    """<J dw, g> = <dw, J^T g> on every piece, and J dw is the change of the scores (they are linear)."""
    model, data = KINDS[kind](backend, problem, space.put(0.0))
    rng = np.random.default_rng(1)
    w, dw = rng.normal(size=model.size), rng.normal(size=model.size)
    for piece in model.chunks(data, np.arange(data.n)):
        scores = model.scores(data, piece, space.put(w))
        moved = fields(space, model.scores(data, piece, space.put(w + dw)))
        change = model.pushforward(data, piece, space.put(w), space.put(dw))
        for a, b, c in zip(moved, fields(space, scores), fields(space, change), strict=True):
            close(a - b, c, space.dtype, 10.0)
        g = type(scores)(
            *(
                x if name in getattr(scores, "layout", ()) else space.put(rng.normal(size=x.shape))
                for name, x in zip(scores._fields, scores, strict=True)
            )
        )
        left = sum((a * b).sum() for a, b in zip(fields(space, change), fields(space, g), strict=True))
        # padding takes no part: what scores() put there is constant
        right = dw @ space.get(model.pullback(data, piece, space.put(w), g))
        padded = getattr(scores, "lengths", None) is not None
        if padded:
            mask = np.arange(scores.unary.shape[1]) < space.get(scores.lengths)[:, None]
            left = (fields(space, change)[0] * fields(space, g)[0])[mask].sum() + (
                fields(space, change)[1] * fields(space, g)[1]
            ).sum()
        close(left, right, space.dtype, 100.0)


@given(problem=strategies.sequence_problems())
def test_scores_are_features_times_weights(backend, problem):
    """Written out for one sequence after another: unary, start, stop, transitions, Hamming or weighted loss, true
    parts.
    """
    model, data = sequence_model(backend, problem)
    rng = np.random.default_rng(2)
    w = rng.normal(size=model.size)
    F, L = problem.n_features, problem.n_labels
    W, A = w[: model.width * L].reshape(-1, L), w[model.width * L :].reshape(L, L)
    cost = problem.options.get("cost", 1.0 - np.eye(L))
    for i, (x, y) in enumerate(zip(problem.X, problem.Y, strict=True)):
        scores = model.scores(data, np.array([i]), w)
        unary = x @ W[:F]
        if problem.options["start_stop"] and len(x):
            unary[0] += W[F]
            unary[-1] += W[F + 1]
        close(scores.unary[0], unary)
        close(scores.pairwise, A)
        close(model.task_loss(data, np.array([i])).unary[0], cost[y].reshape(len(y), L))
        gold = model.gold(data, np.array([i]))
        close(gold.unary[0], np.eye(L)[y].reshape(len(y), L))
        transitions = np.zeros((L, L))
        np.add.at(transitions, (y[:-1], y[1:]), 1.0)
        close(gold.pairwise, transitions)


@given(problem=strategies.sequence_problems(longest=9))
def test_pieces_cover_the_batch_and_stay_small(backend, problem):
    model, data = sequence_model(backend, problem)
    batch = np.random.default_rng(0).integers(0, data.n, 7)
    pieces = list(model.chunks(data, batch))
    assert sorted(np.concatenate(pieces).tolist()) == sorted(batch.tolist())
    for piece in pieces:
        lengths = data.lengths[piece]
        assert len(piece) == 1 or lengths.max() * len(piece) <= model.max_cells or lengths.max() == 0
        assert lengths.max() * len(piece) <= 2 * max(lengths.sum(), 1)


def test_one_long_sequence_among_many_short_ones_costs_its_own_length(backend, rng):
    lengths = [20_000] + [3] * 2000
    X = [np.ones((n, 1)) for n in lengths]
    model = backend.SequenceModel(1, 2)
    data = model.pack(X, [np.zeros(n, np.int64) for n in lengths])
    cells = [len(piece) * data.lengths[piece].max() for piece in model.chunks(data, np.arange(data.n))]
    assert sum(cells) == sum(lengths)
    value, _ = backend.LogLoss(model, data).value_and_gradient(np.zeros(model.size))
    close(value, sum(lengths) * np.log(2) / len(lengths))


def test_every_form_of_input_packs_alike(backend, rng):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X = [(rng.random((n, 5)) < 0.5).astype(float) for n in (3, 0, 1)]
    Y = [rng.integers(0, 26, len(x)) for x in X]
    names = [chr(97 + i) for i in range(26)]
    model = backend.SequenceModel(5, names)
    w = rng.normal(size=model.size)
    forms_of_x = [
        X,
        [scipy_sparse.csr_array(x) for x in X],
        [[np.flatnonzero(r).tolist() for r in x] for x in X],
        [backend.Rows.of(x) for x in X],
    ]
    forms_of_y = [
        Y,
        [y.tolist() for y in Y],
        [[names[i] for i in y] for y in Y],
        ["".join(names[i] for i in y) for y in Y],
    ]
    values = [backend.LogLoss(model, model.pack(x, y)).value_and_gradient(w)[0] for x in forms_of_x for y in forms_of_y]
    assert len(set(values)) == 1
    assert model.labels == tuple(names)


def test_start_and_stop_of_a_single_position_both_count(backend):
    model = backend.SequenceModel(0, 2)
    data = model.pack([np.zeros((1, 0)), np.zeros((0, 0))])
    w = np.array([1.0, 2.0, 10.0, 20.0, 0, 0, 0, 0])
    close(model.scores(data, np.array([0]), w).unary, [[[11.0, 22.0]]])
    assert [y.tolist() for y in model.predict(data, None, w)] == [[1], []]


@given(problem=strategies.sequence_problems())
def test_predict_gives_best_labellings_in_the_batch_order(backend, space, problem):
    model, data = sequence_model(backend, problem, space.put(0.0))
    w = space.put(np.random.default_rng(3).normal(size=model.size))
    batch = np.arange(data.n)[::-1]
    for i, y in zip(batch, model.predict(data, batch, w), strict=True):
        chain = backend.Chain(*model.scores(data, np.array([i]), w))
        assert len(y) == len(problem.X[i])
        close(space.get(chain.score(space.integers(y[None]))), space.get(chain.best()[0]), space.dtype)


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ([np.zeros((2, 3))], [[0, 9]], ValueError, r"Y\[0\]\[1\]: expected label indices in 0..1, got 9"),
        ([np.zeros((2, 3))], [[0]], ValueError, r"Y\[0\]: expected 2 labels, one for each position of X\[0\], got 1"),
        ([np.zeros((2, 3))], [], ValueError, "Y: expected 1 label sequences"),
        ([np.zeros((2, 4))], None, ValueError, r"X\[0\]: expected 3 features, got 4"),
        ([[[0], [5]]], None, ValueError, r"X\[0\]\[1\]: expected feature indices in 0..2, got 5"),
        ([np.zeros((1, 3))], [["x"]], ValueError, r"Y\[0\]\[0\]: unknown label 'x'; the model knows a, b"),
        ([np.zeros((1, 3))], [[0.5]], TypeError, r"Y\[0\]\[0\]: expected label names or integer indices"),
        (
            [np.zeros((1, 3)), np.full((1, 3), np.inf)],
            None,
            ValueError,
            r"X\[1\]\[0\]: column 0: expected a finite number, got inf",
        ),
    ],
)
def test_bad_sequences_are_named(backend, X, Y, error, message):
    with pytest.raises(error, match=message):
        backend.SequenceModel(3, ["a", "b"]).pack(X, Y)


def test_data_of_another_model_is_refused(backend):
    """No kernel may be reached with an index outside its arrays."""
    X, Y = [np.ones((2, 3))], [[0, 4]]
    packed = backend.SequenceModel(3, 5).pack(X, Y)
    for other, message in (
        (backend.SequenceModel(2, 5), "packed by a different model, with 5 columns; this one has 4"),
        (backend.SequenceModel(3, 2), "labels beyond the model's 2"),
    ):
        with pytest.raises(ValueError, match=message):
            backend.LogLoss(other, packed)
        with pytest.raises(ValueError, match=message):
            other.predict(packed, None, np.zeros(other.size))
    classes = backend.MulticlassModel(3, 5).pack(np.ones((2, 3)), [0, 4])
    with pytest.raises(ValueError, match="labels beyond the model's 2"):
        backend.StructuralHinge(backend.MulticlassModel(3, 2), classes)


def test_weights_that_cannot_score_are_refused(backend):
    model = backend.SequenceModel(1, 2)
    data = model.pack([np.ones((2, 1))], [[0, 1]])
    w = np.zeros(model.size)
    with pytest.raises(ValueError, match="w: expected 10 weights, got shape"):
        model.predict(data, None, w[:5])
    with pytest.raises(ValueError, match="batch: expected example numbers in 0..0, got 1..1"):
        model.predict(data, [1], w)
    with pytest.raises(ValueError, match="batch: expected example numbers"):
        model.scores(data, np.array([-1]), w)
    for bad in (np.nan, np.inf):
        w[0] = bad
        with pytest.raises(ValueError, match="w: expected finite scores, or -inf"):
            model.predict(data, None, w)


def test_forbidden_transitions_as_weights(backend):
    """-inf for every transition: no labelling of two positions, one of a single position."""
    model = backend.SequenceModel(1, 2)
    w = np.concatenate([np.ones(6), np.full(4, -np.inf)])
    with pytest.raises(backend.InfeasibleError):
        model.predict(model.pack([np.ones((2, 1))]), None, w)
    for loss in (backend.StructuralHinge, backend.LogLoss):
        with pytest.raises(backend.InfeasibleError):
            loss(model, model.pack([np.ones((2, 1))], [[0, 1]])).value_and_gradient(w)
    assert model.predict(model.pack([np.ones((1, 1))]), None, w)[0].tolist() == [0]


def test_bad_models_are_refused(backend):
    with pytest.raises(TypeError, match="n_features: expected an integer >= 0, got 3.9"):
        backend.SequenceModel(3.9, 2)
    with pytest.raises(TypeError, match="start_stop: expected True or False, got 'no'"):
        backend.SequenceModel(3, 2, start_stop="no")
    with pytest.raises(ValueError, match=r"cost: expected shape \(2, 2\), got \(3, 3\)"):
        backend.SequenceModel(1, 2, cost=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="zeros on the diagonal"):
        backend.MulticlassModel(1, 2, cost=np.ones((2, 2)))
    with pytest.raises(ValueError, match="labels: names must differ"):
        backend.SequenceModel(1, ["a", "a"])
    with pytest.raises(ValueError, match="labels: expected at least one label"):
        backend.SequenceModel(1, 0)
    with pytest.raises(ValueError, match="Y: this data was packed without labels"):
        model = backend.SequenceModel(1, 2)
        backend.LogLoss(model, model.pack([np.zeros((1, 1))])).value_and_gradient(np.zeros(model.size))


@given(data=st.data())
def test_multiclass_scores(backend, data):
    problem = data.draw(strategies.sequence_problems())
    X, Y = np.concatenate(problem.X), np.concatenate(problem.Y)
    model, packed = multiclass_model(backend, problem)
    w = np.random.default_rng(4).normal(size=model.size)
    W = w.reshape(problem.n_features, problem.n_labels)
    everything = np.arange(packed.n)
    close(model.scores(packed, everything, w).values, X @ W)
    assert model.predict(packed, None, w) == (X @ W).argmax(axis=1).tolist() or np.ptp(X @ W) < 1e-9
    close(model.gold(packed, everything).values, np.eye(problem.n_labels)[Y])
