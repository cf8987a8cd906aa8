"""How the subproblems of Casimir are solved in a run: by passes whose step lengths are given or found.

Source: Pillutla et al., (26), sections 5.1 and 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, squared_norm
from reference.optimizers.base import Piece
from reference.optimizers.casimir import GradientStep
from reference.optimizers.saga import SAGA
from reference.optimizers.subproblem import InnerPass, Pass, Snapshot, Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.result import not_above
from reference.training.smoothness import Backtracking, Guess

__all__ = ["INNER", "Searched", "Spent", "searched"]


class Spent(NamedTuple):
    """What goes from one subproblem to the next: the guess of the smoothness; passes made and oracles asked for so far,
    without those of the guess; first: the last subproblem's value where its solver started.
    """

    guess: Guess = Guess()
    passes: int = 0
    calls: int = 0
    first: float = np.inf


@dataclass(frozen=True)
class Searched(Piece):
    """A subproblem is solved by one pass, where ``epochs`` is None; else by as many as make its gradient small enough
    for (26), until so many are spent on all subproblems together.

    There a pass with a guessed step size that ends higher is taken back; after the only pass that is left to the
    caller.
    """

    inner: InnerPass
    steps: Backtracking
    epochs: int | None
    named: Any  # as ``casimir`` was given it

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Spent | None, rng: np.random.Generator
    ) -> tuple[Array, Spent]:
        """See :class:`reference.optimizers.casimir.Inner`."""
        (objective, lam, kappa, mu, _), n, kept_by_pass = problem, problem.objective.n, None
        guess, passes, calls, _ = memory or Spent()
        now = self.inner.snapshot(objective, start, mu)
        first = value = problem.value(now.x, now.value)
        calls += n
        while True:
            order = rng.permutation(n)
            gamma, guess = self.steps.propose(objective, guess, now.x, order, mu, lam + kappa)
            w, asked, remembered = self.inner.one_pass(problem, now, order, gamma, kept_by_pass)
            passes, calls = passes + 1, calls + asked
            if self.epochs is None:
                return w, Spent(guess, passes, calls, first)
            after = self.inner.snapshot(objective, w, mu)
            after_value, calls = problem.value(w, after.value), calls + n
            kept = not guess.guessed or not_above(after_value, value, w)
            guess = self.steps.judge(guess, kept)
            if kept:
                now, value, kept_by_pass = after, after_value, remembered
            small = delta * kappa * (lam + kappa) * squared_norm(now.x - problem.center)
            if (kept and squared_norm(problem.gradient(now)) <= small) or passes == self.epochs:
                return now.x, Spent(guess, passes, calls, first)


@dataclass(frozen=True)
class Theirs(InnerPass):
    """A pass of a user's."""

    function: Pass

    def one_pass(
        self, problem: Subproblem, at: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        answer = self.function(problem, at, order, step_size, memory)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise TypeError(f"inner: expected a pass to return (point, oracles asked for, memory), got {answer!r}")
        return answer


INNER: dict[str, InnerPass] = {"svrg": SVRG(), "saga": SAGA(), "gradient": GradientStep()}


def searched(inner: str | Pass, step_size: float | None, epochs: int | None) -> Searched:
    """What ``casimir`` is asked for, by name or as a function."""
    if not callable(inner) and inner not in tuple(INNER):
        raise ValueError(f"inner: expected one of {', '.join(INNER)}, or a function, got {inner!r}")
    made = Theirs(inner) if callable(inner) else INNER[inner]
    return Searched(made, Backtracking(step_size), epochs, inner)
