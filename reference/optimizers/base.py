"""The interface of a box, and of the objectives that boxes minimise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from reference.arrays import Array, host, squared_norm
from reference.models.nonlinear import NonlinearModel
from reference.objectives import Corners, Linearization
from reference.structures.proposals import Sampler
from reference.weighted import Weighted

__all__ = [
    "Algorithm",
    "Cornered",
    "Evaluation",
    "Examples",
    "Linearized",
    "Objective",
    "evaluate",
    "regularised",
    "traits",
    "value_of",
]


class Algorithm:
    """An algorithm or a part of one: a frozen dataclass whose fields are its options.

    The method ``init(objective, ...)`` of a box returns the state before the first pass, ``epoch(objective, state,
    rng)`` the state after one more pass. States are NamedTuples and are never changed in place.
    """


class Examples(Protocol):
    """A collection of examples, numbered from 0 to n - 1."""

    @property
    def n(self) -> int:
        """Number of examples."""
        ...


class Objective(Examples, Protocol):
    """A finite sum F(w) = (1/n) sum_i f_i(w)."""

    def value_and_gradient(self, w: Array, /, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """The mean of f_i and the mean of their gradients (d,) over a batch (None: all examples); mu: smoothing."""
        ...

    def zeros(self) -> Array:
        """Weights of zero (d,)."""
        ...


class Linearized(Objective, Protocol):
    """An objective that also gives its tangent plane, with the task loss."""

    def linearize(self, w: Array, /, batch: Any = None, mu: float | None = None) -> Linearization:
        """See :class:`reference.StructuralHinge`."""
        ...


class Cornered(Objective, Protocol):
    """An objective that is a maximum of planes, one for each output of an example."""

    def corners(self, w: Array, /, batch: Any = None, k: int = 1) -> Corners:
        """See :class:`reference.StructuralHinge`."""
        ...

    def sampled_corners(
        self,
        w: Array,
        /,
        batch: Any = None,
        k: int = 1,
        mu: float = 1.0,
        rng: int | np.random.Generator | None = None,
        sampler: Sampler | None = None,
    ) -> Corners:
        """See :class:`reference.StructuralHinge`."""
        ...


class Traits(NamedTuple):
    """Properties of an objective besides its values.

    hinge: whether it is a hinge, so that mu = 0 means no smoothing. mu: its own smoothing parameter, None if it has
    none. smoothing: the smoothing function. nonnegative: the weights that must be >= 0, a slice of step 1; None if all
    are free. model: of the scores; linear: whether these are linear in the weights. unknown: the number of positions
    whose labels are not known. smoothness, local_smoothness: functions of mu; bounds on the curvature of each
    component, everywhere or away from kinks; inf if unknown.
    """

    hinge: bool
    mu: float | None
    smoothing: Any
    nonnegative: slice | None
    model: Any
    linear: bool
    unknown: int
    smoothness: Callable[[float | None], float]
    local_smoothness: Callable[[float | None], float]

    @property
    def convex(self) -> bool:
        """Whether the objective is convex."""
        return self.linear and self.unknown == 0


def traits(objective: Examples) -> Traits:
    """The traits of an objective; one that declares none is a smooth function of unconstrained weights."""

    def smoothness(mu: float | None) -> float:
        bound = objective.smoothness(mu) if hasattr(objective, "smoothness") else None
        return np.inf if bound is None else float(bound)

    constrained = getattr(objective, "nonnegative", None)
    if constrained is not None:
        first, last, step = constrained.indices(cast(Objective, objective).zeros().shape[0])
        if step != 1:
            raise ValueError(f"nonnegative: expected a slice of neighbouring weights, got {constrained}")
        constrained = slice(first, last) if first < last else None
    unweighted = objective.objective if isinstance(objective, Weighted) else objective
    mu = getattr(objective, "mu", None)
    return Traits(
        bool(getattr(objective, "loss_augmented", False) and not mu),
        mu,
        getattr(objective, "smoothing", None),
        constrained,
        getattr(objective, "model", None),
        not isinstance(getattr(unweighted, "model", None), NonlinearModel),
        getattr(unweighted, "unknown", 0),
        smoothness,
        getattr(objective, "local_smoothness", lambda mu: np.inf),
    )


def is_hinge(objective: Any) -> bool:
    """Whether an objective is a hinge: augmented by the task loss, and not smoothed of itself as the log loss is."""
    return traits(objective).hinge


def value_of(objective: Objective, w: Array, mu: float | None, batch: Any = None) -> float:
    """F(w) over a batch (None: all examples), by ``objective.value`` if it has that method: a gradient costs more."""
    if hasattr(objective, "value"):
        return float(objective.value(w, batch, mu))
    return float(objective.value_and_gradient(w, batch, mu)[0])


def regularised(objective: Objective, w: Array, lam: float, mu: float | None, batch: Any = None) -> float:
    """F(w) + lam/2 ||w||^2, F over a batch as in :func:`value_of`."""
    return value_of(objective, w, mu, batch) + 0.5 * lam * squared_norm(w)


class Evaluation(NamedTuple):
    """At w: objective, F(w) + lam/2 ||w||^2; dual, a lower bound on its minimum; smoothed, F_mu(w).

    slope: a bound on F_mu(w) + lam/2 ||w||^2 minus its minimum. exact: the share of exact oracles. mu: as given. For
    lam = 0 there are no bounds: dual = -inf, slope = inf.
    """

    objective: float
    dual: float
    smoothed: float
    slope: float
    exact: float
    mu: float | None = None


def evaluate(objective: Objective, w: Array, lam: float, mu: float | None) -> Evaluation:
    """Objective and dual at w (d,), from the oracles smoothed at mu.

    A structural hinge is evaluated unsmoothed, and the weights of its smoothed max are a dual point:
    D = task loss - ||g||^2 / (2 lam). Any other objective F is its own target; if it is convex, then
    F(w) + lam/2 ||w||^2 - ||g + lam w||^2 / (2 lam) is a lower bound by strong convexity.
    """
    x = host(w).astype(np.float64, copy=False)
    hinge = is_hinge(objective)
    if hinge:
        value, g, task_loss, exact = cast(Linearized, objective).linearize(w, None, mu)
        target = value if mu == 0 else value_of(objective, w, 0.0)
    else:
        value, g = objective.value_and_gradient(w, None, mu)
        target, exact = value, 1.0
    fun = target + 0.5 * lam * squared_norm(x)
    if lam == 0:
        return Evaluation(fun, -np.inf, value, np.inf, exact, mu)
    slope = squared_norm(host(g).astype(np.float64, copy=False) + lam * x) / (2 * lam)
    dual = task_loss - squared_norm(g) / (2 * lam) if hinge else fun - slope
    return Evaluation(fun, dual, value, slope, exact, mu)
