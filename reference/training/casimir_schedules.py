"""The mu_k, kappa_k, alpha_0 and delta_k of a run of Casimir.

Source: Pillutla et al., Corollaries 17 to 20, Propositions 29 and 31, section 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from reference.arrays import Array
from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.bounds.casimir import Choice, balanced
from reference.objectives import StructuralHinge
from reference.optimizers.base import Algorithm, Objective, traits
from reference.training.smoothness import Backtracking, Guess

__all__ = ["LEAST_MU", "Falling", "Plan", "Plans", "checked", "theory"]

LEAST_MU = 1e-10  # the least mu of a decreasing smoothing
MU = 2.0  # the first mu of a decreasing smoothing: the paper's choice for named entities


class Plan(NamedTuple):
    """A schedule with lam, alpha_0, kappa_k(k), mu_k(k), delta_k(k). smoothed: whether the objective is passed mu_k."""

    schedule: Choice
    smoothed: bool = True

    def mu_k(self, k: int) -> float | None:
        """The mu passed to the objective in iteration k."""
        return self.schedule.mu_k(k) if self.smoothed else None

    def __getattr__(self, name: str) -> Any:
        """lam, alpha_0, kappa_k and delta_k, as the schedule has them."""
        return getattr(self.schedule, name)


@dataclass(frozen=True)
class Falling(Corollary18):
    """Corollary 18 with mu_k >= LEAST_MU."""

    def mu_k(self, k: int) -> float:
        """max(mu eta^{k/2}, LEAST_MU)."""
        return max(super().mu_k(k), min(self.mu, LEAST_MU))


@dataclass(frozen=True)
class Plans(Algorithm):
    """The options of :func:`casimir` that a plan is made of; ``steps`` finds the smoothness."""

    lam: float
    mu: float | None = None
    kappa: float | None = None
    schedule: Any = None  # None, "const", "adapt", or the user's
    steps: Backtracking = Backtracking()  # noqa: RUF009, frozen

    @property
    def given(self) -> bool:
        """Whether the schedule is the user's; such an object has no form in a file."""
        return not (self.schedule is None or isinstance(self.schedule, str))

    def staged(self, objective: Objective) -> bool:
        """Whether mu is halved when the smoothed problem is solved."""
        return self.schedule is None and self.mu is None and self.lam > 0 and traits(objective).hinge

    def plan(self, objective: Objective, start: Array, rng: Any) -> tuple[Plan, int]:
        """The plan of a run from ``start`` (d,), and the oracle calls made."""
        if self.given:
            return Plan(self.schedule), 0
        return (self.adaptive if self.schedule == "adapt" else self.constant)(objective, start, self.mu, rng)

    def constant(self, objective: Objective, start: Array, mu: float | None, rng: Any) -> tuple[Plan, int]:
        """Constant mu and kappa, and the oracle calls made; kappa balances outer and inner iterations for the
        smoothness found at the start.
        """
        own_mu = traits(objective).mu
        if mu is None and own_mu is not None:
            mu = float(own_mu) or 1.0
        kappa, calls = self.found_kappa(objective, start, mu, rng)
        smoothing = 0.0 if mu is None else float(mu)
        schedule = Corollary17(self.lam, kappa, smoothing) if self.lam > 0 else Corollary19(kappa, smoothing)
        return Plan(schedule, smoothed=mu is not None), calls

    def adaptive(self, objective: Objective, start: Array, mu: float | None, rng: Any) -> tuple[Plan, int]:
        """Decreasing mu_k, and the oracle calls made; kappa = lam, or for lam = 0 the first kappa of ``constant``."""
        if mu is None and traits(objective).mu is None:
            raise ValueError(
                "schedule: 'adapt' needs something to smooth, such as StructuralHinge(model, data, smoothing=Entropy())"
            )
        mu = MU if mu is None else float(mu)
        if self.lam > 0:
            return Plan(Falling(self.lam, self.lam if self.kappa is None else self.kappa, mu)), 0
        kappa, calls = self.found_kappa(objective, start, mu, rng)
        return Plan(Corollary20(kappa, mu)), calls

    def found_kappa(self, objective: Objective, start: Array, mu: float | None, rng: Any) -> tuple[float, int]:
        """The given kappa, or :func:`balanced` for the smoothness found at the start; and the oracle calls made."""
        if self.kappa is not None:
            return self.kappa, 0
        n = objective.n
        with np.errstate(over="ignore", invalid="ignore"):
            step, guess = self.steps.propose(objective, Guess(), start, rng.permutation(n), mu, self.lam)
            L = 1.0 / step - self.lam
        return balanced(L, self.lam, n), guess.calls


def checked(schedule: Any, lam: float) -> Any:
    """A schedule of the user; ValueError if it lacks a member, or is of another lam."""
    if not all(hasattr(schedule, name) for name in ("lam", "alpha_0", "kappa_k", "mu_k", "delta_k")):
        raise ValueError(
            f"schedule: expected 'const', 'adapt', 'theory' or an object with lam, alpha_0, kappa_k, mu_k, delta_k, "
            f"got {schedule!r}"
        )
    if schedule.lam != lam:
        raise ValueError(f"schedule: made for lam = {schedule.lam}, got lam = {lam}")
    return schedule


def theory(objective: Objective, lam: float, accuracy: float | None) -> tuple[Corollary17 | Corollary19, float]:
    """The constants of Proposition 29 (31 if lam = 0) and the step size 1 / (A/mu + lam + kappa)."""
    if accuracy is None:
        raise ValueError("accuracy: schedule='theory' needs a finite number > 0, got None")
    properties = traits(objective)
    A = properties.smoothness(1.0) if properties.hinge else np.inf
    if np.inf == A:
        raise ValueError("schedule: 'theory' needs a hinge with a known smoothness, such as one with Entropy()")
    D = cast(StructuralHinge, objective).width()
    if D == 0:
        raise ValueError("schedule: 'theory' has nothing to smooth, as every example has a single output")
    if lam > 0:
        choice: Corollary17 | Corollary19 = Corollary17.for_svrg(accuracy, lam=lam, A=A, D=D, n=objective.n)
    else:
        choice = Corollary19.for_svrg(accuracy, A=A, D=D, n=objective.n)
    return choice, 1.0 / (A / choice.mu + lam + choice.kappa)
