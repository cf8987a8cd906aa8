"""Epochs of exponentiated gradient over packed sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.exponentiated import eg_epoch, no_points
from reference.optimizers.exponentiated import EGState

__all__ = ["run_eg"]


def run_eg(state: EGState, objective: Any, order: np.ndarray, *, lam: float, mu: float) -> EGState:
    """As the reference's epoch; the state's points are packed and change in place."""
    model, problem = objective.model, objective._problem(0.0)
    W, A = model.padded(view("w", state.x))
    points = state.points or no_points(problem.offsets, model.n_labels)
    values, steps, rates = state.values.copy(), state.steps.copy(), state.rates.copy()
    calls = eg_epoch(problem, order, model.cost, lam * objective.n, mu, points, values, steps, rates, W, A)
    return EGState(like(model.flat(W, A), state.x), values, steps, rates, state.calls + calls, points)
