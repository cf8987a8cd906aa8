"""Stochastic gradients: an epoch as one call of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import reference.optimizers.sgd as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.sgd import Rounds, sgd_epoch
from accelerated.models.dense import DenseWeights
from accelerated.problems import finds_itself, finite, problem_of
from reference.optimizers.base import Objective, traits
from reference.optimizers.sgd import SGDState

__all__ = ["SGD", "SGDState"]


class SGD(reference.SGD):
    @classmethod
    def fits(cls, box: reference.SGD, objective: Any) -> bool:
        """One example at a time; weights that must be >= 0 only where all weights are dense."""
        free = objective.nonnegative is None or isinstance(objective.model, DenseWeights)
        return box.batch_size == 1 and free and finds_itself(objective)

    def sweep(self, objective: Objective, state: SGDState, order: np.ndarray) -> SGDState:
        return compiled_sweep(self, objective, state, order) or super().sweep(objective, state, order)


def compiled_sweep(box: Any, objective: Any, state: SGDState, order: np.ndarray) -> SGDState | None:
    """The steps of these examples as one call of a kernel; None where there is no kernel."""
    lam, steps, mu, model = box.lam, steps_of(box, state, order, box.lam), objective._mu(box.mu), objective.model
    problem = problem_of(objective, mu)
    scalable = np.all(steps * lam < 1) or not getattr(model, "restricted", False)  # the kernel also scales -inf
    if problem is None or not (finite(state.x) and scalable):
        return None
    (w, mean), where = (model.padded(view("w", x)) for x in (state.x, state.mean)), traits(objective).nonnegative
    signed = (0, 0) if where is None else (where.start, where.stop)
    rounds = Rounds(order, steps, *shares_of(box.average, state.t, len(order)))
    sgd_epoch(problem, rounds, lam, mu, w, mean, signed, np.arange(len(w.rows), dtype=np.uint32))
    x, mean_x = (like(model.flat(*each), state.x) for each in (w, mean))
    return SGDState(x, mean_x, state.t + len(order))


def steps_of(box: Any, state: Any, order: np.ndarray, lam: float) -> np.ndarray:
    """The step sizes of the coming rounds, one for each example."""
    steps: np.ndarray = box.step_size(np.arange(state.t + 1, state.t + 1 + len(order)), lam)
    return steps


def shares_of(average: str, done: int, n: int) -> tuple[np.ndarray, float]:
    """The weights of the iterates after steps done+1..done+n in the average, and the sum of the earlier weights."""
    if average == "last":
        return np.eye(1, n, n - 1)[0], 0.0
    if average == "uniform":
        return np.ones(n), float(done)
    return np.arange(done + 1.0, done + n + 1.0), done * (done + 1) / 2
