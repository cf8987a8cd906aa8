"""Runs of a dual method with a centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reference.arrays import Array, absolute_sum, squared_norm
from reference.optimizers.base import Objective, value_of
from reference.optimizers.centre import Centred, CentredState
from reference.training.result import Report
from reference.training.run import Ending, Run
from reference.training.solver import Solver, Terms, verdict

__all__ = ["CentredRun", "with_centre"]

ITERATE = "of lowest objective"
STILL = 60  # evaluations that do not raise the highest dual end a run: the rest is rounding


def with_centre(terms: Terms) -> Terms:
    """The terms of a run with a centre, from those of the dual method's own runs."""
    return terms._replace(still=STILL, iterate=ITERATE)


@dataclass(frozen=True)
class CentredRun(Solver):
    """A run of :class:`Centred`. It returns the weights of lowest objective, with the highest dual."""

    box: Centred

    @property
    def form(self) -> str | None:
        """That of the dual method, whose state it is."""
        kind = type(self.box.dual)
        return f"{kind.__module__}.{kind.__qualname__}"

    def value(self, objective: Objective, w: Array) -> float:
        """The objective with its regulariser."""
        box = self.box.dual
        loss = value_of(objective, w, getattr(box, "mu", None))
        return loss + box.l1 * absolute_sum(w) + 0.5 * self.box.lam * squared_norm(w)

    def evaluate(self, objective: Objective, state: CentredState) -> Report:
        box, (x, fun, dual) = self.box, state.best
        w = box.weights(objective, state)
        last = self.value(objective, w)
        if not last >= fun:
            x, fun = w, last
        dual = max(dual, box.bound(objective, state))
        return Report(x, fun, dual, fun - dual, calls=getattr(state.dual, "calls", None), detail=(x, fun, dual))

    def accept(
        self, objective: Objective, before: Any, after: CentredState, report: Report, rng: np.random.Generator
    ) -> tuple[CentredState, Report]:
        return after._replace(best=report.detail), report

    def restored(self, objective: Objective, saved: CentredState) -> CentredState:
        x, _, dual = saved.best
        return saved._replace(best=(x, self.value(objective, x), dual))

    def ending(self, run: Run, state: Any) -> Ending:
        return Ending(verdict(run), ITERATE, run.gap)
