"""The loops of the optimisers as kernels over packed sequences: what ``fused_epoch`` of an objective returns.

Each has the signature of the reference's (``sgd.epoch``, ``svrg.epoch``, ``svrg.snapshot``, ``saga.epoch``, ``bcfw.epoch``, ``exponentiated.epoch``,
``smoothness.component_smoothness``, ``online_proximal.epoch``), and falls back to it where there is no kernel: a smoothing of the user's, weights that are not
finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.block_frank_wolfe import bcfw_pass
from accelerated.compiled.exponentiated import eg_epoch, no_points
from accelerated.compiled.kept import Kept, nothing, room_for
from accelerated.compiled.loops import sgd_epoch
from accelerated.compiled.saga import Answers, saga_epoch, saga_table
from accelerated.compiled.variance_reduced import svrg_epoch, try_components
from accelerated.compiled.working_sets import with_room, working_sets
from accelerated.proximal_epochs import run_online_proximal
from reference.arrays import Array
from reference.models.base import check_weights
from reference.optimizers import saga, sgd, svrg
from reference.optimizers.bcfw import BCFWState
from reference.optimizers.exponentiated_gradient import EGState
from reference.optimizers.sgd import SGDState
from reference.optimizers.smoothness import component_smoothness, rounding
from reference.optimizers.svrg import Snapshot, full_gradient

__all__ = ["LOOPS"]


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
    problem = objective._problem(objective._mu(mu))
    finite = np.all(np.isfinite(view("w0", state.x)))
    kept = np.all(steps * lam < 1) or not getattr(objective.model, "restricted", False)  # the kernel scales -inf too
    if problem is None or not (finite and kept):
        return sgd.epoch(state, objective, order, batch_size=batch_size, steps=steps, lam=lam, mu=mu, average=average)
    (W, A), (mean_W, mean_A) = (objective.model.padded(view("w", w)) for w in (state.x, state.mean))
    weights, weighed = _weights(average, state.t, len(order))
    sgd_epoch(problem, order, steps, weights, weighed, lam, objective._mu(mu), W, A, mean_W, mean_A)
    return SGDState(
        like(objective.model.flat(W, A), state.x),
        like(objective.model.flat(mean_W, mean_A), state.x),
        state.t + len(order),
    )


def take_snapshot(objective: Any, x: Array, mu: float | None) -> Snapshot:
    problem = objective._problem(objective._mu(mu))
    check_weights(objective.model, x, objective._like)
    kept = nothing() if problem is None else room_for(problem, objective.model.n_labels)
    if len(kept.outputs) == 0 or not np.all(np.isfinite(view("w0", x))):
        return full_gradient(objective, x, mu)
    value, gradient, *_ = objective._swept(x, np.arange(objective.n), objective._mu(mu), kept)
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
    problem = objective._problem(objective._mu(mu))
    x, gradient = view("w0", start.x), view("gradient", start.gradient)
    pull = -gradient if center is None else kappa * view("center", center) - gradient
    if problem is None or len(order) == 0 or not np.all(np.isfinite(x) & np.isfinite(pull)):
        return svrg.epoch(
            start,
            objective,
            order,
            step_size=step_size,
            lam=lam,
            kappa=kappa,
            center=center,
            mu=mu,
            average=average,
        )
    a = 1.0 / (1.0 + step_size * (lam + kappa))
    (X, X_A), (b, b_A), (W, A) = (objective.model.padded(v) for v in (x, a * step_size * pull, x))
    averaged = average != "last"
    sums = (np.zeros_like(W), np.zeros_like(A)) if averaged else (W[:0], A[:0])
    kept = start.kept or nothing()
    options = (order, step_size, a, objective._mu(mu), averaged, kept)
    svrg_epoch(problem, objective._touched, *options, X, X_A, b, b_A, W, A, *sums)
    return like(objective.model.flat(*sums) / len(order) if averaged else objective.model.flat(W, A), start.x)


def run_saga(
    start: Snapshot,
    table: Any,
    objective: Any,
    order: np.ndarray,
    *,
    step_size: float,
    lam: float,
    kappa: float,
    center: Array | None,
    mu: float | None,
) -> tuple[Array, Any]:
    """As the reference's epoch; a table is what the oracles answered."""
    problem, model = objective._problem(objective._mu(mu)), objective.model
    x = view("w0", start.x)
    kernels = isinstance(table, Answers) or (table is None and len((start.kept or nothing()).outputs) > 0)
    finite = np.all(np.isfinite(x)) and (center is None or np.all(np.isfinite(view("center", center))))
    if problem is None or not kernels or not finite:
        if isinstance(table, Answers):  # the run has left the finite numbers
            return start.x, table
        return saga.epoch(
            start, table, objective, order, step_size=step_size, lam=lam, kappa=kappa, center=center, mu=mu
        )
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
    return like(model.flat(W, A), start.x), answers


def find_smoothness(
    objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
) -> tuple[float, int]:
    problem = objective._problem(objective._mu(mu))
    if problem is not None and np.all(np.isfinite(view("w", w))):
        W, A = objective.model.padded(view("w", w))
        L, calls = try_components(problem, batch, start, limit, objective._mu(mu), rounding(w), W, A)
        if np.isfinite(L):
            return L, calls
    return component_smoothness(objective, w, mu, batch, start, limit)


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
    """As the reference's epoch; the state's sets are packed and change in place."""
    problem, n, averaging = objective._problem(0.0), objective.n, average != "last"
    (W, A), (mean_W, mean_A) = (objective.model.padded(view("w", w)) for w in (state.x, state.mean))
    sets, loss, mean_loss, t = state.sets or working_sets(problem, len(W)), state.loss, state.mean_loss, state.t
    for number, order in enumerate(orders):
        U_W, U_A = np.zeros_like(W), np.zeros_like(A)
        sets = with_room(sets, objective.data.lengths)
        options = (number == 0, len(orders) > 1, lam * n, capacity, line_search, averaging)
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


def run_eg(state: EGState, objective: Any, order: np.ndarray, *, lam: float, mu: float) -> EGState:
    """As the reference's epoch; the state's points are packed and change in place."""
    model, problem = objective.model, objective._problem(0.0)
    W, A = model.padded(view("w", state.x))
    points = state.points or no_points(problem.offsets, model.n_labels)
    values, steps, rates = state.values.copy(), state.steps.copy(), state.rates.copy()
    calls = eg_epoch(problem, order, model.cost, lam * objective.n, mu, points, values, steps, rates, W, A)
    return EGState(like(model.flat(W, A), state.x), values, steps, rates, state.calls + calls, points)


def _weights(average: str, done: int, n: int) -> tuple[np.ndarray, float]:
    """The weights of the iterates after steps done+1..done+n in the average, and the sum of those before."""
    if average == "last":
        return np.eye(1, n, n - 1)[0], 0.0
    if average == "uniform":
        return np.ones(n), float(done)
    return np.arange(done + 1.0, done + n + 1.0), done * (done + 1) / 2


LOOPS: dict[str, Callable[..., Any]] = {
    "sgd": run_sgd,
    "svrg": run_svrg,
    "snapshot": take_snapshot,
    "saga": run_saga,
    "bcfw": run_bcfw,
    "component_smoothness": find_smoothness,
    "exponentiated_gradient": run_eg,
    "online_proximal": run_online_proximal,
}
