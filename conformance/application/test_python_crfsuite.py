"""Objectives, labels and probabilities beside python-crfsuite, where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.application.test_crf import SETTINGS, X, Y
from conformance.tolerances import close
from diptych.crfsuite import CRF, Tagger
from reference import load_letters


@pytest.mark.parametrize("settings", [each for each in SETTINGS if each.get("c2")])
def test_python_crfsuite_has_the_same_optimum(tmp_path, settings):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    ours = CRF(epsilon=1e-10, model_filename=str(tmp_path / "ours"), **settings).fit(X, Y)
    names = {"min_freq": "feature.minfreq", "all_possible_states": "feature.possible_states"}
    names |= {"all_possible_transitions": "feature.possible_transitions"}
    given = {names.get(name, name): value for name, value in settings.items() if name != "algorithm"}
    trainer = pycrfsuite.Trainer("lbfgs", {**given, "epsilon": 1e-10, "delta": 1e-12}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "theirs"))
    last = ours.training_log_.last_iteration
    theirs, loss = trainer.logparser.last_iteration, last["loss"]
    assert trainer.logparser.featgen_num_features == ours.training_log_.featgen_num_features
    assert loss - last["gap"] - 1e-5 <= theirs["loss"] and loss <= theirs["loss"] + last["gap"] + 1e-6
    if not settings.get("c1"):
        assert abs(loss - theirs["loss"]) <= 1e-6 * loss + 1e-6  # their log has six digits
    reads, read = pycrfsuite.Tagger(), Tagger()
    for file in ("ours", "theirs"):
        reads.open(str(tmp_path / file))
        read.open(tmp_path / file)
        for x, y in zip(X, Y, strict=True):
            assert read.labels() == reads.labels() and read.tag(x) == reads.tag(x) == ours.predict_single(x)
            if x:  # of no tokens the probability is 1, there 0
                close(read.probability(y), reads.probability(y))
            for t, label in itertools.product(range(len(x)), read.labels()):
                close(read.marginal(label, t), reads.marginal(label, t))


def letters(rng):
    """The dark pixels of 40 words."""
    words = load_letters().take(rng.choice(6000, 40, replace=False))
    return [[[f"pixel {i}" for i in np.flatnonzero(row)] for row in x] for x in words.X], words.Y


def zipf(rng):
    """Words by a law of Zipf with their neighbours, and labels that mostly follow them."""
    X, Y = [], []
    for _ in range(60):
        words = np.minimum(rng.zipf(1.3, rng.integers(1, 9)), 500)
        X.append([{"word": f"{w}", "before": f"{v}"} for v, w in zip([0, *words], words)])  # noqa: B905
        Y.append([w % 5 if rng.random() < 0.8 else rng.integers(5) for w in words])
    return X, Y


def values(rng):
    """Features with values, of which some are tied and some opposite, and labels by chance."""
    sizes = rng.integers(1, 6, 50)
    drawn = [np.round(rng.normal(size=(n, 3)), 1) for n in sizes]
    X = [[{"a": x, "again": x, "not": -y, "c": 0.01 * z} for x, y, z in rows] for rows in drawn]
    return X, [rng.integers(0, 3, n) for n in sizes]


@pytest.mark.parametrize(("c1", "c2"), [(0.5, 0.1), (3.0, 1e-3), (1.0, 0.0)])
@pytest.mark.parametrize("make", [letters, zipf, values], ids=lambda make: make.__name__)
def test_sparse_objectives_are_above_that_of_python_crfsuite_by_at_most_the_certificate(tmp_path, rng, make, c1, c2):
    """Which is: our dual is not above where it stops. Our weights that are 0 are not in the file."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tokens, labels = make(rng)
    labels = [[str(each) for each in y] for y in labels]
    trainer = pycrfsuite.Trainer("lbfgs", {"c1": c1, "c2": c2, "epsilon": 1e-9, "delta": 1e-9}, verbose=False)
    for x, y in zip(tokens, labels, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "theirs"))
    theirs = trainer.logparser.last_iteration["loss"] + 1e-6  # their log has six digits
    for epsilon in (1e-2, 1e-7):
        ours = CRF(c1=c1, c2=c2, epsilon=epsilon, model_filename=str(tmp_path / "ours")).fit(tokens, labels)
        last = ours.training_log_.last_iteration
        assert ours.training_log_.featgen_num_features == trainer.logparser.featgen_num_features
        assert 0 <= last["gap"] <= epsilon * last["loss"] and last["loss"] - last["gap"] <= theirs
    assert last["loss"] <= theirs * (1 + 1e-7) and last["active_features"] < ours.training_log_.featgen_num_features
