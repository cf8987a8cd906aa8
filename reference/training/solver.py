"""The interface of a solver, a box with the parts of a run that its paper leaves open, and the loop that runs it.

These parts are the start, the evaluation of an iterate, the rejection of steps, the stopping rule and the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, floats, host
from reference.models.partial import needs_all
from reference.optimizers.base import Algorithm, Objective, Traits, traits
from reference.smoothings import Max
from reference.training.checkpoints import identity
from reference.training.counterparts import counterpart
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result
from reference.training.run import Ending, Run, untimed
from reference.weighted import Weighted

__all__ = ["Report", "Result", "RunOptions", "Solver", "Terms", "minimize", "runs", "verdict"]


class Terms(NamedTuple):
    """What a solver needs of its objective, and how it is run.

    needs: attributes; methods as "corners(w, batch)". convex: whether scores must be linear in the weights; if not, a
    run starts from the model's initial weights. constrained: whether the constraint w >= 0 on some weights is
    supported. partial: whether labels may be partly known. smoothed, unsmoothed: whether a hinge must have a smoothing,
    or none.

    unit: what is counted, for messages. still: epochs that leave the dual as it is and end a run that has a ``tol``;
    0: none do. evaluates_start: whether the start is always evaluated. panel_state: whether a state belongs to one
    panel, and may change in place. uncertified: why there is no certificate, if there is none. iterate: which one is
    returned, if the box has no ``average``.
    """

    needs: tuple[str, ...] = ()
    convex: bool = True
    constrained: bool = False
    partial: bool = False
    smoothed: bool = False
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
        """How a run ended that came to a state."""
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
    resumed, epochs, state, report = run.resumed is not None, run.epochs_asked, None, Report(start, np.nan)
    with run:
        with run.timed():
            state = solver.restored(objective, run.resumed) if resumed else solver.init(objective, start, run.rng)
            if resumed or epochs == 0 or solver.terms.evaluates_start:
                with untimed():
                    report = solver.evaluate(objective, state)
                if not resumed:
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
                state, report = solver.accept(objective, state, after, report, run.rng)
            del after  # it may be large
            run.record(solver.saved(state), report, k)
    return run.finished(Ending((False, "")) if state is None else solver.ending(run, state), state)


def check_needs(solver: Any, objective: Any, properties: Traits) -> None:
    """Raise unless the objective, of these traits, is a finite sum, and meets the requirements of a solver's terms."""
    name, terms, kind = solver.name, solver.terms, type(objective).__name__
    for attribute in ("n", "value_and_gradient", *terms.needs):
        if hasattr(objective, attribute.partition("(")[0]):
            continue
        if "(" in attribute:
            raise TypeError(f"objective: {name} needs {attribute}, which {kind} lacks")
        raise TypeError(
            f"objective: expected an object with n and value_and_gradient(w, batch, mu), such as LogLoss(model, data); "
            f"{kind} has no {attribute}"
        )
    if terms.convex and not properties.linear:
        raise ValueError(
            f"objective: its scores are not linear in the weights, and {name} needs a convex objective: prox_linear "
            f"and sgd do not"
        )
    if properties.unknown and not terms.partial:
        raise ValueError(f"objective: {needs_all(name, properties.unknown)}")
    constrained = properties.nonnegative
    if constrained is not None and not terms.constrained:
        raise ValueError(
            f"objective: its weights {constrained.start}..{constrained.stop - 1} must be >= 0, which {name} does not "
            f"support; use bcfw or sgd"
        )
    if terms.smoothed and isinstance(properties.smoothing, Max):
        raise ValueError(
            f"objective: {name} needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy()), got "
            f"smoothing={properties.smoothing}"
        )
    if terms.unsmoothed and properties.hinge and not isinstance(properties.smoothing, Max | None):
        raise ValueError(
            f"objective: {name} solves the unsmoothed hinge, expected StructuralHinge(model, data), got "
            f"smoothing={properties.smoothing}"
        )


def check_provable(lam: float, tol: float | None) -> None:
    """Raise ValueError unless there is lam > 0 to prove a gap of ``tol`` by."""
    if tol is not None and not lam > 0:
        raise ValueError(f"tol: expected a number >= 0, and lam > 0 to prove it by, got {tol} with lam = {lam}")


def start_of(objective: Any, properties: Traits, w0: Any, rng: Any = None, *, initial: bool = False) -> Array:
    """A copy of w0 (d,) as floats; if it is None, the objective's zeros, or with ``initial`` the initial weights of its
    model, drawn by ``rng``, if it has some. ValueError if a weight is negative and must be >= 0.
    """
    unweighted = objective.objective if isinstance(objective, Weighted) else objective
    if initial and w0 is None and hasattr(getattr(unweighted, "model", None), "initial"):
        w0 = unweighted.model.initial(unweighted.data, rng)
    zeros = objective.zeros() if hasattr(objective, "zeros") else None
    if w0 is None and zeros is None:
        raise ValueError("w0: give one, the objective has no zeros()")
    (start,) = floats(w0=zeros if w0 is None else w0)
    if zeros is not None and start.shape != zeros.shape:
        raise ValueError(f"w0: expected shape {tuple(zeros.shape)}, as objective.zeros() has, got {tuple(start.shape)}")
    if (constrained := properties.nonnegative) is not None:
        negative = np.flatnonzero(host(start[constrained]) < 0)
        if len(negative) > 0:
            first, last, k = constrained.start, constrained.stop - 1, constrained.start + int(negative[0])
            raise ValueError(f"w0: weights {first}..{last} must be >= 0, got {float(start[k])} for weight {k}")
    return start if start is not w0 else array_namespace(start).asarray(start, copy=True)


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
