"""Training jobs as values. ``train``, ``tag``, ``compare`` and ``demo`` run them in either panel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.options import Words, did_you_mean, flag, option, refuse
from diptych.commands.solvers import epochs_of, given, own, solve, takes
from diptych.defaults import sequence_lam
from diptych.files.sequences import read_sequences
from diptych.files.text import load_text
from diptych.metrics import position_accuracy, sequence_accuracy
from reference.archives import MOST_BYTES
from reference.datasets import Sequences, load_letters
from reference.models.kernel_sequence import KernelWeights
from reference.training.result import Callback, Result

LOSSES = ("crf", "hinge", "softmax-margin")
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
REGULARIZERS = {  # the class of each, and its arguments, which are options of the job
    "l1": ("L1", "tau"),
    "l2": ("HalfSquaredL2", "lam"),
    "elastic-net": ("ElasticNet", "tau", "lam"),
    "l21": ("L21", "tau", "groups"),
    "squared-l21": ("SquaredL21", "lam", "groups"),
    "elastic-net-mkl": ("ElasticNetMKL", "tau", "lam", "groups"),
    "non-sparse-mkl": ("NonSparseMKL", "lam", "power", "groups"),
    "sparse-group-lasso": ("SparseGroupLasso", "tau", "groups", "group_tau"),
    "l21-ball": ("L21Ball", "radius", "groups"),
}
OPTIONS = ("tau", "group_tau", "power", "radius", "groups")
OF_REGULARIZERS = ("regularizer", *OPTIONS)


class Regularized(Words):
    """The options of the online proximal algorithm."""

    regularizer: str | None = option("solver",
        "regularizer of online-proximal; lam is the weight of its squared terms (default: squared-l21)",
        choices=sorted(REGULARIZERS), rare=True)  # fmt: skip
    tau: float | None = option("solver",
        "weight of the norms of l1, elastic-net, l21, elastic-net-mkl, sparse-group-lasso", rare=True)  # fmt: skip
    group_tau: float | None = option("solver", "sparse-group-lasso's weight of the groups' norms", rare=True)
    power: float | None = option("solver", "non-sparse-mkl: lam/2 times the sum of the groups' norms to this power",
        rare=True)  # fmt: skip
    radius: float | None = option("solver", "l21-ball: upper bound of the sum of the groups' norms", rare=True)
    groups: str | None = option("solver",
        "groups of weights: by feature, by label, or by a file with a group number per feature and line, -1 for "
        "none (default: columns). Transitions, starts and ends are a group of their own; by label, they "
        "go with the label they lead to", metavar="columns|labels|FILE", rare=True)  # fmt: skip


class Solved(Words):
    """The options of a job, None where they are not given. Commands say which optimisers and defaults they have."""

    loss: str | None = option("solver", "crf: log loss, hinge, softmax-margin (default: crf)", choices=LOSSES)
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
            self._check_regularizer(REGULARIZERS[self.regularizer or ""])
        if self.lam is None and self.regularizer is not None and "lam" not in REGULARIZERS[self.regularizer]:
            object.__setattr__(self, "lam", 0.0)
        self._check_schedule()
        self._check_loss()

    def over(self, n: int) -> Job:
        """The job on n sequences, which decide lam if it is not given."""
        return self if self.lam is not None else replace(self, lam=sequence_lam(n))

    @property
    def title(self) -> str:
        """The title of its picture."""
        return f"{self.loss}, {self.optimizer}, lam = {self.lam:g}"

    def as_dict(self) -> dict[str, Any]:
        """The job as a plain dictionary, for JSON and model files."""
        return {name: getattr(self, name) for name in NAMES} | self.solver

    def _check_regularizer(self, allowed: Sequence[str]) -> None:
        """Reject options that the regularizer does not have, and a regularizer without its required options."""
        refuse(vars(self), (name for name in OPTIONS if name not in allowed), f"with --regularizer {self.regularizer}")
        for name in OPTIONS:
            if getattr(self, name) is None and name in allowed and name != "groups":
                raise ValueError(f"--regularizer {self.regularizer} needs --{name.replace('_', '-')}")
        if self.lam and "lam" not in allowed:
            raise ValueError(f"--lam has no effect with --regularizer {self.regularizer}")
        if self.power is not None and self.power < 1:
            raise ValueError(f"--power: expected a number >= 1, got {self.power}")

    def _check_schedule(self) -> None:
        """Reject options of other schedules and optimisers."""
        told, has = self.as_dict(), () if self.schedule is None else SCHEDULES[self.schedule][1]
        why = "with no --schedule" if self.schedule is None else f"with --schedule {self.schedule}"
        if self.optimizer not in SCHEDULED:
            has, why = (), f"with --optimizer {self.optimizer}; these have it: {', '.join(SCHEDULED)}"
            refuse(told, ["schedule"], why)
        others = ("step_offset", "step_every") if self.schedule is None else ("step_offset", "step_every", "step_size")
        refuse(told, (name for name in others if name not in has), why)
        if self.optimizer != "online-proximal":
            refuse(told, OF_REGULARIZERS, f"with --optimizer {self.optimizer}; these have it: online-proximal")

    def _check_loss(self) -> None:
        """Reject a loss that the optimiser does not support, and smoothing options without effect."""
        optimizer, told, mu = self.optimizer, self.as_dict(), self.solver.get("mu")
        if self.loss != "hinge":
            refuse(told, ("smoothing", "k", "mu"), f"with --loss {self.loss}")
            if optimizer in (*HINGE_ONLY, "casimir-svrg-adapt"):
                raise ValueError(f"--optimizer {optimizer} needs --loss hinge")
            return
        if optimizer in HINGE_ONLY:
            none = ("smoothing",) if "k" in own(optimizer) else ("smoothing", "k")
            refuse(told, none, f"with --optimizer {optimizer}, which needs no smoothing")
            if self.solver.get("sampler") != "gibbs":
                refuse(told, ["mu"], "with no --sampler gibbs")
        if self.smoothing != "top-k" and "k" not in self.solver:
            refuse(told, ["k"], "with no --smoothing top-k")
        if optimizer in CASIMIR and mu == 0:
            raise ValueError(f"--mu: {optimizer} needs a smoothing strength > 0, got 0")
        if optimizer == "svrg" and not mu:
            raise ValueError("--optimizer svrg with --loss hinge needs a smoothing strength --mu > 0")
        if optimizer == "exponentiated-gradient" and self.smoothing not in (None, "entropy"):
            raise ValueError("--optimizer exponentiated-gradient needs --smoothing entropy, or none")
        if self.smoothing is None and optimizer not in (*CASIMIR, "svrg", *HINGE_ONLY):
            refuse(told, ["mu"], "with no --smoothing")
        if self.smoothing is not None and not mu and optimizer not in CASIMIR:
            raise ValueError(f"--smoothing {self.smoothing} needs a strength --mu > 0")

    # what it means in a panel

    def loss_in(self, panel: ModuleType) -> Callable[..., Any]:
        """The loss, from a model and packed data."""
        if self.loss != "hinge":
            return partial(panel.LogLoss, **({} if self.loss == "crf" else {"cost": True}))
        usual, of = "entropy" if self.optimizer in ("svrg", *CASIMIR) else "max", panel.smoothings
        top_k = partial(of.TopK, 5 if self.k is None else self.k)
        kinds = {"entropy": of.Entropy, "l2": of.SquaredL2, "max": of.Max, "top-k": top_k}
        return partial(panel.StructuralHinge, smoothing=kinds[self.smoothing or usual]())

    def step_size_in(self, panel: ModuleType) -> Any:
        """The step size: a number, a schedule, or None for the default of the optimiser."""
        step_size = self.solver.get("step_size")
        if self.schedule is None:
            return panel.steps.InverseSqrt(0.1) if step_size is None and self.regularizer is not None else step_size
        kind, names = SCHEDULES[self.schedule]
        values = {"step_size": step_size, "step_offset": self.step_offset or 0.0, "step_every": self.step_every}
        for name in names:
            if values[name] is None:
                raise ValueError(f"--schedule {self.schedule} needs --{name.replace('_', '-')}")
        return getattr(panel.steps, kind)(*(values[name] for name in names))

    def regularizer_in(self, panel: ModuleType, model: Any) -> Any:
        """The regularizer of a sequence model's weights."""
        kind, *names = REGULARIZERS[self.regularizer or ""]
        values = [groups_of(model, self.groups or "columns") if x == "groups" else getattr(self, x) for x in names]
        if self.regularizer == "elastic-net":
            values[0] = panel.L1(self.tau)
        return getattr(panel, kind)(*values)


NAMES = tuple(name for name in Job.__dataclass_fields__ if name not in ("solver", "tol", "mu"))


# a job from a command -----------------------------------------------------------------------------------------------


def job_of(command: Any, optimizers: Sequence[str] = OPTIMIZERS, **usual: Any) -> Job:
    """The job of a command; usual: the command's defaults."""
    fields = usual | {name: value for name in NAMES if (value := getattr(command, name, None)) is not None}
    solver = fields.get("optimizer", "sgd")
    of_solver = given({**command.solver, "k": None}, solver, optimizers)
    if "k" in own(solver) and fields.get("k") is not None:
        of_solver["k"] = fields.pop("k")
    if fields.get("k") is not None and fields["k"] < 1:
        raise ValueError(f"--k: expected an integer >= 1, got {fields['k']}")
    return Job(**fields, solver=of_solver)


def learner_job(command: Any, learner: str, kind: Callable[..., Any], *files: str) -> Any:
    """The job of a learner that is not a :class:`Job`. ValueError for an option of another learner.

    kind: a dataclass of the learner's options. files: further options that it takes.
    """
    names = tuple(inspect.signature(kind).parameters)
    every = (*NAMES, "start", "checkpoint", "resume", "l1", "c1", "c2", "dev", *names)
    told = {name: getattr(command, name, None) for name in every} | command.solver
    values = {name: value for name, value in told.items() if value is not None and name not in files}
    for name in values:
        if name not in names:
            option = ("" if values[name] is not False else "no-") + name.replace("_", "-")
            raise ValueError(f"--{option} has no effect with --learner {learner}")
    return kind(**values)


# training


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
    """The job's objective over the data, for a new model unless one is given."""
    if not data.X:
        raise ValueError(f"{data.name}: no sequences to train on")
    if model is None:
        model = panel.SequenceModel(data.X[0].shape[1], data.labels, start_stop=job.start_stop)
    return job.loss_in(panel)(model, model.pack(data.X, data.Y))


def train(
    panel: ModuleType, job: Job, objective: Any, callback: Callback | None = None, *, w0: Any = None, **files: Any
) -> Result:
    """Run the job's optimiser from w0, by default ``scale`` times normal draws of its rng, as at 0 every argmax of a
    hinge is a tie. files: ``checkpoint`` and ``resume``.
    """
    arguments: dict[str, Any] = {"lam": job.lam, "epochs": job.epochs, "rng": job.rng, **job.solver, **files}
    if takes(job.optimizer, "w0"):
        usual = job.scale * np.random.default_rng(job.rng).normal(size=objective.model.size)
        arguments["w0"] = usual if w0 is None else w0
    if job.optimizer in SCHEDULED:
        arguments["step_size"] = job.step_size_in(panel)
    if job.regularizer is not None:
        arguments["regularizer"] = job.regularizer_in(panel, objective.model)
    return solve(panel, job.optimizer, objective, callback=callback, **arguments)


def limited(n: int, limit: int | None) -> np.ndarray:
    """The indices of ``limit`` of n examples, spread evenly as files are often sorted; all if ``limit`` is None."""
    return np.arange(n) if limit is None or limit >= n else np.arange(limit) * n // limit


def spread(examples: Any, limit: int | None) -> list[Any]:
    """``limit`` of the examples, as :func:`limited` chooses them."""
    return [examples[i] for i in limited(len(examples), limit)]


def labellings(model: Any, w: Any, data: Sequences) -> list[np.ndarray]:
    """The labels for each sequence, by weights w (d,) or KernelWeights. Classes are predicted position by position."""
    if type(model).__name__ == "MulticlassModel":
        rows = np.concatenate([np.zeros((0, model.n_features - model.intercept)), *data.X])
        flat = np.array(model.predict(model.pack(rows), None, w), np.int64)
        return np.split(flat, np.cumsum([len(x) for x in data.X])[:-1])
    kernels = isinstance(w, KernelWeights)
    labels: list[np.ndarray] = model.predict(w, data.X) if kernels else model.predict(model.pack(data.X), None, w)
    return labels


def accuracy(model: Any, w: Any, data: Sequences) -> dict[str, float]:
    """The shares of positions ("letter") and of sequences ("word") with right labels."""
    truth, predicted = data.Y, labellings(model, w, data)
    return {"letter": position_accuracy(truth, predicted), "word": sequence_accuracy(truth, predicted)}


def accuracies(model: Any, w: Any, training: Sequences, test: Sequences | None) -> dict[str, Any]:
    """The accuracies on the training and the test data, and the number of test sequences, for a report."""
    of_test = (None, None) if test is None else (accuracy(model, w, test), len(test.X))
    return {"train": accuracy(model, w, training), "test": of_test[0], "test_sequences": of_test[1]}


def accuracy_line(name: str, scores: dict[str, float]) -> str:
    """The shares as text."""
    return f"{name:5} accuracy {', '.join(f'by {what} {100 * share:.2f} %' for what, share in scores.items())}"


def accuracy_lines(report: dict[str, Any]) -> list[str]:
    """A line of accuracies for the training data, and one for the test data."""
    lines = [accuracy_line("train", report["train"])]
    if report["test"] is not None:
        lines.append(f"{accuracy_line('test', report['test'])}, of {report['test_sequences']} sequences")
    return lines


# groups of weights ---------------------------------------------------------------------------------------------------


def groups_of(model: Any, groups: str) -> np.ndarray:
    """The group of each weight (d,).

    groups: "columns" (a group for each feature), "labels" (a group for each label), or a file with the group number of
    one feature on each line (-1: no group). The weights of transitions, starts and ends form a group of their own; by
    label, each goes with the label that it leads to.
    """
    F, L = model.n_features, model.n_labels
    rows = (model.size - L * L) // L
    if groups == "labels":
        return np.tile(np.arange(L), rows + L)
    number = np.arange(F)
    if groups != "columns":
        if not Path(groups).is_file():
            raise ValueError(f"--groups: expected columns, labels or a file, got {groups}: no such file")
        numbers = []
        for place, line in enumerate(load_text(groups), 1):  # # starts a comment
            if value := line.partition("#")[0].strip():
                try:
                    numbers.append(np.int64(int(value)))
                except (ValueError, OverflowError):
                    where = f"--groups: {groups}, line {place}"
                    raise ValueError(f"{where}: expected an integer, got {value!r:.80}") from None
        number = np.array(numbers, np.int64)
        if number.shape != (F,) or number.min(initial=0) < -1:
            problem = f"{len(number)} of them" if number.shape != (F,) else f"{number.min()} among them"
            raise ValueError(f"--groups: {groups}: expected {F} integers >= -1, one a feature, got {problem}")
        none = number == -1
        # renumber as 0, 1, ..., and -1
        number = np.unique(number, return_inverse=True)[1].reshape(-1) - bool(np.any(none))
    rest = np.full((rows - F) * L + L * L, number.max(initial=-1) + 1)
    return np.concatenate([np.repeat(number, L), rest])
