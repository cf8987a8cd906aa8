"""Golden runs of the learners without a dual point: sgd, L-BFGS, online proximal steps, SVRG, Casimir, prox-linear."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import reference.bounds as bounds
from conformance.golden.problems import Problems, Runs, over

__all__ = ["casimir", "lbfgs", "online_proximal", "prox_linear", "sgd", "svrg"]

LOG = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "parsing-root", "boxes"]
LOG += ["network", "listed", "subset", "restricted"]
HINGE = [*LOG, "my-classes", "parsing-blocks", "windows", "cuts", "alignment"]
TOP_K = ["chain", "mine", "tags", "trees", "boxes", "network", "alignment", "cuts"]


def smooth(name: str) -> dict[str, Any]:
    """The options that make an objective smooth."""
    return {} if name.endswith("log") or "/" not in name else {"mu": 0.5}


def sgd(P: Problems) -> Runs:
    B = P.backend
    go = partial(P.run, B.sgd, start=True, rng=0)
    for name in [f"{model}/log" for model in LOG] + [f"{model}/hinge" for model in HINGE]:
        yield name, go(name, epochs=2)
    for name in [f"{model}/entropy" for model in LOG] + [f"{model}/top2" for model in TOP_K]:
        yield name, go(name, epochs=2, mu=0.5)
    for name in ("chain/l2", "mine/l2", "listed/l2", "classes/l2", "boxes/l2"):
        yield name, go(name, epochs=2, mu=0.5, average="uniform")
    weighted = ("chain/w-log", "chain/w-hinge", "trees/w-hinge", "network/w-hinge")
    for name in (*weighted, "plain", "chain/my-log", "tags/my-log"):
        yield name, go(name, epochs=3)
    averages = {f"average={kind}": {"average": kind} for kind in ("last", "uniform")}
    names = ("chain/log", "mine/log", "tags/hinge", "parsing/log", "boxes/hinge", "network/hinge", "cuts/hinge")
    yield from over(go, names, averages, epochs=2, step_size=0.1)
    schedules = {
        "number": 0.05,
        "Constant": B.steps.Constant(0.05),
        "InverseTime": B.steps.InverseTime(0.3),
        "InverseSqrt": B.steps.InverseSqrt(0.2),
        "Pegasos": B.steps.Pegasos(),
        "Pegasos offset": B.steps.Pegasos(offset=7.5),
        "Steps": B.steps.Steps(0.3, 4.0),
        "function": lambda t, lam: 0.1 / (1.0 + lam * t),
        "integers": lambda t, lam: np.ones(len(t), dtype=int),
    }
    options = {f"step_size={title}": {"step_size": schedule} for title, schedule in schedules.items()}
    yield from over(go, ("chain/hinge", "mine/hinge"), options, epochs=3)
    sizes = {f"batch_size={size}": {"batch_size": size} for size in (2, 5, 100)}
    yield from over(go, ("chain/log",), sizes, epochs=3)
    yield from over(go, ("classes/hinge",), sizes, epochs=3, average="last")
    yield "cuts/hinge/batch_size=2", go("cuts/hinge", epochs=3, batch_size=2)
    others = {
        "lam=0": {"lam": 0.0, "step_size": 0.1},
        "w0=None": {"start": False, "rng": 1},
        "rng=Generator": {"start": False, "rng": np.random.default_rng(5)},
    }
    yield from over(go, ("chain/log",), others, epochs=2)
    for title, mu in {"mu=2": 2.0, "mu=None": None}.items():
        yield f"chain/entropy/{title}", go("chain/entropy", mu=mu, epochs=2)
    for name in ("chain/log", "plain", "mine/hinge"):
        yield f"{name}/diverges", go(name, lam=1.0, step_size=1e50, epochs=9)


def lbfgs(P: Problems) -> Runs:
    go = partial(P.run, P.backend.lbfgs, start=True)
    for model in LOG:
        yield f"{model}/log", go(f"{model}/log", iterations=6)
    for name in ("chain/entropy", "trees/entropy", "listed/l2", "network/entropy"):
        yield name, go(name, iterations=6, mu=1.0)
    for name in ("chain/w-log", "plain", "classes/w-entropy"):
        yield name, go(name, iterations=6, **smooth(name))
    options = {"w0=None": {"start": False}, "lam=0": {"lam": 0.0}, "memory=1": {"memory": 1}}
    yield from over(go, ("chain/log",), options, iterations=5)
    yield "classes/log/converged", go("classes/log", tol=1e-3)


def online_proximal(P: Problems) -> Runs:
    B, lam = P.backend, P.lam

    def go(name: str, regularizer: Any, start: bool = True, **options: Any) -> partial[Any]:
        first = (P.start(name),) if start else ()
        given = {"step_size": B.steps.InverseSqrt(0.3), "epochs": 3, "rng": 0, **options}
        return partial(B.online_proximal, P.objective(name), regularizer, *first, **given)

    def groups(name: str) -> np.ndarray:
        return np.arange(len(P.start(name))) // 3

    def each(name: str) -> dict[str, Any]:
        of, d = groups(name), len(P.start(name))
        return {
            "L1": B.L1(lam),
            "L21": B.L21(lam, of),
            "SquaredL1": B.SquaredL1(0.3 * lam),
            "SquaredL21": B.SquaredL21(lam, of),
            "WeightedSquaredL1": B.WeightedSquaredL1(0.3 * lam, 1.0 + np.arange(d) % 2),
            "HalfSquaredL2": B.HalfSquaredL2(lam),
            "ElasticNet": B.ElasticNet(B.L1(0.5 * lam), lam),
            "ElasticNetMKL": B.ElasticNetMKL(0.5 * lam, lam, of),
            "NonSparseMKL": B.NonSparseMKL(lam, 1.5, of),
            "SparseGroupLasso": B.SparseGroupLasso(0.3 * lam, of, 0.3 * lam),
            "TreeGroupLasso": B.TreeGroupLasso([[0, 1], list(range(d))], [0.3 * lam, 0.3 * lam]),
            "sequence": [B.L1(0.3 * lam), B.L21(0.3 * lam, of)],
            "Sequential": B.Sequential([B.L1(0.3 * lam), B.HalfSquaredL2(lam)]),
        }

    for name in ("chain/log", "mine/log"):
        for title, regularizer in each(name).items():
            yield f"{name}/{title}", go(name, regularizer)
    for title, ball in {"L21Ball": B.L21Ball(1.0, groups("chain/log")), "L1Ball": B.L1Ball(1.5)}.items():
        yield f"chain/log/{title}", go("chain/log", ball, start=False)
    l1 = B.L1(0.3 * lam)
    for model in ("tags", "tags-all", "classes", "trees", "parsing", "parsing-blocks", "boxes", "listed"):
        yield f"{model}/log/L1", go(f"{model}/log", l1)
        yield f"{model}/hinge/SquaredL21", go(f"{model}/hinge", B.SquaredL21(lam, groups(f"{model}/log")))
    of_the_model = B.SquaredL21(lam, P.model("parsing-blocks")[0].groups)
    yield "parsing-blocks/log/groups of the model", go("parsing-blocks/log", of_the_model)
    for name in ("plain", "chain/w-log"):
        yield f"{name}/L1", go(name, l1)
    options = {
        "average=uniform": {"average": "uniform"},
        "sigma": {"sigma": lam, "step_size": B.steps.Pegasos(offset=10.0)},
        "project": {"project": B.L2Ball(0.7), "sigma": lam},
        "number": {"step_size": 0.1},
    }
    for name in ("chain/hinge", "mine/hinge"):
        yield from over(partial(go, regularizer=l1), (name,), options)
        yield f"{name}/batch_size=2", go(name, B.L21(0.3 * lam, groups(name)), batch_size=2)
    yield "chain/entropy/mu", go("chain/entropy", l1, mu=0.5)
    yield "chain/log/w0=None", go("chain/log", l1, start=False)
    yield "plain/diverges", go("plain", B.HalfSquaredL2(lam), step_size=1e200, sigma=1.0, epochs=9)


def svrg(P: Problems) -> Runs:
    def go(name: str, **options: Any) -> partial[Any]:
        given = {"start": True, "rng": 0, "epochs": 3, **smooth(name), **options}
        return P.run(P.backend.svrg, name, **given)

    models = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "boxes", "listed"]
    for model in (*models, "subset", "restricted"):
        yield f"{model}/log", go(f"{model}/log")
    for model in ("chain", "mine", "tags", "classes", "trees", "parsing", "boxes", "listed", "subset"):
        yield f"{model}/entropy", go(f"{model}/entropy")
    for name in ("chain/l2", "classes/l2", "listed/l2", "boxes/l2", "chain/top2", "mine/top2", "boxes/top2"):
        yield name, go(name)
    for name in ("chain/w-log", "classes/w-entropy", "plain", "tempered", "chain/my-log", "chain/my-entropy"):
        yield name, go(name)
    for average in ("last", "uniform"):
        yield f"uneven/average={average}", go("uneven", average=average, epochs=8)
    options = {
        "average=uniform": {"average": "uniform"},
        "step_size": {"step_size": 0.2},
        "tol reached": {"tol": 1e-3, "epochs": 50},
        "tol missed": {"tol": 1e-9, "epochs": 2},
        "lam=0": {"lam": 0.0},
    }
    yield from over(go, ("chain/log", "mine/log", "boxes/entropy", "plain"), options)
    yield from over(
        go, ("chain/log",), {"w0=None": {"start": False}, "rng=Generator": {"rng": np.random.default_rng(5)}}
    )
    yield "chain/entropy/mu=0.05", go("chain/entropy", mu=0.05)
    wild = {"grows": {"step_size": 30.0}, "diverges": {"step_size": 1e300, "epochs": 9, "lam": 0.0}}
    yield from over(go, ("chain/log", "plain"), wild)


def casimir(P: Problems) -> Runs:
    lam = P.lam

    def go(name: str, **options: Any) -> partial[Any]:
        return P.run(P.backend.casimir, name, **{"start": True, "rng": 0, "epochs": 4, **options})

    for model in ("chain", "mine", "tags", "classes", "trees", "parsing", "boxes", "listed", "subset", "restricted"):
        yield f"{model}/entropy", go(f"{model}/entropy")
        yield f"{model}/log", go(f"{model}/log")
    for name in ("chain/l2", "mine/l2", "listed/l2", "chain/top2", "boxes/top2", "alignment/top2", "windows/top2"):
        yield name, go(name, mu=0.5)
    some = ("chain/w-entropy", "chain/w-log", "tags-all/entropy", "parsing-root/entropy", "chain/my-entropy")
    for name in (*some, "plain", "tempered"):
        yield name, go(name)
    for inner in ("svrg", "saga", "gradient"):
        for stop in ("budget", "gradient"):
            for name in ("chain/entropy", "mine/entropy", "classes/log"):
                given = {"inner": inner, "stop": stop, "epochs": 6, **smooth(name)}
                yield f"{name}/inner={inner}, stop={stop}", go(name, **given)
    for title, options in {"": {}, ", stop=gradient": {"stop": "gradient"}}.items():
        yield f"chain/entropy/inner=function{title}", go("chain/entropy", inner=descent_pass, mu=0.5, **options)
    for warm_start in ("center", "last", "extrapolated"):
        for kind in ("const", "adapt"):
            given = {"warm_start": warm_start, "schedule": kind, "epochs": 5}
            yield f"chain/entropy/warm_start={warm_start}, schedule={kind}", go("chain/entropy", **given)
    theory = {"schedule=theory": {"schedule": "theory", "accuracy": 0.5, "epochs": 5}}
    yield from over(go, ("listed/entropy", "chain/entropy"), theory)
    schedules = {"Corollary17": bounds.Corollary17(lam, 0.3, 0.2), "Corollary18": bounds.Corollary18(lam, 0.3, 0.5)}
    for title, schedule in schedules.items():
        yield f"chain/entropy/schedule={title}", go("chain/entropy", schedule=schedule)
        yield f"mine/entropy/schedule={title}", go("mine/entropy", schedule=schedule, stop="gradient", inner="saga")
    without = {"Corollary19": bounds.Corollary19(0.3, 0.2), "Corollary20": bounds.Corollary20(0.3, 0.5)}
    for title, schedule in without.items():
        yield f"chain/entropy/schedule={title}", go("chain/entropy", lam=0.0, schedule=schedule)
    options = {
        "lam=0": {"lam": 0.0},
        "kappa": {"kappa": 0.4},
        "step_size": {"step_size": 0.2},
        "tol missed": {"tol": 1e-9},
    }
    yield from over(go, ("chain/entropy", "chain/log", "plain"), options)
    yield "uneven", go("uneven", epochs=10, kappa=0.05)
    yield "uneven/stop=gradient", go("uneven", epochs=8, stop="gradient")
    yield "plain/schedule=adapt", go("plain", schedule="adapt")
    options = {
        "tol reached": {"tol": 0.2, "epochs": 60},
        "stages": {"epochs": 25},
        "lam=0, schedule=adapt": {"lam": 0.0, "schedule": "adapt"},
        "w0=None": {"start": False},
        "rng=Generator": {"rng": np.random.default_rng(5)},
    }
    yield from over(go, ("chain/entropy",), options)
    yield "chain/log/tol reached", go("chain/log", tol=1e-3, epochs=60)
    yield "chain/log/grows", go("chain/log", step_size=30.0, kappa=0.01)
    yield "plain/diverges", go("plain", step_size=1e200, kappa=1e-3, lam=0.0, epochs=9)


def descent_pass(problem: Any, at: Any, order: Any, step_size: float, memory: Any) -> tuple[Any, int, Any]:
    """An inner solver of the user's: half a step down the gradient, and a third of the last pass again."""
    moved = -0.5 * step_size * problem.gradient(at)
    if memory is not None:
        moved = moved + memory / 3.0
    return at.x + moved, 1, moved


def prox_linear(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, **options: Any) -> partial[Any]:
        given = {"start": True, "rng": 0, "iterations": 3, "budget": 2, "eta": 0.5, **options}
        return P.run(B.prox_linear, name, **given)

    for loss in ("entropy", "top2", "l2", "log", "w-entropy", "w-log"):
        yield f"network/{loss}", go(f"network/{loss}")
    for name in ("chain/entropy", "classes/log", "listed/entropy", "boxes/top2", "mine/entropy"):
        yield name, go(name)

    def up(problem: Any) -> Any:
        """An inner solver that leaves its start for something worse."""
        return B.lbfgs(problem.objective, problem.start + 1.5, lam=problem.lam, iterations=0)

    options = {
        "schedule=const": {"schedule": "const", "mu": 0.7},
        "L": {"L": 3.0, "mu": 0.7},
        "large eta": {"eta": 64.0, "iterations": 6},
        "fixed eta": {"eta": 8.0, "fixed_eta": True},
        "fixed eta, accept=always": {"eta": 8.0, "fixed_eta": True, "accept": "always"},
        "inner goes up, accept=decrease": {"accept": "decrease", "inner": up, "fixed_eta": True},
        "inner goes up, accept=always": {"accept": "always", "inner": up, "fixed_eta": True},
        "w0=None": {"start": False},
    }
    yield from over(go, ("network/entropy", "network/top2"), options)
    options = {
        "lam=0": {"lam": 0.0},
        "tolerance": {"budget": None, "tolerance": 0.3, "iterations": 2},
        "tolerance missed": {"tolerance": 1e-6},
        "inner goes up": {"inner": up},
    }
    yield from over(go, ("network/entropy",), options)
    yield "network/log/tolerance, tol reached", go("network/log", budget=None, tolerance=0.05, tol=0.5, iterations=9)
    yield "network/log/tol missed", go("network/log", tol=1e-9)
    inner = {
        "bcfw": lambda p: B.bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng, callback=p.solved),
        "svrg": lambda p: B.svrg(p.objective, p.start, lam=p.lam, mu=p.mu, epochs=p.passes, rng=p.rng),
        "lbfgs": lambda p: B.lbfgs(p.objective, p.start, lam=p.lam, mu=p.mu, iterations=p.passes),
    }
    options = {
        "inner=bcfw": {"budget": 4},
        "inner=bcfw, tolerance": {"budget": 40, "tolerance": 0.2},
        "inner=bcfw, tol": {"budget": 20, "tol": 1e-3},
    }
    yield from over(go, ("network/hinge",), options, inner=inner["bcfw"])
    yield "network/entropy/inner=svrg", go("network/entropy", inner=inner["svrg"], mu=0.5)
    yield "network/log/inner=lbfgs", go("network/log", inner=inner["lbfgs"])
