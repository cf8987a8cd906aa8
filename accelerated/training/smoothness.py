"""Trials of step lengths, at the cost of the examples' features: the trials of a batch are one call of a kernel, and
only the rows that the examples touch change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference.training.smoothness as reference
from accelerated.arrays import view
from accelerated.compiled.epochs.backtracking import largest_change, try_components
from accelerated.compiled.epochs.sgd import Rounds, sgd_epoch
from accelerated.compiled.epochs.touched import touched_rows
from accelerated.compiled.problems.weights import Weights
from accelerated.objectives import value_at
from accelerated.optimizers import sgd
from accelerated.problems import finite, problem_of
from reference.arrays import Array, squared_norm
from reference.optimizers.base import Objective
from reference.optimizers.sgd import SGD, SGDState
from reference.steps import Pegasos
from reference.training.smoothness import Guess, rounding

__all__ = ["Backtracking", "Guess", "OffsetSearch"]


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
        self, objective: Objective, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
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


class OffsetSearch(reference.OffsetSearch):
    def trial(self, objective: Objective, box: SGD, state: SGDState, some: np.ndarray) -> Callable[[float], float]:
        target: Any = objective
        lam, mu, model = box.lam, target._mu(box.mu), target.model
        problem = problem_of(target, mu)
        if not isinstance(box, sgd.SGD) or problem is None or not finite(state.x):
            return super().trial(objective, box, state, some)
        rows = np.unique(touched_rows(problem, some)[1])
        w = model.padded(view("w", state.x), rows)
        start = w.rows[rows], w.dense.copy()
        free = [x > -np.inf for x in start]  # not forbidden
        others = squared_norm(state.x) - sum(squared_norm(x[each]) for x, each in zip(start, free, strict=True))
        none = Weights(w.rows[:0], w.dense)

        def value(offset: float) -> float:
            w.rows[rows], w.dense[:] = start
            steps = Pegasos(offset)(np.arange(state.t + 1, state.t + 1 + len(some)), lam)
            sgd_epoch(problem, Rounds(some, steps, 0.0 * steps, 0.0), lam, mu, w, none, (0, 0), rows)
            used = [x[each] for x, each in zip((w.rows[rows], w.dense), free, strict=True)]
            if not finite(*used):
                return np.nan
            # other weights only shrink
            squares = float(np.prod(1.0 - steps * lam)) ** 2 * others + sum(map(squared_norm, used))
            return value_at(problem, some, w, mu) / len(some) + 0.5 * lam * squares

        return value
