"""The command ``check``: does this installation work? It prints a line for each check."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any, ClassVar

from diptych.check import Line, checks
from diptych.commands.options import Command, add_command
from diptych.commands.output import Report, say


class Check(Command):
    """Does this installation work? versions, kernel cache, laws and small trainings.

    Look at this installation: versions, folders of the packages, threads, the kernel cache, a law of each structure
    and a small training of each loss, in both panels. The exit status is 1 where something failed.
    """

    opens: ClassVar[bool] = False


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    add_command(commands, "check", _check, Check, no_panel="check runs both panels")


def _check(panel: ModuleType, command: Check) -> Report:
    started, lines = time.perf_counter(), []
    for line in checks():
        lines.append(line)
        if not command.json:
            say(_text(line))
        if line.status == "cold":
            print("compiling kernels, once for this version of diptych (a minute or more) ...", file=sys.stderr)
    failed = [line.name for line in lines if line.status == "FAILED"]
    seconds = time.perf_counter() - started
    verdict = f"FAILED: {', '.join(failed)}" if failed else "everything works"
    report: dict[str, Any] = {
        "command": "check",
        "status": "FAILED" if failed else "ok",
        "failed": failed,
        "seconds": seconds,
    }
    report["checks"] = [line._asdict() for line in lines]
    return Report(report, [f"{verdict} ({seconds:.1f} s)"], problem=SystemExit(1) if failed else None)


def _text(line: Line) -> str:
    error = "" if line.error is None else f" (to {line.error:.0e})"
    return f"{line.group:9} {line.name:26} {line.status:15} {line.detail}{error}"
