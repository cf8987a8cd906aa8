"""Models: scores are features times weights; adjoints, predictions, pieces of a batch, inputs, files, refusals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.specimens.fixed import FIXED
from conformance.specimens.models import LABELS, MODELS
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.arrays import Place, host
from reference.models.nonlinear import NonlinearModel
from reference.screening.restricted import restrict
from reference.structures.scores import add, flatten, inner, score_fields

seeds = given(seed=st.integers(0, 2**32 - 1))
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize("name", [*MODELS, *FIXED])
@seeds
def test_scores_are_features_times_weights(backend, name, seed):
    """The score, task loss and features of every output; the true one; how many there are, and how far apart."""
    problem = FIXED[name]() if name in FIXED else MODELS[name].draw(seed)
    model, data = problem.packed(backend)
    w = problem.weights(backend, 1)
    assert model.counts(data) == [len(each.outputs) for each in problem.listed]
    diameters = model.squared_diameters(data)
    for i, (outputs, phi, losses, gold) in enumerate(problem.listed):
        one = np.array([i])
        scores, loss, true = model.scores(data, one, w), model.task_loss(data, one), model.gold(data, one)
        structure = model.structure_type.unchecked(scores)
        batched = score_fields(scores)[0].ndim > len(structure.axes)
        for y, features, cost in zip(outputs, phi, losses, strict=True):
            label = problem.label(i, y)
            parts = structure.parts(np.asarray(label)[None] if batched else label)
            close(model.pullback(data, one, w, parts), features)
            close(inner(scores, parts), features @ w)
            close(inner(loss, parts), cost)
            close(inner(add(scores, loss), parts), features @ w + cost)
        close(model.pullback(data, one, w, true), phi[gold])
        close(model.gold_scores(data, one, w), [phi[gold] @ w])
        assert abs(inner(loss, true)) < 1e-12
        if diameters is not None:
            widest = np.max(np.sum((phi[:, None] - phi) ** 2, axis=2))
            assert widest <= diameters[i] * (1 + 1e-9) + 1e-12


@seeds
def test_segments_of_one_token_are_a_sequence(backend, seed):
    """With longest = 1 the losses and gradients are those of a SequenceModel."""
    rng = np.random.default_rng(seed)
    F, L, sizes = 2, int(rng.integers(1, 4)), rng.integers(0, 4, 3)
    X, Y = [rng.normal(size=(n, F)) for n in sizes], [rng.integers(0, L, n) for n in sizes]
    ours, theirs = backend.SegmentModel(F, L, 1), backend.SequenceModel(F, L, start_stop=False)
    v = rng.normal(size=theirs.size)
    w = np.concatenate([v[: F * L], np.zeros(ours.size - theirs.size), v[F * L :]])
    segments = [[(t, 0, label) for t, label in enumerate(y.tolist())] for y in Y]
    for loss in (backend.LogLoss, backend.StructuralHinge):
        value, gradient = loss(ours, ours.pack(X, segments)).value_and_gradient(w)
        expected, slope = loss(theirs, theirs.pack(X, Y)).value_and_gradient(v)
        close(value, expected)
        close(np.delete(gradient, np.s_[F * L : -L * L]), slope)


def check_adjoint(model, data, w, dw, rng, dtype="float64"):
    """<J dw, g> = <dw, J^T g> on every piece, with g anywhere and 0 in places; J dw is the change of the scores."""
    put, linear = Place.of(w).floats, not isinstance(model, NonlinearModel)
    for piece in model.chunks(data, np.arange(data.n)):
        value, slope = model.scores(data, piece, w), model.pushforward(data, piece, w, dw)
        change, finite = host(flatten(slope)), np.isfinite(host(flatten(value)))
        if linear:
            moved = host(flatten(model.scores(data, piece, w + dw)))
            assert np.array_equal(np.isfinite(moved), finite)
            close(moved[finite] - host(flatten(value))[finite], change[finite], dtype, 10.0)
        elif dtype == "float64":
            ahead, behind = (host(flatten(model.scores(data, piece, w + s * dw))) for s in (1e-6, -1e-6))
            np.testing.assert_allclose((ahead - behind) / 2e-6, change, rtol=1e-5, atol=1e-6)
        layout = getattr(slope, "layout", ())
        shapes = {field: np.shape(x) for field, x in slope._asdict().items() if field not in layout and x is not None}
        g = slope._replace(**{field: put(rng.normal(size=s) * rng.integers(0, 2, s)) for field, s in shapes.items()})
        back = model.pullback(data, piece, w, g)
        assert back.dtype == w.dtype and flatten(slope).dtype == w.dtype and back.shape == (model.size,)
        if not linear:
            (one, pushed), (two, pulled) = (
                model.value_and_pushforward(data, piece, w, dw),
                model.value_and_pullback(data, piece, w, g),
            )
            for mine, theirs in ((one, value), (two, value), (pushed, slope)):
                close(host(flatten(mine)), host(flatten(theirs)), dtype)
            close(host(pulled), host(back), dtype)
        if (lengths := getattr(slope, "lengths", None)) is not None and "unary" in shapes:  # padding takes no part
            inside = np.arange(slope.unary.shape[1]) < host(lengths)[:, None]
            g = g._replace(unary=put(host(g.unary) * inside[:, :, None]))
        close(float(inner(slope, g)), float(host(dw) @ host(back)), dtype, scale=100.0)


@every_model
@seeds
def test_the_adjoint_identity(backend, space, name, seed):
    """And scores in the data's namespace, device and dtype are those on the host."""
    problem = MODELS[name].draw(seed)
    w, dw = problem.weights(backend, 2, 2).astype(space.dtype)
    (model, data), (_, plain) = problem.packed(backend, space.put(0.0)), problem.packed(backend)
    check_adjoint(model, data, space.put(w), space.put(dw), np.random.default_rng(seed), space.dtype)
    for one in np.arange(data.n)[:, None]:
        for there, here in (
            (model.scores(data, one, space.put(w)), model.scores(plain, one, w.astype(np.float64))),
            (model.task_loss(data, one), model.task_loss(plain, one)),
            (model.gold(data, one), model.gold(plain, one)),
        ):
            for field, x, y in zip(there._fields, there, here, strict=True):
                if field not in getattr(there, "layout", ()) and x is not None:
                    close(space.get(x), y, space.dtype, 10.0)


@every_model
@seeds
def test_predictions_are_best_in_the_batch_order(backend, space, name, seed):
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend, space.put(0.0), outputs=False)
    w = problem.weights(backend, 3)
    batch = np.arange(data.n)[::-1]
    for i, y in zip(batch, model.predict(data, batch, space.put(w)), strict=True):
        outputs, phi, _, _ = problem.listed[i]
        y = y if isinstance(y, int) else host(y)
        assert isinstance(y, int) or y.dtype == np.int64
        k = [tuple(np.ravel(z)) for z in outputs].index(tuple(np.ravel(y)))
        close(phi[k] @ w, np.max(phi @ w), space.dtype, 10.0)
    assert model.predict(model.pack(problem.X[:0]), None, w) == []


@every_model
def test_pieces_cover_the_batch_and_stay_small(backend, name, rng):
    model, data = MODELS[name].training(9, 9).packed(backend)
    batch = rng.integers(0, data.n, 20)
    pieces = list(model.chunks(data, batch))
    assert sorted(np.concatenate(pieces).tolist()) == sorted(batch.tolist())
    for piece in pieces:
        if len(piece) > 1 and hasattr(data, "lengths"):
            cells = len(piece) * data.lengths[piece].max()
            assert cells <= (getattr(model, "max_cells", None) or model.max_candidates) or cells == 0
            assert cells <= 2 * max(data.lengths[piece].sum(), 1)


@every_model
def test_a_saved_model_predicts_the_same(backend, name, tmp_path):
    problem = MODELS[name].training()
    model, data = problem.packed(backend)
    w = problem.weights(backend, 1)
    if type(model).__module__.split(".")[1:2] != ["models"] or name == "lists":  # lists, and models of other backends
        with pytest.raises(TypeError, match=f"got {type(model).__name__}, which cannot be saved"):
            save_model(tmp_path / "m.npz", model, w)
        return
    save_model(tmp_path / "m.npz", model, w)
    for panel in (backend.module, reference):
        again, v, _ = load_model(tmp_path / "m.npz", panel)
        assert type(again) is getattr(panel, type(model).__name__) and np.array_equal(v, w)
        assert repr(again.settings()) == repr(model.settings()) and again.size == model.size
        for one in np.arange(data.n)[:, None]:
            close(flatten(again.scores(again.pack(problem.X), one, v)), flatten(model.scores(data, one, w)))
        if panel is backend.module:
            guess = again.predict(again.pack(problem.X), None, v)
            assert all(np.array_equal(a, b) for a, b in zip(guess, model.predict(data, None, w), strict=True))


@every_model
def test_weights_that_cannot_score_are_refused(backend, name):
    problem = MODELS[name].training(1)
    model, data = problem.packed(backend)
    w = problem.weights(backend)
    with pytest.raises(ValueError, match=f"w: expected {model.size} weights, got shape"):
        model.predict(data, None, w[:-1])
    with pytest.raises(ValueError, match=r"batch: expected example numbers in 0..0, got 1..1"):
        model.predict(data, [1], w)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="w: "):
            model.predict(data, None, np.full(model.size, bad))
    with pytest.raises(TypeError, match=r"data: expected what model\.pack returned, got list"):
        model.predict([problem.X], None, w)


BOXES, BOX_FEATURES = [[0, 0, 2, 2], [1, 1, 3, 4]], np.ones((2, 3))


def answered(b, answer):
    """The best alignment of two rows as an oracle answers."""
    model = b.AlignmentModel(1, oracle=lambda scores: answer)
    return model.predict(model.pack([[[[0.0], [1.0]], [[2.0], [0.0]]]], [[1, 0]]), None, np.ones(1))


GIVEN = {  # names of the page of wrong things
    "np": np,
    "LABELS": LABELS,
    "restrict": restrict,
    "answered": answered,
    "predict": lambda model, data, w=None: model.predict(
        data, None, np.zeros(model.size) if w is None else np.array(w)
    ),
    "tagger": lambda b, **options: b.TaggingModel(
        LABELS["bio"], ["bias", "word"], vocabulary=["bias", "word[0]=a"], **options
    ),
    "WORDS": [{"word": ["a"]}, {"word": ["a", "b"]}],
    "TEMPLATES": [
        ("h.tag", "m.tag"),
        ("h.tag", "direction"),
        ("m.tag", "distance"),
        ("direction",),
        ("h.tag", "b.tag"),
    ],
    "IMAGE": (np.ones((3, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1))),
    "PAIR": (BOXES, BOX_FEATURES),
    "SIZES": [(BOXES, BOX_FEATURES), (BOXES[:1], BOX_FEATURES[:1])],
    "WORD_IMAGE": np.zeros((2, 3), np.int64),
}


def test_what_is_wrong_is_named(backend):
    check_refusals("wrong_models.txt", {**GIVEN, "b": backend})


def forms(backend, X, Y, names):
    """The forms of features of 0 and 1, and those of labels."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    active = [[np.flatnonzero(row).tolist() for row in x] for x in X]
    features = [X, [scipy_sparse.csr_array(x) for x in X], active, [backend.Rows.of(x) for x in X]]
    words = [[names[i] for i in y] for y in Y]
    return features, [Y, [y.tolist() for y in Y], words, ["".join(word) for word in words]]


@pytest.mark.parametrize("kind", ["SequenceModel", "TreeModel"])
def test_every_form_of_input_packs_alike(backend, rng, kind):
    X, names = [(rng.random((n, 5)) < 0.5).astype(float) for n in (3, 0, 1)], [chr(97 + i) for i in range(26)]
    model = getattr(backend, kind)(5, names)
    w, values = rng.normal(size=model.size), set()
    features, labels = forms(backend, X, [rng.integers(0, 26, len(x)) for x in X], names)
    parents = [np.arange(len(x)) - 1 for x in X]
    for tree in (parents, [p.tolist() for p in parents], [p.astype(np.int32) for p in parents]):
        for x in features:
            given = list(zip(x, tree, strict=True)) if kind == "TreeModel" else x
            values |= {backend.LogLoss(model, model.pack(given, y)).value_and_gradient(w)[0] for y in labels}
    assert len(values) == 1 and model.labels == tuple(names)


def test_one_long_sequence_among_many_short_ones_costs_its_own_length(backend):
    lengths = [4000] + [3] * 400
    model = backend.SequenceModel(1, 2)
    data = model.pack([np.ones((n, 1)) for n in lengths], [np.zeros(n, np.int64) for n in lengths])
    cells = [len(piece) * data.lengths[piece].max() for piece in model.chunks(data, np.arange(data.n))]
    assert sum(cells) == sum(lengths)
    value, _ = backend.LogLoss(model, data).value_and_gradient(np.zeros(model.size))
    close(value, sum(lengths) * np.log(2) / len(lengths))


# weights of -inf, and scores that overflow ----------------------------------------------------------------------------

SIGNED = [
    name for name in MODELS if not name.startswith(("tags", "chunks", "arcs", "windows of words"))
]  # features below 0
SPARSE = [name for name in MODELS if not name.startswith(("align", "cand", "wind"))]  # elsewhere 0 times -inf is nan


@pytest.mark.parametrize("name", SPARSE)
@seeds
def test_weights_of_minus_infinity_forbid_what_has_their_features(backend, name, seed):
    """Of the other outputs the best is predicted; where there is none, every reader of the scores says so."""
    rng = np.random.default_rng(seed)
    problem = MODELS[name].build(rng, lambda *shape: rng.integers(0, 3, shape).astype(np.float64), 2, 3)
    (model, data), w = problem.packed(backend), problem.weights(backend, 4)
    gone = rng.random(model.size) < rng.choice([0.1, 0.5, 1.0])
    if model.nonnegative is not None:
        gone[model.nonnegative] = False
    w[gone] = -np.inf
    losses = [backend.StructuralHinge, backend.LogLoss] if MODELS[name].sums else [backend.StructuralHinge]
    asked = [partial(loss(model, data).value_and_gradient, w) for loss in losses]
    asked.append(lambda batch: model.predict(data, batch, w))
    for i, (outputs, phi, _, _) in enumerate(problem.listed):
        scores = np.where(np.any(phi[:, gone] > 0, axis=1), -np.inf, phi[:, ~gone] @ w[~gone])
        if np.max(scores) > -np.inf:
            (y,) = model.predict(data, [i], w)
            close(scores[[tuple(np.ravel(z)) for z in outputs].index(tuple(np.ravel(y)))], np.max(scores))
        else:
            for ask in asked:
                with pytest.raises(backend.InfeasibleError):
                    ask([i])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SIGNED)
def test_forbidding_weights_of_negative_features_are_refused(backend, name):
    problem = MODELS[name].training(4, 6, 3)
    (model, data), w = problem.packed(backend), problem.weights(backend)
    w[0] = -np.inf
    hinge = backend.StructuralHinge(model, data)
    for ask in (
        lambda: model.predict(data, None, w),
        lambda: [model.scores(data, piece, w) for piece in model.chunks(data, np.arange(data.n))],
        lambda: hinge.value_and_gradient(w),
        lambda: backend.sgd(hinge, w, lam=0.1, epochs=1, rng=0),
    ):
        with pytest.raises(ValueError, match="a weight of -inf forbids outputs with a positive feature"):
            ask()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in MODELS if name != "windows of words"])
def test_scores_that_overflow_are_no_forbidden_outputs(backend, name):
    problem = MODELS[name].training(4, 4)
    model, data = problem.packed(backend)
    for w in (1.7e308 * np.sign(problem.weights(backend)), np.full(model.size, -1.7e308)):
        if model.nonnegative is not None:
            w[model.nonnegative] = 1.7e308
        with pytest.raises(ValueError, match="weights times features overflow"):
            model.predict(data, None, w)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_of_kernels_and_of_bound_taggers_that_overflow(backend):
    model = backend.KernelSequenceModel([backend.kernels.Linear()], 2)
    x = [np.full((2, 1), 1e100)]
    weights = model.zeros(model.pack(x, [[0, 1]]))
    weights = weights._replace(coefficients=tuple(A + 1e308 for A in weights.coefficients))
    with pytest.raises(ValueError, match="scores: expected finite"):
        model.predict(weights, x)
    tagger = backend.TaggingModel(["A", "B"], "words", bits=5)
    for w in (np.full(tagger.size, 1e308), np.full(tagger.size, -1e308)):
        with pytest.raises(ValueError, match="weights times features overflow"):
            tagger.bound(w)([{"word": ["a", "b"]}])
