"""Checks of the arguments that all optimisers share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, floats, host, real
from reference.models.nonlinear import NonlinearModel
from reference.optimizers.base import traits
from reference.optimizers.nonnegative import constraint
from reference.smoothings import Max
from reference.steps import Constant, Schedule
from reference.structures.sampling import generator
from reference.weighted import Weighted

__all__ = ["CheckedSchedule", "check_needs", "check_provable", "generator", "is_nonlinear", "schedule_of", "start_of"]


def check_needs(solver: Any, objective: Any) -> None:
    """Raise unless the objective is a finite sum, and meets the requirements that a solver declares."""
    name, needs = solver.name, solver.needs
    if needs is None:
        return
    for method in (each for each in needs.attributes if "(" in each):
        if not hasattr(objective, method.partition("(")[0]):
            raise TypeError(f"objective: {name} needs {method}, which {type(objective).__name__} lacks")
    for attribute in ("n", "value_and_gradient", *(each for each in needs.attributes if "(" not in each)):
        if not hasattr(objective, attribute):
            raise TypeError(
                "objective: expected an object with n and value_and_gradient(w, batch, mu), such as LogLoss(model, "
                f"data); {type(objective).__name__} has no {attribute}"
            )
    if needs.convex and is_nonlinear(objective):
        raise ValueError(
            f"objective: its scores are not linear in the weights, and {name} needs a convex objective: prox_linear "
            f"and sgd do not"
        )
    constrained, properties = constraint(objective), traits(objective)
    if constrained is not None and not needs.constrained:
        raise ValueError(
            f"objective: its weights {constrained.start}..{constrained.stop - 1} must be >= 0, which {name} does not "
            f"support; use bcfw or sgd"
        )
    if needs.unsmoothed and properties.hinge and not isinstance(properties.smoothing, Max | None):
        raise ValueError(
            f"objective: {name} solves the unsmoothed hinge, expected StructuralHinge(model, data), got "
            f"smoothing={properties.smoothing}"
        )


def check_provable(lam: float, tol: float | None) -> None:
    """Raise ValueError unless tol >= 0, with lam > 0 to prove a gap by."""
    if tol is not None and not (tol >= 0 and lam > 0):
        raise ValueError(f"tol: expected a number >= 0, and lam > 0 to prove it by, got {tol} with lam = {lam}")


def is_nonlinear(objective: Any) -> bool:
    """Whether an objective's model has scores that are not linear in the weights: the objective is not convex."""
    unweighted = objective.objective if isinstance(objective, Weighted) else objective
    return isinstance(traits(unweighted).model, NonlinearModel)


def start_of(objective: Any, w0: Any, rng: Any = None, *, initial: bool = False) -> Array:
    """A copy of w0 (d,) as floats; if it is None, the objective's zeros, or with ``initial`` the initial weights of its
    model, drawn by ``rng``, if it has some. ValueError if a weight is negative and must be >= 0.
    """
    unweighted: Any = objective.objective if isinstance(objective, Weighted) else objective
    if initial and w0 is None and hasattr(traits(unweighted).model, "initial"):
        w0 = unweighted.model.initial(unweighted.data, rng)
    zeros = objective.zeros() if hasattr(objective, "zeros") else None
    if w0 is None and zeros is None:
        raise ValueError("w0: give one, the objective has no zeros()")
    (start,) = floats(w0=zeros if w0 is None else w0)
    if zeros is not None and start.shape != zeros.shape:
        raise ValueError(f"w0: expected shape {tuple(zeros.shape)}, as objective.zeros() has, got {tuple(start.shape)}")
    if (constrained := constraint(objective)) is not None:
        negative = np.flatnonzero(host(start[constrained]) < 0)
        if len(negative) > 0:
            first, last, k = constrained.start, constrained.stop - 1, constrained.start + int(negative[0])
            raise ValueError(f"w0: weights {first}..{last} must be >= 0, got {float(start[k])} for weight {k}")
    return start if start is not w0 else array_namespace(start).asarray(start, copy=True)


def numbers_of(weights: Any) -> Array:
    """The array that has the namespace, dtype and shape of weights: the first array if they are a NamedTuple."""
    return weights if is_array_api_obj(weights) else next(field for field in weights if is_array_api_obj(field))


def path_of(name: str, path: Any) -> Path | None:
    """A path, or None; TypeError names the argument."""
    if path is None or isinstance(path, (str, os.PathLike)):
        return None if path is None else Path(path)
    raise TypeError(f"{name}: expected the path of a file, got {type(path).__name__}")


def schedule_of(step_size: Any) -> Schedule:
    """A number as a constant schedule; a schedule unchanged."""
    return step_size if callable(step_size) else Constant(real("step_size", step_size))


@dataclass(frozen=True)
class CheckedSchedule:
    """A schedule whose steps are checked: one finite step for each t, >= 0, or > 0 if ``positive``."""

    schedule: Schedule
    positive: bool = False

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        steps, sign = np.asarray(self.schedule(t, lam), dtype=np.float64), ">" if self.positive else ">="
        if steps.shape != t.shape or not np.all(np.isfinite(steps) & ((steps > 0) if self.positive else (steps >= 0))):
            raise ValueError(
                f"step_size: expected {len(t)} finite steps {sign} 0 from {self.schedule}, got shape {steps.shape}: "
                f"{steps}"
            )
        return steps
