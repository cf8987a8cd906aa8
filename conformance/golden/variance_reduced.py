"""Golden runs of SVRG, Casimir and its presets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import reference.bounds as bounds
from conformance.golden.problems import Problems
from conformance.golden.watching import stopped, watched

__all__ = ["casimir", "presets", "svrg"]

Runs = Iterator[tuple[str, Callable[[], Any]]]


def smooth(name: str) -> dict[str, Any]:
    """The options that make an objective smooth."""
    return {} if name.endswith("log") or "/" not in name else {"mu": 0.5}


def svrg(P: Problems) -> Runs:
    B = P.backend

    def go(name: str, start: bool = True, **options: Any) -> partial[Any]:
        return P.run(B.svrg, name, start=start, **{"rng": 0, "epochs": 3, **smooth(name), **options})

    models = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "boxes", "listed"]
    models += ["subset", "restricted"]
    for model in models:
        yield f"{model}/log", go(f"{model}/log")
    for model in ("chain", "mine", "tags", "classes", "trees", "parsing", "boxes", "listed", "subset"):
        yield f"{model}/entropy", go(f"{model}/entropy")
    for name in ("chain/l2", "classes/l2", "listed/l2", "boxes/l2", "chain/top2", "mine/top2", "boxes/top2"):
        yield name, go(name)
    for name in ("chain/w-log", "classes/w-entropy", "plain", "tempered", "chain/my-log", "chain/my-entropy"):
        yield name, go(name)
    for average in ("last", "uniform"):
        yield f"uneven/average={average}", go("uneven", average=average, epochs=8)
    for name in ("chain/log", "mine/log", "boxes/entropy", "plain"):
        yield f"{name}/average=uniform", go(name, average="uniform")
        yield f"{name}/step_size", go(name, step_size=0.2)
        yield f"{name}/tol reached", go(name, tol=1e-3, epochs=50)
        yield f"{name}/tol missed", go(name, tol=1e-9, epochs=2)
        yield f"{name}/lam=0", go(name, lam=0.0)
    yield "chain/log/w0=None", go("chain/log", start=False)
    yield "chain/log/epochs=0", go("chain/log", epochs=0)
    yield "chain/log/epochs=0, w0=None, lam=0", go("chain/log", start=False, epochs=0, lam=0.0)
    yield "chain/log/rng=Generator", go("chain/log", rng=np.random.default_rng(5))
    yield "chain/entropy/mu=0.05", go("chain/entropy", mu=0.05)
    for name in ("chain/log", "plain"):
        yield f"{name}/grows", go(name, step_size=30.0)
        yield f"{name}/diverges", go(name, step_size=1e300, epochs=9, lam=0.0)
    yield from stopped("chain/log", go("chain/log", epochs=5), 2)
    yield "chain/log/watched", watched(go("chain/log"))


def casimir(P: Problems) -> Runs:
    B, lam = P.backend, P.lam

    def go(name: str, start: bool = True, **options: Any) -> partial[Any]:
        return P.run(B.casimir, name, start=start, **{"rng": 0, "epochs": 4, **options})

    models = ["chain", "mine", "tags", "classes", "trees", "parsing", "boxes", "listed", "subset", "restricted"]
    for model in models:
        yield f"{model}/entropy", go(f"{model}/entropy")
        yield f"{model}/log", go(f"{model}/log")
    for name in ("chain/l2", "mine/l2", "listed/l2", "chain/top2", "boxes/top2", "alignment/top2", "windows/top2"):
        yield name, go(name, mu=0.5)
    for name in (
        "chain/w-entropy",
        "chain/w-log",
        "plain",
        "tags-all/entropy",
        "parsing-root/entropy",
        "chain/my-entropy",
    ):
        yield name, go(name)
    for inner in ("svrg", "saga", "gradient"):
        for stop in ("budget", "gradient"):
            for name in ("chain/entropy", "mine/entropy", "classes/log"):
                options = {"mu": 0.5} if "entropy" in name else {}
                yield f"{name}/inner={inner}, stop={stop}", go(name, inner=inner, stop=stop, epochs=6, **options)
    yield "chain/entropy/inner=function", go("chain/entropy", inner=descent_pass, mu=0.5)
    yield (
        "chain/entropy/inner=function, stop=gradient",
        go("chain/entropy", inner=descent_pass, stop="gradient", mu=0.5),
    )
    for warm_start in ("center", "last", "extrapolated"):
        for schedule in ("const", "adapt"):
            options = {"warm_start": warm_start, "schedule": schedule, "epochs": 5}
            yield f"chain/entropy/warm_start={warm_start}, schedule={schedule}", go("chain/entropy", **options)
    for name in ("listed/entropy", "chain/entropy"):
        yield f"{name}/schedule=theory", go(name, schedule="theory", accuracy=0.5, epochs=5)
    yield "listed/entropy/schedule=theory, lam=0", go("listed/entropy", lam=0.0, schedule="theory", accuracy=0.5)
    schedules = {
        "Corollary17": bounds.Corollary17(lam, 0.3, 0.2),
        "Corollary18": bounds.Corollary18(lam, 0.3, 0.5),
    }
    for title, schedule in schedules.items():
        yield f"chain/entropy/schedule={title}", go("chain/entropy", schedule=schedule)
        yield f"mine/entropy/schedule={title}", go("mine/entropy", schedule=schedule, stop="gradient", inner="saga")
    for title, schedule in {"19": bounds.Corollary19(0.3, 0.2), "20": bounds.Corollary20(0.3, 0.5)}.items():
        yield f"chain/entropy/schedule=Corollary{title}", go("chain/entropy", lam=0.0, schedule=schedule)
    for name in ("chain/entropy", "chain/log", "plain"):
        yield f"{name}/lam=0", go(name, lam=0.0)
        yield f"{name}/kappa", go(name, kappa=0.4)
        yield f"{name}/step_size", go(name, step_size=0.2)
        yield f"{name}/tol missed", go(name, tol=1e-9)
        yield f"{name}/epochs=0", go(name, epochs=0)
    yield "uneven", go("uneven", epochs=10, kappa=0.05)
    yield "uneven/stop=gradient", go("uneven", epochs=8, stop="gradient")
    yield "tempered", go("tempered")
    yield "plain/schedule=adapt", go("plain", schedule="adapt")
    yield "plain/schedule=Corollary18", go("plain", schedule=bounds.Corollary18(lam, 0.3, 0.5), epochs=6)
    yield "chain/entropy/tol reached", go("chain/entropy", tol=0.2, epochs=60)
    yield "chain/log/tol reached", go("chain/log", tol=1e-3, epochs=60)
    yield "chain/entropy/stages", go("chain/entropy", epochs=25)
    yield "chain/entropy/lam=0, schedule=adapt", go("chain/entropy", lam=0.0, schedule="adapt")
    yield "chain/entropy/w0=None", go("chain/entropy", start=False)
    yield "chain/entropy/rng=Generator", go("chain/entropy", rng=np.random.default_rng(5))
    yield "chain/log/grows", go("chain/log", step_size=30.0, kappa=0.01)
    yield "plain/diverges", go("plain", step_size=1e200, kappa=1e-3, lam=0.0, epochs=9)
    yield from stopped("chain/entropy", go("chain/entropy", epochs=6), 3)
    yield "chain/entropy/watched", watched(go("chain/entropy"))


def descent_pass(problem: Any, at: Any, order: Any, step_size: float, memory: Any) -> tuple[Any, int, Any]:
    """An inner solver of the user's: half a step down the gradient, and a third of the last pass again."""
    moved = -0.5 * step_size * problem.gradient(at)
    if memory is not None:
        moved = moved + memory / 3.0
    return at.x + moved, 1, moved


def presets(P: Problems) -> Runs:
    B = P.backend
    for title, preset in {"const": B.casimir_svrg_const, "adapt": B.casimir_svrg_adapt}.items():
        for name in ("chain/entropy", "mine/entropy", "boxes/top2", "classes/l2", "tags/entropy"):
            yield f"{title}/{name}", P.run(preset, name, start=True, epochs=4, rng=0)
            yield f"{title}/{name}/mu, kappa", P.run(preset, name, mu=0.3, kappa=0.2, epochs=3, rng=0)
        yield f"{title}/chain/entropy/lam=0", P.run(preset, "chain/entropy", lam=0.0, epochs=3, rng=0)
        yield f"{title}/chain/entropy/tol", P.run(preset, "chain/entropy", tol=0.3, epochs=30, rng=0)
        yield (
            f"{title}/chain/entropy/warm_start=extrapolated",
            P.run(preset, "chain/entropy", warm_start="extrapolated", step_size=0.1, epochs=3, rng=0),
        )
    yield "const/chain/log", P.run(B.casimir_svrg_const, "chain/log", epochs=3, rng=0)
