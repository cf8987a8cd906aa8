"""The command ``warm``: compile the kernels of everyday work now, in several processes."""

from __future__ import annotations

import argparse
import os
import time
from types import ModuleType
from typing import Any

from tqdm import tqdm

from diptych.commands.options import add_command, positive
from diptych.commands.output import print_report
from diptych.warm import FIRST_CALLS, warm

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    sub = add_command(
        commands,
        "warm",
        _warm,
        "compile the kernels of everyday work now, in several processes",
        "Compile the kernels of the structures and of the usual trainings, which their first use would compile, in "
        "several processes. The kernels are kept for this version of diptych on this kind of processor.",
    )
    sub.option("general", "--processes", type=positive, default=os.cpu_count(), metavar="N",
        help="processes that compile (default: one a core)")  # fmt: skip


def _warm(panel: ModuleType, options: argparse.Namespace) -> None:
    from accelerated.kernel import cache_folder

    folder = cache_folder()
    if folder is None:
        raise OSError("no folder for compiled kernels can be written; NUMBA_CACHE_DIR names another")
    started, before = time.perf_counter(), len(list(folder.rglob("*.nbc")))
    calls = list(tqdm(warm(options.processes), total=len(FIRST_CALLS), disable=None, unit="call"))
    seconds, compiled = time.perf_counter() - started, len(list(folder.rglob("*.nbc"))) - before
    report: dict[str, Any] = {"command": "warm", "calls": calls, "compiled": compiled, "seconds": seconds}
    report["folder"] = str(folder)
    print_report(options, report, [f"{compiled} kernels compiled in {seconds:.1f} s, in {folder}"])
