"""The online proximal algorithm: a gradient step on the loss of a batch, then the regularizers' proxes in turn.

min_w F(w) + sum_j R_j(w) over a set, F = (1/n) sum_i f_i. For a batch at step t, with g a subgradient of its mean loss
at w_t:

    z <- w_t - eta_t g,    z <- prox_{eta_t R_j}(z) for j = 1, ..., J,    w_{t+1} = projection of z onto the set

If a term (sigma/2) ||w||^2 makes the objective strongly convex, the loss may absorb it: g + sigma w_t replaces g.
Source: Martins et al. 2010, Algorithm 1 and section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, host
from reference.optimizers.base import Algorithm, Objective
from reference.prox.base import Regularizer
from reference.steps import Schedule

__all__ = ["OnlineProximal", "OnlineProximalState"]


class OnlineProximalState(NamedTuple):
    """x: w_{t+1} (d,); mean: the average of w_1, ..., w_t, or x if ``average="last"``; t: steps done."""

    x: Array
    mean: Array
    t: int


@dataclass(frozen=True)
class OnlineProximal(Algorithm):
    """Algorithm 1, on any objective; :func:`reference.online_proximal` returns the state's ``mean``.

    proxes: one regularizer, or a ``Sequential`` of several regularizers and the indicator of a set. step_size: a
    schedule, such as ``steps.InverseSqrt(eta)``. That function describes the other options.
    """

    proxes: Regularizer
    step_size: Schedule
    sigma: float = 0.0
    mu: float | None = None
    batch_size: int = 1
    average: str = "last"

    def init(self, objective: Objective, w0: Array) -> OnlineProximalState:
        return OnlineProximalState(w0, w0, 0)

    def epoch(self, objective: Objective, state: OnlineProximalState, rng: np.random.Generator) -> OnlineProximalState:
        """One pass over the examples, in a new random order."""
        return self.sweep(objective, state, rng.permutation(objective.n))

    def sweep(self, objective: Objective, state: OnlineProximalState, order: np.ndarray) -> OnlineProximalState:
        """A round for each batch of the examples in ``order``."""
        w, mean, t = state
        starts = range(0, len(order), self.batch_size)
        steps = self.step_size(np.arange(t + 1, t + 1 + len(starts)), self.sigma)
        for start, eta in zip(starts, steps.tolist(), strict=True):
            before, t = w, t + 1
            _, g = objective.value_and_gradient(w, order[start : start + self.batch_size], self.mu)  # line 4
            w = (1.0 - eta * self.sigma) * w - eta * g  # line 5; sigma: section 3.3
            if np.all(np.isfinite(host(w))):  # else the run has diverged
                w = self.proxes.prox(w, eta)  # lines 6 to 9
            mean = w if self.average == "last" else mean + (before - mean) / t  # of w_1, ..., w_t
        return OnlineProximalState(w, mean, t)
