"""Logs, curves, checkpoints and starts by the command line; a real Ctrl-C."""

from __future__ import annotations

import json
import re
import signal

import numpy as np
import pytest

from conformance.application.processes import ended, lines_of, started, until
from conformance.application.test_app import PNG
from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.files import load_log, load_model, load_sequences


def test_a_log_has_the_job_the_rows_and_the_outcome(backend, data_file, tmp_path, cli):
    """As far as it goes, if it was cut off."""
    log = tmp_path / "log.jsonl"
    found = cli.reported("train", data_file, "--epochs", 3, "--lam", 0.1, "--log", log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 5 and lines[1:4] == found["history"]
    job, rows, outcome = load_log(log)
    assert job["job"] == found["job"] and job["command"] == "train" and job["panel"] == backend.__name__
    assert [row.as_dict() for row in rows] == found["history"] and all(type(row) is backend.Row for row in rows)
    assert outcome["objective"] == found["objective"] and outcome["outcome"] == found["message"]
    assert outcome["success"] == found["success"] and not outcome["interrupted"]
    row = '{"epoch": 1, "oracle_calls": 3, "seconds": 0.1, "objective": null}'
    log.write_text(f'{{"command": "train"}}\n{row}\n{row[:30]}')  # killed while it wrote
    assert np.isnan(load_log(log).rows[0].objective) and load_log(log).outcome is None
    with pytest.raises(ValueError, match="none.jsonl: no such file"):
        load_log(tmp_path / "none.jsonl")


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
    status, out, err = ended(process)
    assert status == 128 + number, err
    found = json.loads(out)
    assert found["interrupted"] and not found["success"] and found["message"].startswith("interrupted after ")
    assert found["objective"] == min(row["objective"] for row in found["history"])
    loaded, w, _ = load_model(model, backend.module)
    letters = load_sequences(data_file)
    hinge = backend.StructuralHinge(loaded, loaded.pack(letters.X, letters.Y))
    close(found["objective"], hinge.value_and_gradient(w)[0] + 0.5 * found["job"]["lam"] * w @ w)
    _, rows, outcome = load_log(log)
    assert outcome["interrupted"] and [row.as_dict() for row in rows][: len(found["history"])] == found["history"]
    options = {"lam": found["job"]["lam"], "rng": 0, "epochs": len(rows) + 1}
    gone_on = getattr(backend, optimizer)(hinge, resume=file, **options, **({} if optimizer == "sgd" else {"tol": 0.0}))
    assert len(gone_on.history) == len(rows) + 1


def test_an_interrupt_before_anything_is_done_or_in_a_comparison(backend, data_file, tmp_path, cli, monkeypatch):
    """A comparison would say little of two runs of which one was cut short."""

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backend.LogLoss, "value_and_gradient", interrupted)
        status, out, err = cli.run("train", data_file, "--save", tmp_path / "m.npz", "--epochs", 2)
        assert status == 130 and not out and "interrupted" in err and not (tmp_path / "m.npz").exists()
    monkeypatch.setattr("diptych.commands.output.Progress.__call__", interrupted)
    for words in (["compare", data_file], ["demo", "--limit", 5, "--out", tmp_path / "demo"]):
        status, out, err = cli.run(*words)
        assert status == 130 and "interrupted" in err and "relative difference" not in out


@pytest.mark.beyond("starts processes")
def test_a_reader_that_has_gone_is_no_error(data_file, tmp_path):
    """As in ``| head``: quiet, with the status of a broken pipe."""
    with started(tmp_path, "train", data_file, "--epochs", 1, "--quiet") as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert not [line for line in err.splitlines() if not line.startswith("compiling kernels")], err


def test_curves_are_distances_from_the_best_dual(data_file, tmp_path, cli):
    """One problem by several optimisers: the bound is below all, and a picture is drawn. Where a dual is above other
    objectives, as of a smoothed problem, there is no bound, and objectives are shown as they are.
    """
    pytest.importorskip("matplotlib")
    logs = [tmp_path / f"{name}.jsonl" for name in ("sgd", "svrg", "lbfgs")]
    for log in logs:
        cli.reported("train", data_file, "--optimizer", log.stem, "--lam", 0.1, "--epochs", 6, "--log", log)
    picture, other = tmp_path / "curves.png", tmp_path / "other.jsonl"
    found = cli.reported("curves", *logs, "--plot", picture)
    assert picture.read_bytes().startswith(PNG) and [each["name"] for each in found["runs"]] == [p.stem for p in logs]
    duals = [row.dual for log in logs for row in load_log(log).rows if row.dual is not None]
    assert found["bound"] == max(duals) and found["against"] == ["calls", "seconds"]
    for log, each in zip(logs, found["runs"], strict=True):
        rows = load_log(log).rows
        assert each["calls"] == [row.oracle_calls for row in rows] and each["objective"] == [r.objective for r in rows]
        close(np.array(each["distance"]) * abs(found["bound"]) + found["bound"], each["objective"])
        assert min(each["distance"]) >= -1e-12
    assert cli.printed("curves", *logs, "--against", "epochs", "--plot", picture).count("\n") == 5
    job, *rows, outcome = (json.loads(line) for line in logs[1].read_text().splitlines())
    rows = [{**row, "objective": row["objective"] / 2, "dual": None} for row in rows]
    other.write_text("".join(f"{json.dumps(line)}\n" for line in (job, *rows, outcome)))
    found = cli.reported("curves", logs[1], other, "--plot", picture)
    assert found["bound"] is None and all(each["distance"] is None for each in found["runs"])
    assert "none.jsonl: no such file" in cli.refused("curves", tmp_path / "none.jsonl")


def test_logs_of_different_problems_have_no_curves(data_file, tmp_path, monkeypatch, reference_cli):
    """The error says what differs; one file by two paths is one file, and a log may say less of its problem."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bank.txt").write_text(FILES["bank.txt"])
    (tmp_path / "more.txt").write_text(2 * f"{FILES['bank.txt']}\n")
    ridge = "train toy.npz --optimizer online-proximal --regularizer"
    for name, words in (
        ("a", "train toy.npz --lam 0.1"),
        ("lam", "train toy.npz --lam 1 --loss hinge"),
        ("path", f"train {tmp_path}/./toy.npz --lam 0.1 --optimizer lbfgs"),
        ("l2", f"{ridge} l2 --lam 0.1"),
        ("l1", f"{ridge} l1 --tau 0.1"),
        ("tag", "tag train bank.txt --lam 0.1"),
        ("more", "tag train more.txt --lam 0.1"),
    ):
        reference_cli.printed(*words.split(), "--epochs", 1, "--log", f"{name}.jsonl", "--quiet")
    for one, other, message in (
        ("a", "lam", "a.jsonl and .*lam.jsonl are logs of different problems: loss crf and hinge, lam 0.1 and 1.0$"),
        ("a", "l1", "different problems: lam 0.1 and 0.0, regularizer None and l1, tau None and 0.1$"),
        ("a", "tag", "different problems: command train and tag train"),
        ("tag", "more", "different problems: file .*bank.txt and .*more.txt, sentences 2 and 4$"),
    ):
        error = reference_cli.refused("curves", f"{one}.jsonl", f"{other}.jsonl").strip()
        assert re.search(message, error), error
    assert len(reference_cli.reported("curves", "a.jsonl", "path.jsonl", "l2.jsonl")["runs"]) == 3
