"""Block-coordinate Frank-Wolfe: passes as calls of a kernel.

Working sets are packed and change in place; for a sequence of length n with m outputs they take about 8 n^2 + 16
m^2 + 8 n m bytes (the letters, 6251 words: some 25 MB), as labellings take the place of directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import reference.optimizers.bcfw as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.bcfw import Done, Visits, bcfw_pass
from accelerated.compiled.problems.weights import Weights, zeros_like
from accelerated.compiled.problems.working_sets import WorkingSets, new_sets, with_room
from accelerated.problems import finds_itself, finite, problem_of
from reference.optimizers.base import Cornered
from reference.optimizers.bcfw import BCFWState, WorkingSet

__all__ = ["BCFW", "BCFWState", "WorkingSet"]


class BCFW(reference.BCFW):
    @classmethod
    def fits(cls, box: reference.BCFW, objective: Any) -> bool:
        """A hinge with all weights free; squared distances of outputs take all pairs as free, too."""
        restricted = getattr(objective.model, "restricted", False)
        return objective.loss_augmented and objective.nonnegative is None and not restricted and finds_itself(objective)

    def sweep(self, objective: Cornered, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        known: Any = objective
        found: Any = state.sets
        model, problem, averaging = known.model, problem_of(known, 0.0), self.average != "last"
        if problem is None:
            return super().sweep(objective, state, orders)
        if not finite(state.x):  # the run has left the finite numbers
            return state if isinstance(found, WorkingSets) else super().sweep(objective, state, orders)
        w, mean = (model.padded(view("w", x)) for x in (state.x, state.mean))
        sets, done = found or new_sets(problem, len(w.rows)), Done(state.t, state.loss, state.mean_loss)
        for number, order in enumerate(orders):
            sums, sets, before = zeros_like(w, any=averaging), with_room(sets), done.t * (done.t + 1) / 2
            asked, pairwise = number == 0, self.cached_passes > 0
            visits = Visits(order, asked, pairwise, self.lam * known.n, self.capacity, self.line_search, averaging)
            done = Done(*bcfw_pass(problem, visits, done, sets, w, sums))
            S = done.t * (done.t + 1) / 2 - before
            if averaging and S > 0:
                parts = zip(mean, w, sums, strict=True)
                mean = Weights(*((before * m + S * x - u) / (before + S) for m, x, u in parts))
        x = like(model.flat(*w), state.x)
        mean_x = like(model.flat(*mean), state.x) if averaging else x
        return BCFWState(x, done.loss, mean_x, done.mean_loss, done.t, sets)
