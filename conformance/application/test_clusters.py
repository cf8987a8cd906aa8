"""Clusters that the command line starts, or is led to: interrupts, errors, encryption, kernels."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass

import pytest

from conformance.application.processes import ended, finished, group_of, lines_of, started, until
from diptych.commands import executors
from diptych.distributed import local_client
from diptych.files.models import load_model

pytest.importorskip("distributed")
pytestmark = pytest.mark.beyond("starts clusters of processes")
TRAIN = ["tag", "train", "part*.txt", "--quiet"]
ENDLESS = ["--lam", 1e-9, "--tol", 0, "--save", "m.npz", "--log", "log.jsonl"]
CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "localhost:0"}


def alone(process):
    """Whether all processes of a group end soon."""
    until(lambda: group_of(process) == [], 5)
    return group_of(process) == []


def trained(files, *words):
    """Status, output and errors of a training of ten iterations."""
    return ended(started(files, *TRAIN, "--epochs", 10, *words))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_workers_and_keeps_the_best_weights(files, number):
    """The terminal sends the signal to all processes of the group; only one of them heeds it."""
    process = started(files, *TRAIN, "--workers", 2, *ENDLESS, "--epochs", 10**6)
    until(lambda: lines_of(files / "log.jsonl") >= 3)
    os.killpg(process.pid, number)
    status, out, err = ended(process)
    assert status == 128 + number and err == "" and "not converged: interrupted after" in out
    assert "2 workers, 0 tasks repeated" in out
    model, w, info = load_model(files / "m.npz", "reference")
    assert info["partitions"] == "8 of 25, 25, 25, 25, 25, 25, 25, 25 examples"
    assert w.any() and sorted(model.labels) == ["L0", "L1", "L2"]
    assert alone(process)


def test_ctrl_c_while_workers_start(files):
    process = started(files, *TRAIN, "--workers", 2, "--save", "m.npz")
    until(lambda: len(group_of(process)) >= 3)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) == (130, "", "interrupted\n") and not (files / "m.npz").exists()
    assert alone(process)


def test_a_killed_worker_is_said(files):
    import psutil

    process = started(files, *TRAIN, *ENDLESS, "--epochs", 60, "--workers", 2, "--json")
    log = files / "log.jsonl"
    until(lambda: lines_of(log) >= 5)
    workers = [each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline())]
    workers[0].kill()
    status, out, err = ended(process)
    assert status == 0 and err.startswith("diptych tag train: workers lost so far: 1; tasks that ran"), err
    report = json.loads(out)
    assert report["lost"] == 1 and '{"workers_lost": 1, ' in log.read_text()
    assert len(workers) == 2 and len(report["history"]) > 10 and report["workers"] >= 1


def test_an_error_of_a_worker_is_one_line(files):
    (files / "part9.txt").write_text("w1 L1\nw2\n")
    said = "diptych tag train: part9.txt, line 2: expected 2 columns, as above, got 1: 'w2'\n"
    assert ended(started(files, *TRAIN, "--workers", 2)) == (2, "", said)


def test_nobody_else_reaches_a_cluster_of_this_machine():
    import psutil

    with local_client(2) as client:
        assert len(client.nthreads()) == 2
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [each for process in processes for each in process.net_connections() if each.status == "LISTEN"]
        assert listening and {each.laddr.ip for each in listening} <= {"127.0.0.1", "::1"}


def test_a_scheduler_gives_the_bits_of_this_machine(files):
    from distributed import LocalCluster

    assert trained(files, "--workers", 0, "--save", "here.npz")[0] == 0
    with LocalCluster(**CLUSTER) as cluster:
        status, out, err = trained(files, "--scheduler", cluster.scheduler_address, "--save", "there.npz", "--json")
        assert (status, err) == (0, "") and json.loads(out)["workers"] == 2
        (model, w, _), (expected, v, _) = (load_model(files / f"{name}.npz", "reference") for name in ("there", "here"))
        assert model.settings() == expected.settings() and w.tobytes() == v.tobytes()
        assert len(cluster.workers) == 2  # they go on
    with LocalCluster(**CLUSTER | {"n_workers": 0}) as cluster:
        status, out, err = trained(files, "--scheduler", cluster.scheduler_address)
        said = f"--scheduler {cluster.scheduler_address}: it has no workers\n"
        assert (status, out) == (2, "") and err.endswith(said)


def test_an_address_that_answers_something_else_is_given_up(monkeypatch):
    """A web server: it waits for a request, and Dask for its answer."""
    import distributed

    monkeypatch.setattr(executors, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"^--scheduler {address}: no scheduler of Dask answers there$"):
            executors._connected(distributed, address, None)


def test_tls_options_reach_the_scheduler(files):
    """By a certificate that signs itself, and its key."""
    from distributed import LocalCluster, Security

    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    where = ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2"]
    subprocess.run([*make, *where, *names], cwd=files, check=True, capture_output=True)
    cert, key = str(files / "cert.pem"), str(files / "key.pem")
    sides = {f"tls_{side}_{what}": file for side in ("scheduler", "worker", "client")
             for what, file in (("cert", cert), ("key", key))}  # fmt: skip
    security = Security(tls_ca_file=cert, require_encryption=True, **sides)
    with LocalCluster(security=security, protocol="tls", **CLUSTER | {"n_workers": 1}) as cluster:
        address = cluster.scheduler_address
        options = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
        for each in (address, address.removeprefix("tls://")):
            status, out, err = trained(files, "--scheduler", each, *options, "--json")
            assert (status, err) == (0, "") and json.loads(out)["workers"] == 1
        status, out, err = trained(files, "--scheduler", address)
        assert (status, out) == (2, "") and "--tls-ca-file and --tls-cert name certificates" in err


@dataclass(frozen=True)
class Noted:
    """A rehearsal that leaves a line in a file."""

    path: str

    def __call__(self):
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")


def test_one_worker_of_each_machine_rehearses(tmp_path):
    with local_client(3) as client:
        executors._compile(client, Noted(str(tmp_path / "lines")))
        assert int((tmp_path / "lines").read_text()) in client.run(os.getpid).values()


COLD = """
import sys
from pathlib import Path
from diptych.commands import executors
from diptych.commands.main import main

if __name__ == "__main__":
    local, before = executors.local_client, []

    def counted(*arguments):
        before.append(len(list(Path(sys.argv[1]).rglob("*.nbc"))))
        return local(*arguments)

    executors.local_client = counted
    status = main(["tag", "train", "part0.txt", "--workers", "2", "--epochs", "5"])
    print(status, before[0], len(list(Path(sys.argv[1]).rglob("*.nbc"))))
"""


def test_kernels_are_compiled_before_workers_start(files):
    """And nothing is compiled after that, by no worker."""
    (files / "cold.py").write_text(COLD)
    status, out, err = finished(files, "cold.py", files / "cold", NUMBA_CACHE_DIR=str(files / "cold"))
    assert status == 0 and err.count("compiling kernels") == 1, err
    status, before, after = map(int, out.split()[-3:])
    assert status == 0 and before == after > 0
