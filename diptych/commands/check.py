"""``check``: does this installation work? ``warm``: compile the kernels of everyday work now."""

from __future__ import annotations

import os
import sys
import time
from types import ModuleType
from typing import Any, ClassVar

from tqdm import tqdm

from diptych.check import checks
from diptych.commands.options import Command, option, positive
from diptych.commands.output import Report, say
from diptych.warm import FIRST_CALLS, warm


class Check(Command):
    """Does this installation work? versions, kernel cache, laws and small trainings.

    Look at this installation: versions, folders of the packages, threads, the kernel cache, a law of each structure
    and a small training of each loss, in both panels. The exit status is 1 where something failed.
    """

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = "check runs both panels"

    def run(self, panel: ModuleType) -> Report:
        started, lines = time.perf_counter(), []
        for line in checks():
            lines.append(line)
            if not self.json:
                error = "" if line.error is None else f" (to {line.error:.0e})"
                say(f"{line.group:9} {line.name:26} {line.status:15} {line.detail}{error}")
            if line.status == "cold":
                print("compiling kernels, once for this version of diptych (a minute or more) ...", file=sys.stderr)
        failed, seconds = [line.name for line in lines if line.status == "FAILED"], time.perf_counter() - started
        verdict = f"FAILED: {', '.join(failed)}" if failed else "everything works"
        report: dict[str, Any] = {"command": "check", "status": "FAILED" if failed else "ok", "failed": failed}
        report |= {"seconds": seconds, "checks": [line._asdict() for line in lines]}
        return Report(report, [f"{verdict} ({seconds:.1f} s)"], problem=SystemExit(1) if failed else None)


class Warm(Command):
    """Compile the kernels of everyday work now, in several processes.

    Compile the kernels of the structures and of the usual trainings, which their first use would compile, in
    several processes. The kernels are kept for this version of diptych on this kind of processor.
    """

    opens: ClassVar[bool] = False
    processes: int = option("general", "processes that compile (default: one a core)", type=positive,
        default=os.cpu_count())  # fmt: skip

    def run(self, panel: ModuleType) -> Report:
        from accelerated.kernel import cache_folder

        folder = cache_folder()
        if folder is None:
            raise OSError("no folder for compiled kernels can be written; NUMBA_CACHE_DIR names another")
        started = time.perf_counter()
        done = dict(tqdm(warm(self.processes), total=len(FIRST_CALLS), disable=None, unit="call"))
        seconds, compiled = time.perf_counter() - started, len(set().union(*done.values()))
        report = {"command": "warm", "calls": list(done), "compiled": compiled, "seconds": seconds}
        return Report(
            report | {"folder": str(folder)}, [f"{compiled} kernels compiled in {seconds:.1f} s, in {folder}"]
        )
