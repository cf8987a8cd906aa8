"""The state of a run: that of its box, what its search has found, and counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Counts", "RunState", "StepLength"]


class Counts(NamedTuple):
    """Numbers so far.

    epochs: of epochs done. kept, rejected: of steps or passes that were accepted and that were not. halved: of step
    lengths. missed: of subproblems not solved to their tolerance. calls: of oracle calls that the box does not count.
    """

    epochs: int = 0
    kept: int = 0
    rejected: int = 0
    halved: int = 0
    missed: int = 0
    calls: int = 0

    def plus(self, **more: int) -> Counts:
        """With these numbers added."""
        return self._replace(**{name: getattr(self, name) + value for name, value in more.items()})


class StepLength(NamedTuple):
    """The step length eta, and a bound on the norm of the prox-gradient at the start of the last accepted step."""

    eta: float
    bound: float = np.inf


class RunState(NamedTuple):
    """box: the state of the box. search: what was found for the next epochs, such as a step size or a schedule.

    evaluation: of the last accepted iterate. later: seconds of the last epoch that count in the next one.
    """

    box: Any
    search: Any = None
    counts: Counts = Counts()
    evaluation: Any = None
    later: float = 0.0
