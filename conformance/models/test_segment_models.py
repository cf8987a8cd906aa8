"""Models of segments: sums over tokens, segments of one token, schemes, templates, what segments alone see."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import LABELS, sentences
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.chunks import chunks
from reference.models.segment_templates import check_segment_templates, segment_columns, segment_names

seeds = given(seed=st.integers(0, 2**32 - 1))


@seeds
def test_sums_over_tokens_are_differences_of_prefix_sums(backend, seed):
    """Of small integers, so that both are exact: segments[s, w] = P[s + w + 1] - P[s], for all that end in time."""
    rng = np.random.default_rng(seed)
    n, W, L = int(rng.integers(1, 9)), int(rng.integers(1, 5)), 2
    model, x = backend.SegmentModel(3, L, W), rng.integers(-3, 4, (n, 3)).astype(float)
    w = np.zeros(model.size)
    w[: 3 * L] = rng.integers(-3, 4, 3 * L)
    found = model.scores(model.pack([x]), np.array([0]), w).segments[0]
    P = np.concatenate([np.zeros((1, L)), np.cumsum(x @ w[: 3 * L].reshape(3, L), axis=0)])
    for s, width in itertools.product(range(n), range(W)):
        if s + width < n:
            assert np.array_equal(found[s, width], P[s + width + 1] - P[s])


@seeds
def test_segments_of_one_token_are_a_sequence(backend, seed):
    """With longest = 1 the losses, gradients and predictions are those of a SequenceModel."""
    rng = np.random.default_rng(seed)
    F, L, sizes = 2, int(rng.integers(1, 4)), rng.integers(0, 4, 3)
    X, Y = [rng.normal(size=(n, F)) for n in sizes], [rng.integers(0, L, n) for n in sizes]
    cost = rng.integers(0, 4, (L, L)) * (1.0 - np.eye(L))
    ours, theirs = backend.SegmentModel(F, L, 1, cost=cost), backend.SequenceModel(F, L, cost=cost, start_stop=False)
    v = rng.normal(size=theirs.size)
    w = np.concatenate([v[: F * L], np.zeros(ours.size - theirs.size), v[F * L :]])
    mine = ours.pack(X, [[(t, 0, label) for t, label in enumerate(y.tolist())] for y in Y])
    other = theirs.pack(X, Y)
    for loss in (backend.LogLoss, backend.StructuralHinge):
        (value, gradient), (expected, slope) = (
            loss(model, data).value_and_gradient(at) for model, data, at in ((ours, mine, w), (theirs, other, v))
        )
        close(value, expected)
        close(np.delete(gradient, np.s_[F * L : -L * L]), slope)
    for y, labels in zip(ours.predict(mine, None, w), theirs.predict(other, None, v), strict=True):
        assert np.array_equal(y[:, 2], labels)


@pytest.mark.parametrize("scheme", LABELS)
def test_labels_are_written_as_they_were_read(backend, rng, scheme):
    """Chunks as segments and back, in the scheme that the labels have; O is a segment of one token."""
    X, Y = sentences(rng, 6, scheme)
    model = backend.ChunkingModel.of(X, Y, ["word"], longest=7)
    assert [chunks(model.named(rows)) for rows in map(truth(model, X), Y)] == [chunks(y) for y in Y]
    upper = [[label[0].upper() + label[1:] for label in y] for y in Y]
    assert [model.named(rows) for rows in map(truth(model, X), Y)] == upper
    assert {label for y in upper for label in y} <= set(model.token_labels)


def truth(model, X):
    """From the labels of a sentence to its true segments, as the model's loss reads them."""

    def rows(y):
        x = {name: ["a"] * len(y) for name in X[0]}
        (found,) = np.asarray(model._true_rows(model.pack([x], [y]), np.array([0])))
        found = found[found[:, 0] >= 0]
        assert all(w == 0 for _, w, k in found.tolist() if model.labels[k] == "O")
        return found

    return rows


def test_a_chunk_that_is_too_long_is_named_with_the_length_that_it_needs(backend):
    X, Y = [{"word": list("abcd")}] * 2, [["B-X", "O", "O", "O"], ["O", "B-X", "I-X", "I-X"]]
    with pytest.raises(ValueError, match=r"Y\[1\]\[1\]: a chunk of 3 tokens, .* at most 2: longest=3 takes it and all"):
        backend.ChunkingModel.of(X, Y, ["word"], longest=2)
    model = backend.ChunkingModel.of(X, Y, ["word"], longest=3)
    assert model.labels == ("X", "O") and model.longest.tolist() == [3, 1]
    with pytest.raises(ValueError, match=r"Y\[0\]\[0\]: a chunk of 4 tokens"):
        model.pack(X[:1], [["B-X", "I-X", "I-X", "I-X"]])


def test_templates_of_segments():
    """By hand: joined values, tokens beside the edges and outside, treatments, lengths."""
    x = {"word": ["The", "old", "Duck"], "tag": ["D", "A", "N"]}
    for template, expected in (
        ("%s[word]", ["The", "The old Duck", "Duck"]),
        ("%s[word.lower]|%l", ["the|1", "the old duck|3", "duck|1"]),
        ("%b[-1,tag]/%e[+1,word]", ["_B-1/old", "_B-1/_B+1", "A/_B+1"]),
        ("S1:%b[-2,word]%e[ 0,tag.lower]", ["S1:_B-2d", "S1:_B-2n", "S1:Then"]),
    ):
        names = segment_names(template, x, 3, [(0, 1), (0, 3), (2, 3)])
        assert names == [f"{template}={each}" for each in expected]
    assert segment_columns(["%s[word.lower]", "%b[0,tag]/%l"]) == ["word", "tag"]


def test_what_is_no_template_of_segments_is_named():
    check_refusals("wrong_segments.txt", {"check": check_segment_templates})


def test_what_a_segment_alone_sees_is_learned(backend):
    """The type depends on both words of a chunk, which attributes of single tokens cannot tell."""
    X = [{"word": [a, b, "."]} for a in "xy" for b in "xy"] * 3
    Y = [["B-EQ", "I-EQ", "O"] if a == b else ["B-NE", "I-NE", "O"] for a, b, _ in (x["word"] for x in X)]
    right = []
    for templates in ([], ["%s[word]"]):
        model = backend.ChunkingModel.of(X, Y, ["word"], longest=2, segment_templates=templates)
        w = backend.lbfgs(backend.LogLoss(model, model.pack(X, Y)), lam=1e-3).x
        found = map(model.named, model.predict(model.pack(X), None, w))
        right.append(sum(y == z for y, z in zip(Y, found, strict=True)))
    assert right[0] <= 9 and right[1] == 12
