"""Golden runs that are cut in two: a checkpoint half way, and a run that goes on from it, in this panel or the
other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from conformance.golden.beyond import kernels
from conformance.golden.problems import Problems
from conformance.golden.records import FOLDER
from conformance.golden.watching import Watch

__all__ = ["resumed"]

Runs = Iterator[tuple[str, Callable[[], Any]]]
OTHER = {"reference": "accelerated", "accelerated": "reference"}
LONG = {"epochs": 4}


def resumed(P: Problems) -> Runs:
    proximal = {"regularizer": "L1", "step_size": 0.1}
    cases: dict[str, list[tuple[str, str, dict[str, Any], dict[str, Any]]]] = {
        "sgd": [
            ("chain/log", "", {}, LONG),
            ("mine/hinge", "", {"average": "last"}, LONG),
            ("cuts/hinge", "", {}, LONG),
        ],
        "online_proximal": [
            ("chain/log", "", proximal, LONG),
            ("mine/log", "", {**proximal, "average": "uniform"}, LONG),
        ],
        "svrg": [("chain/log", "", {}, LONG), ("mine/entropy", "", {"mu": 0.5}, LONG)],
        "casimir": [
            ("chain/entropy", "", {}, LONG),
            ("chain/entropy", "/schedule=adapt", {"schedule": "adapt"}, LONG),
            ("mine/entropy", "/inner=saga", {"inner": "saga", "mu": 0.5}, LONG),
            ("chain/log", "", {}, LONG),
        ],
        "bcfw": [
            ("chain/hinge", "", {}, LONG),
            ("mine/hinge", "", {"average": "weighted"}, LONG),
            ("boxes/hinge", "", {}, LONG),
        ],
        "exponentiated_gradient": [("chain/log", "", {}, LONG), ("mine/log", "", {"evaluate_every": 2}, LONG)],
        "multisample": [("chain/hinge", "", {"k": 2}, LONG), ("classes/hinge", "", {"k": 2, "online": True}, LONG)],
        "cutting_planes": [("chain/hinge", "", {}, LONG), ("listed/hinge", "", {}, LONG)],
        "prox_linear": [("network/entropy", "", {"budget": 2, "eta": 0.5}, {"iterations": 4})],
        "mkl": [("crf", "", {"loss": "crf", "step_size": 0.1}, LONG), ("hinge", "", {"step_size": 0.1}, LONG)],
    }
    for learner, problems in cases.items():
        for name, title, options, whole in problems:
            half = {count: most // 2 for count, most in whole.items()}
            go = partial(cut_in_two, P, P, learner, name, options, whole)
            yield f"{learner}/{name}{title}", partial(go, half)
            yield f"{learner}/{name}{title}/interrupted", partial(go, {**whole, "callback": Watch(3, "interrupt")})
            yield (
                f"{learner}/{name}{title}/from the other panel",
                partial(elsewhere, P, learner, name, options, whole, half),
            )
    until, most = {"stop": "gradient", "mu": 0.5}, {"epochs": 9}
    go = partial(cut_in_two, P, P, "casimir", "chain/entropy", until, most)
    yield "casimir/chain/entropy/stop=gradient", partial(go, {**most, "callback": Watch(1)})
    go = partial(cut_in_two, P, P, "casimir", "chain/entropy", until, {"epochs": 8})
    yield "casimir/chain/entropy/stop=gradient, other epochs", partial(go, {**most, "callback": Watch(1)})
    go = partial(cut_in_two, P, P, "sgd", "chain/log", {})
    yield "sgd/chain/log/other Generator", partial(go, {"rng": np.random.default_rng(7), **LONG}, {"epochs": 2})
    yield "sgd/other model", partial(go, {"name": "tags-all/log"}, {"epochs": 2})
    yield "sgd/chain/log/in three parts", partial(cut_in_three, P)


def cut_in_two(
    first: Problems,
    then: Problems,
    learner: str,
    name: str,
    options: dict[str, Any],
    whole: dict[str, Any],
    half: dict[str, Any],
) -> Any:
    """The result of a run that resumes from the checkpoint of another; ``whole`` may have another learner or
    problem."""
    with TemporaryDirectory(prefix=FOLDER) as folder:
        path = Path(folder) / "run.npz"
        called(first, learner, name, {**options, **half})(checkpoint=path)
        after = {"learner": learner, "name": name, **options, **whole}
        return called(then, after.pop("learner"), after.pop("name"), after)(resume=path)


def elsewhere(
    P: Problems, learner: str, name: str, options: dict[str, Any], whole: dict[str, Any], half: dict[str, Any]
) -> Any:
    """The same, the first half in the other panel."""
    other = Problems(import_module(OTHER[P.backend.__name__]), P.sway)
    return cut_in_two(other, P, learner, name, options, whole, half)


def cut_in_three(P: Problems) -> Any:
    """A run that resumes from a file and overwrites it with its own checkpoint, from which another run resumes."""
    with TemporaryDirectory(prefix=FOLDER) as folder:
        path = Path(folder) / "run.npz"
        called(P, "sgd", "chain/log", {"epochs": 1})(checkpoint=path)
        called(P, "sgd", "chain/log", {"epochs": 2})(checkpoint=path, resume=path)
        return called(P, "sgd", "chain/log", {"epochs": 3})(checkpoint=path, resume=str(path))


def called(P: Problems, learner: str, name: str, options: dict[str, Any]) -> Callable[..., Any]:
    """The learner of this panel, not yet called; the same start and random numbers for all."""
    run, options = getattr(P.backend, learner), dict(options)
    if learner not in ("cutting_planes",):
        options = {"rng": 0, **options}
    if learner == "mkl":
        return partial(run, *kernels(P), lam=P.lam, **options)
    if learner == "online_proximal":
        regularizer = getattr(P.backend, options.pop("regularizer"))(0.3 * P.lam)
        return partial(run, P.objective(name), regularizer, P.start(name), **options)
    return P.run(run, name, start=learner in ("sgd", "svrg", "casimir", "prox_linear"), **options)
