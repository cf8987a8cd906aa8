"""Candidate boxes and all boxes of an image: overlaps counted pixel by pixel, features in files, planted objects found,
ties and duplicates in both panels.
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
from conformance.specimens.models import MODELS, overlap, random_boxes
from conformance.tolerances import close


@given(seed=st.integers(0, 2**32 - 1))
def test_iou_counts_pixels(backend, seed):
    a, b = random_boxes(np.random.default_rng(seed), 2)
    close(backend.iou(a, b), overlap(a, b))
    assert backend.iou(a, a) == 1 and backend.iou(a, b) == backend.iou(b, a)
    assert backend.iou(np.stack([a, b])[:, None], np.stack([a, b, a])).shape == (2, 3)
    assert backend.iou(a * 2**29, a * 2**29) == 1  # no overflow


def whole(X):
    """The pairs as :class:`Candidates`."""
    offsets = np.cumsum([0, *(len(boxes) for boxes, _ in X)])
    return reference.Candidates(np.concatenate([b for b, _ in X]), np.concatenate([x for _, x in X]), offsets)


@given(seed=st.integers(0, 2**32 - 1))
def test_candidates_as_files_keep_them_are_the_same(backend, seed):
    problem = MODELS["candidates"].draw(seed)
    model, Y = problem.make(backend), problem.Y
    X = [(boxes, x.astype(np.float32)) for boxes, x in problem.X]
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
    options = {"epochs": 8, "rng": 0}
    if optimizer in ("bcfw", "multisample", "cutting_planes"):
        hinge = backend.StructuralHinge(model, hinge.data)
    if optimizer == "cutting_planes":
        del options["rng"]
    if optimizer in ("svrg", "lbfgs"):
        options = {"iterations": 20, "mu": 0.1} if optimizer == "lbfgs" else {**options, "mu": 0.1}
    result = getattr(backend, optimizer)(hinge, lam=0.01, **options)
    new = model.pack(X[60:], Y[60:])
    overlaps = backend.iou(new.boxes_of(model.predict(new, None, result.x)), np.array(Y[60:]))
    assert np.mean(overlaps >= 0.5) >= 0.85
    assert np.mean(backend.iou(new.boxes_of(model.predict(new, None, -w)), np.array(Y[60:])) >= 0.5) < 0.3


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


@given(
    seed=st.integers(0, 2**32 - 1),
    mu=st.sampled_from([0.0, 0.05, 1.0, 30.0]),
    scale=st.sampled_from([0.0, 1.0, 50.0]),
)
def test_linearizations_agree(other, space, seed, mu, scale):
    """Value, gradient, task loss and certificates of the panels, ties and fewer candidates than K among them, in the
    data's namespace.
    """
    problem = MODELS["candidates"].draw(seed)
    w = space.put(scale * problem.weights(reference, 4))
    for smoothing in ("Max()", "TopK(1)", "TopK(2)", "TopK(9)", "SquaredL2()", "Entropy()"):
        if smoothing == "Max()" and mu > 0:
            continue
        found = []
        for b in (reference, other):
            name, _, k = smoothing.strip(")").partition("(")
            chosen = getattr(b.smoothings, name)(*([int(k)] if k else []))
            objective = b.StructuralHinge(*problem.packed(b, space.put(0.0)), smoothing=chosen)
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


def scenes(rng, n, side=11):
    """Images of visual words 0, 1, 2: word 2 is frequent in the true box alone."""
    X, Y = [], []
    for _ in range(n):
        top, left = rng.integers(0, side - 5, 2)
        bottom, right = top + rng.integers(4, 6), left + rng.integers(4, 6)
        words = rng.choice(3, (side, side), p=[0.5, 0.4, 0.1])
        words[top:bottom, left:right] = rng.choice(3, (bottom - top, right - left), p=[0.1, 0.2, 0.7])
        X.append(words)
        Y.append([top, left, bottom, right])
    return X, Y


@pytest.mark.parametrize("optimizer", ["bcfw", "casimir"])
def test_planted_objects_are_found(backend, optimizer):
    rng = np.random.default_rng(0)
    model = backend.SubwindowModel(3)
    data, (new, truth) = model.pack(*scenes(rng, 12)), scenes(rng, 12)
    if optimizer == "bcfw":
        result = backend.bcfw(backend.StructuralHinge(model, data), lam=0.1, tol=0.1, epochs=12, rng=0)
        assert result.success and 0 <= result.certificate <= 0.1 * result.fun
    else:
        hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(4))
        result = backend.casimir(hinge, lam=0.1, epochs=2, rng=0)
    found = model.predict(model.pack(new), None, result.x)
    assert np.mean(backend.iou(np.stack(found), np.array(truth)) > 0.5) >= 0.75
