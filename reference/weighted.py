"""A finite sum in which examples have weights: F(w) = sum_i s_i f_i(w) / sum_i s_i.

With s_i scaled to mean 1 it is the mean of the functions s_i f_i, so that every optimiser of finite sums can minimise
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.arrays import Array, Place, floats, host
from reference.example_errors import ExampleError
from reference.models.base import all_of
from reference.objectives import Corners, Linearization, StructuralHinge

__all__ = ["OfObjective", "Weighted"]


class OfObjective:
    """Properties that an objective takes over unchanged from the one that it is made of, ``objective``."""

    objective: StructuralHinge | Weighted

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.objective!r})"

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.objective.n

    @property
    def mu(self) -> float:
        """The smoothing parameter that mu=None means."""
        return self.objective.mu

    @property
    def smoothing(self) -> Any:
        """The smoothing of the objective."""
        return self.objective.smoothing

    @property
    def loss_augmented(self) -> bool:
        """Whether the loss is a maximum over outputs, of scores and task losses."""
        return self.objective.loss_augmented


class Weighted(OfObjective):
    """An objective of this package with a weight for each example.

    F(w) = (1/n) sum_i s_i f_i(w), with the weights s divided by their mean

    Parameters
    ----------
    objective : StructuralHinge or LogLoss
    weights : array (n,)
        Finite, >= 0, not all 0. An example of weight 2 counts twice, an example of weight 0 not at all.

    Raises
    ------
    TypeError, ValueError
        ``objective`` is neither; weights of another shape, negative, not finite, or all 0.

    Notes
    -----
    A gradient calls the objective once for each different weight. ``exponentiated_gradient`` takes no weighted
    examples.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, Weighted, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> once = LogLoss(model, model.pack([[0], [1]], ["a", "b"]))
    >>> thrice = LogLoss(model, model.pack([[0], [1], [1], [1]], ["a", "b", "b", "b"]))
    >>> result = lbfgs(Weighted(once, [1.0, 3.0]), lam=0.1)
    >>> abs(result.fun - lbfgs(thrice, lam=0.1).fun) < 1e-9
    True
    """

    objective: StructuralHinge

    def __init__(self, objective: StructuralHinge, weights: Any) -> None:
        if not isinstance(objective, StructuralHinge):
            raise TypeError(f"objective: expected StructuralHinge or LogLoss, got {type(objective).__name__}")
        (given,) = floats(weights=weights)
        values = host(given).astype(np.float64)
        if values.shape != (objective.n,):
            raise ValueError(f"weights: expected shape ({objective.n},), one for each example, got {values.shape}")
        for i in np.flatnonzero(~((values >= 0) & (values < np.inf)))[:1].tolist():
            raise ExampleError("weights", i, None, f"expected finite numbers >= 0, got {values[i]}")
        if not np.any(values > 0):
            raise ValueError("weights: expected finite numbers >= 0, at least one of them > 0")
        self.objective, largest = objective, values.max()
        self.weights = (values / largest) / np.mean(values / largest)

    @property
    def nonnegative(self) -> slice | None:
        """The weights w that must be >= 0."""
        return self.objective.nonnegative

    def zeros(self) -> Array:
        """Weights w of zero (d,)."""
        return self.objective.zeros()

    def value_and_gradient(self, w: Array, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """The mean of s_i f_i over a batch and its gradient (d,); arguments and errors as
        :meth:`StructuralHinge.value_and_gradient`.
        """
        value, gradient, *_ = self._mean(
            w, batch, mu, lambda *point: (*self.objective.value_and_gradient(*point), 0.0, 1.0)
        )
        return value, gradient

    def linearize(self, w: Array, batch: Any = None, mu: float | None = None) -> Linearization:
        """Value, gradient, task loss and share of exact calls; arguments and errors as
        :meth:`StructuralHinge.linearize`.
        """
        return Linearization(*self._mean(w, batch, mu, self.objective.linearize))

    def _mean(self, w: Array, batch: Any, mu: float | None, means: Any) -> tuple[float, Array, float, float]:
        """The weighted mean of what the objective returns for the examples of each weight; examples of weight 0 are
        skipped.
        """
        batch = all_of(self.n, batch)
        if len(batch) == 0:
            raise ValueError("batch: expected at least one example, got none")
        scales, group = np.unique(self.weights[batch], return_inverse=True)
        total, gradient, task_loss, exact = 0.0, self.zeros(), 0.0, 0.0
        for g, scale in enumerate(scales.tolist()):
            some = batch[group == g]
            share = len(some) / len(batch)
            if scale == 0:
                exact += share
                continue
            value, slope, loss, certain = means(w, some, mu)
            total, gradient = total + share * scale * value, gradient + share * scale * slope
            task_loss, exact = task_loss + share * scale * loss, exact + share * certain
        return total, gradient, task_loss, exact

    def corners(self, w: Array, batch: Any = None, k: int = 1) -> Corners:
        """The k best outputs as affine functions, corners of s_i f_i; arguments and errors as for
        :meth:`StructuralHinge.corners`.
        """
        return self._scaled(self.objective.corners(w, batch, k), batch)

    def sampled_corners(self, w: Array, batch: Any = None, *arguments: Any, **options: Any) -> Corners:
        """The best output and k - 1 drawn ones as corners of s_i f_i; as :meth:`StructuralHinge.sampled_corners`."""
        return self._scaled(self.objective.sampled_corners(w, batch, *arguments, **options), batch)

    def _scaled(self, corners: Corners, batch: Any) -> Corners:
        directions, losses, count = corners
        place = Place.of(directions)
        xp, s = place.xp, place.floats(self.weights[all_of(self.n, batch)])
        finite = xp.where(losses > -xp.inf, losses, 0.0)
        scaled = xp.where(losses > -xp.inf, s[:, None] * finite, losses)
        return Corners(s[:, None, None] * directions, scaled, count)

    def smoothness(self, mu: float | None = None) -> float | None:
        """L of each s_i f_i: the largest weight times that of the objective."""
        L = self.objective.smoothness(mu)
        return None if L is None else float(self.weights.max()) * L

    def local_smoothness(self, mu: float | None = None) -> float:
        """L where the K best outputs do not change: the largest weight times that of the objective."""
        return float(self.weights.max()) * self.objective.local_smoothness(mu)

    def width(self) -> float:
        """D such that smoothing at mu changes any s_i f_i by at most mu D."""
        return float(self.weights.max()) * self.objective.width()
