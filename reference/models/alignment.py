"""Alignment: features of pairs of items, one weight a feature, and a matching as the output.

The score of an alignment is the sum over its pairs of <w, x_ij>, and w_null for each unaligned row, if rows may stay
unaligned. Each row then has an extra column of its own that means "none", so that the structure is still a matching.
Source: Taskar et al. (2005), "A discriminative matching approach to word alignment"; Pillutla et al., appendix C.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, Place, floats, host, integer, one_hot, refuse_nan_and_inf
from reference.example_errors import each_example, example_error
from reference.models.base import LinearModel, checked, given, one_for_each, only, sound, zero_at_truth
from reference.packed import Packed, check_indices, lock
from reference.structures.answered import Oracle
from reference.structures.matching import Matching, MatchingScores

__all__ = ["AlignmentData", "AlignmentModel"]


@dataclass(frozen=True, eq=False, repr=False)
class AlignmentData(Packed):
    """Packed examples: features of each (p_i, q_i, F), and the true columns of each (p_i,) int64 on the host, or
    None.
    """

    features: tuple[Array, ...]
    columns: tuple[np.ndarray, ...] | None
    place: Place

    as_given = ("place",)

    def validate(self) -> None:
        """Raise unless features are finite, and true columns are in range or -1, each at most once."""
        checked("place", self.place, Place)
        for i, x in enumerate(self.features):
            if not is_array_api_obj(x) or array_namespace(x) is not self.place.xp or x.dtype != self.place.dtype:
                raise TypeError(
                    f"features[{i}]: expected {self.place.dtype} of the namespace in place, got {type(x).__name__}"
                )
            if x.ndim != 3 or x.shape[2] != self.features[0].shape[2]:
                raise ValueError(f"features[{i}]: expected shape (p, q, F), got {tuple(x.shape)}")
            refuse_nan_and_inf(f"features[{i}]", x, forbidden=False)
        if self.columns is None:
            return
        if len(self.columns) != len(self.features):
            raise ValueError(f"columns: expected {len(self.features)}, one for each example, got {len(self.columns)}")
        for i, (x, y) in enumerate(zip(self.features, self.columns, strict=True)):
            check_indices(f"columns[{i}]", y, (x.shape[0],))
            _check_columns(f"columns[{i}]", y, x.shape[1])

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.features)


class AlignmentModel(LinearModel):
    """Aligns each of p items with one of q items, from features of the pairs.

    Parameters
    ----------
    n_features : int
        Number of features F of a pair.
    null : bool
        Whether rows and columns may stay unaligned: a row at score w_null, a weight of its own; a column at score 0.
        Otherwise min(p, q) pairs are aligned at any score.
    oracle : callable, optional
        Used instead of ``Matching.best`` in training and prediction: from MatchingScores to (value, columns), with
        value -inf if every output is forbidden. ``by_networkx`` and ``by_scipy`` of ``accelerated.structures.matching``
        are examples. Model files do not store it.

    Attributes
    ----------
    size : int
        Number of weights d = F + null: those of the features, then w_null.

    Notes
    -----
    The task loss is Hamming: the number of rows with another column than the true one, where none counts as a column.

    Source
    ------
    Pillutla et al., appendix C.3; Taskar et al. (2005).
    """

    structure_type: Any = Matching
    packed_type = AlignmentData

    def __init__(self, n_features: int, *, null: bool = False, oracle: Oracle | None = None) -> None:
        self.n_features = integer("n_features", n_features, 0)
        if not isinstance(null, bool):
            raise TypeError(f"null: expected True or False, got {null!r}")
        self.null = null
        self.size = self.n_features + null
        self._answer_by(oracle)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> AlignmentData:
        """Examples and their alignments, checked.

        Parameters
        ----------
        X : sequence of n items
            Each an array (p_i, q_i, F) of features of all pairs, or nested lists. p_i or q_i may be 0 in an array.
        Y : sequence of n integer sequences (p_i,), optional
            The column of each row, -1 for none; no column twice. Without ``null``, min(p_i, q_i) rows have one.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        AlignmentData

        Raises
        ------
        ValueError, TypeError
            Naming the example, for a wrong number of features, columns that are out of range, taken twice or missing,
            numbers that are not finite.
        """
        place = Place.of(like)
        features = tuple(each_example("X", X, lambda name, x: self._pairs(name, x, place)))
        if Y is None:
            return AlignmentData(features, None, place)
        Y = one_for_each(Y, len(features), "alignments")
        columns = each_example("Y", Y, lambda name, y: self._columns(name, y, *features[name.example].shape[:2]))
        return AlignmentData(features, tuple(columns), place)

    def _pairs(self, name: str, x: Any, place: Place) -> Array:
        """The features (p, q, F) of one example, in a place."""
        (x,) = floats(**{name: x})
        if x.ndim != 3 or x.shape[2] != self.n_features:
            raise ValueError(f"{name}: expected features of shape (p, q, {self.n_features}), got {tuple(x.shape)}")
        values = host(x)
        for i, j, k in np.argwhere(~np.isfinite(values))[:1].tolist():
            raise example_error(name, i, f"column {j}: feature {k}: expected a finite number, got {values[i, j, k]}")
        return lock(place.floats(values))

    def _columns(self, name: str, y: Any, p: int, q: int) -> np.ndarray:
        """The true columns (p,) of one example."""
        columns = host(y, name)
        if columns.ndim != 1 or (columns.size and columns.dtype.kind not in "iu"):
            raise TypeError(
                f"{name}: expected column numbers of shape ({p},), got {columns.dtype} of shape {columns.shape}"
            )
        if len(columns) != p:
            raise ValueError(f"{name}: expected {p} columns, one for each row, got {len(columns)}")
        taken = _check_columns(name, columns, q)
        if not self.null and len(taken) != min(p, q):
            raise ValueError(f"{name}: expected {min(p, q)} aligned rows (null=True allows fewer), got {len(taken)}")
        return columns.astype(np.int64)

    def check(self, data: AlignmentData) -> None:
        """Raise ValueError if ``data`` was packed by a model of another number of features, or has unaligned rows and
        the model has no ``null``. Raise TypeError if it was not packed.
        """
        super().check(data)
        if not self.null and data.columns is not None:
            for i, (x, y) in enumerate(zip(data.features, data.columns, strict=True)):
                self._columns(f"Y[{i}]", y, *x.shape[:2])

    def _sizes(self, data: AlignmentData) -> Iterable[tuple[str, int, int]]:
        return [("features", x.shape[2], self.n_features) for x in data.features]

    def scores(self, data: AlignmentData, batch: np.ndarray, w: Array) -> MatchingScores:
        """The scores of one example (batch of one) at weights w (d,): (p, q), or with ``null`` (p, q + p), one extra
        column for each row.
        """
        return sound(self._scores(data, batch, w, -math.inf), w)

    def pushforward(self, data: AlignmentData, batch: np.ndarray, w: Array, dw: Array) -> MatchingScores:
        """The change of the scores with dw (d,): 0 for forbidden pairs."""
        return self._scores(data, batch, dw, 0.0)

    def _scores(self, data: AlignmentData, batch: np.ndarray, w: Array, forbidden: float) -> MatchingScores:
        xp, x = data.place.xp, data.features[only(batch, data)]
        p, q, n_features = x.shape
        pairs = xp.reshape(xp.matmul(xp.reshape(x, (p * q, n_features)), w[:n_features]), (p, q))
        if not self.null:
            return MatchingScores(pairs)
        own = self._own(data, p) > 0
        none = xp.where(own, w[n_features], xp.full_like(data.place.zeros((p, p)), forbidden))
        return MatchingScores(xp.concat([pairs, none], axis=1))

    def pullback(self, data: AlignmentData, batch: np.ndarray, w: Array, g: MatchingScores) -> Array:
        """The adjoint of :meth:`pushforward`: a gradient shaped like the scores, as one (d,) in the weights."""
        xp, x = data.place.xp, data.features[only(batch, data)]
        p, q, n_features = x.shape
        pairs = xp.reshape(g.values[:, :q], (1, p * q))
        weights = xp.matmul(pairs, xp.reshape(x, (p * q, n_features)))[0, :]
        if not self.null:
            return weights
        none = xp.sum(g.values[:, q:] * self._own(data, p))
        return xp.concat([weights, xp.reshape(none, (1,))])

    @zero_at_truth
    def task_loss(self, data: AlignmentData, batch: np.ndarray) -> MatchingScores:
        """Hamming loss as scores to add.

        1 for each pair but the true one. An unaligned row costs 0 if it is truly unaligned, else 1. Without ``null``
        and for p > q all columns are taken, and a pair of a truly unaligned row costs 2: its own error, and that of the
        row that it displaces.
        """
        i = only(batch, data)
        true, q = self.true_columns(data)[i], data.features[i].shape[1]
        loss = 1.0 - (true[:, None] == np.arange(q))
        if self.null:
            loss = np.concatenate([loss, np.diag(1.0 * (true >= 0))], axis=1)
        else:
            loss[true < 0] = 2.0
        return MatchingScores(data.place.floats(loss))

    def gold(self, data: AlignmentData, batch: np.ndarray) -> MatchingScores:
        """The indicator of the true alignment's pairs, shaped like the scores."""
        i = only(batch, data)
        p, q = data.features[i].shape[:2]
        true = self.true_columns(data)[i]
        if self.null:
            true = np.where(true >= 0, true, q + np.arange(p))
        width = q + p if self.null else q
        return MatchingScores(one_hot(data.place.xp, data.place.integers(true), width, data.place.dtype))

    def counts(self, data: AlignmentData) -> list[int]:
        """Number of alignments of each example: q!/(q-p)! for p <= q, or with ``null`` sum_k C(p, k) C(q, k) k!."""
        shapes = [x.shape[:2] for x in data.features]
        if self.null:
            return [sum(math.comb(p, k) * math.perm(q, k) for k in range(min(p, q) + 1)) for p, q in shapes]
        return [math.perm(max(p, q), min(p, q)) for p, q in shapes]

    def squared_diameters(self, data: AlignmentData) -> np.ndarray:
        """(sum_i 2 max_j ||x_ij - mean_j x_ij||)^2 for each example: each item of the matched side contributes only its
        own features.
        """
        return np.array([self._diameter(host(x).astype(np.float64)) ** 2 for x in data.features])

    def _diameter(self, x: np.ndarray) -> float:
        p, q, n_features = x.shape
        if self.null:  # each row: one of its pairs, or the last unit vector
            x = np.concatenate([x, np.zeros((p, q, 1))], axis=2)
            x = np.concatenate([x, np.broadcast_to(np.eye(n_features + 1)[n_features], (p, 1, n_features + 1))], axis=1)
        elif p > q:
            x = x.swapaxes(0, 1)
        if 0 in x.shape[:2]:
            return 0.0
        spread = np.linalg.norm(x - x.mean(axis=1, keepdims=True), axis=2)
        return float(2 * spread.max(axis=1).sum())

    def true_columns(self, data: AlignmentData) -> tuple[np.ndarray, ...]:
        """The columns (p_i,) of all examples; ValueError if the data were packed without alignments."""
        return given(data.columns, "alignments")

    def _own(self, data: AlignmentData, p: int) -> Array:
        """The extra columns of the rows: the identity (p, p)."""
        return data.place.floats(np.eye(p))

    def _split(self, data: AlignmentData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        """The column (p,) of each row on the host, -1 for none."""
        columns = host(outputs)
        return [np.where(columns < data.features[only(piece, data)].shape[1], columns, -1)]


def _check_columns(name: str, y: np.ndarray, q: int) -> np.ndarray:
    """The columns in y that are not -1. Raises ValueError for one out of range or taken twice."""
    for i in np.flatnonzero((y < -1) | (y >= q))[:1].tolist():
        raise example_error(name, i, f"expected columns in 0..{q - 1}, or -1 for none, got {y[i]}")
    seen: set[int] = set()
    for i, column in enumerate(y.tolist()):
        if column >= 0 and column in seen:
            raise example_error(name, i, f"expected each column once at most, got {y.tolist()}")
        seen.add(column)
    return y[y >= 0]
