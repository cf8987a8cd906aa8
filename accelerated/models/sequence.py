"""Sequence labelling with kernels: packed data as problems, weights padded for them, tagging in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated.arrays
import reference.models.sequence as reference
from accelerated.arrays import entries, in_memory, numbers, view
from accelerated.compiled.epochs.tagging import tag_range
from accelerated.compiled.problems import EdgeEntropyProblem, EdgeMaxProblem, EntropyProblem, MaxProblem
from accelerated.compiled.problems.edges import EdgeFeatures
from accelerated.compiled.problems.pairs import no_pairs
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.compiled.sweeps import padded
from accelerated.kept import Kept
from accelerated.structures.chain import Chain
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.base import all_of, check_weights
from reference.models.sequence import ChainData

__all__ = ["ChainData", "SequenceModel"]

LARGEST_TABLES = 2**24  # positions times pairs of labels, 16 bytes each; beyond, the loop, which takes pieces
EDGE_PROBLEMS: dict[Any, Any] = {MaxProblem: EdgeMaxProblem, EntropyProblem: EdgeEntropyProblem}


class LabelWeights:
    """The layout of a model with weights of features and labels, and of pairs of labels."""

    split: Any
    cells: Any = slice(None)  # the places of the model's weights among those of all features and labels

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: W (F, Lp) and A (1, L, L).

        rows: those of W that are needed.
        """
        weights, pairwise = self.split(w)
        return pad(weights, pairwise, rows)

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return unpad(W, A)[self.cells]


class SequenceModel(reference.SequenceModel, LabelWeights):
    structure_type = Chain
    arrays = accelerated.arrays

    def predict(self, data: Any, batch: np.ndarray | None, w: Array, known: Any = None) -> list[Any]:
        labels = tagged(self, data, batch, w) if type(self) is SequenceModel and known is None else None
        return super().predict(data, batch, w, known) if labels is None else labels

    def problem(self, kind: Any, data: ChainData, labels: Array, cost: np.ndarray, *options: Any) -> Any:
        """Packed data as a problem of the kernels, of type ``kind``."""
        return packed(kind, data, labels, cost, *options)

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """As LabelWeights', with the weights of features of pairs in the last rows of W."""
        return pad(*reference.SequenceModel.split(self, w), rows, w[len(w) - self.edge_places()[1] :])

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        first, count = self.edge_places()
        edges = W.reshape(-1)[first : first + count]
        return np.concatenate([unpad(W[: self.width], A), edges]) if count else unpad(W, A)

    def edge_places(self) -> tuple[int, int]:
        """The first cell of W (C order) with a weight of features of pairs, and their number."""
        return self.width * padded(self.n_labels), self.n_edge_features * self.n_labels**2


def tagged(model: Any, data: ChainData, batch: np.ndarray | None, w: Array) -> list[Any] | None:
    """Best labels of each sequence of the batch, by kernels; None if scores may not be finite or a sequence has no
    allowed labelling.
    """
    model.check(data)
    check_weights(model, w, model.zeros(data))
    features = [in_memory("features", rows.data) for rows in (data.rows, data.edges) if rows is not None]
    reach = _largest(view("w", w)) * max(1.0, *map(_largest, features))
    if not reach < 2.0**960:  # scores that overflow are refused there
        return None
    batch = all_of(data.n, batch)
    start = np.concatenate([[0], np.cumsum(data.lengths[batch])])
    labels = np.empty(start[-1], np.int64)
    kind, options = with_edges(model, data, MaxProblem)
    if kind is None:
        return None
    problem = model.problem(kind, data, np.zeros(0, np.int64), np.zeros((0, 0)), *options)
    W, A = model.padded(view("w", w))
    in_parallel(lambda lo, hi: tag_range(problem, batch, lo, hi, W, A, start, labels), ranges(start))
    if labels.min(initial=0) < 0:
        return None
    return [labels[a:b] for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]


def _largest(x: np.ndarray) -> float:
    """The largest of absolute values, or nan."""
    return max(float(x.max()), -float(x.min())) if x.shape[0] else 0.0


def packed(kind: Any, data: ChainData, labels: Array, cost: np.ndarray, *options: Any) -> Any:
    """Packed data as a problem of the kernels, of type ``kind``: views, no copies of float64 data."""
    return kind(
        view("offsets", data.offsets, np.int64),
        *entries(data.rows),
        numbers("labels", labels, len(cost)),
        cost,
        no_pairs(len(cost)),
        *options,
    )


_edges: Kept[tuple[Any, EdgeFeatures]] = Kept()  # of data, which outlive a run, with the last model


def with_edges(model: Any, data: ChainData, kind: Any) -> tuple[Any, tuple[EdgeFeatures, ...]]:
    """The type of a problem, and what it has more, where pairs of neighbours have features; None where there is no
    kernel.
    """
    if data.edges is None:
        return kind, ()
    if kind not in EDGE_PROBLEMS or int(np.max(data.lengths, initial=0)) * padded(model.n_labels) ** 2 > LARGEST_TABLES:
        return None, ()
    kept = _edges.get(data)
    if kept is None or kept[0] is not model:
        kept = _edges.put(data, (model, edge_features(model, data)))
    return EDGE_PROBLEMS[kind], (kept[1],)


def edge_features(model: Any, data: ChainData) -> EdgeFeatures:
    """The features of pairs of neighbours, and the places of their weights."""
    E, L, start = model.n_edge_features, model.n_labels, model.edge_places()[0]
    assert data.edges is not None
    indptr, indices, values = entries(data.edges)
    if getattr(model, "edge_pairs", None) is None:
        codes, many, place = np.arange(L**2), np.full(E, L**2), np.zeros(E, np.int64)
        first = start + np.arange(E) * L**2
    else:
        feature, codes = np.divmod(model.edge_pairs, L**2)
        many = np.bincount(feature, minlength=E)
        place = np.cumsum(many) - many
        first = start + place
    codes, cells = codes // L * padded(L) + codes % L, np.concatenate([[0], np.cumsum(many[indices])])
    return EdgeFeatures(indptr, indices, values, first, many, place, codes.astype(np.uint32), cells)


def pad(weights: np.ndarray, pairwise: np.ndarray, rows: Any, edges: Any = ()) -> Weights:
    """These rows of weights (F, L) with labels padded to Lp by zeros, and a copy of the transitions (1, L, L).

    ``edges`` (m,) follow in rows of their own; all rows are then filled.
    """
    F, L, Lp = *weights.shape, padded(weights.shape[1])
    W = np.zeros((F + -(-len(edges) // Lp), Lp))
    rows = slice(F) if len(edges) else rows
    W[rows, :L] = weights[rows]
    W[F:].reshape(-1)[: len(edges)] = edges
    return Weights(W, pairwise[None].copy())


def unpad(W: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The inverse of :func:`pad`: one vector (d,)."""
    rows, L = len(W), A.shape[1]
    w = np.empty(rows * L + A.size)
    w[: rows * L].reshape(rows, L)[:] = W[:, :L]
    w[rows * L :] = A.ravel()
    return w
