"""Ctrl-C on the command line: one line and status 130, also during imports and while kernels compile.

This module imports nothing slow, and is imported before everything that is slow.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from diptych.installation import is_command

__all__ = ["INTERRUPTED", "handle", "listening"]

INTERRUPTED = 130  # the exit status
PACKAGE = "diptych"
AGAIN_SECONDS = 0.02  # delay before a KeyboardInterrupt lost in a callback is raised again

_listens = False  # whether a caller catches KeyboardInterrupt
_waits = False  # whether KeyboardInterrupt is to be raised after a pass of the compiler
_interrupted = False  # whether Ctrl-C has raised KeyboardInterrupt since `listening` began


def handle() -> None:
    """Make Ctrl-C end ``diptych`` and ``python -m diptych`` at once, except inside :func:`listening`.

    Nothing is changed if another program imports the package, or if the signal is ignored.
    """
    if is_command(PACKAGE) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_signal)


@contextmanager
def listening() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt inside this context.

    While a kernel compiles, it is raised when the compiler's current pass ends (:func:`_after_this_pass`). If a
    callback of C code loses the KeyboardInterrupt, it is raised again. It also replaces other errors that follow, those
    of finalizers too: an object that was interrupted while it closed cannot close again.
    """
    global _interrupted, _listens
    before, hook = _listens, sys.unraisablehook
    timers: list[threading.Timer] = []

    def once_more(lost: sys.UnraisableHookArgs) -> None:
        global _interrupted
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _interrupted = True
            timers.append(threading.Timer(AGAIN_SECONDS, _thread.interrupt_main))
            timers[-1].start()
        elif not _interrupted:
            hook(lost)

    _interrupted, _listens, sys.unraisablehook = False, True, once_more
    try:
        yield
    except KeyboardInterrupt as interrupt:
        _interrupted = True
        traceback.clear_frames(interrupt.__traceback__)  # finalizers run now, while `once_more` hears them
        raise
    except (OSError, ValueError):
        raise
    except Exception as problem:
        if _interrupted:
            raise KeyboardInterrupt from problem
        raise
    finally:
        for timer in timers:
            timer.cancel()
        _listens, sys.unraisablehook = before, hook
        # If the last exec of a string was interrupted, CPython ends with the signal instead of the exit status. numba
        # uses such an exec.
        exec("pass")


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _interrupted
    if _listens:
        _interrupted = True
        if not _compiles():
            signal.default_int_handler(number, frame)
        if not _waits:
            _after_this_pass()
        return
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _compiles() -> bool:
    """Whether numba compiles or loads a kernel in this thread. numba is not imported for the answer."""
    locks = sys.modules.get("numba.core.compiler_lock")
    return locks is not None and locks.global_compiler_lock.is_locked()


def _after_this_pass() -> None:
    """Raise KeyboardInterrupt in this thread when numba next starts or ends a pass, or ends compiling.

    An interrupt within a pass may leave an object of LLVM half made or half freed. Python may then end with a
    segmentation fault.
    """
    global _waits
    from numba.core import event

    class Interrupt(event.Listener):
        def on_start(self, event: Any) -> None:
            self.on_end(event)

        def on_end(self, _: Any) -> None:
            global _waits
            if threading.current_thread() is threading.main_thread():
                _waits = False
                for kind in kinds:
                    event.unregister(kind, self)  # type: ignore[no-untyped-call]
                raise KeyboardInterrupt

    _waits, kinds, listener = True, ("numba:run_pass", "numba:compiler_lock"), Interrupt()
    for kind in kinds:
        event.register(kind, listener)  # type: ignore[no-untyped-call]
