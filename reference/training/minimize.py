"""The training loop: it runs a solver until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reference.optimizers.base import Examples
from reference.training.counterparts import counterpart, domain_of
from reference.training.result import Callback, Report, Result
from reference.training.run import Run, untimed
from reference.training.solver import Solver, check_kind

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
    written: Callable[[Any], None] = lambda state: None,
) -> tuple[Result, Run, Any]:
    """Run a solver from w0 or its own start; returns the result, the run and the last state.

    every: epochs from one evaluation, with its row, to the next. same: the options that a resumed run must have in
    common, and resolved: what some of them stand for. written: called with the state of each checkpoint when its file
    has been written. The public functions describe the other parameters.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {type(callback).__name__}")
    check_kind(solver, objective)
    start = solver.start(objective, w0, rng)
    kind = domain_of(solver, objective)
    solver = counterpart(solver, objective)
    options = {**(same or {}), **(resolved or {})}
    settings: dict[str, Any] = {"tol": tol, "form": kind.form_of(solver), "loop": solver.loop, "written": written}
    run = Run(solver.name, objective, start, options, epochs, rng, callback, checkpoint, resume, **settings)
    state: Any = None
    with run:
        with run.timed():
            if run.resumed is None:
                domain = kind.of(objective, start)
                state = solver.init(domain.objective, domain.taken(start), run.rng)
            else:
                domain, saved = kind.resumed(objective, run.resumed)
                state = solver.restored(domain.objective, saved)
        objective = domain.objective
        if run.resumed is not None or epochs == 0 or solver.loop.evaluates_start:
            with untimed():
                report = solver.evaluate(objective, state)
        else:
            report = Report(domain.taken(start), np.nan)
        if run.resumed is None:
            with run.timed():
                state, report = solver.accept(objective, None, state, report, run.rng)
        run.begin(domain.reported(report), domain.saved(solver.saved(state)))
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
            run.record(domain.saved(solver.saved(state)), domain.reported(report), k)
    return run.result(solver.ending(run, state)), run, state
