"""Learners: defaults, passes over more examples, warm starts, top features, data frames."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest

import diptych.estimators
import reference
from conformance.application.test_estimators import (
    estimators,  # noqa: F401 (fixtures)
    tokens,
    words,
)
from conformance.application.test_example_places import Frame
from conformance.tolerances import close
from diptych.files.columns import load_columns

pytest.importorskip("sklearn")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few iterations are asked for


def test_the_default_weight_is_2_over_n_at_the_optimum(estimators):
    """Of sequences with weights, n is their sum; L-BFGS runs until the gradient is small."""
    X, Y = words(8)
    for weights, n in ((None, 8.0), (np.array([1.0, 2.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]), 8.5)):
        found = estimators.SequenceLabeler().fit(X, Y, sample_weight=weights)
        told = estimators.SequenceLabeler(lam=2 / n).fit(X, Y, sample_weight=weights)
        assert found.result_.success and found.result_.certificate < 1e-6
        close(found.coef_, told.coef_)


def test_the_command_has_the_weight_of_the_labeler(tmp_path, capsys):
    """Both minimise one objective, to one value."""
    from diptych.commands.main import main
    from reference.models.token_templates import attributes_of, check_templates

    path = tmp_path / "two.txt"
    path.write_text("The D\nduck N\nswims V\n\nA D\ndog N\n\nducks N\nswim V\n")
    assert main(["tag", "train", str(path), "--optimizer", "lbfgs", "--json", "--panel", "reference", "--quiet"]) == 0
    report = json.loads(capsys.readouterr().out)
    sentences, Y = load_columns(str(path)), [["D", "N", "V"], ["D", "N"], ["N", "V"]]
    found = attributes_of(sentences, check_templates("words"))
    names = [found.names[k] for k in found.numbers.tolist()]
    tokens = [names[a:b] for a, b in pairwise(found.indptr.tolist())]
    X = [tokens[a:b] for a, b in pairwise(found.offsets.tolist())]
    close(diptych.estimators.SequenceLabeler(panel="reference").fit(X, Y).result_.fun, report["objective"], scale=1.0)
    assert report["job"]["lam"] == 2 / 3 and report["success"]


@pytest.mark.parametrize("name", ["MulticlassClassifier", "SequenceLabeler"])
def test_one_pass_over_one_example_is_the_step_of_sgd(estimators, name):
    """w <- (1 - gamma lam) w - gamma g with gamma = 1/(lam (t + 1/lam)), across calls."""
    X, Y = words(4) if name == "SequenceLabeler" else (np.eye(4)[:, :3], ["a", "b", "c", "a"])
    classes = np.unique(np.concatenate(Y)) if name == "SequenceLabeler" else ["c", "b", "a"]
    learner, lam, w = getattr(estimators, name)(lam=0.5), 0.5, None
    for t, (x, y) in enumerate(zip(X, Y, strict=True), 1):
        learner.partial_fit([x], [y], classes if t == 1 else None)
        objective = reference.LogLoss(learner.model_, learner.model_.pack(*one_example(learner, x, y)))
        w = objective.zeros() if w is None else w
        gamma = 1 / (lam * (t + 1 / lam))
        w = (1 - gamma * lam) * w - gamma * np.asarray(objective.value_and_gradient(w)[1])
        close(learner.weights_, w)
    again = pickle.loads(pickle.dumps(learner))
    close(again.partial_fit([X[0]], [Y[0]]).weights_, learner.partial_fit([X[0]], [Y[0]]).weights_)
    w = learner.fit(X, Y).weights_
    close(w, getattr(estimators, name)(lam=0.5).fit(X, Y).weights_)  # fit forgets the passes
    gamma = 1 / (lam * (len(Y) * learner.n_iter_ + 1 + 1 / lam))  # and they go on from it
    objective = reference.LogLoss(learner.model_, learner.model_.pack(*one_example(learner, X[0], Y[0])))
    w = (1 - gamma * lam) * w - gamma * np.asarray(objective.value_and_gradient(w)[1])
    close(learner.partial_fit([X[0]], [Y[0]]).weights_, w)


def one_example(learner, x, y):
    """An example as the model packs it."""
    if isinstance(y, str):
        return np.array(x)[None], [learner.classes_.tolist().index(y)]
    return [x], [[learner.classes_.tolist().index(label) for label in y]]


@pytest.mark.beyond("a long training through a command or learner")
def test_passes_come_near_to_the_optimum(estimators):
    X, Y = tokens()
    labels = ["B-NP", "I-NP", "O"]
    whole = estimators.SequenceLabeler(lam=0.1, bits=8, pairs="all").fit(X, Y)
    learner = estimators.SequenceLabeler(lam=0.1, bits=8, random_state=0)
    gaps = []
    for _ in range(200):
        learner.partial_fit(X, Y, labels)
        gaps.append(learner.result_.fun - whole.result_.fun)
    assert -1e-6 < gaps[-1] < 0.02 * gaps[0] and learner.predict(X) == Y
    parser = estimators.DependencyParser(templates=[("h.tag", "m.tag", "direction")], bits=8, random_state=0)
    trees = [{"tag": list("DNV")}, {"tag": list("NV")}], [[2, 3, 0], [2, 0]]
    for _ in range(3):
        parser.partial_fit(*trees)
    assert parser.score(*trees) == 1.0


def test_a_warm_start_is_at_the_optimum(estimators):
    """Of the same examples nothing is left to do; weights of features and labels that stay are kept, in any order."""
    X, Y = tokens()
    for learner in (
        estimators.SequenceLabeler(warm_start=True),
        estimators.SequenceLabeler(warm_start=True, bits=8),
        estimators.SparseCRF(beta_share=0.3, warm_start=True),
    ):
        cold = learner.fit(X, Y).n_iter_
        w = learner.coef_
        assert learner.fit(X, Y).n_iter_ == 1 < cold
        np.testing.assert_allclose(learner.coef_, w, atol=1e-4)
    rows = estimators.MulticlassClassifier(warm_start=True).fit(np.eye(3), ["a", "b", "c"])
    assert rows.n_iter_ > 1 == rows.fit(np.eye(3), ["a", "b", "c"]).n_iter_
    labeler = estimators.SequenceLabeler(warm_start=True, options={"iterations": 0}, pairs="all")
    labeler.set_params(options={}).fit([[["y"], ["x"]]], [["B", "O"]])
    before = {(a, b): w for a, b, w in labeler.top_features()}
    labeler.set_params(options={"iterations": 0}).fit([[["x"], ["z"], ["y"]]], [["A", "O", "B"]])
    assert {(a, b): w for a, b, w in labeler.top_features()} == before and len(before) == 4
    parser = estimators.DependencyParser(templates=[("h.tag",)], bits=4, loss="crf", warm_start=True)
    trees = [{"tag": list("DNV")}], [[2, 3, 0]]
    assert parser.fit(*trees).n_iter_ > 1 == parser.fit(*trees).n_iter_
    with pytest.raises(ValueError, match="warm_start: expected the templates of the last fit"):
        parser.set_params(templates=[("m.tag",)]).fit(*trees)


def test_top_features(estimators):
    """The largest weights of each label by name; hashed features have none."""
    X, Y = tokens()
    labeler = estimators.SequenceLabeler(pairs="all").fit(X, Y)
    weights, table = np.asarray(labeler.model_.split(labeler.coef_)[0]), labeler.top_features(2)
    assert [label for label, _, _ in table] == [label for label in labeler.classes_ for _ in range(2)]
    for label, feature, weight in table:
        column = weights[:, labeler.model_.labels.index(label)]
        assert weight == column[labeler.model_.vocabulary.index(feature)]
        assert abs(weight) >= np.sort(np.abs(column))[-2]
    lines = repr(table).splitlines()
    assert lines[0].split() == ["label", "feature", "weight"] and len(lines) == 7 and table.note is None
    hashed = estimators.SequenceLabeler(bits=8).fit(X, Y).top_features()
    assert "names are not kept" in repr(hashed) and all(isinstance(row.feature, int) for row in hashed)
    rows = estimators.MulticlassClassifier().fit([[0.0, 1.0], [2.0, 0.0]], [7, 3]).top_features()
    signs = {(label, feature): weight > 0 for label, feature, weight in rows if feature != "intercept"}
    assert signs == {(3, 0): True, (3, 1): False, (7, 0): False, (7, 1): True}
    parser = estimators.DependencyParser(templates=[("h.tag", "m.tag")], bits=8, random_state=0)
    assert "names are not kept" in repr(parser.fit([{"tag": list("DNV")}], [[2, 3, 0]]).top_features(3))


def test_a_data_frame_a_sentence(estimators):
    """The same weights and answers as from dictionaries."""
    frames = [Frame({"w": ["the", "duck"], "size": [1.0, 2.0]}), Frame({"w": ["duck"], "size": [0.5]})]
    X = [[{"w": "the", "size": 1.0}, {"w": "duck", "size": 2.0}], [{"w": "duck", "size": 0.5}]]
    Y = [["D", "N"], ["N"]]
    for make in (estimators.SequenceLabeler, estimators.SparseCRF):
        by_frame, by_dict = make().fit(frames, [np.array(y, dtype=object) for y in Y]), make().fit(X, Y)
        close(by_frame.coef_, by_dict.coef_)
        assert by_frame.model_.vocabulary == by_dict.model_.vocabulary == ("w:the", "size", "w:duck")
        assert by_frame.predict(frames) == by_dict.predict(X) and by_frame.score(frames, Y) == by_dict.score(X, Y)
    hashed = estimators.SequenceLabeler(bits=6, lam=1.0, random_state=0)
    assert hashed.partial_fit(frames, Y, ["D", "N"]).partial_fit(frames, Y).predict(frames) == hashed.predict(X)
    parser = estimators.DependencyParser(templates=[("h.tag", "m.tag", "direction")], bits=8, random_state=0)
    trees = [Frame({"tag": list("DNV")}), Frame({"tag": list("NVDN")})]
    assert parser.fit(trees, [[2, 3, 0], [2, 0, 4, 2]]).predict(trees) == [[2, 3, 0], [2, 0, 4, 2]]
