"""Golden runs of the learners with a dual point: bcfw, exponentiated_gradient, multisample, cutting_planes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from conformance.golden.problems import Problems
from conformance.golden.watching import stopped, watched

__all__ = ["bcfw", "cutting_planes", "exponentiated_gradient", "multisample"]

Runs = Iterator[tuple[str, Callable[[], Any]]]
HINGE = ["chain", "mine", "sparse", "tags", "tags-all", "classes", "my-classes", "trees", "parsing", "boxes"]
HINGE += ["windows", "cuts", "alignment", "listed", "subset"]


def bcfw(P: Problems) -> Runs:
    def go(name: str, **options: Any) -> partial[Any]:
        return P.run(P.backend.bcfw, name, **{"rng": 0, "epochs": 3, "tol": None, **options})

    for model in [*HINGE, "restricted"]:
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/hinge/plain", go(f"{model}/hinge", cached_passes=0, average="weighted")
    for name in ("chain/hinge", "mine/hinge", "boxes/hinge", "cuts/hinge", "parsing/hinge"):
        yield f"{name}/line_search=False", go(name, line_search=False)
        yield f"{name}/cached_passes=1", go(name, cached_passes=1)
        yield f"{name}/capacity=1", go(name, capacity=1)
        yield f"{name}/average=weighted", go(name, average="weighted", cached_passes=2)
    for name in ("chain/hinge", "trees/hinge", "tags-all/hinge"):
        yield f"{name}/capacity=3", go(name, capacity=3, epochs=12)
    for name in ("chain/hinge", "classes/hinge", "cuts/hinge"):
        yield f"{name}/tol reached", go(name, tol=0.05, epochs=50)
        yield f"{name}/tol missed", go(name, tol=1e-9, epochs=2)
        yield f"{name}/tol=0", go(name, tol=0.0, epochs=2)
        yield f"{name}/epochs=0", go(name, epochs=0)
        yield f"{name}/lam", go(name, lam=1.3)
    yield "chain/hinge/tol at the start", go("chain/hinge", tol=2.0)
    yield "chain/w-hinge", go("chain/w-hinge")
    yield "listed/w-hinge", go("listed/w-hinge", cached_passes=0)
    yield "chain/hinge/rng=Generator", go("chain/hinge", rng=np.random.default_rng(5))
    yield from stopped("chain/hinge", go("chain/hinge", epochs=6), 2)
    yield from stopped("my-classes/hinge", go("my-classes/hinge", epochs=6), 2)
    yield "cuts/hinge/watched", watched(go("cuts/hinge", average="weighted"))


def exponentiated_gradient(P: Problems) -> Runs:
    def go(name: str, **options: Any) -> partial[Any]:
        return P.run(P.backend.exponentiated_gradient, name, **{"rng": 0, "epochs": 4, "tol": None, **options})

    for model in ("chain", "mine", "sparse", "tags", "tags-all", "classes", "trees", "parsing", "boxes", "listed"):
        yield f"{model}/log", go(f"{model}/log")
    for model in ("chain", "mine", "tags", "classes", "trees", "listed"):
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/entropy", go(f"{model}/entropy", mu=0.5)
    for name in ("chain/log", "mine/log"):
        yield f"{name}/sampling=permutation", go(name, sampling="permutation")
        yield f"{name}/step_size", go(name, step_size=0.9)
        yield f"{name}/evaluate_every=3", go(name, evaluate_every=3, epochs=7)
        yield f"{name}/tol reached", go(name, tol=0.05, epochs=60)
        yield f"{name}/tol missed", go(name, tol=1e-9, evaluate_every=2)
        yield f"{name}/epochs=0", go(name, epochs=0)
    yield "chain/hinge/step_size", go("chain/hinge", step_size=0.5)
    yield "chain/my-log", go("chain/my-log")
    yield "chain/my-entropy", go("chain/my-entropy", mu=0.5)
    yield "chain/log/rng=Generator", go("chain/log", rng=np.random.default_rng(5))
    yield from stopped("chain/log", go("chain/log", epochs=8, evaluate_every=2), 2)
    yield "mine/log/watched", watched(go("mine/log"))


def multisample(P: Problems) -> Runs:
    def go(name: str, **options: Any) -> partial[Any]:
        return P.run(P.backend.multisample, name, **{"rng": 0, "epochs": 3, "tol": None, "k": 3, **options})

    for model in ("chain", "mine", "tags", "classes", "my-classes", "trees", "parsing", "boxes", "alignment", "listed"):
        yield f"{model}/hinge", go(f"{model}/hinge")
        yield f"{model}/hinge/exact", go(f"{model}/hinge", update="exact")
    for model in ("windows", "subset"):
        yield f"{model}/hinge/k=1", go(f"{model}/hinge", k=1)
    for name in ("chain/hinge", "classes/hinge", "trees/hinge"):
        yield f"{name}/gibbs", go(name, sampler="gibbs", mu=0.7)
        yield f"{name}/online", go(name, online=True)
        yield f"{name}/online, exact, uniform", go(name, online=True, update="exact", average="uniform")
        yield f"{name}/average=uniform", go(name, average="uniform", k=1)
    yield "chain/w-hinge", go("chain/w-hinge")
    yield "classes/hinge/k beyond", go("classes/hinge", k=10)
    yield "classes/hinge/tol reached", go("classes/hinge", tol=0.1, epochs=100)
    yield "classes/hinge/tol missed", go("classes/hinge", tol=1e-9)
    yield "classes/hinge/epochs=0", go("classes/hinge", epochs=0)
    yield "classes/hinge/gibbs, rng=Generator", go("classes/hinge", sampler="gibbs", rng=np.random.default_rng(5))
    yield from stopped("classes/hinge", go("classes/hinge", epochs=6), 2)
    yield "classes/hinge/watched", watched(go("classes/hinge", average="uniform"))


def cutting_planes(P: Problems) -> Runs:
    def go(name: str, **options: Any) -> partial[Any]:
        return P.run(P.backend.cutting_planes, name, **{"epochs": 5, "tol": None, **options})

    for model in HINGE:
        if model not in ("cuts", "alignment"):  # weights that must be >= 0; matchings that tie at w = 0
            yield f"{model}/hinge", go(f"{model}/hinge")
    for name in ("chain/hinge", "listed/hinge"):
        yield f"{name}/capacity=2", go(name, capacity=2, epochs=8)
        yield f"{name}/capacity=8", go(name, capacity=8, epochs=20)
        yield f"{name}/tol reached", go(name, tol=0.2, epochs=100)
        yield f"{name}/tol missed", go(name, tol=1e-9)
        yield f"{name}/epochs=0", go(name, epochs=0)
        yield f"{name}/lam", go(name, lam=2.0)
    yield "chain/w-hinge", go("chain/w-hinge")
    yield from stopped("listed/hinge", go("listed/hinge", epochs=9), 3)
    yield "listed/hinge/watched", watched(go("listed/hinge"))
