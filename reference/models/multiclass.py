"""Multiclass classification: one weight for each feature and class, outputs listed in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import reference.arrays
from reference.arrays import Array, Rows, host, one_hot, take_last
from reference.models.base import (
    LabelledModel,
    cell_sums,
    check_labels,
    checked,
    integer,
    label_indices,
    sound,
    with_ones,
    zero_at_truth,
)
from reference.packed import Packed, lock
from reference.structures.table import Table, TableScores

__all__ = ["MulticlassData", "MulticlassModel"]


@dataclass(frozen=True, eq=False, repr=False)
class MulticlassData(Packed):
    """Packed examples: rows (n, F) of features; labels (n,) int64 in the rows' place, or None."""

    rows: Rows
    labels: Array | None

    def validate(self) -> None:
        """Raise unless ``labels`` is None or has one label >= 0 for each row."""
        check_labels(self.labels, checked("rows", self.rows, Rows).n, self.rows.place.xp)

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.rows.n


class MulticlassModel(LabelledModel):
    """A linear classifier: score of class c = <w_c, x>.

    Parameters
    ----------
    n_features : int
        Columns of X, and the intercept if there is one.
    labels : int or sequence of str
        Number of classes, or their names.
    cost : array (L, L), optional
        Task loss (true, predicted); default: 1 if they differ.
    max_rows : int
        Bound on the examples of one piece of a batch.
    intercept : bool
        Whether the last feature is 1 everywhere; :meth:`pack` adds its column.

    Attributes
    ----------
    size : int
        Number of weights F L: a matrix (F, L) in C order.

    Source
    ------
    Branson et al., section 1 (cost-sensitive multiclass); Pillutla et al., Definition 6 over a list.
    """

    structure_type = Table
    packed_type = MulticlassData
    arrays: ModuleType = reference.arrays
    intercept = False  # of pickles of earlier versions

    def __init__(
        self,
        n_features: int,
        labels: int | Sequence[str],
        *,
        cost: Any = None,
        max_rows: int = 8192,
        intercept: bool = False,
    ) -> None:
        if not isinstance(intercept, bool):
            raise TypeError(f"intercept: expected True or False, got {intercept!r}")
        self.intercept = intercept
        self.n_features = integer("n_features", n_features, int(intercept))
        self.max_rows = integer("max_rows", max_rows, 1)
        self._label(labels, cost)
        self.size = self.n_features * self.n_labels

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> MulticlassData:
        """Examples X (n, F) (dense, CSR, Rows, or lists of active columns) and classes Y (n,) (indices or names)."""
        if self.intercept:
            rows = Rows.of(X, width=self.n_features - 1)
            X = with_ones(rows, np.arange(rows.n), rows.width, self.n_features)
        rows = Rows.of(X, width=self.n_features, like=like)
        if Y is None:
            return MulticlassData(rows, None)
        labels = label_indices("Y", Y, self.labels)
        if len(labels) != rows.n:
            raise ValueError(f"Y: expected {rows.n} labels, one for each row of X, got {len(labels)}")
        return MulticlassData(rows, lock(rows.place.integers(labels)))

    def _sizes(self, data: MulticlassData) -> Iterable[tuple[str, int, int]]:
        return [("columns", data.rows.width, self.n_features)]

    def chunks(self, data: MulticlassData, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Slices of at most ``max_rows`` examples."""
        return (batch[i : i + self.max_rows] for i in range(0, len(batch), self.max_rows))

    def scores(self, data: MulticlassData, batch: np.ndarray, w: Array) -> TableScores:
        """The scores (b, L) of a piece (b,) at weights w (d,)."""
        weights = data.rows.place.xp.reshape(w, (self.n_features, self.n_labels))
        return sound(TableScores(self.arrays.gather_sum(data.rows.take(batch), weights)), w)

    def counts(self, data: MulticlassData) -> list[int]:
        """L for each example."""
        return [self.n_labels] * data.n

    def squared_norms(self, data: MulticlassData) -> np.ndarray:
        """||x_i||^2 for each example: each class has weights of its own for the same features."""
        example = np.repeat(np.arange(data.n), np.diff(data.rows.indptr))
        example, _, x = cell_sums(data.rows, example, host(data.rows.data).astype(np.float64, copy=False))
        return np.bincount(example, x**2, data.n)

    def squared_diameters(self, data: MulticlassData) -> np.ndarray:
        """2 ||x_i||^2 for each example (0 with a single class)."""
        return (2.0 if self.n_labels > 1 else 0.0) * self.squared_norms(data)

    def pullback(self, data: MulticlassData, batch: np.ndarray, w: Array, g: TableScores) -> Array:
        """The adjoint of :meth:`scores`: g (b, L) as a gradient (d,)."""
        return data.rows.place.xp.reshape(self.arrays.scatter_sum(data.rows.take(batch), g.values), (-1,))

    @zero_at_truth
    def task_loss(self, data: MulticlassData, batch: np.ndarray) -> TableScores:
        """cost[true class] (b, L)."""
        place = data.rows.place
        return TableScores(place.xp.take(place.floats(self.cost), self._true(data, batch), axis=0))

    def gold(self, data: MulticlassData, batch: np.ndarray) -> TableScores:
        """Indicators (b, L) of the true classes."""
        place = data.rows.place
        return TableScores(one_hot(place.xp, self._true(data, batch), self.n_labels, place.dtype))

    def gold_scores(self, data: MulticlassData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of the true classes at weights w (d,)."""
        return take_last(data.rows.place.xp, self.scores(data, batch, w).values, self._true(data, batch))

    def _true(self, data: MulticlassData, batch: np.ndarray) -> Array:
        return data.rows.place.xp.take(self.true_labels(data), data.rows.place.integers(batch))

    def _split(self, data: MulticlassData, piece: np.ndarray, outputs: Array) -> list[int]:
        classes: list[int] = host(outputs).tolist()
        return classes
