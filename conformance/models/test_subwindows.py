"""Localisation over all boxes of small images: scores and losses written out and enumerated, and a planted object
found.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.structures.test_boxes import all_boxes, cells
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.arrays import host
from reference.structures.scores import add, inner


@st.composite
def images(draw):
    """(images, true boxes, number of features): features of pixels, or visual words."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    F, words = draw(st.integers(1, 3)), draw(st.booleans())
    X, Y = [], []
    for _ in range(draw(st.integers(1, 3))):
        H, W = rng.integers(1, 5, 2)
        X.append(rng.integers(-1, F, (H, W)) if words else rng.normal(size=(H, W, F)) * rng.integers(0, 2, (H, W, F)))
        Y.append(all_boxes(H, W)[rng.integers(len(all_boxes(H, W)))])
    return X, Y, F


def features(x, F):
    """(H, W, F)."""
    return x if x.ndim == 3 else (x[:, :, None] == np.arange(F)).astype(np.float64)


@given(problem=images())
def test_scores_losses_and_parts_are_their_formulas(backend, problem):
    """For every box of every image; and the best of them is the prediction, the hinge the worst."""
    X, Y, F = problem
    model = backend.SubwindowModel(F)
    data, w, hinge = model.pack(X, Y), np.random.default_rng(0).normal(size=F), 0.0
    predicted = model.predict(data, None, w)
    for i, (x, true) in enumerate(zip(X, Y, strict=True)):
        piece = np.array([i])
        scores, loss, gold = model.scores(data, piece, w), model.task_loss(data, piece), model.gold(data, piece)
        structure = model.structure_type.unchecked(scores)
        values, losses = {}, {}
        for y in all_boxes(*x.shape[:2]):
            values[y] = sum(float(features(x, F)[p] @ w) for p in cells(y))
            losses[y] = 1 - len(cells(y) & cells(true)) / len(cells(y) | cells(true))
            parts = structure.parts(np.array(y))
            close(inner(scores, parts), values[y])
            close(inner(loss, parts), losses[y])
            close(inner(add(scores, loss), parts), values[y] + losses[y])
        close(inner(scores, gold), values[true])
        assert inner(loss, gold) == 0 and len(values) == model.counts(data)[i]
        close(values[tuple(predicted[i].tolist())], max(values.values()))
        hinge += max(values[y] + losses[y] for y in values) - values[true]
    close(backend.StructuralHinge(model, data).value_and_gradient(w)[0], hinge / len(X))


@given(problem=images())
def test_the_adjoint_identity(backend, space, problem):
    X, Y, F = problem
    model = backend.SubwindowModel(F)
    data, rng = model.pack(X, Y, like=space.put(0.0)), np.random.default_rng(1)
    for i, x in enumerate(X):
        dw, piece = space.put(rng.normal(size=F)), np.array([i])
        change = model.pushforward(data, piece, dw, dw)
        g = change._replace(pixels=space.put(rng.normal(size=x.shape[:2])), loss=space.put(rng.normal()))
        back = space.get(model.pullback(data, piece, dw, g))
        assert back.dtype == space.dtype
        close(np.sum(space.get(change.pixels) * space.get(g.pixels)), space.get(dw) @ back, space.dtype, 100.0)
    assert [y.dtype for y in model.predict(data, None, space.put(rng.normal(size=F)))] == [np.int64] * len(X)


@given(problem=images())
def test_feature_vectors_are_within_the_diameter(backend, problem):
    X, Y, F = problem
    model = backend.SubwindowModel(F)
    for x, bound in zip(X, model.squared_diameters(model.pack(X, Y)), strict=True):
        sums = np.array([features(x, F)[t:b, l:r].sum(axis=(0, 1)) for t, l, b, r in all_boxes(*x.shape[:2])])
        assert np.max(np.sum((sums[:, None] - sums) ** 2, axis=2)) <= bound * (1 + 1e-12) + 1e-12


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


def test_panels_take_the_same_steps(other):
    X, Y = scenes(np.random.default_rng(3), 4, side=8)
    runs = []
    for b in (reference, other):
        model = b.SubwindowModel(3)
        runs.append(b.bcfw(b.StructuralHinge(model, model.pack(X, Y)), lam=0.5, epochs=3, tol=0.0, rng=0))
    close(runs[1].x, runs[0].x)
    close([row.gap for row in runs[1].history], [row.gap for row in runs[0].history])


def test_what_does_not_fit_is_refused(backend):
    model, image = backend.SubwindowModel(2), np.zeros((2, 3), np.int64)
    for X, Y, message in (
        ([image, np.zeros((2, 3))], None, r"X\[1\]: expected features \(H, W, 2\) or integers, visual words, \(H, W\)"),
        ([np.zeros((0, 3), np.int64)], None, r"X\[0\]: .* got int64 of shape \(0, 3\)"),
        ([np.full((2, 3), 2)], None, r"X\[0\]: expected visual words in 0..1, or -1 for none, got 2..2"),
        ([np.zeros((2, 3, 1))], None, r"X\[0\]: expected 2 features, got 1"),
        ([np.full((1, 1, 2), np.nan)], None, r"X\[0\]\[0\]: column 0: expected a finite number, got nan"),
        ([image], [], "Y: expected 1 boxes, one for each image of X, got 0"),
        ([image], [[0, 0, 3, 3]], r"Y\[0\]: expected boxes within an image of 2 x 3 pixels, got \[0, 0, 3, 3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            model.pack(X, Y)
    data = model.pack([image], [[0, 0, 1, 1]])
    with pytest.raises(ValueError, match="packed by a different model, with 2 features; this one has 1"):
        backend.SubwindowModel(1).predict(data, None, np.zeros(1))
    with pytest.raises(TypeError, match="expected what model.pack returned, got list"):
        model.predict([image], None, np.zeros(2))
    with pytest.raises(ValueError, match="Y: this data was packed without true boxes"):
        backend.StructuralHinge(model, model.pack([image])).value_and_gradient(np.zeros(2))
    with pytest.raises(backend.UnsupportedError, match="LogLoss .* needs expectation"):
        backend.LogLoss(model, data)
    assert model.predict(model.pack([]), None, np.zeros(2)) == []


def test_a_saved_model_predicts_the_same(backend, tmp_path):
    X, _ = scenes(np.random.default_rng(2), 2, side=8)
    model, w = backend.SubwindowModel(3), np.array([-0.5, -0.2, 0.7])
    save_model(tmp_path / "m.npz", model, w)
    again, v, _ = load_model(tmp_path / "m.npz", backend.module)
    assert type(again) is type(model) and np.array_equal(v, w)
    for y, z in zip(model.predict(model.pack(X), None, w), again.predict(again.pack(X), None, v), strict=True):
        assert np.array_equal(host(y), host(z))
