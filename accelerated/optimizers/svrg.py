"""Variance-reduced steps: a pass as one call of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import reference.optimizers.svrg as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.svrg import Steps, svrg_epoch
from accelerated.compiled.problems.answers import nothing, room_for
from accelerated.compiled.problems.weights import zeros_like
from accelerated.problems import finite, problem_of, touched_of
from reference.arrays import Array
from reference.models.base import check_weights
from reference.optimizers.base import Objective
from reference.optimizers.subproblem import Snapshot, Subproblem

__all__ = ["SVRG"]


class Remembered(NamedTuple):
    """A snapshot, and the oracles' answers there."""

    x: Array
    value: float
    gradient: Array
    kept: Any


def kept_of(snapshot: Any) -> Any:
    """The oracles' answers; empty for a plain snapshot."""
    return getattr(snapshot, "kept", None) or nothing()


class SVRG(reference.SVRG):
    # The oracles' answers at a snapshot are kept if they take at most 256 MB: for sequences by entropy 8 L bytes a
    # position and 8 L^2 an example, for K best outputs 8 K a position, for candidates 16 for each that has weight.

    def snapshot(self, objective: Objective, x: Array, mu: float | None) -> Snapshot:
        target: Any = objective
        temperature = target._mu(mu)
        problem = problem_of(target, temperature)
        check_weights(target.model, x, target._like)
        kept = nothing() if problem is None else room_for(problem)
        if len(kept.outputs) == 0 or not finite(x):
            return super().snapshot(objective, x, mu)
        value, gradient, *_ = target._kept(x, np.arange(target.n), temperature, kept)
        return Remembered(x, value / target.n, gradient / target.n, kept)  # type: ignore[return-value]

    def sweep(self, problem: Subproblem, s: Snapshot, w: Array, order: np.ndarray, gamma: float) -> Array:
        objective, lam, kappa, mu, center = problem
        target: Any = objective
        packed, model, mu = problem_of(target, target._mu(mu)), target.model, target._mu(mu)
        w, x, gradient = view("w", w), view("w0", s.x), view("gradient", s.gradient)
        pull = -gradient if center is None else kappa * view("center", center) - gradient
        if packed is None or len(order) == 0 or not finite(w, x, pull):
            return super().sweep(problem, s, w, order, gamma)
        a, averaged = 1.0 / (1.0 + gamma * (lam + kappa)), self.average != "last"
        start, shift, weights = (model.padded(v) for v in (x, a * gamma * pull, w))
        sums, steps = zeros_like(weights, any=averaged), Steps(order, gamma, a, averaged)
        svrg_epoch(packed, touched_of(target, packed), steps, mu, kept_of(s), start, shift, weights, sums)
        return like(model.flat(*sums) / len(order) if averaged else model.flat(*weights), s.x)
