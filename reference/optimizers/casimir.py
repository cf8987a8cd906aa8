"""Casimir: accelerated proximal-point steps on a smoothed objective.

min_w F(w) + lam/2 ||w||^2, F = mean_i max_y (...), by a sequence of smoothed, re-centred problems

    F_{mu,kappa}(w; z) = F_mu(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2,   w_k ~ argmin F_{mu_k,kappa_k}(.; z_{k-1}),
    z_k = w_k + beta_k (w_k - w_{k-1})

Source: Pillutla et al., Algorithm 4 and section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from reference.arrays import Array
from reference.bounds import momentum, next_alpha
from reference.bounds.casimir import Choice
from reference.optimizers.base import Algorithm, Objective
from reference.optimizers.subproblem import InnerPass, Snapshot, Subproblem

__all__ = ["Casimir", "CasimirState", "GradientStep", "Inner", "OnePass", "UntilAccurate"]


class CasimirState(NamedTuple):
    """After k outer iterations: w_k, z_k and z_{k-1} (d,), alpha_k, k, and the memory of the inner solver."""

    w: Array
    z: Array
    center: Array
    alpha: float
    k: int
    memory: Any = None


class Inner(Protocol):
    """A solver of subproblems."""

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Any, rng: np.random.Generator
    ) -> tuple[Array, Any]:
        """A point (d,), reached from ``start`` (d,), and the memory for the next subproblem.

        (26) holds with delta at that point, unless a budget was spent first.
        """
        ...


@dataclass(frozen=True)
class Casimir(Algorithm):
    """Algorithm 4, on a hinge with a smoothing or any smooth objective; :func:`reference.casimir` returns its ``w``.

    schedule: lam, alpha_0, kappa_k(k), mu_k(k), delta_k(k), such as ``Corollary17`` to ``Corollary20``. inner: the
    solver of subproblems, such as ``OnePass(SVRG(), step_size)``. warm_start: "center", "last" or "extrapolated".

    Examples
    --------
    >>> import numpy as np
    >>> from reference import MulticlassModel, StructuralHinge, algorithms, smoothings
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> hinge = StructuralHinge(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]), smoothing=smoothings.Entropy())
    >>> schedule = algorithms.Corollary17(lam=0.1, kappa=0.1, mu=1.0)
    >>> casimir = algorithms.Casimir(schedule, algorithms.OnePass(algorithms.SVRG(), step_size=0.5))
    >>> rng, state = np.random.default_rng(0), casimir.init(hinge, hinge.zeros())
    >>> for _ in range(10):
    ...     state = casimir.epoch(hinge, state, rng)  # step into this
    >>> state.k, [round(float(w), 2) for w in state.w]
    (10, [0.53, -0.53, -1.43, 1.43])
    """

    schedule: Choice
    inner: Inner
    warm_start: str = "center"

    def init(self, objective: Objective, w0: Array) -> CasimirState:
        return CasimirState(w0, w0, w0, self.schedule.alpha_0, 0)

    def epoch(self, objective: Objective, state: CasimirState, rng: np.random.Generator) -> CasimirState:
        """One outer iteration."""
        schedule, k = self.schedule, state.k + 1
        lam, mu, delta = schedule.lam, schedule.mu_k(k), schedule.delta_k(k)
        kappa, kappa_next = schedule.kappa_k(k), schedule.kappa_k(k + 1)
        problem = Subproblem(objective, lam, kappa, mu, state.z)  # (25)
        w, memory = self.inner.minimize(problem, self.warm(state, problem), delta, state.memory, rng)  # (26)
        alpha = next_alpha(state.alpha, lam, kappa, kappa_next)  # (27)
        beta = momentum(state.alpha, alpha, lam, kappa, kappa_next)  # (29)
        z = w + beta * (w - state.w)  # (28)
        return CasimirState(w, z, state.z, alpha, k, memory)

    def warm(self, state: CasimirState, problem: Subproblem) -> Array:
        """The starting point (d,) of a subproblem (section 7.3.1)."""
        if self.warm_start == "center":
            return state.z
        if self.warm_start == "last":
            return state.w
        return state.w + problem.kappa / (problem.kappa + problem.lam) * (state.z - state.center)


@dataclass(frozen=True)
class OnePass(Algorithm):
    """Solves a subproblem by one pass with a constant step size (section 7.3.1); delta is not used."""

    inner: InnerPass
    step_size: float

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: Any, rng: np.random.Generator
    ) -> tuple[Array, Any]:
        snapshot = self.inner.snapshot(problem.objective, start, problem.mu)
        w, _, _ = self.inner.one_pass(problem, snapshot, rng.permutation(problem.objective.n), self.step_size, None)
        return w, None


@dataclass(frozen=True)
class UntilAccurate(Algorithm):
    """Solves a subproblem by passes with a constant step size until (26) holds, at most ``passes`` in all.

    The memory is the number of passes so far.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import MulticlassModel, StructuralHinge, algorithms, casimir, smoothings
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> hinge = StructuralHinge(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]), smoothing=smoothings.Entropy())
    >>> inner = algorithms.UntilAccurate(algorithms.SVRG(), step_size=0.5)
    >>> box = algorithms.Casimir(algorithms.Corollary17(lam=0.1, kappa=0.1, mu=1.0), inner)
    >>> rng, state = np.random.default_rng(0), box.init(hinge, hinge.zeros())
    >>> for _ in range(3):
    ...     state = box.epoch(hinge, state, rng)
    >>> options = {"stop": "gradient", "step_size": 0.5, "epochs": state.memory, "rng": 0}
    >>> run = casimir(hinge, lam=0.1, kappa=0.1, mu=1.0, **options)  # the same, with checks and a history
    >>> run.nit, bool(np.allclose(run.x, state.w))
    (3, True)
    """

    inner: InnerPass
    step_size: float
    passes: int = 10_000

    def minimize(
        self, problem: Subproblem, start: Array, delta: float, memory: int | None, rng: np.random.Generator
    ) -> tuple[Array, int]:
        objective, mu, passes, kept_by_pass = problem.objective, problem.mu, memory or 0, None
        snapshot = self.inner.snapshot(objective, start, mu)
        while passes < self.passes:
            order = rng.permutation(objective.n)
            w, _, kept_by_pass = self.inner.one_pass(problem, snapshot, order, self.step_size, kept_by_pass)
            snapshot, passes = self.inner.snapshot(objective, w, mu), passes + 1
            if problem.solved(snapshot, delta):
                break
        return snapshot.x, passes


@dataclass(frozen=True)
class GradientStep(InnerPass):
    """One step of full gradient descent, as an inner pass of Casimir; the snapshot holds the gradient."""

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Any
    ) -> tuple[Array, int, Any]:
        return snapshot.x - step_size * problem.gradient(snapshot), 0, None
