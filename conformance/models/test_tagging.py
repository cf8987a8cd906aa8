"""Taggers: weights of observed pairs, hashing, legal predictions, functions as templates, answers of bound models."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import LABELS, MODELS, TAGGERS, legal, sentences
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


# model.bound(w): the answers of predict on packed inputs, bit for bit ------------------------------------------------

MANY = ["bias", "BOS", "EOS", "word[-2..2]", "word[-1]|word[0]", "word[1]|tag.shape[-1]|word.brief[0]"]
MANY += ["word.lower", "word.suffix2[1]", "word.prefix1", "tag.hyphen", "tag.title[-1]"]
STRANGE = [*itertools.permutations(["a|b", "a", "b|", "\\", "a\\|b", "", "=", "word[0]=a"], 3)]


def bound_cases(backend):
    """Models and their inputs: unknown words, one token, none; every template and character; what is no columns."""
    known, _ = sentences(np.random.default_rng(3), 30)
    known[4]["word"] = [f"unknown{i}" for i in range(len(known[4]["word"]))]
    cases = [(MODELS[f"tags {options}"].training().make(backend), known) for options in TAGGERS]
    strange = [{"word": list(x), "tag": list(x[::-1])} for x in STRANGE]
    cases.append((backend.TaggingModel.of(strange, [["A", "B", "C"]] * len(strange), MANY), strange))
    sets, letters = [[["a", "b"], ["b"], []], [["c"]]], ["a", "b", "c"]
    cases.append((backend.TaggingModel(["x", "y"], None, vocabulary=letters), sets))
    cases.append((backend.TaggingModel(["x", "y"], lambda x, t: x[t], vocabulary=letters), sets))
    cases.append((backend.TaggingModel(["x", "y"], "words", bits=5), [{"word": ["a", "B-2"]}]))
    return [*cases, (backend.SequenceModel(2, 3), [np.eye(4, 2)])]


@pytest.mark.parametrize("case", range(len(TAGGERS) + 5))
def test_a_bound_model_predicts_as_its_model(backend, rng, case):
    """Inputs one by one and together; ties between labels of equal scores too; float32; with weights of its own."""
    model, X = bound_cases(backend)[case]
    for w in (rng.normal(size=model.size), rng.normal(size=model.size).round(), np.zeros(model.size, np.float32)):
        tagger = model.bound(w)
        expected = [y.tolist() for y in model.predict(model.pack(X, like=w), None, w)]
        w[:] = -w[::-1]
        assert [tagger([x])[0].tolist() for x in X] == expected == [y.tolist() for y in tagger(X)]
    assert tagger([]) == [] and repr(tagger).endswith(f"({model!r})")


def test_a_bound_tagger_without_a_possible_labelling(backend):
    """In iobes, one token can be no chunk's begin: with no label for single tokens and no O it has no labelling."""
    model = backend.TaggingModel(["B-X", "E-X"], "words", bits=5, transitions="iobes")
    tagger = model.bound(np.zeros(model.size))
    assert [y.tolist() for y in tagger([{"word": ["a", "b"]}])] == [[0, 1]]
    with pytest.raises(backend.InfeasibleError):
        tagger([{"word": ["a", "b"]}, {"word": ["a"]}])
