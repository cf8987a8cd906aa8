"""What the commands share: progress, output files, reports as text or JSON."""

from __future__ import annotations

import argparse
import errno
import json
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from diptych.certificates import SCALE
from diptych.defaults import LBFGS_ITERATIONS
from diptych.files.logs import LogWriter, jsonable
from diptych.files.models import save_model
from diptych.interrupts import finishing
from diptych.pictures import plots
from reference.files import NotWritten, save_bytes
from reference.training.result import UNCERTIFIED, Result, Row
from reference.training.run import Lost

__all__ = [
    "Failed",
    "Progress",
    "announce_compilation",
    "ending",
    "error_text",
    "finish",
    "opening",
    "outcome",
    "print_report",
    "say",
    "status_of",
    "trained",
    "unwritten",
    "watched",
    "writable",
]

EVERY = 1.0  # seconds between two looks at the workers
LATER = [getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE", "ESTALE")]


class Failed(ValueError):
    """What fails when the arguments and the data were right."""


def status_of(problem: Exception) -> int:
    """The exit status of a command that ends with this error: 2 for arguments or data that are wrong, else 1."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return 1 if problem.errno in LATER else 2
    return 1 if isinstance(problem, (Failed, Lost, MemoryError)) else 2


@contextmanager
def unwritten(name: str) -> Iterator[list[str]]:
    """A list of the warnings of this context about files that cannot be written. Each is a line on stderr."""
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotWritten)
        show = warnings.showwarning

        def shown(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if issubclass(category, NotWritten):
                lines.append(str(message))
                print(f"diptych {name}: {message}", file=sys.stderr)
            else:
                show(message, category, *where, **more)

        warnings.showwarning = shown
        yield lines


class Progress:
    """The callback of a run: shows a tqdm bar if stderr is a terminal, else nothing. shown: what else the bar shows."""

    def __init__(self, epochs: int | None, quiet: bool, what: str = "train") -> None:
        self.bar, self.shown = None, dict[str, Any]()
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=epochs, desc=what, unit="epoch", leave=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, row: Row, w: Any) -> None:
        if self.bar is not None:
            self.bar.update(row.epoch - self.bar.n)
            self.bar.set_postfix({"objective": f"{row.objective:.4f}", **self.shown})


def watched(
    panel: ModuleType,
    options: argparse.Namespace,
    job: dict[str, Any],
    epochs: int | None,
    run: Callable[..., Result],
    more: Callable[[int], dict[str, Any]] | None = None,
    save: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Train with a progress bar and, if the options name one, a log; save the model.

    job: the fields of the log's first line, besides the command and the panel. more: what else the bar shows, by name,
    from the number of epochs; it is asked once a second at most. Workers that it counts as lost are a line on stderr
    and in the log. KeyboardInterrupt if training is interrupted before its first evaluation; Failed if the objective is
    not finite.
    """
    looked, lost = -math.inf, 0
    with (
        Progress(epochs, options.quiet) as bar,
        LogWriter(options.log, opening(panel, options, **job), more=options.resume is not None) as log,
    ):

        def callback(row: Row, w: Any) -> None:
            log(row, w)
            if time.monotonic() >= looked + EVERY:
                look(row.epoch)
            bar(row, w)

        def look(epoch: int) -> None:
            nonlocal looked, lost
            looked, bar.shown = time.monotonic(), {} if more is None else more(epoch)
            before, lost, again = lost, bar.shown.get("lost", 0), bar.shown.get("repeated")
            if lost > before:
                what = f"workers lost so far: {lost}; tasks that ran again: {again}"
                print(f"diptych {options.name}: {what}", file=sys.stderr)
                log.write({"workers_lost": lost, "tasks_repeated": again})

        result = run(callback=callback)
        with finishing():
            look(len(result.history))
            log.ended(result)
            if result.interrupted and not result.history:
                raise KeyboardInterrupt
            if not math.isfinite(result.fun):
                raise Failed(result.message)
            save(result)
    return result


def writable(*paths: str | None) -> None:
    """Reject paths that cannot be written, before a long run starts. The last path is that of a figure."""
    for path in paths:
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise ValueError(f"{path}: no such folder: {Path(path).absolute().parent}")
        if path is not None and Path(path).is_dir():
            raise ValueError(f"{path}: is a folder")
        if path is not None and not os.access(path if Path(path).exists() else Path(path).absolute().parent, os.W_OK):
            raise ValueError(f"{path}: no permission")
    if paths and paths[-1] is not None:
        plots.writable_figure(paths[-1])


class _FirstCompiled(logging.Handler):
    """Prints a line when the first kernel is compiled."""

    def emit(self, record: logging.LogRecord) -> None:
        KERNELS.removeHandler(self)
        print(COMPILING, file=sys.stderr)


KERNELS = logging.getLogger("accelerated.kernel")
COMPILING = "compiling kernels, once for this version of diptych (up to a minute, which counts in the seconds) ..."


def announce_compilation(panel: ModuleType, quiet: bool = False) -> None:
    """Print on stderr that kernels will be compiled: now if the panel has no compiled kernel, else when the first one
    is compiled.
    """
    cold = getattr(panel, "kernels_are_cold", None)
    if quiet or cold is None:
        return
    if cold():
        print(COMPILING, file=sys.stderr)
    elif not any(isinstance(handler, _FirstCompiled) for handler in KERNELS.handlers):
        KERNELS.setLevel(logging.INFO)
        KERNELS.addHandler(_FirstCompiled())


def error_text(problem: Exception) -> str:
    """What a command prints of an error: one of a file in the words of all others."""
    if not isinstance(problem, OSError) or problem.filename is None:
        return str(problem)
    kinds = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder", PermissionError: "no permission"}
    return f"{problem.filename}: {kinds.get(type(problem), str(problem.strerror).lower())}"


def opening(panel: ModuleType, options: argparse.Namespace, **what: Any) -> dict[str, Any]:
    """The first fields of every report: the command, the panel and the subject."""
    return {"command": options.name, "panel": panel.__name__, "version": panel.__version__, **what}


def outcome(result: Result) -> dict[str, Any]:
    """The fields that every training report has."""
    return {
        "objective": result.fun,
        "certificate": result.certificate,
        "success": result.success,
        "interrupted": result.interrupted,
        "message": result.message,
        "oracle_calls": result.oracle_calls,
        "history": [row.as_dict() for row in result.history],
    }


def ending(report: dict[str, Any]) -> list[str]:
    """The line of a report whose training has not converged, or is not certified, or had features to scale; or none."""
    if not report["success"]:
        return [f"not converged: {report['message']}"]
    return [report["message"]] if UNCERTIFIED in report["message"] or SCALE in report["message"] else []


def trained(
    panel: ModuleType,
    options: argparse.Namespace,
    what: dict[str, Any],
    epochs: int,
    run: Callable[..., Any],
    model: Any,
    info: dict[str, Any],
    more: Callable[[int], dict[str, Any]] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Train with a bar and a log and save the model with ``info``. Return the result and the start of the report."""
    to_convergence = options.epochs is None and epochs == LBFGS_ITERATIONS

    def save(result: Result) -> None:
        if options.save:
            save_model(options.save, model, result.x, info)

    result = watched(panel, options, what, None if to_convergence else epochs, run, more, save)
    return result, opening(panel, options, **what) | outcome(result)


def finish(
    options: argparse.Namespace,
    report: dict[str, Any],
    lines: list[str],
    curves: dict[str, Sequence[Row]] | None = None,
    title: str = "",
) -> bool:
    """End a training command: draw its curves, name the written files and print the report.

    Return whether training was interrupted.
    """
    if options.plot and curves is not None:
        plots.convergence(options.plot, curves, title)
    report |= {what: str(file) for what, file in (("saved", options.save), ("plot", options.plot)) if file}
    lines += [] if curves is None else ending(report)
    if report["interrupted"] and options.checkpoint is not None and Path(options.checkpoint).exists():
        lines.append(f"go on with the same options and --resume {options.checkpoint}")
    print_report(options, report, lines + [f"{what} {report[what]}" for what in ("saved", "plot") if what in report])
    return bool(report["interrupted"])


def print_report(options: argparse.Namespace, report: dict[str, Any], lines: list[str], out: str | None = None) -> None:
    """Print the report: one JSON object with ``--json``, else the lines. out: write to this file instead.

    If the options have a function ``reported``, it gets the report, and nothing is printed.
    """
    if options.reported is not None:
        options.reported(jsonable(report))
        return
    text = json.dumps(jsonable(report), allow_nan=False) if options.json else "\n".join(lines)
    if out is None:
        say(text)
    else:
        save_bytes(out, f"{text}\n".encode())


def say(text: str, end: str = "\n") -> None:
    """Print and flush. An OSError, such as that of a full disk, names the standard output."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, "standard output") from None
