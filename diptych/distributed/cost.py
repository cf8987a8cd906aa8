"""The cost of a pass over partitions: a model with six constants, fitted to measured passes.

With N tokens, d weights, W workers on M machines and P partitions, the seconds of a pass are the sum of

    computing    token N / W
    vectors      weight d ceil(P / W)          each partition fills and adds vectors of d numbers
    memory       memory d P / M                the same through the memory that the workers of a machine share
    stragglers   (E max_W - 1) token N / P     the last task of the slowest worker
    travelling   byte 8 d (ceil(log2(W + 1)) + ceil(log2 P))    w is passed on by workers that have it; sums return in
                                                                pairs
    tasks        task P                        the scheduler distributes them one after another
    start        start

The cost of a task is valid for results of at least 10^5 numbers. Smaller results take less time. E max_W is the mean of
the largest of W independent log-normal times, which have mean 1 and parameter ``spread``. A round of CoCoA has the same
terms, but another number of seconds per token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np


class Pass(NamedTuple):
    """A pass: numbers of tokens, weights, workers and partitions, measured seconds, number of machines.

    seconds: nan if not measured.
    """

    tokens: float
    weights: float
    workers: int
    partitions: int
    seconds: float = math.nan
    machines: int = 1


@dataclass(frozen=True)
class Cost:
    """The constants in seconds, and the ``spread`` of the workers' times.

    token: per token. weight, memory: per weight and partition, on the worker and through the machine's shared memory.
    byte: per byte transferred. task: per task. start: per pass.
    """

    token: float
    weight: float
    memory: float
    byte: float
    task: float
    start: float
    spread: float = 0.0

    def terms(self, one: Pass) -> dict[str, float]:
        """The seconds of a pass by cause."""
        constants = self.token, self.weight, self.memory, self.byte, self.task, self.start
        names = "computing", "vectors", "memory", "travelling", "tasks", "start"
        terms = {name: x * y for name, x, y in zip(names, constants, _amounts(one), strict=True)}
        last = self.token * one.tokens / one.partitions
        return terms | {"stragglers": (largest(one.workers, self.spread) - 1.0) * last}

    def seconds(self, one: Pass) -> float:
        """The seconds of a pass."""
        return sum(self.terms(one).values())


def _amounts(one: Pass) -> tuple[float, ...]:
    """The factor of each constant."""
    turns = math.ceil(one.partitions / one.workers)
    levels = math.ceil(math.log2(one.workers + 1)) + math.ceil(math.log2(one.partitions))
    shared = one.weights * one.partitions / one.machines
    return one.tokens / one.workers, one.weights * turns, shared, 8.0 * one.weights * levels, one.partitions, 1.0


def fitted(measured: Sequence[Pass], spread: float = 0.0) -> Cost:
    """The constants >= 0 with the least sum of squared relative errors.

    Raises
    ------
    ValueError
        There are fewer passes than constants, or a pass without seconds.
    """
    from scipy.optimize import nnls

    if len(measured) < len(fields(Cost)) - 1:
        raise ValueError(f"measured: expected at least {len(fields(Cost)) - 1} passes, got {len(measured)}")
    seconds = np.array([one.seconds for one in measured])
    if not np.all(seconds > 0):
        raise ValueError(f"measured: expected seconds > 0, got {seconds[~(seconds > 0)][0]}")
    A = np.array([_amounts(one) for one in measured]) / seconds[:, None]
    scale = np.max(A, axis=0)  # the constants differ by orders of magnitude
    constants, _ = nnls(A / scale, np.ones(len(seconds)))
    token, weight, memory, byte, task, start = (constants / scale).tolist()
    return Cost(token, weight, memory, byte, task, start, spread)


def largest(workers: int, spread: float) -> float:
    """The mean of the largest of ``workers`` independent log-normal times of mean 1; spread: their parameter sigma."""
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    if spread == 0 or workers == 1:
        return 1.0

    def weighted(z: float) -> float:  # t W phi(z) Phi(z)^(W - 1), at t = exp(spread z - spread^2 / 2)
        log_density = -0.5 * z**2 - 0.5 * math.log(2 * math.pi) + (workers - 1) * float(log_ndtr(z))
        return workers * math.exp(spread * z - 0.5 * spread**2 + log_density)

    value: float = quad(weighted, -12.0, 12.0 + spread, limit=400, points=[0.0, 3.0])[0]
    return value
