"""Block-coordinate Frank-Wolfe over dense weights, some of which must be >= 0: passes as calls of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import reference.optimizers.bcfw as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.bcfw import Done, Visits
from accelerated.compiled.epochs.bcfw_clipped import DirectionSets, Point, clipped_pass, more_room, new_direction_sets
from accelerated.problems import finds_itself, finite, problem_of
from reference.optimizers.base import Cornered, traits
from reference.optimizers.bcfw import BCFWState

__all__ = ["BCFW"]


class BCFW(reference.BCFW):
    @classmethod
    def fits(cls, box: reference.BCFW, objective: Any) -> bool:
        """A hinge whose model finds best outputs itself."""
        return objective.loss_augmented and finds_itself(objective)

    def sweep(self, objective: Cornered, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        problem, previous, averaging = problem_of(objective, 0.0), state.sets, self.average != "last"
        if problem is None:
            return super().sweep(objective, state, orders)
        if not finite(state.x):  # the weights are no longer finite
            return state if isinstance(previous, DirectionSets) else super().sweep(objective, state, orders)
        (x, mean), where = (view("x", each).copy() for each in (state.x, state.mean)), traits(objective).nonnegative
        signed = (0, 0) if where is None else (where.start, where.stop)
        point = Point(x, mean, x.reshape(1, 1, -1).copy(), *signed)
        sets, progress = previous or new_direction_sets(objective.n, len(x)), Done(state.t, state.loss, state.mean_loss)
        for number, order in enumerate(orders):
            calls, pairwise = number == 0, self.cached_passes > 0
            visits = Visits(order, calls, pairwise, self.lam * objective.n, self.capacity, self.line_search, averaging)
            sets = more_room(sets) if calls else sets
            progress = Done(*clipped_pass(problem, visits, progress, sets, point))
        x = like(point.x, state.x)
        mean = like(point.mean, state.x) if averaging else x
        return BCFWState(x, progress.loss, mean, progress.mean_loss, progress.t, sets)
