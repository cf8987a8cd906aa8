"""Counterparts of boxes over packed sequences, their passes as kernels.

Each answers as the reference's does, and falls back to it where there is no kernel: a smoothing of the user's, weights that are not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.epochs.backtracking import try_components
from accelerated.compiled.epochs.bcfw import bcfw_pass
from accelerated.compiled.epochs.bcfw_sets import with_room, working_sets
from accelerated.compiled.epochs.exponentiated_gradient import eg_epoch, no_points
from accelerated.compiled.epochs.saga import Answers, saga_epoch, saga_table
from accelerated.compiled.epochs.sgd import sgd_epoch
from accelerated.compiled.epochs.svrg import svrg_epoch
from accelerated.compiled.problems.answers import Kept, nothing, room_for
from reference.arrays import Array
from reference.models.base import check_weights
from reference.optimizers import bcfw, exponentiated_gradient, saga, sgd, svrg
from reference.optimizers.bcfw import BCFWState
from reference.optimizers.exponentiated_gradient import EGState
from reference.optimizers.sgd import SGDState
from reference.training import smoothness
from reference.training.smoothness import rounding

__all__ = ["BCFW", "SAGA", "SGD", "SVRG", "Backtracking", "ExponentiatedGradient", "Remembered", "kept_of", "steps_of"]


@dataclass(frozen=True)
class SGD(sgd.SGD):
    @classmethod
    def fits(cls, box: sgd.SGD, objective: Any) -> bool:
        """One example at a time; the loops let all weights go free."""
        return box.batch_size == 1 and objective.nonnegative is None

    def sweep(self, objective: Any, state: SGDState, order: np.ndarray) -> SGDState:
        lam, mu, average, steps = self.lam, self.mu, self.average, steps_of(self, state, order, self.lam)
        problem = objective._problem(objective._mu(mu))
        finite = np.all(np.isfinite(view("w0", state.x)))
        kept = np.all(steps * lam < 1) or not getattr(
            objective.model, "restricted", False
        )  # the kernel scales -inf too
        if problem is None or not (finite and kept):
            return super().sweep(objective, state, order)
        (W, A), (mean_W, mean_A) = (objective.model.padded(view("w", w)) for w in (state.x, state.mean))
        weights, weighed = _weights(average, state.t, len(order))
        sgd_epoch(problem, order, steps, weights, weighed, lam, objective._mu(mu), W, A, mean_W, mean_A)
        return SGDState(
            like(objective.model.flat(W, A), state.x),
            like(objective.model.flat(mean_W, mean_A), state.x),
            state.t + len(order),
        )


class Remembered(NamedTuple):
    """A snapshot, and what the oracles answered there."""

    x: Array
    value: float
    gradient: Array
    kept: Any


def kept_of(snapshot: Any) -> Any:
    """What the oracles answered; None of a plain snapshot."""
    return getattr(snapshot, "kept", None)


@dataclass(frozen=True)
class SVRG(svrg.SVRG):
    """Keeps the answers of a snapshot's oracles, where they take no more than 256 MB.

    Entropy: 8 L bytes a position and 8 L^2 an example; K best outputs: 8 K a position.
    """

    def snapshot(self, objective: Any, x: Array, mu: float | None) -> Any:
        problem = objective._problem(objective._mu(mu))
        check_weights(objective.model, x, objective._like)
        kept = nothing() if problem is None else room_for(problem, objective.model.n_labels)
        if len(kept.outputs) == 0 or not np.all(np.isfinite(view("w0", x))):
            return super().snapshot(objective, x, mu)
        value, gradient, *_ = objective._swept(x, np.arange(objective.n), objective._mu(mu), kept)
        return Remembered(x, value / objective.n, gradient / objective.n, kept)

    def sweep(self, asked: Any, start: Any, order: np.ndarray, gamma: float) -> Array:
        objective, lam, kappa, mu, center = asked
        problem = objective._problem(objective._mu(mu))
        x, gradient = view("w0", start.x), view("gradient", start.gradient)
        pull = -gradient if center is None else kappa * view("center", center) - gradient
        if problem is None or len(order) == 0 or not np.all(np.isfinite(x) & np.isfinite(pull)):
            return super().sweep(asked, start, order, gamma)
        a = 1.0 / (1.0 + gamma * (lam + kappa))
        (X, X_A), (b, b_A), (W, A) = (objective.model.padded(v) for v in (x, a * gamma * pull, x))
        averaged = self.average != "last"
        sums = (np.zeros_like(W), np.zeros_like(A)) if averaged else (W[:0], A[:0])
        kept = kept_of(start) or nothing()
        options = (order, gamma, a, objective._mu(mu), averaged, kept)
        svrg_epoch(problem, objective._touched, *options, X, X_A, b, b_A, W, A, *sums)
        return like(objective.model.flat(*sums) / len(order) if averaged else objective.model.flat(W, A), start.x)


@dataclass(frozen=True)
class SAGA(saga.SAGA):
    """A table is what the oracles answered, and L^2 numbers an example."""

    def snapshot(self, objective: Any, x: Array, mu: float | None) -> Any:
        return SVRG().snapshot(objective, x, mu)

    def one_pass(
        self, asked: Any, start: Any, order: np.ndarray, step_size: float, table: Any
    ) -> tuple[Array, int, Any]:
        objective, lam, kappa, mu, center = asked
        problem, model = objective._problem(objective._mu(mu)), objective.model
        x = view("w0", start.x)
        kernels = isinstance(table, Answers) or (table is None and len((kept_of(start) or nothing()).outputs) > 0)
        finite = np.all(np.isfinite(x)) and (center is None or np.all(np.isfinite(view("center", center))))
        if problem is None or not kernels or not finite:
            if isinstance(table, Answers):  # the run has left the finite numbers
                return start.x, len(order), table
            return super().one_pass(asked, start, order, step_size, table)
        a, (W, A) = 1.0 / (1.0 + step_size * (lam + kappa)), model.padded(x)
        if table is None:
            room = (np.empty((0, 0, 0)) if name == "pairs" else x.copy() for name, x in start.kept._asdict().items())
            means = (
                np.where(np.isfinite(g), g, 0.0) for g in model.padded(view("gradient", start.gradient))
            )  # 0 if forbidden
            answers = Answers(Kept(*room), np.empty((objective.n, *A.shape[1:])), *means)
            saga_table(problem, W, A, objective._mu(mu), start.kept, answers)
        else:
            kept = Kept(*(each.copy() for each in table.kept))
            answers = Answers(kept, table.edges.copy(), table.mean_W.copy(), table.mean_A.copy())
        c, c_A = model.padded(a * step_size * kappa * view("center", center) if center is not None else 0.0 * x)
        saga_epoch(problem, objective._touched, order, step_size, a, objective._mu(mu), answers, c, c_A, W, A)
        return like(model.flat(W, A), start.x), len(order), answers


@dataclass(frozen=True)
class Backtracking(smoothness.Backtracking):
    def find(
        self, objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float
    ) -> tuple[float, int]:
        problem = objective._problem(objective._mu(mu))
        if problem is not None and np.all(np.isfinite(view("w", w))):
            W, A = objective.model.padded(view("w", w))
            L, calls = try_components(problem, batch, start, limit, objective._mu(mu), rounding(w), W, A)
            if np.isfinite(L):
                return L, calls
        return super().find(objective, w, mu, batch, start, limit)


@dataclass(frozen=True)
class BCFW(bcfw.BCFW):
    """Working sets are packed and change in place; for a sequence of length n with m outputs they take about
    8 n^2 + 16 m^2 + 8 n m bytes (the letters, 6251 words: some 25 MB), as labellings take the place of directions.
    """

    @classmethod
    def fits(cls, box: bcfw.BCFW, objective: Any) -> bool:
        """A hinge with all weights free; squared distances of outputs take all pairs as free, too."""
        restricted = getattr(objective.model, "restricted", False)
        return objective.loss_augmented and objective.nonnegative is None and not restricted

    def sweep(self, objective: Any, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        lam, capacity, average, line_search = self.lam, self.capacity, self.average, self.line_search
        problem, n, averaging = objective._problem(0.0), objective.n, average != "last"
        (W, A), (mean_W, mean_A) = (objective.model.padded(view("w", w)) for w in (state.x, state.mean))
        sets, loss, mean_loss, t = state.sets or working_sets(problem, len(W)), state.loss, state.mean_loss, state.t
        for number, order in enumerate(orders):
            U_W, U_A = np.zeros_like(W), np.zeros_like(A)
            sets = with_room(sets, objective.data.lengths)
            options = (number == 0, self.cached_passes > 0, lam * n, capacity, line_search, averaging)
            before = t * (t + 1) / 2
            t, loss, mean_loss = bcfw_pass(problem, order, *options, t, loss, mean_loss, sets, W, A, U_W, U_A)
            S = t * (t + 1) / 2 - before
            if averaging and S > 0:
                mean_W, mean_A = (
                    (before * m + S * w - u) / (before + S) for m, w, u in ((mean_W, W, U_W), (mean_A, A, U_A))
                )
        x = like(objective.model.flat(W, A), state.x)
        return BCFWState(
            x, loss, like(objective.model.flat(mean_W, mean_A), state.x) if averaging else x, mean_loss, t, sets
        )


@dataclass(frozen=True)
class ExponentiatedGradient(exponentiated_gradient.ExponentiatedGradient):
    """Points are packed and change in place: 16 L bytes a position and 16 L^2 a sequence."""

    @classmethod
    def fits(cls, box: exponentiated_gradient.ExponentiatedGradient, objective: Any) -> bool:
        """All weights free."""
        return objective.nonnegative is None

    def sweep(self, objective: Any, state: EGState, order: np.ndarray) -> EGState:
        lam, mu = self.lam, self.mu
        model, problem = objective.model, objective._problem(0.0)
        W, A = model.padded(view("w", state.x))
        points = state.points or no_points(problem.offsets, model.n_labels)
        values, steps, rates = state.values.copy(), state.steps.copy(), state.rates.copy()
        calls = eg_epoch(problem, order, model.cost, lam * objective.n, mu, points, values, steps, rates, W, A)
        return EGState(like(model.flat(W, A), state.x), values, steps, rates, state.calls + calls, points, state.k)


def steps_of(box: Any, state: Any, order: np.ndarray, lam: float) -> np.ndarray:
    """The step sizes of the rounds to come, one for each example."""
    return box.step_size(np.arange(state.t + 1, state.t + 1 + len(order)), lam)


def _weights(average: str, done: int, n: int) -> tuple[np.ndarray, float]:
    """The weights of the iterates after steps done+1..done+n in the average, and the sum of those before."""
    if average == "last":
        return np.eye(1, n, n - 1)[0], 0.0
    if average == "uniform":
        return np.ones(n), float(done)
    return np.arange(done + 1.0, done + n + 1.0), done * (done + 1) / 2
