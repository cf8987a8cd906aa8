"""The interface of a solver: a box, with the parts of a run that its paper leaves open.

These are the start, the evaluation of an iterate, the rejection of steps, the stopping rule and the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reference.optimizers.base import Objective, Piece
from reference.training.arguments import check_objective, refuse_constraint, refuse_nonlinear, start_of
from reference.training.result import Report, small_enough
from reference.training.run import Point, Run

__all__ = ["Ending", "Report", "Solver", "check_kind"]


class Ending(NamedTuple):
    """How a run ended: success and the message, the iterate returned, its certificate, and the number of steps (None:
    the passes).
    """

    outcome: tuple[bool, str]
    iterate: str = "last"
    certificate: float | str | None = None
    nit: int | None = None


@dataclass(frozen=True)
class Solver(Piece, ABC):
    """A box in a run; by default ``init`` and ``epoch`` are those of the box."""

    box: Any

    name: ClassVar[str]  # of the public function
    requires: ClassVar[tuple[str, ...]] = ()  # attributes of the objective; methods as "corners(w, batch)"
    convex: ClassVar[bool] = True  # whether scores must be linear in the weights
    constrained: ClassVar[bool] = False  # whether the constraint w >= 0 on some weights is supported
    panel_state: ClassVar[bool] = False  # whether a state belongs to one panel, and may change in place
    by_gap: ClassVar[bool] = True  # whether ``tol`` is of the gap
    still: ClassVar[int] = 0  # epochs that leave the dual as it is and end a run that has a ``tol``; 0: none do
    evaluates_start: ClassVar[bool] = True  # whether the start is always evaluated
    unit: ClassVar[str] = "epochs"

    @property
    def checkpoint_form(self) -> type | None:
        """The type whose state this is, if it belongs to one panel."""
        return type(self.box) if self.panel_state else None

    def check(self, objective: Objective, tol: float | None) -> None:
        """Raise unless the objective is suitable, and the options have a meaning together."""
        check_kind(self, objective)

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        """w0 (d,), or the default."""
        return start_of(objective, w0)

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
        """The state to continue from and its report, given those after an epoch; ``before`` is None at the start."""
        return after, report

    def saved(self, state: Any) -> Any:
        """The form of a state in a checkpoint."""
        return state

    def restored(self, objective: Objective, saved: Any) -> Any:
        """The state, from its form in a checkpoint."""
        return saved

    def written(self, saved: Any) -> None:
        """Called when a checkpoint with this state has been written."""

    def reached(self, point: Point, state: Any, tol: float | None) -> bool:
        """Whether the last iterate is good enough to stop."""
        return point.gap is not None and small_enough(point.gap, point.fun, tol)

    @abstractmethod
    def ending(self, run: Run, state: Any, tol: float | None) -> Ending:
        """How a run ended; the state is None if it was interrupted before the first state."""


def check_kind(solver: Solver | type[Solver], objective: Any) -> None:
    """Raise unless the objective meets the requirements that a solver declares."""
    for method in (name for name in solver.requires if "(" in name):
        if not hasattr(objective, method.partition("(")[0]):
            raise TypeError(f"objective: {solver.name} needs {method}, which {type(objective).__name__} lacks")
    check_objective(objective, *(name for name in solver.requires if "(" not in name))
    if solver.convex:
        refuse_nonlinear(solver.name, objective)
    if not solver.constrained:
        refuse_constraint(solver.name, objective)
