"""Objectives over partitions on workers of Dask: the same bits, also when workers are killed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from conformance.distributed.test_partitioned import LOADERS, METHODS, bits, trained
from diptych.distributed import Partitioned, local_client
from diptych.distributed.transports import Dask
from reference import LogLoss, SequenceModel, lbfgs

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
pytestmark = pytest.mark.beyond("starts clusters of processes")


@pytest.fixture(scope="module", params=[1, 3])
def client(request):
    with local_client(request.param) as client:
        assert len(client.nthreads()) == request.param
        yield client


def test_every_method_has_the_same_bits_on_any_number_of_workers(client):
    """Every method on three workers, one method on one: threads have them all, processes one in the other panel."""
    sp = importlib.import_module("reference")
    for name in METHODS if len(client.nthreads()) > 1 else ["lbfgs"]:
        assert bits(sp, name, client) == bits(sp, name), name
    assert bits(sp, "lbfgs", client.get_executor(pure=False)) == bits(sp, "lbfgs")
    assert Partitioned(LOADERS, SequenceModel(2, 3), LogLoss, client).repeated == 0


def wide():
    """A sequence of many features, so that weights outweigh messages."""
    return [np.ones((2, 20_000))], [[0, 1]]


def test_bytes_moved_are_those_that_the_workers_count(client):
    """Weights to each worker that needs them, sums of partitions to a worker that adds them, one sum back."""
    objective = Partitioned(8 * [wide], SequenceModel(20_000, 2), LogLoss, client)
    w, workers, passes = objective.zeros(), len(client.nthreads()), 5
    before = objective.moved
    for i in range(passes):
        objective.value_and_gradient(w + i)
    moved = (objective.moved - before) / (passes * w.nbytes)
    if workers == 1:
        assert 2.0 <= moved < 2.1
    else:
        assert 2.0 < moved < workers + 8 + 1.1


def deadly(folder, model, data):
    """A log loss that kills its process at a gradient, once for each file in a folder."""

    class Deadly(LogLoss):
        calls = 0

        def value_and_gradient(self, w, batch=None, mu=None):
            self.calls += 1
            if self.calls > 2 and (armed := sorted(Path(folder).iterdir())):
                with suppress(FileNotFoundError):  # another worker was first, and is killed
                    armed[0].unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().value_and_gradient(w, batch, mu)

    return Deadly(model, data)


deadly.mu, deadly.loss_augmented = 1.0, False


def test_a_worker_killed_twice_changes_no_bit(client, tmp_path):
    once = trained(importlib.import_module("reference"), "lbfgs").x.tobytes()
    for name in ("first", "second"):
        (tmp_path / name).touch()
    objective = Partitioned(LOADERS, SequenceModel(2, 3), partial(deadly, str(tmp_path)), client)
    assert lbfgs(objective, lam=0.05, iterations=15).x.tobytes() == once
    assert not list(tmp_path.iterdir())  # it was killed twice
    assert objective.repeated >= 2


def test_a_worker_that_is_lost_twice_is_replaced(monkeypatch):
    """Dask looks a while after the first loss whether there is a worker; it must not meet the second loss."""
    monkeypatch.setitem(dask.config.config["distributed"]["deploy"], "lost-worker-timeout", "0.1 s")
    with local_client(1) as client:
        for _ in range(2):
            ((lost, process),) = client.run(os.getpid).items()
            os.kill(process, signal.SIGKILL)
            ended = time.monotonic() + 60
            while lost in client.nthreads() and time.monotonic() < ended:
                time.sleep(0.05)
            wait_until_workers_run(client)


def wait_until_workers_run(client):
    """Dask does not replace a worker that ends while it is being started."""
    running, ended = distributed.core.Status.running, time.monotonic() + 60
    while time.monotonic() < ended:
        nannies = client.cluster.workers.values()
        run = all(nanny.process is not None and nanny.process.status == running for nanny in nannies)
        if run and len(client.nthreads()) == len(nannies):
            return
        time.sleep(0.05)
    raise TimeoutError("a worker was not replaced")


def test_a_cluster_without_workers_ends_the_run(monkeypatch, tmp_path):
    """They are not replaced: the run ends with its best weights and a checkpoint, from which this process goes on."""
    monkeypatch.setattr(Dask, "patience", 1.0)
    sp, path = importlib.import_module("reference"), tmp_path / "run.npz"
    with local_client(1) as client:
        ends = lambda row, w: client.cluster.scale(0) if row.epoch == 2 else None  # noqa: E731
        cut = trained(sp, "lbfgs", client, run={"callback": ends, "checkpoint": path})
    assert cut.interrupted and "there has been no worker for 1 seconds" in cut.message
    assert trained(sp, "lbfgs", run={"resume": path}).x.tobytes() == trained(sp, "lbfgs").x.tobytes()


def test_a_worker_that_stops_is_given_up():
    """SIGSTOP: it sends no heartbeat, so that its tasks run elsewhere after the scheduler's worker-ttl."""
    once = trained(importlib.import_module("reference"), "lbfgs").x.tobytes()
    with dask.config.set({"distributed.scheduler.worker-ttl": "2 s"}), local_client(2) as client:
        objective = Partitioned(LOADERS, SequenceModel(2, 3), LogLoss, client)
        process = next(iter(client.run(os.getpid).values()))
        os.kill(process, signal.SIGSTOP)
        assert lbfgs(objective, lam=0.05, iterations=15).x.tobytes() == once
        assert objective.repeated > 0


@pytest.mark.parametrize("name", ["lbfgs", "cocoa, hinge"])  # of others: test_partitioned
def test_a_scheduler_that_is_gone_leaves_a_checkpoint(tmp_path, name):
    """The run ends with its best weights; resumed in this process alone, it has the bits of an undisturbed run."""
    sp, path, file = importlib.import_module("reference"), tmp_path / "run.npz", tmp_path / "scheduler.json"
    loss, train = METHODS[name]
    here = Partitioned(LOADERS, SequenceModel(2, 3), loss(sp))
    undisturbed = train(sp, here)
    names = "--scheduler-file", str(file), "--dashboard-address", ":0"
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *names]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *names]
    with dask.config.set({"distributed.comm.timeouts.connect": "2 s"}):
        scheduler = subprocess.Popen(start, stderr=subprocess.DEVNULL)
        worker = subprocess.Popen(work, stderr=subprocess.DEVNULL)
        try:
            with distributed.Client(scheduler_file=str(file)) as client:
                client.wait_for_workers(1, timeout=60)
                objective = Partitioned(LOADERS, SequenceModel(2, 3), loss(sp), client)
                ends = lambda row, w: scheduler.kill() if row.epoch == 3 else None  # noqa: E731
                cut = train(sp, objective, checkpoint=path, callback=ends)
                ended = time.monotonic() + 60
                while client.status != "closed" and time.monotonic() < ended:
                    time.sleep(0.1)
                assert objective.repeated >= 0 and objective.moved > 0  # the last counts stay
        finally:
            scheduler.kill()
            worker.kill()
            scheduler.wait()
            worker.wait()
    assert cut.interrupted and "the scheduler at tcp://" in cut.message and cut.message.endswith("is gone")
    assert cut.fun <= min(row.objective for row in cut.history) and len(cut.history) == 3
    for _ in range(2):  # a checkpoint can be resumed more than once
        assert train(sp, here, resume=path).x.tobytes() == undisturbed.x.tobytes()
