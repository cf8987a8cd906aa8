"""Checkpoints: what differs, what is damaged, what writing costs, those of older versions; errors and logs of runs
that are cut.

The files in ``older/`` are of three epochs by the reference, on the objective below, with ``rng=0``.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from conformance.golden.problems import Problems
from conformance.optimizers.test_runs import same
from conformance.specimens.learners import chains, loss_of
from diptych.files import load_log
from diptych.files.logs import LogWriter
from reference.archives import read_npz
from reference.training.checkpoints import FORMAT, FORMER
from reference.training.result import Result, Row


def test_another_error_is_not_swallowed(backend, tmp_path):
    """But what was done is kept."""

    def callback(row, w):
        if row.epoch == 3:
            raise RuntimeError("mine")

    objective, file = loss_of(backend, "hinge", *chains(backend)), tmp_path / "run.npz"
    with pytest.raises(RuntimeError, match="mine"):
        backend.bcfw(objective, lam=0.1, tol=None, rng=0, callback=callback, checkpoint=file)
    same(
        backend.bcfw(objective, lam=0.1, tol=None, rng=0, epochs=5),
        backend.bcfw(objective, lam=0.1, tol=None, rng=0, epochs=5, resume=file),
    )


def test_what_differs_is_named(backend, tmp_path):
    objective, file = loss_of(backend, "log loss", *chains(backend)), tmp_path / "run.npz"
    classes = loss_of(backend, "log loss", *Problems(backend).model("classes"))
    backend.sgd(objective, lam=0.1, epochs=3, rng=0, checkpoint=file)
    for wrong, message in (
        ({"lam": 0.2}, "run.npz is of a run with lam = 0.1, this one has 0.2"),
        ({"mu": 0.5}, "mu = None, this one has 0.5"),
        ({"average": "last"}, "average = weighted, this one has last"),
        ({"batch_size": 2}, "batch_size = 1, this one has 2"),
        ({"step_size": 0.5}, r"step_size = None, this one has Constant\(gamma0=0.5\)"),
        ({"rng": 1}, "rng = 0, this one has 1"),
        ({"epochs": 2}, "resume: .*run.npz has done 3 epochs, this run asks for 2 in all"),
        ({"objective": loss_of(backend, "hinge", *chains(backend))}, "objective = LogLoss, this one has Structural"),
        (
            {"objective": classes},
            r"examples = 5, this one has 8",
        ),
        ({"objective": loss_of(backend, "log loss", *chains(backend, seed=8))}, "run.npz is of other data"),
        ({"resume": tmp_path / "none.npz"}, "none.npz"),
    ):
        options = {"objective": objective, "lam": 0.1, "epochs": 5, "rng": 0, "resume": file, **wrong}
        with pytest.raises((ValueError, OSError), match=message):
            backend.sgd(**options)
    assert backend.sgd(objective, lam=0.1, epochs=5, resume=file).nit == 5  # without a seed: that of the checkpoint
    with pytest.raises(ValueError, match="optimizer = sgd, this one has svrg"):
        backend.svrg(objective, lam=0.1, resume=file)
    with pytest.raises(ValueError, match="checkpoint: no such folder"):
        backend.sgd(objective, lam=0.1, checkpoint=tmp_path / "none" / "run.npz")
    with pytest.raises(TypeError, match="resume: expected the path of a file, got int"):
        backend.sgd(objective, lam=0.1, resume=3)


def test_a_damaged_file_is_named(backend, tmp_path):
    objective, file = loss_of(backend, "log loss", *chains(backend)), tmp_path / "run.npz"
    backend.sgd(objective, lam=0.1, epochs=1, rng=0, checkpoint=file)
    content = file.read_bytes()
    with np.load(file) as archive:
        header = json.loads(str(archive["header"]))
    for damaged, message in (
        (lambda: file.write_bytes(content[:-30]), "run.npz: not a readable checkpoint"),
        (lambda: file.write_text("{}"), "run.npz: not a readable checkpoint"),
        (lambda: np.savez(file, weights=np.zeros(3)), "run.npz: not a checkpoint of diptych; found weights"),
        (lambda: np.savez(file, header=np.array(json.dumps({**header, "checkpoint": 9}))), "checkpoint of format 9"),
        (lambda: np.savez(file, header=np.array(json.dumps(header))), "run.npz: damaged checkpoint"),
        (lambda: np.savez(file, header=np.array(json.dumps({"checkpoint": FORMAT}))), "run.npz: damaged checkpoint"),
        (lambda: renamed(file, content, b"SGDState", b"NoState!"), "no such kind of state here: .*NoState!"),
    ):
        damaged()
        with pytest.raises(ValueError, match=message):
            backend.sgd(objective, lam=0.1, epochs=2, resume=file)


def renamed(file, content, old, new):
    """The checkpoint, with a name in its header changed."""
    file.write_bytes(content)
    with np.load(file) as archive:
        arrays = dict(archive)
    arrays["header"] = np.array(str(arrays["header"]).replace(old.decode(), new.decode()))
    np.savez(file, **arrays)
    assert zipfile.is_zipfile(file)


def test_checkpoints_take_a_small_share_of_the_time(backend, tmp_path, monkeypatch):
    """Files are written at once, then ten times as long after the last as that took, and at the end."""
    from reference.training import run as runs

    now, written = [0.0], []
    monkeypatch.setattr(runs.time, "perf_counter", lambda: now[0])

    def write(path, content):
        written.append(content["done"].rows)
        now[0] += 1.0

    def callback(row, w):
        now[0] += 4.0

    monkeypatch.setattr(runs, "write_checkpoint", write)
    objective = loss_of(backend, "log loss", *chains(backend))
    backend.sgd(objective, lam=0.1, epochs=8, rng=0, checkpoint=tmp_path / "run.npz", callback=callback)
    assert written == [1, 4, 7, 8]


def test_a_refused_run_leaves_the_log_alone(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("as it was\n")
    for more in (False, True):
        with LogWriter(log, {"command": "train"}, more=more):
            pass
    assert log.read_text() == "as it was\n"
    with LogWriter(log, {"command": "train"}) as writer:
        writer(Row(1, 4, 0.0, 2.0), None)
    assert [row.objective for row in load_log(log).rows] == [2.0]


def test_the_row_before_an_interrupt_is_logged_once(tmp_path):
    """The signal may fall between a row and its callback; rows that a checkpoint brought are in the log already."""
    log, rows = tmp_path / "log.jsonl", tuple(Row(k, 4 * k, 0.0, 3.0 - k) for k in (1, 2))
    result = Result(np.zeros(1), 1.0, 2, False, "interrupted", "last", 8, "none", rows, interrupted=True)
    for seen in (1, 2):
        with LogWriter(log, {"command": "train"}) as writer:
            for row in rows[:seen]:
                writer(row, None)
            writer.ended(result)
        assert [row.epoch for row in load_log(log).rows] == [1, 2] and log.read_text().count("epoch") == 2
    with LogWriter(log, {"command": "train"}, more=True) as writer:
        writer.ended(result)
    assert log.read_text().count("epoch") == 2


OLDER = Path(__file__).parent / "older"
OPTIONS = {"sgd": {"mu": 0.5}, "svrg": {"mu": 0.5}, "casimir": {}, "prox_linear": {}}


@pytest.mark.parametrize("version", ["", "_2"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_continues_from_an_older_file(backend, name, version):
    model = backend.MulticlassModel(n_features=2, labels=["a", "b"])
    data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    options = {"lam": 0.1, "rng": 0, "iterations" if name == "prox_linear" else "epochs": 6, **OPTIONS[name]}
    learner = getattr(backend, name)
    whole, resumed = learner(hinge, **options), learner(hinge, resume=OLDER / f"{name}{version}.npz", **options)
    assert resumed.message == whole.message and len(resumed.history) == len(whole.history)
    assert [row.oracle_calls for row in resumed.history] == [row.oracle_calls for row in whole.history]
    assert np.allclose(resumed.x, whole.x, rtol=1e-9, atol=1e-12) and np.isclose(resumed.fun, whole.fun, rtol=1e-9)


def test_each_former_state_has_its_file():
    headers = [str(read_npz(path, "checkpoint")["header"]) for path in sorted(OLDER.glob("*.npz"))]
    assert all(any(f'"{kind}"' in header for header in headers) for kind in FORMER)
