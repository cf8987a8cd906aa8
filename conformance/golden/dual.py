"""Golden runs of the learners with a dual point, of multiple kernels, and of sparse CRFs with screening."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from conformance.golden.problems import Problems, Runs, over
from conformance.specimens.fixed import LABELS, numbers

__all__ = ["bcfw", "cutting_planes", "exponentiated_gradient", "mkl", "multisample", "solve_sparse", "sparse_path"]

HINGE = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "my-classes", "trees", "parsing", "boxes"]
HINGE += ["windows", "listed", "subset"]


def bcfw(P: Problems) -> Runs:
    go = partial(P.run, P.backend.bcfw, rng=0, epochs=3, tol=None)
    for model in [*HINGE, "cuts", "alignment", "restricted"]:
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/hinge/plain", go(f"{model}/hinge", cached_passes=0, average="weighted")
    options = {
        "line_search=False": {"line_search": False},
        "cached_passes=1": {"cached_passes": 1},
        "capacity=1": {"capacity": 1},
        "average=weighted": {"average": "weighted", "cached_passes": 2},
    }
    yield from over(go, ("chain/hinge", "mine/hinge", "boxes/hinge", "cuts/hinge", "parsing/hinge"), options)
    yield from over(go, ("chain/hinge", "trees/hinge", "tags-all/hinge"), {"capacity=3": {"capacity": 3}}, epochs=12)
    options = {
        "tol reached": {"tol": 0.05, "epochs": 50},
        "tol missed": {"tol": 1e-9, "epochs": 2},
        "tol=0": {"tol": 0.0, "epochs": 2},
        "lam": {"lam": 1.3},
    }
    yield from over(go, ("chain/hinge", "classes/hinge", "cuts/hinge"), options)
    yield "chain/hinge/tol at the start", go("chain/hinge", tol=2.0)
    yield "chain/w-hinge", go("chain/w-hinge")
    yield "listed/w-hinge", go("listed/w-hinge", cached_passes=0)
    yield "chain/hinge/rng=Generator", go("chain/hinge", rng=np.random.default_rng(5))


def exponentiated_gradient(P: Problems) -> Runs:
    go = partial(P.run, P.backend.exponentiated_gradient, rng=0, epochs=4, tol=None)
    for model in ("chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "boxes", "listed"):
        yield f"{model}/log", go(f"{model}/log")
    for model in ("chain", "mine", "tags", "classes", "trees", "listed"):
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/entropy", go(f"{model}/entropy", mu=0.5)
    options = {
        "sampling=permutation": {"sampling": "permutation"},
        "step_size": {"step_size": 0.9},
        "evaluate_every=3": {"evaluate_every": 3, "epochs": 7},
        "tol reached": {"tol": 0.05, "epochs": 60},
        "tol missed": {"tol": 1e-9, "evaluate_every": 2},
    }
    yield from over(go, ("chain/log", "mine/log"), options)
    yield "chain/hinge/step_size", go("chain/hinge", step_size=0.5)
    yield "chain/my-log", go("chain/my-log")
    yield "chain/my-entropy", go("chain/my-entropy", mu=0.5)
    yield "chain/log/rng=Generator", go("chain/log", rng=np.random.default_rng(5))


def multisample(P: Problems) -> Runs:
    go = partial(P.run, P.backend.multisample, rng=0, epochs=3, tol=None, k=3)
    for model in ("chain", "mine", "tags", "classes", "my-classes", "trees", "parsing", "boxes", "alignment", "listed"):
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/hinge/exact", go(f"{model}/hinge", update="exact")
    for model in ("windows", "subset"):
        yield f"{model}/hinge/k=1", go(f"{model}/hinge", k=1)
    options = {
        "gibbs": {"sampler": "gibbs", "mu": 0.7},
        "online": {"online": True},
        "online, exact, uniform": {"online": True, "update": "exact", "average": "uniform"},
        "average=uniform": {"average": "uniform", "k": 1},
    }
    yield from over(go, ("chain/hinge", "classes/hinge", "trees/hinge"), options)
    yield "chain/w-hinge", go("chain/w-hinge")
    options = {
        "k beyond": {"k": 10},
        "tol reached": {"tol": 0.1, "epochs": 100},
        "tol missed": {"tol": 1e-9},
        "gibbs, rng=Generator": {"sampler": "gibbs", "rng": np.random.default_rng(5)},
    }
    yield from over(go, ("classes/hinge",), options)


def cutting_planes(P: Problems) -> Runs:
    go = partial(P.run, P.backend.cutting_planes, epochs=5, tol=None)
    for model in HINGE:
        yield f"{model}/hinge", go(f"{model}/hinge")
    options = {
        "capacity=2": {"capacity": 2, "epochs": 8},
        "capacity=8": {"capacity": 8, "epochs": 20},
        "tol reached": {"tol": 0.2, "epochs": 100},
        "tol missed": {"tol": 1e-9},
        "lam": {"lam": 2.0},
    }
    yield from over(go, ("chain/hinge", "listed/hinge"), options)
    yield "chain/w-hinge", go("chain/w-hinge")


def kernels(P: Problems, transitions: str = "own", storage: str = "auto", groups: str = "all") -> tuple[Any, Any]:
    """A model of several kernels and its data."""
    B = P.backend
    choices = {
        "all": [B.kernels.Linear(), B.kernels.Gaussian(2.0), B.kernels.Polynomial(3, 0.5)],
        "spline": [B.kernels.B1Spline(2.5), B.kernels.Gaussian(2.0)],
        "explicit": [B.kernels.Explicit(), B.kernels.Gaussian(2.0)],
        "mean": [B.kernels.Mean([B.kernels.Linear(), B.kernels.Gaussian(2.0)]), B.kernels.Polynomial(2)],
        "one": [B.kernels.Gaussian(2.0)],
    }
    X = [numbers(120 + i, max(len(y), 1), 2) for i, y in enumerate(LABELS)]
    if groups == "spline":  # distances of whole numbers are exact, those near 0 lose half their digits
        X = [np.round(2.0 * x) for x in X]
    model = B.KernelSequenceModel(choices[groups], 3, transitions=transitions)
    return model, model.pack(X, [y or [1] for y in LABELS], storage=storage)


def mkl(P: Problems) -> Runs:
    B, lam = P.backend, P.lam

    def go(loss: str, groups: str = "all", transitions: str = "own", storage: str = "auto", **options: Any) -> Any:
        given = {"loss": loss, "step_size": B.steps.InverseSqrt(0.5), "epochs": 3, "rng": 0, **options}
        if "penalty" not in given:
            given = {"lam": lam, **given}
        return partial(B.mkl, *kernels(P, transitions, storage, groups), **given)

    options: dict[str, dict[str, Any]] = {kind: {"transitions": kind} for kind in ("own", "each", "free")}
    options |= {kind: {"groups": kind} for kind in ("explicit", "spline", "mean", "one")}
    options |= {kind: {"storage": kind, "average": "uniform"} for kind in ("dense", "blocks")}
    options |= {"radius": {"radius": 0.2}, "sigma": {"sigma": lam, "step_size": B.steps.Pegasos(offset=10.0)}}
    yield from over(go, ("hinge", "crf"), options)
    penalties = {
        "HalfSquaredL2": B.HalfSquaredL2(lam),
        "L1": B.L1(0.3 * lam),
        "ElasticNet": B.ElasticNet(B.L1(lam), lam),
    }
    options = {title: {"penalty": penalty} for title, penalty in penalties.items()}
    options |= {"evaluate_every=2": {"evaluate_every": 2, "epochs": 5}, "number": {"step_size": 0.1}}
    options |= {"lam=0": {"lam": 0.0}, "rng=Generator": {"rng": np.random.default_rng(5)}}
    yield from over(go, ("crf",), options)


def solve_sparse(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, share: float = 0.4, start: bool = False, **options: Any) -> partial[Any]:
        objective = P.objective(name)
        first = (P.start(name),) if start else ()
        beta = share * B.beta_max(objective)
        return partial(B.solve_sparse, objective, *first, **{"beta": beta, "iterations": 8, **options})

    names = [f"{name}/log" for name in ("chain", "mine", "tags", "tags-all", "classes", "trees", "boxes", "listed")]
    yield from over(go, names, {"alpha=1": {"alpha": 1.0}, "alpha=0": {"alpha": 0.0}})
    rules = {
        "none": None,
        "L1GapRule": B.L1GapRule(),
        "CountRule": B.CountRule(),
        "L2GapRule": B.L2GapRule(),
        "UnionRule": B.UnionRule(B.CountRule(), B.L1GapRule()),
    }
    solvers = {"newton": B.ProximalNewton(), "gradient": B.AcceleratedProximalGradient()}
    for title, rule in rules.items():
        for of, solver in solvers.items():
            name = "listed/log" if title == "L2GapRule" else "classes/log"
            yield f"{name}/rule={title}, {of}", go(name, 0.8, rule=rule, solver=solver, iterations=20)
    for half_spaces in ("random", "all", "none"):
        rule = B.HalfSpaceRule(half_spaces=half_spaces, rng=0)
        yield f"classes/log/half_spaces={half_spaces}", go("classes/log", 0.9, rule=rule)
    steps = {"curvature": 2.0, "grow": 2.0, "shrink": 1.0, "skip_zeros": False}
    options = {
        "L2GapRule": {"rule": B.L2GapRule()},
        "solver=memory": {"solver": B.ProximalNewton(memory=1)},
        "solver=largest": {"solver": B.ProximalNewton(largest=1)},
        "solver=steps": {"solver": B.AcceleratedProximalGradient(**steps)},
        "w0": {"start": True},
        "gamma": {"gamma": 0.05, "tol": 1e-3},
        "beyond beta_max": {"share": 1.5},
        "missed": {"share": 0.05, "iterations": 2, "tol": 1e-12},
    }
    yield from over(go, ("chain/log",), options)


def sparse_path(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, **options: Any) -> partial[Any]:
        return partial(B.sparse_path, P.objective(name), **{"count": 3, "iterations": 20, **options})

    for model in ("chain", "classes", "listed", "trees"):
        yield f"{model}/log", go(f"{model}/log")
        yield f"{model}/log/alpha=0", go(f"{model}/log", alpha=0.0)
    options = {
        "solver": {"solver": B.AcceleratedProximalGradient()},
        "rule=None": {"rule": None},
        "ratio": {"ratio": 0.5, "tol": 1e-3},
        "betas": {"count": None, "betas": [0.2, 0.1]},
    }
    yield from over(go, ("classes/log",), options)
