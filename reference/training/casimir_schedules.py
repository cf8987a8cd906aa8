"""The mu_k, kappa_k, alpha_0 and delta_k of a run of Casimir, with the step size and the stopping rule.

Source: Pillutla et al., Corollaries 17 to 20, Propositions 29 and 31, section 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from reference.arrays import Array
from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.bounds.casimir import Choice
from reference.objectives import StructuralHinge
from reference.optimizers.base import Algorithm, Objective, traits
from reference.training.smoothness import Backtracking, Guess

__all__ = ["LEAST_MU", "Falling", "Plan", "Plans", "balanced"]

LEAST_MU = 1e-10  # the least mu of a decreasing smoothing
MU = 2.0  # the first mu of a decreasing smoothing: the paper's choice for named entities


class Plan(NamedTuple):
    """schedule: lam, alpha_0, kappa_k(k), mu_k(k), delta_k(k); its step size and stopping rule; calls: oracle calls.

    smoothed: whether mu_k is passed to the objective. staged: whether mu is halved, by another call of
    :meth:`Plans.constant`, when the smoothed problem is solved.
    """

    schedule: Choice
    smoothed: bool
    staged: bool
    step_size: float | None
    stop: str
    calls: int

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
    """The options of :func:`casimir` that a plan is made of; a given step size is that of ``steps``."""

    lam: float
    mu: float | None = None
    kappa: float | None = None
    schedule: Any = None
    accuracy: float | None = None
    stop: str = "budget"
    steps: Backtracking = Backtracking()  # noqa: RUF009, frozen

    def plan(self, objective: Objective, start: Array, rng: Any) -> Plan:
        """The plan of a run from ``start`` (d,); ValueError if the options contradict each other."""
        schedule, stop, step_size, properties = self.schedule, self.stop, self.steps.step_size, traits(objective)
        named = schedule is None or schedule == "const"  # these accept objectives without mu
        smoothed = properties.mu is not None or self.mu is not None or not named
        staged, calls = schedule is None and self.mu is None and self.lam > 0 and properties.hinge, 0
        if schedule == "theory":
            self.refuse("schedule='theory' has its own", mu=self.mu, kappa=self.kappa, step_size=step_size)
            schedule, step_size = self.theory(objective)
            stop = "gradient"
        elif named or schedule == "adapt":
            self.refuse("only schedule='theory' takes one", accuracy=self.accuracy)
            schedule, calls = (self.constant if named else self.adaptive)(objective, start, self.mu, rng)
        else:
            self.refuse("the schedule has its own", mu=self.mu, kappa=self.kappa, accuracy=self.accuracy)
        if not all(hasattr(schedule, name) for name in ("lam", "alpha_0", "kappa_k", "mu_k", "delta_k")):
            raise ValueError(
                f"schedule: expected 'const', 'adapt', 'theory' or an object with lam, alpha_0, kappa_k, mu_k, "
                f"delta_k, got {schedule!r}"
            )
        if schedule.lam != self.lam:
            raise ValueError(f"schedule: made for lam = {schedule.lam}, got lam = {self.lam}")
        return Plan(schedule, smoothed, staged, step_size, stop, calls)

    def refuse(self, why: str, **options: Any) -> None:
        """Raise ValueError if one of these options was given."""
        for name, value in options.items():
            if value is not None:
                raise ValueError(f"{name}: {why}, got {value}")

    def constant(
        self, objective: Objective, start: Array, mu: float | None, rng: Any
    ) -> tuple[Corollary17 | Corollary19, int]:
        """Constant mu and kappa, and the oracle calls made; kappa balances outer and inner iterations for the
        smoothness found at the start.
        """
        own_mu = traits(objective).mu
        if mu is None and own_mu is not None:
            mu = float(own_mu) or 1.0
        kappa, calls = self.found_kappa(objective, start, mu, rng)
        smoothing = 0.0 if mu is None else float(mu)
        return (Corollary17(self.lam, kappa, smoothing) if self.lam > 0 else Corollary19(kappa, smoothing)), calls

    def adaptive(
        self, objective: Objective, start: Array, mu: float | None, rng: Any
    ) -> tuple[Falling | Corollary20, int]:
        """Decreasing mu_k, and the oracle calls made; kappa = lam, or for lam = 0 the first kappa of ``constant``."""
        if mu is None and traits(objective).mu is None:
            raise ValueError(
                "schedule: 'adapt' needs something to smooth, such as StructuralHinge(model, data, smoothing=Entropy())"
            )
        mu = MU if mu is None else float(mu)
        if self.lam > 0:
            return Falling(self.lam, self.lam if self.kappa is None else self.kappa, mu), 0
        kappa, calls = self.found_kappa(objective, start, mu, rng)
        return Corollary20(kappa, mu), calls

    def found_kappa(self, objective: Objective, start: Array, mu: float | None, rng: Any) -> tuple[float, int]:
        """The given kappa, or :func:`balanced` for the smoothness found at the start; and the oracle calls made."""
        if self.kappa is not None:
            return self.kappa, 0
        n, search = objective.n, replace(self.steps, step_size=None)
        with np.errstate(over="ignore", invalid="ignore"):
            step, guess = search.propose(objective, Guess(), start, rng.permutation(n), mu, self.lam)
            L = 1.0 / step - self.lam
        return balanced(L, self.lam, n), guess.calls

    def theory(self, objective: Objective) -> tuple[Corollary17 | Corollary19, float]:
        """The constants of Proposition 29 (31 if lam = 0) and the step size 1 / (A/mu + lam + kappa)."""
        lam, accuracy = self.lam, self.accuracy
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


def balanced(L: float, lam: float, n: int) -> float:
    """kappa of Proposition 29 (31 if lam = 0) for n components of smoothness L."""
    if lam == 0:
        return L / (n + 1)
    return L / n - lam if L / n > 4 * lam else lam
