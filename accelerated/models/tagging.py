"""Tagging with kernels. Attributes observed with many labels have a row of weights; all others have a weight for each
observed pair.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import accelerated.arrays
import reference.models.tagging as reference
from accelerated.arrays import entries, numbers, view
from accelerated.compiled.epochs.tagging import Lookup
from accelerated.compiled.problems.pairs import Pairs, Places, lay_out
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.compiled.sweeps import padded
from accelerated.kept import Kept
from accelerated.models.sequence import SequenceModel, tagged
from accelerated.models.tagger import Tagger
from accelerated.structures.chain import Chain
from reference.arrays import Array
from reference.models.bound import BoundModel
from reference.models.sequence import ChainData

__all__ = ["TaggingModel"]

ROW = 4  # an attribute observed with at least this many labels gets a row


class Cells(NamedTuple):
    """The places of weights in W: attribute j has row row[j], or, if that is -1, ``many[j]`` pairs from ``first[j]``
    on.

    slots (m,): the place of each weight in W (C order), which has the given shape; pairs (P,): the numbers of the
    weights that are pairs; labels (P,): their labels; free (R, Lp): as in Pairs; edges: the place of the first weight
    of features of pairs of neighbours. The last cell of W is for forbidden parts.
    """

    row: np.ndarray
    first: np.ndarray
    many: np.ndarray
    slots: np.ndarray
    shape: tuple[int, int]
    pairs: np.ndarray
    labels: np.ndarray
    free: np.ndarray
    edges: int


_layouts: Kept[tuple[Any, tuple[Any, ...]]] = Kept()  # of data, which outlive a run, with the last model


class TaggingModel(reference.TaggingModel):
    structure_type = Chain
    arrays = accelerated.arrays

    def predict(self, data: Any, batch: np.ndarray | None, w: Array, known: Any = None) -> list[Any]:
        labels = tagged(self, data, batch, w) if type(self) is TaggingModel and known is None else None
        return super().predict(data, batch, w, known) if labels is None else labels

    def bound(self, w: Array) -> BoundModel:
        return Tagger(self, w)

    def lookup(self, w: np.ndarray) -> Lookup:
        """The weights (d,) as :func:`tag_sentence` takes them."""
        cells, (follows, begins, ends) = self._weights, self._forbidden
        W, A = np.zeros(cells.shape), follows.copy()
        W.reshape(-1)[cells.slots] = w[: len(cells.slots)]
        A.reshape(-1)[self.label_pairs] = w[len(cells.slots) :]
        return Lookup(cells.row, cells.first, cells.many, W, cells.labels, w[cells.pairs], A[None], begins, ends)

    def problem(self, kind: Any, data: ChainData, labels: Array, cost: np.ndarray, *options: Any) -> Any:
        """Packed data as a problem of the kernels, of type ``kind``."""
        if not self.restricted:
            return SequenceModel.problem(self, kind, data, labels, cost, *options)  # type: ignore[arg-type]
        kept = _layouts.get(data)
        if kept is None or kept[0] is not self:
            kept = _layouts.put(data, (self, self._laid_out(data)))
        *rows, pairs = kept[1]
        offsets = view("offsets", data.offsets, np.int64)
        return kind(offsets, *rows, numbers("labels", labels, len(cost)), cost, pairs, *options)

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them: W (F, Lp) and A (1, L, L), -inf for forbidden parts.

        rows: those of W that are needed; of a restricted model, all are filled.
        """
        if not self.restricted:
            return SequenceModel.padded(self, w, rows)  # type: ignore[arg-type]
        slots, shape, (first, count) = self._weights.slots, self._weights.shape, self.edge_places()
        W, A, end = np.zeros(shape), self._forbidden[0].copy(), len(w) - count
        W.reshape(-1)[slots], W[-1, -1] = w[: len(slots)], -np.inf
        A.reshape(-1)[self.label_pairs] = w[len(slots) : end]
        W.reshape(-1)[first : first + count] = w[end:]
        return Weights(W, A[None])

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        if not self.restricted:
            return SequenceModel.flat(self, W, A)  # type: ignore[arg-type]
        cells, (first, count) = W.reshape(-1), self.edge_places()
        return np.concatenate(
            [cells[self._weights.slots], A.reshape(-1)[self.label_pairs], cells[first : first + count]]
        )

    def edge_places(self) -> tuple[int, int]:
        """As SequenceModel's. Those of a restricted model follow its pairs of attributes and labels."""
        if not self.restricted:
            return SequenceModel.edge_places(self)  # type: ignore[arg-type]
        return self._weights.edges, self.size - len(self._weights.slots) - len(self.label_pairs)

    @cached_property
    def _weights(self) -> Cells:
        L, Lp = self.n_labels, padded(self.n_labels)
        pairs = np.arange(self.width * L) if self.pairs is None else self.pairs
        attribute, label = np.divmod(pairs, L)
        count = np.bincount(attribute, minlength=self.width)
        in_row = count >= (0 if self.pairs is None else ROW)
        rows, row = int(np.sum(in_row)), np.where(in_row, np.cumsum(in_row) - 1, -1)
        count[in_row] = 0
        single = ~in_row[attribute]
        slots = np.where(single, rows * Lp + np.cumsum(single) - 1, row[attribute] * Lp + label)
        free = np.zeros((0 if self.pairs is None else rows, Lp), np.uint8)
        if self.pairs is not None:
            free.reshape(-1)[slots[~single]] = 1
        edges = rows * Lp + int(np.sum(single))
        last = edges + self.size - len(pairs) - len(self.label_pairs)
        shape = (last // Lp + 1, Lp)
        places = row, np.cumsum(count) - count, count, slots
        return Cells(*places, shape, np.flatnonzero(single), label[single], free, edges)

    def _laid_out(self, data: ChainData) -> tuple[np.ndarray, np.ndarray, np.ndarray, Pairs]:
        """The features with a row (indptr, indices, data), and the pairs: those of other features, and -inf for labels
        that may not begin or end a sequence.
        """
        cells, (_, begins, ends) = self._weights, self._forbidden
        W_row, W_column = np.divmod(cells.slots[cells.pairs], cells.shape[1])
        places = Places(cells.row, cells.first, cells.many, W_row, W_column, cells.labels)
        never = np.flatnonzero(begins < 0), np.flatnonzero(ends < 0)
        *rows, where, of, columns, labels, values = lay_out(
            view("offsets", data.offsets, np.int64), *entries(data.rows), places, *never, cells.shape
        )
        transitions = np.zeros((self.n_labels, self.n_labels))
        transitions.reshape(-1)[self.label_pairs] = 1.0
        return *rows, Pairs(where, of, columns, labels, values, cells.free, transitions)
