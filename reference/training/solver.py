"""The interface of a solver, a box with the parts of a run that its paper leaves open, and the loop that runs it.

These parts are the start, the evaluation of an iterate, the rejection of steps, the stopping rule and the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reference.optimizers.base import Algorithm, Objective, traits
from reference.training.arguments import check_needs, start_of
from reference.training.checkpoints import identity
from reference.training.counterparts import counterpart
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result
from reference.training.run import Ending, Run, untimed

__all__ = ["Report", "Result", "RunOptions", "Solver", "Terms", "minimize", "runs"]


class Terms(NamedTuple):
    """What a solver needs of its objective, and how it is run.

    needs: attributes; methods as "corners(w, batch)". convex: whether scores must be linear in the weights; if not, a
    run starts from the model's initial weights. constrained: whether the constraint w >= 0 on some weights is
    supported. unsmoothed: whether a hinge must have no smoothing.

    unit: what is counted, for messages. still: epochs that leave the dual as it is and end a run that has a ``tol``;
    0: none do. evaluates_start: whether the start is always evaluated. panel_state: whether a state belongs to one
    panel, and may change in place. uncertified: why there is no certificate, if there is none. iterate: which one is
    returned, if the box has no ``average``.
    """

    needs: tuple[str, ...] = ()
    convex: bool = True
    constrained: bool = False
    unsmoothed: bool = False
    unit: str = "epochs"
    still: int = 0
    evaluates_start: bool = True
    panel_state: bool = False
    uncertified: str | None = None
    iterate: str = "last"


@dataclass(frozen=True)
class Solver(Algorithm, ABC):
    """A box in a run; by default ``init`` and ``epoch`` are those of the box."""

    box: Any

    name: ClassVar[str]  # of the public function
    terms: ClassVar[Terms] = Terms()

    @property
    def form(self) -> str | None:
        """The type of the states, if only one panel can read them."""
        kind = type(self.box)
        return f"{kind.__module__}.{kind.__qualname__}" if self.terms.panel_state else None

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        """w0 (d,), or the default; raise if the objective is not suitable."""
        properties = traits(objective)
        check_needs(self, objective, properties)
        return start_of(objective, properties, w0, rng, initial=not self.terms.convex)

    def init(self, objective: Objective, w0: Any, rng: np.random.Generator) -> Any:
        """The state before the first epoch."""
        return self.box.init(objective, w0)

    def epoch(self, objective: Objective, state: Any, rng: np.random.Generator) -> Any:
        """The state after one more epoch."""
        return self.box.epoch(objective, state, rng)

    @abstractmethod
    def evaluate(self, objective: Objective, state: Any) -> Report:
        """The report of the iterate that would be returned now. Its time does not count."""

    def accept(
        self, objective: Objective, before: Any, after: Any, report: Report, rng: np.random.Generator
    ) -> tuple[Any, Report]:
        """The state to continue from and its report, given those after an epoch; ``before`` is None at a start that is
        evaluated.
        """
        return after, report

    def saved(self, state: Any) -> Any:
        """The form of a state in a checkpoint."""
        return state

    def restored(self, objective: Objective, saved: Any) -> Any:
        """The state, from its form in a checkpoint. An objective that it holds is evaluated again, so that a resumed
        run on other data is detected.
        """
        return saved

    def ending(self, run: Run, state: Any) -> Ending:
        """How a run ended; the state is None if it was interrupted before the first state."""
        average, terms = getattr(self.box, "average", self.terms.iterate), self.terms
        iterate = average if average in ("last", terms.iterate) else f"{average} average"
        if terms.uncertified is None:
            return Ending(verdict(run), iterate, run.gap)
        return Ending(run.ending or (True, f"{run.epochs_asked} epochs done"), iterate, terms.uncertified)


def minimize(
    objective: Any,
    solver: Solver,
    w0: Any = None,
    *,
    every: int = 1,
    same: Mapping[str, Any] | None = None,
    resolved: Mapping[str, Any] | None = None,
    **options: Any,
) -> Run:
    """Run a solver from w0 or its own start; the run then has its ``result`` and its last ``state``.

    every: epochs from one evaluation, with its row, to the next. same: the options that a resumed run must have in
    common, and resolved: what some of them stand for. options: those of :class:`Run`.
    """
    start = solver.start(objective, w0, rng := options.get("rng"))
    solver = counterpart(solver, objective)
    shared = identity(solver, objective, start, {**(same or {}), **(resolved or {})}, rng)
    run = Run(solver.terms, int(objective.n), start, shared, **options)
    epochs, state, report = run.epochs_asked, None, Report(start, np.nan)
    with run:
        with run.timed():
            if run.resumed is None:
                state = solver.init(objective, start, run.rng)
            else:
                state = solver.restored(objective, run.resumed)
        if run.resumed is not None or epochs == 0 or solver.terms.evaluates_start:
            with untimed():
                report = solver.evaluate(objective, state)
            if run.resumed is None:
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
    return run.finished(solver.ending(run, state), state)


def verdict(run: Run) -> tuple[bool, str]:
    """The outcome of a run with primal and dual values: whether the gap ``tol`` was reached, and what ended the run."""
    fun, gap, done, epochs, tol = run.fun, run.gap, run.done, run.epochs_asked, run.tol
    if not np.isfinite(fun):
        return False, f"diverged in epoch {done}: objective {fun}"
    if run.solved:
        return True, f"relative gap {tol:g} reached in epoch {done}" if done else f"relative gap {tol:g} at the start"
    if run.stopped:
        return True, f"stopped by the callback after {done} of {epochs} epochs"
    if run.stuck and done < epochs and not run.rounded:
        return not tol, f"gap {gap:g} after {done} epochs: the last {run.still} have not changed the dual"
    if not tol:
        return True, f"{epochs} epochs done" if done == epochs else f"gap {gap:g} after {done} epochs is all rounding"
    if not run.rounded:
        return False, f"gap {gap:g} after {done} epochs, above {tol:g} times the objective"
    return False, f"gap {gap:g} after {done} epochs: rounding hides whether {tol:g} times the objective is reached"
