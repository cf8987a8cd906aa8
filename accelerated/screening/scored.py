"""The log loss by way of its scores, with kernels: classes with dense features, sequences by their own compiled
sweeps.
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

MOST_CELLS = 2**27  # of dense features: 1 GiB
LEAST_DENSITY = 0.05  # of packed rows that are made dense
BLOCK, TURNS, FEW = (
    1024,
    4,
    16,
)  # Hessians are of every fourth block of so many examples, where there are 16 blocks or more
FORWARD, BACK = 0.25, 0.6  # shares of the pairs (feature, class) below which products over pairs beat those over all


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

    X (m, n): features, all that have a weight among them. exact (m, n): the same in the smallest type that holds them,
    for products over pairs. row, label (d,): of each weight, its row of X and its class.
    """

    keeps = True

    def __init__(
        self, X: np.ndarray, exact: np.ndarray, labels: np.ndarray, K: int, row: np.ndarray, label: np.ndarray
    ) -> None:
        self.X, self.exact, self.labels, self.K, self.row, self.label = X, exact, labels, K, row, label
        self.n = len(labels)
        self.by_class = np.argsort(label, kind="stable")

    def forward(self, w: np.ndarray, skip_zeros: bool = True) -> np.ndarray:
        """Z: one product with the features, which may skip weights of 0."""
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
        """One product back: for each weight the sum over the examples of X[row] R[label] (d,)."""
        if len(self.row) > BACK * self.K * len(self.X):
            return (R @ self.X.T)[self.label, self.row]
        here, found = self.by_class, np.empty(len(self.row))
        sums = np.empty(len(here))
        pairs_back(self._start(here), self.row[here], self.exact, R, sums)
        found[here] = sums
        return found

    def losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each example (n,) at weights w (d,): a product and inference."""
        found = np.empty(self.n)
        class_losses(self.forward(w), self.labels, found)
        return found

    def hessian(self, Z: np.ndarray, columns: np.ndarray, turn: int = 0) -> np.ndarray:
        """The Hessian of F at Z among the weights ``columns`` (k, k): of all examples where they are few, else of a
        quarter, in turns and float32.

        mean_i x_f x_g p_k (delta_kl - p_l) for the pairs (f, k) and (g, l): a matrix for each class, less one product
        of all.
        """
        order = columns[np.argsort(self.label[columns], kind="stable")]
        row, label = self.row[order], self.label[order]
        firsts = np.arange(0, self.n, BLOCK)
        sampled = len(firsts) >= FEW
        firsts, kind = (firsts[turn % TURNS :: TURNS], np.float32) if sampled else (firsts, np.float64)
        ends = np.minimum(firsts + BLOCK, self.n)
        start, found = np.searchsorted(label, np.arange(self.K + 1)), np.zeros((len(order), len(order)))
        for lo, hi in zip(firsts.tolist(), ends.tolist(), strict=True):
            T, M = np.empty((2, len(order), hi - lo), kind)
            weighted_pairs(row, label, self.X, Z, lo, T, M)
            found -= M @ M.T
            for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
                found[a:b, a:b] += M[a:b] @ T[a:b].T
        place = np.searchsorted(columns, order)  # columns are in order
        unsorted = np.empty_like(found)
        unsorted[np.ix_(place, place)] = found
        if sampled:  # as if one example more were seen: no feature is flat only because the sample has none of it
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
        """Of :func:`dual_ball`: n G at the centre (d,), the radius, and of the centre each block's sum (n,), with
        the numbers of outputs (n,).
        """
        Z = self.forward(y)
        R = np.empty_like(Z)
        class_residuals(Z, Z, 0.0, self.labels, R, np.empty(self.n))
        step = self.forward(v)
        step -= step[-1].copy()
        step /= modulus
        R += step
        R[-1] = -R[:-1].sum(axis=0)  # whole less gold: each sums to 1
        true = self.labels == self.K - 1
        sums = np.where(true, 0.0, 1.0) - R[-1]
        return self.back(R), float(np.linalg.norm(step)), sums, np.full(self.n, self.K)

    def along(self, k: int) -> np.ndarray:
        """Of problem (4): x_kf for feature f with each class but the last, x_kf (1 - K) with that (d,)."""
        return self.X[self.row, k] * np.where(self.label == self.K - 1, 1.0 - self.K, 1.0)

    def taken(self, Z: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Z as it is: the classes stay, and so do their scores."""
        return Z

    def narrow(self, reduced: Any, columns: np.ndarray) -> ClassScores:
        """The same of the weights ``columns`` alone; features leave X once a third are not needed, unless products
        go over pairs then anyway.
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
        """Where each class begins among pairs sorted by class (K + 1,)."""
        return np.searchsorted(self.label[pairs], np.arange(self.K + 1))


class ChainLoss(Whole):
    """The log loss of sequences: Z is w, losses and gradients are compiled sweeps, those of a restricted model over
    the rows it has left.
    """

    def __init__(self, objective: LogLoss) -> None:
        super().__init__(objective)
        model = objective.model
        inside = isinstance(model, RestrictedModel)
        self.columns = model.columns if inside else None
        self.inner = type(objective)(model.model, objective.data) if inside else objective

    def loss(self, Z: np.ndarray) -> float:
        return float(np.mean(self.losses(Z)))

    def loss_and_gradient(self, Z: np.ndarray, before: np.ndarray | None = None, c: float = 0.0) -> Answer:
        w = Z if before is None else Z + c * (Z - before)
        value, gradient = self.inner.value_and_gradient(self.place.floats(self._embedded(w)))
        g = view("gradient", gradient)
        return Answer(float(value), g.copy() if self.columns is None else g[self.columns])

    def losses(self, w: np.ndarray) -> np.ndarray:
        model, data = self.inner.model, self.inner.data
        problem = model.problem(EntropyProblem, data, model.true_labels(data), np.zeros_like(model.cost))
        W, A = model.padded(self._embedded(w))
        found = np.zeros(data.n)
        in_parallel(lambda lo, hi: chain_losses(problem, lo, hi, W, A, found), ranges(data.offsets))
        return np.maximum(found, 0.0)

    def narrow(self, reduced: Any, columns: np.ndarray) -> Any:
        found, model = copy.copy(self), self.inner.model
        found.columns = columns if self.columns is None else self.columns[columns]
        if type(model) is SequenceModel:  # packed anew only where a third of the features have no weight left
            inside = found.columns[found.columns < model.width * model.n_labels]
            if len(np.unique(inside // model.n_labels)) < 2 / 3 * model.width:
                return ChainLoss(reduced.objective)
        return found

    def _embedded(self, w: np.ndarray) -> np.ndarray:
        """w among zeros, as weights of the model inside."""
        if self.columns is None:
            return w
        whole = np.zeros(self.inner.model.size)
        whole[self.columns] = w
        return whole


def smallest(X: np.ndarray) -> np.ndarray:
    """X (m, n) as int8 or float32, the first that holds all its numbers exactly; else X itself."""
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
    if type(inside) is MulticlassModel and data.labels is not None:
        rows, F = data.rows, inside.n_features
        if F * rows.n <= MOST_CELLS and rows.data.shape[0] >= LEAST_DENSITY * F * rows.n:
            X = np.zeros((F, rows.n))
            spread_out(*entries(rows), X)
            columns = np.arange(inside.size) if inside is model else model.columns
            labels = numbers("labels", data.labels, inside.n_labels)
            return ClassScores(
                X, smallest(X), labels, inside.n_labels, columns // inside.n_labels, columns % inside.n_labels
            )
    if type(inside) in (SequenceModel, TaggingModel) and data.labels is not None:
        return ChainLoss(objective)
    return kept_or_not(objective, Pieces, Whole)
