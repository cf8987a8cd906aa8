"""Files on a full disk, and after killed processes: whole, as they were, or not there; errors name them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import reference
from conformance.application.processes import ROOT, begun
from conformance.application.test_app import data_file
from diptych.files import LocalizationImage, load_log, load_model, save_localization, save_model
from diptych.pictures.grids import write_picture
from diptych.pictures.plots import convergence
from reference.files import NotWritten, save_bytes

__all__ = ["data_file"]  # a fixture
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


def one_image(fill=1.0):
    return LocalizationImage([[0, 0, 1, 1]], np.full((1, 1, 1, 1), fill, np.float32), (2, 2))


def modelled(path, rng):
    model = reference.MulticlassModel(2, 2)
    save_model(path, model, rng.normal(size=model.size))


def drawn(path, rng):
    pytest.importorskip("matplotlib")
    convergence(path, {"run": [reference.Row(k, k, 0.1 * k, float(rng.normal())) for k in (1, 2)]}, "title")


def pictured(path, rng):
    if path.suffix == ".png":
        pytest.importorskip("matplotlib")
    write_picture(path, rng.integers(0, 2, (40, 50)))


WRITERS = {
    "model.npz": modelled,
    "images.boxes": lambda path, rng: save_localization(path, [one_image(rng.normal())], ["spot"]),
    "picture.npy": pictured,
    "picture.pbm": pictured,
    "picture.pgm": pictured,
    "picture.png": pictured,
    "figure.svg": drawn,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_named_and_leaves_the_old_file_or_none(name, tmp_path, rng):
    path = tmp_path / name
    with pytest.raises(OSError, match="File too large") as error, full_disk(0):
        WRITERS[name](path, rng)
    assert error.value.filename == str(path) and not list(tmp_path.iterdir())
    WRITERS[name](path, rng)
    whole = path.read_bytes()
    with pytest.raises(OSError, match="File too large"), full_disk(100):
        WRITERS[name](path, rng)
    assert path.read_bytes() == whole and [each.name for each in tmp_path.iterdir()] == [name]


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


@pytest.mark.parametrize("option", ["--log", "--checkpoint"])
def test_a_command_goes_on_when_the_disk_of_a_log_or_a_checkpoint_is_full(data_file, tmp_path, option, reference_cli):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")  # Linux has one
    model, words = tmp_path / "m.npz", ["train", data_file, "--epochs", 3, "--lam", 0.1, "--quiet", "--save"]
    status, out, err = reference_cli.run(*words, model, option, "/dev/full")
    assert status == 1 and err.count("\n") == 1 and "train: /dev/full: no space left on device: the " in err
    assert f"saved {model}" in out and reference_cli.run(*words, tmp_path / "n.npz")[0] == 0
    assert np.array_equal(load_model(model, reference)[1], load_model(tmp_path / "n.npz", reference)[1])
    kept, vary = tmp_path / "kept.jsonl", ["grid", "--kept", tmp_path / "kept.jsonl", "--vary", "lam=0.1", "--quiet"]
    status, _, err = reference_cli.run(*vary, "train", data_file, "--epochs", 1, option, "/dev/full")
    assert status == 1 and "1 files of the runs are not written; /dev/full: no space" in err and kept.exists()


@pytest.mark.parametrize("name", ["model.npz", "images.boxes", "picture.npy"])
def test_a_folder_that_is_not_there_is_named_by_the_file(name, tmp_path, rng):
    path = tmp_path / "none" / name
    with pytest.raises(FileNotFoundError) as error:
        WRITERS[name](path, rng)
    assert error.value.filename == str(path)


# logs and reports ----------------------------------------------------------------------------------------------------


def test_a_log_on_a_full_disk_ends_with_a_whole_line(data_file, tmp_path, reference_cli):
    """Wherever in a line the disk is full; the run is not taken for one that has ended."""
    log = tmp_path / "log.jsonl"
    words = ["train", data_file, "--epochs", 3, "--lam", 0.1, "--log", log]
    assert reference_cli.run(*words)[0] == 0
    size, first = len(log.read_bytes()), len(log.read_bytes().split(b"\n")[0]) + 1
    for room in (
        first + 1,
        size - 150,
        size - 60,
    ):  # the last line is longer, and the digits of the seconds before it vary by less
        with full_disk(room):
            status, out, err = reference_cli.run(*words)
        assert status == 1 and "objective" in out and err.count("\n") == 1 and f"{log}: file too large" in err
        text = log.read_text()
        assert text.endswith("\n") and all(isinstance(json.loads(line), dict) for line in text.splitlines())
        assert load_log(log).outcome is None and len(text) <= room
    log.unlink()
    with full_disk(0):
        assert reference_cli.run(*words)[0] == 1
    with pytest.raises(ValueError, match="log.jsonl: not a log of training: it is empty"):
        load_log(log)


def test_a_log_whose_last_line_was_cut_off_is_gone_on_with(data_file, tmp_path, reference_cli):
    log, file = tmp_path / "log.jsonl", tmp_path / "run.npz"
    words = ["train", data_file, "--lam", 0.1, "--log", log]
    assert reference_cli.run(*words, "--epochs", 2, "--checkpoint", file)[0] == 0
    log.write_bytes(log.read_bytes()[:-30])  # within the outcome
    assert reference_cli.run(*words, "--epochs", 4, "--resume", file)[0] == 0
    found = load_log(log)
    assert [row.epoch for row in found.rows] == [1, 2, 3, 4] and found.outcome is not None


@pytest.mark.beyond("starts processes")
def test_a_full_standard_output_is_said(data_file, tmp_path, reference_cli):
    log = tmp_path / "log.jsonl"
    assert reference_cli.run("train", data_file, "--epochs", 1, "--log", log)[0] == 0
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")  # Linux has one
    command = [sys.executable, "-m", "diptych", "curves", str(log)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "standard output: no space left on device" in done.stderr


@pytest.mark.beyond("a long training through a command or learner")
def test_a_report_on_a_full_disk_is_named(tmp_path, reference_cli):
    words = ["demo", "--epochs", 1, "--limit", 5, "--quiet", "--json", "--out", tmp_path]
    assert reference_cli.run(*words)[0] == 0
    report = tmp_path / "compare.json"
    whole = report.read_bytes()
    with full_disk(100):
        status, _, err = reference_cli.run(*words)
    assert status == 1 and f"{report}: file too large" in err and report.read_bytes() == whole


# parts of killed saves -----------------------------------------------------------------------------------------------


@pytest.mark.beyond("starts processes")
def test_parts_of_killed_saves_are_removed_and_those_of_live_ones_are_not(tmp_path):
    path, other = tmp_path / "a.boxes", tmp_path / ".a.boxes.old.abcdefgh.part"
    other.write_bytes(b"of another name")
    with begun(ROOT, "-c", SAVING, path) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            (part,) = (each for each in tmp_path.glob(".a.boxes.*.part") if each != other)
            save_localization(path, [one_image()], ["spot"])
            assert part.exists()
        finally:
            process.kill()
    assert part.exists()
    save_localization(path, [one_image()], ["spot"])
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
def test_links_pipes_and_permissions_stay(tmp_path):
    """A link is followed, permissions stay, and what is no file is written to, not replaced."""
    model = reference.MulticlassModel(1, 2)
    target, link, pipe = tmp_path / "m.npz", tmp_path / "link.npz", tmp_path / "pipe"
    save_model(target, model, np.zeros(2))
    target.chmod(0o600)
    link.symlink_to(target)
    save_model(link, model, np.ones(2))
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o600
    assert load_model(target, reference)[1].tolist() == [1.0, 1.0]
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    save_bytes(pipe, b"whole")
    reader.join()
    assert read == [b"whole"] and pipe.is_fifo()
