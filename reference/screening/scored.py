"""The log loss by way of its scores, which are linear in the weights: products with the features apart from inference.

F(w) = f(Z(w)): ``forward`` makes the scores Z of all examples from weights, one product; ``loss`` and ``loss_and_gradient`` are inference at
scores, the latter with one product back. Scores between those of two weights need no product, so a solver that goes along lines saves half
of them. How Z looks is each class's own affair:

    Pieces    the model's scores of one piece of the examples after another, in memory
    Whole     the weights themselves, so that each question costs its products; for scores that are too many, or not finite
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host
from reference.structures.scores import add, inner, score_fields

__all__ = ["Answer", "Pieces", "Whole", "by_scores"]

MOST_SCORES = 2**25  # numbers that are kept


class Answer(NamedTuple):
    """What is known at scores. loss: F. gradient: of F (d,). losses: of each example (n,); None where they do not fall out. NumPy float64."""

    loss: float
    gradient: np.ndarray
    losses: np.ndarray | None = None


class Whole:
    """The log loss of an objective at weights: Z is w.

    Parameters
    ----------
    objective : LogLoss
    """

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        self.place = Place.of(objective.zeros())

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> Any:
        """Z: w itself, no product yet."""
        return w

    def loss(self, Z: Any) -> float:
        """F at Z."""
        return float(self.objective.value_and_gradient(self.place.floats(Z))[0])

    def loss_and_gradient(self, Z: Any, before: Any = None, c: float = 0.0) -> Answer:
        """F and its gradient (d,) at Z + c (Z - before)."""
        w = Z if before is None else Z + c * (Z - before)
        value, gradient = self.objective.value_and_gradient(self.place.floats(w))
        return Answer(float(value), host(gradient).astype(np.float64))

    def losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each example (n,) at weights w (d,): a product and inference."""
        return losses(self.objective, self.place.floats(w))

    def taken(self, Z: Any, columns: np.ndarray) -> Any:
        """Z as :meth:`narrow` of ``columns`` has it, of weights that are 0 elsewhere."""
        return Z[columns]

    def narrow(self, reduced: Any, columns: np.ndarray) -> Any:
        """The same of the weights ``columns`` alone, those of the problem ``reduced``."""
        return type(self)(reduced.objective)


class Pieces:
    """The log loss of an objective at kept scores: Z is the list of the pieces' scores, all finite.

    Parameters
    ----------
    objective : LogLoss
    """

    def __init__(self, objective: Any) -> None:
        self.objective, self.model, self.data, self.n = objective, objective.model, objective.data, objective.n
        self.place = Place.of(objective.zeros())
        self.pieces = list(self.model.chunks(self.data, np.arange(self.n)))

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> Any:
        """Z: one product with the features, which may skip weights of 0 (here it does not)."""
        there = self.place.floats(w)
        return [self.model.scores(self.data, piece, there) for piece in self.pieces]

    def loss(self, Z: Any) -> float:
        """F at Z: inference, no product."""
        return sum(total for total, _ in self._inferred(Z)) / self.n

    def loss_and_gradient(self, Z: Any, before: Any = None, c: float = 0.0) -> Answer:
        """F and its gradient (d,) at Z + c (Z - before): inference and one product back."""
        if before is not None:
            Z = [add(here, add(here, there, -1.0), c) for here, there in zip(Z, before, strict=True)]
        w = gradient = self.objective.zeros()
        loss = 0.0
        for piece, (total, moment) in zip(self.pieces, self._inferred(Z), strict=True):
            loss += total
            gradient = gradient + self.model.pullback(self.data, piece, w, moment)
        return Answer(loss / self.n, host(gradient).astype(np.float64) / self.n)

    def _inferred(self, Z: Any) -> Any:
        """For each piece the sum of its losses, and its expected parts less the true ones."""
        for piece, scores in zip(self.pieces, Z, strict=True):
            gold = self.model.gold(self.data, piece)
            value, parts = self.model.structure_type.unchecked(scores).expectation()
            total = float(array_namespace(value).sum(value)) if hasattr(value, "ndim") else float(value)
            yield total - inner(scores, gold), add(parts, gold, -1.0)

    def losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each example (n,) at weights w (d,): a product and inference."""
        return losses(self.objective, self.place.floats(w))

    def taken(self, Z: Any, columns: np.ndarray) -> Any:
        """Z as it is: the outputs stay, and so do their scores."""
        return Z

    def narrow(self, reduced: Any, columns: np.ndarray) -> Any:
        """The same of the weights ``columns`` alone, those of the problem ``reduced``."""
        return type(self)(reduced.objective)


def by_scores(objective: Any) -> Any:
    """The log loss of an objective by way of its scores: kept where they are finite and not too many, else asked for anew."""
    pieces, w, many = Pieces(objective), objective.zeros(), 0
    for piece in pieces.pieces:
        fields = score_fields(pieces.model.scores(pieces.data, piece, w))
        many += sum(math.prod(field.shape) for field in fields)
        if many > MOST_SCORES or not all(map(_finite, fields)):
            return Whole(objective)
    return pieces


def losses(objective: Any, w: Array) -> np.ndarray:
    """loss_i(w) = -log p(y_i | x_i; w) of each example (n,), as NumPy float64."""
    found, model, data = np.zeros(objective.n), objective.model, objective.data
    for piece in model.chunks(data, np.arange(objective.n)):
        value, _ = model.structure_type.unchecked(model.scores(data, piece, w)).expectation()
        found[piece] = host(value).astype(np.float64) - host(model.gold_scores(data, piece, w)).astype(np.float64)
    return np.maximum(found, 0.0)


def _finite(field: Array) -> bool:
    xp = array_namespace(field)
    return bool(xp.all(xp.isfinite(field)))
