"""Partly known labels in column files, learners and partitions: the answers are those of the models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.distributed import Partitioned
from diptych.files import load_model
from diptych.files.columns import load_columns
from diptych.files.partial import partly_known

PARTLY = """\
a DT B-NP
dog NN _
sees VBZ B-VP|O

the DT B-NP
duck NN I-NP
. . O

a DT _
duck NN I-NP
"""
TRUE = [["B-NP", None, {"B-VP", "O"}], ["B-NP", "I-NP", "O"], [None, "I-NP"]]


@pytest.fixture
def trained(write, cli):
    """A file of partly known labels, and the tagger that is trained on it, saved."""
    write(PARTLY, "partly.txt")
    return cli.reported("tag train partly.txt --partial --transitions bio --save m.npz --quiet")


def test_labels_of_a_file(write):
    path = str(write(PARTLY, "partly.txt"))
    assert [partly_known(sentence) for sentence in load_columns(path)] == TRUE
    assert load_columns(path)[0]["label"] == ("B-NP", "_", "B-VP|O")  # no option: labels like others


def test_training_and_scores_are_those_of_the_known_labels(backend, trained, cli, write):
    model, w, _ = load_model("m.npz", backend.module)
    sentences = load_columns("partly.txt")
    assert model.labels == ("B-NP", "B-VP", "I-NP", "O")
    data = model.pack(sentences, TRUE)
    _, gradient = backend.LogLoss(model, data).value_and_gradient(w)
    assert np.max(np.abs(gradient + 2 / 3 * w)) <= 1e-5  # lam is 2/n
    assert "the labels of 3 positions are not known" in cli.printed("tag train partly.txt --partial --quiet")
    predicted = [[model.labels[k] for k in y] for y in model.predict(model.pack(sentences), None, w)]
    pairs = [(a, b) for y, z in zip(TRUE, predicted, strict=True) for a, b in zip(y, z, strict=True)]
    known = [a == b for a, b in pairs if isinstance(a, str)]
    for report in (trained["train"], cli.reported("tag evaluate m.npz partly.txt --partial")):
        assert report["scored"] == {"tokens": 5, "of_tokens": 8, "sentences": 1, "of_sentences": 3}
        assert report["accuracy"] == {"token": np.mean(known), "sentence": float(predicted[1] == TRUE[1])}
        assert report["chunks"]["expected"] == 1
    write("a DT _\nduck NN I-NP\n", "none.txt")
    said = "sentences - (of the labels of 1 of 2 tokens; sentences and chunks of 0 of 1 sentences with all labels)\n"
    assert said in cli.printed("tag evaluate m.npz none.txt --partial")


def test_the_rest_of_a_labelling_is_filled(backend, trained, cli):
    model, w, _ = load_model("m.npz", backend.module)
    sentences = load_columns("partly.txt")
    data = model.pack(sentences)
    found = cli.reported("tag predict m.npz partly.txt --known --top 2 --probabilities")["sentences"]
    for i, (each, partly) in enumerate(zip(found, TRUE, strict=True)):
        sets = [model.labels if x is None else x if isinstance(x, set) else {x} for x in partly]
        scores = model.scores(data, np.array([i]), w)
        chain, number = model.structure_type(scores.unary[0], scores.pairwise), model.labels.index
        scores = {y: float(chain.score(np.array([*map(number, y)]))) for y in itertools.product(*map(sorted, sets))}
        best = sorted((y for y in scores if scores[y] > -np.inf), key=scores.get, reverse=True)
        close([one["score"] for one in each["best"]], [scores[y] for y in best[:2]])
        assert tuple(each["labels"]) == best[0] == tuple(each["best"][0]["labels"])
        weights = np.exp([scores[y] - scores[best[0]] for y in scores])
        for t, label in enumerate(each["labels"]):
            shares = [p for p, y in zip(weights / weights.sum(), scores, strict=True) if y[t] == label]
            close(each["probabilities"][t], sum(shares))


def test_learners_take_and_fill_partly_known_labels(estimators):
    X, Y = [[["w=a"], ["w=duck"], ["w=dives"]], [["w=the"], ["w=duck"]]], [["B", None, {"V", "O"}], [None, "I"]]
    learner = estimators.SequenceLabeler(lam=0.1).fit(X, Y)
    assert learner.classes_.tolist() == ["B", "I", "O", "V"]
    predicted = learner.predict(X)
    assert learner.score(X, Y) == np.mean([predicted[0][0] == "B", predicted[1][1] == "I"])
    known = [[None, "O", {"O", "V"}], [{"B"}, None]]
    first, second = learner.predict(X, known=known)
    assert first[1] == "O" and first[2] in ("O", "V") and second[0] == "B"
    p, q = learner.predict_marginals(X, known=known)
    close(p.sum(axis=1), np.ones(3))
    close([*p[1], *p[2, :2], *q[0]], [0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
    numbers = estimators.SequenceLabeler(lam=0.1).fit([np.eye(2)] * 2, [[0, {0, 1}], [None, 1]])
    assert numbers.predict([np.eye(2)], known=[[{1}, None]])[0][0] == 1
    assert np.all(np.isfinite(numbers.partial_fit([np.eye(2)], [[None, 0]]).weights_))
    names = {"np": np, "X": X, "Y": Y, "learner": learner, "new": estimators.SequenceLabeler(), "sp": estimators}
    check_refusals("wrong_partial_learners.txt", names)


def test_partitions_and_resumed_runs(backend, rng, tmp_path):
    panel, X = backend.module, [rng.normal(size=(n, 2)) for n in (3, 1, 4)]
    Y = [[0, None, {1, 2}], [2], [None, {0, 1, 2}, {0}, 1]]
    model = panel.SequenceModel(2, 3)
    whole = panel.LogLoss(model, model.pack(X, Y))
    parted = Partitioned([lambda: (X[:2], Y[:2]), lambda: (X[2:], Y[2:])], model, panel.LogLoss)
    w = rng.normal(size=model.size)
    for a, b in zip(parted.value_and_gradient(w), whole.value_and_gradient(w), strict=True):
        close(a, b)
    assert parted.unknown == whole.unknown == 4
    result = panel.lbfgs(parted, lam=0.1)
    assert result.certificate.startswith("none: the objective is not convex, as the labels of 4 positions")
    with pytest.raises(ValueError, match="svrg needs every label"):
        panel.svrg(parted, lam=0.1)
    long = panel.lbfgs(whole, lam=0.1, iterations=8, tol=None)
    panel.lbfgs(whole, lam=0.1, iterations=3, tol=None, checkpoint=tmp_path / "c")
    resumed = panel.lbfgs(whole, lam=0.1, iterations=8, tol=None, resume=tmp_path / "c")
    assert np.array_equal(resumed.x, long.x) and resumed.certificate == long.certificate
