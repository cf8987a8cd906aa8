"""Ctrl-C and SIGTERM on the command line: one line and status 130 or 143, also during imports and while kernels
compile.

This module is imported before everything that is slow. At its top it imports nothing that takes a millisecond, except
``signal`` itself.
"""

from __future__ import annotations

import os
import signal
import sys

from diptych.installation import is_command

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from threading import Timer
    from types import FrameType, TracebackType
    from typing import Any

PACKAGE = "diptych"
AGAIN_SECONDS = 0.02  # delay before a KeyboardInterrupt lost in a callback is raised again

_listens = False  # whether a caller catches KeyboardInterrupt
_waits = False  # whether KeyboardInterrupt is to be raised after a pass of the compiler
_interrupted = False  # whether a signal has raised KeyboardInterrupt since `listening` began
_terminated = False  # whether a signal was SIGTERM
_finishes = False  # whether signals wait for the end of `finishing`
_late = False  # whether one waits


def handle() -> None:
    """Make Ctrl-C and SIGTERM end ``diptych`` and ``python -m diptych`` at once, except inside :class:`listening`.

    Nothing is changed if another program imports the package, for ignored signals, and in processes of a pool.
    """
    if is_command(PACKAGE) and not _is_child():
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is default:
                signal.signal(number, _on_signal)


def status() -> int:
    """The exit status of a command that a KeyboardInterrupt has ended."""
    return 143 if _terminated else 130


def word() -> str:
    """The line of a command that a KeyboardInterrupt has ended."""
    return "terminated" if _terminated else "interrupted"


def leave() -> None:
    """Ignore the signals from now on: all output is written, and Python would end by them without a status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, signal.SIG_IGN)


class listening:
    """A context in which Ctrl-C and SIGTERM raise KeyboardInterrupt.

    While a kernel compiles, it is raised when the compiler's current pass ends (:func:`_after_this_pass`). If a
    callback of C code loses the KeyboardInterrupt, it is raised again. It also replaces other errors that follow, those
    of finalizers too: an object that was interrupted while it closed cannot close again.
    """

    def __enter__(self) -> None:
        global _interrupted, _late, _listens, _terminated
        self.before, self.hook = _listens, sys.unraisablehook
        self.timers: list[Timer] = []
        _interrupted = _late = _terminated = False
        _listens, sys.unraisablehook = True, self._once_more

    def _once_more(self, lost: sys.UnraisableHookArgs) -> None:
        global _interrupted
        if issubclass(lost.exc_type, KeyboardInterrupt):
            import _thread
            import threading

            _interrupted = True
            self.timers.append(threading.Timer(AGAIN_SECONDS, _thread.interrupt_main))
            self.timers[-1].start()
        elif not _interrupted:
            self.hook(lost)

    def __exit__(self, kind: type | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        global _interrupted, _listens
        try:
            if isinstance(problem, KeyboardInterrupt):
                import traceback

                _interrupted = True
                traceback.clear_frames(trace)  # finalizers run now, while `_once_more` hears them
            elif _interrupted and isinstance(problem, Exception) and not isinstance(problem, (OSError, ValueError)):
                raise KeyboardInterrupt from problem
        finally:
            for timer in self.timers:
                timer.cancel()
            _listens, sys.unraisablehook = self.before, self.hook
            # If the last exec of a string was interrupted, CPython ends with the signal instead of the exit status.
            # numba uses such an exec.
            exec("pass")


class finishing:
    """A context that Ctrl-C and SIGTERM do not cut short, such as one that saves a model. They come at its end."""

    def __enter__(self) -> None:
        global _finishes
        _finishes = True

    def __exit__(self, kind: type | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        global _finishes, _late
        _finishes, late, _late = False, _late, False
        if late and kind is None:
            raise KeyboardInterrupt


def _is_child() -> bool:
    """Whether multiprocessing has started this process. It is not imported for the answer."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _interrupted, _late, _terminated
    if number == signal.SIGTERM and _terminated:
        return  # timeout(1) sends it to the process and to its group
    _terminated = _terminated or number == signal.SIGTERM
    if _listens and _finishes:
        _late = True
    elif _listens:
        _interrupted = True
        if not _compiles():
            raise KeyboardInterrupt
        if not _waits:
            _after_this_pass()
    else:
        os.write(2, f"{word()}\n".encode())
        os._exit(status())


def _compiles() -> bool:
    """Whether numba compiles or loads a kernel in this thread. numba is not imported for the answer."""
    lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    return lock is not None and lock.is_locked()


def _after_this_pass() -> None:
    """Raise KeyboardInterrupt in this thread when numba next starts or ends a pass, or ends compiling.

    An interrupt within a pass may leave an object of LLVM half made or half freed. Python may then end with a
    segmentation fault.
    """
    global _waits
    import threading

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
