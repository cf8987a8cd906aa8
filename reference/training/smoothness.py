"""Step lengths, found by trials on a few components of a finite sum; and passes of variance reduction with them.

f is L-smooth only if f(w - g/L) <= f(w) - ||g||^2 / (2L), with g its gradient at w. SVRG's step needs the L of the
components, not of their average (Pillutla et al., section 7.3.1, *corrected*: with the L of the average, SVRG diverges
if one component is much more curved than the rest). The first step of stochastic gradients is left open by the paper:
its step schedules (section 7.2) have constants that were tuned by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, epsilon, squared_norm
from reference.optimizers.base import Algorithm, Objective, regularised, traits
from reference.optimizers.casimir import GradientStep
from reference.optimizers.saga import SAGA
from reference.optimizers.sgd import SGD, SGDState
from reference.optimizers.subproblem import InnerPass, Subproblem
from reference.optimizers.svrg import SVRG
from reference.steps import Pegasos
from reference.training.result import not_above

__all__ = ["Backtracking", "Guess", "OffsetSearch"]

TRIED = 32  # components that a guess is tested on in each pass


class Guess(NamedTuple):
    """An estimate of the smoothness.

    L: None before the first pass. guessed: whether the last L was only tested on some components, not proved. calls:
    oracle calls of one example so far.
    """

    L: float | None = None
    guessed: bool = False
    calls: int = 0


@dataclass(frozen=True)
class Backtracking(Algorithm):
    """The step size of each pass: as given, or 1 / (L + curvature) with L found by backtracking on a few components.

    L never exceeds ``objective.smoothness(mu)``, if the objective has such a bound on the smoothness of every
    component. That bound is safe, but may be a hundred times what the data need. A component that needs an L above
    twice ``objective.local_smoothness(mu)`` is at a kink (of the top-K strategy, where ranks tie) and is left out.
    """

    step_size: float | None = None  # None: found

    def propose(
        self, objective: Objective, guess: Guess, w: Array, order: np.ndarray, mu: float | None, curvature: float
    ) -> tuple[float, Guess]:
        """The step size for a pass from w (d,); ``curvature`` is that of the added quadratics, such as lam + kappa.

        A guess is tested on the first examples of the pass. ValueError: no curvature to derive a step size from.
        """
        if self.step_size is not None:
            return self.step_size, guess
        (L, _, calls), batch, properties = guess, order[:TRIED], traits(objective)
        bound = properties.smoothness(mu)
        if L is None:
            L, trial_calls = self.least(objective, w, mu, batch)
            calls += trial_calls
        if bound > L:
            limit = 2 * properties.local_smoothness(mu)
            L, trial_calls = self.find(objective, w, mu, batch, max(L, curvature), limit)
            calls += trial_calls
        L = min(L, bound)
        if not np.isfinite(L):
            raise ValueError("objective: it is smooth for no constant: squares of its gradients overflow")
        if not L + curvature > 0:
            raise ValueError("step_size: no curvature was found at the start and lam = 0; give a step size (and kappa)")
        return 1.0 / (L + curvature), Guess(L, bound > L, calls)

    def judge(self, guess: Guess, value: float, before: float, x: Array) -> tuple[bool, Guess]:
        """Whether a pass to x (d,) is accepted, given its value and the value before it, and the next guess.

        A pass of a guessed step size that increased the value is rejected, and L doubled; else L is halved.
        """
        accepted = not guess.guessed or not_above(value, before, x)
        factor = 0.5 if accepted else 2.0
        return accepted, guess if guess.L is None else guess._replace(L=guess.L * factor)

    def least(self, objective: Objective, w: Array, mu: float | None, batch: np.ndarray) -> tuple[float, int]:
        """A lower bound on the smoothness of a batch's components: the largest change of a gradient over a unit step
        down.

        max_i ||g_i(w - u_i) - g_i(w)||, u_i = g_i / ||g_i||

        Returns the bound, 0 if all gradients are zero or constant, and the oracle calls of one example.
        """
        largest, calls = 0.0, 0
        for i in range(len(batch)):
            one = batch[i : i + 1]
            _, g = objective.value_and_gradient(w, one, mu)
            norm = squared_norm(g) ** 0.5
            calls += 1
            if norm > 0:
                calls += 1
                _, below = objective.value_and_gradient(w - g / norm, one, mu)
                largest = max(largest, squared_norm(below - g) ** 0.5)
        return largest, calls

    def find(
        self, objective: Objective, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
    ) -> tuple[float, int]:
        """The smallest L = start * 2^j, j >= 0, that suffices at w for each example of a batch that is smooth there.

        f_i(w - g_i / L) <= f_i(w) - ||g_i||^2 / (2L) for all i, up to rounding

        Returns L and the oracle calls of one example; L = 0 for a start of 0. An example that needs more than ``limit``
        is at a kink, and is left out. The condition is tested at w (d,) only: L may be too small elsewhere. ValueError:
        no finite L suffices for an example, because its values are not finite.
        """
        L, calls = start, 0
        # the rounding error of a loss grows with its smoothing
        temperature = (traits(objective).mu or 0.0) if mu is None else mu
        for i in range(len(batch)):
            one = batch[i : i + 1]
            value, g = objective.value_and_gradient(w, one, mu)
            square, before = squared_norm(g), L
            slack = rounding(w) * (abs(value) + temperature)
            calls += 1
            while square > 0 and L > 0:
                calls += 1
                if objective.value_and_gradient(w - g / L, one, mu)[0] <= value - square / (2 * L) + slack:
                    break
                L *= 2
                if limit < L:
                    L = before
                    break
                if not np.isfinite(L):
                    raise ValueError(f"objective: example {int(one[0])} of value {value} is smooth for no constant")
        return L, calls


def rounding(w: Array) -> float:
    """The slack for rounding in an inequality between losses at weights like w, relative to the loss plus mu."""
    return 64 * epsilon(w)


@dataclass(frozen=True)
class OffsetSearch(Algorithm):
    """The offset of the default steps ``Pegasos(offset)`` of :class:`SGD`.

    Each candidate makes a trial pass on 2 % of the data. The first step starts at min(1/(lam n), 1) and is halved
    until three times in a row the objective of these examples ends no lower.
    """

    def find(self, objective: Objective, box: SGD, state: SGDState) -> tuple[float, int]:
        """The offset, and the oracle calls of its search."""
        n = objective.n
        some = np.unique(np.linspace(0, n - 1, max(n // 50, 5)).astype(np.int64))
        trial = self.trial(objective, box, state, some)
        offset = max(n, 1.0 / box.lam)
        chosen, lowest, tried = offset, np.inf, 0
        while offset <= 8 * chosen:
            value = trial(offset)
            if value < lowest:
                chosen, lowest = offset, value
            offset, tried = 2.0 * offset, tried + 1
        return chosen, 2 * tried * len(some)

    def trial(self, objective: Objective, box: SGD, state: SGDState, some: np.ndarray) -> Callable[[float], float]:
        """The objective of these examples after a pass over them, as a function of the offset."""

        def value(offset: float) -> float:
            w = replace(box, step_size=Pegasos(offset)).sweep(objective, state, some).x
            return regularised(objective, w, box.lam, box.mu, some)

        return value


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
    """Solves a subproblem of Casimir by one pass of a box if ``epochs`` is None, else by passes until its gradient is
    small enough: (26). Source: Pillutla et al., sections 5.1 and 7.3.1.

    ``epochs`` limits the passes over all subproblems together. A pass with a guessed step size that increases the value
    is rejected; if there is only one pass, the caller has to do that.
    """

    box: InnerPass
    steps: Backtracking
    epochs: int | None

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Spent | None, rng: np.random.Generator
    ) -> tuple[Array, Spent]:
        """See :class:`reference.optimizers.casimir.Inner`."""
        objective, lam, kappa, mu, _ = problem
        guess, passes, calls, _ = memory or Spent()
        snapshot, kept_by_pass = self.box.snapshot(objective, start, mu), None
        value = first = problem.value(start, snapshot.value)
        calls += objective.n
        while True:
            order = rng.permutation(objective.n)
            gamma, guess = self.steps.propose(objective, guess, snapshot.x, order, mu, lam + kappa)
            w, pass_calls, kept = self.box.one_pass(problem, snapshot, order, gamma, kept_by_pass)
            passes, calls = passes + 1, calls + pass_calls
            if self.epochs is None:
                return w, Spent(guess, passes, calls, first)
            after = self.box.snapshot(objective, w, mu)
            after_value, calls = problem.value(w, after.value), calls + objective.n
            accepted, guess = self.steps.judge(guess, after_value, value, w)
            if accepted:
                snapshot, kept_by_pass, value = after, kept, after_value
            if (accepted and problem.solved(snapshot, delta)) or passes == self.epochs:
                return snapshot.x, Spent(guess, passes, calls, first)


INNER: dict[str, InnerPass] = {"svrg": SVRG(), "saga": SAGA(), "gradient": GradientStep()}
