"""The training loop: it runs a solver until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reference.optimizers.base import Examples
from reference.training.counterparts import counterpart
from reference.training.result import Callback, Report, Result
from reference.training.run import Point, Run, untimed
from reference.training.solver import Solver

__all__ = ["minimize", "run_of"]


def minimize(objective: Examples, solver: Solver, w0: Any = None, **options: Any) -> Result:
    """The result of :func:`run_of`, which describes the parameters."""
    return run_of(objective, solver, w0, **options)[0]


def run_of(
    objective: Any,
    solver: Solver,
    w0: Any = None,
    *,
    epochs: int,
    tol: float | None = None,
    every: int = 1,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
    same: Mapping[str, Any] | None = None,
    resolved: Mapping[str, Any] | None = None,
) -> tuple[Result, Run, Any]:
    """Run a solver from w0 or its own start; returns the result, the run and the last state.

    every: epochs from one evaluation, with its row, to the next. same: the options that a resumed run must have in
    common, and resolved: what some of them stand for. The public functions describe the other parameters.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {type(callback).__name__}")
    solver.check(objective, tol)
    start = solver.start(objective, w0, rng)
    solver = counterpart(solver, objective)
    state: Any = None

    def reached(point: Point) -> bool:
        return solver.reached(point, state, tol)

    run = Run(
        solver.name,
        objective,
        start,
        {**(same or {}), **(resolved or {})},
        epochs,
        rng,
        callback,
        checkpoint,
        resume,
        reached=reached,
        form=solver.checkpoint_form,
        unit=solver.unit,
        written=solver.written,
        by_gap=solver.by_gap and tol is not None,
        still=solver.still if tol is not None else 0,
    )
    saved = run.resumed
    with run:
        with run.timed():
            if saved is None:
                state = solver.init(objective, start, run.rng)
            else:
                state = solver.restored(objective, saved)
        if saved is not None or epochs == 0 or solver.evaluates_start:
            with untimed():
                report = solver.evaluate(objective, state)
        else:
            report = Report(start, np.nan)
        if saved is None:
            with run.timed():
                state, report = solver.accept(objective, None, state, report, run.rng)
        run.begin(report, solver.saved(state))
        for k in run.epochs():
            with run.timed():
                after = solver.epoch(objective, state, run.rng)
            if k % every != 0 and k != epochs:
                state = after
                continue
            with untimed():
                report = solver.evaluate(objective, after)
            with run.timed():
                state, report = solver.accept(objective, state, after, report, run.rng)
            del after  # it may be large
            run.record(solver.saved(state), report, k)
    ending = solver.ending(run, state, tol)
    result = run.result(ending.outcome, iterate=ending.iterate, certificate=ending.certificate, nit=ending.nit, tol=tol)
    return result, run, state
