"""Golden runs of prox-linear, of multiple kernels, and of sparse CRFs with screening."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from conformance.golden.problems import LABELS, Problems
from conformance.golden.watching import stopped, watched

__all__ = ["kernels", "mkl", "prox_linear", "solve_sparse", "sparse_path"]

Runs = Iterator[tuple[str, Callable[[], Any]]]


def prox_linear(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, start: bool = True, **options: Any) -> partial[Any]:
        given = {"rng": 0, "iterations": 3, "budget": 2, "eta": 0.5, **options}
        return P.run(B.prox_linear, name, start=start, **given)

    for name in ("network/entropy", "network/top2", "network/l2", "network/log", "network/w-entropy", "network/w-log"):
        yield name, go(name)
    for name in ("chain/entropy", "classes/log", "listed/entropy", "boxes/top2", "mine/entropy"):
        yield name, go(name)

    def up(problem: Any) -> Any:
        """An inner solver that leaves its start for something worse."""
        return B.lbfgs(problem.objective, problem.start + 1.5, lam=problem.lam, iterations=0)

    for name in ("network/entropy", "network/top2"):
        yield f"{name}/schedule=const", go(name, schedule="const", mu=0.7)
        yield f"{name}/L", go(name, L=3.0, mu=0.7)
        yield f"{name}/large eta", go(name, eta=64.0, iterations=6)
        yield f"{name}/fixed eta", go(name, eta=8.0, fixed_eta=True)
        yield f"{name}/fixed eta, accept=always", go(name, eta=8.0, fixed_eta=True, accept="always")
        for accept in ("decrease", "always"):
            yield f"{name}/inner goes up, accept={accept}", go(name, accept=accept, inner=up, fixed_eta=True)
        yield f"{name}/w0=None", go(name, start=False)
        yield f"{name}/iterations=0", go(name, iterations=0)
    yield "network/entropy/lam=0", go("network/entropy", lam=0.0)
    yield "network/entropy/tolerance", go("network/entropy", budget=None, tolerance=0.3, iterations=2)
    yield "network/entropy/tolerance missed", go("network/entropy", tolerance=1e-6)
    yield "network/log/tolerance, tol reached", go("network/log", budget=None, tolerance=0.05, tol=0.5, iterations=9)
    yield "network/log/tol missed", go("network/log", tol=1e-9)
    yield "network/entropy/inner goes up", go("network/entropy", inner=up)
    inner = {
        "bcfw": lambda p: B.bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng, callback=p.solved),
        "svrg": lambda p: B.svrg(p.objective, p.start, lam=p.lam, mu=p.mu, epochs=p.passes, rng=p.rng),
        "lbfgs": lambda p: B.lbfgs(p.objective, p.start, lam=p.lam, mu=p.mu, iterations=p.passes),
    }
    yield "network/hinge/inner=bcfw", go("network/hinge", inner=inner["bcfw"], budget=4)
    yield "network/hinge/inner=bcfw, tolerance", go("network/hinge", inner=inner["bcfw"], budget=40, tolerance=0.2)
    yield "network/hinge/inner=bcfw, tol", go("network/hinge", inner=inner["bcfw"], budget=20, tol=1e-3)
    yield "network/entropy/inner=svrg", go("network/entropy", inner=inner["svrg"], mu=0.5)
    yield "network/log/inner=lbfgs", go("network/log", inner=inner["lbfgs"])
    yield "network/log/inner gives nothing", go("network/log", inner=lambda p: None)
    yield "network/entropy/rng=Generator", go("network/entropy", start=False, rng=np.random.default_rng(5))
    yield from stopped("network/entropy", go("network/entropy", iterations=5), 2)
    yield "network/entropy/watched", watched(go("network/entropy"))


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
    X = [P.numbers(120 + i, max(len(y), 1), 2) for i, y in enumerate(LABELS)]
    if groups == "spline":  # distances of whole numbers are exact, those near 0 lose half their digits
        X = [np.round(2.0 * x) for x in X]
    model = B.KernelSequenceModel(choices[groups], 3, transitions=transitions)
    return model, model.pack(X, [y or [1] for y in LABELS], storage=storage)


def mkl(P: Problems) -> Runs:
    B, lam = P.backend, P.lam

    def go(groups: str = "all", transitions: str = "own", storage: str = "auto", **options: Any) -> partial[Any]:
        given = {"step_size": B.steps.InverseSqrt(0.5), "epochs": 3, "rng": 0, **options}
        if "penalty" not in given:
            given = {"lam": lam, **given}
        return partial(B.mkl, *kernels(P, transitions, storage, groups), **given)

    for loss in ("hinge", "crf"):
        for transitions in ("own", "each", "free"):
            yield f"{loss}/{transitions}", go(transitions=transitions, loss=loss)
        for groups in ("explicit", "spline", "mean", "one"):
            yield f"{loss}/{groups}", go(groups, loss=loss)
        for storage in ("dense", "blocks"):
            yield f"{loss}/{storage}", go(storage=storage, loss=loss, average="uniform")
        yield f"{loss}/radius", go(loss=loss, radius=0.2)
        yield f"{loss}/sigma", go(loss=loss, sigma=lam, step_size=B.steps.Pegasos(offset=10.0))
    penalties = {
        "HalfSquaredL2": B.HalfSquaredL2(lam),
        "L1": B.L1(0.3 * lam),
        "ElasticNet": B.ElasticNet(B.L1(lam), lam),
    }
    for title, penalty in penalties.items():
        yield f"crf/{title}", go(loss="crf", penalty=penalty)
    yield "crf/evaluate_every=2", go(loss="crf", evaluate_every=2, epochs=5)
    yield "crf/number", go(loss="crf", step_size=0.1)
    yield "crf/lam=0", go(loss="crf", lam=0.0)
    yield "crf/epochs=0", go(loss="crf", epochs=0)
    yield "crf/rng=Generator", go(loss="crf", rng=np.random.default_rng(5))
    yield from stopped("crf", go(loss="crf", epochs=6), 2)
    yield "crf/watched", watched(go("one", loss="crf", epochs=2))


def solve_sparse(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, share: float = 0.4, start: bool = False, **options: Any) -> partial[Any]:
        objective = P.objective(name)
        first = (P.start(name),) if start else ()
        beta = share * B.beta_max(objective)
        return partial(B.solve_sparse, objective, *first, **{"beta": beta, "iterations": 8, **options})

    for model in ("chain", "mine", "tags", "tags-all", "classes", "trees", "boxes", "listed"):
        for alpha in (1.0, 0.0):
            yield f"{model}/log/alpha={alpha:g}", go(f"{model}/log", alpha=alpha)
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
    yield "chain/log/L2GapRule", go("chain/log", rule=B.L2GapRule())
    yield "chain/log/solver=memory", go("chain/log", solver=B.ProximalNewton(memory=1))
    yield "chain/log/solver=largest", go("chain/log", solver=B.ProximalNewton(largest=1))
    steps = {"curvature": 2.0, "grow": 2.0, "shrink": 1.0, "skip_zeros": False}
    yield "chain/log/solver=steps", go("chain/log", solver=B.AcceleratedProximalGradient(**steps))
    yield "chain/log/w0", go("chain/log", start=True)
    yield "chain/log/gamma", go("chain/log", gamma=0.05, tol=1e-3)
    yield "chain/log/beyond beta_max", go("chain/log", 1.5)
    yield "chain/log/iterations=0", go("chain/log", iterations=0)
    yield "chain/log/missed", go("chain/log", 0.05, iterations=2, tol=1e-12)
    yield from stopped("chain/log", go("chain/log", 0.05, tol=1e-12), 2)
    yield "chain/log/watched", watched(go("chain/log", iterations=3))


def sparse_path(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, **options: Any) -> partial[Any]:
        return partial(B.sparse_path, P.objective(name), **{"count": 3, "iterations": 20, **options})

    for model in ("chain", "classes", "listed", "trees"):
        yield f"{model}/log", go(f"{model}/log")
        yield f"{model}/log/alpha=0", go(f"{model}/log", alpha=0.0)
    yield "classes/log/solver", go("classes/log", solver=B.AcceleratedProximalGradient())
    yield "classes/log/rule=None", go("classes/log", rule=None)
    yield "classes/log/ratio", go("classes/log", ratio=0.5, tol=1e-3)
    yield "classes/log/betas", go("classes/log", count=None, betas=[0.2, 0.1])
    yield "classes/log/callback", go("classes/log", callback=lambda point: point.nonzeros > 0)
