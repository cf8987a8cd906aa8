"""Logs, curves, checkpoints and starts by the command line; a real Ctrl-C."""

from __future__ import annotations

import json
import re
import signal

import numpy as np
import pytest

from conformance.application.processes import lines_of, started, until
from conformance.application.test_app import PNG, data_file
from conformance.application.test_interrupts import installed
from conformance.application.test_tag import bank
from conformance.tolerances import close
from diptych.files import load_log, load_model, load_sequences

__all__ = ["bank", "data_file", "installed"]  # fixtures


def report(*arguments, cli):
    status, out, err = cli.run(*arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def test_a_log_has_the_job_the_rows_and_the_outcome(backend, data_file, tmp_path, cli):
    log = tmp_path / "log.jsonl"
    found = cli.reported("train", data_file, "--epochs", 3, "--lam", 0.1, "--log", log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 5 and lines[1:4] == found["history"]
    job, rows, outcome = load_log(log)
    assert job["job"] == found["job"] and job["command"] == "train" and job["panel"] == backend.__name__
    assert [row.as_dict() for row in rows] == found["history"] and all(type(row) is backend.Row for row in rows)
    assert outcome["objective"] == found["objective"] and outcome["outcome"] == found["message"]
    assert outcome["success"] == found["success"] and not outcome["interrupted"]


@pytest.mark.beyond("starts processes")
@pytest.mark.parametrize(("number", "optimizer"), [(2, "sgd"), (2, "bcfw"), (15, "sgd")])  # Ctrl-C and SIGTERM
def test_a_signal_saves_the_best_weights(backend, data_file, tmp_path, optimizer, number):
    """A real signal to a real process: status 130 or 143, the model, the report, the log's last line and a checkpoint
    to go on from.
    """
    log, model, file = tmp_path / "log.jsonl", tmp_path / "model.npz", tmp_path / "run.npz"
    words = ["train", data_file, "--loss", "hinge", "--optimizer", optimizer, "--epochs", 10**6, "--json"]
    words += ["--tol", 0] if optimizer == "bcfw" else []
    words += ["--log", log, "--save", model, "--checkpoint", file]
    process = started(tmp_path, *words, "--panel", backend.__name__)
    until(lambda: lines_of(log) > 20 or process.poll() is not None, 300)
    for _ in range(1 + (number == signal.SIGTERM)):  # timeout(1) sends it twice
        process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + number, err
    found = json.loads(out)
    assert found["interrupted"] and not found["success"] and found["message"].startswith("interrupted after ")
    assert found["objective"] == min(row["objective"] for row in found["history"])
    loaded, w, _ = load_model(model, backend.module)
    letters = load_sequences(data_file)
    hinge = backend.StructuralHinge(loaded, loaded.pack(letters.X, letters.Y))
    close(found["objective"], hinge.value_and_gradient(w)[0] + 0.5 * found["job"]["lam"] * w @ w)
    _, rows, outcome = load_log(log)
    assert outcome["interrupted"] and [row.as_dict() for row in rows][: len(found["history"])] == found["history"]
    optimise, options = getattr(backend, optimizer), {"lam": found["job"]["lam"], "rng": 0}
    options |= {"tol": 0.0} if optimizer == "bcfw" else {}
    gone_on = optimise(hinge, epochs=len(rows) + 1, resume=file, **options)
    uncut = optimise(hinge, epochs=len(rows) + 1, **options)
    assert np.array_equal(gone_on.x, uncut.x) and len(gone_on.history) == len(rows) + 1


def test_an_interrupt_before_anything_is_done(backend, data_file, tmp_path, monkeypatch, cli):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(backend.LogLoss, "value_and_gradient", interrupted)
    status, out, err = cli.run("train", data_file, "--save", tmp_path / "m.npz", "--epochs", 2)
    assert status == 130 and not out and "interrupted" in err and not (tmp_path / "m.npz").exists()


def test_an_interrupt_ends_a_comparison(data_file, monkeypatch, reference_cli):
    """It would say little of two runs of which one was cut short."""

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("diptych.commands.output.Progress.__call__", interrupted)
    for command in (["compare", data_file], ["demo", "--limit", 5, "--out", data_file.parent / "demo"]):
        status, out, err = reference_cli.run(*command)
        assert status == 130 and "interrupted" in err and "relative difference" not in out


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path):
    job, row = '{"command": "train"}', '{"epoch": 1, "oracle_calls": 3, "seconds": 0.1, "objective": null}'
    log = tmp_path / "log.jsonl"
    with pytest.raises(ValueError, match="none.jsonl: no such file"):
        load_log(tmp_path / "none.jsonl")
    log.write_text(f"{job}\n{row}\n{row[:30]}")  # killed while it wrote
    assert np.isnan(load_log(log).rows[0].objective) and load_log(log).outcome is None


@pytest.mark.beyond("starts processes")
def test_a_reader_that_has_gone_is_no_error(backend, data_file, tmp_path):
    """As in ``| head``: quiet, with the status of a broken pipe."""
    with started(tmp_path, "train", data_file, "--epochs", 1, "--quiet", "--panel", backend.__name__) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert not [line for line in err.splitlines() if not line.startswith("compiling kernels")], err


# curves ---------------------------------------------------------------------------------------------------------------


def test_curves_are_distances_from_the_best_dual(data_file, tmp_path, cli):
    """One problem by two optimisers: the bound is below both, and a picture is drawn."""
    logs = [tmp_path / f"{name}.jsonl" for name in ("sgd", "svrg", "lbfgs")]
    for log in logs:
        cli.reported("train", data_file, "--optimizer", log.stem, "--lam", 0.1, "--epochs", 6, "--log", log)
    picture = tmp_path / "curves.png"
    found = cli.reported("curves", *logs, "--plot", picture)
    assert picture.read_bytes().startswith(PNG) and [each["name"] for each in found["runs"]] == [p.stem for p in logs]
    duals = [row.dual for log in logs for row in load_log(log).rows if row.dual is not None]
    assert found["bound"] == max(duals) and found["against"] == ["calls", "seconds"]
    for log, each in zip(logs, found["runs"], strict=True):
        rows = load_log(log).rows
        assert each["calls"] == [row.oracle_calls for row in rows] and each["objective"] == [r.objective for r in rows]
        close(np.array(each["distance"]) * abs(found["bound"]) + found["bound"], each["objective"])
        assert min(each["distance"]) >= -1e-12
    text = cli.run("curves", *logs, "--against", "epochs", "--plot", picture)
    assert text[0] == 0 and text[1].count("\n") == 5


def test_curves_without_a_bound(data_file, tmp_path, cli):
    """A dual above other objectives, as of a smoothed problem: objectives are shown as they are."""
    log, other = tmp_path / "log.jsonl", tmp_path / "other.jsonl"
    cli.reported("train", data_file, "--optimizer", "svrg", "--lam", 0.1, "--log", log)
    job, *rows, outcome = (json.loads(line) for line in log.read_text().splitlines())
    rows = [{**row, "objective": row["objective"] / 2, "dual": None} for row in rows]
    other.write_text("".join(f"{json.dumps(line)}\n" for line in (job, *rows, outcome)))
    found = cli.reported("curves", log, other, "--plot", tmp_path / "curves.png")
    assert found["bound"] is None and all(each["distance"] is None for each in found["runs"])
    assert cli.run("curves", tmp_path / "none.jsonl")[0] == 2


def test_logs_of_different_problems_have_no_curves(data_file, bank, tmp_path, cli):
    """The error says what differs; one file by two paths is one file, and a log may say less of its problem."""
    more, ridge = tmp_path / "more.txt", ["--optimizer", "online-proximal", "--regularizer", "l2"]
    more.write_text(2 * f"{bank.read_text()}\n")
    for name, words in (
        ("a", ["train", data_file, "--lam", 0.1]),
        ("lam", ["train", data_file, "--lam", 1, "--loss", "hinge"]),
        ("path", ["train", f"{tmp_path}/./{data_file.name}", "--lam", 0.1, "--optimizer", "lbfgs"]),
        ("l2", ["train", data_file, "--lam", 0.1, *ridge]),
        ("l1", ["train", data_file, *ridge[:3], "l1", "--tau", 0.1]),
        ("tag", ["tag", "train", bank, "--lam", 0.1]),
        ("more", ["tag", "train", more, "--lam", 0.1]),
    ):
        cli.reported(*words, "--epochs", 1, "--log", tmp_path / f"{name}.jsonl")
    for one, other, message in (
        ("a", "lam", "a.jsonl and .*lam.jsonl are logs of different problems: loss crf and hinge, lam 0.1 and 1.0$"),
        ("a", "l1", "different problems: lam 0.1 and 0.0, regularizer None and l1, tau None and 0.1$"),
        ("a", "tag", "different problems: command train and tag train"),
        ("tag", "more", "different problems: file .*bank.txt and .*more.txt, sentences 3 and 6$"),
    ):
        status, _, err = cli.run("curves", *(tmp_path / f"{name}.jsonl" for name in (one, other)))
        assert status == 2 and re.search(message, err.strip()), err
    same = [tmp_path / f"{name}.jsonl" for name in ("a", "path", "l2")]
    assert len(cli.reported("curves", *same)["runs"]) == 3
