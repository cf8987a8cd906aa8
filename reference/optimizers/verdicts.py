"""How a run between two bounds ends: whether the gap asked for is shown, and the sentence about it."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array

__all__ = ["reached", "verdict"]


def reached(fun: float, dual: float, tol: float | None, x: Array) -> bool:
    """Whether the gap, in truth >= 0, is shown to be <= tol * objective: not where rounding hides gaps of that size."""
    if tol is None:
        return False
    resolution = float(array_namespace(x).finfo(x.dtype).eps)
    return abs(fun - dual) <= tol * fun and (fun == 0 or tol >= resolution)


def verdict(
    fun: float, dual: float, tol: float | None, x: Array, done: int, epochs: int, stopped: bool
) -> tuple[bool, str]:
    """Whether the run did what was asked, and what ended it."""
    if not np.isfinite(fun):
        return False, f"diverged in epoch {done}: objective {fun}"
    if reached(fun, dual, tol, x):
        return True, f"relative gap {tol:g} reached in epoch {done}" if done else f"relative gap {tol:g} at the start"
    if stopped:
        return True, f"stopped by the callback after {done} of {epochs} epochs"
    if not tol:
        return True, f"{epochs} epochs done"
    if fun - dual > tol * fun:
        return False, f"gap {fun - dual:g} after {epochs} epochs, above {tol:g} times the objective"
    return (
        False,
        f"gap {fun - dual:g} after {epochs} epochs: rounding hides whether {tol:g} times the objective is reached",
    )
