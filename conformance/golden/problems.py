"""The models, data and objectives of the golden runs: the fixed problems of the catalogue, and some others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from conformance.recipes.structure import Subset
from conformance.specimens.fixed import FIXED, boxes, numbers
from reference.screening.registry import known_of, register
from reference.screening.restricted import restrict

__all__ = ["Problems", "Runs", "over"]

Runs = Iterator[tuple[str, Callable[[], Any]]]  # a run's name, and the run


class Problems:
    """The models, data and objectives of one backend, each made once."""

    lam = 0.1

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._models: dict[str, tuple[Any, Any]] = {}
        self._objectives: dict[str, Any] = {}

    def model(self, name: str) -> tuple[Any, Any]:
        """A model and its data, by name."""
        if name not in self._models:
            self._models[name] = OTHERS[name](self) if name in OTHERS else FIXED[name]().packed(self.backend)
        return self._models[name]

    def objective(self, name: str) -> Any:
        """``model/loss``, loss log, hinge or a smoothing, of weighted examples (w-) or a subclass (my-); or a sum of
        SUMS."""
        if name not in self._objectives:
            self._objectives[name] = SUMS[name](self) if name in SUMS else self._made(*name.split("/"))
        return self._objectives[name]

    def _made(self, name: str, loss: str) -> Any:
        B = self.backend
        if loss.startswith("w-"):
            objective = self.objective(f"{name}/{loss[2:]}")
            return B.Weighted(objective, np.arange(objective.n) % 3)
        model, data = self.model(name)
        if loss.endswith("log"):
            return (mine(B.LogLoss) if loss == "my-log" else B.LogLoss)(model, data)
        smoothings = {
            "hinge": B.smoothings.Max,
            "entropy": B.smoothings.Entropy,
            "l2": B.smoothings.SquaredL2,
            "top2": partial(B.smoothings.TopK, 2),
        }
        smoothings["my-entropy"] = mine(B.smoothings.Entropy)
        return B.StructuralHinge(model, data, smoothing=smoothings[loss]())

    def start(self, name: str) -> np.ndarray:
        """Weights (d,) of standard deviation 0.3, those >= 0 that must be."""
        objective = self.objective(name)
        w = 0.3 * numbers(77, 4 if name in SUMS else len(objective.zeros()))
        return np.abs(w) if getattr(objective, "nonnegative", None) is not None else w

    def run(self, learner: Callable[..., Any], name: str, *, start: bool = False, **options: Any) -> partial[Any]:
        """``learner`` on an objective, from a drawn start or its own, with this ``lam`` or another; not yet called."""
        first = (self.start(name),) if start else ()
        return partial(learner, self.objective(name), *first, **{"lam": self.lam, **options})


def over(
    go: Callable[..., Any], names: Iterable[str], options: dict[str, dict[str, Any]], **given: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A run of each problem with each set of options, beside those given for all."""
    for name in names:
        for title, own in options.items():
            yield f"{name}/{title}", go(name, **{**given, **own})


class Plain:
    """mean_i mu log(1 + exp(-<x_i, w>/mu)): a finite sum of the user's, without zeros(), a smoothing or a model."""

    def __init__(self, P: Problems, n: int = 6) -> None:
        self.X, self.n = numbers(9, n, 4), n

    def value_and_gradient(self, w: np.ndarray, batch: Any = None, mu: float | None = None) -> tuple[float, np.ndarray]:
        """Mean over a batch and gradient (4,)."""
        X, mu = self.X if batch is None else self.X[batch], 1.0 if mu is None else mu
        z = X @ w / mu
        return mu * float(np.mean(np.logaddexp(0.0, -z))), X.T @ (-1.0 / (1.0 + np.exp(z))) / len(X)


class Tempered(Plain):
    """The same with a mu of its own."""

    mu = 0.5


class Uneven(Plain):
    """Forty of them, one much more curved than the others: it is not among those that a step size is tried on."""

    def __init__(self, P: Problems) -> None:
        super().__init__(P, 40)
        self.X[7] *= 30.0


SUMS: dict[str, Callable[[Problems], Any]] = {"plain": Plain, "tempered": Tempered, "uneven": Uneven}


def mine(kind: type) -> type:
    """A subclass that changes nothing, for which no kernel may be used. A model's features are registered for it."""
    found = type("Mine", (kind,), {})
    register(found, known_of(kind))
    return found


def loops(P: Problems, name: str) -> tuple[Any, Any]:
    """A fixed problem of a subclass, for which no kernel may be used."""
    model, data = FIXED[name]().packed(P.backend)
    model.__class__ = mine(type(model))
    return model, data


def network(P: Problems) -> tuple[Any, Any]:
    """Images of candidate boxes, scored by two layers."""
    model, problem = P.backend.TwoLayerModel((2, 2, 2), hidden=2), boxes(2, 2, 2)
    return model, model.pack(problem.X, problem.Y)


def subset(P: Problems) -> tuple[Any, Any]:
    """A structure of the user's: any of the subsets of three labels."""
    model = P.backend.ListModel(lambda x: np.kron(np.eye(4, 3), x), Subset, size=6)
    return model, model.pack([numbers(110 + i, 2) for i in range(4)], [(0, 1, 1), (1, 0, 0), (1, 1, 0), (0, 0, 1)])


def restricted(P: Problems) -> tuple[Any, Any]:
    """The problem of the sequences without some of the weights."""
    model, data = P.model("chain")
    smaller = restrict(model, np.arange(0, model.size, 2))
    return smaller, smaller.narrow(data)


OTHERS: dict[str, Callable[[Problems], tuple[Any, Any]]] = {
    "mine": partial(loops, name="chain"),
    "my-classes": partial(loops, name="classes"),
    "network": network,
    "subset": subset,
    "restricted": restricted,
}
