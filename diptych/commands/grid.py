"""The command ``grid``: a training command over a grid of options, such as --lam and --fold. Its runs are tasks whose
reports are kept in a file as they come.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.commands.executors import EXECUTOR, Workers, add_executor, executor_of_runs
from diptych.commands.line import parser, report_of
from diptych.commands.options import Command, add_command, argument, declared, flag, option
from diptych.commands.output import Failed, Report, status_of, unwritten
from diptych.distributed import Runs
from diptych.files.logs import jsonable
from diptych.pictures import plots
from reference.training.result import UNCERTIFIED
from reference.training.run import Lost

ONE_VALUE = ("reproduce", "grid")  # commands that print no single report
FILES = ("save", "out", "log", "checkpoint", "plot")  # options that name a file to write
OBJECTIVE = "objective"  # the only score of which the lowest is the best


class Varied(NamedTuple):
    """An option and the values that it takes."""

    name: str
    values: tuple[str, ...]


class Cell(NamedTuple):
    """A run: its command without what varies, and the values of what varies, by name."""

    command: tuple[str, ...]
    values: dict[str, str]

    @property
    def words(self) -> list[str]:
        """The whole command."""
        return [*self.command, *(word for name, value in self.values.items() for word in (f"--{name}", value))]


def _varied(text: str) -> Varied:
    """The value of an option NAME=A,B."""
    name, equals, values = text.partition("=")
    name, several = name.removeprefix("--"), tuple(values.split(";" if ";" in values else ","))
    if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", name) or not all(several):
        raise argparse.ArgumentTypeError(f"expected NAME=A,B,..., got {text:.80}")
    if len(set(several)) < len(several):
        raise argparse.ArgumentTypeError(f"expected different values, got {text:.80}")
    return Varied(name, several)


class Grid(Workers, Command):
    """Train once for each combination of options' values.

    Run a training command for each combination of values of the options that --vary names, and compare the reports:
    diptych grid --kept lam.jsonl --vary lam=1e-4,1e-3 --vary fold=0,1,2 --mean fold train letters. {lam} in a word
    of the command stands for the value, as in --save model-{lam}.npz.
    """

    workers: int | None = declared(lambda sub, *_: add_executor(sub, "perform runs"))
    vary: Sequence[Varied] = option("model",
        "an option of the command and its values (or A;B, if they have commas); repeatable", type=_varied,
        action="append", metavar="NAME=A,B", required=True)  # fmt: skip
    kept: str = option("output", "keep each report in this file as it comes; the runs in it are not repeated",
        required=True, metavar="FILE")  # fmt: skip
    mean: Sequence[str] | None = option("output",
        "show means and deviations over this option's values, such as fold; repeatable", action="append",
        metavar="NAME")  # fmt: skip
    by: str | None = option("output", "show the best first, by this number of the reports, such as test.word",
        metavar="SCORE")  # fmt: skip
    plot: str | None = flag("the score of --by, or the first, against the first option that varies")
    action: str = argument("train, tag train, parse train, ...", metavar="COMMAND")
    arguments: Sequence[str] = argument("its data and its other options", metavar="...", nargs=argparse.REMAINDER)

    @property
    def written(self) -> list[str | None]:
        return [self.kept, self.plot]


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    add_command(commands, "grid", _grid, Grid)


def _grid(panel: ModuleType, command: Grid) -> Report:
    cells = _cells(panel, command)
    _check(command, cells)
    with executor_of_runs(command) as executor:
        runs = Runs(_report, command.kept, executor,
            key=Cell._asdict, describe=_described, failed=_is_failure)  # fmt: skip
        done = sum(map(runs.is_kept, cells))
        if done and not command.quiet:
            print(f"{done} of {len(cells)} runs are in {command.kept}", file=sys.stderr)
        if command.quiet:
            runs.describe = None
        reports = runs.perform(cells)
    rows = [{"values": cell.values, "scores": _scores(report),
             **{name: report.get(name) for name in ("error", "certificate", "success", "message")}}
            for cell, report in zip(cells, reports, strict=True)]  # fmt: skip
    scores = list(dict.fromkeys(name for row in rows for name in row["scores"]))
    failed = [row for row in rows if row["error"] is not None]
    if command.by is not None and command.by not in scores and len(failed) < len(rows):
        raise ValueError(f"--by: expected one of {', '.join(scores)}, got {command.by}")
    means = _means(rows, [each.name for each in command.vary if each.name not in (command.mean or ())], scores)
    if command.by is not None:
        means.sort(key=lambda row: _rank(row, str(command.by)))
    report = dict[str, Any](vary={each.name: each.values for each in command.vary}, kept=str(command.kept))
    report |= {"words": [command.action, *command.arguments], "runs": rows, "means": means}
    lines = _table(means, scores, bool(command.mean))
    if command.plot and len(failed) < len(rows):
        _draw(command, means, scores)
        report["plot"] = str(command.plot)
        lines.append(f"plot {command.plot}")
    for success, what in ((False, "have not converged"), (True, "are not certified")):
        of = [row for row in rows if row["success"] is success and (not success or UNCERTIFIED in str(row["message"]))]
        if of:
            lines.append(f"{len(of)} of {len(rows)} runs {what}; {_named(of[0]['values'])}: {of[0]['message']}")
    problem: Exception | None = None
    if failed:
        first = {row["error"]: row["values"] for row in reversed(failed)}  # of each error
        errors = (f"{_named(values)}: {error}" for error, values in reversed(first.items()))
        wrong = all(each.get("status") == 2 for each in reports if _is_failure(each))
        problem = (ValueError if wrong else Failed)("; ".join([f"{len(failed)} of {len(rows)} runs failed", *errors]))
    elif lost := [line for each in reports for line in each.get("unwritten", [])]:
        problem = Failed(f"{len(lost)} files of the runs are not written; {lost[0]}")
    return Report(report, lines, problem=problem)


# the runs -------------------------------------------------------------------------------------------------------------


def _cells(panel: ModuleType, command: Grid) -> list[Cell]:
    """The combinations of values; the last option varies first."""
    names = [each.name for each in command.vary]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--vary: expected each option once, got {name} twice")
    for name in command.mean or ():
        if name not in names:
            raise ValueError(f"--mean: expected one of {', '.join(names)}, which vary, got {name}")
    cells = []
    for values in itertools.product(*(each.values for each in command.vary)):
        of_name = dict(zip(names, values, strict=True))
        words = (_filled(word, of_name) for word in (command.action, *command.arguments))
        cells.append(Cell(("--panel", panel.__name__, *words), of_name))
    return cells


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _check(command: Grid, cells: Sequence[Cell]) -> None:
    """Parse each run's command. ValueError for a command without a report, or for a file that two runs would write."""
    if command.action in ONE_VALUE:
        raise ValueError(f"COMMAND: expected one that trains, such as train or tag train, got {command.action}")
    commands, written = parser(), set[tuple[str, str]]()
    for cell in cells:
        parsed = commands.parse_args(cell.words)
        for name in FILES:
            path = getattr(parsed, name, None)
            if path is not None and (name, path) in written:
                hint = re.sub(r"(\.\w+)?$", rf"-{{{command.vary[0].name}}}\1", path, count=1)
                raise ValueError(f"--{name} {path}: two runs would write it; name what varies, such as {hint}")
            if path is not None:
                written.add((name, path))
        if any(getattr(command, name) and getattr(parsed, name, None) for name in EXECUTOR[:2]):
            raise ValueError("--workers: expected before COMMAND or after it, got both")


def _report(cell: Cell) -> dict[str, Any]:
    """The report of a run, or its error."""
    options = parser().parse_args([*cell.words, "--quiet"])
    try:
        with unwritten(options.name) as lines:
            fields = report_of(options)[1].fields
    except (ValueError, OSError, ImportError, MemoryError, Lost) as problem:
        return {"error": str(problem), "status": status_of(problem)}
    if fields.get("interrupted"):
        raise KeyboardInterrupt
    report: dict[str, Any] = jsonable(fields)
    return report | ({"unwritten": lines} if lines else {})


def _is_failure(report: dict[str, Any]) -> bool:
    return "error" in report


# the reports ----------------------------------------------------------------------------------------------------------


def _scores(report: dict[str, Any]) -> dict[str, float]:
    """The objective, and the shares of the test examples (or else of the training examples), by dotted names."""
    objective = {OBJECTIVE: report[OBJECTIVE]} if isinstance(report.get(OBJECTIVE), float) else {}
    part = next((part for part in ("test", "train") if report.get(part) is not None), None)
    return objective if part is None else objective | dict(_shares(part, report[part]))


def _shares(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "types":
                yield from _shares(f"{name}.{key}", inner)
    elif isinstance(value, float):
        yield name, value


def _means(rows: list[dict[str, Any]], names: list[str], scores: list[str]) -> list[dict[str, Any]]:
    """For each combination of the values of ``names``: means, standard deviations and number of the runs that have the
    score.
    """
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row["values"][name] for name in names), []).append(row)
    means = []
    for values, several in groups.items():
        mean, deviation = {}, {}
        for score in scores:
            numbers = [row["scores"][score] for row in several if score in row["scores"]]
            if numbers:
                mean[score] = float(np.mean(numbers))
            if len(numbers) > 1:
                deviation[score] = float(np.std(numbers, ddof=1))
        done = sum(row["error"] is None for row in several)
        entry = {"values": dict(zip(names, values, strict=True)), "runs": done, "failed": len(several) - done}
        means.append({**entry, "mean": mean, "deviation": deviation})
    return means


def _rank(row: dict[str, Any], score: str) -> float:
    value = float(row["mean"].get(score, math.inf))
    return -value if score != OBJECTIVE and math.isfinite(value) else value


def _table(means: list[dict[str, Any]], scores: list[str], averaged: bool) -> list[str]:
    """Lines of columns: what varies, the scores, and with means their deviations and the number of runs."""
    names = list(means[0]["values"])
    rows = [[*names, *scores, *(["runs"] if averaged else [])]]
    for row in means:
        cells = [row["values"][name] for name in names]
        for score in scores:
            deviation = f" ± {row['deviation'][score]:.2g}" if score in row["deviation"] else ""
            cells.append(f"{row['mean'][score]:.6g}{deviation}" if score in row["mean"] else "failed")
        rows.append([*cells, *([str(row["runs"])] if averaged else [])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _described(cell: Cell, report: dict[str, Any]) -> str:
    if "error" in report:
        return f"{_named(cell.values)}: {report['error']}"
    return f"{_named(cell.values)}: " + ", ".join(f"{name} {value:.6g}" for name, value in _scores(report).items())


def _named(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _draw(command: Grid, means: list[dict[str, Any]], scores: list[str]) -> None:
    names = list(means[0]["values"])
    if not scores or not names:
        raise ValueError("--plot: expected a score and an option that varies and is not averaged, got none")
    score = command.by or next((each for each in scores if each != OBJECTIVE), scores[0])
    values = next(each.values for each in command.vary if each.name == names[0])
    curves: dict[str, list[Any]] = {}
    for row in means:
        rest = {name: value for name, value in row["values"].items() if name != names[0]}
        point = (row["values"][names[0]], row["mean"].get(score), row["deviation"].get(score))
        curves.setdefault(_named(rest), []).append(point)
    for points in curves.values():
        points.sort(key=lambda point: values.index(point[0]))
    plots.grid(str(command.plot), curves, names[0], score)
