"""Stochastic gradient descent: its run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import Array
from reference.declared import Ge, Lam
from reference.optimizers.base import Objective, regularised
from reference.optimizers.sgd import SGD, SGDState
from reference.steps import Pegasos, Schedule
from reference.training.arguments import CheckedSchedule, schedule_of
from reference.training.result import RunState
from reference.training.smoothness import OffsetSearch
from reference.training.solver import Loop, Needs, Report, Result, RunOptions, Solver, minimize, runs

__all__ = ["sgd"]


@dataclass(frozen=True)
class Descent(Solver):
    """A run of :class:`SGD`. By default, the steps are ``Pegasos(offset)``; the offset is found before the first pass.

    search: finds the offset; None if the box has the steps.
    """

    search: OffsetSearch | None

    name: ClassVar[str] = "sgd"
    needs: ClassVar[Needs | None] = Needs(convex=False, constrained=True)
    loop: ClassVar[Loop] = Loop(
        evaluates_start=False, uncertified="none: stochastic gradient descent keeps no dual point"
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
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
    w0 : array (d,), optional
        Start; default ``model.initial(data, rng)`` if the model has that method, else ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm; in other conventions C = 1/(lam n), or crfsuite's c2 = lam n / 2.
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
    return minimize(objective, solver, w0, resolved={"step_size": steps}, **run)
