"""What every optimiser asks of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.arrays import Array, floats, integer, number, real
from reference.models.nonlinear import NonlinearModel
from reference.smoothing import Max
from reference.structures.sampling import generator
from reference.weighted import Weighted

__all__ = [
    "check_hinge",
    "check_objective",
    "check_options",
    "generator",
    "initial_of",
    "is_nonlinear",
    "refuse_nonlinear",
    "start_of",
]


def check_objective(objective: Any, *needed: str) -> None:
    """Raise TypeError unless this is a finite sum, with the methods ``needed`` besides."""
    for name in ("n", "value_and_gradient", *needed):
        if not hasattr(objective, name):
            raise TypeError(
                "objective: expected an object with n and value_and_gradient(w, batch, mu), such as LogLoss(model, data); "
                f"{type(objective).__name__} has no {name}"
            )


def check_options(
    *,
    lam: float,
    mu: float | None = None,
    step_size: float | None = None,
    tol: float | None = None,
    callback: Any = None,
    **counts: int,
) -> None:
    """Raise unless these make a run: lam >= 0, mu >= 0, step_size > 0, tol >= 0 with lam > 0, counts integers >= 0."""
    lam = number("lam", lam)
    if mu is not None:
        number("mu", mu)
    for name, count in counts.items():
        integer(name, count, 0)
    if step_size is not None:
        number("step_size", step_size, positive=True)
    if tol is not None and not (real("tol", tol) >= 0 and lam > 0):
        raise ValueError(f"tol: expected a number >= 0, and lam > 0 to prove it by, got {tol} with lam = {lam}")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {type(callback).__name__}")


def check_hinge(optimizer: str, objective: Any, lam: float, tol: float | None, needed: str = "corners") -> None:
    """Raise unless ``optimizer``, a method for the dual of the unsmoothed structural hinge, can run: ``needed``, lam > 0, tol >= 0."""
    if not hasattr(objective, needed):
        raise TypeError(f"objective: {optimizer} needs {needed}(w, batch), which {type(objective).__name__} lacks")
    check_objective(objective, "zeros")
    refuse_nonlinear(optimizer, objective)
    if getattr(objective, "loss_augmented", False) and not isinstance(getattr(objective, "smoothing", Max()), Max):
        raise ValueError(
            f"objective: {optimizer} solves the unsmoothed hinge, expected StructuralHinge(model, data), got smoothing={objective.smoothing}"
        )
    if not 0 < real("lam", lam) < np.inf:
        raise ValueError(f"lam: the dual needs a finite number > 0, got {lam}")
    if tol is not None:
        number("tol", tol)


def initial_of(objective: Any, w0: Any, rng: Any) -> Any:
    """w0; where it is None, what the objective's model has as a start, drawn by ``rng``, or None if it has none."""
    whole = objective.objective if isinstance(objective, Weighted) else objective
    if w0 is None and hasattr(getattr(whole, "model", None), "initial"):
        return whole.model.initial(whole.data, rng)
    return w0


def start_of(objective: Any, w0: Any) -> Array:
    """w0 (d,) as floats; None: the objective's zeros."""
    if w0 is None and not hasattr(objective, "zeros"):
        raise ValueError("w0: give one, the objective has no zeros()")
    (start,) = floats(w0=objective.zeros() if w0 is None else w0)
    if (
        w0 is not None
        and hasattr(objective, "zeros")
        and tuple(start.shape) != (size := tuple(objective.zeros().shape))
    ):
        raise ValueError(f"w0: expected shape {size}, as objective.zeros() has, got {tuple(start.shape)}")
    return start


def is_nonlinear(objective: Any) -> bool:
    """Whether an objective's scores are known not to be linear in the weights, so that it is not convex."""
    whole = objective.objective if isinstance(objective, Weighted) else objective
    return isinstance(getattr(whole, "model", None), NonlinearModel)


def refuse_nonlinear(optimizer: str, objective: Any) -> None:
    """Raise ValueError if an objective's scores are not linear, for an optimiser whose steps or bounds need convexity."""
    if is_nonlinear(objective):
        raise ValueError(
            f"objective: its scores are not linear in the weights, and {optimizer} needs a convex objective: prox_linear and sgd do not"
        )
