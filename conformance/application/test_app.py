"""What stands around the algorithms: data files, model files, metrics, the command line."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import reference
from diptych import metrics
from diptych.commands.jobs import OPTIMIZERS
from diptych.commands.solvers import epochs_of
from diptych.files import load_model, load_sequences, models, save_model

PNG = b"\x89PNG\r\n\x1a\n"


def test_letters_are_the_data_set(backend):
    letters = backend.load_letters()
    assert len(letters.X) == len(letters.Y) == 6877 and sum(map(len, letters.Y)) == 52_152
    assert letters.labels == tuple("abcdefghijklmnopqrstuvwxyz") and set(np.unique(letters.fold)) == set(range(10))
    assert all(x.shape == (len(y), 128) for x, y in zip(letters.X, letters.Y, strict=True))
    assert set(np.unique(np.concatenate(letters.X))) == {0.0, 1.0}
    assert "".join(letters.labels[i] for i in letters.Y[0]) == "ommanding"
    train, test = letters.split(0)
    assert len(train.X) + len(test.X) == 6877 and set(test.fold) == {0} and 0 not in train.fold
    one, rest = letters.split(0, reverse=True)
    assert len(one.X) == len(test.X) and len(rest.X) == len(train.X)
    with pytest.raises(ValueError, match="fold: expected one of 0, 1"):
        letters.split(10)


def test_metrics_by_hand():
    truth, guess = ([np.array(y, int) for y in each] for each in ([[0, 1], [2], []], [[0, 0], [2], []]))
    assert metrics.position_accuracy(truth, guess) == metrics.sequence_accuracy(truth, guess) == 2 / 3
    assert np.isnan(metrics.position_accuracy([], []))
    with pytest.raises(ValueError, match="of the same lengths"):
        metrics.position_accuracy(truth, guess[::-1])


def test_what_cannot_be_saved_is_said_and_a_failed_save_leaves_the_old_file_whole(backend, tmp_path, monkeypatch):
    path, model = tmp_path / "m.npz", backend.SequenceModel(3, 2)
    with pytest.raises(ValueError, match=f"w: expected {model.size} finite weights"):
        save_model(path, model, np.full(model.size, np.nan))
    for name, message in (("Mine", "model: expected one of .*SequenceModel.*, got Mine"),
                          ("SequenceModel", "got SequenceModel, which cannot be saved")):  # fmt: skip
        mine = type(name, (backend.SequenceModel,), {})(3, 2)
        with pytest.raises(TypeError, match=message):
            save_model(path, mine, np.zeros(mine.size))
    assert not list(tmp_path.iterdir())
    save_model(path, model, np.zeros(model.size))
    before = path.read_bytes()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(models.np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(path, model, np.ones(model.size))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.parametrize("loss", ["crf", "hinge"])
@pytest.mark.parametrize("optimizer", ["sgd", "lbfgs"])
def test_train_evaluate_predict(backend, data_file, tmp_path, cli, loss, optimizer):
    pytest.importorskip("matplotlib")
    saved, picture = tmp_path / "model.npz", tmp_path / "curve.png"
    job = ["--loss", loss, "--optimizer", optimizer, "--lam", 0.01, "--epochs", 20, "--rng", 1]
    report = cli.reported("train", data_file, *job, "--fold", 1, "--save", saved, "--plot", picture)
    assert picture.read_bytes().startswith(PNG)
    assert report["sequences"] == 3 and report["train"]["letter"] > 0.9 and report["job"]["loss"] == loss
    assert len(report["history"]) <= 20 and report["history"][-1]["objective"] == report["objective"]
    model, w, info = load_model(saved, backend.module)
    assert model.labels == ("a", "b", "c") and info["lam"] == 0.01
    train = load_sequences(data_file).split(1)[0]
    objective = (backend.LogLoss if loss == "crf" else backend.StructuralHinge)(model, model.pack(train.X, train.Y))
    assert abs(objective.value_and_gradient(w)[0] + 0.005 * w @ w - report["objective"]) < 1e-9
    assert cli.reported("evaluate", saved, data_file, "--fold", 1)["accuracy"] == report["test"]
    labels = cli.printed("predict", saved, data_file)
    assert list(map(len, labels.split())) == list(map(len, load_sequences(data_file).Y))
    assert "accuracy by letter" in cli.printed("evaluate", saved, data_file)
    with np.load(data_file) as archive:  # predict needs no labels
        np.savez(tmp_path / "new.npz", features=archive["features"], offsets=archive["offsets"])
    assert cli.printed("predict", saved, tmp_path / "new.npz") == labels
    assert "no field labels" in cli.refused("evaluate", saved, tmp_path / "new.npz")


def test_each_optimiser_has_its_own_number_of_passes(cli, data_file):
    """What --help says is what a job gets; Frank-Wolfe gets to its gap with it, where 10 passes may be too few."""
    said = " ".join(cli.run("train", "--help-all")[1].split()).replace("- ", "-")  # argparse breaks lines at hyphens
    assert all(f"{optimizer} {epochs_of(optimizer)}" in said for optimizer in OPTIMIZERS)
    report = cli.reported("train", data_file, "--loss", "hinge", "--optimizer", "bcfw", "--lam", 0.01)
    assert report["success"] and report["job"]["epochs"] == epochs_of("bcfw")
    assert len(cli.reported("train", data_file)["history"]) == epochs_of("sgd")
    assert cli.reported("train", data_file, "--epochs", 0)["job"]["epochs"] == 0


def test_the_version_is_said(reference_cli):
    assert reference_cli.run("--version") == (0, f"diptych {reference.__version__}\n", "")


def test_lam_is_two_over_the_number_of_sequences(cli, data_file):
    """As in tag train and SequenceLabeler; of those that are trained on: three of six."""
    command = ["train", data_file, "--epochs", 1, "--optimizer"]
    for arguments, n in (((), 6), (("--fold", 0), 3), (("--limit", 4), 4), (("--partitions", 2), 6)):
        assert cli.reported(*command, "lbfgs", *arguments)["job"]["lam"] == 2 / n
    for regularizer, lam in ((["l2"], 2 / 6), (["l1", "--tau", 0.1], 0.0)):
        assert cli.reported(*command, "online-proximal", "--regularizer", *regularizer)["job"]["lam"] == lam


def test_compare_shows_both_panels(data_file, reference_cli):
    words = ["compare", data_file, "--loss", "crf", "--lam", 0.1, "--epochs", 3, "--rng", 4]
    report = reference_cli.reported(*words)
    ours, theirs = (report[name] for name in ("reference", "accelerated"))
    assert report["job"]["scale"] == 1e-6 and report["largest_weight_difference"] < 1e-9
    assert abs(ours["objective"] - theirs["objective"]) <= 1e-10 * ours["objective"]
    assert ours["accuracy"] == theirs["accuracy"]
    out = reference_cli.printed(*words)
    assert "reference" in out and "largest difference of weights" in out


def test_a_training_that_diverges_is_one_line_and_status_1(cli, data_file):
    status, out, err = cli.run("train", data_file, "--step-size", "1e300", "--lam", "1")
    assert status == 1 and out == "" and "diverged in epoch 1" in err.splitlines()[-1]


def test_no_matplotlib_is_said_before_the_run(cli, data_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'diptych[plots]'" in cli.refused("train", data_file, "--plot", tmp_path / "x.png")


def test_demo_writes_its_pictures(tmp_path, reference_cli):
    pytest.importorskip("matplotlib")
    out = reference_cli.printed("demo", "--epochs", 1, "--limit", 20, "--out", tmp_path / "demo")
    assert "accelerated" in out and "read as" in out
    assert all((tmp_path / "demo" / f"{name}.png").read_bytes().startswith(PNG) for name in ("convergence", "words"))
    assert json.loads((tmp_path / "demo" / "compare.json").read_text())["words"]
