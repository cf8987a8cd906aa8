"""Ctrl-C on the command line: one line and status 130, also while Python imports what it needs and while kernels
compile.

This module needs nothing that takes long to import, and is imported before all that does.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from diptych.installation import is_command

__all__ = ["INTERRUPTED", "handle", "listening"]

INTERRUPTED = 130  # the exit status
PACKAGE = "diptych"
AGAIN_SECONDS = 0.02  # after which a Ctrl-C that a callback lost is raised once more

_listens = False  # whether somebody is there to catch a KeyboardInterrupt
_come = False  # whether Ctrl-C has raised one since


def handle() -> None:
    """From now on Ctrl-C ends ``diptych`` and ``python -m diptych`` at once, but for what
    :func:`listening` guards.

    Nothing is changed where the package is imported by another program, or where the signal is ignored.
    """
    if is_command(PACKAGE) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_signal)


@contextmanager
def listening() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt inside: one that is lost in a callback of C code comes again, and errors that it
    leads to are replaced by it."""
    global _come, _listens
    before, hook = _listens, sys.unraisablehook
    timers: list[threading.Timer] = []

    def once_more(lost: sys.UnraisableHookArgs) -> None:
        global _come
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _come = True
            timers.append(threading.Timer(AGAIN_SECONDS, _thread.interrupt_main))
            timers[-1].start()
        else:
            hook(lost)

    _come, _listens, sys.unraisablehook = False, True, once_more
    try:
        yield
    except (OSError, ValueError):
        raise
    except Exception as problem:
        if _come:
            raise KeyboardInterrupt from problem
        raise
    finally:
        for timer in timers:
            timer.cancel()
        _listens, sys.unraisablehook = before, hook
        # CPython ends by the signal, whatever the status, if the last exec of a string was interrupted; numba has such
        exec("pass")


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _come
    if _listens:
        _come = True
        signal.default_int_handler(number, frame)
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
