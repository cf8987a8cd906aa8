"""A real Ctrl-C to a real command, while Python imports and while kernels compile: status 130 and one line; and a
folder of the user's with the name of a package is not run in the package's place unseen.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import sys
import time

import numba
import pytest
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

import reference
from conformance.application.processes import ROOT, begun, ended, finished, started
from diptych import interrupts
from diptych.interrupts import finishing, listening

processes = pytest.mark.beyond("starts processes")
SCRIPT = "from diptych.commands.main import main\nraise SystemExit(main())\n"
IMPORTS = [  # the panel, what it has just imported, seconds after that
    ("reference", "reference.arrays", 0.0),
    ("reference", "numpy.linalg", 0.02),
    ("accelerated", "reference.objectives", 0.0),
    ("accelerated", "numba.core.config", 0.0),
    ("accelerated", "numba.core.types", 0.1),
    ("accelerated", "accelerated.kernel", 0.0),
]


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


@processes
@pytest.mark.parametrize(("panel", "imported", "seconds"), IMPORTS)
def test_ctrl_c_while_python_imports(panel, imported, seconds, tmp_path):
    """Started as a module; and SIGTERM to the script as it is installed."""
    (tmp_path / "script").write_text(SCRIPT)
    for program, number, said in (
        (["-m", "diptych"], signal.SIGINT, (130, "", ["interrupted"])),
        ([tmp_path / "script"], signal.SIGTERM, (143, "", ["terminated"])),
    ):
        words = ["-X", "importtime", *program, "train", "letters", "--panel", panel]
        assert interrupted(words, imported, seconds, number) == said


@processes
def test_the_handlers_come_before_slow_imports():
    """Until then a signal ends Python. Modules that ``signal`` and ``runpy`` import count as quick."""
    lines = finished(ROOT, "-X", "importtime", "-m", "diptych", "--version")[2].splitlines()
    names = [line.rpartition("|")[2].strip() for line in lines]
    ours = names[names.index("runpy") + 1 : names.index("diptych.interrupts")]
    assert set(ours) <= {"__future__", "diptych.installation", "enum", "signal", "types", "functools"}


@processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_when_the_output_is_written(number):
    """In the last moments of Python, too: status 0, or the line and the status of the signal; the output is whole."""
    words = ["train", "letters", "--limit", "5", "--epochs", "1", "--quiet", "--json"]
    said = {0: "", 130: "interrupted\n", 143: "terminated\n"}
    for k in range(6):
        with started(ROOT, *words) as process:
            out = process.stdout.readline()
            time.sleep(0.01 * k)
            process.send_signal(number)
            status, rest, err = ended(process)
        assert status in (0, 128 + number) and err == said[status]
        assert rest == "" and json.loads(out)["command"] == "train"


@processes
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
    for end, expected in ((KeyboardInterrupt, []), (OSError, [AttributeError])):
        with pytest.raises(end), listening():
            work(end)
        assert said == expected


def foreign(folder, name):
    """A package, or a module, that leaves a file where it is run; its version is ours."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"open({str(folder / 'ran')!r}, 'w')\n__version__ = {reference.__version__!r}\n")
    return path


@processes
@pytest.mark.parametrize("name", ["reference/__init__.py", "reference.py", "accelerated/__init__.py"])
def test_a_folder_of_that_name_is_named_and_not_run(tmp_path, name):
    path = foreign(tmp_path, name)
    package = path.stem if path.stem != "__init__" else path.parent.name
    for command, ours in (("diptych", "diptych"), ("diptych.experiments", "diptych"), ("conformance", "conformance")):
        status, out, err = finished(tmp_path, "-m", command, "--version")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert str(path) in err and f"{ROOT / ours} belongs to {ROOT / package}," in err
    status, _, err = finished(tmp_path, "-c", "import diptych")
    *_, line = err.splitlines()
    assert status == 1 and line.startswith("ImportError: ") and str(path) in line and str(ROOT / package) in line
    assert not (tmp_path / "ran").exists()
    status, _, err = finished(tmp_path, "-c", f"import {package}, diptych")
    assert status == 1 and err.splitlines()[-1].startswith("ImportError: ") and str(path) in err


@processes
def test_the_suite_names_a_foreign_application_and_scripts_do_not_look_where_they_are_started(tmp_path):
    path = foreign(tmp_path, "diptych/__init__.py")
    status, out, err = finished(tmp_path, "-m", "conformance", "--version")
    assert (status, out, err.count("\n")) == (2, "", 1) and str(path) in err
    for name in ("reference/__init__.py", "conformance.py"):
        foreign(tmp_path, name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "diptych").write_text(SCRIPT)
    (tmp_path / "bin" / "suite").write_text("from conformance.__main__ import script\nraise SystemExit(script())\n")
    expected = (0, f"diptych {reference.__version__}\n", "")
    assert finished(tmp_path, tmp_path / "bin" / "diptych", "--version") == expected
    status, out, _ = finished(tmp_path, tmp_path / "bin" / "suite", "--help")
    assert status == 0 and "usage: diptych-conformance" in out
    for name in ("reference", "diptych"):
        shutil.rmtree(tmp_path / name)
    assert finished(tmp_path, "-m", "diptych", "--version") == expected  # conformance.py alone is nothing to it
    assert not (tmp_path / "ran").exists()
