"""Shared code of the experiments: options, exit status, reports in JSON, lines on stderr."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from accelerated.threads import set_num_threads
from diptych.commands.executors import add_executor, executor_of_runs
from reference.training.result import Result
from reference.training.run import Lost

__all__ = [
    "Parser",
    "add_report_options",
    "add_workers",
    "at_least_one",
    "ended",
    "executor_of_one_thread",
    "output_folder",
    "parsed",
    "positive",
    "read_report",
    "run_or_draw",
    "say_written",
    "whole",
]


class Parser(argparse.ArgumentParser):
    """The parser of ``diptych reproduce NAME``. It reports an error in one line."""

    def __init__(self, name: str, description: str | None) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(f"diptych reproduce {name}", description=description, formatter_class=form)

    def option(self, _: str, *names: str, rare: bool = False, **arguments: Any) -> None:
        """Add an option that commands have too."""
        self.add_argument(*names, **arguments)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def at_least_one(text: str) -> int:
    """The value of an option of type integer >= 1."""
    value = int(text) if text.strip().isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text}")
    return value


def positive(text: str) -> float:
    """The value of an option of type finite number > 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a finite number > 0, got {text}")
    return value


def parsed(parser: Parser, arguments: Sequence[str] | None, quick: Mapping[str, Any]) -> argparse.Namespace:
    """The parsed options. quick: the defaults with --quick; explicit options override them."""
    if parser.parse_args(arguments).quick:
        parser.set_defaults(**quick)
    return parser.parse_args(arguments)


def ended(parser: Parser, command: Callable[[], None]) -> int:
    """Run a command and return the exit status: 0, 2 after an error (one line on stderr), or 130 if interrupted."""
    try:
        command()
    except (ValueError, OSError, ImportError, Lost) as problem:
        print(f"{parser.prog}: {_message(problem)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def add_report_options(parser: Parser, printed: str = "the table as JSON", again: str = "table and picture") -> None:
    """Add --out, --json and --draw. printed, again: the objects of --json and --draw in the help."""
    folder = "folder of the written files (default: the current one; with --draw: the folder of its file)"
    parser.add_argument("--out", metavar="FOLDER", type=Path, help=folder)
    parser.add_argument("--json", action="store_true", help=f"print {printed}")
    parser.add_argument("--draw", metavar="JSON", type=Path, help=f"run nothing: make {again} from this file")


def add_workers(parser: Parser) -> None:
    """Add the options of :func:`executor_of_one_thread`."""
    add_executor(parser, "perform runs")


@contextmanager
def executor_of_one_thread(options: argparse.Namespace) -> Iterator[Any]:
    """The executor of --workers or --scheduler; None for this process, which uses one thread."""
    set_num_threads(1)
    try:
        with executor_of_runs(options) as executor:
            yield executor
    finally:
        set_num_threads(None)


def output_folder(options: argparse.Namespace) -> Path:
    """The folder of --out, created if it is missing; by default the current one."""
    folder: Path = options.out or Path(".")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_or_draw(
    parser: Parser,
    options: argparse.Namespace,
    run: Callable[[], None],
    show: Callable[[argparse.Namespace, dict[str, Any], Path], None],
    what: str,
    fields: Sequence[str],
) -> int:
    """Call ``run()``, or with --draw ``show(options, report, picture)``, and return the exit status.

    what: name of the report in error messages; fields: required fields of the report.
    """

    def draw_again() -> None:
        picture = (options.out or options.draw.parent) / f"{options.draw.stem}.png"
        with read_report(options.draw, what, fields) as report:
            picture.parent.mkdir(parents=True, exist_ok=True)
            show(options, report, picture)

    return ended(parser, run if options.draw is None else draw_again)


def _message(problem: Exception) -> str:
    if not isinstance(problem, OSError) or problem.filename is None:
        return str(problem)
    kinds = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder"}
    return f"{problem.filename}: {kinds.get(type(problem), str(problem.strerror).lower())}"


def whole(result: Result) -> Result:
    """The result of a run. KeyboardInterrupt if Ctrl-C interrupted the run."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


@contextmanager
def read_report(path: Path, what: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A context with the report of a JSON file.

    An invalid file, or an error in the block, raises ValueError with the name of the file.
    """
    wrong = f"{path}: expected the JSON of {what}, got "
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{wrong}no JSON: {problem}") from None
    if not isinstance(report, dict):
        raise ValueError(f"{wrong}a {type(report).__name__}")
    missing = [name for name in fields if name not in report]
    if missing:
        raise ValueError(f"{wrong}JSON without {', '.join(missing)}")
    try:
        yield report
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as problem:
        raise ValueError(f"{wrong}other JSON: {type(problem).__name__}: {problem}") from None


def say_written(*paths: Path) -> None:
    """Print the names of the written files on stderr."""
    print(f"wrote {', '.join(map(str, paths))}", file=sys.stderr)
