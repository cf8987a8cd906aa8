"""Exponentiated gradient over sequences: an epoch as one call of a kernel.

Points are packed and change in place: 16 L bytes a position, 16 bytes a sequence for each transition that has a weight,
and 16 bytes for each weight that a pair of neighbours uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import reference.optimizers.exponentiated_gradient as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.exponentiated_gradient import (
    Visits,
    eg_between,
    eg_difference,
    eg_epoch,
    eg_from_weights,
    no_points,
)
from accelerated.problems import problem_of
from reference.arrays import Array
from reference.objectives import StructuralHinge
from reference.optimizers.exponentiated_gradient import EGState, Point

__all__ = ["EGState", "ExponentiatedGradient", "Point"]


class ExponentiatedGradient(reference.ExponentiatedGradient):
    @classmethod
    def fits(cls, box: reference.ExponentiatedGradient, objective: Any) -> bool:
        """All weights are free, and there is a kernel for features of pairs of neighbours."""
        packed = objective.data.edges is None or problem_of(objective, 0.0) is not None
        return objective.nonnegative is None and packed

    def sweep(self, objective: StructuralHinge, state: EGState, order: np.ndarray) -> EGState:
        lam, mu, model, problem = self.lam, self.mu, objective.model, _examples(objective, self.mu)
        w = model.padded(view("w", state.x))
        points = state.points or no_points(problem, model.n_labels)
        visits = Visits(state.values.copy(), state.steps.copy(), state.rates.copy())
        threshold = self.l1 / lam if self.l1 > 0 else None
        calls = eg_epoch(problem, order, model.cost, lam * objective.n, mu, threshold, points, visits, w)
        return EGState(like(model.flat(*w), state.x), *visits, state.calls + calls, points, state.k)

    def difference(self, objective: StructuralHinge, state: EGState) -> Array:
        model, v = objective.model, objective.zeros()
        if not state.points:
            return v
        sums = model.padded(view("w", v))
        eg_difference(_examples(objective, self.mu), 1.0 / objective.n, state.points, sums)
        return like(model.flat(*sums), v)

    def from_weights(self, objective: StructuralHinge, state: EGState, w: Array) -> EGState:
        model, mu, problem = objective.model, self.mu, _examples(objective, self.mu)
        x, points = model.padded(view("w", objective.zeros())), no_points(problem, model.n_labels)
        values, weights = np.empty(objective.n), model.padded(view("w", w))
        eg_from_weights(problem, model.cost, self.lam * objective.n, mu, weights, points, values, x)
        calls = state.calls + objective.n
        return state._replace(x=like(model.flat(*x), w), values=values, calls=calls, points=points)

    def between(self, objective: StructuralHinge, state: EGState, before: EGState, share: float) -> EGState:
        model, problem = objective.model, _examples(objective, self.mu)
        w = model.padded(view("w", state.x))
        points, values = type(state.points)(*(field.copy() for field in state.points)), state.values.copy()
        calls = eg_between(problem, self.lam * objective.n, self.mu, before.points, share, points, values, w)
        return state._replace(x=like(model.flat(*w), state.x), values=values, calls=state.calls + calls, points=points)


def _examples(objective: StructuralHinge, mu: float) -> Any:
    """The packed examples: those of the evaluations, whose kernels are then shared, or the hinge's."""
    return problem_of(objective, mu) or problem_of(objective, 0.0)
