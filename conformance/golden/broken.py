"""Golden runs that break off: an objective that Ctrl-C interrupts or that fails within an epoch, a callback that
fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from conformance.golden.problems import Problems
from conformance.golden.sums import Failing

__all__ = ["broken"]

Runs = Iterator[tuple[str, Callable[[], Any]]]


def broken(P: Problems) -> Runs:
    B, w0 = P.backend, P.start("plain")
    learners: dict[str, partial[Any]] = {
        "sgd": partial(B.sgd, lam=P.lam, epochs=4, step_size=0.5, rng=0),
        "sgd, average=last": partial(B.sgd, lam=P.lam, epochs=4, step_size=9.0, average="last", rng=0),
        "svrg": partial(B.svrg, lam=P.lam, epochs=4, step_size=0.2, rng=0),
        "casimir": partial(B.casimir, lam=P.lam, epochs=4, step_size=0.2, kappa=0.3, rng=0),
        "casimir, inner=saga": partial(B.casimir, lam=P.lam, epochs=4, step_size=0.2, kappa=0.3, inner="saga", rng=0),
        "lbfgs": partial(B.lbfgs, lam=P.lam, iterations=4),
        "online_proximal": partial(proximal, B, step_size=0.5, epochs=4, rng=0),
    }
    for title, learner in learners.items():
        for error in (KeyboardInterrupt, ValueError):
            for last in (
                0,
                15,
            ):  # at once, and in the third epoch (the second if each example is evaluated twice an epoch)
                if last == 0 or title != "lbfgs":
                    yield f"{title}/{error.__name__} at {last}", partial(learner, Failing(P, last, error), w0)
        yield f"{title}/callback", partial(learner, P.objective("plain"), w0, callback=failing)
    duals = {"bcfw": "hinge", "exponentiated_gradient": "log", "multisample": "hinge", "cutting_planes": "hinge"}
    for title, loss in duals.items():
        for model in ("chain", "mine"):
            yield f"{title}/{model}/callback", P.run(getattr(B, title), f"{model}/{loss}", callback=failing)
    for title in ("prox_linear", "sgd"):
        yield f"{title}/network/callback", P.run(getattr(B, title), "network/entropy", mu=0.5, rng=0, callback=failing)
    yield "solve_sparse/callback", partial(B.solve_sparse, P.objective("chain/log"), beta=0.01, callback=failing)
    yield "sparse_path/callback", partial(B.sparse_path, P.objective("chain/log"), count=2, callback=failing)


def proximal(B: Any, objective: Any, w0: Any, **options: Any) -> Any:
    """The online proximal algorithm takes its regularizer second."""
    return B.online_proximal(objective, B.L1(0.1), w0, **options)


def failing(*of: Any) -> None:
    """A callback that fails."""
    raise RuntimeError("a fault of the callback's")
