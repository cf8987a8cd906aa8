"""A real Ctrl-C to a real command, and clusters that the command line starts or is led to."""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import numba
import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from conformance.application.processes import ROOT, begun, ended, finished, group_of, lines_of, started, until
from conformance.specimens.pages import entries
from diptych import interrupts
from diptych.commands import executors
from diptych.distributed import Runs, local_client
from diptych.files.models import load_model
from diptych.interrupts import finishing, listening

pytestmark = pytest.mark.beyond("starts processes")
SCRIPT = "from diptych.commands.main import main\nraise SystemExit(main())\n"


def interrupted(words, seen, seconds, number=signal.SIGINT, **variables):
    """Status, output, last lines of a command that gets the signal some seconds after a line that ``seen`` ends."""
    with begun(ROOT, *words, **variables) as process:
        for line in iter(process.stderr.readline, ""):
            text = line.strip()
            if text.startswith(seen) or text.endswith(f" {seen}"):
                break
        time.sleep(seconds)
        process.send_signal(number)
        status, out, err = ended(process)
    return status, out, [x for x in err.splitlines() if not x.startswith("import time:")]


@pytest.mark.parametrize(("imported", "seconds"), entries("imports.txt"))
def test_ctrl_c_while_python_imports(imported, seconds, tmp_path):
    """Started as a module; and SIGTERM to the script as it is installed."""
    (tmp_path / "diptych").write_text(SCRIPT)
    for program, number, said in (
        (["-m", "diptych"], signal.SIGINT, (130, "", ["interrupted"])),
        ([tmp_path / "diptych"], signal.SIGTERM, (143, "", ["terminated"])),
    ):
        panel, module = imported.split()
        words = ["-X", "importtime", *program, "train", "letters", "--panel", panel]
        assert interrupted(words, module, float(seconds), number) == said


QUICK = ("__future__", "diptych.collector", "diptych.installation", "enum", "signal", "types", "functools")


def test_the_handlers_come_before_slow_imports():
    """Until then a signal ends Python. Built-in modules and those that ``signal`` and ``runpy`` import are quick."""
    lines = finished(ROOT, "-X", "importtime", "-m", "diptych", "--version")[2].splitlines()
    names = [line.rpartition("|")[2].strip() for line in lines]
    ours = names[names.index("runpy") + 1 : names.index("diptych.interrupts")]
    assert set(ours) <= {*sys.builtin_module_names, *QUICK}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_when_the_output_is_written(number):
    """In the last moments of Python, too: status 0, or the line and the status of the signal; the output is whole."""
    words = ["train", "letters", "--limit", "5", "--epochs", "1", "--quiet", "--json"]
    said = {0: "", 130: "interrupted\n", 143: "terminated\n"}
    for k in range(0, 6, 2):
        with started(ROOT, *words) as process:
            out = process.stdout.readline()
            time.sleep(0.01 * k)
            process.send_signal(number)
            status, rest, err = ended(process)
        assert status in (0, 128 + number) and err == said[status]
        assert rest == "" and json.loads(out)["command"] == "train"


@pytest.mark.parametrize("seconds", [0.0, 1.0, 3.0])
def test_ctrl_c_while_kernels_compile(data_file, tmp_path, seconds):
    """Whether it comes between two kernels, within one, or within what C code calls back."""
    words, cold = ["-m", "diptych", "train", data_file, "--epochs", 10**6, "--save", tmp_path / "m.npz"], tmp_path / "c"
    found = interrupted(words, "compiling kernels", seconds, NUMBA_CACHE_DIR=str(cold))
    assert found == (130, "", ["interrupted"]) and not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_finishes_is_not_cut_short(installed, number, status):
    reached = []
    with pytest.raises(KeyboardInterrupt), listening():
        with finishing():
            signal.raise_signal(number)
            signal.raise_signal(number)
            reached.append("saved")
        reached.append("went on")
    assert reached == ["saved"] and interrupts.status() == status
    with listening(), finishing():
        pass
    with pytest.raises(OSError), listening(), finishing():
        signal.raise_signal(number)
        raise OSError("the disk is full")


def test_a_result_that_is_written_is_kept(installed, tmp_path, monkeypatch):
    """The signal comes when the line is in the file, before the write returns."""

    class Late(io.FileIO):
        def write(self, content):
            count = super().write(content)
            signal.raise_signal(signal.SIGINT)
            return count

    monkeypatch.setattr("builtins.open", lambda path, mode, buffering: Late(path, mode))
    kept = tmp_path / "kept.jsonl"
    with pytest.raises(KeyboardInterrupt), listening():
        Runs(abs, kept).perform([-3, -4])
    assert kept.read_bytes() == b'["-3", 3]\n'


def test_an_interrupt_waits_for_the_end_of_a_pass_of_the_compiler(installed):
    """Within a pass it could end the process: LLVM would free one module twice."""
    reached = []
    with pytest.raises(KeyboardInterrupt), listening():
        with global_compiler_lock:
            for each in ("the first", "the second"):
                signal.raise_signal(signal.SIGINT)
                reached.append(each)
        reached.append("compiled")
    with listening(), global_compiler_lock:
        reached.append("compiles again")
    with pytest.raises(KeyboardInterrupt), listening():
        signal.raise_signal(signal.SIGINT)
        reached.append("out of the compiler")
    assert reached == ["the first", "the second", "compiles again"]


def test_an_interrupt_comes_before_the_next_pass(installed):
    def interrupting(x):
        return x + 1

    passes = []

    class Recorder(event.Listener):
        def on_start(self, started):
            passes.append("started")
            if len(passes) == 3:
                signal.raise_signal(signal.SIGINT)
                passes.append("went on")

        def on_end(self, ended):
            pass

    with event.install_listener("numba:run_pass", Recorder()), pytest.raises(KeyboardInterrupt), listening():
        numba.njit(interrupting)(1)
    assert passes == ["started", "started", "started", "went on"]
    assert numba.njit(interrupting)(1) == 2


def test_what_a_callback_loses_comes_again():
    """Compilers call back into Python and lose a KeyboardInterrupt; an error that it led to is the interrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    @ctypes.CFUNCTYPE(None)
    def lost():
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), listening():
        lost()
        while time.monotonic() < started + 20:
            time.sleep(0.01)
    with pytest.raises(KeyboardInterrupt), listening():
        lost()
        raise RuntimeError("the callback did not do what it should")
    with pytest.raises(RuntimeError, match="of itself"), listening():
        raise RuntimeError("of itself")
    with pytest.raises(OSError, match="full"), listening():
        lost()
        raise OSError("the disk is full")
    signal.signal(signal.SIGINT, before)


def test_a_finalizer_that_fails_after_an_interrupt_says_nothing(monkeypatch):
    """Such as those of llvmlite's objects, if an interrupt comes while they close."""

    class HalfClosed:
        def __del__(self):
            raise AttributeError("closed by half")

    def work(end):
        half_closed = HalfClosed()
        raise end(id(half_closed))

    said: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: said.append(lost.exc_type))
    for end, expected in ((KeyboardInterrupt, []), (OSError, [AttributeError])):
        with pytest.raises(end), listening():
            work(end)
        assert said == expected


TRAIN = ["tag", "train", "part*.txt", "--quiet"]
ENDLESS = ["--lam", 1e-9, "--tol", 0, "--save", "m.npz", "--log", "log.jsonl"]
CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "localhost:0"}


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
    until(lambda: group_of(process) == [], 5)


def test_ctrl_c_while_workers_start(files):
    process = started(files, *TRAIN, "--workers", 2, "--save", "m.npz")
    until(lambda: len(group_of(process)) >= 3)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) == (130, "", "interrupted\n") and not (files / "m.npz").exists()
    until(lambda: group_of(process) == [], 5)


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
    pytest.importorskip("distributed")
    psutil = pytest.importorskip("psutil")
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
    distributed = pytest.importorskip("distributed")
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
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem"
    names = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*make.split(), *names], cwd=files, check=True, capture_output=True)
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


def noted(path):
    """A rehearsal that leaves a line in a file."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")


def test_one_worker_of_each_machine_rehearses(tmp_path):
    pytest.importorskip("distributed")
    with local_client(3) as client:
        executors._compile(client, partial(noted, str(tmp_path / "lines")))
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
