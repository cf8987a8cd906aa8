"""Times of calls, by the clock and of the processor, which other processes hardly change; lines of measurements; a
pass of SVRG to be timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import accelerated
from reference.algorithms import SVRG as Box
from reference.algorithms import counterpart
from reference.optimizers.subproblem import Subproblem

Line = tuple[str, float, str]  # what is measured, its number, its unit


def best_of(run: Callable[[], Any], repeat: int = 15) -> float:
    """The least of several wall-clock times in seconds, after one call that is not timed."""
    run()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a call, and its result."""
    started = time.process_time()
    result = run()
    return time.process_time() - started, result


def least_seconds(run: Callable[[], Any], repeat: int = 5) -> float:
    """The least of several processor times in seconds, after one call that is not timed."""
    run()
    return min(timed(run)[0] for _ in range(repeat))


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
