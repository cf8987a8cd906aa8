"""Inner solvers of the Casimir algorithm: what minimises a subproblem, smoothed and re-centred.

F_{mu,kappa}(w; z) = F_mu(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2

A solver is a function that makes one pass, of the signature of :data:`Pass`; :func:`solve` makes one, or goes on until the point is good
enough. Source: Pillutla et al., (23) to (26), sections 5.1 and 7.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, squared_norm
from reference.optimizers import saga
from reference.optimizers.result import not_above
from reference.optimizers.smoothness import ComponentSteps
from reference.optimizers.svrg import Snapshot, epoch, full_gradient, snapshot

__all__ = ["INNER", "Pass", "Solved", "Subproblem", "gradient_step", "saga_pass", "solve", "svrg_pass"]


class Subproblem(NamedTuple):
    """F_{mu,kappa}(.; z): the objective, lam, kappa, mu and the center z (d,)."""

    objective: Any
    lam: float
    kappa: float
    mu: float | None
    center: Array

    def value(self, w: Array, smoothed: float) -> float:
        """F_{mu,kappa}(w; z), given F_mu(w)."""
        return smoothed + 0.5 * self.lam * squared_norm(w) + 0.5 * self.kappa * squared_norm(w - self.center)

    def gradient(self, at: Snapshot) -> Array:
        """Its gradient (d,), given that of F_mu."""
        return at.gradient + self.lam * at.x + self.kappa * (at.x - self.center)


# A pass from ``at``, over the examples in the given order, with steps of the given size: pass(problem, at, order, step_size, memory)
# gives the new point (d,), how many oracles of one example it asked for, and what the next pass of the subproblem is handed as memory
# (the first is handed None).
Pass = Callable[[Subproblem, Snapshot, np.ndarray, float, Any], tuple[Array, int, Any]]


class Solved(NamedTuple):
    """A subproblem's point w (d,), its value where the solver started, passes made, oracles asked for."""

    w: Array
    first: float
    passes: int
    calls: int


def solve(
    problem: Subproblem,
    start: Array,
    inner: str | Pass,
    limit: int,
    delta: float | None,
    steps: ComponentSteps,
    rng: np.random.Generator,
) -> Solved:
    """Minimise a subproblem: one pass if delta is None, else until its gradient is small enough for (26), or ``limit`` passes.

    A pass with a guessed step size that ends higher is taken back (with delta None that is left to the caller).
    """
    objective, n = problem.objective, problem.objective.n
    run = INNER[inner] if isinstance(inner, str) else inner
    look = snapshot if run in KEEPING else full_gradient
    now, memory = look(objective, start, problem.mu), None
    first = value = problem.value(now.x, now.value)
    passes, calls = 0, n
    while True:
        order = rng.permutation(n)
        answer = run(problem, now, order, steps.at(now.x, order), memory)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise TypeError(f"inner: expected a pass to return (point, oracles asked for, memory), got {answer!r}")
        x, asked, remembered = answer
        passes, calls = passes + 1, calls + asked
        if delta is None:
            return Solved(x, first, passes, calls)
        after = look(objective, x, problem.mu)
        calls += n
        after_value = problem.value(x, after.value)
        kept = not steps.guessed or not_above(after_value, value, x)
        steps.judge(kept)
        if kept:
            now, value, memory = after, after_value, remembered
        small = delta * problem.kappa * (problem.lam + problem.kappa) * squared_norm(now.x - problem.center)
        if (kept and squared_norm(problem.gradient(now)) <= small) or passes == limit:
            return Solved(now.x, first, passes, calls)


def svrg_pass(
    problem: Subproblem, at: Snapshot, order: np.ndarray, step_size: float, memory: Any
) -> tuple[Array, int, Any]:
    """A pass of SVRG: a step for each example, with the full gradient at ``at`` to take out the noise."""
    run = getattr(problem.objective, "fused_epoch", lambda name: None)("svrg") or epoch
    _, lam, kappa, mu, center = problem
    x = run(
        at, problem.objective, order, step_size=step_size, lam=lam, kappa=kappa, center=center, mu=mu, average="last"
    )
    return x, len(order), None


def saga_pass(
    problem: Subproblem, at: Snapshot, order: np.ndarray, step_size: float, memory: Any
) -> tuple[Array, int, Any]:
    """A pass of SAGA: a step for each example, with the table of last gradients as memory."""
    run = getattr(problem.objective, "fused_epoch", lambda name: None)("saga") or saga.epoch
    objective, lam, kappa, mu, center = problem
    x, table = run(at, memory, objective, order, step_size=step_size, lam=lam, kappa=kappa, center=center, mu=mu)
    return x, len(order), table


def gradient_step(
    problem: Subproblem, at: Snapshot, order: np.ndarray, step_size: float, memory: Any
) -> tuple[Array, int, Any]:
    """One step down the full gradient, which ``at`` has."""
    return at.x - step_size * problem.gradient(at), 0, None


INNER: dict[str, Pass] = {"svrg": svrg_pass, "saga": saga_pass, "gradient": gradient_step}
KEEPING: tuple[Pass, ...] = (svrg_pass, saga_pass)  # these make use of what a snapshot keeps
