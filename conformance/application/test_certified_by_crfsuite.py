"""Sparse objectives beside those of python-crfsuite, on three data sets at three penalties."""

from __future__ import annotations

import numpy as np
import pytest

from diptych.crfsuite import CRF
from reference import load_letters


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
