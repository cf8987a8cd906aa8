"""The log loss as a function of its scores, with kernels: classes with dense features, and sequences with their own
compiled sweeps.
"""

from __future__ import annotations

import copy
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import reference.screening.scored as reference
from accelerated.arrays import entries, numbers, view
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.screening.class_scores import (
    class_losses,
    class_residuals,
    pairs_back,
    pairs_forward,
    spread_out,
    weighted_pairs,
)
from accelerated.compiled.screening.quadratic import descend_in_place
from accelerated.compiled.screening.sequence_losses import chain_losses
from accelerated.mirror import mirrors
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.sequence import SequenceModel
from accelerated.models.tagging import TaggingModel
from accelerated.threads import in_parallel, ranges
from reference.screening.restricted import RestrictedModel
from reference.screening.scored import ENOUGH, SWEEPS, Answer, Scored, kept_or_not, overridden, scored_of

if TYPE_CHECKING:
    from reference.objectives import LogLoss

__all__ = ["Answer", "Pieces", "Whole", "by_scores", "descend", "scored_of"]

MOST_CELLS = 2**27  # cells of dense features: 1 GiB
LEAST_DENSITY = 0.05  # packed rows of at least this density are made dense
BLOCK, TURNS, FEW = 1024, 4, 16  # from FEW blocks of BLOCK examples on, a Hessian takes one block in TURNS
FORWARD, BACK = 0.25, 0.6  # share of the (feature, class) pairs below which products over pairs are faster


@mirrors(reference.descend)
def descend(H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    x = w.copy()
    descend_in_place(np.ascontiguousarray(H), q.copy(), x, alpha * beta, beta, SWEEPS, ENOUGH)
    return x


class Whole(reference.Whole):
    ops = sys.modules[__name__]


class Pieces(reference.Pieces):
    ops = sys.modules[__name__]


class ClassScores:
    """The log loss of classes over dense features: Z is (K, n).

    X (m, n): features, at least those that have a weight. exact (m, n): the same values in the smallest dtype that
    holds them, for products over pairs. row, label (d,): the row of X and the class of each weight.
    """

    keeps = True

    def __init__(
        self, X: np.ndarray, exact: np.ndarray, labels: np.ndarray, K: int, row: np.ndarray, label: np.ndarray
    ) -> None:
        self.X, self.exact, self.labels, self.K, self.row, self.label = X, exact, labels, K, row, label
        self.n = len(labels)
        self.by_class = np.argsort(label, kind="stable")

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> np.ndarray:
        """Z: one product with the features. It may skip weights of 0."""
        here = self.by_class
        if skip_zeros:
            here = here[w[here] != 0]
        if len(here) <= FORWARD * self.K * len(self.X):
            Z = np.empty((self.K, self.n))
            pairs_forward(self._start(here), self.row[here], w[here], self.exact, Z)
            return Z
        W = np.zeros((self.K, len(self.X)))
        W[self.label, self.row] = w
        return W @ self.X

    def loss(self, Z: np.ndarray) -> float:
        """F at Z: inference, no product."""
        losses = np.empty(self.n)
        class_losses(Z, self.labels, losses)
        return float(np.mean(losses))

    def loss_and_gradient(self, Z: np.ndarray, before: np.ndarray | None = None, c: float = 0.0) -> Answer:
        """F and its gradient (d,) at Z + c (Z - before): inference and one product back."""
        R, losses = np.empty_like(Z), np.empty(self.n)
        class_residuals(Z, Z if before is None else before, float(c), self.labels, R, losses)
        return Answer(float(np.mean(losses)), self.back(R) / self.n, losses, R)

    def back(self, R: np.ndarray) -> np.ndarray:
        """One product back: for each weight, the sum of X[row] R[label] over the examples (d,)."""
        if len(self.row) > BACK * self.K * len(self.X):
            return (R @ self.X.T)[self.label, self.row]
        here, result = self.by_class, np.empty(len(self.row))
        sums = np.empty(len(here))
        pairs_back(self._start(here), self.row[here], self.exact, R, sums)
        result[here] = sums
        return result

    def losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each example (n,) at weights w (d,): a product and inference."""
        values = np.empty(self.n)
        class_losses(self.forward(w), self.labels, values)
        return values

    def hessian(self, Z: np.ndarray, columns: np.ndarray, turn: int = 0) -> np.ndarray:
        """The Hessian of F at Z among the weights ``columns`` (k, k). Few examples are all used, in float64; of many, a
        quarter, by turns and in float32.

        Its entry for the pairs (f, k) and (g, l) is mean_i x_f x_g p_k (delta_kl - p_l): a matrix for each class, minus
        one product over all classes.
        """
        order = columns[np.argsort(self.label[columns], kind="stable")]
        row, label = self.row[order], self.label[order]
        firsts = np.arange(0, self.n, BLOCK)
        sampled = len(firsts) >= FEW
        firsts, kind = (firsts[turn % TURNS :: TURNS], np.float32) if sampled else (firsts, np.float64)
        ends = np.minimum(firsts + BLOCK, self.n)
        start, H = np.searchsorted(label, np.arange(self.K + 1)), np.zeros((len(order), len(order)))
        for lo, hi in zip(firsts.tolist(), ends.tolist(), strict=True):
            T, M = np.empty((2, len(order), hi - lo), kind)
            weighted_pairs(row, label, self.X, Z, lo, T, M)
            H -= M @ M.T
            for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
                H[a:b, a:b] += M[a:b] @ T[a:b].T
        place = np.searchsorted(columns, order)  # columns are sorted
        unsorted = np.empty_like(H)
        unsorted[np.ix_(place, place)] = H
        if sampled:  # one example more: a feature missing from the sample must not look flat
            unsorted[np.diag_indices(len(order))] += 0.25 * self._largest[self.row[columns]] ** 2
        return unsorted / np.sum(ends - firsts)

    @cached_property
    def _largest(self) -> np.ndarray:
        """max |X| of each feature (m,)."""
        return np.maximum(np.max(self.X, axis=1), -np.min(self.X, axis=1))

    def descend(self, H: np.ndarray, q: np.ndarray, w: np.ndarray, alpha: float, beta: float) -> np.ndarray:
        """See :func:`descend`."""
        return descend(H, q, w, alpha, beta)

    def centre(self, y: np.ndarray, v: np.ndarray, modulus: int) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """For :func:`dual_ball`: n G at the centre (d,), the radius, each block's sum at the centre (n,), and the
        numbers of outputs (n,).
        """
        Z = self.forward(y)
        R = np.empty_like(Z)
        class_residuals(Z, Z, 0.0, self.labels, R, np.empty(self.n))
        step = self.forward(v)
        step -= step[-1].copy()
        step /= modulus
        R += step
        R[-1] = -R[:-1].sum(axis=0)  # a difference of two distributions sums to 0
        true = self.labels == self.K - 1
        sums = np.where(true, 0.0, 1.0) - R[-1]
        return self.back(R), float(np.linalg.norm(step)), sums, np.full(self.n, self.K)

    def along(self, k: int) -> np.ndarray:
        """For problem (4): x_kf for feature f with each class but the last, x_kf (1 - K) with the last (d,)."""
        return self.X[self.row, k] * np.where(self.label == self.K - 1, 1.0 - self.K, 1.0)

    def taken(self, Z: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Z unchanged: the classes stay, and so do their scores."""
        return Z

    def narrow(self, reduced: Any, columns: np.ndarray) -> ClassScores:
        """The same loss over the weights ``columns`` alone. Features leave X once a third are not needed, unless
        products go over pairs anyway.
        """
        row, label = self.row[columns], self.label[columns]
        needed = np.zeros(len(self.X), dtype=bool)
        needed[row] = True
        many = np.count_nonzero(needed)
        if many > 2 / 3 * len(self.X) or len(row) <= FORWARD * self.K * many:
            return ClassScores(self.X, self.exact, self.labels, self.K, row, label)
        X = self.X[needed]
        exact = X if self.exact is self.X else self.exact[needed]
        return ClassScores(X, exact, self.labels, self.K, (np.cumsum(needed) - 1)[row], label)

    def _start(self, pairs: np.ndarray) -> np.ndarray:
        """Where each class begins (K + 1,) among pairs sorted by class."""
        return np.searchsorted(self.label[pairs], np.arange(self.K + 1))


class ChainLoss(Whole):
    """The log loss of sequences: Z is w, and losses and gradients are compiled sweeps. The sweeps of a restricted model
    go over the rows that it still has.
    """

    def __init__(self, objective: LogLoss) -> None:
        super().__init__(objective)
        model = objective.model
        inside = isinstance(model, RestrictedModel)
        self.columns = model.columns if inside else None
        self.inner = objective.over(model.model, objective.data) if inside else objective

    def loss(self, Z: np.ndarray) -> float:
        return float(np.mean(self.losses(Z)))

    def loss_and_gradient(self, Z: np.ndarray, before: np.ndarray | None = None, c: float = 0.0) -> Answer:
        w = Z if before is None else Z + c * (Z - before)
        value, gradient = self.inner.value_and_gradient(self.place.floats(self._embedded(w)))
        g = view("gradient", gradient)
        return Answer(float(value), g.copy() if self.columns is None else g[self.columns])

    def losses(self, w: np.ndarray) -> np.ndarray:
        model, data = self.inner.model, self.inner.data
        cost = model.cost if self.inner.loss_augmented else np.zeros_like(model.cost)
        problem = model.problem(EntropyProblem, data, model.true_labels(data), cost)
        W, A = model.padded(self._embedded(w))
        values = np.zeros(data.n)
        in_parallel(lambda lo, hi: chain_losses(problem, lo, hi, W, A, values), ranges(data.offsets))
        return np.maximum(values, 0.0)

    def narrow(self, reduced: Any, columns: np.ndarray) -> Any:
        narrowed, model = copy.copy(self), self.inner.model
        narrowed.columns = columns if self.columns is None else self.columns[columns]
        if type(model) is SequenceModel:  # repack only once a third of the features have no weight
            inside = narrowed.columns[narrowed.columns < model.width * model.n_labels]
            if len(np.unique(inside // model.n_labels)) < 2 / 3 * model.width:
                return ChainLoss(reduced.objective)
        return narrowed

    def _embedded(self, w: np.ndarray) -> np.ndarray:
        """w among zeros, as weights of the inner model."""
        if self.columns is None:
            return w
        whole = np.zeros(self.inner.model.size)
        whole[self.columns] = w
        return whole


def smallest(X: np.ndarray) -> np.ndarray:
    """X (m, n) as int8 or float32, the first that holds all its values exactly; else X itself."""
    for kind, most in ((np.int8, np.iinfo(np.int8).max), (np.float32, np.finfo(np.float32).max)):
        if all(np.max(np.abs(row), initial=0.0) <= most and np.array_equal(row.astype(kind), row) for row in X):
            return X.astype(kind)
    return X


@mirrors(reference.by_scores)
def by_scores(objective: LogLoss) -> Scored:
    if overridden(objective):
        return Whole(objective)
    model, data = objective.model, objective.data
    inside = model.model if type(model) is RestrictedModel else model
    if type(inside) is MulticlassModel and data.labels is not None and not objective.loss_augmented:
        rows, F = data.rows, inside.n_features
        if F * rows.n <= MOST_CELLS and rows.data.shape[0] >= LEAST_DENSITY * F * rows.n:
            X = np.zeros((F, rows.n))
            spread_out(*entries(rows), X)
            columns = np.arange(inside.size) if inside is model else model.columns
            labels = numbers("labels", data.labels, inside.n_labels)
            return ClassScores(
                X, smallest(X), labels, inside.n_labels, columns // inside.n_labels, columns % inside.n_labels
            )
    if type(inside) in (SequenceModel, TaggingModel) and data.labels is not None and data.edges is None:
        return ChainLoss(objective)
    return kept_or_not(objective, Pieces, Whole)
