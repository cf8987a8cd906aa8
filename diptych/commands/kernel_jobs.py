"""``train --learner mkl``: the job of multiple kernel learning, its options and its report."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import accuracies, accuracy_lines, learner_options
from diptych.commands.options import number
from diptych.commands.output import announce_compilation, finish, trained, writable
from diptych.commands.parser import Parser
from reference.datasets import Sequences
from reference.declared import choices_of
from reference.models.kernel_names import check_names, named
from reference.models.kernel_sequence import TRANSITIONS
from reference.online_mkl.training import mkl

__all__ = ["KERNEL_OPTIONS", "LEARNERS", "KernelJob", "add_kernels", "kernel_job", "train_kernels"]

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
        if self.average not in choices_of(mkl, "average"):
            raise ValueError(
                f"--average: mkl returns one of {', '.join(choices_of(mkl, 'average'))}, got {self.average}"
            )

    def weight(self, n: int) -> float:
        """lam for n sequences; C = 100 if neither is given."""
        return self.lam if self.lam is not None else 1.0 / ((100.0 if self.C is None else self.C) * n)


def add_kernels(sub: Parser) -> None:
    """Add the options of ``--learner mkl``."""
    sub.option("model", "--learner", choices=LEARNERS, default="linear",
        help="linear: the features themselves; mkl: a weighted sum of kernels; sparse-crf: few "
        "weights, by the elastic net (default: linear)")  # fmt: skip
    sub.option("model", "--kernels", metavar="NAMES",
        help="kernels of mkl: linear, quadratic, gaussian[:SIGMA2], polynomial:DEGREE, spline[:SHARE OF ZEROS], "
        "explicit, separated by commas; a+b is their average (default: linear,quadratic,gaussian)",
        rare=True)  # fmt: skip
    sub.option("solver", "--C", type=number,
        help="mkl: lam = 1/(C n) (default: 100, unless --lam is given)", rare=True)  # fmt: skip
    sub.option("model", "--transitions", choices=TRANSITIONS,
        help="mkl: transitions as a group of their own, as a part of each group, or without penalty "
        "(default: own)", rare=True)  # fmt: skip


def kernel_job(options: argparse.Namespace) -> KernelJob:
    """The job that the options describe. ValueError for an option that mkl does not have."""
    if options.start is not None:
        raise ValueError("--start: mkl starts from 0; --resume goes on from a checkpoint")
    names = (*KERNEL_OPTIONS, *SHARED, "checkpoint", "resume")
    fields = learner_options(options, "mkl", names)
    return KernelJob(**{name: fields[name] for name in fields if name in KernelJob.__dataclass_fields__})


def train_kernels(panel: ModuleType, options: argparse.Namespace, training: Sequences, test: Sequences | None) -> bool:
    """Train, save and report; return whether the run was interrupted."""
    job = kernel_job(options)
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel, options.quiet)
    lam, started = job.weight(len(training.X)), time.perf_counter()
    model = panel.KernelSequenceModel(named(job.kernels, training.X), training.labels, transitions=job.transitions)
    data = model.pack(training.X, training.Y)
    packed = time.perf_counter() - started
    what = {"learner": "mkl", "data": options.data, "sequences": len(training.X), "fold": options.fold}
    what |= {"reverse": options.reverse, "job": asdict(job), "lam": lam}

    def run(callback: Any) -> Any:
        more = {"loss": job.loss, "epochs": job.epochs, "average": job.average, "rng": job.rng, "callback": callback}
        files = {"checkpoint": options.checkpoint, "resume": options.resume}
        return panel.mkl(model, data, lam=lam, step_size=panel.steps.InverseSqrt(job.step_size), **more, **files)

    info = {"data": options.data, "fold": options.fold, **asdict(job)}
    result, report = trained(panel, options, what, job.epochs, run, model, info)
    names = [*job.kernels.split(","), *(["transitions"] if job.transitions == "own" else [])]
    report |= {
        "iterate": result.iterate,
        "seconds": result.history[-1].seconds if result.history else 0.0,
        "seconds_of_gram_matrices": packed,
        "seconds_in_all": time.perf_counter() - started,
        "beta": dict(zip(names, result.beta.tolist(), strict=True)),
        "support": int(model.support(result.x).rows.shape[0]),
        "norms": result.norms.tolist(),
        **accuracies(model, result.x, training, test),
    }
    lines = _lines(options, job, report, result, int(np.sum(np.diff(data.offsets))))
    return finish(options, report, lines, {panel.__name__: result.history}, f"{job.loss}, {job.kernels}, lam = {lam:g}")


def _lines(
    options: argparse.Namespace, job: KernelJob, report: dict[str, Any], result: Any, positions: int
) -> list[str]:
    lines = [
        f"{job.loss} by mkl on {options.data}: {report['sequences']} sequences, {result.nit} epochs "
        f"({result.iterate} iterate)",
        f"objective {result.fun:.6f}    seconds {report['seconds']:.3f}    and "
        f"{report['seconds_of_gram_matrices']:.3f} for Gram matrices",
        "beta      " + "    ".join(f"{name} {share:.3f}" for name, share in report["beta"].items()),
        f"support   {report['support']} of {positions} positions",
    ]
    return lines + accuracy_lines(report)
