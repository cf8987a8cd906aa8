"""Logs, curves and checkpoints by the command line; files on a full disk and after killed processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import reference
from conformance.application.processes import ROOT, begun, ended, lines_of, started, until
from conformance.application.test_app import PNG
from conformance.specimens.pages import entries
from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.files import LocalizationImage, load_log, load_model, load_sequences, save_localization, save_model
from diptych.files.logs import LogWriter
from diptych.pictures.grids import write_picture
from diptych.pictures.plots import convergence
from reference.files import NotWritten, save_bytes
from reference.training.result import Result, Row


def test_a_log_has_the_job_the_rows_and_the_outcome(backend, data_file, write, cli):
    """As far as it goes, if it was cut off."""
    found = cli.reported("train toy.npz --epochs 3 --lam 0.1 --log log.jsonl")
    lines = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    assert len(lines) == 5 and lines[1:4] == found["history"]
    job, rows, outcome = load_log("log.jsonl")
    assert job["job"] == found["job"] and job["command"] == "train" and job["panel"] == backend.__name__
    assert [row.as_dict() for row in rows] == found["history"] and all(type(row) is backend.Row for row in rows)
    assert outcome["objective"] == found["objective"] and outcome["outcome"] == found["message"]
    assert outcome["success"] == found["success"] and not outcome["interrupted"]
    row = '{"epoch": 1, "oracle_calls": 3, "seconds": 0.1, "objective": null}'
    log = load_log(write(f'{{"command": "train"}}\n{row}\n{row[:30]}'))  # killed while it wrote
    assert np.isnan(log.rows[0].objective) and log.outcome is None


@pytest.mark.beyond("starts processes")
@pytest.mark.parametrize(("number", "optimizer"), [(2, "sgd"), (2, "bcfw"), (15, "sgd")])  # Ctrl-C and SIGTERM
def test_a_signal_saves_the_best_weights(backend, data_file, tmp_path, optimizer, number):
    """Status 130 or 143, the model, the report, the log's last line and a checkpoint to go on from."""
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


def test_an_interrupt_before_anything_is_done_or_in_a_comparison(backend, data_file, cli, monkeypatch):
    """A comparison would say little of two runs of which one was cut short."""

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backend.LogLoss, "value_and_gradient", interrupted)
        status, out, err = cli.run("train toy.npz --save m.npz --epochs 2")
        assert status == 130 and not out and "interrupted" in err and not Path("m.npz").exists()
    monkeypatch.setattr("diptych.commands.output.Progress.__call__", interrupted)
    for words in ("compare toy.npz", "demo --limit 5 --out demo"):
        status, out, err = cli.run(words)
        assert status == 130 and "interrupted" in err and "relative difference" not in out


@pytest.mark.beyond("starts processes")
def test_a_reader_that_has_gone_is_no_error(data_file, tmp_path):
    """As in ``| head``: quiet, with the status of a broken pipe."""
    with started(tmp_path, "train", data_file, "--epochs", 1, "--quiet") as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert not [line for line in err.splitlines() if not line.startswith("compiling kernels")], err


def test_curves_are_distances_from_the_best_dual(data_file, write, cli):
    """The bound is below all. With a dual above an objective, as of a smoothed problem, there is none."""
    pytest.importorskip("matplotlib")
    names = ("sgd", "svrg", "lbfgs")
    for name in names:
        cli.reported(f"train toy.npz --optimizer {name} --lam 0.1 --epochs 6 --log {name}.jsonl")
    logs, curves = [load_log(f"{name}.jsonl") for name in names], "curves sgd.jsonl svrg.jsonl lbfgs.jsonl --plot p.png"
    found = cli.reported(curves)
    assert Path("p.png").read_bytes().startswith(PNG) and [each["name"] for each in found["runs"]] == [*names]
    duals = [row.dual for log in logs for row in log.rows if row.dual is not None]
    assert found["bound"] == max(duals) and found["against"] == ["calls", "seconds"]
    for log, each in zip(logs, found["runs"], strict=True):
        assert each["calls"] == [row.oracle_calls for row in log.rows]
        assert each["objective"] == [row.objective for row in log.rows] and min(each["distance"]) >= -1e-12
        close(np.array(each["distance"]) * abs(found["bound"]) + found["bound"], each["objective"])
    assert cli.printed(f"{curves} --against epochs").count("\n") == 5
    job, *rows, outcome = (json.loads(line) for line in Path("svrg.jsonl").read_text().splitlines())
    rows = [{**row, "objective": row["objective"] / 2, "dual": None} for row in rows]
    write("".join(f"{json.dumps(line)}\n" for line in (job, *rows, outcome)), "other.jsonl")
    found = cli.reported("curves svrg.jsonl other.jsonl --plot p.png")
    assert found["bound"] is None and all(each["distance"] is None for each in found["runs"])
    assert "none.jsonl: no such file" in cli.refused("curves none.jsonl")


def test_logs_of_different_problems_have_no_curves(data_file, write, reference_cli):
    """The error says what differs; one file by two paths is one file, and a log may say less of its problem."""
    write(FILES["bank.txt"], "bank.txt"), write(2 * f"{FILES['bank.txt']}\n", "more.txt")
    for name, words in entries("logs.txt"):
        reference_cli.printed(f"{words} --epochs 1 --log {name} --quiet")
    for logs, message in entries("different_logs.txt"):
        assert re.search(message, reference_cli.refused(f"curves {logs}").strip())
    assert len(reference_cli.reported("curves a path l2")["runs"]) == 3


SAVING = """
import sys, time
import numpy as np
from diptych.files import LocalizationImage, save_localization

def images():
    yield LocalizationImage([[0, 0, 1, 1]], np.ones((1, 1, 1, 1), np.float32), (2, 2))
    print("begun", flush=True)
    time.sleep(600)

save_localization(sys.argv[1], images(), ["spot"])
"""
no_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")  # Linux has one


@contextmanager
def full_disk(room):
    """No file grows beyond so many bytes meanwhile; the last write that begins below ends there."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def written(path, rng):
    """Write a file of the kind that its name says."""
    if path.suffix in (".png", ".svg"):
        pytest.importorskip("matplotlib")
    if path.suffix == ".npz":
        save_model(path, model := reference.MulticlassModel(2, 2), rng.normal(size=model.size))
    elif path.suffix == ".boxes":
        features = rng.normal(size=(1, 1, 1, 1)).astype(np.float32)
        save_localization(path, [LocalizationImage([[0, 0, 1, 1]], features, (2, 2))], ["spot"])
    elif path.suffix == ".svg":
        convergence(path, {"run": [reference.Row(k, k, 0.1 * k, float(rng.normal())) for k in (1, 2)]}, "title")
    else:
        write_picture(path, rng.integers(0, 2, (40, 50)))


@pytest.mark.parametrize("name", ["a.npz", "a.boxes", "a.npy", "a.pbm", "a.pgm", "a.png", "a.svg"])
def test_a_full_disk_is_named_and_leaves_the_old_file_or_none(name, tmp_path, rng):
    """So is a folder that is not there, by the file."""
    path = tmp_path / name
    with pytest.raises(OSError, match="File too large") as error, full_disk(0):
        written(path, rng)
    assert error.value.filename == str(path) and not list(tmp_path.iterdir())
    written(path, rng)
    whole = path.read_bytes()
    with pytest.raises(OSError, match="File too large"), full_disk(100):
        written(path, rng)
    assert path.read_bytes() == whole and [each.name for each in tmp_path.iterdir()] == [name]
    with pytest.raises(FileNotFoundError) as error:
        written(tmp_path / "none" / name, rng)
    assert error.value.filename == str(tmp_path / "none" / name)


def test_a_checkpoint_on_a_full_disk_is_a_warning_and_the_run_goes_on(backend, tmp_path, rng):
    """The weights are those of a run without; the file is written when there is room again, else the old one stays."""
    model = backend.MulticlassModel(2, 2)
    loss, path = backend.LogLoss(model, model.pack(rng.normal(size=(4, 2)), [0, 1, 0, 1])), tmp_path / "run.npz"
    options = {"lam": 0.1, "epochs": 3, "rng": 0}
    with pytest.warns(NotWritten, match=f"{path}: file too large: the checkpoint is not written") as said, full_disk(0):
        result = backend.sgd(loss, checkpoint=path, **options)
    assert len(said) == 1 and not list(tmp_path.iterdir()) and "; the checkpoint is of epoch 0 (file" in result.message
    assert np.array_equal(result.x, backend.sgd(loss, **options).x)
    backend.sgd(loss, checkpoint=path, **options)
    whole = path.read_bytes()
    with pytest.warns(NotWritten), full_disk(100):
        backend.sgd(loss, checkpoint=path, **options | {"epochs": 2})
    assert path.read_bytes() == whole and backend.sgd(loss, resume=path, **options).nit == 3


@no_device
@pytest.mark.parametrize("option", ["--log", "--checkpoint"])
def test_a_command_goes_on_when_the_disk_of_a_log_or_a_checkpoint_is_full(data_file, reference_cli, option):
    words = "train toy.npz --epochs 3 --lam 0.1 --quiet --save"
    status, out, err = reference_cli.run(f"{words} m.npz {option} /dev/full")
    assert status == 1 and err.count("\n") == 1 and "train: /dev/full: no space left on device: the " in err
    assert "saved m.npz" in out and reference_cli.printed(f"{words} n.npz")
    assert np.array_equal(load_model("m.npz", reference)[1], load_model("n.npz", reference)[1])
    vary = "grid --kept kept.jsonl --vary lam=0.1 --quiet train toy.npz --epochs 1"
    status, _, err = reference_cli.run(f"{vary} {option} /dev/full")
    assert status == 1 and "1 files of the runs are not written; /dev/full: no space" in err
    assert Path("kept.jsonl").exists()


def test_a_log_on_a_full_disk_ends_with_a_whole_line(data_file, tmp_path, reference_cli):
    """Wherever in a line the disk is full; the run is not taken for one that has ended, and can be gone on with."""
    log, words = tmp_path / "log.jsonl", "train toy.npz --epochs 3 --lam 0.1 --log log.jsonl"
    reference_cli.printed(words)
    size, first = len(log.read_bytes()), len(log.read_bytes().split(b"\n")[0]) + 1
    for room in (first + 1, size - 150, size - 60):  # digits of seconds vary by less than the length of the last line
        with full_disk(room):
            status, out, err = reference_cli.run(words)
        assert status == 1 and "objective" in out and err.count("\n") == 1 and "log.jsonl: file too large" in err
        text = log.read_text()
        assert text.endswith("\n") and all(isinstance(json.loads(line), dict) for line in text.splitlines())
        assert load_log(log).outcome is None and len(text) <= room
    log.unlink()
    with full_disk(0):
        assert reference_cli.run(words)[0] == 1
    with pytest.raises(ValueError, match="log.jsonl: not a log of training: it is empty"):
        load_log(log)
    reference_cli.printed("train toy.npz --lam 0.1 --log log.jsonl --epochs 2 --checkpoint run.npz")
    log.write_bytes(log.read_bytes()[:-30])  # within the outcome
    reference_cli.printed("train toy.npz --lam 0.1 --log log.jsonl --epochs 4 --resume run.npz")
    assert [row.epoch for row in load_log(log).rows] == [1, 2, 3, 4] and load_log(log).outcome is not None


@no_device
@pytest.mark.beyond("starts processes")
def test_a_full_standard_output_is_said():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "diptych", "reproduce", "--list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "standard output: no space left on device" in done.stderr


@pytest.mark.beyond("starts processes")
def test_parts_of_killed_saves_are_removed_and_those_of_live_ones_are_not(tmp_path, rng):
    path, other = tmp_path / "a.boxes", tmp_path / ".a.boxes.old.abcdefgh.part"
    other.write_bytes(b"of another name")
    with begun(ROOT, "-c", SAVING, path) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            (part,) = (each for each in tmp_path.glob(".a.boxes.*.part") if each != other)
            written(path, rng)
            assert part.exists()
        finally:
            process.kill()
    assert part.exists()
    written(path, rng)
    assert sorted(each.name for each in tmp_path.iterdir()) == [other.name, "a.boxes"]


def test_saves_of_one_name_at_once(tmp_path):
    """Each leaves a whole file; none takes another's part away."""
    path, model = tmp_path / "m.npz", reference.MulticlassModel(20, 3)

    def save(k):
        save_model(path, model, np.full(model.size, float(k)))
        weights = load_model(path, reference)[1]
        assert np.all(weights == weights[0])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(160)))
    assert [each.name for each in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_links_pipes_and_permissions_stay(tmp_path, rng):
    """A link is followed, permissions stay, those of a new file are the user's, and what is no file is written to."""
    target, link, pipe = tmp_path / "m.npz", tmp_path / "link.npz", tmp_path / "pipe"
    mask = os.umask(0o027)
    written(target, rng)
    os.umask(mask)
    before = target.read_bytes()
    assert target.stat().st_mode & 0o7777 == 0o640
    target.chmod(0o600)
    link.symlink_to(target)
    written(link, rng)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o600 and target.read_bytes() != before
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    save_bytes(pipe, b"whole")
    reader.join()
    assert read == [b"whole"] and pipe.is_fifo()


def test_a_log_has_each_row_once(tmp_path):
    """A run that is refused leaves the log alone. An interrupt may fall between a row and its callback; rows that a
    checkpoint brought are in the log already.
    """
    log, rows = tmp_path / "log.jsonl", tuple(Row(k, 4 * k, 0.0, 3.0 - k) for k in (1, 2))
    result = Result(np.zeros(1), 1.0, 2, False, "interrupted", "last", 8, "none", rows, interrupted=True)
    log.write_text("as it was\n")
    for more in (False, True):
        with LogWriter(log, {"command": "train"}, more=more):
            pass
    assert log.read_text() == "as it was\n"
    for seen, more in ((1, False), (2, False), (0, True)):
        with LogWriter(log, {"command": "train"}, more=more) as writer:
            for row in rows[:seen]:
                writer(row, None)
            writer.ended(result)
        assert [row.objective for row in load_log(log).rows] == [2.0, 1.0] and log.read_text().count("epoch") == 2
