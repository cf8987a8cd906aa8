"""Stochastic (sub)gradient descent with averaging.

min_w F(w) + lam/2 ||w||^2, one batch at a time: w <- (1 - gamma_t lam) w - gamma_t g_t. Source: Pillutla et al.,
section 7.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Algorithm, Objective, traits
from reference.optimizers.nonnegative import clipped
from reference.steps import Schedule

__all__ = ["SGD", "SGDState"]


class SGDState(NamedTuple):
    """x: the last iterate (d,); mean: the average of the iterates after steps 1..t, by ``average``; t: steps done."""

    x: Array
    mean: Array
    t: int


@dataclass(frozen=True)
class SGD(Algorithm):
    """Stochastic (sub)gradient steps, on any objective; :func:`reference.sgd` returns the state's ``mean``.

    That function describes the options; step_size is a schedule, such as ``steps.Pegasos(offset)`` or
    ``steps.Constant(gamma)``.
    """

    lam: float
    step_size: Schedule
    mu: float | None = None
    batch_size: int = 1
    average: str = "weighted"

    def init(self, objective: Objective, w0: Array) -> SGDState:
        return SGDState(w0, w0, 0)

    def epoch(self, objective: Objective, state: SGDState, rng: np.random.Generator) -> SGDState:
        """One pass over the examples, in a new random order."""
        return self.sweep(objective, state, rng.permutation(objective.n))

    def sweep(self, objective: Objective, state: SGDState, order: np.ndarray) -> SGDState:
        """A step for each batch of the examples in ``order``."""
        (w, mean, t), lam, constrained = state, self.lam, traits(objective).nonnegative
        starts = range(0, len(order), self.batch_size)
        steps = self.step_size(np.arange(t + 1, t + 1 + len(starts)), lam)
        for start, gamma in zip(starts, steps.tolist(), strict=True):
            _, g = objective.value_and_gradient(w, order[start : start + self.batch_size], self.mu)
            w = clipped((1.0 - gamma * lam) * w - gamma * g, constrained)
            t += 1
            if self.average == "last":
                mean = w
            elif self.average == "uniform":
                mean = mean + (1.0 / t) * (w - mean)  # (1/t) sum_s w_s
            else:
                mean = mean + (2.0 / (t + 1)) * (w - mean)  # 2/(t^2 + t) sum_s s w_s
        return SGDState(w, mean, t)
