"""Golden runs with invalid arguments, by learner: errors, and the results of unusual starts that are accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import reference.bounds as bounds
from conformance.golden.beyond import kernels
from conformance.golden.problems import Problems

__all__ = ["refused"]

Runs = Iterator[tuple[str, Callable[[], Any]]]
Wrong = list[dict[str, Any]]
NUMBERS: Wrong = [{"lam": -1.0}, {"lam": float("nan")}, {"lam": "0.1"}, {"lam": True}]
COUNTS: Wrong = [{"epochs": -1}, {"epochs": 1.5}, {"epochs": None}]
OTHERS: Wrong = [{"callback": 1}, {"checkpoint": 1}, {"resume": 1}, {"rng": "a"}]


def refused(P: Problems) -> Runs:
    B, nan = P.backend, float("nan")
    given: dict[str, Any]
    d = len(P.start("chain/log"))
    starts = {
        "of another size": np.zeros(d + 1),
        "nan": np.full(d, nan),
        "integers": np.zeros(d, dtype=int),
        "a table": np.zeros((d, 1)),
        "words": "abc",
    }
    for learner in ("sgd", "svrg", "casimir", "lbfgs", "prox_linear"):
        count = {"iterations": 2} if learner in ("lbfgs", "prox_linear") else {"epochs": 2}
        random = {} if learner == "lbfgs" else {"rng": 0}
        for title, w0 in starts.items():
            yield f"{learner}/w0 {title}", P.run(getattr(B, learner), "chain/log", w0=w0, **count, **random)
    objectives = {
        "sgd": (),
        "svrg": ("chain/hinge", "cuts/top2", "network/log"),
        "casimir": ("chain/hinge", "cuts/top2", "network/log"),
        "bcfw": ("chain/log", "chain/entropy", "network/hinge"),
        "exponentiated_gradient": ("chain/w-log", "cuts/hinge", "windows/hinge", "network/log", "plain"),
        "multisample": ("chain/log", "chain/entropy", "cuts/hinge", "network/hinge"),
        "cutting_planes": ("chain/log", "chain/entropy", "cuts/hinge", "plain"),
        "lbfgs": ("cuts/hinge",),
        "prox_linear": ("chain/hinge", "cuts/top2", "plain"),
        "solve_sparse": ("chain/hinge", "chain/w-log", "network/log", "plain"),
    }
    for learner, names in objectives.items():
        beta = {"beta": 0.1} if learner == "solve_sparse" else {"lam": 0.1}
        for name in names:
            mu = {} if "hinge" in name or "log" in name or name == "plain" or learner == "bcfw" else {"mu": 0.5}
            given = {**beta, **({} if learner in ("bcfw", "cutting_planes", "multisample") else mu)}
            yield f"{learner}/{name}", partial(getattr(B, learner), P.objective(name), **given)
        yield f"{learner}/no objective", partial(getattr(B, learner), object(), **beta)
        yield f"{learner}/no function", partial(getattr(B, learner), P.model("chain")[0], **beta)
    for learner, (name, wrong) in options(P).items():
        for each in wrong:
            title = ", ".join(f"{option}={named(value)}" for option, value in each.items())
            yield f"{learner}/{title}", P.run(getattr(B, learner), name, **each)
    yield "sgd/w0 below 0", P.run(B.sgd, "cuts/hinge", w0=-np.ones(3))
    yield "sgd/plain without w0", P.run(B.sgd, "plain")
    yield "sgd/no lam", partial(B.sgd, P.objective("chain/log"))
    for title, regularizer in {"number": 0.1, "words": "L1", "nothing": [], "numbers": [0.1]}.items():
        go = partial(B.online_proximal, P.objective("chain/log"), step_size=0.1)
        yield f"online_proximal/regularizer={title}", partial(go, regularizer=regularizer)
    more: Wrong = [{"step_size": 0.0}, {"step_size": "a"}, {"step_size": too_few}, {"sigma": -1.0}]
    more += [
        {"average": "weighted"},
        {"batch_size": 0},
        {"project": B.L1(0.1)},
        {"mu": -1.0},
        {"epochs": -1},
        {"callback": 1},
    ]
    for each in [*more, {"step_size": B.steps.Pegasos()}]:
        title = ", ".join(f"{option}={named(value)}" for option, value in each.items())
        given = {"step_size": 0.1, "rng": 0, **each}
        yield f"online_proximal/{title}", partial(B.online_proximal, P.objective("chain/hinge"), B.L1(0.1), **given)
    for name in ("cuts/hinge", "network/hinge"):
        yield f"online_proximal/{name}", partial(B.online_proximal, P.objective(name), B.L1(0.1), step_size=0.1)
    more = [{}, {"lam": -1.0}, {"loss": "log"}, {"penalty": 0.1}, {"lam": 0.1, "penalty": B.L1(0.1)}, {"radius": 0.0}]
    more += [{"lam": 0.1, "sigma": -1.0}, {"lam": 0.1, "average": "weighted"}, {"lam": 0.1, "evaluate_every": 0}]
    for each in [*more, {"lam": 0.1, "epochs": -1}, {"lam": 0.1, "step_size": None}]:
        title = ", ".join(f"{option}={named(value)}" for option, value in each.items())
        yield f"mkl/{title}", partial(B.mkl, *kernels(P), **{"step_size": 0.1, **each})
    yield "mkl/other data", partial(B.mkl, kernels(P)[0], P.model("chain")[1], lam=0.1, step_size=0.1)
    yield "mkl/other model", partial(B.mkl, *P.model("chain"), lam=0.1, step_size=0.1)
    more = [{"beta": 0.0}, {"beta": nan}, {"alpha": -1.0}, {"tol": -1.0}, {"gamma": 1.0}, {"rule": 1}, {"solver": 1}]
    more += [{"iterations": -1}, {"rule": B.L1GapRule}, {"solver": B.ProximalNewton}, {"rule": B.HalfSpaceRule(rng=0)}]
    for each in [*more, {"rule": B.HalfSpaceRule(rng=0), "alpha": 0.0}, {"w0": np.zeros(1)}]:
        title = ", ".join(f"{option}={named(value)}" for option, value in each.items())
        yield f"solve_sparse/{title}", partial(B.solve_sparse, P.objective("chain/log"), **{"beta": 0.1, **each})
    for each in [
        {"count": 0},
        {"ratio": 1.0},
        {"betas": []},
        {"betas": [0.1], "count": 2},
        {"betas": [0.0]},
        {"tol": -1.0},
    ]:
        title = ", ".join(f"{option}={named(value)}" for option, value in each.items())
        yield f"sparse_path/{title}", partial(B.sparse_path, P.objective("classes/log"), **each)


def options(P: Problems) -> dict[str, tuple[str, Wrong]]:
    """For each learner a problem that it accepts, and options that it rejects."""
    lam, B = P.lam, P.backend
    step: Wrong = [{"step_size": 0.0}, {"step_size": "a"}]
    tol: Wrong = [{"tol": -1.0}, {"tol": float("nan")}]
    mu: Wrong = [{"mu": -1.0}, {"mu": 2.0}]
    dual: Wrong = [*NUMBERS, {"lam": 0.0}, *COUNTS, *tol, {"callback": 1}, {"checkpoint": 1}, {"resume": 1}]
    schedules: Wrong = [
        {"schedule": "slow"},
        {"schedule": "theory"},
        {"schedule": "theory", "accuracy": 1.0, "mu": 1.0},
        {"schedule": "const", "accuracy": 1.0},
        {"schedule": bounds.Corollary17(2 * lam, 0.3, 0.2)},
        {"schedule": bounds.Corollary17(lam, 0.3, 0.2), "kappa": 0.1},
        {"schedule": object},
    ]
    of_casimir: Wrong = [
        {"mu": 0.0},
        {"kappa": 0.0},
        {"lam": 0.0, "tol": 0.1},
        {"inner": "sgd"},
        {"inner": nothing},
        {"stop": "never"},
        {"warm_start": "cold"},
        *schedules,
    ]
    of_sgd: Wrong = [
        {"step_size": -1.0},
        {"step_size": "a"},
        {"step_size": too_few},
        {"step_size": below_0},
        {"lam": 0.0},
        {"lam": 0.0, "step_size": B.steps.Pegasos()},
        {"average": "mean"},
        {"batch_size": 0},
        {"batch_size": 1.5},
    ]
    of_prox_linear: Wrong = [
        {"eta": 0.0},
        {"L": -1.0},
        {"tolerance": 0.0},
        {"tol": -1.0},
        {"budget": 0},
        {"schedule": "slow"},
        {"accept": "never"},
        {"inner": "svrg"},
        {"iterations": -1},
        {"mu": 0.0},
        {"callback": 1},
        {"checkpoint": 1},
    ]
    return {
        "sgd": ("chain/log", [*NUMBERS, *COUNTS, *OTHERS, *mu, *of_sgd]),
        "svrg": (
            "chain/log",
            [*NUMBERS, *COUNTS, *OTHERS, *mu, *step, *tol, {"lam": 0.0, "tol": 0.1}, {"average": "weighted"}],
        ),
        "casimir": (
            "chain/entropy",
            [*NUMBERS, *COUNTS, *OTHERS, *step, *tol, *of_casimir],
        ),
        "bcfw": ("chain/hinge", [*dual, {"rng": "a"}, {"capacity": 0}, {"cached_passes": -1}, {"average": "uniform"}]),
        "exponentiated_gradient": (
            "chain/log",
            [*dual, *mu, *step, {"rng": "a"}, {"step_size": 1.5}, {"sampling": "cyclic"}, {"evaluate_every": 0}],
        ),
        "multisample": (
            "chain/hinge",
            [*dual, {"rng": "a"}, {"k": 0}, {"mu": 0.0}, {"sampler": "best"}, {"update": "all"}, {"average": "mean"}],
        ),
        "cutting_planes": ("chain/hinge", [*dual, {"capacity": 0}]),
        "lbfgs": ("chain/log", [*NUMBERS, {"iterations": -1}, {"memory": 0}, {"tol": -1.0}, {"callback": 1}, *mu]),
        "prox_linear": ("network/entropy", [*NUMBERS, *of_prox_linear, {"rng": "a"}]),
    }  # fmt: skip


def too_few(t: np.ndarray, lam: float) -> np.ndarray:
    """A schedule of one step."""
    return t[:1]


def below_0(t: np.ndarray, lam: float) -> np.ndarray:
    """A schedule of steps below 0."""
    return -t


def nothing(*of: Any) -> None:
    """An inner solver that gives none."""


def named(value: Any) -> str:
    """A short name of a value: of an object its class, and none of its address."""
    if isinstance(value, str | int | float | list) or value is None:
        return repr(value)
    return getattr(value, "__name__", type(value).__name__)
