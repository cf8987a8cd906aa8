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
    """A snapshot, and what the oracles answered there."""

    x: Array
    value: float
    gradient: Array
    kept: Any


def kept_of(snapshot: Any) -> Any:
    """What the oracles answered; nothing of a plain snapshot."""
    return getattr(snapshot, "kept", None) or nothing()


class SVRG(reference.SVRG):
    # Answers of a snapshot's oracles are kept where they take no more than 256 MB: of sequences by entropy 8 L bytes a
    # position and 8 L^2 an example, of K best outputs 8 K a position; of candidates 16 for each that has weight.

    def snapshot(self, objective: Objective, x: Array, mu: float | None) -> Snapshot:
        known: Any = objective
        temperature = known._mu(mu)
        problem = problem_of(known, temperature)
        check_weights(known.model, x, known._like)
        kept = nothing() if problem is None else room_for(problem)
        if len(kept.outputs) == 0 or not finite(x):
            return super().snapshot(objective, x, mu)
        value, gradient, *_ = known._kept(x, np.arange(known.n), temperature, kept)
        return Remembered(x, value / known.n, gradient / known.n, kept)  # type: ignore[return-value]

    def sweep(self, problem: Subproblem, s: Snapshot, order: np.ndarray, gamma: float) -> Array:
        objective, lam, kappa, mu, center = problem
        known: Any = objective
        packed, model, mu = problem_of(known, known._mu(mu)), known.model, known._mu(mu)
        x, gradient = view("w0", s.x), view("gradient", s.gradient)
        pull = -gradient if center is None else kappa * view("center", center) - gradient
        if packed is None or len(order) == 0 or not finite(x, pull):
            return super().sweep(problem, s, order, gamma)
        a, averaged = 1.0 / (1.0 + gamma * (lam + kappa)), self.average != "last"
        start, shift, w = (model.padded(v) for v in (x, a * gamma * pull, x))
        sums, steps = zeros_like(w, any=averaged), Steps(order, gamma, a, averaged)
        svrg_epoch(packed, touched_of(known), steps, mu, kept_of(s), start, shift, w, sums)
        return like(model.flat(*sums) / len(order) if averaged else model.flat(*w), s.x)
