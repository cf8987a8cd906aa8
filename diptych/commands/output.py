"""What the runs of commands share: progress, output files, reports as text or JSON."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tqdm import tqdm

from diptych.certificates import SCALE
from diptych.commands.options import Command, Saved, Training
from diptych.defaults import LBFGS_ITERATIONS
from diptych.distributed import Partitioned
from diptych.files.logs import LogWriter, jsonable
from diptych.files.models import save_model
from diptych.interrupts import finishing
from diptych.pictures import plots
from reference.files import NotWritten, save_bytes
from reference.training.result import UNCERTIFIED, Result, Row
from reference.training.run import Lost

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


class Progress(AbstractContextManager["Progress"]):
    """The callback of a run: shows a tqdm bar if stderr is a terminal, else nothing. shown: what else the bar shows."""

    def __init__(self, epochs: int | None, quiet: bool, what: str = "train") -> None:
        self.shown = dict[str, Any]()
        self.bar = tqdm(total=epochs, desc=what, unit="epoch", leave=False, disable=quiet or None)

    def __exit__(self, *_: Any) -> None:
        self.bar.close()

    def __call__(self, row: Row, w: Any) -> None:
        self.bar.update(row.epoch - self.bar.n)
        self.bar.set_postfix({"objective": f"{row.objective:.4f}", **self.shown})


def trained(
    panel: ModuleType,
    command: Any,
    what: dict[str, Any],
    epochs: int | None,
    run: Callable[..., Any],
    model: Any = None,
    info: dict[str, Any] | None = None,
    over: Partitioned | None = None,
    kept: Callable[[Any, Any], tuple[Any, Any]] = lambda model, w: (model, w),
) -> tuple[Any, dict[str, Any]]:
    """Train with a progress bar and, if the command names one, a log; save the model with ``info``. Return the result
    and the start of the report.

    what: the fields of the log's first line, besides the command and the panel. run: called with ``callback``,
    ``checkpoint`` and ``resume``. over: the objective over partitions, whose workers the bar shows; lost ones are lines
    on stderr and in the log. kept: from the model and its weights to those that are saved. KeyboardInterrupt before the
    first evaluation; Failed if the objective is not finite.
    """
    looked, lost = -math.inf, 0
    to_convergence = command.epochs is None and epochs == LBFGS_ITERATIONS
    with (
        Progress(None if to_convergence else epochs, command.quiet) as bar,
        LogWriter(command.log, opening(panel, command, **what), more=command.resume is not None) as log,
    ):

        def callback(row: Row, w: Any) -> None:
            log(row, w)
            if over is not None and time.monotonic() >= looked + EVERY:
                look(over, row.epoch)
            bar(row, w)

        def look(over: Partitioned, epoch: int) -> None:
            nonlocal looked, lost
            looked, bar.shown = time.monotonic(), moved(over, epoch)
            before, lost = lost, over.transport.lost
            if lost > before:
                told = f"workers lost so far: {lost}; tasks that ran again: {over.repeated}"
                print(f"diptych {command.name}: {told}", file=sys.stderr)
                log.write({"workers_lost": lost, "tasks_repeated": over.repeated})

        result = run(callback=callback, checkpoint=command.checkpoint, resume=command.resume)
        with finishing():
            if over is not None:
                look(over, len(result.history))
            log.ended(result)
            if result.interrupted and not result.history:
                raise KeyboardInterrupt
            if not math.isfinite(result.fun):
                raise Failed(result.message)
            if model is not None:
                partitions = {} if over is None else {"partitions": over.partitions}
                saved(command, *kept(model, result.x), {**(info or {}), **partitions})
    return result, what | outcome(result) | ({} if over is None else moved(over, len(result.history)))


def saved(command: Any, model: Any, w: Any, info: dict[str, Any]) -> None:
    """Save a model, to the end, if the command names a file."""
    if command.save:
        with finishing():
            save_model(command.save, model, w, info)


def writable(*paths: str | None) -> None:
    """Reject paths that cannot be written, before a long run starts. The last path is that of a figure."""
    for name in filter(None, paths):
        path = Path(name)
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{name}: no such folder: {path.absolute().parent}")
        if path.is_dir():
            raise ValueError(f"{name}: is a folder")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise ValueError(f"{name}: no permission")
    if paths and paths[-1] is not None:
        plots.writable_figure(paths[-1])


KERNELS = logging.getLogger("accelerated.kernel")
COMPILING = "compiling kernels, once for this version of diptych (up to a minute, which counts in the seconds) ..."


def _first_compiled(record: logging.LogRecord) -> bool:
    """Print a line when the first kernel is compiled."""
    KERNELS.removeFilter(_first_compiled)
    print(COMPILING, file=sys.stderr)
    return True


def announce_compilation(panel: ModuleType, quiet: bool = False) -> None:
    """Print that kernels will be compiled: now if the panel has no compiled kernel, else when the first one is."""
    cold = getattr(panel, "kernels_are_cold", None)
    if quiet or cold is None:
        return
    if cold():
        print(COMPILING, file=sys.stderr)
    else:
        KERNELS.setLevel(logging.INFO)
        KERNELS.addFilter(_first_compiled)


def error_text(problem: Exception) -> str:
    """What a command prints of an error: one of a file in the words of all others."""
    if not isinstance(problem, OSError) or problem.filename is None:
        return str(problem)
    kinds = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder", PermissionError: "no permission"}
    return f"{problem.filename}: {kinds.get(type(problem), str(problem.strerror).lower())}"


def opening(panel: ModuleType, command: Command, **what: Any) -> dict[str, Any]:
    """The first fields of every report: the command, the panel and the subject."""
    return {"command": command.name, "panel": panel.__name__, "version": panel.__version__, **what}


def outcome(result: Result) -> dict[str, Any]:
    """The fields that every training report has."""
    names = ("certificate", "success", "interrupted", "message", "oracle_calls")
    history = [row.as_dict() for row in result.history]
    return {"objective": result.fun, **{name: getattr(result, name) for name in names}, "history": history}


def ending(report: dict[str, Any]) -> list[str]:
    """The line of a report whose training has not converged, or is not certified, or had features to scale; or none."""
    if not report["success"]:
        return [f"not converged: {report['message']}"]
    return [report["message"]] if UNCERTIFIED in report["message"] or SCALE in report["message"] else []


def curve(panel: ModuleType, result: Result, title: str) -> Callable[[str], Any]:
    """The picture of a training."""
    return partial(plots.convergence, histories={panel.__name__: result.history}, title=title)


def whole(result: Result) -> Result:
    """The result of a run. KeyboardInterrupt if Ctrl-C interrupted the run."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def moved(objective: Partitioned, passes: int) -> dict[str, Any]:
    """What a report and the progress say of an objective over partitions."""
    return {
        "workers": objective.transport.workers,
        "partitions": len(objective.sizes),
        "lost": objective.transport.lost,
        "repeated": objective.repeated,
        "bytes_a_pass": objective.moved // max(passes, 1),
    }


def table(rows: Sequence[Sequence[str]], place: Callable[[str, int], str] = str.rjust) -> list[str]:
    """The rows as aligned lines; ``place`` puts the cells of the columns after the first into their width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(place, row[1:], widths[1:])]) for row in rows]


class Report(NamedTuple):
    """What a run has found: fields of one JSON object, and lines of text, which ``end`` ends.

    picture: draws it to a file, that of ``--plot``. single: whether it is one training, whose end and files are named.
    out, codec: the file to write to instead of printing, and the encoding of its text. problem: raised in the end.
    """

    fields: dict[str, Any]
    lines: Sequence[str]
    picture: Callable[[str], Any] | None = None
    single: bool = True
    out: str | None = None
    codec: str = "utf-8"
    end: str = "\n"
    problem: BaseException | None = None


def performed(panel: ModuleType, command: Command) -> Report:
    """The complete report of a command, whose picture is drawn."""
    writable(*command.written)
    if isinstance(command, Training):
        announce_compilation(panel, command.quiet)
    report: Report = command.run(panel)
    model = {"model": command.model} if isinstance(command, Saved) else {}
    fields = opening(panel, command, **model | report.fields) if command.opens else report.fields
    lines, files = [*report.lines], dict[str, str]()
    if isinstance(command, Training) and report.single:
        lines += ending(fields) if "history" in fields else []
        if fields["interrupted"] and command.checkpoint and Path(command.checkpoint).exists():
            lines.append(f"go on with the same options and --resume {command.checkpoint}")
        files = {"saved": command.save} if command.save else {}
    if report.picture is not None and (plot := getattr(command, "plot", None)):
        report.picture(plot)
        files["plot"] = plot
    lines += [] if hasattr(command, "out") else [f"{what} {file}" for what, file in files.items()]
    return report._replace(fields=fields | files, lines=lines)


def print_report(command: Command, report: Report) -> None:
    """Print the report, or write it to its file: one JSON object with ``--json``, else the lines."""
    as_json = [json.dumps(jsonable(report.fields), allow_nan=False)] if command.json else None
    text, end = "\n".join(as_json or report.lines), "\n" if as_json else report.end
    if report.out is None:
        say(text, end)
    else:
        save_bytes(report.out, f"{text}{end}".encode("utf-8" if as_json else report.codec))


def say(text: str, end: str = "\n") -> None:
    """Print and flush. An OSError, such as that of a full disk, names the standard output."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, "standard output") from None
