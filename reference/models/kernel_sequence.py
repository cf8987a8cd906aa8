"""Sequences scored by kernels of their positions. Each kernel is a group of weights, stored as coefficients over the
training positions.

    f(y) = sum_k sum_t <theta_k, phi_k(x_t, y_t)> + sum_t T(y_{t-1}, y_t),
    <theta_k, phi_k(x, l)> = sum_s A_k(s, l) K_k(x_s, x)

with coefficients A_k (N, L) over the N training positions. Source: Martins et al. 2010, sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Place, Rows, host, refuse_nan_and_inf
from reference.gram import BUDGET, Gram
from reference.kernels import Explicit, Kernel, blocks
from reference.models.base import label_cost, label_names, offsets_of, packed_labels, sized
from reference.models.kernel_data import KernelData, KernelWeights, checked_sequences, pieces, scaled
from reference.models.kernel_names import described
from reference.packed import lock
from reference.prox import SquaredL1
from reference.prox.base import Regularizer
from reference.structures.chain import Chain, ChainScores

__all__ = ["KernelData", "KernelSequenceModel", "KernelWeights"]

TRANSITIONS = ("own", "each", "free")


class KernelSequenceModel:
    """A linear-chain labeller over kernels of the positions' features.

    Parameters
    ----------
    groups : sequence of Kernel or Explicit
        One group of weights each.
    labels : int or sequence of str
        Number of labels, or their names.
    transitions : {"own", "each", "free"}
        The scores of adjacent labels: a group of their own, with a weight as the kernels have; a part of each group (a
        kernel of labellings; with one kernel this is the plain structural SVM); or without penalty.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over positions; default: Hamming.

    Source
    ------
    Martins et al., section 4 (handwriting): "an indicator basis function to represent the correlation between
    consecutive outputs"; the paper does not say which group it is in.
    """

    structure_type = Chain
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        groups: Sequence[Kernel | Explicit],
        labels: int | Sequence[str],
        *,
        transitions: str = "own",
        cost: Any = None,
    ) -> None:
        self.groups = tuple(groups) if isinstance(groups, Iterable) else ()
        if not self.groups or not all(isinstance(group, (Kernel, Explicit)) for group in self.groups):
            raise TypeError(f"groups: expected kernels such as Gaussian(5.0), or Explicit(), got {groups!r}")
        if transitions not in TRANSITIONS:
            raise ValueError(f"transitions: expected one of {', '.join(TRANSITIONS)}, got {transitions!r}")
        if len({group for group in self.groups if isinstance(group, Explicit)}) > 1:
            raise ValueError(
                "groups: expected explicit groups with one unit_diagonal, got Explicit(True) and Explicit(False)"
            )
        self.transitions = transitions
        self.labels = label_names(labels)
        self.n_labels = len(self.labels)
        self.cost = label_cost(cost, self.n_labels)

    def __repr__(self) -> str:
        return sized(self)

    @property
    def n_groups(self) -> int:
        """p: the kernels, and the transitions if they are a group of their own."""
        return len(self.groups) + (self.transitions == "own")

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files; TypeError for kernels that a file cannot
        describe.
        """
        return {
            "groups": [described(group) for group in self.groups],
            "labels": list(self.labels),
            "transitions": self.transitions,
            "cost": self.cost.tolist(),
        }

    def pack(
        self, X: Any, Y: Any = None, *, like: Array | None = None, storage: str = "auto", budget: int = BUDGET
    ) -> KernelData:
        """Sequences and their labels, checked and laid out flat, with their Gram matrices.

        Parameters
        ----------
        X : sequence of n arrays (n_i, d)
        Y : sequence of n label sequences, optional
            Each (n_i,) integer indices, or label names.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.
        storage, budget
            As for :class:`reference.gram.Gram`; the budget in bytes is for all kernels together.

        Returns
        -------
        KernelData

        Raises
        ------
        ValueError, TypeError
            Naming the sequence, for a wrong number of features or labels, unknown labels, numbers that are not finite.
        """
        place, each = Place.of(like), checked_sequences(X)
        if not each:
            raise ValueError("X: expected at least one sequence, got none")
        offsets = offsets_of(each)
        flat = lock(place.floats(np.concatenate(each).astype(np.float64)))
        labels = packed_labels(Y, self.labels, offsets, place)
        held = iter(self._grams(flat, storage, budget))
        grams = tuple(next(held) if isinstance(group, Kernel) else None for group in self.groups)
        return KernelData(flat, lock(offsets), labels, grams, self._explicit_rows(flat))

    def _grams(self, X: Array, storage: str, budget: int) -> list[Any]:
        """The Gram matrices of the kernels."""
        return Gram.several(self._kernels(), X, storage, budget)

    def penalty(self, lam: float) -> Regularizer:
        """(lam/2) (sum_k ||theta_k||)^2, a function of the norms, the default penalty of ``mkl``."""
        return SquaredL1(lam)

    def zeros(self, data: KernelData) -> KernelWeights:
        """Weights of zero in the data's place."""
        place, (N, d), L = Place.of(data.X), data.X.shape, self.n_labels
        coefficients = tuple(place.zeros((N if isinstance(group, Kernel) else d, L)) for group in self.groups)
        tables = len(self.groups) if self.transitions == "each" else 1
        return KernelWeights(coefficients, place.zeros((tables, L, L)), np.zeros(self.n_groups), data.X)

    def group_scores(self, data: KernelData, i: int, weights: KernelWeights) -> list[Array]:
        """<theta_k, phi_k(x_t, l)> (n, L) of sequence i, for each kernel and explicit group."""
        first, last = int(data.offsets[i]), int(data.offsets[i + 1])
        return [
            self.arrays.gather_sum(data.rows.take(np.arange(first, last)), A)  # type: ignore[union-attr]
            if gram is None
            else gram.times(first, last, A)
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]

    def squared_lengths(self, data: KernelData, i: int, D: ChainScores) -> np.ndarray:
        """||sum of D's parts in the space of group k||^2 (p,), D the difference of two outputs' parts of sequence i."""
        first, last = int(data.offsets[i]), int(data.offsets[i + 1])
        xp = array_namespace(D.unary)
        lengths = []
        for gram in data.grams:
            if gram is None:
                g = self.arrays.scatter_sum(data.rows.take(np.arange(first, last)), D.unary)  # type: ignore[union-attr]
                lengths.append(float(xp.sum(g * g)))
            else:
                lengths.append(float(xp.sum(D.unary * xp.matmul(gram.block(first, last, slice(first, last)), D.unary))))
        return self.with_tables(np.array(lengths), np.full(len(lengths), float(xp.sum(D.pairwise * D.pairwise))))

    def with_tables(self, kernels: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """(p,): the contributions of the kernels (K,) and of the tables of transitions (q,), summed by group."""
        if self.transitions == "own":
            return np.append(kernels, tables[:1])
        return kernels + tables if self.transitions == "each" else kernels

    def squared_norms(self, data: KernelData, weights: KernelWeights) -> np.ndarray:
        """||theta_k||^2 (p,) from the weights themselves."""
        xp = array_namespace(weights.transitions)
        kernels = [
            float(xp.sum(A * A)) if gram is None else gram.square(A)
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]
        tables = host(xp.sum(weights.transitions**2, axis=(1, 2))).astype(np.float64)
        return self.with_tables(np.array(kernels), np.broadcast_to(tables, (len(tables),)))

    def difference(
        self, data: KernelData, i: int, each: Sequence[Array], weights: KernelWeights, loss: str
    ) -> tuple[ChainScores, float]:
        """Parts of the best loss-augmented output of sequence i, or expected parts ("crf"), less those of the true one;
        and the loss.

        each: the :meth:`group_scores` of sequence i.
        """
        place = Place.of(data.X)
        xp, first, last = place.xp, int(data.offsets[i]), int(data.offsets[i + 1])
        true = data.labels[first:last]  # type: ignore[index]
        unary = sum(each, place.zeros((last - first, self.n_labels)))
        if loss == "hinge":
            unary = unary + xp.take(place.floats(self.cost), true, axis=0)
        chain = self.structure_type.unchecked(ChainScores(unary, xp.sum(weights.transitions, axis=0), None))
        if loss == "crf":
            value, parts = chain.expectation()
        else:
            value, best = chain.best()
            parts = chain.parts(best)
        gold = chain.parts(true)
        value = float(value) - float(chain.score(true))
        return ChainScores(parts.unary - gold.unary, parts.pairwise - gold.pairwise, None), value

    def mean_loss(self, data: KernelData, weights: KernelWeights, loss: str) -> float:
        """(1/n) sum_i loss_i."""
        whole, total = self.training_scores(data, weights), 0.0
        for i, (first, last) in enumerate(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)):
            total += self.difference(data, i, [whole[first:last, :]], weights, loss)[1]
        return total / data.n

    def training_scores(self, data: KernelData, weights: KernelWeights) -> Array:
        """Scores (N, L) of the labels at the training positions, transitions left out."""
        each = [
            self.arrays.gather_sum(data.rows, A) if gram is None else gram.times(0, gram.n, A)
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]
        return sum(each[1:], each[0])

    # prediction -------------------------------------------------------------------------------------------------------

    def support(self, weights: KernelWeights) -> KernelWeights:
        """The same function with only the training positions that have a non-zero coefficient."""
        implicit = [host(A) for A in self._implicit(weights)]
        some = np.zeros(weights.rows.shape[0], bool)
        for A in implicit:
            some |= np.any(A != 0, axis=1)
        if some.all():
            return weights
        positions, xp = Place.of(weights.rows).integers(np.flatnonzero(some)), array_namespace(weights.rows)
        kept = tuple(
            xp.take(A, positions, axis=0) if isinstance(group, Kernel) else A
            for group, A in zip(self.groups, weights.coefficients, strict=True)
        )
        return weights._replace(coefficients=kept, rows=xp.take(weights.rows, positions, axis=0))

    def scores(self, X: Array, weights: KernelWeights) -> Array:
        """Scores (n, L) of the labels at the positions X (n, d), transitions left out; groups of norm 0 cost
        nothing.
        """
        xp, place = array_namespace(X), Place.of(X)
        terms = [(group, A) for group, A in zip(self.groups, weights.coefficients, strict=True) if bool(xp.any(A != 0))]
        total = place.zeros((X.shape[0], self.n_labels))
        of_kernels = [(group, A) for group, A in terms if isinstance(group, Kernel)]
        matrices = blocks([group for group, _ in of_kernels], X, weights.rows)
        for K, (_, A) in zip(matrices, of_kernels, strict=True):
            total = total + xp.matmul(K, A)
        for group, A in terms:
            if isinstance(group, Explicit):
                total = total + xp.matmul(scaled(X) if group.unit_diagonal else X, A)
        return total

    def decode(self, unary: Array, offsets: np.ndarray, weights: KernelWeights) -> np.ndarray:
        """The best labels (N,) of concatenated sequences from their scores (N, L)."""
        pairwise = array_namespace(unary).sum(weights.transitions, axis=0)
        labels = [np.zeros(0, np.int64)]
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            chain = self.structure_type.unchecked(ChainScores(unary[first:last, :], pairwise, None))
            labels.append(host(chain.best()[1]))
        return np.concatenate(labels)

    def predict(self, weights: KernelWeights, X: Any) -> list[np.ndarray]:
        """The best labelling (n_i,) of each of X, sequences of arrays (n_i, d).

        Raises
        ------
        ValueError, TypeError
            Weights of another model; naming the sequence, for a wrong number of features, numbers that are not finite.

        Notes
        -----
        O(d + p L) for each pair of a position and a training position with a non-zero coefficient. Many positions are
        computed at a time.
        """
        self.check_weights(weights)
        each = checked_sequences(X, width=self.width(weights))
        some, offsets = self.support(weights), offsets_of(each)
        labels = self._each(lambda lo, hi: self._labelled(some, each[lo:hi]), pieces(offsets))
        flat = np.concatenate([np.zeros(0, np.int64), *labels])
        return [flat[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]

    def width(self, weights: KernelWeights) -> int:
        """d, the number of features of a position."""
        return int(weights.rows.shape[1])

    def check_weights(self, weights: Any) -> None:
        """Raise unless these are weights of a model of this shape."""
        if not isinstance(weights, KernelWeights):
            raise TypeError(
                f"weights: expected KernelWeights, such as the x of a result of mkl, got {type(weights).__name__}"
            )
        if weights.rows.ndim != 2:
            raise ValueError(f"weights: expected rows of shape (N, d), got {tuple(weights.rows.shape)}")
        (N, d), L = tuple(weights.rows.shape), self.n_labels
        expected = [(N, L) if isinstance(group, Kernel) else (d, L) for group in self.groups]
        got = [tuple(A.shape) for A in weights.coefficients]
        tables = (len(self.groups) if self.transitions == "each" else 1, L, L)
        if got != expected or tuple(weights.transitions.shape) != tables:
            raise ValueError(
                f"weights: expected coefficients of shapes {expected} and transitions {tables}, got {got} and "
                f"{tuple(weights.transitions.shape)}: they belong to a different model"
            )

    def _labelled(self, weights: KernelWeights, each: Sequence[np.ndarray]) -> np.ndarray:
        """The best labels of some sequences, concatenated."""
        x = Place.of(weights.transitions).floats(np.concatenate(each).astype(np.float64))
        scores = self.scores(x, weights)
        refuse_nan_and_inf("scores", scores, forbidden=False)  # kernels times coefficients can overflow
        return self.decode(scores, offsets_of(each), weights)

    def _each(self, work: Callable[[int, int], Any], pieces: list[tuple[int, int]]) -> list[Any]:
        """``work`` applied to each piece."""
        return [work(lo, hi) for lo, hi in pieces]

    def _kernels(self) -> list[Kernel]:
        return [group for group in self.groups if isinstance(group, Kernel)]

    def _implicit(self, weights: KernelWeights) -> list[Array]:
        return [A for group, A in zip(self.groups, weights.coefficients, strict=True) if isinstance(group, Kernel)]

    def _explicit_rows(self, flat: Array) -> Rows | None:
        explicit = next((group for group in self.groups if isinstance(group, Explicit)), None)
        if explicit is None:
            return None
        return Rows.of(scaled(flat) if explicit.unit_diagonal else flat, like=flat)
