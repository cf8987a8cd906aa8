"""Checks of the arguments that all optimisers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, floats, host, real
from reference.models.nonlinear import NonlinearModel
from reference.optimizers.base import Examples, Objective, traits
from reference.optimizers.nonnegative import constraint
from reference.smoothings import Max
from reference.steps import Constant, Schedule
from reference.structures.sampling import generator
from reference.weighted import Weighted

__all__ = [
    "CheckedSchedule",
    "check_hinge",
    "check_objective",
    "check_provable",
    "check_start",
    "generator",
    "initial_of",
    "is_nonlinear",
    "refuse_constraint",
    "refuse_nonlinear",
    "schedule_of",
    "start_of",
]


def check_objective(objective: Any, *needed: str) -> None:
    """Raise TypeError unless the objective is a finite sum and has the attributes ``needed``."""
    for name in ("n", "value_and_gradient", *needed):
        if not hasattr(objective, name):
            raise TypeError(
                "objective: expected an object with n and value_and_gradient(w, batch, mu), such as LogLoss(model, "
                "data); "
                f"{type(objective).__name__} has no {name}"
            )


def check_provable(lam: float, tol: float | None) -> None:
    """Raise ValueError unless tol >= 0, with lam > 0 to prove a gap by."""
    if tol is not None and not (tol >= 0 and lam > 0):
        raise ValueError(f"tol: expected a number >= 0, and lam > 0 to prove it by, got {tol} with lam = {lam}")


def check_hinge(optimizer: str, objective: Examples) -> None:
    """Raise unless a method for the dual of the unsmoothed hinge can run: there is no smoothing."""
    properties = traits(objective)
    if properties.hinge and not isinstance(properties.smoothing, Max | None):
        raise ValueError(
            f"objective: {optimizer} solves the unsmoothed hinge, expected StructuralHinge(model, data), "
            f"got smoothing={properties.smoothing}"
        )


def initial_of(objective: Examples, w0: Any, rng: Any) -> Any:
    """w0; if it is None, the initial weights of the objective's model, drawn by ``rng``, or None if it has none."""
    unweighted: Any = objective.objective if isinstance(objective, Weighted) else objective
    if w0 is None and hasattr(traits(unweighted).model, "initial"):
        return unweighted.model.initial(unweighted.data, rng)
    return w0


def start_of(objective: Any, w0: Any) -> Array:
    """A copy of w0 (d,) as floats; if it is None, the objective's zeros."""
    if w0 is None and not hasattr(objective, "zeros"):
        raise ValueError("w0: give one, the objective has no zeros()")
    (start,) = floats(w0=objective.zeros() if w0 is None else w0)
    if (
        w0 is not None
        and hasattr(objective, "zeros")
        and tuple(start.shape) != (size := tuple(objective.zeros().shape))
    ):
        raise ValueError(f"w0: expected shape {size}, as objective.zeros() has, got {tuple(start.shape)}")
    return start if start is not w0 else array_namespace(start).asarray(start, copy=True)


def is_nonlinear(objective: Examples) -> bool:
    """Whether an objective's model has scores that are not linear in the weights: the objective is not convex."""
    unweighted = objective.objective if isinstance(objective, Weighted) else objective
    return isinstance(traits(unweighted).model, NonlinearModel)


def refuse_nonlinear(optimizer: str, objective: Examples) -> None:
    """Raise ValueError if an objective's scores are not linear; for optimisers that need convexity."""
    if is_nonlinear(objective):
        raise ValueError(
            f"objective: its scores are not linear in the weights, and {optimizer} needs a convex objective: "
            f"prox_linear and sgd do not"
        )


def check_start(x: Array, constrained: slice | None) -> None:
    """Raise ValueError if a weight of the start is negative and must be >= 0."""
    if constrained is None:
        return
    inside = host(x[constrained])
    if np.any(inside < 0):
        k = int(np.flatnonzero(inside < 0)[0])
        raise ValueError(
            f"w0: weights {constrained.start}..{constrained.stop - 1} must be >= 0, got {float(inside[k])} for weight "
            f"{constrained.start + k}"
        )


def refuse_constraint(optimizer: str, objective: Objective) -> None:
    """Raise ValueError if an objective has weights that must be >= 0; for optimisers without that constraint."""
    constrained = constraint(objective)
    if constrained is not None:
        raise ValueError(
            f"objective: its weights {constrained.start}..{constrained.stop - 1} must be >= 0, which {optimizer} does "
            f"not support; use bcfw or sgd"
        )


def schedule_of(step_size: Any) -> Schedule:
    """A number as a constant schedule; a schedule unchanged."""
    return step_size if callable(step_size) else Constant(real("step_size", step_size))


@dataclass(frozen=True)
class CheckedSchedule:
    """A schedule whose steps are checked: one finite step for each t, >= 0, or > 0 if ``positive``."""

    schedule: Schedule
    positive: bool = False

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        steps = np.asarray(self.schedule(t, lam), dtype=np.float64)
        if steps.shape != t.shape or not np.all(np.isfinite(steps) & ((steps > 0) if self.positive else (steps >= 0))):
            sign = ">" if self.positive else ">="
            raise ValueError(
                f"step_size: expected {len(t)} finite steps {sign} 0 from {self.schedule}, got shape {steps.shape}: "
                f"{steps}"
            )
        return steps
