"""The online proximal algorithm: a gradient step on the loss of a batch, then the regularizers' proxes, one after another.

min_w F(w) + sum_j R_j(w) over a set, F = (1/n) sum_i f_i. For a batch at step t, with g a subgradient of its mean loss at w_t:

    z <- w_t - gamma_t g,    z <- prox_{gamma_t R_j}(z) for j = 1, ..., J,    w_{t+1} = projection of z onto the set

Where a part (sigma/2) ||w||^2 of the objective makes it strongly convex, the loss may absorb it: g + sigma w_t stands for g. Source: Martins
et al. 2010, Algorithm 1 and section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, floats, host, integer, number, real, squared_norm
from reference.optimizers.arguments import check_objective, check_options, refuse_nonlinear, start_of
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.schedules import Constant
from reference.prox.base import Ball, Regularizer
from reference.prox.composite import Sequential
from reference.prox.norms import Simplex

__all__ = ["OnlineProximalState", "online_proximal"]

AVERAGES = ("last", "uniform")


class OnlineProximalState(NamedTuple):
    """x: w_{t+1} (d,); mean: of w_1, ..., w_t, or x, as asked; t: steps done."""

    x: Array
    mean: Array
    t: int


def online_proximal(
    objective: Any,
    regularizer: Regularizer | Sequence[Regularizer],
    w0: Array | None = None,
    *,
    step_size: float | Callable[[np.ndarray, float], np.ndarray],
    sigma: float = 0.0,
    project: Regularizer | None = None,
    mu: float | None = None,
    epochs: int = 10,
    batch_size: int = 1,
    average: str = "last",
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Minimise F(w) + R_1(w) + ... + R_J(w) [+ sigma/2 ||w||^2] over a set, by gradient steps and proxes in turn.

    w_{t+1} = project( prox_{gamma_t R_J}( ... prox_{gamma_t R_1}( w_t - gamma_t (g_t + sigma w_t) ) ) )

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        A hinge, the log loss, or a finite sum of yours.
    regularizer : Regularizer or sequence of them
        R, its weight within: ``L1(tau)``, ``L21(tau, groups)`` (group lasso), ``SquaredL21(lam, groups)`` (multiple kernel learning),
        ``L21Ball(radius, groups)`` (projected subgradient) ... A sequence's proxes are taken in its order, as :class:`Sequential` does:
        inner groups before those that hold them where the prox of the sum is wanted; groups that cross, in any order.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``, as in the paper.
    step_size : float or schedule
        A number is a constant step; ``InverseSqrt(gamma0)`` is gamma0/sqrt(t), ``Pegasos()`` is 1/(sigma t).
    sigma : float >= 0
        Weight of (sigma/2) ||w||^2, taken by the gradient step. (``ElasticNet`` has it in the prox instead.)
    project : Regularizer, optional
        The indicator of a convex set, such as ``L2Ball(radius)``; its prox ends each step.
    mu : float, optional
        Smoothing, handed to the objective.
    epochs : int >= 0
        Passes over the data, each in a new random order.
    batch_size : int >= 1
    average : {"last", "uniform"}
        Which model is returned: w_{T+1}, sparse where the proxes make it so; or the average of w_1, ..., w_T, which the bounds are about.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation an epoch.
    callback : callable, optional
        Called as ``callback(row, w)`` after each epoch, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        ``fun`` is F + R + sigma/2 ||.||^2 at the model, inf where R is an indicator that the averaged model leaves. Its certificate says that no gap is
        proved; ``reference.bounds`` has the regret bounds. ``success`` is False where the objective left the finite numbers.

    Raises
    ------
    ValueError, TypeError
        Options out of range; what is no regularizer, or no indicator of a set; weights that must be >= 0; a schedule that does not give one finite
        step > 0 for each batch.

    Notes
    -----
    What the paper calls by name is made by the regularizer alone:

    ==========================================  ================================================================
    projected subgradient with groups           ``L21Ball(radius, groups)``
    truncated subgradient with groups           ``L21(tau, groups)``; without groups, ``L1(tau)``
    proximal subgradient for the squared norm   ``SquaredL21(lam, groups)``
    elastic-net MKL                             ``ElasticNetMKL(tau, sigma, groups)``; or ``L21`` with ``sigma`` here
    non-sparse MKL                              ``NonSparseMKL(lam, q, groups)``
    sparse group lasso                          ``SparseGroupLasso(tau, groups, group_tau)``
    hierarchical groups                         ``TreeGroupLasso(groups, weights)``
    overlapping groups                          ``[L21(tau, one), L21(tau, another)]``, disjoint groups in each
    ==========================================  ================================================================

    A step costs a gradient and the proxes, O(d) each. In ``accelerated``, over sequences and one at a time, it costs the sequence's features and a number
    for each group, for l1, ridge, elastic net and regularizers of group norms; those that mix coordinates and groups (sparse group lasso) cost O(d).
    An objective that is not finite ends the run: start within the set where R is an indicator.

    Source
    ------
    Martins et al., Algorithm 1; section 3.2 for what it is called with each regularizer; section 3.3 for sigma.

    Examples
    --------
    >>> from reference import L1, InverseSqrt, LogLoss, MulticlassModel, online_proximal
    >>> model = MulticlassModel(n_features=3, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = online_proximal(LogLoss(model, data), L1(0.1), step_size=InverseSqrt(0.5), epochs=20, rng=0)
    >>> result.nit, [bool(w == 0) for w in result.x[-2:]]  # feature 2 never occurs
    (20, [True, True])
    """
    check_objective(objective)
    regularizer = as_regularizer(regularizer)
    check_options(lam=0.0, mu=mu, epochs=epochs, callback=callback)
    integer("batch_size", batch_size, 1)
    number("sigma", sigma)
    if average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {average!r}")
    if project is not None and not isinstance(project, (Ball, Simplex)):
        raise TypeError(f"project: expected the indicator of a set, such as L2Ball(1.0), got {project!r}")
    refuse_constraint("online_proximal", objective)
    refuse_nonlinear("online_proximal", objective)
    schedule = step_size if callable(step_size) else Constant(real("step_size", step_size))
    epoch_of = getattr(objective, "fused_epoch", lambda name: None)("online_proximal") or epoch
    options: dict[str, Any] = {"batch_size": batch_size, "sigma": sigma, "mu": mu, "average": average}
    start = start_of(objective, w0)
    asked = {**options, "regularizer": regularizer, "project": project, "step_size": schedule}
    run = Run("online_proximal", objective, start, asked, epochs, rng, callback, checkpoint, resume)
    batches = -(-objective.n // batch_size)
    proxes = regularizer if project is None else Sequential([regularizer, project])
    with run:
        state = run.resumed(init(start))
        known = run.resume is not None or epochs == 0
        run.begin(state.mean, composite(objective, regularizer, state.mean, sigma, mu) if known else np.nan)
        for k in run.epochs():
            with run.timed():
                order = run.rng.permutation(objective.n)
                steps = _steps(schedule, np.arange(state.t + 1, state.t + batches + 1), sigma)
                state = epoch_of(state, objective, proxes, order, steps=steps, **options)
            run.record(
                state, state.mean, composite(objective, regularizer, state.mean, sigma, mu), calls=k * objective.n
            )
    return run.result(
        run.ending or (True, f"{epochs} epochs done"),
        iterate="last" if average == "last" else "uniform average",
        certificate="none: the online proximal algorithm keeps no dual point",
    )


def as_regularizer(regularizer: Any) -> Regularizer:
    """One regularizer, of a sequence the one that takes their proxes in order; TypeError where it is neither."""
    return regularizer if isinstance(regularizer, Regularizer) else Sequential(regularizer)


def init(w0: Any) -> OnlineProximalState:
    """The state before the first step."""
    (w0,) = floats(w0=w0)
    return OnlineProximalState(w0, w0, 0)


def epoch(
    state: OnlineProximalState,
    objective: Any,
    proxes: Regularizer,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    sigma: float,
    mu: float | None,
    average: str,
) -> OnlineProximalState:
    """One pass over the examples in ``order``, a step for each batch; a fused epoch has this signature."""
    for turn, gamma in enumerate(steps):
        batch = order[turn * batch_size : (turn + 1) * batch_size]
        state = step(state, objective, proxes, batch, float(gamma), sigma, mu, average)
    return state


def step(
    state: OnlineProximalState,
    objective: Any,
    proxes: Regularizer,
    batch: np.ndarray,
    gamma: float,
    sigma: float,
    mu: float | None,
    average: str,
) -> OnlineProximalState:
    """One round of Algorithm 1; the average takes in the model that the round began with."""
    _, g = objective.value_and_gradient(state.x, batch, mu)
    t = state.t + 1
    x = (1.0 - gamma * sigma) * state.x - gamma * g
    if np.all(np.isfinite(host(x))):  # else the run has diverged, and says so
        x = proxes.prox(x, gamma)
    return OnlineProximalState(x, x if average == "last" else state.mean + (state.x - state.mean) / t, t)


def composite(objective: Any, regularizer: Regularizer, w: Array, sigma: float, mu: float | None) -> float:
    """F(w) + R(w) + sigma/2 ||w||^2; nan where w is not finite."""
    if not np.all(np.isfinite(host(w))):
        return float("nan")
    value = objective.value_and_gradient(w, None, mu)[0]
    return float(value) + float(regularizer.value(w)) + (0.5 * sigma * squared_norm(w) if sigma > 0 else 0.0)


def _steps(schedule: Callable[[np.ndarray, float], np.ndarray], t: np.ndarray, sigma: float) -> np.ndarray:
    steps = np.asarray(schedule(t, sigma), dtype=np.float64)
    if steps.shape != t.shape or not np.all(np.isfinite(steps) & (steps > 0)):
        raise ValueError(
            f"step_size: expected {len(t)} finite steps > 0 from {schedule}, got shape {steps.shape}: {steps}"
        )
    return steps
