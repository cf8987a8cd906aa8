"""Sequences scored by kernels: compiled rounds, losses and labellings of all sequences in one call, prediction in
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import accelerated.arrays
import reference.models.kernel_sequence as reference
from accelerated.arrays import view
from accelerated.compiled.structures.chain import Chains, forward_backward_range, viterbi_range
from accelerated.gram import Gram
from accelerated.prox import SquaredL1
from accelerated.structures.chain import Chain
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.kernel_sequence import KernelData, KernelWeights
from reference.prox.base import Regularizer

__all__ = ["KernelData", "KernelSequenceModel", "KernelWeights"]


class KernelSequenceModel(reference.KernelSequenceModel):
    structure_type = Chain
    arrays = accelerated.arrays

    def _grams(self, X: Array, storage: str, budget: int) -> list[Any]:
        return Gram.several(self._kernels(), X, storage, budget)

    def penalty(self, lam: float) -> Regularizer:
        return SquaredL1(lam)

    def mean_loss(self, data: KernelData, weights: KernelWeights, loss: str) -> float:
        if type(self) is not KernelSequenceModel:
            return super().mean_loss(data, weights, loss)
        unary, labels = view("unary", self.training_scores(data, weights)), view("labels", data.labels, np.int64)
        pairwise = _transitions(weights)
        within = np.ones(len(labels), bool)
        within[data.offsets[:-1][np.diff(data.offsets) > 0]] = False  # not the first position of a sequence
        inner = np.flatnonzero(within)
        gold = unary[np.arange(len(labels)), labels].sum() + pairwise[labels[inner - 1], labels[inner]].sum()
        if loss == "hinge":
            unary = unary + self.cost[labels]
        values = (
            _best(unary, data.offsets, pairwise)[0] if loss == "hinge" else _partition(unary, data.offsets, pairwise)
        )
        return float((values.sum() - gold) / data.n)

    def decode(self, unary: Array, offsets: np.ndarray, weights: KernelWeights) -> np.ndarray:
        if type(self) is not KernelSequenceModel:
            return super().decode(unary, offsets, weights)
        return _best(view("unary", unary), offsets, _transitions(weights))[1]

    def _each(self, work: Callable[[int, int], Any], pieces: list[tuple[int, int]]) -> list[Any]:
        return in_parallel(work, pieces)


def _transitions(weights: KernelWeights) -> np.ndarray:
    """The sum of all tables (L, L)."""
    return view("transitions", array_namespace(weights.transitions).sum(weights.transitions, axis=0))


def _flat(unary: np.ndarray, offsets: np.ndarray, pairwise: np.ndarray) -> Chains:
    """Chains one after another, in the kernels' layout."""
    return Chains(unary, pairwise[None], offsets[:-1], np.diff(offsets), np.zeros(len(offsets) - 1, np.int64), 0)


def _best(unary: np.ndarray, offsets: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest scores (n,), and labels (N,) that attain them."""
    value, labels = np.empty(len(offsets) - 1), np.full(len(unary), -1)
    flat = _flat(unary, offsets, pairwise)
    in_parallel(lambda lo, hi: viterbi_range(lo, hi, flat, value, labels), ranges(offsets))
    return value, labels


def _partition(unary: np.ndarray, offsets: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
    """Log partition functions (n,)."""
    value, nodes, edges = np.empty(len(offsets) - 1), np.zeros(unary.shape), np.zeros((1, *pairwise.shape))
    forward_backward_range(0, len(value), _flat(unary, offsets, pairwise), 1.0, value, nodes, edges)
    return value
