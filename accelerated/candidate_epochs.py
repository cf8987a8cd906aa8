"""Counterparts of boxes for localisation by candidates, as kernels over packed images that read features in their own dtype.

And the pass over images of full gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.epochs.bcfw_candidates import (
    CandidateSets,
    bcfw_pass_of_candidates,
    candidate_sets,
    sets_with_room,
)
from accelerated.compiled.problems.answers import MOST
from accelerated.compiled.problems.candidates import (
    ENTROPY,
    MAX,
    Answers,
    CandidateProblem,
    gradient_range,
    new_answers,
    sgd_epoch,
    svrg_epoch,
    try_components,
)
from accelerated.epochs import Remembered, kept_of, steps_of
from accelerated.models.localization import CandidateModel, table_of
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.base import check_weights
from reference.optimizers import bcfw, sgd, svrg
from reference.optimizers.bcfw import BCFWState
from reference.optimizers.sgd import SGDState
from reference.smoothing import Entropy, TopK
from reference.training import smoothness
from reference.training.smoothness import rounding

__all__ = ["BCFW", "SGD", "SVRG", "Backtracking", "problem_of", "sweep"]


def problem_of(objective: Any, w: Array, mu: float) -> CandidateProblem | None:
    """The packed images as the kernels take them; None where they do not: another model, a smoothing of the user's, weights that are not finite."""
    smoothing, data = objective.smoothing, objective.data
    if type(objective.model) is not CandidateModel or data.losses is None or not np.all(np.isfinite(view("w", w))):
        return None
    if mu == 0:
        outputs = MAX
    elif type(smoothing) is Entropy:
        outputs = ENTROPY
    elif type(smoothing) is TopK:
        outputs = min(smoothing.k, int(np.max(data.lengths, initial=1)))
    else:
        return None
    where = view("offsets", data.offsets, np.int64), view("best", data.best, np.int64), view("losses", data.losses)
    return CandidateProblem(table_of(data), *where, objective.loss_augmented, outputs)


def sweep(
    objective: Any, problem: CandidateProblem, w: Array, batch: np.ndarray, mu: float, kept: Answers
) -> tuple[float, Array, float, float]:
    """The sums over the batch of losses, gradients, task losses and exact calls; what the oracles answered goes into ``kept``, where that has room."""
    weights = view("w", w)
    pieces = ranges(np.concatenate([[0], np.cumsum(objective.data.lengths[batch])]))
    gradients = [np.zeros_like(weights) for _ in pieces]

    def run(lo: int, hi: int) -> tuple[float, float, int]:
        return gradient_range(problem, batch, lo, hi, weights, mu, kept, gradients[pieces.index((lo, hi))])

    value, task_loss, exact = (sum(each) for each in zip(*in_parallel(run, pieces), strict=True))
    return value, like(sum(gradients[1:], gradients[0]), w), task_loss, float(exact)


@dataclass(frozen=True)
class SGD(sgd.SGD):
    @classmethod
    def fits(cls, box: sgd.SGD, objective: Any) -> bool:
        """One image at a time, all weights free."""
        return box.batch_size == 1 and objective.nonnegative is None

    def sweep(self, objective: Any, state: SGDState, order: np.ndarray) -> SGDState:
        lam, mu, average, steps = self.lam, self.mu, self.average, steps_of(self, state, order, self.lam)
        problem = problem_of(objective, state.x, objective._mu(mu))
        if problem is None:
            return super().sweep(objective, state, order)
        t = np.arange(state.t + 1.0, state.t + len(order) + 1)
        shares = {"last": np.ones(len(t)), "uniform": 1 / t, "weighted": 2 / (t + 1)}[average]
        w, mean = view("w0", state.x).copy(), view("w0", state.mean).copy()
        sgd_epoch(problem, order, steps, shares, lam, objective._mu(mu), w, mean)
        return SGDState(like(w, state.x), like(w if average == "last" else mean, state.x), state.t + len(order))


@dataclass(frozen=True)
class SVRG(svrg.SVRG):
    """Keeps the answers of a snapshot's oracles, where they take no more than 256 MB."""

    def snapshot(self, objective: Any, x: Array, mu: float | None) -> Any:
        check_weights(objective.model, x, objective._like)
        temperature = objective._mu(mu)
        problem = problem_of(objective, x, temperature)
        if problem is None:
            return super().snapshot(objective, x, mu)
        room = int(np.max(objective.data.lengths)) if problem.outputs == ENTROPY else abs(problem.outputs)
        kept = new_answers(objective.n, room if 16 * objective.n * room <= MOST else 0)
        value, gradient, *_ = sweep(objective, problem, x, np.arange(objective.n), temperature, kept)
        return Remembered(x, value / objective.n, gradient / objective.n, kept)

    def sweep(self, asked: Any, start: Any, order: np.ndarray, gamma: float) -> Array:
        objective, lam, kappa, mu, center = asked
        temperature = objective._mu(mu)
        problem = problem_of(objective, start.x, temperature)
        pull = -view("gradient", start.gradient)
        if center is not None:
            pull = pull + kappa * view("center", center)
        if problem is None or len(order) == 0 or not np.all(np.isfinite(pull)):
            return super().sweep(asked, start, order, gamma)
        a, averaged = 1.0 / (1.0 + gamma * (lam + kappa)), self.average != "last"
        x = view("w0", start.x)
        w, total = x.copy(), np.zeros_like(x) if averaged else x[:0].copy()
        kept = new_answers(0, 0) if kept_of(start) is None else kept_of(start)
        svrg_epoch(problem, order, gamma, a, temperature, x, a * gamma * pull, kept, averaged, w, total)
        return like(total / len(order) if averaged else w, start.x)


@dataclass(frozen=True)
class BCFW(bcfw.BCFW):
    """Working sets are packed."""

    @classmethod
    def fits(cls, box: bcfw.BCFW, objective: Any) -> bool:
        """A hinge with all weights free."""
        return objective.loss_augmented and objective.nonnegative is None

    def sweep(self, objective: Any, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        lam, capacity, average, line_search = self.lam, self.capacity, self.average, self.line_search
        problem = problem_of(objective, state.x, 0.0)
        if problem is None and isinstance(state.sets, CandidateSets):  # the run has left the finite numbers
            return state
        if problem is None:
            return super().sweep(objective, state, orders)
        x, mean, averaging = view("x", state.x).copy(), view("mean", state.mean).copy(), average != "last"
        sets = sets_with_room(state.sets or candidate_sets(problem))
        loss, mean_loss, t = state.loss, state.mean_loss, state.t
        for turn, order in enumerate(orders):
            visit = (turn == 0, self.cached_passes > 0, lam * objective.n, capacity, line_search, averaging)
            t, loss, mean_loss = bcfw_pass_of_candidates(problem, order, *visit, t, loss, mean_loss, sets, x, mean)
        last = like(x, state.x)
        return BCFWState(last, loss, like(mean, state.x) if averaging else last, mean_loss, t, sets)


@dataclass(frozen=True)
class Backtracking(smoothness.Backtracking):
    def find(
        self, objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float
    ) -> tuple[float, int]:
        problem = problem_of(objective, w, objective._mu(mu))
        if problem is not None:
            L, calls = try_components(problem, batch, start, limit, objective._mu(mu), rounding(w), view("w", w))
            if np.isfinite(L):
                return L, calls
        return super().find(objective, w, mu, batch, start, limit)
