"""Runs over the features that occur in the data.

Weights of other features have no gradient, so they stay 0 where they start at 0. Hashed features leave most rows of
weights without any; a run then has the weights of the other rows alone, numbered anew, and costs what these cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from accelerated.arrays import ready
from accelerated.kept import Kept
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.sequence import SequenceModel
from accelerated.models.tagging import TaggingModel
from reference.arrays import Array, Rows
from reference.optimizers.subproblem import UserPass
from reference.packed import lock
from reference.training.casimir import CasimirRun
from reference.training.dual import CentredFrankWolfe, DualUpdates, FrankWolfe, Planes
from reference.training.exponentiated_gradient import CentredGradient, Exponentiated
from reference.training.result import Report
from reference.training.run import Ending, Run
from reference.training.smooth import Backtracked, Smooth
from reference.training.solver import Solver
from reference.training.stochastic import Descent

__all__ = ["SOLVERS", "Narrow", "Narrowed", "narrowed", "occurring"]

LEAST = 2**16  # weights; with fewer, whole vectors cost little


class Narrowed(NamedTuple):
    """The state of a run over the rows of weights numbered ``rows`` (k,); None: over all."""

    inner: Any
    rows: np.ndarray | None


class Narrow(Solver):
    """A run over the features that occur, and those with a weight at the start."""

    @classmethod
    def fits(cls, solver: Solver, objective: Any) -> bool:
        """Many weights, of features of which at most half occur."""
        model, data = objective.model, objective.data
        if model.size < LEAST or getattr(model, "pairs", None) is not None or objective.nonnegative is not None:
            return False
        if getattr(data, "edges", None) is not None:
            return False
        if isinstance(solver, CasimirRun) and isinstance(solver.box.inner.box, UserPass):  # it sees all weights
            return False
        plain = type(data.rows.data) is np.ndarray and data.rows.data.dtype == np.float64
        return plain and 2 * int(np.sum(occurring(objective))) <= data.rows.width

    @property
    def form(self) -> str:
        return f"{__name__}.{type(self).__name__}"

    def init(self, objective: Any, w0: Array, rng: np.random.Generator) -> Narrowed:
        rows = None
        if ready(w0):
            matrix = _matrix(objective, w0)
            used = (matrix != 0).any(axis=1) if np.any(matrix) else False
            rows = np.flatnonzero(occurring(objective) | used)
        return Narrowed(super().init(narrowed(objective, rows), taken(objective, w0, rows), rng), rows)

    def epoch(self, objective: Any, state: Narrowed, rng: np.random.Generator) -> Narrowed:
        return state._replace(inner=super().epoch(narrowed(objective, state.rows), state.inner, rng))

    def evaluate(self, objective: Any, state: Narrowed) -> Report:
        report = super().evaluate(narrowed(objective, state.rows), state.inner)  # type: ignore[safe-super]
        return report._replace(x=spread(objective, report.x, state.rows))

    def accept(
        self, objective: Any, before: Narrowed | None, after: Narrowed, report: Report, rng: np.random.Generator
    ) -> tuple[Narrowed, Report]:
        smaller, rows = narrowed(objective, after.rows), after.rows
        inner, accepted = super().accept(smaller, before and before.inner, after.inner, report, rng)
        if accepted is not report:
            accepted = accepted._replace(x=spread(objective, accepted.x, rows))
        return Narrowed(inner, rows), accepted

    def saved(self, state: Narrowed) -> Narrowed:
        return state._replace(inner=super().saved(state.inner))

    def restored(self, objective: Any, saved: Any) -> Narrowed:
        inner, rows = saved if isinstance(saved, Narrowed) else (saved, None)  # the reference saves all rows
        return Narrowed(super().restored(narrowed(objective, rows), inner), rows)

    def ending(self, run: Run, state: Narrowed) -> Ending:
        return super().ending(run, state.inner)


SOLVERS: dict[type, type] = {
    solver: type(solver.__name__, (Narrow, solver), {"__doc__": Narrow.__doc__})
    for solver in (
        *(Descent, Backtracked, CasimirRun, Smooth, FrankWolfe, CentredFrankWolfe),
        *(Exponentiated, CentredGradient, DualUpdates, Planes),
    )
}


_occurring: Kept[np.ndarray] = Kept()  # of an objective
_narrowed: Kept[tuple[np.ndarray, Any]] = Kept()  # the last features, and the objective over them


def occurring(objective: Any) -> np.ndarray:
    """Which features (F,) have an entry in the data; kept as long as the objective."""

    def make() -> np.ndarray:
        occurs = np.zeros(objective.data.rows.width, bool)
        occurs[objective.data.rows.indices] = True
        return occurs

    return _occurring.once(objective, make)


def narrowed(objective: Any, rows: np.ndarray | None) -> Any:
    """The objective over these features (k,), numbered in this order; the last one is kept as long as the objective."""
    if rows is None:
        return objective
    last = _narrowed.get(objective)
    if last is None or not (last[0] is rows or np.array_equal(last[0], rows)):
        model, data = objective.model, objective.data
        number = np.full(data.rows.width, -1)
        number[rows] = np.arange(len(rows))
        features = Rows.unchecked(data.rows.indptr, lock(number[data.rows.indices]), data.rows.data, len(rows))
        smaller = objective.over(MODELS[type(model)](model, rows), replace(data, rows=features))
        last = _narrowed.put(objective, (rows, smaller))
    return last[1]


def taken(objective: Any, w: Array, rows: np.ndarray | None) -> Array:
    """The weights (d',) of these features, and those that belong to none, from all weights (d,)."""
    if rows is None:
        return w
    matrix = _matrix(objective, w)
    return np.concatenate([matrix[rows].ravel(), w[matrix.size :]])


def spread(objective: Any, w: Array, rows: np.ndarray | None) -> Array:
    """The inverse of :func:`taken`: all weights (d,), 0 for other features."""
    if rows is None:
        return w
    whole = np.zeros(objective.model.size)
    matrix = _matrix(objective, whole)
    cut = len(rows) * objective.model.n_labels
    matrix[rows], whole[matrix.size :] = w[:cut].reshape(len(rows), matrix.shape[1]), w[cut:]
    return whole


def _matrix(objective: Any, w: np.ndarray) -> np.ndarray:
    """The weights (F, L) of features and labels: a view."""
    width, L = objective.data.rows.width, objective.model.n_labels
    return w[: width * L].reshape(width, L)


def _sequences(model: Any, rows: np.ndarray) -> SequenceModel:
    return SequenceModel(len(rows), model.labels, cost=model.cost, start_stop=False, max_cells=model.max_cells)


def _taggers(model: Any, rows: np.ndarray) -> TaggingModel:
    options = {name: getattr(model, name) for name in ("label_pairs", "transitions", "cost", "max_cells")}
    return TaggingModel(model.labels, None, vocabulary=list(map(str, rows.tolist())), **options)


def _classes(model: Any, rows: np.ndarray) -> MulticlassModel:
    return MulticlassModel(len(rows), model.labels, cost=model.cost, max_rows=model.max_rows)


MODELS: dict[type, Callable[[Any, np.ndarray], Any]] = {
    SequenceModel: _sequences,
    TaggingModel: _taggers,
    MulticlassModel: _classes,
}
