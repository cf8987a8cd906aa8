"""Training jobs as values. ``train``, ``tag``, ``compare`` and ``demo`` run them in either panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.options import Words, flag, option
from diptych.commands.parser import did_you_mean
from diptych.commands.regularizers import OPTIONS, REGULARIZERS, Regularized, check_regularizer, regularizer_of
from diptych.commands.solvers import epochs_of, given, own, solve, takes
from diptych.defaults import sequence_lam
from diptych.files.sequences import read_sequences
from diptych.metrics import position_accuracy, sequence_accuracy
from reference.archives import MOST_BYTES
from reference.datasets import Sequences, load_letters
from reference.models.kernel_sequence import KernelWeights
from reference.training.result import Callback, Result

LOSSES = ("crf", "hinge")
CASIMIR = ("casimir", "casimir-svrg-const", "casimir-svrg-adapt")
HINGE_ONLY = ("bcfw", "multisample", "cutting-planes")  # they solve the dual of the hinge without smoothing
OPTIMIZERS = ("sgd", "lbfgs", "svrg", *CASIMIR, "bcfw", "exponentiated-gradient", *HINGE_ONLY[1:], "online-proximal")
SCHEDULED = ("sgd", "online-proximal")  # their step size may be a schedule
SMOOTHINGS = ("entropy", "l2", "top-k")
SCHEDULES = {
    "constant": ("Constant", ("step_size",)),
    "inverse-time": ("InverseTime", ("step_size",)),
    "inverse-sqrt": ("InverseSqrt", ("step_size",)),
    "pegasos": ("Pegasos", ("step_offset",)),
    "steps": ("Steps", ("step_size", "step_every")),
}


class Solved(Words):
    """The options of a job, None where they are not given. Commands say which optimisers they have, and what their
    defaults are.
    """

    loss: str | None = option("solver", "crf: log loss; hinge: structural SVM (default: crf)", choices=LOSSES)
    optimizer: str | None = None
    lam: float | None = flag()
    epochs: int | None = flag()
    tol: float | None = flag()
    rng: int | None = flag()
    smoothing: str | None = option("solver", "smoothing of the hinge (default: none; entropy for svrg and casimir)",
        choices=SMOOTHINGS, rare=True)  # fmt: skip
    mu: float | None = option("solver", "strength of the smoothing; temperature of --sampler gibbs", rare=True)
    k: int | None = option("solver", "number of outputs of --smoothing top-k and of multisample (default: 5)",
        rare=True)  # fmt: skip
    schedule: str | None = option("solver", f"step sizes of {' and '.join(SCHEDULED)}", choices=sorted(SCHEDULES),
        rare=True)  # fmt: skip
    step_offset: float | None = option("solver",
        "offset of --schedule pegasos: 1/(lam (t + offset)); online-proximal: sigma instead of lam",
        rare=True)  # fmt: skip
    step_every: float | None = option("solver", "with --schedule steps: gamma0/(1 + floor(t / this))", rare=True)
    solver: dict[str, Any] = field(default_factory=dict)


class Job(Regularized, Solved):
    """A training job: the options of ``train`` and ``compare`` with their defaults.

    Where they are None, lam is 0 if the regularizer has no squared term, else see :meth:`over`; epochs are the solver's
    own; smoothing of the hinge is entropy for svrg and casimir, else the max. scale: of the random start; 0: start from
    zero. solver: the optimiser's own parameters by name, ``tol`` and ``mu`` among them.
    """

    loss: str = "crf"
    optimizer: str = "sgd"
    rng: int = 0
    start_stop: bool = True
    scale: float = 0.0

    def __post_init__(self) -> None:
        """Fill in the optimiser's defaults. Reject options without effect and combinations without an objective."""
        if self.epochs is None:
            object.__setattr__(self, "epochs", epochs_of(self.optimizer))
        if self.optimizer == "online-proximal":
            object.__setattr__(self, "regularizer", self.regularizer or "squared-l21")
            check_regularizer(self)
        if self.lam is None and self.regularizer is not None and "lam" not in REGULARIZERS[self.regularizer]:
            object.__setattr__(self, "lam", 0.0)
        _check_schedule(self)
        _check_loss(self)

    def over(self, n: int) -> Job:
        """The job on n sequences, which decide lam if it is not given."""
        return self if self.lam is not None else replace(self, lam=sequence_lam(n))

    def as_dict(self) -> dict[str, Any]:
        """The job as a plain dictionary, for JSON and model files."""
        return {name: getattr(self, name) for name in NAMES} | self.solver


NAMES = tuple(name for name in Job.__dataclass_fields__ if name not in ("solver", "tol", "mu"))


def _check_schedule(job: Job) -> None:
    """Reject options of other schedules and optimisers."""
    has = () if job.schedule is None else SCHEDULES[job.schedule][1]
    why = "no --schedule" if job.schedule is None else f"--schedule {job.schedule}"
    if job.optimizer not in SCHEDULED:
        has, why = (), f"--optimizer {job.optimizer}; these have it: {', '.join(SCHEDULED)}"
        _refuse(job, "schedule", why=why)
    _refuse(job, *(name for name in ("step_offset", "step_every") if name not in has), why=why)
    if job.schedule is not None and "step_size" not in has:
        _refuse(job, "step_size", why=why)
    if job.optimizer != "online-proximal":
        _refuse(job, "regularizer", *OPTIONS, why=f"--optimizer {job.optimizer}; these have it: online-proximal")


def _check_loss(job: Job) -> None:
    """Reject a loss that the optimiser does not support, and smoothing options without effect."""
    optimizer, mu = job.optimizer, job.solver.get("mu")
    if job.loss == "crf":
        _refuse(job, "smoothing", "k", "mu", why="--loss crf")
        if optimizer in (*HINGE_ONLY, "casimir-svrg-adapt"):
            raise ValueError(f"--optimizer {optimizer} needs --loss hinge")
        return
    if optimizer in HINGE_ONLY:
        none = ("smoothing",) if "k" in own(optimizer) else ("smoothing", "k")
        _refuse(job, *none, why=f"--optimizer {optimizer}, which needs no smoothing")
        if job.solver.get("sampler") != "gibbs":
            _refuse(job, "mu", why="no --sampler gibbs")
    if job.smoothing != "top-k" and "k" not in job.solver:
        _refuse(job, "k", why="no --smoothing top-k")
    if optimizer in CASIMIR and mu == 0:
        raise ValueError(f"--mu: {optimizer} needs a smoothing strength > 0, got 0")
    if optimizer == "svrg" and not mu:
        raise ValueError("--optimizer svrg with --loss hinge needs a smoothing strength --mu > 0")
    if optimizer == "exponentiated-gradient" and job.smoothing not in (None, "entropy"):
        raise ValueError("--optimizer exponentiated-gradient needs --smoothing entropy, or none")
    if job.smoothing is None and optimizer not in (*CASIMIR, "svrg", *HINGE_ONLY):
        _refuse(job, "mu", why="no --smoothing")
    if job.smoothing is not None and not mu and optimizer not in CASIMIR:
        raise ValueError(f"--smoothing {job.smoothing} needs a strength --mu > 0")


def _refuse(job: Job, *names: str, why: str) -> None:
    for name in names:
        if job.as_dict().get(name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} has no effect with {why}")


# a job from a command -----------------------------------------------------------------------------------------------


def job_of(command: Any, optimizers: Sequence[str] = OPTIMIZERS, **usual: Any) -> Job:
    """The job of a command; usual: the command's defaults."""
    values = {name: getattr(command, name, None) for name in NAMES}
    fields = usual | {name: value for name, value in values.items() if value is not None}
    solver = fields.get("optimizer", "sgd")
    of_solver = given({**command.solver, "k": None}, solver, optimizers)
    if "k" in own(solver) and fields.get("k") is not None:
        of_solver["k"] = fields.pop("k")
    if fields.get("k") is not None and fields["k"] < 1:
        raise ValueError(f"--k: expected an integer >= 1, got {fields['k']}")
    return Job(**fields, solver=of_solver)


def refuse_options(command: Any, names: Iterable[str], learner: str) -> None:
    """Raise ValueError for an option of another learner."""
    for name in names:
        if getattr(command, name, None) is not None:
            raise ValueError(f"--{name.replace('_', '-')} has no effect without --learner {learner}")


def learner_options(command: Any, learner: str, names: Iterable[str]) -> dict[str, Any]:
    """The options of a learner that is not a :class:`Job`. ValueError for an option of another learner."""
    every = (*NAMES, "start", "checkpoint", "resume", *names)
    told = {name: getattr(command, name, None) for name in every} | command.solver
    values = {name: value for name, value in told.items() if value is not None}
    for name in values:
        if name not in names:
            option = ("" if values[name] is not False else "no-") + name.replace("_", "-")
            raise ValueError(f"--{option} has no effect with --learner {learner}")
    return values


# training ------------------------------------------------------------------------------------------------------------


def load(name: str, *, labelled: bool = True, most_bytes: int = MOST_BYTES) -> Sequences:
    """The data set ``letters``, or the sequence file at the path ``name``."""
    if name == "letters":
        return load_letters()
    if not Path(name).exists():
        hint = did_you_mean(name, ["letters"]) or " (the data set that comes with diptych is called letters)"
        raise ValueError(f"{name}: no such file{hint}")
    return read_sequences(name, labelled=labelled, most_bytes=most_bytes)


def check_scorable(name: str, *parts: Sequences) -> None:
    """Raise ValueError for data without any position: it can be neither trained on nor scored."""
    for data in parts:
        if not any(map(len, data.Y)):
            what = "no sequences" if not data.X else "no positions in its sequences"
            raise ValueError(f"{name}: {what} to train on or to score")


def objective_of(panel: ModuleType, job: Job, data: Sequences, model: Any = None) -> Any:
    """The job's objective over the data, for a new model unless one is given. It has the model and the packed data as
    ``model`` and ``data``.
    """
    if not data.X:
        raise ValueError(f"{data.name}: no sequences to train on")
    if model is None:
        model = panel.SequenceModel(data.X[0].shape[1], data.labels, start_stop=job.start_stop)
    return loss_of(panel, job, model, model.pack(data.X, data.Y))


def loss_of(panel: ModuleType, job: Job, model: Any, packed: Any) -> Any:
    """The job's loss for a model and packed data."""
    if job.loss == "crf":
        return panel.LogLoss(model, packed)
    return panel.StructuralHinge(model, packed, smoothing=smoothing_of(panel, job))


def smoothing_of(panel: ModuleType, job: Job) -> Any:
    """The smoothing of the job's hinge."""
    if job.smoothing == "top-k":
        return panel.smoothings.TopK(5 if job.k is None else job.k)
    if job.smoothing == "l2":
        return panel.smoothings.SquaredL2()
    smooth = job.smoothing == "entropy" or job.optimizer in ("svrg", *CASIMIR)
    return panel.smoothings.Entropy() if smooth else panel.smoothings.Max()


def start(job: Job, size: int) -> np.ndarray:
    """The start: ``scale`` times normal draws of the job's rng. At w = 0 every argmax of the hinge is a tie."""
    return job.scale * np.random.default_rng(job.rng).normal(size=size)


def train(
    panel: ModuleType,
    job: Job,
    objective: Any,
    callback: Callback | None = None,
    *,
    w0: np.ndarray | None = None,
    checkpoint: str | None = None,
    resume: str | None = None,
) -> Result:
    """Run the job's optimiser from its start, or from w0."""
    arguments: dict[str, Any] = {"lam": job.lam, "epochs": job.epochs, "rng": job.rng, **job.solver}
    arguments |= {"checkpoint": checkpoint, "resume": resume}
    if takes(job.optimizer, "w0"):
        arguments["w0"] = start(job, objective.model.size) if w0 is None else w0
    if job.optimizer in SCHEDULED:
        arguments["step_size"] = _step_size(panel, job)
    if job.regularizer is not None:
        arguments["regularizer"] = regularizer_of(panel, job, objective.model)
    return solve(panel, job.optimizer, objective, callback=callback, **arguments)


def _step_size(panel: ModuleType, job: Job) -> Any:
    """The step size: a number, a schedule, or None for the default of the optimiser."""
    step_size = job.solver.get("step_size")
    if job.schedule is None:
        return panel.steps.InverseSqrt(0.1) if step_size is None and job.regularizer is not None else step_size
    kind, names = SCHEDULES[job.schedule]
    values = {"step_size": step_size, "step_offset": job.step_offset, "step_every": job.step_every}
    if job.schedule == "pegasos":
        return panel.steps.Pegasos(job.step_offset or 0.0)
    for name in names:
        if values[name] is None:
            raise ValueError(f"--schedule {job.schedule} needs --{name.replace('_', '-')}")
    return getattr(panel.steps, kind)(*(values[name] for name in names))


def limited(n: int, limit: int | None) -> np.ndarray:
    """The indices of ``limit`` of n examples, spread evenly as files are often sorted; all if ``limit`` is None."""
    return np.arange(n) if limit is None or limit >= n else np.arange(limit) * n // limit


def labellings(model: Any, w: Any, data: Sequences) -> list[np.ndarray]:
    """The labels that a model predicts for each sequence. A model of classes predicts each position by itself.

    w: the model's weights (d,), or KernelWeights.
    """
    if type(model).__name__ == "MulticlassModel":
        flat = model.predict(
            model.pack(np.concatenate([np.zeros((0, model.n_features - model.intercept)), *data.X])), None, w
        )
        return np.split(np.array(flat, np.int64), np.cumsum([len(x) for x in data.X])[:-1])
    kernels = isinstance(w, KernelWeights)
    labels: list[np.ndarray] = model.predict(w, data.X) if kernels else model.predict(model.pack(data.X), None, w)
    return labels


def accuracy(model: Any, w: Any, data: Sequences) -> dict[str, float]:
    """The shares of positions ("letter") and of sequences ("word") with right labels."""
    truth, predicted = data.Y, labellings(model, w, data)
    return {"letter": position_accuracy(truth, predicted), "word": sequence_accuracy(truth, predicted)}


def accuracies(model: Any, w: Any, training: Sequences, test: Sequences | None) -> dict[str, Any]:
    """The accuracies on the training and the test data, and the number of test sequences, for a report."""
    return {
        "train": accuracy(model, w, training),
        "test": None if test is None else accuracy(model, w, test),
        "test_sequences": None if test is None else len(test.X),
    }


def accuracy_line(name: str, scores: dict[str, float]) -> str:
    """The shares as text."""
    return f"{name:5} accuracy by letter {100 * scores['letter']:.2f} %, by word {100 * scores['word']:.2f} %"


def accuracy_lines(report: dict[str, Any]) -> list[str]:
    """A line of accuracies for the training data, and one for the test data."""
    lines = [accuracy_line("train", report["train"])]
    if report["test"] is not None:
        lines.append(f"{accuracy_line('test', report['test'])}, of {report['test_sequences']} sequences")
    return lines
