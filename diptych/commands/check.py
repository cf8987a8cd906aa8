"""The command ``check``: does this installation work? It prints a line for each check."""

from __future__ import annotations

import argparse
import sys
import time
from types import ModuleType
from typing import Any

from diptych.check import Line, checks
from diptych.commands.options import add_command, without_panel
from diptych.commands.output import print_report, say

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    sub = add_command(
        commands,
        "check",
        _check,
        "does this installation work? versions, kernel cache, laws and small trainings",
        "Look at this installation: versions, folders of the packages, threads, the kernel cache, a law of each "
        "structure and a small training of each loss, in both panels. The exit status is 1 where something failed.",
    )
    without_panel(sub, "check runs both panels")


def _check(panel: ModuleType, options: argparse.Namespace) -> None:
    started, lines = time.perf_counter(), []
    for line in checks():
        lines.append(line)
        if not options.json:
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
    print_report(options, report, [f"{verdict} ({seconds:.1f} s)"])
    if failed:
        sys.exit(1)


def _text(line: Line) -> str:
    error = "" if line.error is None else f" (to {line.error:.0e})"
    return f"{line.group:9} {line.name:26} {line.status:15} {line.detail}{error}"
