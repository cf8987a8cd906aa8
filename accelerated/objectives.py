"""Objectives whose full gradients and epochs run as kernels where the model is exactly ours.

With ``SequenceModel`` or ``TaggingModel`` itself (not a subclass) and a smoothing that has an oracle in :mod:`accelerated.compiled.problems`,
everything below runs over the packed data in one call; with ``ParsingModel``, over sentences with sparse gradients; otherwise the reference's loop runs over this panel's structures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

import reference.objectives as reference
from accelerated import arc_epochs, candidate_epochs
from accelerated.arrays import like, view
from accelerated.compiled.epochs.gradient import gradient_range
from accelerated.compiled.problems import EntropyProblem, MaxProblem, TopKProblem, augmented_scores
from accelerated.compiled.problems.answers import Kept, nothing
from accelerated.compiled.problems.candidates import new_answers
from accelerated.compiled.problems.corners import planes_of
from accelerated.compiled.problems.pairs import touched_rows
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.sequence import SequenceModel
from accelerated.models.tagging import TaggingModel
from accelerated.screening.scored import Whole, by_scores
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.base import all_of, check_weights
from reference.objectives import Corners, Linearization
from reference.smoothing import Entropy, SquaredL2, TopK
from reference.structures.base import at_most
from reference.structures.chain_scores import ChainScores
from reference.structures.table import TableScores

__all__ = ["Corners", "Linearization", "LogLoss", "StructuralHinge"]

_LARGEST_SEARCH = 2**20  # outputs times positions, 32 bytes each: beyond, the loop, which asks for as many as it needs


class StructuralHinge(reference.StructuralHinge):
    __doc__ = reference.StructuralHinge.__doc__

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        kernels = (
            self._problem(mu) is not None or arc_epochs.sweeps(self, w) or candidate_epochs.problem_of(self, w, mu)
        )
        if not kernels:
            return super()._sum(w, batch, mu)
        return self._linearized(w, batch, mu)[:2]

    def _linearized(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array, float, float]:
        return self._swept(w, batch, mu, nothing())

    def _swept(self, w: Array, batch: np.ndarray, mu: float, kept: Kept) -> tuple[float, Array, float, float]:
        """The sums of :meth:`_linearized`; what the oracles answered goes into ``kept``, where that has room."""
        problem = self._problem(mu)
        if arc_epochs.sweeps(self, w):
            return arc_epochs.sweep(self, view("w", w), batch, mu)
        images = candidate_epochs.problem_of(self, w, mu)
        if images is not None:
            return candidate_epochs.sweep(self, images, w, batch, mu, new_answers(0, 0))
        if problem is None:
            return super()._linearized(w, batch, mu)
        w_host = view("w", w)
        # kernels take finite weights: -inf may forbid transitions, nan and +inf make no number
        if not np.all(np.isfinite(w_host)):
            if np.all(w_host < np.inf):
                return super()._linearized(w, batch, mu)
            nan = float("nan")
            return nan, like(np.full(self.model.size, nan), w), nan, nan
        # a gradient may be wrong where there is no weight: ``flat`` leaves that out
        problem = problem._replace(pairs=problem.pairs._replace(free=problem.pairs.free[:0]))
        W, A = self.model.padded(w_host)
        pieces = ranges(np.concatenate([[0], np.cumsum(self.data.lengths[batch])]), most=_accumulators(W))
        sums = [(np.zeros_like(W), np.zeros_like(A)) for _ in pieces]

        def run(lo: int, hi: int) -> tuple[float, float, int]:
            return gradient_range(problem, batch, lo, hi, W, A, mu, kept, *sums[pieces.index((lo, hi))])

        value, task_loss, exact = (sum(each) for each in zip(*in_parallel(run, pieces), strict=True))
        (G_W, G_A), *others = sums
        for part_W, part_A in others:
            G_W += part_W
            G_A += part_A
        return value, like(self.model.flat(G_W, G_A), w), task_loss, float(exact)

    def _corners(self, w: Array, batch: Any, k: int, choose: Callable[[Any, int], Iterable[Any]]) -> Corners:
        check_weights(self.model, w, self._like)
        at_most("k", k, self.model.size)
        problem = self._problem(0.0) if type(self.model) is SequenceModel else None
        if problem is None or not np.all(np.isfinite(view("w", w))):
            return super()._corners(w, batch, k, choose)
        w_host = view("w", w)
        batch, (F, L) = all_of(self.n, batch), self.model.split(w_host)[0].shape
        W, A = self.model.padded(w_host)
        directions, losses = np.zeros((len(batch), k, len(w_host))), np.full((len(batch), k), -np.inf)
        count = np.zeros(len(batch), np.int64)
        for row, i in enumerate(batch.tolist()):
            scores = np.empty((int(self.data.lengths[i]), W.shape[1]))
            augmented_scores(problem, i, 1.0, W, A, 1.0, scores)
            found = list(choose(self.model.structure_type.unchecked(ChainScores(scores[:, :L], A[0])), i))
            count[row] = m = len(found)
            weights = directions[row, :m, : F * L].reshape(m, F, L)
            pairwise = directions[row, :m, F * L :].reshape(m, L, L)
            planes_of(problem, i, np.array(found).reshape(m, -1), weights, pairwise, losses[row, :m])
        return Corners(*(like(each, w) for each in (directions, losses, count)))

    def _planes(self, w: Array, i: int, choose: Callable[[Any, int], Iterable[Any]]) -> Iterator[tuple[Array, float]]:
        """Of classes: the example's features in two columns, no gradient of scores to take back for each output."""
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

    @cached_property
    def _touched(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of W that each sequence's features touch, once: 4 bytes each, kept as long as the objective."""
        return touched_rows(self._problem(0.0), len(self.model.padded(view("w0", self.zeros()))[0]))

    def _problem(self, mu: float) -> MaxProblem | EntropyProblem | TopKProblem | None:
        """The packed arrays as the problem type that names the oracle, or None where there is no kernel."""
        if type(self.model) not in (SequenceModel, TaggingModel):
            return None
        kind, options = _oracle_of(self.smoothing, mu)
        if kind is TopKProblem:
            longest = int(self.data.lengths.max())
            options = (min(options[0], self.model.n_labels ** min(longest, 64)),)  # never more than there are
            if options[0] * (longest + 1) > _LARGEST_SEARCH:
                return None
        if kind is None:
            return None
        cost = self.model.cost if self.loss_augmented else np.zeros_like(self.model.cost)
        return self.model.problem(kind, self.data, self.model.true_labels(self.data), cost, *options)


def _oracle_of(smoothing: Any, mu: float) -> tuple[type | None, tuple[int, ...]]:
    """The problem type of a smoothing, None if it has none, and what it takes besides the data."""
    if mu == 0:
        return MaxProblem, ()
    if type(smoothing) is Entropy:
        return EntropyProblem, ()
    if type(smoothing) is TopK:
        return TopKProblem, (smoothing.k,)
    if type(smoothing) is SquaredL2:
        return TopKProblem, (smoothing.max_k,)
    return None, ()


class LogLoss(reference.LogLoss, StructuralHinge):
    __doc__ = reference.LogLoss.__doc__
    scorer = staticmethod(by_scores)
    whole = Whole


def _accumulators(W: np.ndarray) -> int:
    """How many gradients may be held at once: 8, or 2 where 8 would take more than 64 MiB."""
    return 8 if 8 * W.nbytes <= 2**26 else 2
