"""What stands around the algorithms: data files, model files, metrics, the command line."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import reference
from diptych import metrics
from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS, Job
from diptych.commands.main import main
from diptych.commands.solvers import epochs_of
from diptych.files import load_model, load_sequences, models, save_model
from diptych.panels import PANELS

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def data_file(tmp_path, rng):
    """Six sequences over three features, in two folds; labels follow the features, so that they can be learned."""
    lengths = [3, 2, 4, 1, 3, 2]
    labels = rng.integers(0, 3, sum(lengths))
    path = tmp_path / "toy.npz"
    np.savez(
        path,
        features=np.eye(3)[labels],
        labels=labels,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        fold=np.arange(6) % 2,
        names=np.array(["a", "b", "c"]),
    )
    return path


def run(panel, capsys, *arguments):
    """Status, output and errors of a command in a panel."""
    if panel.__name__ not in PANELS:  # --panel names these, and a third backend has no command
        pytest.skip("commands know the two panels alone")
    both = arguments[0] in ("compare", "demo")
    status = main([*map(str, arguments), *([] if both else ["--panel", panel.__name__])])
    out, err = capsys.readouterr()
    return status, out, err


def reported(panel, capsys, *arguments):
    """The report of a command that ends well."""
    return json.loads(printed(panel, capsys, *arguments, "--json"))


def printed(panel, capsys, *arguments):
    """The output of a command that ends well."""
    status, out, err = run(panel, capsys, *arguments)
    assert status == 0, err
    return out


def refused(panel, capsys, *arguments):
    """The error of a command that refuses its words; it prints nothing else."""
    status, out, err = run(panel, capsys, *arguments)
    assert status == 2 and out == "", err
    return err


# data sets ---------------------------------------------------------------------------------------------------------


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
    truth, guess = (
        [np.array([0, 1]), np.array([2]), np.array([], int)],
        [np.array([0, 0]), np.array([2]), np.array([], int)],
    )
    assert metrics.position_accuracy(truth, guess) == 2 / 3
    assert metrics.sequence_accuracy(truth, guess) == 2 / 3
    assert np.isnan(metrics.position_accuracy([], []))
    with pytest.raises(ValueError, match="of the same lengths"):
        metrics.position_accuracy(truth, guess[::-1])


# model files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(backend):
    return backend.SequenceModel(3, ["x", "y"], cost=[[0, 2], [1, 0]], start_stop=False)


def test_a_model_file_loads_in_every_backend(model, tmp_path, rng):
    w = rng.normal(size=model.size)
    save_model(tmp_path / "m.npz", model, w, {"lam": 0.1})
    import accelerated
    import reference

    for panel in (reference, accelerated):
        loaded, weights, info = load_model(tmp_path / "m.npz", panel)
        assert type(loaded) is panel.SequenceModel and loaded.settings() == model.settings()
        assert np.array_equal(weights, w) and info == {"lam": 0.1}


def test_a_failed_save_leaves_the_old_file_whole(model, tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    save_model(path, model, np.zeros(model.size))
    before = path.read_bytes()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(models.np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(path, model, np.ones(model.size))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_what_cannot_be_saved_is_said(backend, model, tmp_path):
    with pytest.raises(ValueError, match="w: expected 10 finite weights"):
        save_model(tmp_path / "m.npz", model, np.full(model.size, np.nan))
    with pytest.raises(TypeError, match="model: expected one of .*SequenceModel.*, got Mine"):
        mine = type("Mine", (backend.SequenceModel,), {})(3, 2)
        save_model(tmp_path / "m.npz", mine, np.zeros(mine.size))
    with pytest.raises(TypeError, match="got SequenceModel, which cannot be saved"):
        mine = type("SequenceModel", (backend.SequenceModel,), {})(3, 2)
        save_model(tmp_path / "m.npz", mine, np.zeros(mine.size))
    assert not list(tmp_path.iterdir())


# the command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["crf", "hinge"])
@pytest.mark.parametrize("optimizer", ["sgd", "lbfgs"])
def test_train_evaluate_predict(backend, data_file, tmp_path, capsys, loss, optimizer):
    pytest.importorskip("matplotlib")
    saved, picture = tmp_path / "model.npz", tmp_path / "curve.png"
    job = ["--loss", loss, "--optimizer", optimizer, "--lam", 0.01, "--epochs", 20, "--rng", 1]
    report = reported(backend, capsys, "train", data_file, *job, "--fold", 1, "--save", saved, "--plot", picture)
    assert picture.read_bytes().startswith(PNG)
    assert report["sequences"] == 3 and report["train"]["letter"] > 0.9 and report["job"]["loss"] == loss
    assert len(report["history"]) <= 20 and report["history"][-1]["objective"] == report["objective"]
    model, w, info = load_model(saved, backend.module)
    assert model.labels == ("a", "b", "c") and info["lam"] == 0.01
    train = load_sequences(data_file).split(1)[0]
    objective = (backend.LogLoss if loss == "crf" else backend.StructuralHinge)(model, model.pack(train.X, train.Y))
    assert abs(objective.value_and_gradient(w)[0] + 0.005 * w @ w - report["objective"]) < 1e-9
    assert reported(backend, capsys, "evaluate", saved, data_file, "--fold", 1)["accuracy"] == report["test"]
    assert [len(line) for line in printed(backend, capsys, "predict", saved, data_file).split()] == [3, 2, 4, 1, 3, 2]
    assert "accuracy by letter" in printed(backend, capsys, "evaluate", saved, data_file)


def test_each_optimiser_has_its_own_number_of_passes(backend, data_file, capsys):
    """What --help says is what a job gets; Frank-Wolfe gets to its gap with it, where 10 passes may be too few."""
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    said = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # argparse breaks lines at hyphens
    for optimizer in OPTIMIZERS:
        epochs = epochs_of(optimizer)
        loss = "hinge" if optimizer in (*HINGE_ONLY, "casimir-svrg-adapt") else "crf"
        assert Job(loss=loss, optimizer=optimizer).epochs == epochs and f"{optimizer} {epochs}" in said
        assert Job(loss=loss, optimizer=optimizer, epochs=0).epochs == 0
    job = ["--loss", "hinge", "--optimizer", "bcfw", "--lam", 0.01]
    _, out, _ = run(backend, capsys, "train", data_file, *job, "--json")
    report = json.loads(out)
    assert report["success"] and report["job"]["epochs"] == epochs_of("bcfw")
    _, out, _ = run(backend, capsys, "train", data_file, "--json")
    assert len(json.loads(out)["history"]) == epochs_of("sgd")


def test_the_version_is_said(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"diptych {reference.__version__}\n"


def test_words_that_are_read_are_drawn(backend, data_file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    saved, picture = tmp_path / "m.npz", tmp_path / "words.png"
    words = ["train", "letters", "--limit", 5, "--epochs", 1, "--save", saved]
    assert run(backend, capsys, *words)[0] == 0
    words = ["predict", saved, "letters", "--limit", 3, "--plot", picture]
    assert len(printed(backend, capsys, *words).split()) == 3 and picture.read_bytes().startswith(PNG)
    status, _, err = run(backend, capsys, "predict", saved, data_file, "--plot", picture)
    assert status == 2 and "--plot: the words of letters can be drawn" in err


def test_predict_needs_no_labels(backend, data_file, tmp_path, capsys):
    with np.load(data_file) as archive:
        np.savez(tmp_path / "new.npz", features=archive["features"], offsets=archive["offsets"])
    run(backend, capsys, "train", data_file, "--epochs", 20, "--save", tmp_path / "m.npz")
    labelled = run(backend, capsys, "predict", tmp_path / "m.npz", data_file)
    assert run(backend, capsys, "predict", tmp_path / "m.npz", tmp_path / "new.npz") == labelled != (0, "", "")
    assert "no field labels" in refused(backend, capsys, "evaluate", tmp_path / "m.npz", tmp_path / "new.npz")


def test_lam_is_two_over_the_number_of_sequences(backend, data_file, capsys):
    """As in tag train and SequenceLabeler; of those that are trained on: three of six."""
    for arguments, n in (((), 6), (("--fold", 0), 3), (("--limit", 4), 4), (("--partitions", 2), 6)):
        command = ["train", data_file, "--optimizer", "lbfgs", "--epochs", 1, "--json", *arguments]
        assert json.loads(run(backend, capsys, *command)[1])["job"]["lam"] == 2 / n
    command = ["train", data_file, "--optimizer", "online-proximal", "--epochs", 1, "--json", "--regularizer"]
    jobs = [json.loads(run(backend, capsys, *command, name, *more)[1])["job"]
            for name, more in (("l2", ()), ("l1", ("--tau", 0.1)))]  # fmt: skip
    assert [job["lam"] for job in jobs] == [2 / 6, 0.0]


def test_compare_shows_both_panels(data_file, capsys):
    job = ["--loss", "crf", "--lam", 0.1, "--epochs", 3, "--rng", 4]
    report = reported(reference, capsys, "compare", data_file, *job)
    assert report["job"]["scale"] == 1e-6
    ours, theirs = report["accelerated"]["objective"], report["reference"]["objective"]
    assert abs(ours - theirs) <= 1e-10 * abs(theirs) == pytest.approx(1e-10 * ours)
    assert (
        report["largest_weight_difference"] < 1e-9
        and report["reference"]["accuracy"] == report["accelerated"]["accuracy"]
    )
    status, out, _ = run(reference, capsys, "compare", data_file, *job)
    assert status == 0 and "reference" in out and "largest difference of weights" in out


def test_a_training_that_diverges_is_one_line_and_status_1(backend, data_file, capsys):
    status, out, err = run(backend, capsys, "train", data_file, "--step-size", "1e300", "--lam", "1")
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert status == 1 and out == "" and "diverged in epoch 1" in lines[-1]


def test_no_matplotlib_is_said_before_the_run(backend, data_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'diptych[plots]'" in refused(backend, capsys, "train", data_file, "--plot", tmp_path / "x.png")


def test_demo_writes_its_pictures(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    status, out, _ = run(reference, capsys, "demo", "--epochs", 1, "--limit", 20, "--out", tmp_path / "demo")
    assert status == 0 and "accelerated" in out and "read as" in out
    written = tmp_path / "demo"
    assert (written / "convergence.png").read_bytes().startswith(PNG) and (
        written / "words.png"
    ).read_bytes().startswith(PNG)
    assert json.loads((written / "compare.json").read_text())["words"]
