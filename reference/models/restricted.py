"""A linear model with some of its weights: the others are 0 for good, and leave the arrays where they can.

What screening leaves of a problem (Zhang and Qiu, Lemma 1). Of classes and of sequences, features that have no weight left leave the
packed data too; other models compute with weights of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from reference.arrays import Array, Place, host
from reference.models.base import FeatureTotals, LinearModel, bound_of
from reference.structures.scores import Scores

__all__ = ["RestrictedModel"]


class RestrictedModel(LinearModel):
    """The weights ``columns`` of a linear model, the others being 0.

    score_i(y; w) = score_i(y; the model's weights with w at ``columns``, 0 elsewhere)

    ``model.restrict(columns)`` makes one. It works on ``narrow(data)``, with ``data`` packed by that model.

    Parameters
    ----------
    model : LinearModel
    columns : int array (k,)
        Numbers of weights of ``model``, in order.
    features : int array (m,), optional
        The columns of packed rows that ``model`` is for, of those that data to be narrowed have; None: data stay as they are.

    Attributes
    ----------
    size : int
        Number of weights k.

    Source
    ------
    Zhang and Qiu, Lemma 1.
    """

    def __init__(self, model: LinearModel, columns: np.ndarray, features: np.ndarray | None = None) -> None:
        self.model, self.columns, self.features = model, columns, features
        self.structure_type, self.size = model.structure_type, len(columns)
        self._places = np.full(model.size, self.size)
        self._places[columns] = np.arange(self.size)

    def narrow(self, data: Any) -> Any:
        """Packed data of the model that was restricted, as this model takes them."""
        return data if self.features is None else data._replace(rows=data.rows.select(self.features))

    def restrict(self, columns: Any) -> RestrictedModel:
        """Some of the weights that are left; see :meth:`LinearModel.restrict`."""
        return self.model.restrict(self.columns[checked_columns(columns, self.size)])

    def check(self, data: Any) -> None:
        """Raise ValueError if ``data`` is not the narrowed data of the model that was restricted, TypeError if it was not packed."""
        self.model.check(data)

    def zeros(self, data: Any) -> Array:
        """Weights of zero (k,) in the data's place."""
        return self.model.zeros(data)[: self.size]

    def chunks(self, data: Any, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces as the whole model makes them."""
        return self.model.chunks(data, batch)

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

    def task_loss(self, data: Any, batch: np.ndarray) -> Scores:
        """As the whole model's."""
        return self.model.task_loss(data, batch)

    def gold(self, data: Any, batch: np.ndarray) -> Scores:
        """As the whole model's."""
        return self.model.gold(data, batch)

    def gold_scores(self, data: Any, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of a piece's true outputs at weights w (k,)."""
        return self.model.gold_scores(data, batch, self._embedded(w))

    def counts(self, data: Any) -> list[int]:
        """As the whole model's."""
        return self.model.counts(data)

    def squared_diameters(self, data: Any) -> np.ndarray | None:
        """Those of the model's features, of which these are some."""
        return self.model.squared_diameters(data)

    def squared_norms(self, data: Any) -> np.ndarray | None:
        """Those of the model's features, of which these are some."""
        return self.model.squared_norms(data)

    def feature_range(self, data: Any) -> np.ndarray | None:
        """Those of the weights that are left (k,)."""
        return self._taken(bound_of(self.model, "feature_range", data))

    def feature_totals(self, data: Any) -> FeatureTotals | None:
        """Those of the weights that are left."""
        found = bound_of(self.model, "feature_totals", data)
        return None if found is None else FeatureTotals(*(bound[self.columns] for bound in found))

    def listed_spread(self, data: Any) -> Any:
        """Those of the weights that are left."""
        found = bound_of(self.model, "listed_spread", data)
        return None if found is None else type(found)(*map(self._taken, found))

    def _taken(self, whole: np.ndarray | None) -> np.ndarray | None:
        return None if whole is None else whole[self.columns]

    def _embedded(self, w: Array) -> Array:
        """w (k,) among zeros, as weights of the model."""
        place = Place.of(w)
        return place.xp.take(place.xp.concat([w, place.zeros((1,))]), place.integers(self._places), axis=0)

    def _split(self, data: Any, piece: np.ndarray, outputs: Any) -> Sequence[Any]:
        return self.model._split(data, piece, outputs)


def checked_columns(columns: Any, size: int) -> np.ndarray:
    """Different numbers of weights, in order, as int64; True where a weight is to be kept is an answer too."""
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


def with_rows_of(
    model: Any, columns: np.ndarray, n_labels: int, always: np.ndarray, narrowed: Callable[[int, int], Any]
) -> RestrictedModel:
    """A model whose weights begin with a matrix (F, L) of features and labels, with rows left out that have no weight among ``columns``.

    always: rows that stay. narrowed(F', d'): the model with so many rows and weights.
    """
    F = model.width
    inside = columns[columns < F * n_labels]
    features = np.union1d(inside // n_labels, always).astype(np.int64)
    new = np.full(F, -1)
    new[features] = np.arange(len(features))
    moved = new[inside // n_labels] * n_labels + inside % n_labels
    others = columns[len(inside) :] - (F - len(features)) * n_labels
    smaller = narrowed(len(features), model.size - (F - len(features)) * n_labels)
    return RestrictedModel(smaller, np.concatenate([moved, others]), features)
