"""``model.bound(w)``: the answers of ``predict`` on packed inputs, bit for bit, and weights of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.specimens.models import MODELS, TAGGERS, sentences

STRANGE = ["a|b", "a", "b|", "\\", "a\\|b", "", "=", "word[0]=a"]


@pytest.mark.parametrize("options", TAGGERS, ids=str)
def test_a_bound_tagger_predicts_as_its_model(backend, options):
    """Sentences one by one, with unknown words, of one token and of none; ties between labels of equal scores too."""
    rng = np.random.default_rng(3)
    model = MODELS[f"tags {options}"].training().make(backend)
    X, _ = sentences(rng, 30)
    X[4]["word"] = [f"unknown{i}" for i in range(len(X[4]["word"]))]
    for w in (rng.normal(size=model.size), np.round(rng.normal(size=model.size)), np.zeros(model.size)):
        tagger = model.bound(w)
        expected = [labels.tolist() for labels in model.predict(model.pack(X), None, w)]
        assert [tagger([x])[0].tolist() for x in X] == expected == [labels.tolist() for labels in tagger(X)]
    assert tagger([]) == []


def test_a_bound_tagger_reads_every_template_and_character(backend):
    templates = ["bias", "BOS", "EOS", "word[-2..2]", "word[-1]|word[0]", "word[1]|tag.shape[-1]|word.brief[0]"]
    templates += ["word.lower", "word.suffix2[1]", "word.prefix1", "tag.hyphen", "tag.title[-1]"]
    rng = np.random.default_rng(0)
    X = [{"word": list(each), "tag": list(each[::-1])} for each in itertools.permutations(STRANGE, 3)]
    Y = [[("A", "B", "C")[i] for i in rng.integers(0, 3, 3)] for _ in X]
    model = backend.TaggingModel.of(X, Y, templates)
    w = rng.normal(size=model.size)
    expected = [labels.tolist() for labels in model.predict(model.pack(X), None, w)]
    assert [model.bound(w)([x])[0].tolist() for x in X] == expected


def test_other_inputs_are_packed(backend):
    """Attribute sets, functions of a sentence, float32 weights and other models take the way of ``predict``."""
    rng = np.random.default_rng(1)
    sets = [[["a", "b"], ["b"], []], [["c"]]]
    tagging = backend.TaggingModel(["x", "y"], None, vocabulary=["a", "b", "c"])
    by_function = backend.TaggingModel(["x", "y"], lambda x, t: x[t], vocabulary=["a", "b", "c"])
    columns = backend.TaggingModel(["x", "y"], "words", bits=5)
    sentence = [{"word": ["a", "B-2"]}]
    sequence = backend.SequenceModel(2, 3)
    cases = [(tagging, sets), (by_function, sets), (columns, sentence), (sequence, [rng.normal(size=(4, 2))])]
    for (model, X), dtype in itertools.product(cases, (np.float64, np.float32)):
        w = rng.normal(size=model.size).astype(dtype)
        expected = model.predict(model.pack(X, like=w), None, w)
        assert [y.tolist() for y in model.bound(w)(X)] == [y.tolist() for y in expected]


def test_a_bound_model_has_weights_of_its_own(backend):
    rng = np.random.default_rng(2)
    model = MODELS["tags {'transitions': 'bio'}"].training().make(backend)
    X, _ = sentences(rng)
    w = rng.normal(size=model.size)
    tagger = model.bound(w)
    before = [y.tolist() for y in tagger(X)]
    w[:] = -w
    assert [y.tolist() for y in tagger(X)] == before
    assert repr(tagger).endswith(f"({model!r})")


def test_what_a_bound_model_refuses(backend):
    model = backend.TaggingModel(["x", "y"], "words", bits=5)
    with pytest.raises(ValueError, match=f"w: expected {model.size} weights, got shape \\(3,\\)"):
        model.bound(np.zeros(3))
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="w: expected finite numbers"):
            model.bound(np.full(model.size, wrong))
    tagger = model.bound(np.zeros(model.size))
    with pytest.raises(ValueError, match=r"X\[1\]: expected the columns word, got tag"):
        tagger([{"word": ["a"]}, {"tag": ["b"]}])
    with pytest.raises(TypeError, match=r"X\[0\]\[1\]: word: expected a string"):
        tagger([{"word": ["a", 3]}])


def test_a_bound_tagger_without_a_possible_labelling(backend):
    """In iobes, one token can be no chunk's begin: with no label for single tokens and no O it has no labelling."""
    model = backend.TaggingModel(["B-X", "E-X"], "words", bits=5, transitions="iobes")
    tagger = model.bound(np.zeros(model.size))
    assert [y.tolist() for y in tagger([{"word": ["a", "b"]}])] == [[0, 1]]
    with pytest.raises(backend.InfeasibleError):
        tagger([{"word": ["a", "b"]}, {"word": ["a"]}])
