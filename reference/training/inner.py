"""Solving the subproblems of Casimir in a run: passes with a given step size, or one found by backtracking.

Source: Pillutla et al., (26), sections 5.1 and 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Algorithm
from reference.optimizers.casimir import GradientStep
from reference.optimizers.saga import SAGA
from reference.optimizers.subproblem import InnerPass, Pass, Snapshot, Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.result import not_above
from reference.training.smoothness import Backtracking, Guess

__all__ = ["INNER", "Searched", "Spent", "searched"]


class Spent(NamedTuple):
    """What one subproblem passes on to the next.

    guess: of the smoothness. passes, calls: passes and oracle calls so far, without those of the guess. first: the
    value of the last subproblem at its starting point.
    """

    guess: Guess = Guess()
    passes: int = 0
    calls: int = 0
    first: float = np.inf


@dataclass(frozen=True)
class Searched(Algorithm):
    """Solves a subproblem by one pass if ``epochs`` is None, else by passes until its gradient is small enough: (26).

    ``epochs`` limits the passes over all subproblems together. A pass with a guessed step size that increases the value
    is rejected; if there is only one pass, the caller has to do that.
    """

    inner: InnerPass
    steps: Backtracking
    epochs: int | None

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Spent | None, rng: np.random.Generator
    ) -> tuple[Array, Spent]:
        """See :class:`reference.optimizers.casimir.Inner`."""
        (objective, lam, kappa, mu, _), n, kept_by_pass = problem, problem.objective.n, None
        guess, passes, calls, _ = memory or Spent()
        snapshot = self.inner.snapshot(objective, start, mu)
        first = value = problem.value(snapshot.x, snapshot.value)
        calls += n
        while True:
            order = rng.permutation(n)
            gamma, guess = self.steps.propose(objective, guess, snapshot.x, order, mu, lam + kappa)
            w, pass_calls, remembered = self.inner.one_pass(problem, snapshot, order, gamma, kept_by_pass)
            passes, calls = passes + 1, calls + pass_calls
            if self.epochs is None:
                return w, Spent(guess, passes, calls, first)
            after = self.inner.snapshot(objective, w, mu)
            after_value, calls = problem.value(w, after.value), calls + n
            kept = not guess.guessed or not_above(after_value, value, w)
            guess = self.steps.judge(guess, kept)
            if kept:
                snapshot, value, kept_by_pass = after, after_value, remembered
            if (kept and problem.solved(snapshot, delta)) or passes == self.epochs:
                return snapshot.x, Spent(guess, passes, calls, first)


@dataclass(frozen=True)
class UserPass(InnerPass):
    """A pass given by the user as a function."""

    function: Pass

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        answer = self.function(problem, snapshot, order, step_size, memory)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise TypeError(f"inner: expected a pass to return (point, oracles asked for, memory), got {answer!r}")
        return answer


INNER: dict[str, InnerPass] = {"svrg": SVRG(), "saga": SAGA(), "gradient": GradientStep()}


def searched(inner: str | Pass, step_size: float | None, epochs: int | None) -> Searched:
    """The solver of subproblems for the argument ``inner`` of ``casimir``, a name or a function."""
    inner_pass = UserPass(inner) if callable(inner) else INNER[inner]
    return Searched(inner_pass, Backtracking(step_size), epochs)
