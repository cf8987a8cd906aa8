"""The command ``warm``: compile the kernels of everyday work now, in several processes."""

from __future__ import annotations

import os
import time
from types import ModuleType
from typing import Any, ClassVar

from tqdm import tqdm

from diptych.commands.options import Command, add_command, option, positive
from diptych.commands.output import Report
from diptych.warm import FIRST_CALLS, warm


class Warm(Command):
    """Compile the kernels of everyday work now, in several processes.

    Compile the kernels of the structures and of the usual trainings, which their first use would compile, in
    several processes. The kernels are kept for this version of diptych on this kind of processor.
    """

    opens: ClassVar[bool] = False
    processes: int = option("general", "processes that compile (default: one a core)", type=positive,
        default=os.cpu_count(), metavar="N")  # fmt: skip


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    add_command(commands, "warm", _warm, Warm)


def _warm(panel: ModuleType, command: Warm) -> Report:
    from accelerated.kernel import cache_folder

    folder = cache_folder()
    if folder is None:
        raise OSError("no folder for compiled kernels can be written; NUMBA_CACHE_DIR names another")
    started = time.perf_counter()
    done = dict(tqdm(warm(command.processes), total=len(FIRST_CALLS), disable=None, unit="call"))
    seconds, compiled = time.perf_counter() - started, len(set().union(*done.values()))
    report: dict[str, Any] = {"command": "warm", "calls": list(done), "compiled": compiled, "seconds": seconds}
    report["folder"] = str(folder)
    return Report(report, [f"{compiled} kernels compiled in {seconds:.1f} s, in {folder}"])
