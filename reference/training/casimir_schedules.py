"""The mu_k, kappa_k, alpha_0 and delta_k of a run of Casimir, with the step size and the stopping rule.

Source: Pillutla et al., Corollaries 17 to 20, Propositions 29 and 31, section 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from reference.arrays import Array
from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.bounds.casimir import Choice
from reference.objectives import StructuralHinge
from reference.optimizers.base import Objective, traits
from reference.training.smoothness import Backtracking, Guess

__all__ = ["LEAST_MU", "Falling", "Plan", "adaptive", "constant", "plan_of"]

LEAST_MU = 1e-10  # the least mu of a decreasing smoothing
MU = 2.0  # the first mu of a decreasing smoothing: the paper's choice for named entities


class Plan(NamedTuple):
    """schedule: lam, alpha_0, kappa_k(k), mu_k(k), delta_k(k); its step size and stopping rule; calls: oracle calls.

    smoothed: whether mu_k is passed to the objective. staged: whether mu is halved, by another call of
    :func:`constant`, when the smoothed problem is solved.
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

    @property
    def lam(self) -> float:
        """As the schedule has it."""
        return self.schedule.lam

    @property
    def alpha_0(self) -> float:
        """As the schedule has it."""
        return self.schedule.alpha_0

    def kappa_k(self, k: int) -> float:
        """As the schedule has it."""
        return self.schedule.kappa_k(k)

    def delta_k(self, k: int) -> float:
        """As the schedule has it."""
        return self.schedule.delta_k(k)


def plan_of(
    objective: Objective,
    start: Array,
    schedule: Any,
    *,
    lam: float,
    mu: float | None,
    kappa: float | None,
    accuracy: float | None,
    step_size: float | None,
    stop: str,
    rng: np.random.Generator | None,
    steps: Backtracking,
) -> Plan:
    """The plan of a ``schedule`` and the other arguments of ``casimir``; ValueError if they contradict each other."""
    named = schedule is None or schedule == "const"  # these accept objectives without mu
    properties = traits(objective)
    smoothed = properties.mu is not None or mu is not None or not named
    staged, calls = False, 0
    if schedule == "theory":
        _refuse("schedule='theory' has its own", mu=mu, kappa=kappa, step_size=step_size)
        schedule, step_size = _theory(objective, lam, accuracy)
        stop = "gradient"
    elif schedule == "adapt":
        _refuse("only schedule='theory' takes one", accuracy=accuracy)
        schedule, calls = adaptive(objective, start, lam, mu, kappa, rng, steps)
    elif schedule is None or schedule == "const":
        _refuse("only schedule='theory' takes one", accuracy=accuracy)
        staged = schedule is None and mu is None and lam > 0 and properties.hinge
        schedule, calls = constant(objective, start, lam, mu, kappa, rng, steps)
    else:
        _refuse("the schedule has its own", mu=mu, kappa=kappa, accuracy=accuracy)
    if not all(hasattr(schedule, name) for name in ("lam", "alpha_0", "kappa_k", "mu_k", "delta_k")):
        raise ValueError(
            f"schedule: expected 'const', 'adapt', 'theory' or an object with lam, alpha_0, kappa_k, mu_k, delta_k, "
            f"got {schedule!r}"
        )
    if schedule.lam != lam:
        raise ValueError(f"schedule: made for lam = {schedule.lam}, got lam = {lam}")
    return Plan(schedule, smoothed, staged, step_size, stop, calls)


def constant(
    objective: Objective, start: Array, lam: float, mu: float | None, kappa: float | None, rng: Any, steps: Backtracking
) -> tuple[Corollary17 | Corollary19, int]:
    """Constant mu and kappa, and the oracle calls made; kappa balances outer and inner iterations for the smoothness
    found at the start.
    """
    own_mu = traits(objective).mu
    if mu is None and own_mu is not None:
        mu = float(own_mu) or 1.0
    calls = 0
    if kappa is None:
        kappa, calls = _balanced(objective, start, lam, mu, rng, steps)
    smoothing = 0.0 if mu is None else float(mu)
    return (Corollary17(lam, kappa, smoothing) if lam > 0 else Corollary19(kappa, smoothing)), calls


@dataclass(frozen=True)
class Falling(Corollary18):
    """Corollary 18 with mu_k >= LEAST_MU."""

    def mu_k(self, k: int) -> float:
        """max(mu eta^{k/2}, LEAST_MU)."""
        return max(super().mu_k(k), min(self.mu, LEAST_MU))


def adaptive(
    objective: Objective, start: Array, lam: float, mu: float | None, kappa: float | None, rng: Any, steps: Backtracking
) -> tuple[Falling | Corollary20, int]:
    """Decreasing mu_k, and the oracle calls made; kappa = lam, or for lam = 0 the first kappa of :func:`constant`."""
    if mu is None and traits(objective).mu is None:
        raise ValueError(
            "schedule: 'adapt' needs something to smooth, such as StructuralHinge(model, data, smoothing=Entropy())"
        )
    mu, calls = MU if mu is None else float(mu), 0
    if lam > 0:
        return Falling(lam, lam if kappa is None else kappa, mu), 0
    if kappa is None:
        kappa, calls = _balanced(objective, start, lam, mu, rng, steps)
    return Corollary20(kappa, mu), calls


def _balanced(
    objective: Objective, start: Array, lam: float, mu: float | None, rng: Any, steps: Backtracking
) -> tuple[float, int]:
    """kappa of Proposition 29 (31 if lam = 0) for the smoothness found at the start, and the oracle calls made."""
    n = objective.n
    with np.errstate(over="ignore", invalid="ignore"):
        step, guess = steps.propose(objective, Guess(), start, rng.permutation(n), mu, lam)
        L = 1.0 / step - lam
    if lam == 0:
        return L / (n + 1), guess.calls
    return L / n - lam if L / n > 4 * lam else lam, guess.calls


def _theory(objective: Objective, lam: float, accuracy: float | None) -> tuple[Corollary17 | Corollary19, float]:
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


def _refuse(why: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {why}, got {value}")
