"""Sequence labelling: features at each position, one weight for each feature and label, and transition weights.

The joint feature map of a linear-chain CRF or structural SVM (Pillutla et al., Example 5, with start and stop weights
counted correctly). Weights are one vector w (d,): first a matrix (F, L), the L weights of a feature side by side, then
the transition matrix (L, L), then (E, L, L) for features of pairs of neighbours, if there are any. Start and stop
weights are two more features, active on a sequence's first and last position, so that no other code has a special case
for them.

Padding. ``scores`` arranges the b sequences of a piece as (b, n), where n is the length of the longest. ``place`` (b,
n) has the number of each cell's position among the P positions of the piece, and P for a cell past the end:

    lengths (3, 1)  ->  place  0 1 2      flat rows 0 1 2 3, row 4 = P stands for padding
                               3 4 4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Rows, host
from reference.example_errors import Example, each_example, example_error, listed
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
    zero_at_truth,
)
from reference.models.partial import PartlyLabelled, check_allowed
from reference.packed import check_offsets, lock
from reference.structures.chain import Chain, ChainScores

__all__ = ["ChainData", "SequenceModel"]


@dataclass(frozen=True, eq=False, repr=False)
class ChainData(Concatenated):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1].

    rows: features of all N positions; offsets (n+1,) NumPy int64; labels (N,) int64 in the rows' place, or None; edges:
    features of N pairs, row t of positions t-1 and t, empty at the first position of a sequence, or None; allowed (N,
    L) booleans in their place, the labels that each position may have, if they are partly known.
    """

    rows: Rows
    offsets: np.ndarray
    labels: Array | None
    edges: Rows | None = None
    allowed: Array | None = None

    counted = "positions"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the rows, ``labels`` is None or has one label >= 0 for each, and ``edges`` is
        None or has a row for each, empty at first positions.
        """
        check_offsets("offsets", self.offsets, checked("rows", self.rows, Rows).n, "positions")
        check_labels(self.labels, self.rows.n, self.rows.place.xp)
        check_allowed(self.allowed, self.labels, self.rows.n, self.rows.place.xp)
        if self.edges is not None:
            if checked("edges", self.edges, Rows).n != self.rows.n:
                raise ValueError(f"edges: expected {self.rows.n} rows, one for each position, got {self.edges.n}")
            first = self.offsets[:-1][self.lengths > 0]
            for t in first[np.diff(self.edges.indptr)[first] > 0][:1].tolist():
                raise ValueError(f"edges: expected no features at the first position of a sequence, got some at {t}")


class SequenceModel(PartlyLabelled):
    """A linear-chain labeller over sparse or dense features.

    Parameters
    ----------
    n_features : int
        Number of features of a position.
    labels : int or sequence of str
        Number of labels, or their names.
    n_edge_features : int
        Number of features of a pair of neighbouring positions. Each has a weight for each pair of labels.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over positions; default: Hamming, 1 where they differ.
    start_stop : bool
        Whether each label has a weight for starting and one for ending a sequence.
    max_cells : int
        Bound on the padded positions of one piece of a batch, unless a single sequence is longer; on their number times
        L with features of pairs.

    Attributes
    ----------
    labels : tuple of str
        Label names.
    size : int
        Number of weights d = (n_features + 2 start_stop) L + L^2 + n_edge_features L^2.

    Source
    ------
    Pillutla et al., Example 5 and section 7.1.1, *corrected*: start and stop symbols need their own pair weights.
    Lafferty et al. (2001), equation (1): features of edges may depend on the input.
    """

    structure_type = Chain
    packed_type = ChainData
    arrays: ModuleType = reference.arrays
    n_edge_features = 0  # of pickles of earlier versions, and of a model's repr

    def __init__(
        self,
        n_features: int,
        labels: int | Sequence[str],
        *,
        n_edge_features: int = 0,
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
        if integer("n_edge_features", n_edge_features, 0):
            self.n_edge_features = n_edge_features
        self.size = self.width * self.n_labels + (1 + self.n_edge_features) * self.n_labels**2

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files."""
        return {name: x for name, x in super().settings().items() if x or name != "n_edge_features"}

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> ChainData:
        """Sequences and their labels, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n items
            Each a dense array (n_i, F), a CSR matrix, a Rows, or a list of n_i lists of active columns. Length 0 is
            allowed. With features of pairs, each is a pair (features, edge_features), the second of shape (n_i - 1, E)
            in one of these forms: row t is for positions t and t + 1.
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
        edges = None
        if self.n_edge_features:
            X, edges = self._edges(X)
        rows, offsets = self._positions(X)
        if self.start_stop:
            rows = _with_boundaries(rows, offsets)
        packed = Rows.of(rows, like=like)
        if edges is not None:
            edges = Rows.of(edges, like=like)
        labels, allowed = self._targets(Y, offsets, packed.place)
        return ChainData(packed, lock(offsets), labels, edges, allowed)

    def _edges(self, X: Any) -> tuple[list[Any], Rows]:
        """The rows of each sequence, on the host, and those of all pairs, with an empty row before each sequence's."""
        pairs = each_example("X", X, self._sequence)
        empty = Rows.of([[]], width=self.n_edge_features)
        each = [rows for x, edges in pairs for rows in ([empty, edges] if x.n else [])]
        return [x for x, _ in pairs], stacked(each, self.n_edge_features)

    def _sequence(self, name: Example, x: Any) -> tuple[Rows, Rows]:
        """The rows of one sequence and of its pairs of neighbours."""
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            got = f"{len(x)} items" if isinstance(x, (tuple, list)) else type(x).__name__
            raise example_error(name, None, f"expected a pair (features, edge_features), got {got}", TypeError)
        of_pairs = Example(name.argument, name.example, "edge_features")
        rows = Rows.of(x[0], width=self.n_features, name=name)
        edges = Rows.of(x[1], width=self.n_edge_features, name=of_pairs)
        if edges.n != max(rows.n - 1, 0):
            raise example_error(
                of_pairs, None, f"expected {max(rows.n - 1, 0)} rows for {rows.n} positions, got {edges.n}"
            )
        return rows, edges

    def _sizes(self, data: ChainData) -> Iterable[tuple[str, int, int]]:
        edges = 0 if data.edges is None else data.edges.width
        return [*super()._sizes(data), ("features of pairs", edges, self.n_edge_features)]

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
        most = self.max_cells // (self.n_labels if self.n_edge_features else 1)
        return of_similar_lengths(data.lengths[batch], batch, most)

    def scores(self, data: ChainData, batch: np.ndarray, w: Array) -> ChainScores:
        """The scores of a piece (b,) at weights w (d,): unary (b, n, L) padded with 0, pairwise (L, L), or (b,
        n-1, L, L) with features of pairs, lengths (b,).
        """
        weights, pairwise = self.split(w)
        positions, place = layout_of(data.offsets, batch)
        if data.edges is not None:
            xp, n = data.rows.place.xp, place.shape[1]
            table = xp.reshape(self.edge_weights(w), (self.n_edge_features, -1))
            edges = self.arrays.gather_sum(data.edges.take(positions), table) + xp.reshape(pairwise, (1, -1))
            pairwise = xp.reshape(padded(data, edges, place)[:, min(n, 1) :, :], self._pair_shape(place))
        flat = self.arrays.gather_sum(data.rows.take(positions), weights)
        return sound(ChainScores(padded(data, flat, place), pairwise, lengths_of(data, batch)), w)

    def edge_weights(self, w: Array) -> Array:
        """The weights (E, L, L) of features of pairs, among weights (d,): label before, label."""
        cut = (self.width + self.n_labels) * self.n_labels
        return array_namespace(w).reshape(w[cut:], (self.n_edge_features, self.n_labels, self.n_labels))

    def _pair_shape(self, place: Any) -> tuple[int, ...]:
        """The shape of pairwise scores for sequences laid out as (b, n): shared unless pairs have features."""
        own = (place.shape[0], max(place.shape[1] - 1, 0)) if self.n_edge_features else ()
        return (*own, self.n_labels, self.n_labels)

    def counts(self, data: ChainData) -> list[int]:
        """L^n_i for each sequence."""
        return [self.n_labels**n for n in data.lengths.tolist()]

    def squared_diameters(self, data: ChainData) -> np.ndarray:
        """2 ||sum_t |x_t| ||^2 + 2 (n_i - 1)^2 for each sequence: position features, then transition counts; those of
        pairs as those of positions.

        Counts of n - 1 transitions have norm at most n - 1 and no negative inner product.
        """
        bounds: np.ndarray = 2 * squared_sums(data.rows, data.offsets) + 2 * np.maximum(data.lengths - 1, 0) ** 2
        return bounds if data.edges is None else bounds + 2 * squared_sums(data.edges, data.offsets)

    def pullback(self, data: ChainData, batch: np.ndarray, w: Array, g: ChainScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient with respect to the scores of a piece, as one (d,) in the
        weights.
        """
        positions, place = layout_of(data.offsets, batch)
        xp = data.rows.place.xp
        cells = data.rows.place.integers(np.flatnonzero(place < len(positions)))
        flat = xp.take(xp.reshape(g.unary, (place.size, self.n_labels)), cells, axis=0)
        weights = self.arrays.scatter_sum(data.rows.take(positions), flat)
        if data.edges is None:
            return xp.concat([xp.reshape(weights, (-1,)), xp.reshape(g.pairwise, (-1,))])
        (b, n), L = place.shape, self.n_labels
        first = data.rows.place.zeros((b, min(n, 1), L, L))  # no pair ends at a first position
        each = xp.take(xp.reshape(xp.concat([first, g.pairwise], axis=1), (b * n, L * L)), cells, axis=0)
        edges = self.arrays.scatter_sum(data.edges.take(positions), each)
        return xp.concat([xp.reshape(x, (-1,)) for x in (weights, xp.sum(each, axis=0), edges)])

    @zero_at_truth
    def task_loss(self, data: ChainData, batch: np.ndarray) -> ChainScores:
        """The task loss as scores to add: cost[true label, label] at each position."""
        positions, place = layout_of(data.offsets, batch)
        home = data.rows.place
        true = home.xp.take(self.true_labels(data), home.integers(positions))
        flat = home.xp.take(home.floats(self.cost), true, axis=0)
        return ChainScores(padded(data, flat, place), home.zeros(self._pair_shape(place)), lengths_of(data, batch))

    def gold(self, data: ChainData, batch: np.ndarray) -> ChainScores:
        """The indicator of the true labellings' parts, shaped like the scores."""
        labels, home = self._gold_labels(data, batch), data.rows.place
        shape = ChainScores(
            home.zeros((*labels.shape, self.n_labels)), home.zeros(self._pair_shape(labels)), lengths_of(data, batch)
        )
        parts: ChainScores = self.structure_type.ops.parts(shape, labels)
        return parts

    def within(self, data: ChainData, batch: np.ndarray, scores: Any) -> ChainScores:
        """The scores of a piece with -inf for the labels that ``data.allowed`` excludes."""
        positions, place = layout_of(data.offsets, batch)
        home, xp = data.rows.place, data.rows.place.xp
        allowed = xp.take(data.allowed, home.integers(positions), axis=0)
        flat = xp.where(allowed, home.zeros(allowed.shape), -xp.inf)
        restricted: ChainScores = scores._replace(unary=scores.unary + padded(data, flat, place))
        return restricted

    def gold_scores(self, data: ChainData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of the true labellings at weights w (d,)."""
        return self.structure_type.ops.score(self.scores(data, batch, w), self._gold_labels(data, batch))

    def _gold_labels(self, data: ChainData, batch: np.ndarray) -> Array:
        """True labels of a piece (b, n), -1 in the padding."""
        positions, place = layout_of(data.offsets, batch)
        home, xp = data.rows.place, data.rows.place.xp
        true = xp.concat([xp.take(self.true_labels(data), home.integers(positions)), home.integers([-1])])
        return xp.reshape(xp.take(true, home.integers(place.ravel())), place.shape)

    def _split(self, data: ChainData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [labels[:length] for labels, length in zip(host(outputs), data.lengths[piece], strict=True)]


def padded(data: Any, flat: Array, place: np.ndarray) -> Array:
    """Rows (P, k) of a piece's positions as (b, n, k), with 0 in the padding."""
    home, columns = data.rows.place, flat.shape[1]
    longer = home.xp.concat([flat, home.zeros((1, columns))])
    return home.xp.reshape(home.xp.take(longer, home.integers(place.ravel()), axis=0), (*place.shape, columns))


def lengths_of(data: Any, batch: np.ndarray) -> Array | None:
    """The lengths (b,) of a piece's sequences in the data's place, None if they are equal."""
    lengths = data.lengths[batch]
    return None if len(set(lengths.tolist())) <= 1 else data.rows.place.integers(lengths)


def of_similar_lengths(lengths: np.ndarray, batch: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """The batch (b,) of sequences of these lengths (b,) in groups: at most ``most`` padded positions, unless a single
    sequence is longer, at most half of them padding.
    """
    order = np.argsort(lengths, kind="stable")
    first = 0
    for i in range(1, len(order) + 1):
        shortest = lengths[order[first]]
        longest = lengths[order[i]] if i < len(order) else None
        if longest is None or longest * (i + 1 - first) > most or longest > 2 * shortest:
            yield batch[order[first:i]]
            first = i


def _plain(x: Any) -> bool:
    """Whether x is an array in host memory without a mask."""
    return isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)


def layout_of(offsets: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
