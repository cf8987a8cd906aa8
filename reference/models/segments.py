"""Segments: a sequence is cut into segments with a label each, by features of tokens and of whole segments.

The joint feature map of a semi-Markov CRF or structural SVM (Sarawagi and Cohen, 2004, equations (1) and (2)). The
tokens s..s+w with label l score

    sum_{t=s..s+w} <x_t, A_l> + <x_s, B_l> + <x_{s+w}, C_l> + <z_{s,w}, D_l> + E_{w,l}

with x_t the features of token t, z_{s,w} those of the segment, and E the weights of its length; a label b right after a
has T_ab more. Weights are one vector w (d,): a matrix (2 + 1, F, ...) of A, B, C, then D, then E, the L weights of a
feature side by side, then T (L, L). Sums over the tokens of all segments take n W L additions, as running sums over the
width; the adjoint runs from the widest segment down.
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
    LabelledModel,
    check_labels,
    checked,
    given,
    integer,
    label_indices,
    one_for_each,
    sound,
    squared_sums,
    stacked,
    zero_at_truth,
)
from reference.models.sequence import layout_of, lengths_of, of_similar_lengths, padded
from reference.packed import check_indices, check_offsets, lock
from reference.structures.segment_oracles import SegmentScores, sheared
from reference.structures.segments import Segments

__all__ = ["SegmentData", "SegmentModel"]


@dataclass(frozen=True, eq=False, repr=False)
class SegmentData(Concatenated):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1].

    rows: features of all N positions; offsets (n+1,) NumPy int64; segments: features of all N W segments, row t W + w
    of that of positions t..t+w; labels (N,) int64 in the rows' place, each position's; widths (N,) NumPy int64: w for
    the first position of a true segment of w + 1 positions, -1 elsewhere. Both are None without true segments.
    """

    rows: Rows
    offsets: np.ndarray
    segments: Rows
    labels: Array | None
    widths: np.ndarray | None

    counted = "positions"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the rows, each of them has as many segments, and true segments, with labels
        >= 0, are those of whole sequences.
        """
        N = checked("rows", self.rows, Rows).n
        check_offsets("offsets", self.offsets, N, "positions")
        check_labels(self.labels, N, self.rows.place.xp)
        if (m := checked("segments", self.segments, Rows).n) % max(N, 1) or (m and not N):
            raise ValueError(f"segments: expected as many rows for each of {N} positions, got {m} rows")
        if (self.labels is None) != (self.widths is None):
            raise ValueError("widths: expected labels and widths, or neither")
        if self.widths is not None:
            check_indices("widths", self.widths, (N,))
            first = np.flatnonzero(self.widths >= 0)
            bounds = np.cumsum([0, *(self.widths[first] + 1)])
            if not np.array_equal(np.append(first, N), bounds) or not np.all(np.isin(self.offsets, bounds)):
                raise ValueError("widths: expected segments of each sequence, one after another, and -1 inside them")


class SegmentModel(LabelledModel):
    """A labeller of segments over sparse or dense features.

    Parameters
    ----------
    n_features : int
        Number F of features of a position. Each has weights for a segment's sum of them, for its first position and for
        its last.
    labels : int or sequence of str
        Number of labels, or their names.
    longest : int or sequence of L int
        The most positions of a segment, or of a segment of each label; W is the largest. Longer ones score -inf.
    n_segment_features : int
        Number of features of a segment.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over the positions of all segments; default: Hamming. A
        segment costs what its positions cost; where it begins and ends costs nothing.
    max_cells : int
        Bound on the padded positions of one piece of a batch, unless a single sequence is longer.

    Attributes
    ----------
    labels : tuple of str
        Label names.
    longest : (L,) int64
    n_widths : int
        W.
    size : int
        Number of weights d = (3 F + n_segment_features + W) L + L^2.

    Notes
    -----
    An output is rows (start, w, label): w + 1 positions from ``start`` on, in order, (m, 3) int64.

    Source
    ------
    Sarawagi and Cohen (2004), "Semi-Markov conditional random fields for information extraction", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import LogLoss, SegmentModel, lbfgs
    >>> model = SegmentModel(1, ["other", "name"], [1, 2])
    >>> data = model.pack([np.array([[0.0], [1.0], [1.0]])], [[(0, 0, "other"), (1, 1, "name")]])
    >>> w = lbfgs(LogLoss(model, data), lam=0.01).x
    >>> model.predict(data, None, w)[0].tolist()
    [[0, 0, 0], [1, 1, 1]]
    """

    structure_type = Segments
    packed_type = SegmentData
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        n_features: int,
        labels: int | Sequence[str],
        longest: int | Sequence[int],
        *,
        n_segment_features: int = 0,
        cost: Any = None,
        max_cells: int = 8192,
    ) -> None:
        self.n_features, self.max_cells = integer("n_features", n_features, 0), integer("max_cells", max_cells, 1)
        self.n_segment_features = integer("n_segment_features", n_segment_features, 0)
        self._label(labels, cost)
        each = listed("longest", longest) if np.ndim(longest) else [longest] * self.n_labels
        if len(each) != self.n_labels:
            raise ValueError(f"longest: expected a number, or one for each of {self.n_labels} labels, got {len(each)}")
        self.longest = np.array([integer("longest", x, 1) for x in each], np.int64)
        self.n_widths = int(self.longest.max())
        self.width = 3 * self.n_features + self.n_segment_features + self.n_widths
        self.size = (self.width + self.n_labels) * self.n_labels
        self._forbidden = np.where(np.arange(self.n_widths)[:, None] < self.longest, 0.0, -np.inf)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> SegmentData:
        """Sequences and their segments, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n items
            Each a dense array (n_i, F), a CSR matrix, a Rows, or a list of n_i lists of active columns. With features
            of segments, each is a pair (features, segment_features), the second of shape (n_i, W, G), or (n_i W, G) in
            one of these forms: row s W + w is for the positions s..s+w. Those past the end are not looked at.
        Y : sequence of n lists of segments, optional
            Each rows (start, w, label) of all positions in order, the label an index or a name; rows of -1 may follow.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Raises
        ------
        ValueError, TypeError
            Naming the sequence, for a wrong number of features, unknown labels, segments that are too long, or do not
            follow one another from the first position to the last.
        """
        each = each_example("X", X, self._sequence)
        offsets = np.cumsum([0, *(x.n for x, _ in each)], dtype=np.int64)
        rows = stacked([x for x, _ in each], self.n_features)
        segments = stacked([z for _, z in each], self.n_segment_features)
        return self._data(rows, segments, offsets, Y, like)

    def _sequence(self, name: Example, x: Any) -> tuple[Rows, Rows]:
        """The rows of one sequence and of its segments."""
        W, G = self.n_widths, self.n_segment_features
        if not G:
            rows = Rows.of(x, width=self.n_features, name=name)
            return rows, Rows.unchecked(np.zeros(rows.n * W + 1, np.int64), np.zeros(0, np.int64), np.zeros(0), 0)
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            got = f"{len(x)} items" if isinstance(x, (tuple, list)) else type(x).__name__
            raise example_error(name, None, f"expected a pair (features, segment_features), got {got}", TypeError)
        of_segments = Example(name.argument, name.example, "segment_features")
        rows, z = Rows.of(x[0], width=self.n_features, name=name), x[1]
        if getattr(z, "ndim", 0) == 3:
            if tuple(z.shape) != (rows.n, W, G):
                expected = f"expected shape {(rows.n, W, G)}, (tokens, widths, features), got {tuple(z.shape)}"
                raise example_error(of_segments, None, expected)
            z = host(z).reshape(rows.n * W, G)
        segments = Rows.of(z, width=G, name=of_segments)
        if segments.n != rows.n * W:
            expected = f"expected {rows.n * W} rows, {W} for each of {rows.n} positions, got {segments.n}"
            raise example_error(of_segments, None, expected)
        return rows, segments

    def _data(self, rows: Rows, segments: Rows, offsets: np.ndarray, Y: Any, like: Array | None) -> SegmentData:
        """Packed data from rows on the host."""
        packed = Rows.of(rows, like=like)
        labels = widths = None
        if Y is not None:
            each = each_example("Y", one_for_each(Y, len(offsets) - 1, "lists of segments"), self._truth)
            for i, (y, n) in enumerate(zip(each, np.diff(offsets).tolist(), strict=True)):
                if y.shape[1] != n:
                    expected = f"expected segments of {n} positions, got those of {y.shape[1]}"
                    raise example_error(Example("Y", i), None, expected)
            labels, widths = np.concatenate([np.zeros((2, 0), np.int64), *each], axis=1)
            labels, widths = lock(packed.place.integers(labels)), lock(widths)
        return SegmentData(packed, lock(offsets), Rows.of(segments, like=like), labels, widths)

    def _truth(self, name: Example, y: Any) -> np.ndarray:
        """The labels and the widths (2, n) of the true segments of a sequence, as in SegmentData."""
        rows = [row for row in (host(y).tolist() if hasattr(y, "ndim") else listed(name, y)) if list(row) != [-1] * 3]
        for k, row in enumerate(rows):
            if len(row) != 3:
                raise example_error(name, k, f"expected (start, w, label), got {row!r:.80}")
        labels = label_indices(name, [row[2] for row in rows], self.labels)
        widths: list[int] = []
        for k, ((start, w, _), label) in enumerate(zip(rows, labels.tolist(), strict=True)):
            if start != len(widths) or w != int(w) or w < 0:
                expected = f"expected a segment from position {len(widths)} on, w >= 0"
                raise example_error(name, k, f"{expected}, got ({start}, {w})")
            if w >= self.longest[label]:
                most = f"at most {self.longest[label]} positions with label {self.labels[label]}"
                raise example_error(name, k, f"expected a segment of {most}, got one of {w + 1}: longest={w + 1}")
            widths += [int(w)] + [-1] * int(w)
        first = np.array(widths, np.int64)
        return np.stack([np.repeat(labels, first[first >= 0] + 1), first])

    def _sizes(self, data: SegmentData) -> Iterable[tuple[str, int, int]]:
        widths = data.segments.n // data.rows.n if data.rows.n else self.n_widths
        of_segments = "features of segments", data.segments.width, self.n_segment_features
        return [("columns", data.rows.width, self.n_features), of_segments, ("widths", widths, self.n_widths)]

    def chunks(self, data: SegmentData, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Groups of sequences of similar lengths, as SequenceModel's."""
        return of_similar_lengths(data.lengths[batch], batch, self.max_cells)

    # scores -----------------------------------------------------------------------------------------------------------

    def scores(self, data: SegmentData, batch: np.ndarray, w: Array) -> SegmentScores:
        """The scores of a piece (b,) at weights w (d,): segments (b, n, W, L), -inf where a label has no such lengths,
        pairwise (L, L), lengths (b,).
        """
        scores = self.pushforward(data, batch, w, w)
        segments = scores.segments + data.rows.place.floats(self._forbidden)
        return sound(scores._replace(segments=segments), w)

    def pushforward(self, data: SegmentData, batch: np.ndarray, w: Array, dw: Array) -> SegmentScores:
        """The scores at dw (d,), without the -inf of lengths that a label does not have."""
        weights, pairwise = self.split(dw)
        positions, place = layout_of(data.offsets, batch)
        xp, F, W, L = data.rows.place.xp, self.n_features, self.n_widths, self.n_labels
        # one pass over the features: three times L columns
        of_tokens = xp.concat([weights[k * F : (k + 1) * F, :] for k in range(3)], axis=1)
        tokens = padded(data, self.arrays.gather_sum(data.rows.take(positions), of_tokens), place)
        each = self.arrays.gather_sum(data.segments.take(self._rows_of(positions)), weights[3 * F : -W, :])
        each = padded(data, xp.reshape(each, (len(positions), W * L)), place)
        segments = xp.reshape(each, (*place.shape, W, L)) + weights[-W:, :]
        segments = segments + xp.cumulative_sum(self._ahead(tokens[:, :, :L]), axis=2)
        segments = segments + tokens[:, :, None, L : 2 * L] + self._ahead(tokens[:, :, 2 * L :])
        return SegmentScores(segments, pairwise, lengths_of(data, batch))

    def pullback(self, data: SegmentData, batch: np.ndarray, w: Array, g: SegmentScores) -> Array:
        """The adjoint of :meth:`pushforward`: a gradient with respect to the scores of a piece, as one (d,) in the
        weights.
        """
        positions, place = layout_of(data.offsets, batch)
        xp, home, L = data.rows.place.xp, data.rows.place, self.n_labels
        cells = home.integers(np.flatnonzero(place.ravel() < len(positions)))
        wider = xp.flip(xp.cumulative_sum(xp.flip(g.segments, axis=2), axis=2), axis=2)  # sum over w' >= w
        # the adjoint of _ahead: for each position the sum over the segments that end there
        inside, last = (xp.sum(sheared(xp, x, -1, 0.0), axis=2) for x in (wider, g.segments))
        tokens = xp.concat([inside, xp.sum(g.segments, axis=2), last], axis=2)
        flat = xp.take(xp.reshape(tokens, (place.size, 3 * L)), cells, axis=0)
        of_tokens = self.arrays.scatter_sum(data.rows.take(positions), flat)
        each = xp.take(xp.reshape(g.segments, (place.size, self.n_widths * L)), cells, axis=0)
        each = xp.reshape(each, (len(positions) * self.n_widths, L))
        of_segments = self.arrays.scatter_sum(data.segments.take(self._rows_of(positions)), each)
        of_lengths = xp.sum(g.segments, axis=(0, 1))
        blocks = [*(of_tokens[:, k * L : (k + 1) * L] for k in range(3)), of_segments, of_lengths, g.pairwise]
        return xp.concat([xp.reshape(x, (-1,)) for x in blocks])

    def _rows_of(self, positions: np.ndarray) -> np.ndarray:
        """The rows of the segments that begin at these positions."""
        rows: np.ndarray = (positions[:, None] * self.n_widths + np.arange(self.n_widths)).ravel()
        return rows

    def _ahead(self, x: Array) -> Array:
        """(b, n, W, L): x (b, n, L) at position s + w for each segment, 0 past the end."""
        xp, (b, n, L) = array_namespace(x), x.shape
        return sheared(xp, xp.broadcast_to(x[:, :, None, :], (b, n, self.n_widths, L)), 1, 0.0)

    # the true segments ------------------------------------------------------------------------------------------------

    @zero_at_truth
    def task_loss(self, data: SegmentData, batch: np.ndarray) -> SegmentScores:
        """The task loss as scores to add: the costs of a segment's positions."""
        positions, place = layout_of(data.offsets, batch)
        home, L = data.rows.place, self.n_labels
        true = home.xp.take(self.true_labels(data), home.integers(positions))
        costs = padded(data, home.xp.take(home.floats(self.cost), true, axis=0), place)
        sums = home.xp.cumulative_sum(self._ahead(costs), axis=2)
        return SegmentScores(sums, home.zeros((L, L)), lengths_of(data, batch))

    def gold(self, data: SegmentData, batch: np.ndarray) -> SegmentScores:
        """The indicator of the true segments' parts, shaped like the scores."""
        y, home, L = self._true_rows(data, batch), data.rows.place, self.n_labels
        shape = SegmentScores(home.zeros((*y.shape[:2], self.n_widths, L)), home.zeros((L, L)), lengths_of(data, batch))
        parts: SegmentScores = self.structure_type.unchecked(shape).parts(y)
        return parts

    def gold_scores(self, data: SegmentData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of the true segments at weights w (d,)."""
        return self.structure_type.unchecked(self.scores(data, batch, w)).score(self._true_rows(data, batch))

    def _true_rows(self, data: SegmentData, batch: np.ndarray) -> Array:
        """The true segments of a piece (b, n, 3), padded with -1."""
        labels, widths = host(self.true_labels(data)), given(data.widths, "segments")
        rows = np.full((len(batch), int(data.lengths[batch].max(initial=0)), 3), -1)
        for mine, i in zip(rows, batch.tolist(), strict=True):
            a, b = data.offsets[i : i + 2]
            first = np.flatnonzero(widths[a:b] >= 0)
            mine[: len(first)] = np.stack([first, widths[a:b][first], labels[a:b][first]], axis=1)
        return data.rows.place.integers(rows)

    def squared_diameters(self, data: SegmentData) -> np.ndarray:
        """For each sequence, 2 || sum |x| ||^2 for the sum, the first and the last of the positions' features each, the
        same of all segments' features, and 2 n_i^2 of lengths and 2 (n_i - 1)^2 of transitions.

        Each part of two outputs is once in each at most, with vectors whose inner products are within [-2, 2], as in
        :func:`squared_sums`. Lengths and transitions are counts, with no negative inner product.
        """
        W, lengths = self.n_widths, data.lengths
        counts = lengths**2 + np.maximum(lengths - 1, 0) ** 2
        of_tokens, of_segments = squared_sums(data.rows, data.offsets), squared_sums(data.segments, data.offsets * W)
        bounds: np.ndarray = 2 * (3 * of_tokens + of_segments + counts)
        return bounds

    def _split(self, data: SegmentData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [rows[rows[:, 0] >= 0] for rows in host(outputs)]
