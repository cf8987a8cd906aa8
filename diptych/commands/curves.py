"""``curves``: the objective of several runs against oracle calls, seconds or epochs, from their logs."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from diptych.commands.jobs import OPTIONS as REGULARIZED
from diptych.commands.options import Command, argument, flag, option
from diptych.commands.output import Report
from diptych.files.logs import Log, load_log
from diptych.pictures import plots

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
        if self.plot:
            plots.runs(self.plot, runs, against)
            report["plot"] = str(self.plot)
            lines.append(f"plot {self.plot}")
        return Report(report, lines)


def curves(logs: dict[str, Log]) -> tuple[float | None, list[dict[str, Any]]]:
    """The lower bound (the highest dual of all runs), and for each run its name, epochs, calls, seconds, objectives and
    distances from the bound. ValueError for logs of different problems.

    A distance is (objective - bound) / |bound|. The bound is None if no run has a dual, or if an objective lies below
    it: then some runs minimise a smoothed objective, or the runs solve different problems with equal logs.
    """
    _check_one_problem(logs)
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


def _check_one_problem(logs: dict[str, Log]) -> None:
    """Raise ValueError if a field of the problem is in two logs with different values."""
    (first, one), *others = logs.items()
    expected = _problem(one)
    for path, log in others:
        problem = _problem(log)
        both = [name for name in expected if name in problem]
        differs = [name for name in both if not _same(name, expected[name], problem[name])]
        if differs:
            each = ", ".join(f"{name} {expected[name]} and {problem[name]}" for name in differs)
            raise ValueError(f"{first} and {path} are logs of different problems: {each}")


def _problem(log: Log) -> dict[str, Any]:
    fields = {**log.job, **log.job.get("job", {})}
    if fields.get("regularizer") == "l2":  # the regularizer of all optimisers without a --regularizer
        fields["regularizer"] = None
    return {name: fields[name] for name in PROBLEM if name in fields}


def _same(name: str, a: Any, b: Any) -> bool:
    """Whether two values are equal; files are compared by absolute path."""
    if name in FILES and isinstance(a, str) and isinstance(b, str):
        return os.path.abspath(a) == os.path.abspath(b)
    return bool(a == b)
