"""SGD over dependency trees: as a kernel where the smoothing has one, else step by step with updates as sparse as a
tree's features.

In the loop, weights are scale * v, and the sum of their iterates with shares c_t is acc v - u, with acc = sum_t c_t
scale_t: each change dv of v adds acc dv to u. So a step costs the features that its sentence touches, not d.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.problems.arc_features import add_arcs
from accelerated.optimizers.sgd import compiled_sweep, shares_of, steps_of
from accelerated.problems import finds_itself, finite
from reference.optimizers import sgd
from reference.optimizers.sgd import SGDState
from reference.structures.arborescence import ArborescenceScores

__all__ = ["SGD"]

SMALLEST = 1e-3  # a smaller scale is multiplied into v: u loses 1/scale in accuracy


class SGD(sgd.SGD):
    @classmethod
    def fits(cls, box: sgd.SGD, objective: Any) -> bool:
        """One sentence at a time, all weights free; the model finds best trees itself."""
        return box.batch_size == 1 and objective.nonnegative is None and finds_itself(objective)

    def sweep(self, objective: Any, state: SGDState, order: np.ndarray) -> SGDState:
        after = compiled_sweep(self, objective, state, order)
        if after is not None:
            return after
        if not finite(state.x):
            return super().sweep(objective, state, order)
        steps, (shares, weighed) = steps_of(self, state, order, self.lam), shares_of(self.average, state.t, len(order))
        data, features, mu = objective.data, objective.model.arc_features(objective.data), objective._mu(self.mu)
        v, mean = view("x", state.x).copy(), view("mean", state.mean)
        scale, acc, u, sums = 1.0, 0.0, np.zeros_like(v), weighed * mean
        for i, gamma, share in zip(order.tolist(), steps.tolist(), shares.tolist(), strict=True):
            change = -gamma * _slope(objective, i, scale, v, mu)
            first, n = int(data.offsets[i]), len(change)
            scale *= 1.0 - gamma * self.lam
            if abs(scale) < SMALLEST:
                sums += acc * v - u
                v *= scale
                acc, scale = 0.0, 1.0
                u[:] = 0.0
            add_arcs(features, first, n, change / scale, v)
            if acc != 0.0:
                add_arcs(features, first, n, acc / scale * change, u)
            acc += share * scale
        mean = (sums + (acc * v - u)) / (weighed + shares.sum())
        return SGDState(like(scale * v, state.x), like(mean, state.x), state.t + len(order))


def _slope(objective: Any, i: int, scale: float, v: np.ndarray, mu: float) -> np.ndarray:
    """The gradient of sentence i's loss with respect to its scores (n, n + 1), at weights scale * v."""
    model, data, piece = objective.model, objective.data, np.array([i])
    scores = scale * model.scores(data, piece, v).values
    if objective.loss_augmented:
        scores += model.task_loss(data, piece).values
    structure = model.structure_type.unchecked(ArborescenceScores(scores))
    slope: np.ndarray = structure.smooth_max(objective.smoothing, mu)[1].values - model.gold(data, piece).values
    return slope
