"""The command ``reproduce``: runs the papers' experiments, each with its own command."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import diptych
from diptych.commands.options import Command, argument, option
from diptych.commands.output import Report
from diptych.commands.parser import did_you_mean
from diptych.experiments.registry import EXPERIMENTS

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class Reproduce(Command):
    """Run an experiment of a paper.

    Run an experiment of a paper. 'reproduce NAME --help' shows its options; no data are fetched.
    """

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = ""
    list: bool = option("output", "list the experiments with paper, data and, if known, time", action="store_true")
    experiment: str | None = argument("see --list", metavar="NAME", nargs="?")
    arguments: Sequence[str] = argument("data and options of the experiment", metavar="...", nargs=argparse.REMAINDER)

    def run(self, panel: ModuleType) -> Report:
        if panel.__name__ != "accelerated":
            raise ValueError(f"--panel {panel.__name__}: experiments run in the accelerated panel")
        if self.list:
            return _listed()
        name = self.experiment
        if name not in EXPERIMENTS:
            problem = "no name" if name is None else f"{name!r:.80}{did_you_mean(name, EXPERIMENTS)}"
            raise ValueError(f"NAME: expected one of {', '.join(EXPERIMENTS)}, got {problem}")
        shared = [f"--{each}" for each in ("json", "quiet") if getattr(self, each)]  # those that stand before the name
        sys.exit(_in_one_thread(name, [*shared, *self.arguments]))


def _listed() -> Report:
    fields = [{"name": name, **experiment._asdict()} for name, experiment in EXPERIMENTS.items()]
    width = max(map(len, EXPERIMENTS))
    lines = []
    for name, experiment in EXPERIMENTS.items():
        source = f"{experiment.paper}, {experiment.where}: " if experiment.paper else ""
        lines += [f"{name:{width}}  {source}{experiment.shows}", f"{'':{width}}  data: {experiment.data}"]
        lines[-1] += f"; time: {experiment.time}" if experiment.time else ""
    return Report({"experiments": fields}, lines)


def _in_one_thread(name: str, arguments: list[str]) -> int:
    """Run an experiment in a process whose BLAS has one thread; return its exit status.

    BLAS reads the number of threads when NumPy loads it, so it needs a new process. That process does not search the
    working folder for modules. Ctrl-C reaches both processes, and SIGTERM is sent on; the experiment reports them.
    """
    folders = [str(Path(diptych.__file__).parent.parent), os.environ.get("PYTHONPATH")]
    variables = dict.fromkeys(ONE_THREAD, "1") | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [sys.executable, "-P", "-m", "diptych.experiments", name, *arguments]
    with subprocess.Popen(command, env=dict(os.environ, **variables)) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        then = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, then)
