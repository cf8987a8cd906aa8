"""What the commands that measure and draw share: options, how they end, what they say."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from reference.training.result import Result

__all__ = ["Parser", "at_least_one", "ended", "parsed", "positive", "read_report", "say_written", "whole"]


class Parser(argparse.ArgumentParser):
    """Of ``diptych reproduce NAME``; says what is wrong in one line."""

    def __init__(self, name: str, description: str | None) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(f"diptych reproduce {name}", description=description, formatter_class=form)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def at_least_one(text: str) -> int:
    """An option that is an integer >= 1."""
    value = int(text) if text.strip().isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text}")
    return value


def positive(text: str) -> float:
    """An option that is a finite number > 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a finite number > 0, got {text}")
    return value


def parsed(parser: Parser, arguments: Sequence[str] | None, quick: Mapping[str, Any]) -> argparse.Namespace:
    """The options; with --quick these are the defaults, and what is given beside it takes effect."""
    if parser.parse_args(arguments).quick:
        parser.set_defaults(**quick)
    return parser.parse_args(arguments)


def ended(parser: Parser, command: Callable[[], None]) -> int:
    """The exit status of a command: 0, 2 for a wrong request, in one line on stderr, 130 if interrupted."""
    try:
        command()
    except (ValueError, OSError, ImportError) as problem:
        print(f"{parser.prog}: {_said(problem)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _said(problem: Exception) -> str:
    if not isinstance(problem, OSError) or problem.filename is None:
        return str(problem)
    kinds = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder"}
    return f"{problem.filename}: {kinds.get(type(problem), str(problem.strerror).lower())}"


def whole(result: Result) -> Result:
    """A result that no Ctrl-C cut short: else the command ends."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


@contextmanager
def read_report(path: Path, what: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The report in a JSON file, for a block that uses it; what is not as expected is a ValueError that names the
    file.
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
    """Name the files that were written, on stderr."""
    print(f"wrote {', '.join(map(str, paths))}", file=sys.stderr)
