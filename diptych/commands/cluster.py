"""Training over partitions from the command line: its options, its rehearsal, what it reports."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from diptych.commands.executors import EXECUTOR, Workers, add_executor, executor_of
from diptych.commands.jobs import CASIMIR, Job, smoothing_of
from diptych.commands.options import declared, option, positive
from diptych.distributed import Partitioned

SOLVERS = ("lbfgs", "cocoa", "svrg", *CASIMIR, "cutting-planes")  # what trains over partitions
LEAST_PARTS = 8  # the result depends on the parts, so their number does not depend on the workers
UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def size(text: str) -> int:
    """The value of an option of type number of bytes, such as 500MB or 2GiB."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?) ?([a-z]*)", text.strip().lower())
    value = 0 if match is None or match[2] not in UNITS else int(float(match[1]) * UNITS[match[2]])
    if value < 1000:
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes such as 500MB or 2GiB (lbfgs's pairs are --corrections), got {text:.80}"
        )
    return value


class Cluster(Workers):
    """The options of training over partitions."""

    workers: int | None = declared(lambda sub, *_: add_executor(sub, "train over partitions"))
    partitions: int | None = option("workers",
        f"partitions in all, at least one a file; they decide the result (default: {LEAST_PARTS})", type=positive,
        metavar="P", rare=True)  # fmt: skip
    memory: int | None = option("workers",
        "packed partitions that a process keeps, such as 500MB; others are read again (default: all)", type=size,
        metavar="BYTES", rare=True)  # fmt: skip

    @property
    def over_partitions(self) -> bool:
        """Whether the options ask for training over partitions."""
        return any(getattr(self, name) is not None for name in (*EXECUTOR, "partitions", "memory"))


def for_workers(command: Cluster, paths: Sequence[str], *names: str) -> list[str]:
    """The files as workers find them, which may run in another folder. names: of data that the package has."""
    if "-" in paths:
        raise ValueError("-: standard input is not read over partitions; give a file")
    if command.scheduler is None:
        return list(paths)
    return [path if path in names else str(Path(path).absolute()) for path in paths]


def parts_a_file(command: Cluster, files: int) -> list[int]:
    """The parts of each file, which are ``--partitions`` in all, and at least one a file."""
    total = max(command.partitions or LEAST_PARTS, files)
    return [total * (k + 1) // files - total * k // files for k in range(files)]


@contextmanager
def partitioned(
    panel: ModuleType,
    command: Cluster,
    loss: Callable[..., Any],
    rehearsal: Rehearsal,
    model_of: Callable[[Any], Any],
    loaders_of: Callable[[Any], Any],
) -> Iterator[Partitioned]:
    """The objective over partitions. model_of: from the executor; loaders_of: of the partitions, from the model."""
    with executor_of(command, panel, rehearsal) as executor:
        model = model_of(executor)
        yield Partitioned(loaders_of(model), model, loss, executor, memory=command.memory)


@dataclass(frozen=True)
class Rehearsal:
    """A training on a few examples, which compiles what the training on all examples needs.

    run: trains with an objective; X, Y: examples, as ``model.pack`` takes them.
    """

    model: Any
    loss: Callable[[Any, Any], Any]
    run: Callable[[Any], Any]
    X: Any
    Y: Any

    def __call__(self) -> None:
        objective = Partitioned([self.examples], self.model, self.loss)
        self.run(objective)
        self.model.predict(self.model.pack(self.X), None, objective.zeros())

    def examples(self) -> tuple[Any, Any]:
        """The loader of the only partition."""
        return self.X, self.Y


def check_over(command: Any, solver: str, *without: str) -> None:
    """Raise ValueError for a solver that needs single examples, or for an option that has no effect over partitions;
    not over partitions, for a solver that needs them.
    """
    if not command.over_partitions:
        if solver == "cocoa":
            raise ValueError("--optimizer cocoa trains over partitions: give --workers, --scheduler or --partitions")
        return
    if getattr(command, "learner", "linear") != "linear":
        raise ValueError(f"--learner {command.learner}: not over partitions")
    if solver not in SOLVERS:
        raise ValueError(f"--optimizer {solver} needs single examples; over partitions: {', '.join(SOLVERS)}")
    for name in without:
        if getattr(command, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')}: not over partitions (--workers, --partitions, ...)")


def loss_over(panel: ModuleType, job: Job) -> Callable[..., Any]:
    """The job's loss, from model and packed data."""
    if job.loss == "crf":
        loss: Callable[..., Any] = panel.LogLoss
        return loss
    return partial(panel.StructuralHinge, smoothing=smoothing_of(panel, job))


def line_of(report: dict[str, Any]) -> str:
    """The line of a report about workers."""
    return (
        f"{report['partitions']} partitions, {report['workers']} workers, {report['repeated']} tasks repeated, "
        f"{report['bytes_a_pass']:,} bytes moved a pass"
    )
