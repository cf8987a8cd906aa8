"""Candidate boxes: overlaps counted pixel by pixel, scores written out and enumerated, packing, and a planted object
found.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from accelerated.compiled.problems import candidates
from accelerated.optimizers.svrg import SVRG
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.arrays import host
from reference.screening.registry import feature_range, listed_spread
from reference.screening.restricted import restrict
from reference.structures.scores import inner

SIDE = 9  # of images


def random_boxes(rng, m):
    ends = np.sort(np.array([rng.choice(SIDE + 1, 2, replace=False) for _ in range(2 * m)]).reshape(m, 2, 2), axis=2)
    return ends.transpose(0, 2, 1).reshape(m, 4)


def pixels(box):
    top, left, bottom, right = box
    return {(i, j) for i in range(top, bottom) for j in range(left, right)}


def overlap(a, b):
    return len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b))


@st.composite
def images(draw, dtype=None):
    """(pairs of boxes and features, true boxes, the shape of features): each true box has pixels in common with a
    candidate.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(3,), (2, 1, 2)]))
    dtype = dtype or draw(st.sampled_from([np.float32, np.float64]))
    X = []
    for _ in range(draw(st.integers(1, 4))):
        m = draw(st.integers(1, 4))
        features = rng.normal(size=(m, *shape)) if draw(st.booleans()) else rng.integers(-1, 2, (m, *shape))
        X.append((random_boxes(rng, m), features.astype(dtype)))
    Y = [boxes[rng.integers(len(boxes))] for boxes, _ in X]
    return X, [near(rng, box) for box in Y], shape


def near(rng, box):
    """A box that holds the given one."""
    top, left, bottom, right = box
    return [max(0, top - rng.integers(2)), left, bottom, min(SIDE, right + rng.integers(2))]


@given(seed=st.integers(0, 2**32 - 1))
def test_iou_counts_pixels(backend, seed):
    a, b = random_boxes(np.random.default_rng(seed), 2)
    close(backend.iou(a, b), overlap(a, b))
    assert backend.iou(a, a) == 1 and backend.iou(a, b) == backend.iou(b, a)
    assert backend.iou(np.stack([a, b])[:, None], np.stack([a, b, a])).shape == (2, 3)
    assert backend.iou(a * 2**29, a * 2**29) == 1  # no overflow


@given(problem=images())
def test_scores_losses_and_parts_are_their_formulas(backend, problem):
    """Of every candidate of every image; the best of them is the prediction, and the hinge is the worst of them."""
    X, Y, shape = problem
    model = backend.CandidateModel(shape)
    data = model.pack(X, Y)
    w, hinge = np.random.default_rng(0).normal(size=model.size), 0.0
    predicted = model.predict(data, None, w)
    for i, ((boxes, features), true) in enumerate(zip(X, Y, strict=True)):
        piece = np.array([i])
        scores = [float(w @ x.astype(np.float64).ravel()) for x in features]
        overlaps = [overlap(box, true) for box in boxes]
        best = int(np.argmax(np.round(overlaps, 12)))
        losses = [1 - overlap(box, boxes[best]) for box in boxes]
        close(model.scores(data, piece, w).values[0], scores)
        close(model.task_loss(data, piece).values[0], losses)
        gold = model.gold(data, piece)
        assert int(data.best[i]) == best and host(gold.values).tolist() == [
            [float(y == best) for y in range(len(boxes))]
        ]
        assert inner(model.task_loss(data, piece), gold) == 0
        close(model.gold_scores(data, piece, w), [scores[best]])
        close(scores[predicted[i]], max(scores))
        hinge += max(a + b for a, b in zip(scores, losses, strict=True)) - scores[best]
    assert data.boxes_of(predicted).tolist() == [list(b[y]) for (b, _), y in zip(X, predicted, strict=True)]
    objective = backend.StructuralHinge(model, data)
    close(objective.value_and_gradient(w)[0], hinge / len(X))
    assert model.counts(data) == [len(boxes) for boxes, _ in X]


@given(problem=images())
def test_batches_are_their_images(backend, space, problem):
    """In pieces of any size, in any order, with repeats; scores and gradients in the data's namespace and dtype."""
    X, Y, shape = problem
    order = np.random.default_rng(1).integers(0, len(X), 2 * len(X) + 1)
    w = space.put(np.random.default_rng(2).normal(size=int(np.prod(shape))))
    for most in (3, 2048):
        model = backend.CandidateModel(shape, max_candidates=most)
        data = model.pack(X, Y, like=space.put(0.0))
        pieces = list(model.chunks(data, order))
        assert sorted(np.concatenate(pieces)) == sorted(order)
        assert all(len(p) * data.lengths[p[0]] <= max(most, data.lengths[p[0]]) for p in pieces)
        for piece in pieces:
            alone = np.stack([space.get(model.scores(data, p, w).values)[0] for p in piece[:, None]])
            close(space.get(model.scores(data, piece, w).values), alone, space.dtype)
        for objective in (backend.StructuralHinge(model, data), backend.LogLoss(model, data)):
            value, gradient = objective.value_and_gradient(w, order)
            each = [objective.value_and_gradient(w, [i]) for i in order]
            close(value, np.mean([v for v, _ in each]), space.dtype)
            assert space.get(gradient).dtype == space.dtype
            close(space.get(gradient), np.mean([space.get(g) for _, g in each], axis=0), space.dtype)


@given(problem=images())
def test_the_adjoint_identity(backend, space, problem):
    """<J dw, g> = <dw, J^T g>, with g anywhere, and 0 in places."""
    X, Y, shape = problem
    model = backend.CandidateModel(shape)
    data = model.pack(X, Y, like=space.put(0.0))
    rng = np.random.default_rng(1)
    for piece in model.chunks(data, np.arange(data.n)):
        dw = space.put(rng.normal(size=model.size))
        change = model.pushforward(data, piece, dw, dw)
        g = change._replace(
            values=space.put(rng.normal(size=change.values.shape) * rng.integers(0, 2, change.values.shape))
        )
        back = space.get(model.pullback(data, piece, dw, g))
        assert back.dtype == space.dtype and back.shape == (model.size,)
        close(np.sum(space.get(change.values) * space.get(g.values)), space.get(dw) @ back, space.dtype, 100.0)


@given(problem=images())
def test_what_is_known_of_features(backend, problem):
    """Norms, diameters, ranges and spreads, against all pairs of candidates."""
    X, Y, shape = problem
    model = backend.CandidateModel(shape)
    data = model.pack(X, Y)
    tables = [x.astype(np.float64).reshape(len(x), -1) for _, x in X]
    close(model.squared_norms(data), [np.max(np.linalg.eigvalsh(x.T @ x)) for x in tables])
    diameters = np.array([np.max(np.sum((x[:, None] - x) ** 2, axis=2)) for x in tables])
    assert np.all(model.squared_diameters(data) >= diameters * (1 - 1e-12))
    close(feature_range(model, data) ** 2, sum((np.ptp(x, axis=0) / 2) ** 2 for x in tables))
    spread = listed_spread(model, data)
    close(spread.centred**2, sum(np.sum((x - x.mean(axis=0)) ** 2, axis=0) for x in tables))
    close(spread.from_last**2, sum(np.sum((x - x[-1]) ** 2, axis=0) for x in tables))
    objective, w = backend.LogLoss(model, data), np.random.default_rng(3).normal(size=model.size)
    some = restrict(model, np.arange(0, model.size, 2))
    smaller = type(objective)(some, some.narrow(data))
    embedded = np.where(np.arange(model.size) % 2 == 0, w, 0.0)
    close(smaller.value_and_gradient(w[::2])[0], objective.value_and_gradient(embedded)[0])


def whole(X):
    """The pairs as :class:`Candidates`."""
    offsets = np.cumsum([0, *(len(boxes) for boxes, _ in X)])
    return reference.Candidates(np.concatenate([b for b, _ in X]), np.concatenate([x for _, x in X]), offsets)


@given(problem=images(dtype=np.float32))
def test_candidates_as_files_keep_them_are_the_same(backend, problem):
    X, Y, shape = problem
    model = backend.CandidateModel(shape)
    given = whole(X)
    a, b = model.pack(X, Y), model.pack(given, Y)
    for field in ("boxes", "features", "offsets", "best", "losses"):
        assert np.array_equal(getattr(a, field), getattr(b, field))
    assert (
        np.shares_memory(b.features, given.features)
        and b.features.dtype == np.float32
        and given.features.flags.writeable
    )
    assert b.place.dtype == np.float64 and not b.features.flags.writeable


def test_mapped_features_are_left_in_their_file(backend, tmp_path):
    """Nothing is copied when packing, and training reads the map."""
    rng = np.random.default_rng(0)
    X, Y = planted(rng, 6, np.array([1.0, -2.0, 0.5, 1.5]), 0.1)
    given = whole(X)
    np.save(tmp_path / "features.npy", given.features.astype(np.float32))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    model = backend.CandidateModel(4)
    data, usual = (
        model.pack(given._replace(features=mapped), Y),
        model.pack(given._replace(features=np.array(mapped)), Y),
    )
    assert np.shares_memory(data.features, mapped)
    runs = [
        backend.svrg(
            backend.StructuralHinge(model, d, smoothing=backend.smoothings.TopK(3)), lam=0.1, mu=1.0, epochs=2, rng=0
        )
        for d in (data, usual)
    ]
    assert np.array_equal(runs[0].x, runs[1].x)


def planted(rng, n, w, noise):
    """Images of 12 candidates, the box of the best score for w being true; then noise is added to the features."""
    X, Y = [], []
    for _ in range(n):
        boxes, x = random_boxes(rng, 12), rng.normal(size=(12, len(w)))
        Y.append(boxes[np.argmax(x @ w)])
        X.append((boxes, x + noise * rng.normal(size=x.shape)))
    return X, Y


@pytest.mark.parametrize("optimizer", ["bcfw", "sgd", "svrg", "casimir", "lbfgs", "multisample", "cutting_planes"])
def test_a_planted_direction_is_learned(backend, optimizer):
    rng = np.random.default_rng(7)
    w = np.array([1.0, -0.7, 0.4, 0.0])
    X, Y = planted(rng, 100, w, 0.05)
    model = backend.CandidateModel(4)
    hinge = backend.StructuralHinge(model, model.pack(X[:60], Y[:60]), smoothing=backend.smoothings.TopK(3))
    options = {
        "lbfgs": {"iterations": 20, "mu": 0.1},
        "svrg": {"mu": 0.1},
        "casimir": {},
        "sgd": {},
    }.get(optimizer, {})
    if optimizer in ("bcfw", "multisample", "cutting_planes"):
        hinge = backend.StructuralHinge(model, hinge.data)
    if optimizer != "lbfgs":
        options = {**options, "epochs": 8}
    if optimizer in ("svrg", "casimir", "sgd", "bcfw", "multisample"):
        options = {**options, "rng": 0}
    result = getattr(backend, optimizer)(hinge, lam=0.01, **options)
    new = model.pack(X[60:], Y[60:])
    overlaps = backend.iou(new.boxes_of(model.predict(new, None, result.x)), np.array(Y[60:]))
    assert np.mean(overlaps >= 0.5) >= 0.85
    assert np.mean(backend.iou(new.boxes_of(model.predict(new, None, -w)), np.array(Y[60:])) >= 0.5) < 0.3


def test_panels_take_the_same_steps(other):
    X, Y = planted(np.random.default_rng(3), 8, np.array([1.0, -0.7, 0.4]), 0.3)
    X = [(boxes[: 12 - i % 3], x[: 12 - i % 3].astype(np.float32)) for i, (boxes, x) in enumerate(X)]
    for optimizer, smoothing, mu in (
        ("sgd", "TopK", 0.5),
        ("sgd", "Max", None),
        ("svrg", "TopK", 0.5),
        ("svrg", "Entropy", 0.5),
        ("casimir", "TopK", None),
        ("bcfw", "Max", None),
    ):
        runs = []
        for b in (reference, other):
            model = b.CandidateModel(3)
            kind = getattr(b.smoothings, smoothing)
            hinge = b.StructuralHinge(model, model.pack(X, Y), smoothing=kind(3) if smoothing == "TopK" else kind())
            options = {} if mu is None else {"mu": mu}
            runs.append(getattr(b, optimizer)(hinge, lam=0.1, epochs=3, rng=0, **options))
        close(runs[1].x, runs[0].x)
        close(runs[1].fun, runs[0].fun)


@pytest.mark.parametrize(
    "smoothing", [accelerated.smoothings.TopK(3), accelerated.smoothings.Entropy()], ids=["TopK", "Entropy"]
)
def test_answers_at_a_snapshot_are_kept_where_there_is_room(monkeypatch, rng, smoothing):
    """Beyond the bound they are asked for again, with the same result."""
    X, Y = planted(rng, 6, np.array([1.0, -0.7, 0.4]), 0.3)
    model = accelerated.CandidateModel(3)
    hinge = accelerated.StructuralHinge(model, model.pack(X, Y), smoothing=smoothing)
    box = SVRG()
    kept = box.snapshot(hinge, np.ones(3), 0.5).kept
    assert kept.labels.shape[1] > 0 and np.all(kept.outputs > 0)
    run = accelerated.svrg(hinge, lam=0.1, mu=0.5, epochs=3, rng=0)
    monkeypatch.setattr(candidates, "MOST", 16 * kept.labels.size - 1)
    assert not hasattr(box.snapshot(hinge, np.ones(3), 0.5), "kept")
    close(accelerated.svrg(hinge, lam=0.1, mu=0.5, epochs=3, rng=0).x, run.x)


@given(problem=images(), mu=st.sampled_from([0.0, 0.05, 1.0, 30.0]), scale=st.sampled_from([0.0, 1.0, 50.0]))
def test_linearizations_agree(other, space, problem, mu, scale):
    """Value, gradient, task loss and certificates of the panels, ties and fewer candidates than K among them, in the
    data's namespace.
    """
    X, Y, shape = problem
    w = space.put(scale * np.random.default_rng(4).normal(size=int(np.prod(shape))))
    for smoothing in ("Max()", "TopK(1)", "TopK(2)", "TopK(9)", "SquaredL2()", "Entropy()"):
        if smoothing == "Max()" and mu > 0:
            continue
        found = []
        for b in (reference, other):
            name, _, k = smoothing.strip(")").partition("(")
            model = b.CandidateModel(shape)
            chosen = getattr(b.smoothings, name)(*([int(k)] if k else []))
            objective = b.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)), smoothing=chosen)
            found.append((objective.linearize(w, mu=mu), objective.value_and_gradient(w, mu=mu)))
        (theirs, plain), (mine, own) = found
        size = max(1.0, abs(theirs.value))
        close(mine.value, theirs.value, space.dtype, size)
        close(own[0], plain[0], space.dtype, size)
        assert space.get(mine.gradient).dtype == space.dtype
        if space.dtype == "float64":  # in float32 rounding decides between near ties
            assert mine.exact == theirs.exact
            close(mine.task_loss, theirs.task_loss)
            close(mine.gradient, theirs.gradient, scale=10.0)
            close(own[1], plain[1], scale=10.0)


@pytest.mark.parametrize(
    "options",
    [
        {"average": "weighted", "cached_passes": 0},
        {"capacity": 2},
        {"line_search": False},
        {"cached_passes": 2, "average": "weighted"},
    ],
)
def test_panels_keep_the_same_working_sets(other, options):
    """Block-coordinate Frank-Wolfe with its options: the same weights and gaps; two candidates of the same features
    and loss are one.
    """
    X, Y = planted(np.random.default_rng(5), 9, np.array([1.0, -0.7, 0.4]), 0.5)
    X = [(np.concatenate([boxes, boxes[:3]]), np.concatenate([x, x[:3]]).astype(np.float32)) for boxes, x in X]
    runs = []
    for b in (reference, other):
        model = b.CandidateModel(3)
        runs.append(b.bcfw(b.StructuralHinge(model, model.pack(X, Y)), lam=0.05, epochs=6, tol=0.0, rng=0, **options))
    close(runs[1].x, runs[0].x)
    close([row.gap for row in runs[1].history], [row.gap for row in runs[0].history])


PAIR = ([[0, 0, 2, 2], [1, 1, 3, 4]], np.ones((2, 3)))


@pytest.mark.parametrize(
    ("pair", "error", "message"),
    [
        (PAIR[:1], TypeError, r"X\[1\]: expected a pair \(boxes, features\), got tuple"),
        ((PAIR[0], np.ones((3, 3))), ValueError, r"X\[1\]: boxes: .* of shape \(3, 4\), got \(2, 4\)"),
        ((PAIR[0], np.ones(2)), ValueError, r"X\[1\]: features: expected an array \(candidates, features, ...\)"),
        ((PAIR[0], np.ones((2, 2))), ValueError, r"X\[1\]: features: expected float64 of shape \(m, 3\), as in X\[0\]"),
        ((PAIR[0], np.ones((2, 3), np.float32)), ValueError, r"X\[1\]: features: expected float64 .* got float32"),
        ((PAIR[0], np.ones((2, 3), np.float16)), TypeError, r"X\[1\]: features: expected float32 or float64"),
        (([[0, 0, 2, 2], [1, 1, 1, 4]], PAIR[1]), ValueError, r"X\[1\]: boxes: .* top < bottom .* got \[1, 1, 1, 4\]"),
        (([[0.0, 0, 2, 2], [1, 1, 3, 4]], PAIR[1]), TypeError, r"X\[1\]: boxes: expected integers, pixels, got float"),
        ((PAIR[0], [[1.0, 2, 3], [1, np.nan, 3]]), ValueError, r"X\[1\]\[1\]: features: .* got others"),
        (([], np.ones((0, 3))), ValueError, r"X\[1\]: expected at least one candidate, got 0"),
    ],
)
def test_bad_images_are_named(backend, pair, error, message):
    with pytest.raises(error, match=message):
        backend.CandidateModel(3).pack([PAIR, pair])


def test_what_does_not_fit_is_refused(backend):
    model = backend.CandidateModel(3)
    for Y, error, message in (
        ([], ValueError, "Y: expected 1 boxes, one for each image of X, got 0"),
        ([[0, 0, 2]], ValueError, r"Y\[0\]: expected boxes .* of shape \(4,\), got \(3,\)"),
        ([[7, 7, 9, 9]], ValueError, r"Y\[0\]: no candidate of X\[0\] touches the true box \[7, 7, 9, 9\]"),
    ):
        with pytest.raises(error, match=message):
            model.pack([PAIR], Y)
    with pytest.raises(ValueError, match=r"X: expected features of shape \(3,\) for each candidate, got \(2,\)"):
        model.pack([(PAIR[0], np.ones((2, 2)))])
    for offsets, message in (
        ([0, 1], "X offsets: expected 2 at the end, the number of candidates, got 1"),
        ([0, 2, 2], r"X\[1\]: expected at least one candidate, got 0"),
        ([1, 2], "X offsets: expected integers .* that start at 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.pack(reference.Candidates(*PAIR, np.array(offsets)))
    data = model.pack([PAIR], [[0, 0, 2, 2]])
    with pytest.raises(
        ValueError, match=r"packed by a different model, with features of shape \(3,\); this one has \(1, 3\)"
    ):
        backend.CandidateModel((1, 3)).predict(data, None, np.zeros(3))
    with pytest.raises(TypeError, match="expected what model.pack returned, got list"):
        model.predict([PAIR], None, np.zeros(3))
    with pytest.raises(ValueError, match="Y: this data was packed without true boxes"):
        backend.StructuralHinge(model, model.pack([PAIR])).value_and_gradient(np.zeros(3))
    with pytest.raises(ValueError, match="a: expected boxes with top < bottom"):
        backend.iou([2, 0, 2, 2], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="shape: expected an integer >= 1, got 0"):
        backend.CandidateModel((3, 0))
    assert model.predict(model.pack([]), None, np.zeros(3)) == []


def test_a_saved_model_predicts_the_same(backend, tmp_path):
    X, _ = planted(np.random.default_rng(2), 3, np.array([0.1, 1.0, -0.7, 0.4]), 0.5)
    X = [(boxes, x.reshape(-1, 2, 1, 2)) for boxes, x in X]
    model, w = backend.CandidateModel((2, 1, 2)), np.array([0.2, 0.7, -0.4, 0.3])
    save_model(tmp_path / "m.npz", model, w)
    again, v, _ = load_model(tmp_path / "m.npz", backend.module)
    assert type(again) is type(model) and again.shape == model.shape and np.array_equal(v, w)
    assert model.predict(model.pack(X), None, w) == again.predict(again.pack(X), None, v)
