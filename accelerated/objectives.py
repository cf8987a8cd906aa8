"""Objectives whose full gradients run as kernels, if the model is exactly ours and its smoothing has a compiled oracle.

Otherwise (:func:`accelerated.problems.problem_of` returns None) the reference's loop runs over this panel's structures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

import reference.objectives as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.gradient import gradient_range, value_range
from accelerated.compiled.problems import augmented_scores
from accelerated.compiled.problems.answers import StoredAnswers, nothing
from accelerated.compiled.problems.corners import planes_of
from accelerated.compiled.problems.weights import Weights, zeros_like
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.sequence import SequenceModel
from accelerated.problems import all_free, finite, problem_of
from accelerated.threads import in_parallel, ranges, summed_in_parallel
from reference.arrays import Array
from reference.models.base import all_of, check_weights
from reference.objectives import Corners, Linearization
from reference.structures.base import at_most
from reference.structures.chain_scores import ChainScores
from reference.structures.table import TableScores

__all__ = ["Corners", "Linearization", "LogLoss", "StructuralHinge"]


class StructuralHinge(reference.StructuralHinge):
    def __new__(cls, *arguments: Any, **named: Any) -> StructuralHinge:
        import_module("accelerated.counterparts")  # a process that unpickles may not have used a name of the panel
        return super().__new__(cls)

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        if problem_of(self, mu) is None:
            return super()._sum(w, batch, mu)
        return self._linearized(w, batch, mu)[:2]

    def _total(self, w: Array, batch: np.ndarray, mu: float) -> float:
        problem = problem_of(self, mu)
        if problem is None or not finite(w):
            return self._sum(w, batch, mu)[0]
        return value_at(problem, batch, self.model.padded(view("w", w)), mu)

    def _linearized(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array, float, float]:
        return self._kept(w, batch, mu, nothing())

    def _kept(self, w: Array, batch: np.ndarray, mu: float, kept: StoredAnswers) -> tuple[float, Array, float, float]:
        """The sums of :meth:`_linearized`. The oracles' answers are saved in ``kept``, if it has room."""
        problem, w_host = problem_of(self, mu), view("w", w)
        if problem is None:
            return super()._linearized(w, batch, mu)
        # kernels take finite weights: -inf may forbid a part, and nan and +inf give nan
        if not np.all(np.isfinite(w_host)):
            if np.all(w_host < np.inf):
                return super()._linearized(w, batch, mu)
            nan = float("nan")
            return nan, like(np.full(self.model.size, nan), w), nan, nan
        problem, weights = all_free(problem), self.model.padded(w_host)

        def run(lo: int, hi: int, sums: Weights) -> tuple[float, float, int]:
            return gradient_range(problem, batch, lo, hi, weights, mu, kept, sums)

        each, total = summed_in_parallel(run, _pieces(problem, batch, weights), lambda: zeros_like(weights))
        value, task_loss, exact = (sum(part) for part in zip(*each, strict=True))
        return value, like(self.model.flat(*total), w), task_loss, float(exact)

    def _corners(self, w: Array, batch: Any, k: int, choose: Callable[[Any, int], Iterable[Any]]) -> Corners:
        check_weights(self.model, w, self._like)
        at_most("k", k, self.model.size, "whose directions take")
        if type(self.model) is not SequenceModel or self.data.edges is not None or not finite(w):
            return super()._corners(w, batch, k, choose)
        problem, w_host = problem_of(self, 0.0), view("w", w)
        batch, (F, L) = all_of(self.n, batch), self.model.split(w_host)[0].shape
        W, A = self.model.padded(w_host)
        directions, losses = np.zeros((len(batch), k, len(w_host))), np.full((len(batch), k), -np.inf)
        count = np.zeros(len(batch), np.int64)
        for row, i in enumerate(batch.tolist()):
            scores = np.empty((int(self.data.lengths[i]), W.shape[1]))
            augmented_scores(problem, i, 1.0, W, A, 1.0, scores)
            outputs = list(choose(self.model.structure_type.unchecked(ChainScores(scores[:, :L], A[0])), i))
            count[row] = m = len(outputs)
            weights = directions[row, :m, : F * L].reshape(m, F, L)
            pairwise = directions[row, :m, F * L :].reshape(m, L, L)
            planes_of(problem, i, np.array(outputs).reshape(m, -1), weights, pairwise, losses[row, :m])
        return Corners(*(like(each, w) for each in (directions, losses, count)))

    def _planes(self, w: Array, i: int, choose: Callable[[Any, int], Iterable[Any]]) -> Iterator[tuple[Array, float]]:
        """For classes: the example's features in two columns, without a pullback of scores for each output."""
        model = self.model
        ours = type(model) is MulticlassModel and self.data.labels is not None
        if not ours or not np.all(np.isfinite(view("w", w))):
            yield from super()._planes(w, i, choose)
            return
        rows, w_host = self.data.rows, view("w", w)
        here, truth = slice(rows.indptr[i], rows.indptr[i + 1]), int(self.data.labels[i])
        columns, x = view("features", rows.indices[here], np.int64), view("features", rows.data[here])
        shape = (model.n_features, model.n_labels)
        scores = x @ w_host.reshape(shape)[columns] + model.cost[truth]
        for y in map(int, choose(model.structure_type.unchecked(TableScores(scores)), i)):
            direction = np.zeros(shape)
            np.add.at(direction[:, y], columns, x)
            np.subtract.at(direction[:, truth], columns, x)
            yield like(direction.reshape(-1), w), float(model.cost[truth, y])


class LogLoss(reference.LogLoss, StructuralHinge):
    pass


def value_at(problem: Any, batch: np.ndarray, weights: Weights, mu: float) -> float:
    """The sum over the batch of losses; the weights are finite."""
    pieces = _pieces(problem, batch, weights)
    return float(sum(in_parallel(lambda lo, hi: value_range(problem, batch, lo, hi, weights, mu), pieces)))


def _pieces(problem: Any, batch: np.ndarray, weights: Weights) -> list[tuple[int, int]]:
    """Ranges of a batch for threads: at most 8, or 2 where 8 gradients would take more than 64 MiB."""
    most = 8 if 8 * (weights.rows.nbytes + weights.dense.nbytes) <= 2**26 else 2
    return ranges(np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[batch])]), most=most)
