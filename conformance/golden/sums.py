"""Finite sums that are not of the package: objectives for the learners that need only ``n`` and
``value_and_gradient``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SUMS", "Failing"]


class Plain:
    """mean_i mu log(1 + exp(-<x_i, w>/mu)): a finite sum of the user's, without zeros(), a smoothing or a model."""

    def __init__(self, P: Any, n: int = 6) -> None:
        self.X, self.n = P.numbers(9, n, 4), n

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

    def __init__(self, P: Any) -> None:
        super().__init__(P, 40)
        self.X[7] *= 30.0


class Failing(Plain):
    """The same, but the ``last``-th evaluation of a batch raises an error; for 0, every evaluation does."""

    def __init__(self, P: Any, last: int, error: type[BaseException]) -> None:
        super().__init__(P)
        self.left, self.error = last, error

    def value_and_gradient(self, w: np.ndarray, batch: Any = None, mu: float | None = None) -> tuple[float, np.ndarray]:
        """Mean over a batch and gradient (4,)."""
        self.left -= batch is not None
        if self.left <= 0:
            raise self.error("asked too often")
        return super().value_and_gradient(w, batch, mu)


SUMS: dict[str, Callable[[Any], Any]] = {"plain": Plain, "tempered": Tempered, "uneven": Uneven}
