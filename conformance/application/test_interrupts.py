"""A real Ctrl-C to a real command, while Python imports and while kernels compile: status 130 and one line."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numba
import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

import reference
from conformance.application.test_app import data_file
from diptych import interrupts
from diptych.interrupts import listening

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


def interrupted(options, command, seen, seconds):
    """Status, output and the last lines of a command that gets the signal so many seconds after a line with ``seen`` at
    one end."""
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a suite in the background may not be listening
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    root = Path(reference.__file__).parent.parent
    with subprocess.Popen([sys.executable, *command], cwd=root, preexec_fn=listen, **pipes, **options) as process:
        for line in iter(process.stderr.readline, b""):
            text = line.decode().strip()
            if text.startswith(seen) or text.endswith(f" {seen}"):
                break
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    return process.returncode, out, [x for x in err.decode().splitlines() if not x.startswith("import time:")]


@pytest.mark.parametrize(("panel", "imported", "seconds"), IMPORTS)
def test_ctrl_c_while_python_imports(panel, imported, seconds):
    command = ["-X", "importtime", "-m", "diptych", "train", "letters", "--panel", panel]
    assert interrupted({}, command, imported, seconds) == (130, b"", ["interrupted"])


def test_ctrl_c_while_the_installed_script_imports(tmp_path):
    script = tmp_path / "diptych"
    script.write_text("from diptych.commands.main import main\nraise SystemExit(main())\n")
    options = {"env": dict(os.environ, PYTHONPATH=str(Path(reference.__file__).parent.parent))}
    command = ["-X", "importtime", str(script), "train", "letters"]
    assert interrupted(options, command, "reference.objectives", 0.0) == (130, b"", ["interrupted"])


@pytest.mark.parametrize("seconds", [0.0, 1.0, 3.0])
def test_ctrl_c_while_kernels_compile(data_file, tmp_path, seconds):
    """Whether it comes between two kernels, within one, or within what C code calls back."""
    options = {"env": dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path / "cold"))}
    command = ["-m", "diptych", "train", str(data_file), "--epochs", "1000000", "--save", str(tmp_path / "m.npz")]
    assert interrupted(options, command, "compiling kernels", seconds) == (130, b"", ["interrupted"])
    assert not (tmp_path / "m.npz").exists()


@pytest.fixture
def installed(monkeypatch):
    """The command's handler of Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(interrupts, "is_command", lambda package: True)
    interrupts.handle()
    yield
    signal.signal(signal.SIGINT, before)


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
