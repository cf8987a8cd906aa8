"""A training job as a value: what the command line, ``compare`` and ``demo`` run in either panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from reference.app.datasets import Sequences, load_letters, load_sequences
from reference.app.metrics import position_accuracy, sequence_accuracy
from reference.optimizers.result import Callback, Result

__all__ = ["LOSSES", "OPTIMIZERS", "SCHEDULES", "Job", "accuracy", "load", "objective_of", "start", "train"]

LOSSES = {"crf": "LogLoss", "hinge": "StructuralHinge"}
OPTIMIZERS = ("sgd", "lbfgs")
SCHEDULES = {
    "constant": ("Constant", ("step_size",)),
    "inverse-time": ("InverseTime", ("step_size",)),
    "inverse-sqrt": ("InverseSqrt", ("step_size",)),
    "pegasos": ("Pegasos", ("step_offset",)),
    "steps": ("Steps", ("step_size", "step_every")),
}


@dataclass(frozen=True)
class Job:
    """What to train, and how: the options of ``train`` and ``compare``."""

    loss: str = "crf"
    optimizer: str = "sgd"
    lam: float = 0.01
    epochs: int = 10
    rng: int = 0
    average: str | None = None  # of SGD; None: weighted
    schedule: str | None = None
    step_size: float | None = None
    step_offset: float | None = None
    step_every: float | None = None
    start_stop: bool = True
    scale: float = 0.0  # of the random start; 0 starts from zero

    def __post_init__(self) -> None:
        """Refuse options that would have no effect."""
        if self.optimizer == "lbfgs":
            self._unused("average", "schedule", "step_size", "step_offset", "step_every", why="--optimizer lbfgs")
        elif self.schedule is None:
            self._unused("step_offset", "step_every", why="no --schedule")
        else:
            used = SCHEDULES[self.schedule][1]
            others = ("step_size", "step_offset", "step_every")
            self._unused(*(name for name in others if name not in used), why=f"--schedule {self.schedule}")

    def _unused(self, *names: str, why: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} has no effect with {why}")

    def as_dict(self) -> dict[str, Any]:
        """The job as a plain dictionary, for JSON and model files."""
        return asdict(self)


def load(name: str, *, labelled: bool = True) -> Sequences:
    """``letters``, or the sequence file at that path."""
    if name == "letters":
        return load_letters()
    if not Path(name).exists():
        raise ValueError(f"{name}: no such file (the data set that comes with diptych is called letters)")
    return load_sequences(name, labelled=labelled)


def objective_of(panel: ModuleType, job: Job, data: Sequences) -> Any:
    """The job's objective over packed data; its ``model`` and ``data`` are what evaluation needs."""
    if not data.X:
        raise ValueError(f"{data.name}: no sequences to train on")
    model = panel.SequenceModel(data.X[0].shape[1], data.labels, start_stop=job.start_stop)
    return getattr(panel, LOSSES[job.loss])(model, model.pack(data.X, data.Y))


def start(job: Job, size: int) -> np.ndarray:
    """The start: ``scale`` times normal draws of the job's rng (at w = 0 every hinge argmax is a tie)."""
    return job.scale * np.random.default_rng(job.rng).normal(size=size)


def train(panel: ModuleType, job: Job, objective: Any, callback: Callback | None = None) -> Result:
    """Run the job's optimiser from its start."""
    w0 = start(job, objective.model.size)
    if job.optimizer == "lbfgs":
        return panel.lbfgs(objective, w0, lam=job.lam, iterations=job.epochs, callback=callback)
    return panel.sgd(
        objective,
        w0,
        lam=job.lam,
        step_size=_step_size(panel, job),
        epochs=job.epochs,
        average=job.average or "weighted",
        rng=job.rng,
        callback=callback,
    )


def _step_size(panel: ModuleType, job: Job) -> Any:
    if job.schedule is None:
        return job.step_size
    kind, options = SCHEDULES[job.schedule]
    given = [getattr(job, option) for option in options]
    if job.schedule == "pegasos":
        return panel.Pegasos(0.0 if given[0] is None else given[0])
    for option, value in zip(options, given, strict=True):
        if value is None:
            raise ValueError(f"--schedule {job.schedule} needs --{option.replace('_', '-')}")
    return getattr(panel, kind)(*given)


def accuracy(model: Any, w: np.ndarray, data: Sequences) -> dict[str, float]:
    """Share of right labels by position (letter) and by whole sequence (word)."""
    guess = model.predict(model.pack(data.X), None, w)
    return _accuracy(data.Y, guess)


def _accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> dict[str, float]:
    return {"letter": position_accuracy(truth, guess), "word": sequence_accuracy(truth, guess)}
