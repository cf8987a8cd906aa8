"""The interface of a solver: a box, with the parts of a run that its paper leaves open.

These are the start, the evaluation of an iterate, the rejection of steps, the stopping rule and the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reference.optimizers.base import Algorithm, Objective
from reference.training.arguments import check_objective, refuse_constraint, refuse_nonlinear, start_of
from reference.training.result import Report
from reference.training.run import Ending, Run

__all__ = ["Ending", "Loop", "Needs", "Report", "Solver", "check_kind"]


class Needs(NamedTuple):
    """What a solver needs of its objective.

    attributes: their names; methods as "corners(w, batch)". convex: whether scores must be linear in the weights.
    constrained: whether the constraint w >= 0 on some weights is supported.
    """

    attributes: tuple[str, ...] = ()
    convex: bool = True
    constrained: bool = False


class Loop(NamedTuple):
    """How a solver is run.

    unit: what is counted, for messages. still: epochs that leave the dual as it is and end a run that has a ``tol``;
    0: none do. evaluates_start: whether the start is always evaluated. panel_state: whether a state belongs to one
    panel, and may change in place.
    """

    unit: str = "epochs"
    still: int = 0
    evaluates_start: bool = True
    panel_state: bool = False


@dataclass(frozen=True)
class Solver(Algorithm, ABC):
    """A box in a run; by default ``init`` and ``epoch`` are those of the box."""

    box: Any

    name: ClassVar[str]  # of the public function
    needs: ClassVar[Needs | None] = Needs()  # None: ``start`` checks the objective
    loop: ClassVar[Loop] = Loop()

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        """w0 (d,), or the default; raise if the objective has what ``needs`` says and is still not suitable."""
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

    @abstractmethod
    def ending(self, run: Run, state: Any) -> Ending:
        """How a run ended; the state is None if it was interrupted before the first state."""


def check_kind(solver: Solver | type[Solver], objective: Any) -> None:
    """Raise unless the objective meets the requirements that a solver declares."""
    if (needs := solver.needs) is None:
        return
    for method in (name for name in needs.attributes if "(" in name):
        if not hasattr(objective, method.partition("(")[0]):
            raise TypeError(f"objective: {solver.name} needs {method}, which {type(objective).__name__} lacks")
    check_objective(objective, *(name for name in needs.attributes if "(" not in name))
    if needs.convex:
        refuse_nonlinear(solver.name, objective)
    if not needs.constrained:
        refuse_constraint(solver.name, objective)
