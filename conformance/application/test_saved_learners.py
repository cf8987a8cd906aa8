"""Saved learners: the file's model predicts from the same X what the learner predicts; spellings of named features;
labels of sequence files.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import diptych.estimators
import reference
from conformance.application.test_app import run
from diptych.files import load_model, save_model
from diptych.files.models import SETTINGS
from reference.models.token_templates import attributes_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = [
    [{"word": "the", "bias": 1.0, "nested": {"a": 1, "b": "c"}}, {"word": "dog", "first": True}, {"word": "a=b:c"}],
    [{"word": "a", "in": ["x", "y"]}, {"word": "dog", "in": {"y"}}],
]
Y, NUMBERS = [["B-N", "I-N", "O"], ["B-N", "I-N"]], [[2, 10, 1], [2, 10]]
ARRAYS, ROWS = [RNG.normal(size=(len(x), 2)) for x in X], RNG.normal(size=(9, 2)) + 3 * np.eye(3, 2)[[0, 1, 2] * 3]
TREES, HEADS = [{"tag": list("DNV")}, {"tag": list("NVDN")}], [[2, 3, 0], [2, 0, 4, 2]]


def learners():
    from scipy.sparse import csr_array

    sparse = [csr_array(x) for x in ARRAYS]
    for name, more in (("SequenceLabeler", {}), ("SequenceLabeler", {"loss": "hinge", "bits": 8}), ("SparseCRF", {})):
        yield from ((name, more, X, y) for y in (Y, NUMBERS))
    yield from (("SequenceLabeler", {}, data, y) for data in (ARRAYS, sparse) for y in (Y, NUMBERS))
    for data in (ARRAYS, sparse):
        yield "KernelSequenceLabeler", {"kernels": "linear,gaussian:1", "epochs": 3}, data, NUMBERS
    for name in ("MulticlassClassifier", "SparseClassifier", "SparseClassifierPath"):
        for intercept in (True, False):
            yield name, {"fit_intercept": intercept}, ROWS, [7, 30, 4] * 3
            yield name, {"fit_intercept": intercept}, csr_array(ROWS), ["up", "down", "left"] * 3
    yield "SparseCRFPath", {"count": 3}, X * 2, Y * 2
    for bits in (8, None):
        yield "DependencyParser", {"templates": [("h.tag", "m.tag", "direction")], "bits": bits}, TREES, HEADS


@pytest.mark.parametrize("panel", ["reference", pytest.param("accelerated", marks=pytest.mark.beyond("twice"))])
def test_a_saved_learner_predicts_the_same(tmp_path, panel):
    for name, more, given, y in learners():
        learner = getattr(diptych.estimators, name)(random_state=0, panel=panel, **more).fit(given, y)
        save_model(tmp_path / "m.npz", learner.model_, learner.weights_)
        model, w, _ = load_model(tmp_path / "m.npz", panel)
        kernels = name.startswith("Kernel")
        found = model.predict(w, given) if kernels else model.predict(model.pack(given), None, w)
        expected = learner.predict(given)
        if name == "DependencyParser":
            assert [heads.tolist() for heads in found] == expected
        elif not isinstance(y[0], list):
            assert [model.labels[i] for i in found] == list(map(str, expected))
        else:
            assert [[model.labels[i] for i in z] for z in found] == [[*map(str, z)] for z in expected]


def test_nested_values_are_those_of_python_crfsuite():
    token = {"w": {"a": 1, "b": "c", "d": {"e": 0.5, "f": ["g"]}}, "s": {"y", "x"}, "t": True, "u": False, "n": []}
    found = attributes_of([[token]], None)
    expected = {"w:a": 1.0, "w:b:c": 1.0, "w:d:e": 0.5, "w:d:f:g": 1.0, "s:x": 1.0, "s:y": 1.0, "t": 1.0, "u": 0.0}
    assert dict(zip(found.names, found.values.tolist(), strict=True)) == expected
    crfsuite = pytest.importorskip("pycrfsuite")
    assert crfsuite.ItemSequence([token]).items() == [expected]


@pytest.mark.parametrize("joiner", [":", "="])
@pytest.mark.parametrize("how", [{}, {"bits": 14}])
def test_an_old_file_keeps_the_spelling_that_it_was_trained_with(tmp_path, joiner, how):
    """TaggingModel wrote name:value, SequenceLabeler name=value, and no file said which."""
    plain = [[{"word": f"w{t}", "-1:word[-3:]": f"v{t % 3}", "bias": 1.0} for t in range(9)]]
    labels = [["A", "B", "C"] * 3]
    names = [[[f"{k}{joiner}{v}" if isinstance(v, str) else k for k, v in x.items()] for x in plain[0]]]
    model = reference.TaggingModel.of(names, labels, None, **how)
    w = np.random.default_rng(0).normal(size=model.size)
    save_model(tmp_path / "m.npz", model, w)
    with np.load(tmp_path / "m.npz") as fields:
        fields = dict(fields)
    header = json.loads(str(fields["header"]))
    assert header["settings"].pop("joiner") == ":" and "joiner" in SETTINGS
    np.savez(tmp_path / "m.npz", **fields | {"header": json.dumps(header)})
    old, w, _ = load_model(tmp_path / "m.npz", "reference")
    save_model(tmp_path / "again.npz", old, w)
    for each in (old, load_model(tmp_path / "again.npz", "reference")[0]):
        data, given = each.pack(plain), model.pack(names)
        assert data.rows.indices.tolist() == given.rows.indices.tolist()


def test_features_without_weights_are_said():
    """All of them, or all values of one; not those of fit, and not a new word beside known ones."""
    model = reference.TaggingModel.of([[{"word": "dog", "bias": 1.0}]], [["A"]], None)
    for x, message in (
        ({"token": "dog"}, "none of its attributes has weights, such as 'token:dog'"),
        ({"word=dog": 1.0}, "none of its attributes has weights, such as 'word=dog'"),
        ({"bias": 1.0, "token": "cat"}, "no value of 'token' has weights, such as 'token': 'cat'"),
    ):
        with pytest.warns(UserWarning, match=message) as said:
            model.pack([[x, x]])
        assert len(said) == 1
    model.pack([[{"word": "cat", "bias": 1.0}], []])


def test_labels_of_a_file_are_those_of_its_users(tmp_path, monkeypatch, reference_cli):
    monkeypatch.chdir(tmp_path)
    for first, more in ((1, []), (1001, []), (1, ["--partitions", 2, "--optimizer", "lbfgs"])):
        labels, test = first + np.array([0, 1, 2, 0, 1, 2]), first + np.array([2, 0])
        np.savez("a.npz", features=np.eye(3)[labels - first], labels=labels, offsets=range(7))
        np.savez("b.npz", features=np.eye(3)[test - first], labels=test, offsets=range(3))
        job = ["train", "a.npz", "--lam", 0.001, "--epochs", 30, "--save", "m.npz", *more]
        status, _, err = reference_cli.run(*job)
        assert status == 0 and f"a.npz: labels {first}, {first + 1}, {first + 2}: no other integer occurs" in err
        assert load_model("m.npz", "reference")[0].labels == tuple(map(str, range(first, first + 3)))
        _, out, _ = reference_cli.run("predict", "m.npz", "b.npz", "--json")
        assert json.loads(out)["labels"] == [[str(k)] for k in test]
        _, out, _ = reference_cli.run("evaluate", "m.npz", "b.npz", "--json")
        assert json.loads(out)["accuracy"]["letter"] == 1.0
