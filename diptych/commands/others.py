"""The commands that train nothing: ``curves`` draws what training logs say, ``reproduce`` runs the papers' experiments,
each with its own command, ``check`` looks at this installation, ``warm`` compiles the kernels of everyday work.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from tqdm import tqdm

import diptych
from diptych.check import checks
from diptych.commands.jobs import OPTIONS as REGULARIZED
from diptych.commands.options import Command, argument, did_you_mean, flag, option, positive
from diptych.commands.output import Report, say
from diptych.experiments.registry import EXPERIMENTS
from diptych.files.logs import Log, load_log
from diptych.pictures import plots
from diptych.warm import FIRST_CALLS, kept_from, saved_for_level, warm

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
AXES = {"calls": "oracle_calls", "seconds": "seconds", "epochs": "epoch"}
FILES = ("data", "file", "treebank", "pairs", "pictures")
EXAMPLES = ("sequences", "sentences", "examples")  # their number
SETTINGS = ("class", "model", "fold", "loss", "lam", "start_stop", "regularizer", *REGULARIZED)
PROBLEM = ("command", *FILES, *EXAMPLES, *SETTINGS)  # the fields of a log that describe its problem
ROUNDING = 1e-9  # an objective may lie below its lower bound by this share of the bound


class Curves(Command):
    """Draw the objectives of several runs from the logs that train --log writes.

    Draw the objectives of several runs from the logs that train --log writes: as distances to the highest dual of
    them all, where there is one, on a logarithmic axis. The logs are of one problem.
    """

    opens: ClassVar[bool] = False
    logs: list[str] = argument("files of lines of JSON, one a run", nargs="+", metavar="LOG")
    against: list[str] | None = option("output", "repeatable (default: calls and seconds)", action="append",
        choices=list(AXES))  # fmt: skip
    plot: str | None = flag()

    def run(self, panel: ModuleType) -> Report:
        logs = {str(path): load_log(path) for path in self.logs}
        empty = next((path for path in logs if not logs[path].rows), None)
        if empty is not None:
            of_path = logs[empty].job.get("job", {}).get("path")
            why = "of a path of sparse CRFs, which train --plot draws" if of_path else "no epoch is done yet"
            raise ValueError(f"{empty}: {why}")
        bound, runs = curves(logs)
        against = list(dict.fromkeys(self.against or ("calls", "seconds")))
        report = {"command": "curves", "bound": bound, "against": against, "runs": runs}
        width = max(len(run["name"]) for run in runs)
        lines = [f"{'':{width}} {'epochs':>7} {'calls':>10} {'seconds':>9} {'objective':>14} {'above bound':>12}"]
        for run in runs:
            above = "-" if bound is None else f"{run['distance'][-1]:.3g}"
            ends = f"{run['epochs'][-1]:7} {run['calls'][-1]:10} {run['seconds'][-1]:9.2f} {run['objective'][-1]:14.6f}"
            lines.append(f"{run['name']:{width}} {ends} {above:>12}")
        return Report(report, lines, partial(plots.runs, records=runs, against=against))


def curves(logs: dict[str, Log]) -> tuple[float | None, list[dict[str, Any]]]:
    """The lower bound (the highest dual of all runs), and for each run its name, epochs, calls, seconds, objectives and
    distances from the bound. ValueError for logs of different problems.

    A distance is (objective - bound) / |bound|. The bound is None if no run has a dual, or if an objective lies below
    it: then some runs minimise a smoothed objective, or the runs solve different problems with equal logs.
    """
    (first, one), *more = ((path, _problem(log)) for path, log in logs.items())
    for path, other in more:
        both = [name for name in one if name in other]
        if differs := [name for name in both if _compared(name, one) != _compared(name, other)]:
            each = ", ".join(f"{name} {one[name]} and {other[name]}" for name in differs)
            raise ValueError(f"{first} and {path} are logs of different problems: {each}")
    rows = [row for log in logs.values() for row in log.rows]
    bound = max((row.dual for row in rows if row.dual is not None), default=None)
    if bound is not None and (bound == 0 or any(row.objective < bound - ROUNDING * abs(bound) for row in rows)):
        bound = None
    runs = []
    stems = [Path(path).stem for path in logs]
    names = stems if len(set(stems)) == len(stems) else list(logs)
    for name, (path, log) in zip(names, logs.items(), strict=True):
        run: dict[str, Any] = {"name": name, "log": path, "job": log.job, "outcome": log.outcome}
        run |= {axis: [getattr(row, field) for row in log.rows] for axis, field in AXES.items()}
        run["objective"] = [row.objective for row in log.rows]
        run["distance"] = None if bound is None else [(value - bound) / abs(bound) for value in run["objective"]]
        runs.append(run)
    return bound, runs


def _problem(log: Log) -> dict[str, Any]:
    fields = {**log.job, **log.job.get("job", {})}
    if fields.get("regularizer") == "l2":  # the regularizer of all optimisers without a --regularizer
        fields["regularizer"] = None
    return {name: fields[name] for name in PROBLEM if name in fields}


def _compared(name: str, problem: dict[str, Any]) -> Any:
    """A field of a problem as it is compared: files by absolute path."""
    value = problem[name]
    return os.path.abspath(value) if name in FILES and isinstance(value, str) else value


class Reproduce(Command):
    """Run an experiment of a paper.

    Run an experiment of a paper. 'reproduce NAME --help' shows its options; no data are fetched.
    """

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = ""
    list: bool = option("output", "list the experiments with paper, data and, if known, time", action="store_true")
    experiment: str | None = argument("see --list", metavar="NAME", nargs="?")
    arguments: Sequence[str] = argument("data and options of the experiment", metavar="...", nargs=argparse.REMAINDER)

    def run(self, panel: ModuleType) -> Report:
        if panel.__name__ != "accelerated":
            raise ValueError(f"--panel {panel.__name__}: experiments run in the accelerated panel")
        if self.list:
            lines, width = list[str](), max(map(len, EXPERIMENTS))
            for known, each in EXPERIMENTS.items():
                source = f"{each.paper}, {each.where}: " if each.paper else ""
                time = f"; time: {each.time}" if each.time else ""
                lines += [f"{known:{width}}  {source}{each.shows}", f"{'':{width}}  data: {each.data}{time}"]
            return Report({"experiments": [{"name": k, **v._asdict()} for k, v in EXPERIMENTS.items()]}, lines)
        name = self.experiment
        if name not in EXPERIMENTS:
            problem = "no name" if name is None else f"{name!r:.80}{did_you_mean(name, EXPERIMENTS)}"
            raise ValueError(f"NAME: expected one of {', '.join(EXPERIMENTS)}, got {problem}")
        shared = [f"--{each}" for each in ("json", "quiet") if getattr(self, each)]  # those that stand before the name
        sys.exit(_in_one_thread(name, [*shared, *self.arguments]))


def _in_one_thread(name: str, arguments: list[str]) -> int:
    """Run an experiment in a process whose BLAS has one thread, as it reads the number when NumPy loads it; return its
    exit status. Ctrl-C reaches both processes, and SIGTERM is sent on; the experiment reports them.
    """
    folders = [str(Path(diptych.__file__).parent.parent), os.environ.get("PYTHONPATH")]
    variables = dict.fromkeys(ONE_THREAD, "1") | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [sys.executable, "-P", "-m", "diptych.experiments", name, *arguments]
    with subprocess.Popen(command, env=dict(os.environ, **variables)) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        then = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, then)


class Check(Command):
    """Does this installation work? versions, kernel cache, laws and small trainings.

    Look at this installation: versions, folders of the packages, threads, the kernel cache, a law of each structure
    and a small training of each loss, in both panels. The exit status is 1 where something failed.
    """

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = "check runs both panels"

    def run(self, panel: ModuleType) -> Report:
        started, lines = time.perf_counter(), []
        for line in checks():
            lines.append(line)
            if not self.json:
                error = "" if line.error is None else f" (to {line.error:.0e})"
                say(f"{line.group:9} {line.name:26} {line.status:15} {line.detail}{error}")
            if line.status == "cold":
                print("compiling kernels, once for this version of diptych (a minute or more) ...", file=sys.stderr)
        failed, seconds = [line.name for line in lines if line.status == "FAILED"], time.perf_counter() - started
        verdict = f"FAILED: {', '.join(failed)}" if failed else "everything works"
        report: dict[str, Any] = {"command": "check", "status": "FAILED" if failed else "ok", "failed": failed}
        report |= {"seconds": seconds, "checks": [line._asdict() for line in lines]}
        return Report(report, [f"{verdict} ({seconds:.1f} s)"], problem=SystemExit(1) if failed else None)


class Warm(Command):
    """Compile the kernels of everyday work now, in several processes.

    Compile the kernels of the structures and of the usual trainings, which their first use would compile, in
    several processes. The kernels are kept for this version of diptych on this kind of processor. --to FILE writes
    them to a file for the processors of a site, of the level x86-64-v3 (AVX2), and --from FILE keeps those of a file:
    same versions of diptych, numba and Python. A file is run like a program: take it from where you take programs.
    """

    opens: ClassVar[bool] = False
    writes: ClassVar[tuple[str, ...]] = ("to",)
    processes: int = option("general", "processes that compile (default: one a core)", type=positive,
        default=os.cpu_count())  # fmt: skip
    to: str | None = option("general", "compile into a file, for other machines; add what it lacks", metavar="FILE")
    source: str | None = option("general", "keep the kernels of such a file", "--from", metavar="FILE")

    def run(self, panel: ModuleType) -> Report:
        from accelerated.kernel import cache_folder

        started, folder = time.perf_counter(), cache_folder()
        if self.to is not None and self.source is not None:
            raise ValueError("--to writes a file and --from reads one: expected one of them")
        if self.to is None and folder is None:
            raise OSError("no folder for compiled kernels can be written; NUMBA_CACHE_DIR names another")
        if self.source is not None:
            assert folder is not None
            kept = len(kept_from(self.source, folder))
            report = {"command": "warm", "from": self.source, "kept": kept, "folder": str(folder)}
            return Report(report, [f"{kept} kernels of {self.source} kept in {folder}"])
        with nullcontext() if self.to is None else saved_for_level(self.to):
            done = dict(tqdm(warm(self.processes), total=len(FIRST_CALLS), disable=None, unit="call"))
        seconds, compiled = time.perf_counter() - started, len(set().union(*done.values()))
        where = {"folder": str(folder)} if self.to is None else {"to": self.to, "bytes": os.path.getsize(self.to)}
        report = {"command": "warm", "calls": list(done), "compiled": compiled, "seconds": seconds, **where}
        return Report(report, [f"{compiled} kernels compiled in {seconds:.1f} s, in {self.to or folder}"])
