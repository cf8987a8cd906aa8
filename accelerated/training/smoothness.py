"""Backtracking trials of step lengths: those of a batch are one call of a kernel, at the cost of its features."""

from __future__ import annotations

from typing import Any

import numpy as np

import reference.training.smoothness as reference
from accelerated.arrays import view
from accelerated.compiled.epochs.backtracking import largest_change, try_components
from accelerated.compiled.epochs.touched import touched_rows
from accelerated.problems import finite, problem_of
from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.training.smoothness import Guess, component_smoothness, rounding, secant

__all__ = ["Backtracking", "Guess", "component_smoothness", "secant"]


class Backtracking(reference.Backtracking):
    def least(self, objective: Objective, w: Array, mu: float | None, batch: np.ndarray) -> tuple[float, int]:
        target: Any = objective
        temperature = target._mu(mu)
        problem = problem_of(target, temperature)
        if problem is None or not finite(w):
            return super().least(objective, w, mu, batch)
        touched = touched_rows(problem, batch)
        return largest_change(problem, batch, touched, temperature, target.model.padded(view("w", w), touched[1]))

    def find(
        self, objective: Objective, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float
    ) -> tuple[float, int]:
        target: Any = objective
        temperature = target._mu(mu)
        problem = problem_of(target, temperature)
        if problem is not None and finite(w):
            touched = touched_rows(problem, batch)
            weights = target.model.padded(view("w", w), touched[1])
            L, calls = try_components(problem, batch, touched, start, limit, temperature, rounding(w), weights)
            if np.isfinite(L):
                return L, calls
        return super().find(objective, w, mu, batch, start, limit)
