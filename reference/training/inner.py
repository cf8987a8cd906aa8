"""Passes of variance reduction in a run, with a given step size or one found by backtracking; and the solving of the
subproblems of Casimir by them.

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
from reference.training.smoothness import Backtracking, Guess

__all__ = ["INNER", "Searched", "Spent", "Stage", "Staged", "searched"]


class Stage(NamedTuple):
    """Where a pass starts: the snapshot, the guess of the smoothness, and what the last pass remembers."""

    snapshot: Snapshot
    guess: Guess = Guess()
    memory: Any = None


@dataclass(frozen=True)
class Staged(Algorithm):
    """Passes of a box from snapshot to snapshot, each with a step size that is found for it."""

    box: InnerPass
    steps: Backtracking

    def one_pass(self, problem: Subproblem, stage: Stage, rng: np.random.Generator) -> tuple[Array, int, Stage]:
        """A pass over the examples in a random order: the new point (d,), the oracle calls, and the stage with what the
        pass found and remembers.
        """
        (objective, lam, kappa, mu, _), (snapshot, guess, memory) = problem, stage
        order = rng.permutation(objective.n)
        gamma, guess = self.steps.propose(objective, guess, snapshot.x, order, mu, lam + kappa)
        w, calls, memory = self.box.one_pass(problem, snapshot, order, gamma, memory)
        return w, calls, Stage(snapshot, guess, memory)

    def next(self, problem: Subproblem, before: Stage, stage: Stage, after: Snapshot) -> tuple[bool, Stage]:
        """Whether the pass from ``before`` to the snapshot ``after`` is accepted, and where the next one starts."""
        values = problem.value(after.x, after.value), problem.value(before.snapshot.x, before.snapshot.value)
        accepted, guess = self.steps.judge(stage.guess, *values, after.x)
        return accepted, Stage(after, guess, stage.memory) if accepted else before._replace(guess=guess)


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
class Searched(Staged):
    """Solves a subproblem by one pass if ``epochs`` is None, else by passes until its gradient is small enough: (26).

    ``epochs`` limits the passes over all subproblems together. A pass with a guessed step size that increases the value
    is rejected; if there is only one pass, the caller has to do that.
    """

    epochs: int | None

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Spent | None, rng: np.random.Generator
    ) -> tuple[Array, Spent]:
        """See :class:`reference.optimizers.casimir.Inner`."""
        objective, mu = problem.objective, problem.mu
        guess, passes, calls, _ = memory or Spent()
        stage = Stage(self.box.snapshot(objective, start, mu), guess)
        first, calls = problem.value(start, stage.snapshot.value), calls + objective.n
        while True:
            w, pass_calls, tried = self.one_pass(problem, stage, rng)
            passes, calls = passes + 1, calls + pass_calls
            if self.epochs is None:
                return w, Spent(tried.guess, passes, calls, first)
            accepted, stage = self.next(problem, stage, tried, self.box.snapshot(objective, w, mu))
            calls += objective.n
            if (accepted and problem.solved(stage.snapshot, delta)) or passes == self.epochs:
                return stage.snapshot.x, Spent(stage.guess, passes, calls, first)


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
    return Searched(UserPass(inner) if callable(inner) else INNER[inner], Backtracking(step_size), epochs)
