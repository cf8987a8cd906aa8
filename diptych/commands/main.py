"""The command ``diptych`` in one direction: words, one typed command, its run, its report. ``grid`` runs other commands
over a grid of options, such as --lam and --fold; it keeps their reports in a file as they come.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from diptych import collector
from diptych.commands import align, localize, others, parse, segment, sequences, tag
from diptych.commands.executors import EXECUTOR, Workers, add_executor, executor_of
from diptych.commands.options import Command, Parser, add_command, argument, command_of, declared, flag, option
from diptych.commands.output import Failed, Report, error_text, performed, print_report, status_of, table, unwritten
from diptych.distributed import Runs
from diptych.files.logs import jsonable
from diptych.interrupts import leave, listening, status, word
from diptych.panels import panel_of
from diptych.pictures import plots
from reference import __version__
from reference.training.result import UNCERTIFIED
from reference.training.run import Lost

ONE_VALUE = ("reproduce", "grid")  # commands that print no single report
FILES = ("save", "out", "log", "checkpoint", "plot")  # options that name a file to write
OBJECTIVE = "objective"  # the only score of which the lowest is the best


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    The status is 0 for success, 2 for arguments or data that are wrong, 1 for what fails later, 130 after Ctrl-C, 143
    after SIGTERM and 141 if the reader of a pipe has closed it (as ``| head`` does). If training is interrupted after
    its first epoch, the best weights so far are saved and reported.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parser().parse_args([*words[1:], "--help"] if words[:1] == ["help"] else words)
        with unwritten(options.name) as lines, listening():
            command, report = report_of(options)
            print_report(command, report)
            if report.problem is not None:
                raise report.problem
        return status() if report.fields.get("interrupted") else int(bool(lines))
    except BrokenPipeError:
        _drop_output()
        return 141
    except (ValueError, OSError, ImportError, Lost) as problem:
        print(f"diptych {options.name}: {error_text(problem)}", file=sys.stderr)
        _drop_output()
        return status_of(problem)
    except MemoryError as problem:
        print(f"diptych {options.name}: not enough memory: {problem}", file=sys.stderr)
        return 2 if getattr(options, "memory", None) is not None else 1
    except KeyboardInterrupt:
        print(word(), file=sys.stderr)
        return status()
    finally:
        leave()


def _drop_output() -> None:
    """Empty the output buffer, so that the flush at exit does not fail on a closed pipe or a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cache
def parser() -> Parser:
    """The parser of ``diptych`` with all commands."""
    main_parser = Parser(prog="diptych", description="Train, evaluate and compare structured predictors.")
    main_parser.page = "commands"
    version = f"diptych {__version__}"
    main_parser.option("general", "--version", action="version", version=version, help="show the version")
    main_parser.option("general", "--print-completion", action=_Completion, metavar="SHELL",
        help="show a script that completes commands and options, for bash, zsh or tcsh")  # fmt: skip
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for each in COMMANDS:
        add_command(commands, each)
    return main_parser


def report_of(options: argparse.Namespace) -> tuple[Command, Report]:
    """What was parsed, as the command that it is, and its report."""
    if options.kind.no_panel and "panel" in options:
        raise ValueError(f"--panel {options.panel}: {options.kind.no_panel}")
    command, panel = command_of(options), panel_of(getattr(options, "panel", "accelerated"))
    collector.resume()
    return command, performed(panel, command)


class _Completion(argparse.Action):
    """Print shtab's completion script for the parser."""

    def __call__(self, parser: Any, namespace: Any, shell: Any, option: str | None = None) -> None:
        try:
            import shtab
        except ImportError:
            parser.error("--print-completion needs shtab: pip install 'diptych[completion]'")
        if shell not in shtab.SUPPORTED_SHELLS:
            parser.error(f"--print-completion: expected one of {', '.join(shtab.SUPPORTED_SHELLS)}, got {shell!r:.80}")
        _complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, shell))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Complete free-text arguments by file names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_files(sub, files)
        elif action.nargs != 0 and action.choices is None and action.type is None:
            setattr(action, "complete", files)  # noqa: B010 shtab reads this attribute


# grid -----------------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A run: its command without what varies, and the values of what varies, by name."""

    command: tuple[str, ...]
    values: dict[str, str]

    @property
    def words(self) -> list[str]:
        """The whole command."""
        return [*self.command, *(word for name, value in self.values.items() for word in (f"--{name}", value))]


def _varied(text: str) -> tuple[str, tuple[str, ...]]:
    """The name and the values of an option NAME=A,B."""
    name, equals, values = text.partition("=")
    name, several = name.removeprefix("--"), tuple(values.split(";" if ";" in values else ","))
    if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", name) or not all(several):
        raise argparse.ArgumentTypeError(f"expected NAME=A,B,..., got {text:.80}")
    if len(set(several)) < len(several):
        raise argparse.ArgumentTypeError(f"expected different values, got {text:.80}")
    return name, several


class Grid(Workers, Command):
    """Train once for each combination of options' values.

    Run a training command for each combination of values of the options that --vary names, and compare the reports:
    diptych grid --kept lam.jsonl --vary lam=1e-4,1e-3 --vary fold=0,1,2 --mean fold train letters. {lam} in a word
    of the command stands for the value, as in --save model-{lam}.npz.
    """

    workers: int | None = declared(partial(add_executor, what="perform runs"))
    vary: Sequence[tuple[str, tuple[str, ...]]] = option("model",
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

    writes: ClassVar[tuple[str, ...]] = ("kept",)

    def run(self, panel: ModuleType) -> Report:
        cells = self._cells(panel)
        with executor_of(self) as executor:
            runs = Runs(_report, self.kept, executor, key=Cell._asdict, describe=None if self.quiet else _described,
                failed=lambda report: "error" in report)  # fmt: skip
            done = sum(map(runs.is_kept, cells))
            if done and not self.quiet:
                print(f"{done} of {len(cells)} runs are in {self.kept}", file=sys.stderr)
            reports = runs.perform(cells)
        rows = [{"values": cell.values, "scores": _scores(report),
                 **{name: report.get(name) for name in ("error", "certificate", "success", "message")}}
                for cell, report in zip(cells, reports, strict=True)]  # fmt: skip
        scores = list(dict.fromkeys(name for row in rows for name in row["scores"]))
        failed = [row for row in rows if row["error"] is not None]
        if self.by is not None and self.by not in scores and len(failed) < len(rows):
            raise ValueError(f"--by: expected one of {', '.join(scores)}, got {self.by}")
        means = _means(rows, [name for name, _ in self.vary if name not in (self.mean or ())], scores)
        if self.by is not None:
            sign = 1 if self.by == OBJECTIVE else -1
            means.sort(key=lambda row: sign * row["mean"].get(self.by, sign * math.inf))
        report: dict[str, Any] = {"vary": dict(self.vary), "kept": str(self.kept)}
        report |= {"words": [self.action, *self.arguments], "runs": rows, "means": means}
        lines = _table(means, scores, bool(self.mean))
        not_certified = [row for row in rows if row["success"] is True and UNCERTIFIED in str(row["message"])]
        not_converged = [row for row in rows if row["success"] is False]
        for of, what in ((not_converged, "have not converged"), (not_certified, "are not certified")):
            if of:
                lines.append(f"{len(of)} of {len(rows)} runs {what}; {_named(of[0]['values'])}: {of[0]['message']}")
        problem: Exception | None = None
        if failed:
            first = {row["error"]: row["values"] for row in reversed(failed)}  # of each error
            errors = (f"{_named(values)}: {error}" for error, values in reversed(first.items()))
            kind = ValueError if all(each.get("status") == 2 for each in reports if "error" in each) else Failed
            problem = kind("; ".join([f"{len(failed)} of {len(rows)} runs failed", *errors]))
        elif lost := [line for each in reports for line in each.get("unwritten", [])]:
            problem = Failed(f"{len(lost)} files of the runs are not written; {lost[0]}")
        picture = partial(self._draw, means=means, scores=scores) if len(failed) < len(rows) else None
        return Report(report, lines, picture, problem=problem)

    def _cells(self, panel: ModuleType) -> list[Cell]:
        """The run of each combination of values; the last option varies first. ValueError for a command without a
        report, and for a file that two runs would write.
        """
        names = [name for name, _ in self.vary]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"--vary: expected each option once, got {name} twice")
        for name in self.mean or ():
            if name not in names:
                raise ValueError(f"--mean: expected one of {', '.join(names)}, which vary, got {name}")
        if self.action in ONE_VALUE:
            raise ValueError(f"COMMAND: expected one that trains, such as train or tag train, got {self.action}")
        commands, written, cells = parser(), set[tuple[str, str]](), list[Cell]()
        for several in itertools.product(*(values for _, values in self.vary)):
            values, words = dict(zip(names, several, strict=True)), [self.action, *self.arguments]
            for name, value in values.items():
                words = [word.replace(f"{{{name}}}", value) for word in words]
            cells.append(Cell(("--panel", panel.__name__, *words), values))
            parsed = commands.parse_args(cells[-1].words)
            for name in FILES:
                path = getattr(parsed, name, None)
                if path is not None and (name, path) in written:
                    hint = re.sub(r"(\.\w+)?$", rf"-{{{self.vary[0][0]}}}\1", path, count=1)
                    raise ValueError(f"--{name} {path}: two runs would write it; name what varies, such as {hint}")
                if path is not None:
                    written.add((name, path))
            if any(getattr(self, name) and getattr(parsed, name, None) for name in EXECUTOR[:2]):
                raise ValueError("--workers: expected before COMMAND or after it, got both")
        return cells

    def _draw(self, path: str, means: list[dict[str, Any]], scores: list[str]) -> None:
        names = list(means[0]["values"])
        if not scores or not names:
            raise ValueError("--plot: expected a score and an option that varies and is not averaged, got none")
        score = self.by or next((each for each in scores if each != OBJECTIVE), scores[0])
        values, curves = dict(self.vary)[names[0]], dict[str, list[Any]]()
        for row in means:
            rest = {name: value for name, value in row["values"].items() if name != names[0]}
            point = (row["values"][names[0]], row["mean"].get(score), row["deviation"].get(score))
            curves.setdefault(_named(rest), []).append(point)
        for points in curves.values():
            points.sort(key=lambda point: values.index(point[0]))
        plots.grid(path, curves, names[0], score)


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
    """For each combination of the values of ``names``: means, deviations and number of the runs that have the score."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row["values"][name] for name in names), []).append(row)
    means = []
    for values, several in groups.items():
        every = {score: [row["scores"][score] for row in several if score in row["scores"]] for score in scores}
        mean = {score: float(np.mean(numbers)) for score, numbers in every.items() if numbers}
        deviation = {score: float(np.std(numbers, ddof=1)) for score, numbers in every.items() if len(numbers) > 1}
        done = sum(row["error"] is None for row in several)
        entry = {"values": dict(zip(names, values, strict=True)), "runs": done, "failed": len(several) - done}
        means.append({**entry, "mean": mean, "deviation": deviation})
    return means


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
    return [line.rstrip() for line in table(rows, str.ljust)]


def _described(cell: Cell, report: dict[str, Any]) -> str:
    scores = ", ".join(f"{name} {value:.6g}" for name, value in _scores(report).items())
    return f"{_named(cell.values)}: {report.get('error', scores)}"


def _named(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


COMMANDS = (*sequences.COMMANDS, tag.TASK, parse.TASK, segment.TASK, align.TASK, localize.TASK, others.Curves, Grid,
            others.Reproduce, others.Check, others.Warm)  # fmt: skip
