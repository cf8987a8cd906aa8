"""Models of segments: segments of one token, schemes, templates."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.models.test_models import seeds
from conformance.specimens.models import LABELS, sentences
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.chunks import chunks
from reference.models.segment_templates import check_segment_templates, segment_names


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


@pytest.mark.parametrize("scheme", LABELS)
def test_labels_are_written_as_they_were_read(backend, rng, scheme):
    """Chunks as segments and back, in the scheme that the labels have; O is a segment of one token."""
    X, Y = sentences(rng, 6, scheme)
    model = backend.ChunkingModel.of(X, Y, ["word"], longest=7)
    data = model.pack(X, Y)
    every = [rows[rows[:, 0] >= 0] for rows in np.asarray(model._true_rows(data, np.arange(data.n)))]
    upper = [[label[0].upper() + label[1:] for label in y] for y in Y]
    assert [model.named(rows) for rows in every] == upper and {x for y in upper for x in y} <= set(model.token_labels)
    assert [chunks(y) for y in upper] == [chunks(y) for y in Y]
    assert model.longest.tolist() == [1 if label == "O" else 7 for label in model.labels]


def test_templates_of_segments():
    """By hand: joined values, tokens beside the edges and outside, treatments, lengths; what is none is named."""
    x = {"word": ["The", "old", "Duck"], "tag": ["D", "A", "N"]}
    for template, expected in (
        ("%s[word.lower]|%l", ["the|1", "the old duck|3", "duck|1"]),
        ("%b[-1,tag]/%e[+1,word]", ["_B-1/old", "_B-1/_B+1", "A/_B+1"]),
        ("S1:%b[-2,word]%e[ 0,tag.lower]", ["S1:_B-2d", "S1:_B-2n", "S1:Then"]),
    ):
        names = segment_names(template, x, 3, [(0, 1), (0, 3), (2, 3)])
        assert names == [f"{template}={each}" for each in expected]
    check_refusals("wrong_segments.txt", {"check": check_segment_templates})
