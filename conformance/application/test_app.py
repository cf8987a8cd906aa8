"""Data and model files, metrics, ``train``, ``check``, ``warm``; and folders of the user's with a package's name."""

from __future__ import annotations

import atexit
import gc
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import reference
from conformance.application.processes import ROOT, finished
from conformance.specimens.learners import LEARNERS
from diptych import check, collector, metrics
from diptych.commands.jobs import OPTIMIZERS
from diptych.commands.solvers import epochs_of
from diptych.files import load_model, load_sequences, models, save_model
from diptych.warm import FIRST_CALLS, first_call

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


def test_the_collector_pauses_and_leaves_alone_what_it_did_not_pause():
    frozen = gc.get_freeze_count()
    collector.resume()
    assert gc.isenabled() and gc.get_freeze_count() == frozen
    collector.pause()
    try:
        assert not gc.isenabled()
        collector.resume()
        assert gc.isenabled() and gc.get_freeze_count() > frozen
    finally:
        atexit.unregister(gc.freeze)
        gc.unfreeze()
        gc.enable()


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
def test_train_evaluate_predict(backend, data_file, cli, loss, optimizer):
    pytest.importorskip("matplotlib")
    job = f"--loss {loss} --optimizer {optimizer} --lam 0.01 --epochs 20 --rng 1 --fold 1"
    report = cli.reported(f"train toy.npz {job} --save m.npz --plot p.png")
    assert Path("p.png").read_bytes().startswith(PNG)
    assert report["sequences"] == 3 and report["train"]["letter"] > 0.9 and report["job"]["loss"] == loss
    assert len(report["history"]) <= 20 and report["history"][-1]["objective"] == report["objective"]
    (model, w, info), data = load_model("m.npz", backend.module), load_sequences(data_file)
    assert model.labels == ("a", "b", "c") and info["lam"] == 0.01
    train = data.split(1)[0]
    objective = (backend.LogLoss if loss == "crf" else backend.StructuralHinge)(model, model.pack(train.X, train.Y))
    assert abs(objective.value_and_gradient(w)[0] + 0.005 * w @ w - report["objective"]) < 1e-9
    assert cli.reported("evaluate m.npz toy.npz --fold 1")["accuracy"] == report["test"]
    labels = cli.printed("predict m.npz toy.npz")
    assert list(map(len, labels.split())) == list(map(len, data.Y))
    assert "accuracy by letter" in cli.printed("evaluate m.npz toy.npz")
    with np.load(data_file) as archive:  # predict needs no labels
        np.savez("new.npz", features=archive["features"], offsets=archive["offsets"])
    assert cli.printed("predict m.npz new.npz") == labels
    assert "no field labels" in cli.refused("evaluate m.npz new.npz")


def test_each_optimiser_has_its_own_number_of_passes(cli, data_file):
    """What --help says is what a job gets; Frank-Wolfe gets to its gap with it, where 10 passes may be too few."""
    said = " ".join(cli.run("train --help-all")[1].split()).replace("- ", "-")  # argparse breaks lines at hyphens
    assert all(f"{optimizer} {epochs_of(optimizer)}" in said for optimizer in OPTIMIZERS)
    report = cli.reported("train toy.npz --loss hinge --optimizer bcfw --lam 0.01")
    assert report["success"] and report["job"]["epochs"] == epochs_of("bcfw")
    assert len(cli.reported("train toy.npz")["history"]) == epochs_of("sgd")
    assert cli.reported("train toy.npz --epochs 0")["job"]["epochs"] == 0


def test_lam_is_two_over_the_number_of_sequences(cli, data_file):
    """As in tag train and SequenceLabeler; of those that are trained on: three of six."""
    for more, n in (("", 6), ("--fold 0", 3), ("--limit 4", 4), ("--partitions 2", 6)):
        assert cli.reported(f"train toy.npz --epochs 1 --optimizer lbfgs {more}")["job"]["lam"] == 2 / n
    for regularizer, lam in (("l2", 2 / 6), ("l1 --tau 0.1", 0.0)):
        words = f"train toy.npz --epochs 1 --optimizer online-proximal --regularizer {regularizer}"
        assert cli.reported(words)["job"]["lam"] == lam


def test_compare_shows_both_panels(data_file, reference_cli):
    words = "compare toy.npz --loss crf --lam 0.1 --epochs 3 --rng 4"
    report, out = reference_cli.reported(words), reference_cli.printed(words)
    ours, theirs = report["reference"], report["accelerated"]
    assert report["job"]["scale"] == 1e-6 and report["largest_weight_difference"] < 1e-9
    assert abs(ours["objective"] - theirs["objective"]) <= 1e-10 * ours["objective"]
    assert ours["accuracy"] == theirs["accuracy"] and "reference" in out and "largest difference of weights" in out
    reference_cli.printed("compare toy.npz --epochs 1 --plot x.png")  # lam follows from the data
    assert Path("x.png").read_bytes().startswith(PNG)


def test_a_training_that_diverges_or_lacks_matplotlib_is_one_line(cli, data_file, monkeypatch):
    status, out, err = cli.run("train toy.npz --step-size 1e300 --lam 1")
    assert status == 1 and out == "" and "diverged in epoch 1" in err.splitlines()[-1]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'diptych[plots]'" in cli.refused("train toy.npz --plot x.png")  # before the run


def test_demo_writes_its_pictures(reference_cli):
    pytest.importorskip("matplotlib")
    out = reference_cli.printed("demo --epochs 1 --limit 20 --out demo")
    assert "accelerated" in out and "read as" in out
    assert all(Path("demo", f"{name}.png").read_bytes().startswith(PNG) for name in ("convergence", "words"))
    assert json.loads(Path("demo/compare.json").read_text())["words"]


WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(["pytest", "hypothesis", "matplotlib", "sklearn"]))  # None: not to be imported
from diptych.commands.main import main
sys.exit(main(["check", "--json"]))
"""


@pytest.mark.beyond("starts processes")
def test_it_works_without_extras_and_says_how_to_get_them():
    status, out, err = finished(None, "-c", WITHOUT_EXTRAS)
    assert status == 0, out + err
    report = json.loads(out)
    assert report["status"] == "ok" and not report["failed"]
    lines = {line["name"]: line for line in report["checks"]}
    assert all(line["status"] in check.STATUSES for line in lines.values())
    kinds = {name: kind for name, kind in vars(reference).items() if isinstance(kind, type)}
    structures = {name for name, kind in kinds.items() if issubclass(kind, reference.Structure)} - {"Structure"}
    assert all(lines[name]["error"] < 1e-9 for name in structures)
    assert all(lines[name]["error"] < 0.1 for name in check.TRAININGS)  # of two runs that end with gaps up to 0.1
    assert all(lines[name]["status"] in ("ok", "slow to compile") for name in [*structures, *check.TRAININGS])
    plots = lines["matplotlib"]
    assert plots["status"] == "not installed" and "pip install 'diptych[plots]'" in plots["detail"]
    assert check._cache()[0] in ("ok", "not kept")  # the kernels by which it tells warm from cold are those that it ran


@pytest.fixture
def few(monkeypatch):
    """Two quick checks of all."""
    monkeypatch.setattr(check, "STRUCTURES", {"Table": check.STRUCTURES["Table"]})
    monkeypatch.setattr(check, "TRAININGS", {"LogLoss by lbfgs": check.TRAININGS["LogLoss by lbfgs"]})


def test_a_line_each(few, reference_cli):
    *lines, last = reference_cli.printed("check").splitlines()
    names = [line[10:].split("  ")[0] for line in lines]
    assert names[:4] == ["diptych", "Python", "numpy", "scipy"] and names[-2:] == ["Table", "LogLoss by lbfgs"]
    assert names[-8:-4] == list(check.PACKAGES)
    assert "kernel cache" in names and "threads" in names and last.startswith("everything works")


def test_a_module_found_first_or_of_two_distributions_is_named(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        (tmp_path / "conformance.py").write_text("")
        patched.delitem(sys.modules, "conformance")
        patched.syspath_prepend(tmp_path)
        *ours, suite = check._packages()
    assert [line.status for line in ours] == ["ok"] * 3
    assert suite.status == "FAILED" and suite.detail.endswith(f"Python finds {tmp_path / 'conformance.py'}")
    owners = {"reference": ["diptych", "another"], "accelerated": ["diptych"]}
    monkeypatch.setattr(check.importlib.metadata, "packages_distributions", lambda: owners)
    first, *others = check._packages()
    assert first.status == "FAILED" and first.detail.endswith("is also installed by another")
    assert [line.status for line in others] == ["ok"] * 3


@pytest.mark.parametrize("message", ["best score: expected", "no best output", "differ by more than the gap"])
def test_what_is_broken_is_reported(few, message, monkeypatch, reference_cli):
    """A structure that is wrong or raises an error, and panels that part."""
    best, train = reference.Table.best, reference.lbfgs

    def broken(self):
        if message == "no best output":
            raise RuntimeError(message)
        return best(self)[0] + 1e-3, best(self)[1]

    if message.startswith("differ"):
        monkeypatch.setattr("accelerated.lbfgs", lambda *given, **how: train(*given, **how | {"lam": 0.11}))
    else:
        monkeypatch.setattr(reference.Table, "best", broken)
    status, out, _ = reference_cli.run("check", "--json")
    report = json.loads(out)
    (line,) = [line for line in report["checks"] if line["status"] == "FAILED"]
    assert status == 1 and report["status"] == "FAILED" and line["name"] in " ".join(report["failed"])
    assert (
        line["name"] == ("LogLoss by lbfgs" if message.startswith("differ") else "Table") and message in line["detail"]
    )


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("name", FIRST_CALLS)
def test_a_first_call_is_one_that_works(name):
    assert first_call(name) == name
    assert {name.split(":")[0] for name in FIRST_CALLS} >= check.STRUCTURES.keys() - {"Table"}
    assert {name.split()[0] for name in FIRST_CALLS} >= LEARNERS.keys()


@pytest.mark.beyond("starts processes")
def test_the_calls_are_made_and_told(reference_cli):
    report = reference_cli.reported("warm", "--processes", 2)
    assert sorted(report["calls"]) == sorted(FIRST_CALLS) and report["seconds"] > 0
    assert "0 kernels compiled" in reference_cli.printed("warm", "--processes", 1)  # all were kept


def foreign(folder, name):
    """A package, or a module, that leaves a file where it is run; its version is ours."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"open({str(folder / 'ran')!r}, 'w')\n__version__ = {reference.__version__!r}\n")
    return path


@pytest.mark.beyond("starts processes")
@pytest.mark.parametrize("name", ["reference/__init__.py", "reference.py", "accelerated/__init__.py"])
def test_a_folder_of_that_name_is_named_and_not_run(tmp_path, name):
    path = foreign(tmp_path, name)
    package = name.split("/")[0].removesuffix(".py")
    for command, ours in (("diptych", "diptych"), ("diptych.experiments", "diptych"), ("conformance", "conformance")):
        status, out, err = finished(tmp_path, "-m", command, "--version")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert str(path) in err and f"{ROOT / ours} belongs to {ROOT / package}," in err
    assert not (tmp_path / "ran").exists()
    for code in ("import diptych", f"import {package}, diptych"):
        status, _, err = finished(tmp_path, "-c", code)
        *_, line = err.splitlines()
        assert status == 1 and line.startswith("ImportError: ") and str(path) in line
        assert str(ROOT / package) in line or code != "import diptych"


@pytest.mark.beyond("starts processes")
def test_the_suite_names_a_foreign_application_and_scripts_do_not_look_where_they_are_started(tmp_path):
    path = foreign(tmp_path, "diptych/__init__.py")
    status, out, err = finished(tmp_path, "-m", "conformance", "--version")
    assert (status, out, err.count("\n")) == (2, "", 1) and str(path) in err
    for name in ("reference/__init__.py", "conformance.py"):
        foreign(tmp_path, name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "diptych").write_text("from diptych.commands.main import main\nraise SystemExit(main())\n")
    (tmp_path / "bin" / "suite").write_text("from conformance.__main__ import script\nraise SystemExit(script())\n")
    expected = (0, f"diptych {reference.__version__}\n", "")
    assert finished(tmp_path, tmp_path / "bin" / "diptych", "--version") == expected
    status, out, _ = finished(tmp_path, tmp_path / "bin" / "suite", "--help")
    assert status == 0 and "usage: diptych-conformance" in out
    for name in ("reference", "diptych"):
        shutil.rmtree(tmp_path / name)
    assert finished(tmp_path, "-m", "diptych", "--version") == expected  # conformance.py alone is nothing to it
    assert not (tmp_path / "ran").exists()
