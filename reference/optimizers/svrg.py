"""SVRG: stochastic gradients, with variance reduced by one full gradient a pass.

min_w F(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2 with a smooth finite sum F = (1/n) sum_i f_i. A pass starts from a
snapshot s and its full gradient, and takes one step for each example of a random order:

    v_i(w) = grad f_i(w) - grad f_i(s) + grad F(s)
    w <- [w - gamma v_i(w) + gamma kappa z] / [1 + gamma (lam + kappa)]

The step is implicit in the quadratics (a proximal step). kappa = 0 is SVRG itself; Casimir (Pillutla et al.,
Algorithm 4) solves its subproblems (25) with kappa > 0. Source: Johnson and Zhang (2013); Pillutla et al., sections
5.3, 7.2 and 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.optimizers.subproblem import InnerPass, Snapshot, Subproblem

__all__ = ["SVRG"]


@dataclass(frozen=True)
class SVRG(InnerPass):
    """Variance-reduced steps of a constant size, on a smooth objective; a state is a :class:`Snapshot`.

    :func:`reference.svrg` describes lam, mu and average. As an inner pass of Casimir write ``SVRG()``: lam, mu and the
    step size then come from Casimir.
    """

    lam: float = 0.0
    step_size: float = 1.0
    mu: float | None = None
    average: str = "last"

    def init(self, objective: Objective, w0: Array) -> Snapshot:
        return self.snapshot(objective, w0, self.mu)

    def epoch(self, objective: Objective, s: Snapshot, rng: np.random.Generator) -> Snapshot:
        """The snapshot after one pass from ``s``, in a new random order."""
        problem = Subproblem(objective, self.lam, 0.0, self.mu, None)
        w = self.sweep(problem, s, s.x, rng.permutation(objective.n), self.step_size)
        return self.snapshot(objective, w, self.mu)

    def sweep(self, problem: Subproblem, s: Snapshot, w: Array, order: np.ndarray, gamma: float) -> Array:
        """A step from w (d,) for each example in ``order``; returns the last iterate or the iterates' mean (d,)."""
        objective, mu, mean = problem.objective, problem.mu, w
        for t in range(len(order)):
            one = order[t : t + 1]
            _, g = objective.value_and_gradient(w, one, mu)
            _, g_s = objective.value_and_gradient(s.x, one, mu)
            v = g - g_s + s.gradient  # its mean over all examples is grad F(w), its variance at w = s is 0
            w = problem.prox(w - gamma * v, gamma)
            mean = mean + (w - mean) / (t + 1)
        return w if self.average == "last" else mean

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        return self.sweep(problem, snapshot, snapshot.x, order, step_size), len(order), None
