"""How a run between two bounds ends: whether the gap asked for is shown, and the sentence about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array
from reference.optimizers.runs import Point, Run

__all__ = ["reaches", "verdict"]


def reaches(tol: float | None, x: Array) -> Callable[[Point], bool]:
    """Whether a gap, in truth >= 0, is shown to be <= tol * objective: not where rounding, of numbers like those of x, hides gaps of that size."""
    resolution = float(array_namespace(x).finfo(x.dtype).eps)

    def reached(point: Point) -> bool:
        if tol is None or point.gap is None:
            return False
        return abs(point.gap) <= tol * point.fun and (point.fun == 0 or tol >= resolution)

    return reached


def verdict(run: Run, tol: float | None, epochs: int) -> tuple[bool, str]:
    """Whether the run did what was asked, and what ended it."""
    fun, gap, done = run.fun, run.gap, run.done
    if not np.isfinite(fun):
        return False, f"diverged in epoch {done}: objective {fun}"
    if run.solved:
        return True, f"relative gap {tol:g} reached in epoch {done}" if done else f"relative gap {tol:g} at the start"
    if run.stopped:
        return True, f"stopped by the callback after {done} of {epochs} epochs"
    if not tol:
        return True, f"{epochs} epochs done"
    if gap is not None and gap > tol * fun:
        return False, f"gap {gap:g} after {done} epochs, above {tol:g} times the objective"
    return False, f"gap {gap:g} after {done} epochs: rounding hides whether {tol:g} times the objective is reached"
