"""A linear model restricted to some of its weights: the others are fixed at 0.

Screening reduces a problem to such a model (Zhang and Qiu, Lemma 1). For classes and sequences, features without any
weight are removed from the packed data, too. Other models compute with weights of 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from reference.arrays import Array, Place, host
from reference.models.base import LinearModel
from reference.models.multiclass import MulticlassModel
from reference.models.nonlinear import Delegating, HomogeneousModel, LinearizedModel, NonlinearModel
from reference.models.sequence import SequenceModel
from reference.screening.registry import (
    FeatureTotals,
    Known,
    ListedSpread,
    feature_range,
    feature_totals,
    known_of,
    listed_spread,
)
from reference.structures.base import UnsupportedError
from reference.structures.scores import Scores

__all__ = ["RestrictedModel", "restrict"]


def restrict(model: LinearModel, columns: Any) -> RestrictedModel:
    """The model with only the weights ``columns``; the others are 0.

    Parameters
    ----------
    model : LinearModel
    columns : int array (k,) or bool array (d,)
        Numbers of weights, strictly increasing; or True where a weight is kept.

    Returns
    -------
    RestrictedModel
        Of k weights. It works on ``narrow(data)``, with ``data`` packed by the model.

    Raises
    ------
    ValueError, TypeError
        Invalid columns.
    UnsupportedError
        Weights that must be >= 0; a nonlinear model.

    Source
    ------
    Zhang and Qiu, Lemma 1.
    """
    name, restriction = type(model).__name__, known_of(type(model)).restrict
    if isinstance(model, NonlinearModel):
        raise UnsupportedError(f"{name} is nonlinear: it has no restrictions")
    if isinstance(model, LinearizedModel | HomogeneousModel):
        raise UnsupportedError(f"{name} has no restrictions")
    if model.nonnegative is not None:
        raise UnsupportedError(f"{name} has weights that must be >= 0: it has no restrictions")
    columns = checked_columns(columns, model.size)
    if restriction is None:
        return RestrictedModel(model, columns)
    restricted: RestrictedModel = restriction(model, columns)
    return restricted


class RestrictedModel(Delegating):
    """A linear model with only the weights ``columns``; the others are 0.

    score_i(y; w) = score_i(y; the model's weights with w at ``columns``, 0 elsewhere)

    :func:`restrict` makes one. It works on ``narrow(data)``, with ``data`` packed by that model.

    Parameters
    ----------
    model : LinearModel
    columns : int array (k,)
        Numbers of weights of ``model``, in order.
    features : int array (m,), optional
        The columns of the packed rows that :meth:`narrow` keeps, and that ``model`` is made for; None: all.

    Attributes
    ----------
    size : int
        Number of weights k.

    Source
    ------
    Zhang and Qiu, Lemma 1.
    """

    def __init__(self, model: LinearModel, columns: np.ndarray, features: np.ndarray | None = None) -> None:
        super().__init__(model)
        self.columns, self.features, self.size = columns, features, len(columns)
        self._places = np.full(model.size, self.size)
        self._places[columns] = np.arange(self.size)

    def narrow(self, data: Any) -> Any:
        """The data for this model, from ``data`` packed by the original model."""
        return data if self.features is None else data._replace(rows=data.rows.select(self.features))

    def zeros(self, data: Any) -> Array:
        """Weights of zero (k,) in the data's place."""
        return self.model.zeros(data)[: self.size]

    def scores(self, data: Any, batch: np.ndarray, w: Array) -> Scores:
        """The scores of a piece at weights w (k,)."""
        return self.model.scores(data, batch, self._embedded(w))

    def pushforward(self, data: Any, batch: np.ndarray, w: Array, dw: Array) -> Scores:
        """The Jacobian of the scores times dw (k,)."""
        return self.model.pushforward(data, batch, self._embedded(w), self._embedded(dw))

    def pullback(self, data: Any, batch: np.ndarray, w: Array, g: Scores) -> Array:
        """The adjoint of :meth:`pushforward`: a gradient (k,)."""
        whole, place = self.model.pullback(data, batch, self._embedded(w), g), Place.of(w)
        return place.xp.take(whole, place.integers(self.columns), axis=0)

    def gold_scores(self, data: Any, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of a piece's true outputs at weights w (k,)."""
        return self.model.gold_scores(data, batch, self._embedded(w))

    def squared_diameters(self, data: Any) -> np.ndarray | None:
        """Those of the original model: upper bounds, as its features include these."""
        return self.model.squared_diameters(data)

    def squared_norms(self, data: Any) -> np.ndarray | None:
        """Those of the original model: upper bounds, as its features include these."""
        return self.model.squared_norms(data)

    def _embedded(self, w: Array) -> Array:
        """The weights of the original model: w (k,), and zeros elsewhere."""
        place = Place.of(w)
        return place.xp.take(place.xp.concat([w, place.zeros((1,))]), place.integers(self._places), axis=0)


def checked_columns(columns: Any, size: int) -> np.ndarray:
    """Strictly increasing numbers of weights as int64, from numbers or from booleans (size,)."""
    given = host(columns, "columns")
    if given.dtype == bool and given.shape == (size,):
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(
            f"columns: expected numbers of weights (k,), or {size} booleans, got {given.dtype} of shape {given.shape}"
        )
    numbers = given.astype(np.int64)
    if numbers.size and not (numbers[0] >= 0 and numbers[-1] < size and np.all(np.diff(numbers) > 0)):
        raise ValueError(f"columns: expected different numbers in 0..{size - 1}, in order")
    return numbers


def restricted_classes(model: MulticlassModel, columns: np.ndarray) -> RestrictedModel:
    """The restriction that removes features without any weight from the packed rows."""

    def narrowed(n_features: int, size: int) -> Any:
        smaller = copy.copy(model)
        smaller.n_features, smaller.size = n_features, size
        return smaller

    return with_rows_of(model, model.n_features, columns, np.zeros(0, np.int64), narrowed)


def restricted_sequences(model: SequenceModel, columns: np.ndarray) -> RestrictedModel:
    """The restriction that removes features without any weight from the packed rows."""

    def narrowed(width: int, size: int) -> Any:
        smaller = copy.copy(model)
        smaller.n_features, smaller.width, smaller.size = width - 2 * model.start_stop, width, size
        return smaller

    return with_rows_of(model, model.width, columns, np.arange(model.n_features, model.width), narrowed)


def with_rows_of(
    model: MulticlassModel | SequenceModel,
    F: int,
    columns: np.ndarray,
    always: np.ndarray,
    narrowed: Callable[[int, int], Any],
) -> RestrictedModel:
    """The restriction of a model whose weights begin with a matrix (F, L) of features and labels.

    It removes the rows of that matrix without a weight in ``columns``. always: rows that stay. narrowed(F', d'): the
    model with F' rows and d' weights.
    """
    n_labels = model.n_labels
    inside = columns[columns < F * n_labels]
    features = np.union1d(inside // n_labels, always).astype(np.int64)
    new = np.full(F, -1)
    new[features] = np.arange(len(features))
    moved = new[inside // n_labels] * n_labels + inside % n_labels
    others = columns[len(inside) :] - (F - len(features)) * n_labels
    smaller = narrowed(len(features), model.size - (F - len(features)) * n_labels)
    return RestrictedModel(smaller, np.concatenate([moved, others]), features)


# of restricted models -------------------------------------------------------------------------------------------------


def _some_range(some: RestrictedModel, data: Any) -> np.ndarray | None:
    result = feature_range(some.model, data)
    return None if result is None else result[some.columns]


def _some_totals(some: RestrictedModel, data: Any) -> FeatureTotals | None:
    result = feature_totals(some.model, data)
    return None if result is None else FeatureTotals(*(bound[some.columns] for bound in result))


def _some_spread(some: RestrictedModel, data: Any) -> ListedSpread | None:
    result = listed_spread(some.model, data)
    return None if result is None else ListedSpread(*(norm[some.columns] for norm in result))


def _some_of(some: RestrictedModel, columns: np.ndarray) -> RestrictedModel:
    return restrict(some.model, some.columns[columns])


OF_SOME = Known(_some_range, _some_totals, _some_spread, _some_of)  # those of the original model, at the columns
