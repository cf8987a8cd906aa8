"""Step sizes as functions of the step number t = 1, 2, ...

Each is a small object called with an array of step numbers and lam. Source: Pillutla et al., section 7.2
(step schedule, Pegasos) and 7.3 (constant, t^-1/2, t^-1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from reference.arrays import real

__all__ = ["CheckedSchedule", "Constant", "InverseSqrt", "InverseTime", "Pegasos", "Schedule", "Steps", "schedule_of"]

Schedule: TypeAlias = Callable[[np.ndarray, float], np.ndarray]


@dataclass(frozen=True)
class _Schedule:
    def __post_init__(self) -> None:
        for entry in fields(self):
            value = real(entry.name, getattr(self, entry.name))
            if not (np.isfinite(value) and value >= 0) or (value == 0 and entry.name != "offset"):
                raise ValueError(f"{entry.name}: expected a finite number > 0, got {value}")


@dataclass(frozen=True)
class Constant(_Schedule):
    """gamma_t = gamma0."""

    gamma0: float

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        return np.full(len(t), float(self.gamma0))


@dataclass(frozen=True)
class InverseTime(_Schedule):
    """gamma_t = gamma0 / t."""

    gamma0: float

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        return self.gamma0 / t


@dataclass(frozen=True)
class InverseSqrt(_Schedule):
    """gamma_t = gamma0 / sqrt(t)."""

    gamma0: float

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        steps: np.ndarray = self.gamma0 / np.sqrt(t)
        return steps


@dataclass(frozen=True)
class Pegasos(_Schedule):
    """gamma_t = 1 / (lam (t + offset)); offset 0 is Pegasos itself, a positive one starts with shorter steps."""

    offset: float = 0.0

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        if not lam > 0:
            raise ValueError(f"lam: Pegasos steps 1/(lam t) need lam > 0, got {lam}")
        return 1.0 / (lam * (t + self.offset))


@dataclass(frozen=True)
class Steps(_Schedule):
    """gamma_t = gamma0 / (1 + floor(t / t0))."""

    gamma0: float
    t0: float

    def __call__(self, t: np.ndarray, lam: float) -> np.ndarray:
        return self.gamma0 / (1.0 + np.floor(t / self.t0))


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


def schedule_of(step_size: float | Schedule) -> Schedule:
    """A number as a constant schedule; a schedule unchanged."""
    return step_size if callable(step_size) else Constant(real("step_size", step_size))
