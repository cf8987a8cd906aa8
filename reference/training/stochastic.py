"""Stochastic gradient descent and the online proximal algorithm: their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import Array, host, squared_norm
from reference.declared import Ge, Lam
from reference.optimizers.base import Objective, regularised, value_of
from reference.optimizers.online_proximal import OnlineProximal, OnlineProximalState
from reference.optimizers.sgd import SGD, SGDState
from reference.prox.base import Ball, Regularizer
from reference.prox.composite import Sequential, as_regularizer
from reference.prox.norms import Simplex
from reference.steps import CheckedSchedule, Pegasos, Schedule, schedule_of
from reference.training.result import RunState
from reference.training.smoothness import OffsetSearch
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, minimize, runs

__all__ = ["online_proximal", "sgd"]


@dataclass(frozen=True)
class Descent(Solver):
    """A run of :class:`SGD`. By default, the steps are ``Pegasos(offset)``; the offset is found before the first pass.

    search: finds the offset; None if the box has the steps.
    """

    search: OffsetSearch | None

    name: ClassVar[str] = "sgd"
    terms: ClassVar[Terms] = Terms(
        convex=False,
        constrained=True,
        partial=True,
        evaluates_start=False,
        uncertified="none: stochastic gradient descent keeps no dual point",
    )

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> RunState:
        return RunState(self.box.init(objective, w0))

    def epoch(self, objective: Objective, state: RunState, rng: np.random.Generator) -> RunState:
        if self.search is None:
            return RunState(self.box.epoch(objective, state.box, rng))
        if state.search is None:
            offset, calls = self.search.find(objective, self.box, state.box)
            state = state._replace(search=offset, counts=state.counts.plus(calls=calls))
        box = replace(self.box, step_size=CheckedSchedule(Pegasos(state.search)))
        return state._replace(box=box.epoch(objective, state.box, rng))

    def evaluate(self, objective: Objective, state: RunState) -> Report:
        box, epochs = self.box, state.box.t // -(-objective.n // self.box.batch_size)
        fun = regularised(objective, state.box.mean, box.lam, box.mu)
        return Report(state.box.mean, fun, calls=state.counts.calls + epochs * objective.n)

    def restored(self, objective: Objective, saved: RunState | SGDState) -> RunState:
        return RunState(saved) if isinstance(saved, SGDState) else saved  # older files have the state of the box


@runs(epochs=10, rng=None)
def sgd(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Annotated[float, Ge(0)] | None = None,
    step_size: float | Schedule | None = None,
    batch_size: Annotated[int, Ge(1)] = 1,
    average: Literal["last", "uniform", "weighted"] = "weighted",
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by stochastic (sub)gradient steps.

    w_t = (1 - gamma_t lam) w_{t-1} - gamma_t g_t, with g_t the mean (sub)gradient of a batch at w_{t-1}

    After each step, negative weights in the slice ``objective.nonnegative`` are set to 0.

    Parameters
    ----------
    step_size : float or schedule, optional
        Step size. A number is a constant step; default ``steps.Pegasos(offset)``, which needs lam > 0. The first step
        is min(1/(lam n), 1), halved while a trial pass on 2 % of the data improves.
    batch_size : int
    average : {"weighted", "uniform", "last"}
        Which iterate is returned: 2/(T^2+T) sum_t t w_t, (1/T) sum_t w_t, or w_T.

    Returns
    -------
    Result
        Its certificate says that plain SGD proves no gap. ``success`` is False if the objective is not finite.

    Raises
    ------
    ValueError
        Options out of range; a start with negative weights that must be >= 0; a schedule that does not give one finite
        step >= 0 for each batch; no step size for lam = 0.

    Source
    ------
    Pillutla et al., section 7.2; Shalev-Shwartz et al. (2011) for 1/(lam t) and the weighted average.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, sgd
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = sgd(LogLoss(model, data), lam=0.1, epochs=20, rng=0)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    >>> result.nit, result.oracle_calls, result.iterate
    (20, 84, 'weighted average')
    """
    if step_size is None and lam == 0:
        raise ValueError("step_size: lam = 0 has no default step size; give one")
    steps = None if step_size is None else schedule_of(step_size)
    box = SGD(lam, CheckedSchedule(steps or Pegasos()), mu, batch_size, average)
    solver = Descent(box, OffsetSearch() if steps is None else None)
    return minimize(objective, solver, w0, resolved={"step_size": steps}, **run).result


@dataclass(frozen=True)
class Proximal(Solver):
    """A run of :class:`OnlineProximal`."""

    regularizer: Regularizer

    name: ClassVar[str] = "online_proximal"
    terms: ClassVar[Terms] = Terms(
        evaluates_start=False, uncertified="none: the online proximal algorithm keeps no dual point"
    )

    def evaluate(self, objective: Objective, state: OnlineProximalState) -> Report:
        w, box = state.mean, self.box
        if not np.all(np.isfinite(host(w))):
            return Report(w, np.nan)
        fun = value_of(objective, w, box.mu) + float(self.regularizer.value(w))
        return Report(w, fun + (0.5 * box.sigma * squared_norm(w) if box.sigma > 0 else 0.0))


@runs(epochs=10, rng=None)
def online_proximal(
    objective: Objective,
    regularizer: Regularizer | Sequence[Regularizer],
    w0: Array | None = None,
    *,
    step_size: float | Schedule,
    sigma: Annotated[float, Ge(0)] = 0.0,
    project: Regularizer | None = None,
    mu: Annotated[float, Ge(0)] | None = None,
    batch_size: Annotated[int, Ge(1)] = 1,
    average: Literal["last", "uniform"] = "last",
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + R_1(w) + ... + R_J(w) [+ sigma/2 ||w||^2] over a set, by gradient steps and proxes in turn.

    w_{t+1} = project( prox_{eta_t R_J}( ... prox_{eta_t R_1}( w_t - eta_t (g_t + sigma w_t) ) ) )

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        A hinge, the log loss, or any finite sum.
    regularizer : Regularizer or sequence of them
        R, including its weight: ``L1(tau)``, ``L21(tau, groups)`` (group lasso), ``SquaredL21(lam, groups)``
        (multiple kernel learning), ``L21Ball(radius, groups)`` (projected subgradient) ... ``docs/regularizers.md`` has
        the paper's name for each. The proxes of a sequence are applied in its order, as in :class:`Sequential`. For the
        prox of the sum, put inner groups before the groups that contain them. Crossing groups may come in any order.
    step_size : float or schedule
        A number is a constant step; ``steps.InverseSqrt(eta_0)`` is eta_0/sqrt(t), ``steps.Pegasos()`` is
        1/(sigma t).
    sigma : float >= 0
        Weight of (sigma/2) ||w||^2, part of the gradient step. (``ElasticNet`` has it in the prox instead.)
    project : Regularizer, optional
        The indicator of a convex set, such as ``L2Ball(radius)``; its prox ends each step.
    batch_size : int >= 1
    average : {"last", "uniform"}
        Which model is returned: w_{T+1}, which the proxes make sparse; or the average of w_1, ..., w_T, the model of
        the regret bounds.

    Returns
    -------
    Result
        ``fun`` is F + R + sigma/2 ||.||^2 at the model; inf if R is an indicator and the average is outside its set.
        Its certificate says that no gap is proved; ``reference.bounds`` has the regret bounds. ``success`` is False if
        the objective is not finite.

    Raises
    ------
    ValueError, TypeError
        Options out of range; a ``regularizer`` that is not a Regularizer; a ``project`` that is not the indicator of a
        set; weights that must be >= 0; a schedule that does not give one finite step > 0 for each batch.

    Notes
    -----
    A step costs a gradient and the proxes, O(d) each. The run ends when the objective is not finite: if R is an
    indicator, start inside its set.

    Source
    ------
    Martins et al., Algorithm 1; section 3.2 for the names with each regularizer; section 3.3 for sigma.

    Examples
    --------
    >>> from reference import L1, LogLoss, MulticlassModel, online_proximal, steps
    >>> model = MulticlassModel(n_features=3, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = online_proximal(LogLoss(model, data), L1(0.1), step_size=steps.InverseSqrt(0.5), epochs=20, rng=0)
    >>> result.nit, [bool(w == 0) for w in result.x[-2:]]  # feature 2 never occurs
    (20, [True, True])
    """
    if project is not None and not isinstance(project, (Ball, Simplex)):
        raise TypeError(f"project: expected the indicator of a set, such as L2Ball(1.0), got {project!r}")
    regularizer, steps = as_regularizer(regularizer), CheckedSchedule(schedule_of(step_size), positive=True)
    proxes = regularizer if project is None else Sequential([regularizer, project])
    box = OnlineProximal(proxes, steps, sigma, mu, batch_size, average)
    resolved = {"regularizer": regularizer, "step_size": steps.schedule}
    return minimize(objective, Proximal(box, regularizer), w0, resolved=resolved, **run).result
