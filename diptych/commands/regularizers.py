"""The regularizers of the online proximal algorithm by name, and groups of a sequence labeller's weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.options import Words, option
from diptych.files.text import load_text

# the job's options that each regularizer has
REGULARIZERS = {
    "l1": ("tau",),
    "l2": ("lam",),
    "elastic-net": ("tau", "lam"),
    "l21": ("tau", "groups"),
    "squared-l21": ("lam", "groups"),
    "elastic-net-mkl": ("tau", "lam", "groups"),
    "non-sparse-mkl": ("lam", "power", "groups"),
    "sparse-group-lasso": ("tau", "group_tau", "groups"),
    "l21-ball": ("radius", "groups"),
}
GROUPED = tuple(name for name, options in REGULARIZERS.items() if "groups" in options)
OPTIONS = ("tau", "group_tau", "power", "radius", "groups")


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


def check_regularizer(job: Any) -> None:
    """Reject options that the job's regularizer does not have, and a regularizer without its required options."""
    allowed = REGULARIZERS[job.regularizer]
    for name in OPTIONS:
        option, value = f"--{name.replace('_', '-')}", getattr(job, name)
        if value is not None and name not in allowed:
            raise ValueError(f"{option} has no effect with --regularizer {job.regularizer}")
        if value is None and name in allowed and name != "groups":
            raise ValueError(f"--regularizer {job.regularizer} needs {option}")
    if job.lam and "lam" not in allowed:
        raise ValueError(f"--lam has no effect with --regularizer {job.regularizer}")
    if job.power is not None and job.power < 1:
        raise ValueError(f"--power: expected a number >= 1, got {job.power}")


def regularizer_of(panel: ModuleType, job: Any, model: Any) -> Any:
    """The job's regularizer of a sequence model's weights."""
    groups = groups_of(model, job.groups or "columns") if job.regularizer in GROUPED else None
    make: dict[str, Callable[[], Any]] = {
        "l1": lambda: panel.L1(job.tau),
        "l2": lambda: panel.HalfSquaredL2(job.lam),
        "elastic-net": lambda: panel.ElasticNet(panel.L1(job.tau), job.lam),
        "l21": lambda: panel.L21(job.tau, groups),
        "squared-l21": lambda: panel.SquaredL21(job.lam, groups),
        "elastic-net-mkl": lambda: panel.ElasticNetMKL(job.tau, job.lam, groups),
        "non-sparse-mkl": lambda: panel.NonSparseMKL(job.lam, job.power, groups),
        "sparse-group-lasso": lambda: panel.SparseGroupLasso(job.tau, groups, job.group_tau),
        "l21-ball": lambda: panel.L21Ball(job.radius, groups),
    }
    return make[job.regularizer]()


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
        number = _numbers(groups)
        if number.shape != (F,) or number.min(initial=0) < -1:
            problem = f"{len(number)} of them" if number.shape != (F,) else f"{number.min()} among them"
            raise ValueError(f"--groups: {groups}: expected {F} integers >= -1, one a feature, got {problem}")
        none = number == -1
        # renumber as 0, 1, ..., and -1
        number = np.unique(number, return_inverse=True)[1].reshape(-1) - bool(np.any(none))
    rest = np.full((rows - F) * L + L * L, number.max(initial=-1) + 1)
    return np.concatenate([np.repeat(number, L), rest])


def _numbers(path: str) -> np.ndarray:
    """The integers of a file, one per line; # starts a comment."""
    numbers = []
    for place, line in enumerate(load_text(path), 1):
        if value := line.partition("#")[0].strip():
            try:
                numbers.append(np.int64(int(value)))
            except (ValueError, OverflowError):
                raise ValueError(f"--groups: {path}, line {place}: expected an integer, got {value!r:.80}") from None
    return np.array(numbers, np.int64)
