"""``train --learner mkl``: the job of multiple kernel learning, its options and its report."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import accuracies, accuracy_lines, learner_options
from diptych.commands.options import Words, option
from diptych.commands.output import Report, announce_compilation, trained
from reference.datasets import Sequences
from reference.declared import choices_of
from reference.models.kernel_names import check_names, named
from reference.models.kernel_sequence import TRANSITIONS
from reference.online_mkl.training import mkl

LEARNERS = ("linear", "mkl", "sparse-crf")
KERNEL_OPTIONS = ("kernels", "C", "transitions")  # options that only mkl has
SHARED = ("loss", "lam", "epochs", "rng", "average", "step_size")  # options that mkl shares with Job


@dataclass(frozen=True)
class KernelJob:
    """A training job with kernels; if C is given, lam = 1/(C n)."""

    kernels: str = "linear,quadratic,gaussian"
    loss: str = "hinge"
    C: float | None = None
    lam: float | None = None
    step_size: float = 1.0
    epochs: int = 20
    rng: int = 0
    transitions: str = "own"
    average: str = "last"

    def __post_init__(self) -> None:
        """Reject options that do not define an objective."""
        check_names(self.kernels)
        if self.C is not None and self.lam is not None:
            raise ValueError("--C and --lam: expected one of them, as lam = 1/(C n)")
        if self.C == 0 or self.step_size == 0:
            raise ValueError(f"--{'C' if self.C == 0 else 'step-size'}: expected a number > 0, got 0")
        averages = choices_of(mkl, "average")
        if self.average not in averages:
            raise ValueError(f"--average: mkl returns one of {', '.join(averages)}, got {self.average}")

    def weight(self, n: int) -> float:
        """lam for n sequences; C = 100 if neither is given."""
        return self.lam if self.lam is not None else 1.0 / ((100.0 if self.C is None else self.C) * n)


class Kernels(Words):
    """The options of ``--learner mkl``."""

    learner: str = option("model", "linear: the features themselves; mkl: a weighted sum of kernels; sparse-crf: few "
        "weights, by the elastic net (default: linear)", choices=LEARNERS, default="linear")  # fmt: skip
    kernels: str | None = option("model",
        "kernels of mkl: linear, quadratic, gaussian[:SIGMA2], polynomial:DEGREE, spline[:SHARE OF ZEROS], "
        "explicit, separated by commas; a+b is their average (default: linear,quadratic,gaussian)", metavar="NAMES",
        rare=True)  # fmt: skip
    C: float | None = option("solver", "mkl: lam = 1/(C n) (default: 100, unless --lam is given)", rare=True)
    transitions: str | None = option("model",
        "mkl: transitions as a group of their own, as a part of each group, or without penalty (default: own)",
        choices=TRANSITIONS, rare=True)  # fmt: skip


def kernel_job(command: Any) -> KernelJob:
    """The job that a command describes. ValueError for an option that mkl does not have."""
    if command.start is not None:
        raise ValueError("--start: mkl starts from 0; --resume goes on from a checkpoint")
    told = learner_options(command, "mkl", (*KERNEL_OPTIONS, *SHARED, "checkpoint", "resume"))
    return KernelJob(**{name: value for name, value in told.items() if name in KernelJob.__dataclass_fields__})


def train_kernels(panel: ModuleType, command: Any, training: Sequences, test: Sequences | None) -> Report:
    """Train, save and report."""
    job = kernel_job(command)
    announce_compilation(panel, command.quiet)
    lam, started = job.weight(len(training.X)), time.perf_counter()
    model = panel.KernelSequenceModel(named(job.kernels, training.X), training.labels, transitions=job.transitions)
    data = model.pack(training.X, training.Y)
    packed = time.perf_counter() - started
    what = {"learner": "mkl", "data": command.data, "sequences": len(training.X), "fold": command.fold}
    what |= {"reverse": command.reverse, "job": asdict(job), "lam": lam}
    run = partial(panel.mkl, model, data, lam=lam, step_size=panel.steps.InverseSqrt(job.step_size), loss=job.loss,
        epochs=job.epochs, average=job.average, rng=job.rng)  # fmt: skip
    info = {"data": command.data, "fold": command.fold, **asdict(job)}
    result, report = trained(panel, command, what, job.epochs, run, model, info)
    names = [*job.kernels.split(","), *(["transitions"] if job.transitions == "own" else [])]
    support, positions = int(model.support(result.x).rows.shape[0]), int(np.sum(np.diff(data.offsets)))
    seconds = result.history[-1].seconds if result.history else 0.0
    report |= {"iterate": result.iterate, "seconds": seconds, "seconds_of_gram_matrices": packed}
    report |= {"seconds_in_all": time.perf_counter() - started}
    report |= {"beta": dict(zip(names, result.beta.tolist(), strict=True)), "support": support}
    report |= {"norms": result.norms.tolist(), **accuracies(model, result.x, training, test)}
    epochs = f"{report['sequences']} sequences, {result.nit} epochs ({result.iterate} iterate)"
    lines = [
        f"{job.loss} by mkl on {command.data}: {epochs}",
        f"objective {result.fun:.6f}    seconds {seconds:.3f}    and {packed:.3f} for Gram matrices",
        "beta      " + "    ".join(f"{name} {share:.3f}" for name, share in report["beta"].items()),
        f"support   {support} of {positions} positions",
        *accuracy_lines(report),
    ]
    return Report(report, lines, {panel.__name__: result.history}, f"{job.loss}, {job.kernels}, lam = {lam:g}")
