"""The optimisers by name: a small objective for each, the options of a short run, and what a run owes besides."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np

import reference
from reference.bounds import Corollary18
from reference.online_mkl.rounds import KernelProblem
from reference.steps import InverseSqrt

__all__ = [
    "LAM",
    "OPTIMISERS",
    "RUNS",
    "chains",
    "flat",
    "loss_of",
    "objective_of",
    "parts",
    "run",
    "short",
    "takes",
    "unit",
    "value",
]

LAM = 0.1  # of every run, unless a test says otherwise


class Optimiser(NamedTuple):
    """A run that no tolerance ends.

    loss: of its objective. options: of the run. calls: oracle calls for each example, before the passes and in each;
    None where a search decides. averages: which weights it may return. too_long: options of steps that no run survives.
    """

    loss: str
    options: dict[str, Any]
    calls: tuple[int, int] | None = (0, 1)
    averages: tuple[str, ...] = ()
    too_long: dict[str, Any] | None = None


TWO, LONG = ("last", "uniform"), {"step_size": 1e200}
OPTIMISERS = {
    "sgd": Optimiser("entropy", {"mu": 0.5}, None, averages=("last", "uniform", "weighted"), too_long=LONG),
    "online_proximal": Optimiser(
        "entropy", {"mu": 0.5, "step_size": 0.2}, averages=TWO, too_long={"sigma": 1.0, **LONG}
    ),
    "svrg": Optimiser("entropy", {"mu": 0.5, "step_size": 0.05}, (0, 2), TWO, LONG),
    "casimir": Optimiser("entropy", {"mu": 0.5, "kappa": 0.1, "step_size": 0.05}, (0, 2)),
    "bcfw": Optimiser("hinge", {"tol": None}, averages=("last", "weighted")),
    "exponentiated_gradient": Optimiser("log loss", {"tol": None}),
    "multisample": Optimiser("hinge", {"tol": None, "k": 2}, averages=TWO),
    "cutting_planes": Optimiser("hinge", {"tol": None}),
    "prox_linear": Optimiser("entropy", {"mu": 0.3, "L": 3.0, "eta": 0.5, "budget": 1}, (1, 4)),
    "lbfgs": Optimiser("entropy", {"mu": 0.5, "tol": 0.0}, None),
    "solve_sparse": Optimiser("log loss", {"tol": 0.0}, None),
    "mkl": Optimiser("hinge", {"step_size": 0.2}, averages=TWO),
}
# runs that are cut in two, by the state they have: optimiser, more options, the loss
RUNS = [
    ("sgd", {"average": "weighted"}, "log loss"),
    ("sgd", {"average": "last", "batch_size": 2, "step_size": 0.1}, "hinge"),
    ("svrg", {}, "log loss"),
    ("svrg", {"mu": 0.3, "average": "uniform"}, "entropy"),
    ("casimir", {}, "entropy"),
    ("casimir", {"mu": 0.5, "warm_start": "extrapolated"}, "entropy"),
    ("casimir", {"inner": "gradient"}, "log loss"),
    ("casimir", {"inner": "saga", "schedule": Corollary18(0.1, 0.2, 1.0)}, "entropy"),
    ("casimir_svrg_adapt", {}, "entropy"),
    ("bcfw", {"tol": None, "capacity": 2}, "hinge"),
    ("bcfw", {"tol": None, "average": "weighted", "cached_passes": 0}, "hinge"),
    ("exponentiated_gradient", {"tol": None}, "log loss"),
    ("exponentiated_gradient", {"tol": None, "mu": 0.4, "sampling": "permutation"}, "entropy"),
    ("multisample", {"tol": None, "k": 2}, "hinge"),
    ("multisample", {"tol": None, "k": 2, "sampler": "gibbs", "update": "exact", "average": "uniform"}, "hinge"),
    ("multisample", {"tol": None, "k": 2, "online": True}, "hinge"),
    ("cutting_planes", {"tol": None, "capacity": 4}, "hinge"),
    ("lbfgs", {"tol": 0.0}, "log loss"),
    ("lbfgs", {"tol": 0.0, "mu": 0.3, "memory": 2}, "entropy"),
    ("online_proximal", {"step_size": 0.2, "average": "uniform"}, "log loss"),
    ("online_proximal", {"step_size": 0.1, "sigma": 0.2, "batch_size": 2}, "hinge"),
    ("mkl", {"step_size": InverseSqrt(0.4), "average": "last"}, "hinge"),
    ("mkl", {"step_size": InverseSqrt(0.4), "average": "uniform"}, "hinge"),
    ("mkl", {"step_size": InverseSqrt(0.4), "average": "last", "loss": "crf"}, "hinge"),
    ("mkl", {"step_size": InverseSqrt(0.4), "average": "uniform", "loss": "crf"}, "hinge"),
    ("prox_linear", {}, "entropy"),
    ("prox_linear", {"schedule": "const", "mu": 0.2, "L": 5.0}, "entropy"),
    ("prox_linear", {"tolerance": 0.5}, "entropy"),
    ("prox_linear", {"accept": "always", "eta": 50.0}, "entropy"),
]


def takes(name):
    """The names of an optimiser's parameters; presets of Casimir have its own."""
    return inspect.signature(getattr(reference, "casimir" if name.startswith("casimir") else name)).parameters


def unit(name):
    """What its passes are called."""
    return "epochs" if "epochs" in takes(name) else "iterations"


def chains(backend, like=None, seed=7):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in (2, 3, 1, 3, 2)]
    model = backend.SequenceModel(3, 3)
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X], like=like)


def loss_of(backend, kind, model, data):
    if kind == "log loss":
        return backend.LogLoss(model, data)
    smoothing = backend.smoothings.Entropy() if kind == "entropy" else backend.smoothings.Max()
    return backend.StructuralHinge(model, data, smoothing=smoothing)


def kernels(backend, like=None):
    rng = np.random.default_rng(7)
    X = [rng.normal(size=(n, 3)) for n in (2, 4, 1, 3, 0)]
    groups = [backend.kernels.Linear(), backend.kernels.Explicit(), backend.kernels.Gaussian(1.0)]
    model = backend.KernelSequenceModel(groups, 3)
    return KernelProblem(model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X], like=like))


def objective_of(backend, name, like=None, loss=None):
    """Five short sequences, under the loss of the table or another."""
    return (
        kernels(backend, like)
        if name == "mkl"
        else loss_of(backend, loss or OPTIMISERS[name].loss, *chains(backend, like))
    )


def run(backend, name, objective, *start, **options):
    """The optimiser's result, with the group lasso where it takes regularizers; LAM unless options say otherwise."""
    learner = getattr(backend, name)
    if name == "mkl":
        return learner(objective.model, objective.data, **{"lam": LAM, **options})
    if name == "online_proximal":
        lam = options.pop("lam", LAM)
        if "regularizer" not in options:
            options["regularizer"] = backend.L21(lam, np.arange(objective.model.size) // 4)
        return learner(objective, options.pop("regularizer"), *start, **options)
    return learner(objective, *start, **{"beta" if name == "solve_sparse" else "lam": LAM, **options})


def short(backend, name, objective, passes, *start, **more):
    """The result of so many passes with the options of the table, and more."""
    options = {unit(name): passes, **({"rng": 4} if "rng" in takes(name) else {}), **OPTIMISERS[name].options, **more}
    return run(backend, name, objective, *start, **options)


def value(name, objective, x, mu=None):
    """What a run minimises, by its definition; mu: of the smoothing, where it is part of that."""
    if name == "mkl":
        return objective.model.mean_loss(objective.data, x, "hinge") + 0.5 * LAM * np.sqrt(x.squared_norms).sum() ** 2
    loss = objective.value_and_gradient(x, None, 0.0 if name in ("casimir", "prox_linear") else mu)[0]
    if name == "online_proximal":  # the group lasso of ``run``
        return loss + LAM * sum(np.linalg.norm(x[g : g + 4]) for g in range(0, len(x), 4))
    return loss + 0.5 * LAM * x @ x + (LAM * np.abs(x).sum() if name == "solve_sparse" else 0.0)


def parts(x):
    """The arrays of weights: several of a kernel model."""
    return (*x.coefficients, x.transitions) if hasattr(x, "beta") else (x,)


def flat(x):
    """Weights as one vector of the host, which nothing changes."""
    return np.concatenate([np.ravel(each) for each in parts(x)])
