"""Shared code of the experiments: options, exit status, reports in JSON, lines on stderr."""

from __future__ import annotations

import argparse
import gzip
import inspect
import io
import json
import os
import platform
import statistics
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np

import reference
from accelerated.threads import set_num_threads
from diptych.commands import options as commands
from diptych.commands.executors import add_executor, executor_of
from diptych.commands.options import above_zero, add_flags, positive
from diptych.commands.output import error_text, status_of, writable
from diptych.experiments.registry import EXPERIMENTS
from diptych.experiments.results import check_page, compact, load, save_results, write_table
from diptych.interrupts import listening, status, word
from diptych.pictures.plots import require_matplotlib
from reference.files import save_bytes
from reference.training.run import Lost


class Parser(commands.Parser):
    """The parser of ``diptych reproduce NAME``: help of one screen; --help-all adds the text of the experiment."""

    def __init__(self, name: str, text: str | None) -> None:
        experiment, self.text = EXPERIMENTS[name], inspect.cleandoc(text or "")
        source = f"{experiment.paper}, {experiment.where}: " if experiment.paper else ""
        what = f"{source}{experiment.shows}."
        super().__init__(prog=f"diptych reproduce {name}", description=what[0].upper() + what[1:])
        self.set_defaults(experiment=name)
        self.without_panel()
        add_flags(self, "quiet")

    def quick(self, help: str) -> None:
        """Add --quick."""
        self.option("data", "--quick", action="store_true", help=help)

    def number(self, group: str, name: str, default: float, help: str, more: str = "") -> None:
        """Add an option of type number > 0, or integer >= 1 where the default is one. The help names the default, and
        more.
        """
        read = positive if isinstance(default, int) else above_zero
        self.option(group, name, type=read, default=default, help=f"{help} (default: {default:g}{more})")

    def format_help(self, everything: bool = False) -> str:
        return super().format_help(everything) + (f"\n{self.text}\n" if everything else "")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        options = super().parse_args(args, namespace)
        if hasattr(options, "panel"):
            self.error(f"--panel {options.panel}: experiments run in the accelerated panel")
        return options


def spread(numbers: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation; nothing if there are no numbers."""
    if not numbers:
        return ""
    return f"{statistics.fmean(numbers):.{digits}g} ± {statistics.pstdev(numbers):.2g}"


def parsed(parser: Parser, arguments: Sequence[str] | None, quick: Mapping[str, Any]) -> argparse.Namespace:
    """The parsed options. quick: the defaults with --quick; explicit options override them."""
    if parser.parse_args(arguments).quick:
        parser.set_defaults(**quick)
    options: argparse.Namespace = parser.parse_args(arguments)
    return options


def ended(parser: Parser, options: argparse.Namespace, command: Callable[[], None], out: str | None = None) -> int:
    """Run a command and return the exit status: that of ``diptych``.

    out: the file to write what the command prints to.
    """
    try:
        writable(out, None)
        with listening(), ExitStack() as stack:
            if options.quiet:
                stack.enter_context(_quiet())
            printed = None if out is None else stack.enter_context(redirect_stdout(io.StringIO()))
            command()
        if out is not None and printed is not None:
            save_bytes(out, printed.getvalue().encode())
    except (ValueError, OSError, ImportError, Lost) as problem:
        print(f"{parser.prog}: {error_text(problem)}", file=sys.stderr)
        return status_of(problem)
    except KeyboardInterrupt:
        print(word(), file=sys.stderr)
        return status()
    return 0


class _Quiet(io.TextIOBase):
    """A stderr that drops what is written. ``loud``: the stderr that it stands for."""

    def __init__(self, loud: Any) -> None:
        self.loud = loud

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop the lines on stderr, except warnings."""
    loud, show = sys.stderr, warnings.showwarning

    def shown(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        show(message, category, filename, lineno, loud if file is None else file, line)

    warnings.showwarning = shown
    try:
        with redirect_stderr(_Quiet(loud)):
            yield
    finally:
        warnings.showwarning = show


def add_print_options(parser: Parser, printed: str) -> None:
    """Add --json and --out of an experiment that writes no other files. printed: what --json prints, in the help."""
    parser.option("output", "--json", action="store_true", help=f"print {printed}")
    add_flags(parser, "out")


def add_report_options(parser: Parser, printed: str = "the table as JSON", picture: bool = True) -> None:
    """Add --out, --json, --plot, --draw, --results and --page. printed: the object of --json in the help; picture:
    whether there is one.
    """
    add_folder(parser, "; with --draw: the folder of its file")
    parser.option("output", "--json", action="store_true", help=f"print {printed}")
    if picture:
        add_flags(parser, plot="default: .png in the folder of --out")
    else:
        parser.set_defaults(plot=None)
    again = "table and picture" if picture else "the table"
    parser.option("output", "--draw", metavar="JSON", type=Path, help=f"run nothing: make {again} from this file")
    parser.option("output", "--results", metavar="FILE", type=Path,
        help="also write the report to publish: .json.gz, six digits, of grid runs the last row")  # fmt: skip
    parser.option("output", "--page", metavar="FILE", type=Path, help="write the table between two marks of this page")


def add_folder(parser: Parser, more: str = "") -> None:
    """Add the --out of :func:`output_folder`. more: the end of the default in the help."""
    help = f"folder of the written files (default: the current one{more})"
    parser.option("output", "--out", metavar="FOLDER", type=Path, help=help)


def add_workers(parser: Parser) -> None:
    """Add the options of :func:`executor_of_one_thread`."""
    add_executor(parser, what="perform runs")


@contextmanager
def executor_of_one_thread(options: argparse.Namespace) -> Iterator[Any]:
    """The executor of --workers or --scheduler; None for this process, which uses one thread."""
    with one_thread(), ExitStack() as stack:
        with redirect_stderr(getattr(sys.stderr, "loud", sys.stderr)):  # --quiet hides no unsafe connection
            executor = stack.enter_context(executor_of(options))
        yield executor


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which kernels use one thread."""
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(None)


def header(*names: str) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [row(*names), "|" + "---|" * len(names)]


def row(*cells: Any) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def output_folder(options: argparse.Namespace) -> Path:
    """The folder of --out, created if it is missing; by default the current one."""
    folder: Path = options.out or Path(".")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def picture_of(options: argparse.Namespace, report: Path) -> Path:
    """The file of the picture: that of --plot, by default the one beside the report."""
    return Path(options.plot) if options.plot else report.with_name(f"{report.name.partition('.json')[0]}.png")


def run_or_draw(
    parser: Parser,
    options: argparse.Namespace,
    run: Callable[[], None],
    show: Callable[[argparse.Namespace, dict[str, Any], Path], None],
    what: str,
    fields: Sequence[str],
    picture: bool = True,
) -> int:
    """Call ``run()``, or with --draw ``show(options, report, picture)``, and return the exit status.

    what: name of the report in error messages; fields: required fields of the report.
    """

    def draw_again() -> None:
        drawn = picture_of(options, (options.out or options.draw.parent) / options.draw.name)
        with read_report(options.draw, what, fields) as report:
            drawn.parent.mkdir(parents=True, exist_ok=True)
            show(options, report, drawn)

    def draw_or_run() -> None:
        if options.results is not None and not options.results.name.endswith(".json.gz"):
            raise ValueError(f"--results: expected a name that ends with .json.gz, got {options.results}")
        writable(options.results, None)
        writable(options.plot)
        if options.page is not None:
            check_page(options.page, options.experiment)
        if picture:
            require_matplotlib()  # fail before the runs, not after
        (run if options.draw is None else draw_again)()

    return ended(parser, options, draw_or_run)


@contextmanager
def read_report(path: Path, what: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A context with the report of a JSON file, which may be compressed (.gz).

    An invalid file, or an error in the block, raises ValueError with the name of the file.
    """
    wrong = f"{path}: expected the JSON of {what}, got "
    try:
        content = path.read_bytes()
        report = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (ValueError, gzip.BadGzipFile, EOFError, zlib.error) as problem:
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


@dataclass(frozen=True)
class Shown:
    """How a report is shown: what draws its picture (None: nothing), its table, and what --json prints of it."""

    draw: Callable[[Path, dict[str, Any]], None] | None
    table: Callable[[dict[str, Any]], str]
    summary: Callable[[dict[str, Any]], Any]

    def __call__(self, options: argparse.Namespace, report: dict[str, Any], picture: Path, *written: Path) -> None:
        if self.draw is not None:
            self.draw(picture, report)
            written = (*written, picture)
        print(json.dumps(self.summary(report), indent=1) if options.json else self.table(report), flush=True)
        if options.results is not None:
            save_results(options.results, report)
        if options.page is not None:
            write_table(options.page, options.experiment, self.table(compact(report)))
        if files := [*written, *filter(None, (options.results, options.page))]:
            say_written(*files)

    def kept(self, options: argparse.Namespace, report: dict[str, Any], path: Path, *others: Path) -> None:
        """Write a new report and show it. others: files that were written before."""
        path.write_text(json.dumps(report), encoding="utf-8")
        self(options, report, picture_of(options, path), path, *others)


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def say_written(*paths: Path) -> None:
    """Print the names of the written files on stderr."""
    print(f"wrote {', '.join(map(str, paths))}", file=sys.stderr)


def versions() -> dict[str, Any]:
    """The versions and the machine of a measurement, for its record."""
    libraries = {"diptych": reference.__version__, "python": platform.python_version(), "numpy": np.__version__}
    machine = {"machine": platform.machine(), "processor": llvmlite.binding.get_host_cpu_name()}
    return libraries | {"numba": numba.__version__, **machine, "cores": os.cpu_count(), "load": load()}
