"""What a box is, and what it works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from reference.arrays import Array
from reference.objectives import Corners, Linearization
from reference.structures.proposals import Sampler

__all__ = ["Cornered", "Examples", "Linearized", "Objective", "Piece", "Traits", "traits"]


class Piece:
    """A box or a part of one: a frozen dataclass whose fields are its options.

    A box has ``init(objective, ...)``, the state before the first pass, and ``epoch(objective, state, rng)``, the state
    after one more. States are NamedTuples that nobody changes.
    """


class Examples(Protocol):
    """What can be gone over example by example."""

    @property
    def n(self) -> int:
        """Number of examples."""
        ...


class Objective(Examples, Protocol):
    """A finite sum F(w) = (1/n) sum_i f_i(w)."""

    def value_and_gradient(self, w: Array, /, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """The mean of f_i and of their gradients (d,) over the examples of a batch; None: all; mu: smoothing."""
        ...

    def zeros(self) -> Array:
        """Weights of zero (d,)."""
        ...


class Linearized(Objective, Protocol):
    """An objective that gives the plane that touches it, with its task loss."""

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
    """What an objective says of itself besides its values.

    hinge: whether it is a hinge, which mu = 0 leaves as it is. mu: its own smoothing, None where it has none to speak
    of. smoothing: by what it is smoothed. nonnegative: weights that must be >= 0. model: whose scores it takes.
    smoothness, local_smoothness: of mu, bounds on how curved each component is, everywhere or where it has no kink;
    inf: unknown.
    """

    hinge: bool
    mu: float | None
    smoothing: Any
    nonnegative: slice | None
    model: Any
    smoothness: Callable[[float | None], float]
    local_smoothness: Callable[[float | None], float]


def traits(objective: Examples) -> Traits:
    """Those of an objective; one that says nothing is a smooth function of free weights."""

    def smoothness(mu: float | None) -> float:
        bound = objective.smoothness(mu) if hasattr(objective, "smoothness") else None
        return np.inf if bound is None else float(bound)

    return Traits(
        getattr(objective, "loss_augmented", False),
        getattr(objective, "mu", None),
        getattr(objective, "smoothing", None),
        getattr(objective, "nonnegative", None),
        getattr(objective, "model", None),
        smoothness,
        getattr(objective, "local_smoothness", lambda mu: np.inf),
    )
