"""Sequence labelling with kernels: packed data as problems, weights padded for them, tagging in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated.arrays
import reference.models.sequence as reference
from accelerated.arrays import entries, in_memory, numbers, view
from accelerated.compiled.epochs.tagging import tag_range
from accelerated.compiled.problems import MaxProblem
from accelerated.compiled.problems.pairs import no_pairs
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.compiled.sweeps import padded
from accelerated.structures.chain import Chain
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.base import all_of, check_weights
from reference.models.sequence import ChainData

__all__ = ["ChainData", "SequenceModel"]


class LabelWeights:
    """The layout of a model with weights of features and labels, and of pairs of labels."""

    split: Any

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: W (F, Lp) and A (1, L, L).

        rows: those of W that are needed.
        """
        weights, pairwise = self.split(w)
        return pad(weights, pairwise, rows)

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return unpad(W, A)


class SequenceModel(reference.SequenceModel, LabelWeights):
    structure_type = Chain
    arrays = accelerated.arrays

    def predict(self, data: Any, batch: np.ndarray | None, w: Array, known: Any = None) -> list[Any]:
        labels = tagged(self, data, batch, w) if type(self) is SequenceModel and known is None else None
        return super().predict(data, batch, w, known) if labels is None else labels

    def problem(self, kind: Any, data: ChainData, labels: Array, cost: np.ndarray, *options: Any) -> Any:
        """Packed data as a problem of the kernels, of type ``kind``."""
        return packed(kind, data, labels, cost, *options)


def tagged(model: Any, data: ChainData, batch: np.ndarray | None, w: Array) -> list[Any] | None:
    """Best labels of each sequence of the batch, by kernels; None if scores may not be finite, a sequence has no
    allowed labelling, or pairs of neighbours have features.
    """
    model.check(data)
    if data.edges is not None:
        return None
    check_weights(model, w, model.zeros(data))
    reach = _largest(view("w", w)) * max(1.0, _largest(in_memory("features", data.rows.data)))
    if not reach < 2.0**960:  # scores that overflow are refused there
        return None
    batch = all_of(data.n, batch)
    start = np.concatenate([[0], np.cumsum(data.lengths[batch])])
    labels = np.empty(start[-1], np.int64)
    problem = model.problem(MaxProblem, data, np.zeros(0, np.int64), np.zeros((0, 0)))
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


def pad(weights: np.ndarray, pairwise: np.ndarray, rows: Any) -> Weights:
    """These rows of weights (F, L) with labels padded to Lp by zeros, and a copy of the transitions (1, L, L)."""
    W = np.zeros((len(weights), padded(weights.shape[1])))
    W[rows, : weights.shape[1]] = weights[rows]
    return Weights(W, pairwise[None].copy())


def unpad(W: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The inverse of :func:`pad`: one vector (d,)."""
    rows, L = len(W), A.shape[1]
    w = np.empty(rows * L + A.size)
    w[: rows * L].reshape(rows, L)[:] = W[:, :L]
    w[rows * L :] = A.ravel()
    return w
