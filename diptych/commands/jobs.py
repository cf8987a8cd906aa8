"""A training job as a value: what the command line, ``compare`` and ``demo`` run in either panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.regularizers import REGULARIZERS, check_regularizer, regularizer_of
from diptych.files.sequences import load_sequences
from diptych.metrics import position_accuracy, sequence_accuracy
from reference.archives import MOST_BYTES
from reference.datasets import Sequences, load_letters
from reference.models.kernel_sequence import KernelWeights
from reference.objectives import StructuralHinge
from reference.training.casimir import CHOICES
from reference.training.inner import INNER
from reference.training.result import Callback, Result

__all__ = [
    "AVERAGES",
    "CASIMIR",
    "EPOCHS",
    "HINGE_ONLY",
    "INNER",
    "LOSSES",
    "OPTIMIZERS",
    "SAMPLERS",
    "SCHEDULES",
    "SMOOTHINGS",
    "STARTS",
    "STOPS",
    "UPDATES",
    "WARM_STARTS",
    "Job",
    "accuracy",
    "check_scorable",
    "check_start",
    "going_on",
    "labellings",
    "load",
    "loss_of",
    "objective_of",
    "start",
    "train",
]

LOSSES = ("crf", "hinge")
# the optimisers, and which of the job's options each understands
OPTIMIZERS = {
    "sgd": ("mu", "average", "schedule", "step_size", "step_offset", "step_every"),
    "lbfgs": ("mu",),
    "svrg": ("mu", "average", "step_size", "tol"),
    "casimir": ("mu", "kappa", "step_size", "tol", "inner", "stop", "warm_start"),
    "casimir-svrg-const": ("mu", "kappa", "step_size", "tol", "warm_start"),
    "casimir-svrg-adapt": ("mu", "kappa", "step_size", "tol", "warm_start"),
    "bcfw": ("average", "tol"),
    "exponentiated-gradient": ("mu", "step_size", "tol"),
    "multisample": ("average", "tol", "sampler", "update", "mu"),
    "cutting-planes": ("tol",),
    "online-proximal": (
        *("mu", "average", "schedule", "step_size", "step_offset", "step_every"),
        *("regularizer", "sigma", "tau", "group_tau", "power", "radius", "groups"),
    ),
}
CASIMIR = ("casimir", "casimir-svrg-const", "casimir-svrg-adapt")
STARTS = ("sgd", "lbfgs", "svrg", *CASIMIR, "online-proximal")  # these start from any weights
HINGE_ONLY = ("bcfw", "multisample", "cutting-planes")  # these solve the dual of the hinge without a smoothing
# and how many passes each makes (L-BFGS: iterations) where the job does not say
EPOCHS = {
    "sgd": 10,
    "lbfgs": 100,
    "svrg": 50,
    "casimir": 50,
    "casimir-svrg-const": 50,
    "casimir-svrg-adapt": 50,
    "bcfw": 100,
    "exponentiated-gradient": 100,
    "multisample": 100,
    "cutting-planes": 1000,
    "online-proximal": 10,
}
SMOOTHINGS = ("entropy", "l2", "top-k")
AVERAGES = {
    "sgd": ("weighted", "uniform", "last"),
    "svrg": ("uniform", "last"),
    "bcfw": ("weighted", "last"),
    "multisample": ("uniform", "last"),
    "online-proximal": ("uniform", "last"),
}
SAMPLERS, UPDATES = ("topk", "gibbs"), ("moves", "exact")
STOPS, WARM_STARTS = CHOICES["stop"], CHOICES["warm_start"]
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
    lam: float | None = None  # None: 0.01, or 0 where the regularizer has no squared term
    epochs: int | None = None  # None: as many as EPOCHS says
    rng: int = 0
    smoothing: str | None = None  # of the hinge: one of SMOOTHINGS; None: the max itself, entropy for svrg and casimir
    k: int | None = None  # outputs of the smoothing "top-k" or of a multi-sample update; None: 5
    mu: float | None = None
    kappa: float | None = None
    inner: str | None = None  # of casimir: one of INNER; None: svrg
    stop: str | None = None  # of casimir: one of STOPS; None: budget
    warm_start: str | None = None  # of casimir: one of WARM_STARTS; None: center
    tol: float | None = None  # relative gap to stop at
    sampler: str | None = None  # of multisample: one of SAMPLERS; None: topk
    update: str | None = None  # of multisample: one of UPDATES; None: moves
    average: str | None = None  # None: the optimiser's default
    schedule: str | None = None
    step_size: float | None = None
    step_offset: float | None = None
    step_every: float | None = None
    regularizer: str | None = None  # of online-proximal: one of REGULARIZERS; None: squared-l21
    sigma: float | None = None
    tau: float | None = None
    group_tau: float | None = None
    power: float | None = None
    radius: float | None = None
    groups: str | None = None  # columns, labels or a file; None: columns
    start_stop: bool = True
    scale: float = 0.0  # of the random start; 0 starts from zero

    def __post_init__(self) -> None:
        """Refuse options that would have no effect, and combinations that make no objective."""
        for name, choices in (
            ("loss", LOSSES),
            ("optimizer", OPTIMIZERS),
            ("smoothing", SMOOTHINGS),
            ("schedule", SCHEDULES),
            ("sampler", SAMPLERS),
            ("update", UPDATES),
            ("inner", INNER),
            ("stop", STOPS),
            ("warm_start", WARM_STARTS),
            ("regularizer", REGULARIZERS),
        ):
            value = getattr(self, name)
            if value not in choices and not (value is None and name not in ("loss", "optimizer")):
                raise ValueError(f"--{name.replace('_', '-')}: expected one of {', '.join(choices)}, got {value!r}")
        if self.epochs is None:
            object.__setattr__(self, "epochs", EPOCHS[self.optimizer])
        if self.k is not None and self.k < 1:
            raise ValueError(f"--k: expected an integer >= 1, got {self.k}")
        if self.optimizer in CASIMIR and self.mu == 0:
            raise ValueError(f"--mu: {self.optimizer} needs a smoothing strength > 0, got 0")
        every = {option for options in OPTIMIZERS.values() for option in options}
        self._unused(*sorted(every - set(OPTIMIZERS[self.optimizer])), why=f"--optimizer {self.optimizer}")
        if self.optimizer == "online-proximal":
            object.__setattr__(self, "regularizer", self.regularizer or "squared-l21")
            check_regularizer(self)
        if self.lam is None:
            has_lam = self.regularizer is None or "lam" in REGULARIZERS[self.regularizer]
            object.__setattr__(self, "lam", 0.01 if has_lam else 0.0)
        if self.average is not None and self.average not in AVERAGES[self.optimizer]:
            expected = ", ".join(AVERAGES[self.optimizer])
            raise ValueError(f"--average: {self.optimizer} returns one of {expected}, got {self.average}")
        if self.optimizer in ("sgd", "online-proximal") and self.schedule is None:
            self._unused("step_offset", "step_every", why="no --schedule")
        elif self.schedule is not None:
            used = SCHEDULES[self.schedule][1]
            others = ("step_size", "step_offset", "step_every")
            self._unused(*(name for name in others if name not in used), why=f"--schedule {self.schedule}")
        if self.loss == "crf":
            self._unused("smoothing", "k", "mu", why="--loss crf")
            if self.optimizer in (*HINGE_ONLY, "casimir-svrg-adapt"):
                raise ValueError(f"--optimizer {self.optimizer} needs --loss hinge")
        elif self.optimizer in HINGE_ONLY:
            self._unused("smoothing", why=f"--optimizer {self.optimizer}, which needs no smoothing")
            if self.optimizer != "multisample":
                self._unused("k", why=f"--optimizer {self.optimizer}, which needs no smoothing")
            elif self.sampler != "gibbs":
                self._unused("mu", why="no --sampler gibbs")
        else:
            if self.smoothing != "top-k":
                self._unused("k", why="no --smoothing top-k")
            if self.optimizer == "svrg" and not self.mu:
                raise ValueError("--optimizer svrg with --loss hinge needs a smoothing strength --mu > 0")
            if self.optimizer == "exponentiated-gradient" and self.smoothing not in (None, "entropy"):
                raise ValueError("--optimizer exponentiated-gradient needs --smoothing entropy, or none")
            if self.smoothing is None and self.optimizer in (
                "sgd",
                "lbfgs",
                "exponentiated-gradient",
                "online-proximal",
            ):
                self._unused("mu", why="no --smoothing")
            elif self.smoothing is not None and not self.mu and self.optimizer not in CASIMIR:
                raise ValueError(f"--smoothing {self.smoothing} needs a strength --mu > 0")

    def _unused(self, *names: str, why: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} has no effect with {why}")

    def as_dict(self) -> dict[str, Any]:
        """The job as a plain dictionary, for JSON and model files."""
        return asdict(self)


def load(name: str, *, labelled: bool = True, most_bytes: int = MOST_BYTES) -> Sequences:
    """``letters``, or the sequence file at that path."""
    if name == "letters":
        return load_letters()
    if not Path(name).exists():
        raise ValueError(f"{name}: no such file (the data set that comes with diptych is called letters)")
    return load_sequences(name, labelled=labelled, most_bytes=most_bytes)


def check_scorable(name: str, *parts: Sequences) -> None:
    """ValueError for data without a position: there is nothing to train on, and no share of right labels."""
    for data in parts:
        if not any(map(len, data.Y)):
            what = "no sequences" if not data.X else "no positions in its sequences"
            raise ValueError(f"{name}: {what} to train on or to score")


def objective_of(panel: ModuleType, job: Job, data: Sequences, model: Any = None) -> Any:
    """The job's objective over packed data; its ``model`` (a new one, unless one is given) and ``data`` are what evaluation needs."""
    if not data.X:
        raise ValueError(f"{data.name}: no sequences to train on")
    if model is None:
        model = panel.SequenceModel(data.X[0].shape[1], data.labels, start_stop=job.start_stop)
    return loss_of(panel, job, model, model.pack(data.X, data.Y))


def loss_of(panel: ModuleType, job: Job, model: Any, packed: Any) -> Any:
    """The job's loss of a model over packed data."""
    if job.loss == "crf":
        return panel.LogLoss(model, packed)
    return panel.StructuralHinge(model, packed, smoothing=_smoothing(panel, job))


def _smoothing(panel: ModuleType, job: Job) -> Any:
    if job.smoothing == "top-k":
        return panel.smoothings.TopK(5 if job.k is None else job.k)
    if job.smoothing == "l2":
        return panel.smoothings.SquaredL2()
    smooth = job.smoothing == "entropy" or job.optimizer in ("svrg", *CASIMIR)
    return panel.smoothings.Entropy() if smooth else panel.smoothings.Max()


def start(job: Job, size: int) -> np.ndarray:
    """The start: ``scale`` times normal draws of the job's rng (at w = 0 every hinge argmax is a tie)."""
    return job.scale * np.random.default_rng(job.rng).normal(size=size)


def going_on(optimizer: str, checkpoint: str | None, resume: str | None) -> dict[str, Any]:
    """The two options as the optimiser takes them."""
    given = {"checkpoint": checkpoint, "resume": resume}
    given = {name: path for name, path in given.items() if path is not None}
    if given and optimizer == "lbfgs":
        raise ValueError(
            f"--{next(iter(given))}: lbfgs has no checkpoints, as SciPy keeps its memory to itself; --save the model and go on with --start"
        )
    return given


def check_start(optimizer: str) -> None:
    """Refuse a start for an optimiser that has its own."""
    if optimizer not in STARTS:
        raise ValueError(
            f"--start: {optimizer} starts from a point of its dual problem, which weights do not give; {', '.join(STARTS)} take a start"
        )


def train(
    panel: ModuleType,
    job: Job,
    objective: StructuralHinge,
    callback: Callback | None = None,
    *,
    w0: np.ndarray | None = None,
    checkpoint: str | None = None,
    resume: str | None = None,
) -> Result:
    """Run the job's optimiser from its start, or from w0."""
    w0 = start(job, objective.model.size) if w0 is None else w0
    run: Callable[..., Result] = getattr(panel, job.optimizer.replace("-", "_"))
    options: dict[str, Any] = {"lam": job.lam, "callback": callback, **going_on(job.optimizer, checkpoint, resume)}
    if job.optimizer == "lbfgs":
        return run(objective, w0, iterations=job.epochs, mu=job.mu, **options)
    if job.optimizer == "cutting-planes":  # starts from its plane 0: w = 0
        return run(objective, epochs=job.epochs, **options, **_given(job, "tol"))
    options |= {"rng": job.rng}
    if job.optimizer in CASIMIR:
        return run(objective, w0, epochs=job.epochs, **options, **_given(job, *OPTIMIZERS[job.optimizer]))
    if job.average is not None:
        options |= {"average": job.average}
    if job.optimizer == "online-proximal":
        del options["lam"]  # it is in the regularizer
        step_size = (
            panel.steps.InverseSqrt(0.1) if job.schedule is None and job.step_size is None else _step_size(panel, job)
        )
        options |= {"step_size": step_size, "mu": job.mu, **_given(job, "sigma")}
        return run(objective, regularizer_of(panel, job, objective.model), w0, epochs=job.epochs, **options)
    if job.optimizer == "svrg":
        options |= {"mu": job.mu, "step_size": job.step_size, "tol": job.tol}
        return run(objective, w0, epochs=job.epochs, **options)
    if job.optimizer == "bcfw":  # starts where every example has its true output: w = 0
        return run(objective, epochs=job.epochs, **options, **_given(job, "tol"))
    if job.optimizer == "exponentiated-gradient":  # starts where every example has its true output: w = 0
        return run(objective, epochs=job.epochs, **options, **_given(job, *OPTIMIZERS[job.optimizer]))
    if job.optimizer == "multisample":  # starts without blocks: w = 0
        options |= _given(job, "tol", "k", "sampler", "update", "mu")
        return run(objective, epochs=job.epochs, **options)
    return run(objective, w0, mu=job.mu, step_size=_step_size(panel, job), epochs=job.epochs, **options)


def _given(job: Job, *names: str) -> dict[str, Any]:
    """The options that the job names; the others are the optimiser's own."""
    return {name: value for name in names if (value := getattr(job, name)) is not None}


def _step_size(panel: ModuleType, job: Job) -> Any:
    if job.schedule is None:
        return job.step_size
    kind, options = SCHEDULES[job.schedule]
    given = [getattr(job, option) for option in options]
    if job.schedule == "pegasos":
        return panel.steps.Pegasos(0.0 if given[0] is None else given[0])
    for option, value in zip(options, given, strict=True):
        if value is None:
            raise ValueError(f"--schedule {job.schedule} needs --{option.replace('_', '-')}")
    return getattr(panel.steps, kind)(*given)


def labellings(model: Any, w: Any, data: Sequences) -> list[np.ndarray]:
    """The labels that a model gives, of the data's sequences; w: its weights (d,), or those of kernels. A model of classes gives each position's by itself."""
    if type(model).__name__ == "MulticlassModel":
        flat = model.predict(model.pack(np.concatenate([np.zeros((0, model.n_features)), *data.X])), None, w)
        return np.split(np.array(flat, np.int64), np.cumsum([len(x) for x in data.X])[:-1])
    kernels = isinstance(w, KernelWeights)
    found: list[np.ndarray] = model.predict(w, data.X) if kernels else model.predict(model.pack(data.X), None, w)
    return found


def accuracy(model: Any, w: Any, data: Sequences) -> dict[str, float]:
    """Share of right labels by position (letter) and by whole sequence (word)."""
    return _accuracy(data.Y, labellings(model, w, data))


def _accuracy(truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> dict[str, float]:
    return {"letter": position_accuracy(truth, guess), "word": sequence_accuracy(truth, guess)}
