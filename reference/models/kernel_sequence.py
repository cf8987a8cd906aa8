"""Sequences scored by kernels of their positions: each kernel a group of weights, held as coefficients over the training positions.

    f(y) = sum_k sum_t <theta_k, phi_k(x_t, y_t)> + sum_t T(y_{t-1}, y_t),    <theta_k, phi_k(x, l)> = sum_s A_k(s, l) K_k(x_s, x)

with coefficients A_k (N, L) over the N training positions. Source: Martins et al. 2010, sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Place, Rows, host
from reference.gram import BUDGET, PIECE, Gram
from reference.kernels import Explicit, Kernel, blocks
from reference.models.base import label_cost, label_indices, label_names
from reference.models.kernel_names import described
from reference.prox import SquaredL1
from reference.prox.base import Regularizer
from reference.structures.chain import Chain, ChainScores

__all__ = ["KernelData", "KernelSequenceModel", "KernelWeights"]

TRANSITIONS = ("own", "each", "free")


class KernelData(NamedTuple):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1] of X (N, d); labels (N,), or None.

    grams: the Gram matrix of each kernel, None for an explicit group; rows: the sparse rows of X, scaled, where a group is explicit.
    """

    X: Array
    offsets: np.ndarray
    labels: Array | None
    grams: tuple[Gram | None, ...]
    rows: Rows | None

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1


class KernelWeights(NamedTuple):
    """What was learned, and all that a prediction needs.

    coefficients: of each group, (N, L) over the rows, or (d, L); transitions (q, L, L); squared_norms (p,) on the host; rows (N, d): training positions.
    q: 1 where transitions are a group of their own (then the last of p) or free, and the number of kernels where each has its own.
    """

    coefficients: tuple[Array, ...]
    transitions: Array
    squared_norms: np.ndarray
    rows: Array

    @property
    def beta(self) -> np.ndarray:
        """The groups' share (p,) in the sum of norms; all 0 where that is 0."""
        norms = np.sqrt(self.squared_norms)
        return norms / total if (total := norms.sum()) > 0 else norms


class KernelSequenceModel:
    """A linear-chain labeller over kernels of the positions' features.

    Parameters
    ----------
    groups : sequence of Kernel or Explicit
        One group of weights each.
    labels : int or sequence of str
        Number of labels, or their names.
    transitions : {"own", "each", "free"}
        The scores of neighbouring labels: a group of their own, weighed as the kernels are; a part of each group (a kernel of labellings: with one
        kernel the plain structural SVM); or without penalty.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over positions; default: Hamming.

    Source
    ------
    Martins et al., section 4 (handwriting): "an indicator basis function to represent the correlation between consecutive outputs"; which group it is in is not said.
    """

    structure_type = Chain
    gram_type = Gram
    penalty_type: type[Regularizer] = SquaredL1
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        groups: Sequence[Kernel | Explicit],
        labels: int | Sequence[str],
        *,
        transitions: str = "own",
        cost: Any = None,
    ) -> None:
        self.groups = tuple(groups)
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

    @property
    def n_groups(self) -> int:
        """p: the kernels, and the transitions where they are a group of their own."""
        return len(self.groups) + (self.transitions == "own")

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files; TypeError for kernels that a file could not name."""
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
            As :class:`reference.gram.Gram` takes them; the budget in bytes is for all together.

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
        offsets = np.concatenate([[0], np.cumsum([len(x) for x in each])]).astype(np.int64)
        flat = place.floats(np.concatenate(each).astype(np.float64))
        labels = None
        if Y is not None:
            if len(Y) != len(each):
                raise ValueError(f"Y: expected {len(each)} label sequences, one for each of X, got {len(Y)}")
            indices = [label_indices(f"Y[{i}]", y, self.labels) for i, y in enumerate(Y)]
            for i, (y, x) in enumerate(zip(indices, each, strict=True)):
                if len(y) != len(x):
                    raise ValueError(f"Y[{i}]: expected {len(x)} labels, one for each position of X[{i}], got {len(y)}")
            labels = place.integers(np.concatenate(indices))
        held = iter(self.gram_type.several(self._kernels(), flat, storage, budget))
        grams = tuple(next(held) if isinstance(group, Kernel) else None for group in self.groups)
        return KernelData(flat, offsets, labels, grams, self._explicit_rows(flat))

    def zeros(self, data: KernelData) -> KernelWeights:
        """Weights of zero in the data's place."""
        here, (N, d), L = Place.of(data.X), data.X.shape, self.n_labels
        coefficients = tuple(here.zeros((N if isinstance(group, Kernel) else d, L)) for group in self.groups)
        tables = len(self.groups) if self.transitions == "each" else 1
        return KernelWeights(coefficients, here.zeros((tables, L, L)), np.zeros(self.n_groups), data.X)

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
        """(p,): what the kernels (K,) and the tables of transitions (q,) contribute, added up by group."""
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
        """Parts of the best loss-augmented output of sequence i, or expected parts ("crf"), less those of the true one; and the loss.

        each: the :meth:`group_scores` of sequence i.
        """
        here = Place.of(data.X)
        xp, first, last = here.xp, int(data.offsets[i]), int(data.offsets[i + 1])
        true = data.labels[first:last]  # type: ignore[index]
        unary = sum(each, here.zeros((last - first, self.n_labels)))
        if loss == "hinge":
            unary = unary + xp.take(here.floats(self.cost), true, axis=0)
        chain = self.structure_type.unchecked(ChainScores(unary, xp.sum(weights.transitions, axis=0), None))
        if loss == "crf":
            value, parts = chain.expectation()
        else:
            value, best = chain.best()
            parts = chain.parts(best)
        gold = chain.parts(true)
        value = float(value) - float(chain.score(true))
        return ChainScores(parts.unary - gold.unary, parts.pairwise - gold.pairwise, None), value

    def fused_epoch(self, data: KernelData, rules: Any) -> Callable[..., Any] | None:
        """A loop of rounds over this data with the signature of ``reference.online_mkl.epoch``; None: that one."""
        return None

    def mean_loss(self, data: KernelData, weights: KernelWeights, loss: str) -> float:
        """(1/n) sum_i loss_i."""
        whole, total = self.training_scores(data, weights), 0.0
        for i, (first, last) in enumerate(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)):
            total += self.difference(data, i, [whole[first:last, :]], weights, loss)[1]
        return total / data.n

    def training_scores(self, data: KernelData, weights: KernelWeights) -> Array:
        """Scores (N, L) of the labels at the training positions, transitions left out."""
        each = [
            self.arrays.gather_sum(data.rows, A) if gram is None else gram.times(0, gram.n, A)  # type: ignore[arg-type]
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]
        return sum(each[1:], each[0])

    # prediction -------------------------------------------------------------------------------------------------------

    def support(self, weights: KernelWeights) -> KernelWeights:
        """The same function by the training positions that have a coefficient other than 0 alone."""
        implicit = [host(A) for A in self._implicit(weights)]
        some = np.zeros(weights.rows.shape[0], bool)
        for A in implicit:
            some |= np.any(A != 0, axis=1)
        if some.all():
            return weights
        at, xp = Place.of(weights.rows).integers(np.flatnonzero(some)), array_namespace(weights.rows)
        kept = tuple(
            xp.take(A, at, axis=0) if isinstance(group, Kernel) else A
            for group, A in zip(self.groups, weights.coefficients, strict=True)
        )
        return weights._replace(coefficients=kept, rows=xp.take(weights.rows, at, axis=0))

    def scores(self, X: Array, weights: KernelWeights) -> Array:
        """Scores (n, L) of the labels at the positions X (n, d), transitions left out; groups of norm 0 cost nothing."""
        xp, here = array_namespace(X), Place.of(X)
        terms = [(group, A) for group, A in zip(self.groups, weights.coefficients, strict=True) if bool(xp.any(A != 0))]
        found = here.zeros((X.shape[0], self.n_labels))
        of_kernels = [(group, A) for group, A in terms if isinstance(group, Kernel)]
        matrices = blocks([group for group, _ in of_kernels], X, weights.rows)
        for K, (_, A) in zip(matrices, of_kernels, strict=True):
            found = found + xp.matmul(K, A)
        for group, A in terms:
            if isinstance(group, Explicit):
                found = found + xp.matmul(scaled(X) if group.unit_diagonal else X, A)
        return found

    def decode(self, unary: Array, offsets: np.ndarray, weights: KernelWeights) -> np.ndarray:
        """The best labels (N,) of sequences laid out as packed ones are, from their scores (N, L)."""
        pairwise = array_namespace(unary).sum(weights.transitions, axis=0)
        found = [np.zeros(0, np.int64)]
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            chain = self.structure_type.unchecked(ChainScores(unary[first:last, :], pairwise, None))
            found.append(host(chain.best()[1]))
        return np.concatenate(found)

    def predict(self, weights: KernelWeights, X: Any) -> list[np.ndarray]:
        """The best labelling (n_i,) of each of X, sequences of arrays (n_i, d).

        Raises
        ------
        ValueError, TypeError
            Weights of another model; naming the sequence, for a wrong number of features, numbers that are not finite.

        Notes
        -----
        O(d + p L) for a position and each training position with a coefficient other than 0, many positions at a time.
        """
        self.check_weights(weights)
        each = checked_sequences(X, width=self.width(weights))
        weights, offsets = (
            self.support(weights),
            np.concatenate([[0], np.cumsum([len(x) for x in each])]).astype(np.int64),
        )
        labels = self._each(lambda lo, hi: self._labelled(weights, each[lo:hi]), _pieces(offsets))
        found = np.concatenate([np.zeros(0, np.int64), *labels])
        return [found[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]

    def width(self, weights: KernelWeights) -> int:
        """d: the features of a position."""
        return int(weights.rows.shape[1])

    def check_weights(self, weights: Any) -> None:
        """Raise unless these are weights of a model of this shape."""
        if not isinstance(weights, KernelWeights) or len(weights.coefficients) != len(self.groups):
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
                f"weights: expected coefficients of shapes {expected} and transitions {tables}, got {got} and {tuple(weights.transitions.shape)}: they are another model's"
            )

    def _labelled(self, weights: KernelWeights, each: Sequence[np.ndarray]) -> np.ndarray:
        """The best labels of some sequences, one after another."""
        x = Place.of(weights.transitions).floats(np.concatenate(each).astype(np.float64))
        offsets = np.concatenate([[0], np.cumsum([len(x) for x in each])]).astype(np.int64)
        return self.decode(self.scores(x, weights), offsets, weights)

    def _each(self, work: Callable[[int, int], Any], pieces: list[tuple[int, int]]) -> list[Any]:
        """``work`` of each piece."""
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


def scaled(X: Array) -> Array:
    """Rows (n, d) of length 1, but for those of zeros."""
    xp = array_namespace(X)
    top = xp.max(xp.abs(X), axis=1, keepdims=True) if X.shape[1] else xp.zeros_like(X)
    X = X / xp.where(top > 0, top, xp.ones_like(top))
    lengths = xp.sqrt(xp.sum(X * X, axis=1))[:, None]
    return X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def _pieces(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Consecutive ranges of sequences of about PIECE positions."""
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], PIECE))
    cuts = np.unique([0, *cuts.tolist(), len(offsets) - 1])
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def checked_sequences(X: Any, width: int | None = None) -> list[np.ndarray]:
    """Arrays (n_i, d) of finite numbers on the host, d the width, or that of the first; an error that names the sequence otherwise."""
    each = [np.asarray(host(x)) for x in X]
    if width is None:
        width = next((x.shape[1] for x in each if x.ndim == 2), None)
    for i, x in enumerate(each):
        if x.ndim != 2 or x.shape[1] != width or x.dtype.kind not in "fiub" or not np.all(np.isfinite(x)):
            columns = "d" if width is None else width
            raise ValueError(
                f"X[{i}]: expected finite numbers of shape (n, {columns}), got {x.dtype} of shape {x.shape}"
            )
    return each
