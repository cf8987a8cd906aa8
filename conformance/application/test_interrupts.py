"""A real Ctrl-C to a real command, while Python imports and while kernels compile: status 130 and one line."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time

import numba
import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from conformance.application.processes import ROOT, begun, finished, started
from conformance.application.test_app import data_file
from diptych import interrupts
from diptych.interrupts import finishing, listening

pytestmark = pytest.mark.beyond("starts processes")

__all__ = ["data_file"]  # a fixture
IMPORTS = [  # the panel, what it has just imported, seconds after that
    ("reference", "reference.arrays", 0.0),
    ("reference", "numpy.linalg", 0.02),
    ("accelerated", "reference.objectives", 0.0),
    ("accelerated", "numba.core.config", 0.0),
    ("accelerated", "numba.core.types", 0.1),
    ("accelerated", "accelerated.kernel", 0.0),
]


def interrupted(cli, seen, seconds, number=signal.SIGINT, **variables):
    """Status, output, last lines of a command that gets the signal some seconds after a line that ``seen`` ends."""
    with begun(ROOT, *command, **variables) as process:
        for line in iter(process.stderr.readline, ""):
            text = line.strip()
            if text.startswith(seen) or text.endswith(f" {seen}"):
                break
        time.sleep(seconds)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    return process.returncode, out, [x for x in err.splitlines() if not x.startswith("import time:")]


@pytest.mark.parametrize(("panel", "imported", "seconds"), IMPORTS)
def test_ctrl_c_while_python_imports(panel, imported, seconds):
    command = ["-X", "importtime", "-m", "diptych", "train", "letters", "--panel", panel]
    assert interrupted(command, imported, seconds) == (130, "", ["interrupted"])
    assert interrupted(command, imported, seconds, signal.SIGTERM) == (143, "", ["terminated"])


def test_the_handlers_come_before_slow_imports():
    """Until then a signal ends Python. Modules that ``signal`` and ``runpy`` import count as quick."""
    lines = finished(ROOT, "-X", "importtime", "-m", "diptych", "--version")[2].splitlines()
    names = [line.rpartition("|")[2].strip() for line in lines]
    ours = names[names.index("runpy") + 1 : names.index("diptych.interrupts")]
    assert set(ours) <= {"__future__", "diptych.installation", "enum", "signal", "types", "functools"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_when_the_output_is_written(number):
    """In the last moments of Python, too: status 0, or the line and the status of the signal; the output is whole."""
    words = ["train", "letters", "--limit", "5", "--epochs", "1", "--quiet", "--json"]
    ended = {0: "", 130: "interrupted\n", 143: "terminated\n"}
    for k in range(6):
        with started(ROOT, *words) as process:
            out = process.stdout.readline()
            time.sleep(0.01 * k)
            process.send_signal(number)
            rest, err = process.communicate(timeout=300)
        assert process.returncode in (0, 128 + number) and err == ended[process.returncode]
        assert rest == "" and json.loads(out)["command"] == "train"


def test_ctrl_c_while_the_installed_script_imports(tmp_path):
    script = tmp_path / "diptych"
    script.write_text("from diptych.commands.main import main\nraise SystemExit(main())\n")
    command = ["-X", "importtime", str(script), "train", "letters"]
    assert interrupted(command, "reference.objectives", 0.0) == (130, "", ["interrupted"])


@pytest.mark.parametrize("seconds", [0.0, 1.0, 3.0])
def test_ctrl_c_while_kernels_compile(data_file, tmp_path, seconds):
    """Whether it comes between two kernels, within one, or within what C code calls back."""
    command = ["-m", "diptych", "train", str(data_file), "--epochs", "1000000", "--save", str(tmp_path / "m.npz")]
    assert interrupted(command, "compiling kernels", seconds, NUMBA_CACHE_DIR=str(tmp_path / "cold")) == (
        130,
        "",
        ["interrupted"],
    )
    assert not (tmp_path / "m.npz").exists()


@pytest.fixture
def installed(monkeypatch):
    """The command's handlers of Ctrl-C and SIGTERM."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    then = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(interrupts, "is_command", lambda package: True)
    interrupts.handle()
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGTERM, then)


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


def test_an_interrupt_waits_for_the_end_of_a_pass_of_the_compiler(installed):
    """Within a pass it could end the process: LLVM would free one module twice."""
    reached = []
    with pytest.raises(KeyboardInterrupt), listening():
        with global_compiler_lock:
            signal.raise_signal(signal.SIGINT)
            reached.append("the first")
            signal.raise_signal(signal.SIGINT)
            reached.append("the second")
        reached.append("compiled")
    assert reached == ["the first", "the second"]
    with listening(), global_compiler_lock:
        reached.append("compiles again")
    with pytest.raises(KeyboardInterrupt), listening():
        signal.raise_signal(signal.SIGINT)
        reached.append("out of the compiler")
    assert reached[2:] == ["compiles again"]


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


@pytest.fixture
def lost():
    """Loses a KeyboardInterrupt as compilers do, which call back into Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    @ctypes.CFUNCTYPE(None)
    def callback():
        raise KeyboardInterrupt

    yield callback
    signal.signal(signal.SIGINT, before)


def test_what_a_callback_loses_comes_again(lost):
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), listening():
        lost()
        while time.monotonic() < started + 20:
            time.sleep(0.01)


class _HalfClosed:
    """As llvmlite's objects are, if an interrupt comes while they close."""

    def __del__(self):
        raise AttributeError("closed by half")


def test_a_finalizer_that_fails_after_an_interrupt_says_nothing(monkeypatch):
    def work(end):
        half_closed = _HalfClosed()
        raise end(id(half_closed))

    said: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: said.append(lost.exc_type))
    with pytest.raises(KeyboardInterrupt), listening():
        work(KeyboardInterrupt)
    assert said == []
    with pytest.raises(OSError), listening():
        work(OSError)
    assert said == [AttributeError]


def test_an_error_that_an_interrupt_led_to_is_the_interrupt(lost):
    with pytest.raises(KeyboardInterrupt), listening():
        lost()
        raise RuntimeError("the callback did not do what it should")
    with pytest.raises(RuntimeError, match="of itself"), listening():
        raise RuntimeError("of itself")
    with pytest.raises(OSError, match="full"), listening():
        lost()
        raise OSError("the disk is full")
