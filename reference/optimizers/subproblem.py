"""The smoothed, re-centred problems of Casimir, and the interface of a pass over one.

F_{mu,kappa}(w; z) = F_mu(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2. Source: Pillutla et al., (23) to (26).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, squared_norm
from reference.optimizers.base import Algorithm, Objective

__all__ = ["InnerPass", "Pass", "Snapshot", "Subproblem", "UserPass"]


class Snapshot(NamedTuple):
    """x (d,), and the value and gradient (d,) of F at x: over all examples, without the regularizer."""

    x: Array
    value: float
    gradient: Array


class Subproblem(NamedTuple):
    """F_{mu,kappa}(.; z): the objective, lam, kappa, mu and the center z (d,); None if kappa = 0."""

    objective: Objective
    lam: float
    kappa: float
    mu: float | None
    center: Array | None

    def value(self, w: Array, smoothed: float) -> float:
        """F_{mu,kappa}(w; z), given F_mu(w)."""
        pull = 0.0 if self.center is None else 0.5 * self.kappa * squared_norm(w - self.center)
        return smoothed + 0.5 * self.lam * squared_norm(w) + pull

    def gradient(self, snapshot: Snapshot) -> Array:
        """The gradient (d,) of F_{mu,kappa}(.; z), given that of F_mu."""
        return snapshot.gradient + self.lam * snapshot.x + self.kappa * (snapshot.x - self.center)

    def solved(self, snapshot: Snapshot, delta: float) -> bool:
        """||grad F_{mu,kappa}(w; z)||^2 <= delta kappa (lam + kappa) ||w - z||^2, which implies (26)."""
        small = delta * self.kappa * (self.lam + self.kappa) * squared_norm(snapshot.x - self.center)
        return bool(squared_norm(self.gradient(snapshot)) <= small)

    def prox(self, v: Array, gamma: float) -> Array:
        """argmin_w ||w - v||^2 / (2 gamma) + lam/2 ||w||^2 + kappa/2 ||w - z||^2 (d,)."""
        if self.center is not None:
            v = v + (gamma * self.kappa) * self.center
        return v / (1.0 + gamma * (self.lam + self.kappa))


Pass = Callable[[Subproblem, Snapshot, np.ndarray, float, Any], tuple[Array, int, Any]]
"""A pass from ``snapshot.x`` over the examples in the given order, with steps of the given size.

pass(problem, snapshot, order, step_size, memory) returns the new point (d,), the number of oracle calls of one example,
and the memory for the next pass over the subproblem (None for the first pass).
"""


class InnerPass(Algorithm, ABC):
    """A box that makes passes over a subproblem."""

    def snapshot(self, objective: Objective, x: Array, mu: float | None) -> Snapshot:
        """F_mu and its full gradient at x: n oracle calls."""
        return Snapshot(x, *objective.value_and_gradient(x, None, mu))

    @abstractmethod
    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        """See :data:`Pass`."""


@dataclass(frozen=True)
class UserPass(InnerPass):
    """A pass given by the user as a function."""

    function: Pass

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        answer = self.function(problem, snapshot, order, step_size, memory)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise TypeError(f"inner: expected a pass to return (point, oracles asked for, memory), got {answer!r}")
        return answer
