"""The first step of stochastic gradients by default, found by trials on a few examples.

The paper leaves it open: its step schedules (Pillutla et al., section 7.2) have constants that were tuned by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reference.arrays import squared_norm
from reference.optimizers.base import Algorithm, Objective, value_of
from reference.optimizers.sgd import SGD, SGDState
from reference.steps import Pegasos

__all__ = ["OffsetSearch"]


@dataclass(frozen=True)
class OffsetSearch(Algorithm):
    """The offset of the default steps ``Pegasos(offset)`` of :class:`SGD`.

    Each candidate makes a trial pass on 2 % of the data. The first step starts at min(1/(lam n), 1) and is halved
    until three times in a row the objective of these examples ends no lower.
    """

    def find(self, objective: Objective, box: SGD, state: SGDState) -> tuple[float, int]:
        """The offset, and the oracle calls of its search."""
        n = objective.n
        some = np.unique(np.linspace(0, n - 1, max(n // 50, 5)).astype(np.int64))
        trial = self.trial(objective, box, state, some)
        offset = max(n, 1.0 / box.lam)
        chosen, lowest, tried = offset, np.inf, 0
        while offset <= 8 * chosen:
            value = trial(offset)
            if value < lowest:
                chosen, lowest = offset, value
            offset, tried = 2.0 * offset, tried + 1
        return chosen, 2 * tried * len(some)

    def trial(self, objective: Objective, box: SGD, state: SGDState, some: np.ndarray) -> Callable[[float], float]:
        """The objective of these examples after a pass over them, as a function of the offset."""

        def value(offset: float) -> float:
            w = replace(box, step_size=Pegasos(offset)).sweep(objective, state, some).x
            return value_of(objective, w, box.mu, some) + 0.5 * box.lam * squared_norm(w)

        return value
