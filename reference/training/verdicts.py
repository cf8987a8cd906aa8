"""The outcome of a run with primal and dual values: whether the gap ``tol`` was reached, and the message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.training.run import Run
from reference.training.solver import Solver

__all__ = ["Bracketed", "verdict"]


@dataclass(frozen=True)
class Bracketed(Solver):
    """A solver that has a dual value and starts at w = 0."""

    def start(self, objective: Objective, w0: Any, rng: Any) -> Array:
        return objective.zeros()


def verdict(run: Run) -> tuple[bool, str]:
    """Success, and the message: what ended the run."""
    fun, gap, done, epochs, tol = run.fun, run.gap, run.done, run.epochs_asked, run.tol
    if not np.isfinite(fun):
        return False, f"diverged in epoch {done}: objective {fun}"
    if run.solved:
        return True, f"relative gap {tol:g} reached in epoch {done}" if done else f"relative gap {tol:g} at the start"
    if run.stopped:
        return True, f"stopped by the callback after {done} of {epochs} epochs"
    if run.stuck and done < epochs and not run.rounded:
        return not tol, f"gap {gap:g} after {done} epochs: the last {run.still} have not changed the dual"
    if not tol:
        return True, f"{epochs} epochs done" if done == epochs else f"gap {gap:g} after {done} epochs is all rounding"
    if not run.rounded:
        return False, f"gap {gap:g} after {done} epochs, above {tol:g} times the objective"
    return False, f"gap {gap:g} after {done} epochs: rounding hides whether {tol:g} times the objective is reached"
