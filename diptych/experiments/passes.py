"""One pass of SVRG as a callable, to measure its time."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated
from reference.algorithms import SVRG as Box
from reference.algorithms import counterpart
from reference.optimizers.subproblem import Subproblem


class Pass:
    """One pass of SVRG from weights near a solution. over: the objective and mu."""

    def __init__(self, over: tuple[Any, float | None], kappa: float = 0.0, average: str = "last") -> None:
        self.objective, self.mu = over
        n = self.objective.n
        self.order = np.random.default_rng(0).permutation(n)
        self.x = accelerated.sgd(self.objective, lam=1 / n, mu=self.mu, step_size=1 / 30, epochs=1, rng=0).x
        self.problem = Subproblem(self.objective, 1 / n, kappa, self.mu, self.x if kappa else None)
        self.box = counterpart(Box(average=average), self.objective)

    def __call__(self) -> np.ndarray:
        """A full gradient, then a step for each example."""
        start = self.box.snapshot(self.objective, self.x, self.mu)
        x: np.ndarray = self.box.sweep(self.problem, start, start.x, self.order, 1 / 30)
        return x
