"""What a run asks of a solver: a box, and around it what its paper leaves open.

Where a run starts, what an iterate is worth, what is taken back, when it is good enough, how it ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reference.optimizers.base import Objective, Piece
from reference.training.arguments import check_objective, refuse_constraint, refuse_nonlinear, start_of
from reference.training.result import Report, Result, small_enough
from reference.training.run import Point, Run

__all__ = ["Ending", "Report", "Solver", "check_kind"]


class Ending(NamedTuple):
    """How a run ended: success and the sentence about it, which iterate it returns, what proves it, steps done
    (None: passes).
    """

    outcome: tuple[bool, str]
    iterate: str = "last"
    certificate: float | str | None = None
    nit: int | None = None


@dataclass(frozen=True)
class Solver(Piece, ABC):
    """A box in a run. What is not said here is the box's own."""

    box: Any

    name: ClassVar[str]  # of the public function
    asks: ClassVar[tuple[str, ...]] = ()  # what it asks of the objective besides its value and gradient
    needs: ClassVar[tuple[str, ...]] = ()  # what else the objective must have
    convex: ClassVar[bool] = True  # whether scores must be linear in the weights
    constrained: ClassVar[bool] = False  # whether weights may be asked to be >= 0
    own_form: ClassVar[bool] = False  # whether a state is of one panel, and may change in place
    looks: ClassVar[bool] = True  # whether the start is evaluated even if nothing asks for it
    unit: ClassVar[str] = "epochs"

    @property
    def asked(self) -> dict[str, Any]:
        """The options that two runs must have in common to be one."""
        return {name: value for name, value in vars(self.box).items()}

    def check(self, objective: Objective, tol: float | None) -> None:
        """Raise unless the options are in range and the objective will do."""
        check_kind(self, objective)

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        """w0 (d,), or the default."""
        return start_of(objective, w0)

    def init(self, objective: Objective, w0: Any, rng: np.random.Generator) -> Any:
        """The state before the first epoch."""
        return self.box.init(objective, w0)

    def epoch(self, objective: Objective, state: Any, rng: np.random.Generator) -> Any:
        """The state after one more."""
        return self.box.epoch(objective, state, rng)

    @abstractmethod
    def evaluate(self, objective: Objective, state: Any) -> Report:
        """What would be returned now. Its time does not count."""

    def settle(
        self, objective: Objective, before: Any, after: Any, report: Report, rng: np.random.Generator
    ) -> tuple[Any, Report]:
        """The state to go on from, given what an epoch came to; ``before`` is None at the start."""
        return after, report

    def saved(self, state: Any) -> Any:
        """What a checkpoint keeps of a state."""
        return state

    def restored(self, objective: Objective, saved: Any) -> Any:
        """The state again."""
        return saved

    def reached(self, point: Point, state: Any, tol: float | None) -> bool:
        """Whether this is good enough to stop at."""
        return point.gap is not None and small_enough(point.gap, point.fun, tol)

    @abstractmethod
    def ending(self, run: Run, state: Any, tol: float | None) -> Ending:
        """How a run ended; the state is None where it was interrupted before the first."""

    def result(self, found: Result, run: Run, state: Any) -> Result:
        """What is returned."""
        return found


def check_kind(solver: Solver | type[Solver], objective: Any) -> None:
    """Raise unless the objective is what a solver says that it needs."""
    for name in solver.asks:
        if not hasattr(objective, name):
            raise TypeError(f"objective: {solver.name} needs {name}(w, batch), which {type(objective).__name__} lacks")
    check_objective(objective, *solver.needs)
    if solver.convex:
        refuse_nonlinear(solver.name, objective)
    if not solver.constrained:
        refuse_constraint(solver.name, objective)
