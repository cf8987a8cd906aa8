"""Processes that the tests of commands start: Python with the packages of this suite, found after a folder's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import diptych

__all__ = ["ROOT", "begun", "ended", "finished", "group_of", "lines_of", "started", "until"]

ROOT = Path(diptych.__file__).parent.parent


def begun(folder, *words, **variables):
    """Python in a process group of its own, as a terminal starts it, with variables of its own."""
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a suite in the background may not be listening
    places = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    options = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": places, **variables}, "start_new_session": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *map(str, words)], preexec_fn=listen, **pipes, **options)


def started(folder, *words, **variables):
    """A command that has begun."""
    return begun(folder, "-m", "diptych", *words, **variables)


def ended(process):
    """The status, output and errors of a process."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def finished(folder, *words, **variables):
    """The status, output and errors of Python."""
    return ended(begun(folder, *words, **variables))


def until(condition, seconds=120):
    """Wait until something is so; after so many seconds it is a failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it was not so within {seconds} seconds"
        time.sleep(0.02)


def lines_of(path):
    """The number of lines of a file, which may not be there yet."""
    return path.read_text().count("\n") if path.exists() else 0


def group_of(process):
    """The processes of a group that still run."""
    command = ["ps", "-o", "stat=,pid=", "-g", str(process.pid)]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if not line.startswith("Z")]  # ended, and not yet reaped
