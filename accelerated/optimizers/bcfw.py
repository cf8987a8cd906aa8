"""Block-coordinate Frank-Wolfe: passes as calls of a kernel, or of another where weights are a shrunk point
(:mod:`accelerated.optimizers.bcfw_shrunk`).

Working sets are packed and change in place. They hold labellings instead of directions: a sequence of length n with m
outputs takes about 8 n^2 + 16 m^2 + 8 n m bytes (the letters, 6251 words: some 25 MB).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import reference.optimizers.bcfw as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.bcfw import Done, Visits, bcfw_pass
from accelerated.compiled.epochs.bcfw_shrunk import DirectionSets
from accelerated.compiled.problems import EdgeMaxProblem, SegmentationProblem, SegmentProblem
from accelerated.compiled.problems.weights import zeros_like
from accelerated.compiled.problems.working_sets import WorkingSets, new_sets, with_room
from accelerated.models.parsing import ParsingModel
from accelerated.models.segmentation import SegmentationModel
from accelerated.optimizers.bcfw_shrunk import shrunk_sweep
from accelerated.problems import finds_itself, finite, problem_of
from reference.optimizers.base import Cornered, is_hinge
from reference.optimizers.bcfw import BCFWState, WorkingSet

__all__ = ["BCFW", "BCFWState", "WorkingSet"]


class Alpha(NamedTuple):
    """The weights of outputs: those of example i are alpha[slots[i] : slots[i] + outputs[i]]."""

    alpha: np.ndarray
    slots: np.ndarray
    outputs: np.ndarray

    def places(self, slots: np.ndarray) -> np.ndarray:
        """The places of all weights, if example i has slots[i]."""
        first = np.cumsum(self.outputs) - self.outputs
        return np.repeat(slots - first, self.outputs) + np.arange(int(np.sum(self.outputs)))


class BCFW(reference.BCFW):
    @classmethod
    def fits(cls, box: reference.BCFW, objective: Any) -> bool:
        """A hinge whose model finds best outputs itself, and whose layout is known where some weights must be >= 0."""
        kind, free = type(objective.model), objective.nonnegative is None
        laid_out = kind is SegmentationModel or (free and (box.l1 == 0 or kind is not ParsingModel))
        return is_hinge(objective) and laid_out and finds_itself(objective)

    def sweep(self, objective: Cornered, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        target: Any = objective
        previous: Any = state.sets
        model, problem, averaging = target.model, problem_of(target, 0.0), self.average != "last"
        if problem is None:
            return super().sweep(objective, state, orders)
        if not finite(state.x):  # the weights are no longer finite
            return super().sweep(objective, state, orders) if isinstance(previous, dict) else state
        if self.l1 > 0 or isinstance(problem, SegmentationProblem | EdgeMaxProblem | SegmentProblem):
            return shrunk_sweep(self, objective, problem, state, orders)
        w, mean = model.padded(view("w", state.x)), view("mean", state.mean)
        sets, progress = previous or new_sets(problem, len(w.rows)), Done(state.t, state.loss, state.mean_loss)
        for number, order in enumerate(orders):
            sums, sets, before = zeros_like(w, any=averaging), with_room(sets), progress.t * (progress.t + 1) / 2
            calls, pairwise = number == 0, self.cached_passes > 0
            visits = Visits(order, calls, pairwise, self.lam * target.n, self.capacity, self.line_search, averaging)
            progress = Done(*bcfw_pass(problem, visits, progress, sets, w, sums))
            S = progress.t * (progress.t + 1) / 2 - before
            if averaging and S > 0:
                mean = (before * mean + S * model.flat(*w) - model.flat(*sums)) / (before + S)
        x = like(model.flat(*w), state.x)
        mean_x = like(mean, state.x) if averaging else x
        return BCFWState(x, progress.loss, mean_x, progress.mean_loss, progress.t, sets)

    def alpha(self, state: BCFWState) -> Any:
        sets: Any = state.sets
        if isinstance(sets, WorkingSets | DirectionSets):
            return Alpha(sets.alpha.copy(), sets.slots.copy(), sets.outputs.copy())
        return super().alpha(state)

    def between(self, state: BCFWState, alpha: Any, gamma: float) -> BCFWState:
        sets: Any = state.sets
        if not isinstance(sets, WorkingSets | DirectionSets):
            return super().between(state, alpha, gamma)
        if not isinstance(alpha, Alpha):  # before the first epoch, all weight is on the true outputs
            ones = np.ones(len(sets.outputs), np.int64)
            alpha = Alpha(np.ones(len(ones)), np.arange(len(ones)), ones)
        mixed = gamma * sets.alpha
        mixed[alpha.places(sets.slots)] += (1.0 - gamma) * alpha.alpha[alpha.places(alpha.slots)]
        return state._replace(sets=sets._replace(alpha=mixed))
