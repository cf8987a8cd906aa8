"""Taggers: weights of observed pairs, hashing, legal predictions, functions as templates."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import LABELS, legal, sentences
from conformance.tolerances import close
from diptych.files import save_model


def test_observed_pairs_by_hand(backend):
    X = [{"word": ["a", "b", "a"]}, {"word": ["b"]}]
    Y = [["N", "V", "N"], ["N"]]
    model = backend.TaggingModel.of(X, Y, ["word"])
    assert model.labels == ("N", "V") and model.vocabulary == ("word[0]=a", "word[0]=b")
    assert model.pairs.tolist() == [0, 2, 3] and model.label_pairs.tolist() == [1, 2]  # a-N, b-N, b-V; NV, VN
    assert model.size == 5
    every = backend.TaggingModel.of(X, Y, ["word"], pairs="all")
    assert every.size == 2 * 2 + 4 and every.pairs is None and not every.restricted
    assert backend.TaggingModel.of(X, Y, ["word"], least=3).size == 0 + 2
    unknown = model.pack([{"word": ["c", "a"]}])
    assert unknown.rows.indices.tolist() == [0] and unknown.rows.indptr.tolist() == [0, 0, 1]


def test_hashing_is_the_same_for_ever(backend):
    """Rows are hashes of names, BLAKE2b modulo their number: a change would make saved models useless."""
    model = backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=10)
    assert model.width == 2**10 // 3 and model.size == 341 * 3 + 9
    data = model.pack([{"word": ["cat", "dog"]}])
    names = ("bias", "word[0]=cat", "bias", "word[0]=dog")
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    assert data.rows.indices.tolist() == [int.from_bytes(digest, "little") % 341 for digest in digests]
    assert backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=2).width == 1


@given(data=st.data())
def test_predicted_labels_are_legal(backend, data):
    scheme = data.draw(st.sampled_from(sorted(LABELS)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    scale = data.draw(st.sampled_from([0.0, 1.0, 1e300, 1e-300]))
    X, _ = sentences(rng, scheme=scheme)
    model = backend.TaggingModel(LABELS[scheme], ["bias", "word[-1..1]"], bits=8, transitions=scheme)
    w = scale * rng.choice([-1.0, 0.0, 1.0], model.size)
    for x, y in zip(X, model.predict(model.pack(X), None, w), strict=True):
        assert len(y) == len(x["word"]) and legal([model.labels[i] for i in y], scheme)


def test_functions_have_no_file_form(backend, tmp_path):
    X, Y = [["a", "b"]], [["N", "V"]]
    model = backend.TaggingModel.of(X, Y, lambda sentence, t: [sentence[t]])
    with pytest.raises(TypeError, match="templates: a function cannot be saved; make a model with templates=None"):
        save_model(tmp_path / "m.npz", model, np.zeros(model.size))
    same = backend.TaggingModel.of([[["a"], ["b"]]], Y, None)
    assert same.vocabulary == model.vocabulary == ("a", "b") and same.settings()["templates"] is None
    weighed = same.pack([[{"a": 2.0, "b": 0.5}]])
    close(same.scores(weighed, np.array([0]), np.array([1.0, 10.0, 0.0])).unary, [[[2.0, 5.0]]])
