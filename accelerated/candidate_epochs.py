"""The loops of the optimisers for localisation by candidates, as kernels over packed images that read features in their own dtype.

What ``fused_epoch`` of an objective over a ``CandidateModel`` returns, with the signatures of ``sgd.epoch``, ``svrg.epoch``, ``svrg.snapshot``, ``bcfw.epoch``
and ``smoothness.component_smoothness``, and the pass over images of its full gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.candidate_frank_wolfe import (
    CandidateSets,
    bcfw_pass_of_candidates,
    candidate_sets,
    sets_with_room,
)
from accelerated.compiled.candidates import (
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
from accelerated.compiled.kept import MOST
from accelerated.models.localization import CandidateModel, table_of
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.models.base import check_weights
from reference.optimizers import bcfw, sgd, svrg
from reference.optimizers.bcfw import BCFWState
from reference.optimizers.sgd import SGDState
from reference.optimizers.smoothness import component_smoothness, rounding
from reference.optimizers.svrg import Snapshot, full_gradient
from reference.smoothing import Entropy, TopK

__all__ = ["LOOPS", "problem_of", "sweep"]


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


def run_sgd(
    state: SGDState,
    objective: Any,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    lam: float,
    mu: float | None,
    average: str,
) -> SGDState:
    problem = problem_of(objective, state.x, objective._mu(mu))
    if problem is None:
        return sgd.epoch(state, objective, order, batch_size=batch_size, steps=steps, lam=lam, mu=mu, average=average)
    t = np.arange(state.t + 1.0, state.t + len(order) + 1)
    shares = {"last": np.ones(len(t)), "uniform": 1 / t, "weighted": 2 / (t + 1)}[average]
    w, mean = view("w0", state.x).copy(), view("w0", state.mean).copy()
    sgd_epoch(problem, order, steps, shares, lam, objective._mu(mu), w, mean)
    return SGDState(like(w, state.x), like(w if average == "last" else mean, state.x), state.t + len(order))


def take_snapshot(objective: Any, x: Array, mu: float | None) -> Snapshot:
    check_weights(objective.model, x, objective._like)
    temperature = objective._mu(mu)
    problem = problem_of(objective, x, temperature)
    if problem is None:
        return full_gradient(objective, x, mu)
    room = int(np.max(objective.data.lengths)) if problem.outputs == ENTROPY else abs(problem.outputs)
    kept = new_answers(objective.n, room if 16 * objective.n * room <= MOST else 0)
    value, gradient, *_ = sweep(objective, problem, x, np.arange(objective.n), temperature, kept)
    return Snapshot(x, value / objective.n, gradient / objective.n, kept)


def run_svrg(
    start: Snapshot,
    objective: Any,
    order: np.ndarray,
    *,
    step_size: float,
    lam: float,
    kappa: float,
    center: Array | None,
    mu: float | None,
    average: str,
) -> Array:
    temperature = objective._mu(mu)
    problem = problem_of(objective, start.x, temperature)
    pull = -view("gradient", start.gradient)
    if center is not None:
        pull = pull + kappa * view("center", center)
    if problem is None or len(order) == 0 or not np.all(np.isfinite(pull)):
        options: dict[str, Any] = {"step_size": step_size, "lam": lam, "kappa": kappa, "center": center, "mu": mu}
        return svrg.epoch(start, objective, order, average=average, **options)
    a, averaged = 1.0 / (1.0 + step_size * (lam + kappa)), average != "last"
    x = view("w0", start.x)
    w, total = x.copy(), np.zeros_like(x) if averaged else x[:0].copy()
    kept = new_answers(0, 0) if start.kept is None else start.kept
    svrg_epoch(problem, order, step_size, a, temperature, x, a * step_size * pull, kept, averaged, w, total)
    return like(total / len(order) if averaged else w, start.x)


def run_bcfw(
    state: BCFWState,
    objective: Any,
    orders: Sequence[np.ndarray],
    *,
    lam: float,
    capacity: int,
    average: str,
    line_search: bool,
) -> BCFWState:
    """As the reference's epoch; the state's sets are packed."""
    problem = problem_of(objective, state.x, 0.0)
    if problem is None and isinstance(state.sets, CandidateSets):  # the run has left the finite numbers
        return state
    if problem is None:
        options: dict[str, Any] = {"lam": lam, "capacity": capacity, "average": average, "line_search": line_search}
        return bcfw.epoch(state, objective, orders, **options)
    x, mean, averaging = view("x", state.x).copy(), view("mean", state.mean).copy(), average != "last"
    sets = sets_with_room(state.sets or candidate_sets(problem))
    loss, mean_loss, t = state.loss, state.mean_loss, state.t
    for turn, order in enumerate(orders):
        visit = (turn == 0, len(orders) > 1, lam * objective.n, capacity, line_search, averaging)
        t, loss, mean_loss = bcfw_pass_of_candidates(problem, order, *visit, t, loss, mean_loss, sets, x, mean)
    last = like(x, state.x)
    return BCFWState(last, loss, like(mean, state.x) if averaging else last, mean_loss, t, sets)


def find_smoothness(
    objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
) -> tuple[float, int]:
    problem = problem_of(objective, w, objective._mu(mu))
    if problem is not None:
        L, calls = try_components(problem, batch, start, limit, objective._mu(mu), rounding(w), view("w", w))
        if np.isfinite(L):
            return L, calls
    return component_smoothness(objective, w, mu, batch, start, limit)


LOOPS: dict[str, Callable[..., Any]] = {
    "sgd": run_sgd,
    "bcfw": run_bcfw,
    "svrg": run_svrg,
    "snapshot": take_snapshot,
    "component_smoothness": find_smoothness,
}
