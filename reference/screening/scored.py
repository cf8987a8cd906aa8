"""The log loss as a function of scores that are linear in the weights: products with features, apart from inference.

F(w) = f(Z(w)): ``forward`` computes the scores Z of all examples from weights, by one product. ``loss`` and
``loss_and_gradient`` do inference at scores, the latter with one product back. Scores are linear, so those between two
known points need no product, and a line search saves half of the products. Each class has its own form of Z:

    Pieces    the model's scores of each piece of the examples, kept in memory Whole     the weights themselves, so that
    each call makes its own products; for scores that are too many or not finite
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host
from reference.objectives import LogLoss, StructuralHinge
from reference.structures.scores import Scores, add, inner, score_fields
from reference.structures.table import Table

__all__ = ["Answer", "Pieces", "Whole", "by_scores", "descend", "scored_of"]

MOST_SCORES = 2**25  # the most scores to keep
MOST_FEATURES, BLOCK = 2**27, 2**22  # the most features for a Hessian, and for a block of it
SWEEPS, ENOUGH = 200, 1e-10  # coordinate descent ends after SWEEPS, or at this share of the best gain


class Answer(NamedTuple):
    """The evaluation at scores, NumPy float64: loss F, its gradient (d,).

    losses: of each example (n,); None if they were not computed. moment: the gradient with respect to the scores; a
    product back gives n times the gradient, also for other weights. None: not kept.
    """

    loss: float
    gradient: np.ndarray
    losses: np.ndarray | None = None
    moment: Any = None


class Scored(Protocol):
    """The interface of a log loss as a function of scores; :class:`Pieces` and :class:`Whole` implement it."""

    keeps: bool

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> Any: ...

    def loss(self, Z: Any) -> float: ...

    def loss_and_gradient(self, Z: Any, before: Any = None, c: float = 0.0) -> Answer: ...

    def losses(self, w: np.ndarray) -> np.ndarray: ...

    def hessian(self, Z: Any, columns: np.ndarray, turn: int = 0) -> np.ndarray | None: ...

    def descend(self, H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray: ...

    def taken(self, Z: Any, columns: np.ndarray) -> Any: ...

    def narrow(self, reduced: Any, columns: np.ndarray) -> Scored: ...


class Whole:
    """The log loss of an objective at weights: Z is w.

    Parameters
    ----------
    objective : LogLoss
    """

    ops = sys.modules[__name__]
    keeps = False  # whether Z stays the same when weights of 0 leave

    def __init__(self, objective: LogLoss) -> None:
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

    def hessian(self, Z: Any, columns: np.ndarray, turn: int = 0) -> np.ndarray | None:
        """None: there is no Hessian."""
        return None

    def descend(self, H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray:
        """See :func:`descend`."""
        x: np.ndarray = self.ops.descend(H, q, w, alpha, beta)
        return x

    def taken(self, Z: Any, columns: np.ndarray) -> Any:
        """Z in the form of :meth:`narrow` of ``columns``, for weights that are 0 elsewhere."""
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

    ops = sys.modules[__name__]
    keeps = True

    def __init__(self, objective: LogLoss) -> None:
        self.objective, self.model, self.data, self.n = objective, objective.model, objective.data, objective.n
        self.place = Place.of(objective.zeros())
        self.pieces = list(self.model.chunks(self.data, np.arange(self.n)))

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> Any:
        """Z: one product with the features, which may skip weights of 0 (here it does not)."""
        weights = self.place.floats(w)
        return [self.objective.augmented(piece, weights) for piece in self.pieces]

    def loss(self, Z: Any) -> float:
        """F at Z: inference, no product."""
        return sum(total for total, _ in self._inferred(Z)) / self.n

    def loss_and_gradient(self, Z: Any, before: Any = None, c: float = 0.0) -> Answer:
        """F and its gradient (d,) at Z + c (Z - before): inference and one product back."""
        if before is not None:
            Z = [add(scores, add(scores, last, -1.0), c) for scores, last in zip(Z, before, strict=True)]
        loss, moment = 0.0, []
        for total, parts in self._inferred(Z):
            loss += total
            moment.append(parts)
        return Answer(loss / self.n, self.back(moment) / self.n, None, moment)

    def back(self, moment: Any) -> np.ndarray:
        """The gradient (d,) with respect to weights from gradients with respect to scores."""
        w = result = self.objective.zeros()
        for piece, parts in zip(self.pieces, moment, strict=True):
            result = result + self.model.pullback(self.data, piece, w, parts)
        return host(result).astype(np.float64)

    def hessian(self, Z: Any, columns: np.ndarray, turn: int = 0) -> np.ndarray | None:
        """The Hessian of F at Z among the weights ``columns`` (k, k): mean_i Cov_theta_i(phi_ij, phi_il).

        None if outputs are not listed, or if all outputs together have more than 2^27 features. A subclass may use a
        sample of the examples, chosen by ``turn``.
        """
        if not issubclass(self.model.structure_type, Table):
            return None
        k, outputs = len(columns), [math.prod(scores.values.shape) for scores in Z]
        if k * sum(outputs) > MOST_FEATURES:
            return None
        result, w, unit = np.zeros((k, k)), self.objective.zeros(), np.zeros(self.model.size)

        def features(some: np.ndarray, j: int) -> np.ndarray:
            unit[j] = 1.0
            values = host(self.model.pushforward(self.data, some, w, self.place.floats(unit.copy())).values)
            unit[j] = 0.0
            return values

        for piece, scores, many in zip(self.pieces, Z, outputs, strict=True):
            theta = host(self.model.structure_type.unchecked(scores).expectation()[1].values).astype(np.float64)
            each = max(1, BLOCK * len(piece) // max(k * many, 1))  # examples at a time
            for lo in range(0, len(piece), each):
                some, p = piece[lo : lo + each], theta[lo : lo + each] if theta.ndim > 1 else theta
                phi = np.stack([features(some, j) for j in columns.tolist()]) if k else np.zeros((0, *p.shape))
                phi = phi - np.sum(p * phi, axis=-1, keepdims=True)
                phi = np.reshape(phi * np.sqrt(p), (k, -1))
                result += phi @ phi.T
        H: np.ndarray = result / self.n
        return H

    def _inferred(self, Z: Any) -> Iterator[tuple[float, Scores]]:
        """For each piece: the sum of its losses, and its expected parts minus the true ones."""
        for piece, scores in zip(self.pieces, Z, strict=True):
            gold = self.model.gold(self.data, piece)
            value, parts = self.model.structure_type.unchecked(scores).expectation()
            total = float(array_namespace(value).sum(value)) if hasattr(value, "ndim") else float(value)
            yield total - inner(scores, gold), add(parts, gold, -1.0)

    def losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each example (n,) at weights w (d,): a product and inference."""
        return losses(self.objective, self.place.floats(w))

    def descend(self, H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray:
        """See :func:`descend`."""
        x: np.ndarray = self.ops.descend(H, q, w, alpha, beta)
        return x

    def taken(self, Z: Any, columns: np.ndarray) -> Any:
        """Z itself: the scores do not depend on weights of 0."""
        return Z

    def narrow(self, reduced: Any, columns: np.ndarray) -> Any:
        """The same of the weights ``columns`` alone, those of the problem ``reduced``."""
        return type(self)(reduced.objective)


def descend(H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """argmin_x <q, x - w> + (x - w)' H (x - w) / 2 + beta (alpha/2 ||x||^2 + ||x||_1) (k,), by coordinate descent from
    w.

    H (k, k) has a positive diagonal. Stops when a sweep gains at most 1e-10 of the best sweep's gain, or after 200
    sweeps.
    """
    x, q, most = w.copy(), q.copy(), 0.0
    lam = alpha * beta
    for _ in range(SWEEPS):
        largest = 0.0
        for j in range(len(x)):
            v = H[j, j] * x[j] - q[j]
            new = (v - min(max(v, -beta), beta)) / (H[j, j] + lam)
            if new != x[j]:
                move = new - x[j]
                q += move * H[j]
                largest = max(largest, (H[j, j] + lam) * move**2)
                x[j] = new
        most = max(most, largest)
        if largest <= ENOUGH * most:
            break
    return x


def scored_of(objective: LogLoss) -> Scored:
    """The log loss of an objective as a function of its scores; cached on the objective."""
    if "scored" not in vars(objective):
        vars(objective)["scored"] = made(objective)
    result: Scored = vars(objective)["scored"]
    return result


@singledispatch
def made(objective: LogLoss) -> Scored:
    """:func:`by_scores`, unless another function is registered for the type of the objective."""
    return by_scores(objective)


def known_as_scores(objective: Any) -> bool:
    """Whether a function is registered for the type of an objective."""
    return made.dispatch(type(objective)) is not made.dispatch(object)


def by_scores(objective: LogLoss) -> Scored:
    """The log loss of an objective as a function of its scores: Pieces if they are finite and few enough, else Whole.

    An objective that overrides the loss gets Whole.
    """
    return Whole(objective) if overridden(objective) else kept_or_not(objective, Pieces, Whole)


def overridden(objective: LogLoss) -> bool:
    """Whether the objective overrides the loss and gradient of this package."""
    return type(objective).value_and_gradient is not StructuralHinge.value_and_gradient


def kept_or_not(objective: LogLoss, Pieces: Callable[[LogLoss], Pieces], Whole: Callable[[LogLoss], Whole]) -> Scored:
    """Pieces if all scores are finite and at most MOST_SCORES, else Whole."""
    pieces, w, many = Pieces(objective), objective.zeros(), 0
    for piece in pieces.pieces:
        fields = score_fields(pieces.model.scores(pieces.data, piece, w))
        many += sum(math.prod(field.shape) for field in fields)
        if many > MOST_SCORES or not all(map(_finite, fields)):
            return Whole(objective)
    return pieces


def losses(objective: LogLoss, w: Array) -> np.ndarray:
    """loss_i(w) of each example (n,), as NumPy float64: -log p(y_i | x_i; w), if there is no task loss."""
    result, model, data = np.zeros(objective.n), objective.model, objective.data
    for piece in model.chunks(data, np.arange(objective.n)):
        value, _ = model.structure_type.unchecked(objective.augmented(piece, w)).expectation()
        result[piece] = host(value).astype(np.float64) - host(model.gold_scores(data, piece, w)).astype(np.float64)
    return np.maximum(result, 0.0)


def _finite(field: Array) -> bool:
    xp = array_namespace(field)
    return bool(xp.all(xp.isfinite(field)))
