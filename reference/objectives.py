"""Finite sums over examples: the structural hinge loss, smoothed or not, and the CRF log loss.

F(w) = (1/n) sum_i [ max_y (score_i(y; w) + loss_i(y)) - score_i(y_i; w) ], with the max possibly smoothed
(Pillutla et al., equations (1), (3) and (13)). Neither lam nor mu lives here: the regulariser is the optimiser's, and
mu is an argument. One loop serves every model and structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array
from reference.models.base import all_of, check_weights
from reference.smoothing import Entropy, Max
from reference.structures.base import UnsupportedError
from reference.structures.scores import add, inner

__all__ = ["LogLoss", "StructuralHinge"]


class StructuralHinge:
    """The mean over examples of the structural hinge loss.

    mean_i  max_y [score_i(y; w) + loss_i(y)] - score_i(y_i; w), the max smoothed by ``smoothing`` at ``mu`` > 0.

    Parameters
    ----------
    model : model
    data : packed data
        From ``model.pack(X, Y)``.
    smoothing : callable
        ``Max()`` (default) or ``Entropy()``.

    Raises
    ------
    UnsupportedError
        If the model's structure does not answer what the smoothing asks.

    Source
    ------
    Pillutla et al., equations (1) to (3), Definition 6.
    """

    mu = 0.0  # what mu=None means
    loss_augmented = True

    def __init__(self, model: Any, data: Any, *, smoothing: Any = None) -> None:
        self.model, self.data = model, data
        self.smoothing = Max() if smoothing is None else smoothing
        if data.n == 0:
            raise ValueError("data: expected at least one example, got none")
        self._like = self.zeros()  # namespace and dtype of weights
        model.check(data)
        for method in {"best", "parts", self.smoothing.needs}:
            if not model.structure_type.supports(method):
                raise UnsupportedError(
                    f"{type(self).__name__} with {self.smoothing} needs {method}(), which {model.structure_type.__name__} lacks"
                )

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.data.n

    def zeros(self) -> Array:
        """Weights of zero (d,): size, namespace, device and dtype of what the optimiser works on."""
        return self.model.zeros(self.data)

    def value_and_gradient(self, w: Array, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """Mean loss over a batch and its (sub)gradient (d,), without regulariser.

        Parameters
        ----------
        w : array (d,)
        batch : int array (b,), optional
            Example numbers; None: all. A number that occurs twice counts twice.
        mu : float, optional
            Smoothing; None: the class's own.

        Returns
        -------
        value : float
        gradient : array (d,)

        Raises
        ------
        ValueError, TypeError
            Weights of another size or dtype, a batch that is empty or out of range, mu out of range.
        InfeasibleError
            An example's every output is forbidden.
        """
        check_weights(self.model, w, self._like)
        batch = all_of(self.n, batch)
        if len(batch) == 0:
            raise ValueError("batch: expected at least one example, got none")
        total, gradient = self._sum(w, batch, self._mu(mu))
        return total / len(batch), gradient / len(batch)

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        """The sum over the batch of losses and gradients."""
        model, data = self.model, self.data
        total, gradient = 0.0, self.zeros()
        for piece in model.chunks(data, batch):
            scores, gold = model.scores(data, piece, w), model.gold(data, piece)
            augmented = add(scores, model.task_loss(data, piece)) if self.loss_augmented else scores
            value, parts = model.structure_type.unchecked(augmented).smooth_max(self.smoothing, mu)
            total += _total(value) - inner(scores, gold)
            gradient = gradient + model.pullback(data, piece, w, add(parts, gold, -1.0))
        return total, gradient

    def _mu(self, mu: float | None) -> float:
        mu = self.mu if mu is None else float(mu)
        if not 0 <= mu < np.inf:
            raise ValueError(f"mu: expected a finite number >= 0, got {mu}")
        return mu

    def fused_epoch(self, optimizer: str) -> Callable[..., Any] | None:
        """A compiled loop that runs a whole epoch of the named optimiser over the packed data, or None (here: always)."""
        return None


class LogLoss(StructuralHinge):
    """The mean over examples of the CRF negative log-likelihood.

    mean_i  log sum_y exp(score_i(y; w)) - score_i(y_i; w)

    No task loss; mu is 1 and nothing else.

    Source
    ------
    Martins et al., equation (3); Pillutla et al., Lemma 7 (ii).
    """

    mu = 1.0
    loss_augmented = False

    def __init__(self, model: Any, data: Any) -> None:
        super().__init__(model, data, smoothing=Entropy())

    def _mu(self, mu: float | None) -> float:
        if mu is not None and mu != 1.0:
            raise ValueError(
                f"mu: the log loss is defined at mu = 1, got {mu}; StructuralHinge(smoothing=Entropy()) takes any mu"
            )
        return 1.0


def _total(value: Any) -> float:
    """The sum of a float or of an array of values, as a float."""
    return float(value) if getattr(value, "ndim", 0) == 0 else float(array_namespace(value).sum(value))
