"""Golden runs of sgd, L-BFGS and the online proximal algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from conformance.golden.problems import Problems
from conformance.golden.watching import stopped, watched

__all__ = ["lbfgs", "online_proximal", "sgd"]

Runs = Iterator[tuple[str, Callable[[], Any]]]
LOG = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "parsing-root", "boxes"]
LOG += ["network", "listed", "subset", "restricted"]
HINGE = [*LOG, "my-classes", "parsing-blocks", "windows", "cuts", "alignment"]
TOP_K = ["chain", "mine", "tags", "trees", "boxes", "network", "alignment", "cuts"]


def sgd(P: Problems) -> Runs:
    B = P.backend
    go = partial(P.run, B.sgd, start=True, rng=0)
    for name in [f"{model}/log" for model in LOG] + [f"{model}/hinge" for model in HINGE]:
        yield name, go(name, epochs=2)
    for name in [f"{model}/entropy" for model in LOG] + [f"{model}/top2" for model in TOP_K]:
        yield name, go(name, epochs=2, mu=0.5)
    for name in ("chain/l2", "mine/l2", "listed/l2", "classes/l2", "boxes/l2"):
        yield name, go(name, epochs=2, mu=0.5, average="uniform")
    for name in (
        "chain/w-log",
        "chain/w-hinge",
        "trees/w-hinge",
        "network/w-hinge",
        "plain",
        "chain/my-log",
        "tags/my-log",
    ):
        yield name, go(name, epochs=3)
    for name in ("chain/log", "mine/log", "tags/hinge", "parsing/log", "boxes/hinge", "network/hinge", "cuts/hinge"):
        for average in ("last", "uniform"):
            yield f"{name}/average={average}", go(name, epochs=2, average=average, step_size=0.1)
    schedules = {
        "number": 0.05,
        "Constant": B.steps.Constant(0.05),
        "InverseTime": B.steps.InverseTime(0.3),
        "InverseSqrt": B.steps.InverseSqrt(0.2),
        "Pegasos": B.steps.Pegasos(),
        "Pegasos offset": B.steps.Pegasos(offset=7.5),
        "Steps": B.steps.Steps(0.3, 4.0),
        "function": lambda t, lam: 0.1 / (1.0 + lam * t),
        "zeros": lambda t, lam: np.zeros(len(t)),
        "integers": lambda t, lam: np.ones(len(t), dtype=int),
    }
    for title, schedule in schedules.items():
        for name in ("chain/hinge", "mine/hinge"):
            yield f"{name}/step_size={title}", go(name, epochs=3, step_size=schedule)
    for size in (2, 5, 100):
        yield f"chain/log/batch_size={size}", go("chain/log", epochs=3, batch_size=size)
        yield f"classes/hinge/batch_size={size}", go("classes/hinge", epochs=3, batch_size=size, average="last")
    yield "cuts/hinge/batch_size=2", go("cuts/hinge", epochs=3, batch_size=2)
    for name in ("chain/log", "chain/hinge", "tags/log", "classes/log", "network/log", "network/hinge", "cuts/hinge"):
        yield f"{name}/w0=None", P.run(B.sgd, name, epochs=2, rng=1)
        yield f"{name}/epochs=0", P.run(B.sgd, name, epochs=0, rng=1)
    yield "chain/log/lam=0", go("chain/log", lam=0.0, step_size=0.1, epochs=2)
    yield "chain/log/rng=Generator", P.run(B.sgd, "chain/log", rng=np.random.default_rng(5), epochs=2)
    yield "chain/my-entropy", go("chain/my-entropy", mu=0.5, epochs=2)
    yield "chain/entropy/mu=2", go("chain/entropy", mu=2.0, epochs=2)
    yield "chain/entropy/mu=None", go("chain/entropy", epochs=2)
    for name in ("chain/log", "plain", "mine/hinge"):
        yield f"{name}/diverges", go(name, lam=1.0, step_size=1e50, epochs=9)
    yield from stopped("chain/log", go("chain/log", epochs=5), 3)
    yield from stopped("cuts/hinge", go("cuts/hinge", epochs=5, average="last"), 2)
    for answer in (np.True_, 1, "stop", False):
        yield (
            f"chain/log/callback gives {answer!r}",
            go("chain/log", epochs=2, callback=lambda row, w, answer=answer: answer),
        )
    yield "chain/hinge/watched", watched(go("chain/hinge", epochs=3))
    yield "mine/hinge/watched", watched(go("mine/hinge", epochs=3, average="uniform"))


def lbfgs(P: Problems) -> Runs:
    B = P.backend
    go = partial(P.run, B.lbfgs, start=True)
    for model in LOG:
        yield f"{model}/log", go(f"{model}/log", iterations=6)
    for name in ("chain/entropy", "trees/entropy", "listed/l2", "network/entropy"):
        yield name, go(name, iterations=6, mu=1.0)
    for name in ("chain/w-log", "plain", "classes/w-entropy"):
        yield name, go(name, iterations=6, **({"mu": 0.5} if "entropy" in name else {}))
    for name in ("chain/log", "classes/log", "network/log"):
        yield f"{name}/w0=None", P.run(B.lbfgs, name, iterations=5)
        yield f"{name}/iterations=0", P.run(B.lbfgs, name, iterations=0)
    yield "chain/log/lam=0", go("chain/log", lam=0.0, iterations=5)
    yield "chain/log/memory=1", go("chain/log", memory=1, iterations=5)
    yield "classes/log/converged", go("classes/log", tol=1e-3)
    yield "classes/log/watched", watched(go("classes/log", iterations=3))
    yield from stopped("classes/log", go("classes/log"), 2)


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
    for title, regularizer in {"L21Ball": B.L21Ball(1.0, groups("chain/log")), "L1Ball": B.L1Ball(1.5)}.items():
        yield f"chain/log/{title}", go("chain/log", regularizer, start=False)
    for model in ("tags", "tags-all", "classes", "trees", "parsing", "parsing-blocks", "boxes", "listed"):
        yield f"{model}/log/L1", go(f"{model}/log", B.L1(0.3 * lam))
        yield f"{model}/hinge/SquaredL21", go(f"{model}/hinge", B.SquaredL21(lam, groups(f"{model}/log")))
    yield (
        "parsing-blocks/log/groups of the model",
        go("parsing-blocks/log", B.SquaredL21(lam, P.model("parsing-blocks")[0].groups)),
    )
    for name in ("plain", "chain/w-log"):
        yield f"{name}/L1", go(name, B.L1(0.3 * lam))
    for name in ("chain/hinge", "mine/hinge"):
        yield f"{name}/average=uniform", go(name, B.L1(0.3 * lam), average="uniform")
        yield f"{name}/sigma", go(name, B.L1(0.3 * lam), sigma=lam, step_size=B.steps.Pegasos(offset=10.0))
        yield f"{name}/project", go(name, B.L1(0.3 * lam), project=B.L2Ball(0.7), sigma=lam)
        yield f"{name}/batch_size=2", go(name, B.L21(0.3 * lam, groups(name)), batch_size=2)
        yield f"{name}/number", go(name, B.L1(0.3 * lam), step_size=0.1)
    yield "chain/entropy/mu", go("chain/entropy", B.L1(0.3 * lam), mu=0.5)
    yield "chain/log/w0=None", go("chain/log", B.L1(0.3 * lam), start=False)
    yield "chain/log/epochs=0", go("chain/log", B.L1(0.3 * lam), epochs=0)
    yield "plain/diverges", go("plain", B.HalfSquaredL2(lam), step_size=1e200, sigma=1.0, epochs=9)
    yield from stopped("chain/log", go("chain/log", B.L1(0.3 * lam), epochs=5), 2)
    yield "chain/log/watched", watched(go("chain/log", B.L1(0.3 * lam), average="uniform"))
