"""Sequence labelling: features at each position, one weight for each feature and label, and transition weights.

The joint feature map of a linear-chain CRF or structural SVM (Pillutla et al., Example 5, with start and stop weights
counted correctly). Weights are one vector w (d,): first a matrix (F, L), the L weights of a feature side by side, then
the transition matrix (L, L). Start and stop weights are two more features, active on a sequence's first and last
position, so that no other code has a special case for them.

Padding. ``scores`` arranges the b sequences of a piece as (b, n), where n is the length of the longest. ``place`` (b,
n) has the number of each cell's position among the P positions of the piece, and P for a cell past the end:

    lengths (3, 1)  ->  place  0 1 2      flat rows 0 1 2 3, row 4 = P stands for padding
                               3 4 4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import reference.arrays
from reference.arrays import Array, Rows, host
from reference.example_errors import each_example, listed
from reference.models.base import (
    Concatenated,
    all_of,
    check_labels,
    checked,
    integer,
    offsets_of,
    sound,
    squared_sums,
    stacked,
    with_ones,
)
from reference.models.partial import PartlyLabelled, check_allowed
from reference.packed import check_offsets, lock
from reference.structures.chain import Chain, ChainScores

__all__ = ["ChainData", "SequenceModel"]


@dataclass(frozen=True, eq=False, repr=False)
class ChainData(Concatenated):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1].

    rows: features of all N positions; offsets (n+1,) NumPy int64; labels (N,) int64 in the rows' place, or None;
    allowed (N, L) booleans in their place, the labels that each position may have, if they are partly known.
    """

    rows: Rows
    offsets: np.ndarray
    labels: Array | None
    allowed: Array | None = None

    counted = "positions"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the rows, and ``labels`` is None or has one label >= 0 for each."""
        check_offsets("offsets", self.offsets, checked("rows", self.rows, Rows).n, "positions")
        check_labels(self.labels, self.rows.n, self.rows.place.xp)
        check_allowed(self.allowed, self.labels, self.rows.n, self.rows.place.xp)


class SequenceModel(PartlyLabelled):
    """A linear-chain labeller over sparse or dense features.

    Parameters
    ----------
    n_features : int
        Number of features of a position.
    labels : int or sequence of str
        Number of labels, or their names.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over positions; default: Hamming, 1 where they differ.
    start_stop : bool
        Whether each label has a weight for starting and one for ending a sequence.
    max_cells : int
        Bound on the padded positions of one piece of a batch, unless a single sequence is longer.

    Attributes
    ----------
    labels : tuple of str
        Label names.
    size : int
        Number of weights d = (n_features + 2 start_stop) L + L^2.

    Source
    ------
    Pillutla et al., Example 5 and section 7.1.1, *corrected*: start and stop symbols need their own pair weights.
    """

    structure_type = Chain
    packed_type = ChainData
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        n_features: int,
        labels: int | Sequence[str],
        *,
        cost: Any = None,
        start_stop: bool = True,
        max_cells: int = 8192,
    ) -> None:
        self.n_features, self.max_cells = integer("n_features", n_features, 0), integer("max_cells", max_cells, 1)
        if not isinstance(start_stop, bool):
            raise TypeError(f"start_stop: expected True or False, got {start_stop!r}")
        self.start_stop = start_stop
        self._label(labels, cost)
        self.width = self.n_features + 2 * self.start_stop
        self.size = self.width * self.n_labels + self.n_labels**2

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files."""
        return {
            "n_features": self.n_features,
            "labels": list(self.labels),
            "cost": self.cost.tolist(),
            "start_stop": self.start_stop,
            "max_cells": self.max_cells,
        }

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> ChainData:
        """Sequences and their labels, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n items
            Each a dense array (n_i, F), a CSR matrix, a Rows, or a list of n_i lists of active columns. Length 0 is
            allowed.
        Y : sequence of n label sequences, optional
            Each (n_i,) integer indices, or label names (a string counts as a sequence of one-letter names). A set of
            them, or None, stands for a label that is partly known (:mod:`reference.models.partial`).
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        ChainData

        Raises
        ------
        ValueError, TypeError
            Naming the sequence, for a wrong number of features or labels, unknown labels, empty sets of labels, numbers
            that are not finite.
        """
        rows, offsets = self._positions(X)
        if self.start_stop:
            rows = _with_boundaries(rows, offsets)
        packed = Rows.of(rows, like=like)
        return ChainData(packed, lock(offsets), *self._targets(Y, offsets, packed.place))

    def _positions(self, X: Any) -> tuple[Rows, np.ndarray]:
        """All positions of X as rows on the host, and the offsets of the sequences."""
        X = listed("X", X)
        if len(X) and all(_plain(x) and x.ndim == 2 and x.shape[1] == self.n_features for x in X):
            together = np.concatenate(list(X))
            if together.dtype.kind in "fiub" and np.all(np.isfinite(together)):
                return Rows.of(together, width=self.n_features), offsets_of(X)
        # one by one, so that errors name the sequence
        each = each_example("X", X, lambda name, x: Rows.of(x, width=self.n_features, name=name))
        return stacked(each, self.n_features), np.cumsum([0, *(rows.n for rows in each)], dtype=np.int64)

    def chunks(self, data: ChainData, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Groups of sequences of similar lengths: at most ``max_cells`` padded positions (or one sequence), at most
        half of them padding.
        """
        lengths = data.lengths[batch]
        order = np.argsort(lengths, kind="stable")
        first = 0
        for i in range(1, len(order) + 1):
            shortest = lengths[order[first]]
            longest = lengths[order[i]] if i < len(order) else None
            if longest is None or longest * (i + 1 - first) > self.max_cells or longest > 2 * shortest:
                yield batch[order[first:i]]
                first = i

    def scores(self, data: ChainData, batch: np.ndarray, w: Array) -> ChainScores:
        """The scores of a piece (b,) at weights w (d,): unary (b, n, L) padded with 0, pairwise (L, L), lengths
        (b,).
        """
        weights, pairwise = self.split(w)
        positions, place = _layout(data.offsets, batch)
        flat = self.arrays.gather_sum(data.rows.take(positions), weights)
        return sound(ChainScores(self._padded(data, flat, place), pairwise, self._lengths(data, batch)), w)

    def counts(self, data: ChainData) -> list[int]:
        """L^n_i for each sequence."""
        return [self.n_labels**n for n in data.lengths.tolist()]

    def squared_diameters(self, data: ChainData) -> np.ndarray:
        """2 ||sum_t |x_t| ||^2 + 2 (n_i - 1)^2 for each sequence: position features, then transition counts.

        Counts of n - 1 transitions have norm at most n - 1 and no negative inner product.
        """
        bounds: np.ndarray = 2 * squared_sums(data.rows, data.offsets) + 2 * np.maximum(data.lengths - 1, 0) ** 2
        return bounds

    def pullback(self, data: ChainData, batch: np.ndarray, w: Array, g: ChainScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient with respect to the scores of a piece, as one (d,) in the
        weights.
        """
        positions, place = _layout(data.offsets, batch)
        xp = data.rows.place.xp
        cells = data.rows.place.integers(np.flatnonzero(place < len(positions)))
        flat = xp.take(xp.reshape(g.unary, (place.size, self.n_labels)), cells, axis=0)
        weights = self.arrays.scatter_sum(data.rows.take(positions), flat)
        return xp.concat([xp.reshape(weights, (-1,)), xp.reshape(g.pairwise, (-1,))])

    def task_loss(self, data: ChainData, batch: np.ndarray) -> ChainScores:
        """The task loss as scores to add: cost[true label, label] at each position."""
        positions, place = _layout(data.offsets, batch)
        home = data.rows.place
        true = home.xp.take(self.true_labels(data), home.integers(positions))
        flat = home.xp.take(home.floats(self.cost), true, axis=0)
        return ChainScores(
            self._padded(data, flat, place), home.zeros((self.n_labels, self.n_labels)), self._lengths(data, batch)
        )

    def gold(self, data: ChainData, batch: np.ndarray) -> ChainScores:
        """The indicator of the true labellings' parts, shaped like the scores."""
        labels, home = self._gold_labels(data, batch), data.rows.place
        shape = ChainScores(
            home.zeros((*labels.shape, self.n_labels)), home.zeros((self.n_labels,) * 2), self._lengths(data, batch)
        )
        parts: ChainScores = self.structure_type.ops.parts(shape, labels)
        return parts

    def within(self, data: ChainData, batch: np.ndarray, scores: Any) -> ChainScores:
        """The scores of a piece with -inf for the labels that ``data.allowed`` excludes."""
        positions, place = _layout(data.offsets, batch)
        home, xp = data.rows.place, data.rows.place.xp
        allowed = xp.take(data.allowed, home.integers(positions), axis=0)
        flat = xp.where(allowed, home.zeros(allowed.shape), -xp.inf)
        restricted: ChainScores = scores._replace(unary=scores.unary + self._padded(data, flat, place))
        return restricted

    def gold_scores(self, data: ChainData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of the true labellings at weights w (d,)."""
        return self.structure_type.ops.score(self.scores(data, batch, w), self._gold_labels(data, batch))

    def _gold_labels(self, data: ChainData, batch: np.ndarray) -> Array:
        """True labels of a piece (b, n), -1 in the padding."""
        positions, place = _layout(data.offsets, batch)
        home, xp = data.rows.place, data.rows.place.xp
        true = xp.concat([xp.take(self.true_labels(data), home.integers(positions)), home.integers([-1])])
        return xp.reshape(xp.take(true, home.integers(place.ravel())), place.shape)

    def _padded(self, data: ChainData, flat: Array, place: np.ndarray) -> Array:
        """Rows (P, L) of a piece's positions as (b, n, L), with 0 in the padding."""
        home = data.rows.place
        longer = home.xp.concat([flat, home.zeros((1, self.n_labels))])
        return home.xp.reshape(
            home.xp.take(longer, home.integers(place.ravel()), axis=0), (*place.shape, self.n_labels)
        )

    def _lengths(self, data: ChainData, batch: np.ndarray) -> Array | None:
        lengths = data.lengths[batch]
        return None if len(set(lengths.tolist())) <= 1 else data.rows.place.integers(lengths)

    def _split(self, data: ChainData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [labels[:length] for labels, length in zip(host(outputs), data.lengths[piece], strict=True)]


def _plain(x: Any) -> bool:
    """Whether x is an array in host memory without a mask."""
    return isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)


def _layout(offsets: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (P,) of the batch's sequences, and place (b, n): see the diagram in the module's docstring."""
    batch = all_of(len(offsets) - 1, batch)
    starts, lengths = offsets[batch], offsets[batch + 1] - offsets[batch]
    ends = np.cumsum(lengths)
    steps = np.arange(lengths.max(initial=0))
    inside = steps < lengths[:, None]
    positions = (starts[:, None] + steps)[inside]
    return positions, np.where(inside, (ends - lengths)[:, None] + steps, len(positions))


def _with_boundaries(rows: Rows, offsets: np.ndarray) -> Rows:
    """Rows on the host with two more columns: one active on each sequence's first position, one on its last."""
    nonempty = offsets[:-1] < offsets[1:]
    row = np.concatenate([offsets[:-1][nonempty], offsets[1:][nonempty] - 1])  # rows, the first ones and the last ones
    columns = np.repeat([rows.width, rows.width + 1], len(row) // 2)
    by_row = np.argsort(row, kind="stable")
    return with_ones(rows, row[by_row], columns[by_row], rows.width + 2)
