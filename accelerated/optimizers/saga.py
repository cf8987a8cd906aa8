"""SAGA: a pass as one call of a kernel. Its table holds the oracles' answers, and L^2 numbers an example."""

from __future__ import annotations

from typing import Any

import numpy as np

import reference.optimizers.saga as reference
from accelerated.arrays import like, view
from accelerated.compiled.epochs.saga import Answers, saga_epoch, saga_table
from accelerated.compiled.epochs.svrg import Steps
from accelerated.compiled.problems.answers import StoredAnswers
from accelerated.optimizers.svrg import SVRG, kept_of
from accelerated.problems import finite, problem_of, touched_of
from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.optimizers.saga import MOST, Table, table_at
from reference.optimizers.subproblem import Snapshot, Subproblem

__all__ = ["MOST", "SAGA", "Table", "table_at"]


class SAGA(reference.SAGA):
    def snapshot(self, objective: Objective, x: Array, mu: float | None) -> Snapshot:
        return SVRG().snapshot(objective, x, mu)

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Table | None
    ) -> tuple[Array, int, Table]:
        objective, lam, kappa, mu, center = problem
        target: Any = objective
        table: Any = memory
        packed, model, mu = problem_of(target, target._mu(mu)), target.model, target._mu(mu)
        x = view("w0", snapshot.x)
        kernels = isinstance(table, Answers) or (table is None and len(kept_of(snapshot).outputs) > 0)
        if packed is None or not kernels or not finite(x) or (center is not None and not finite(center)):
            if isinstance(memory, Answers):  # the weights are no longer finite
                return snapshot.x, len(order), table
            return super().one_pass(problem, snapshot, order, step_size, table)
        a, w = 1.0 / (1.0 + step_size * (lam + kappa)), model.padded(x)
        answers = _first(packed, target, snapshot, w, mu) if table is None else _copied(table)
        shift = model.padded(a * step_size * kappa * view("center", center) if center is not None else 0.0 * x)
        saga_epoch(packed, touched_of(target, packed), Steps(order, step_size, a, False), mu, answers, shift, w)
        return like(model.flat(*w), snapshot.x), len(order), answers  # type: ignore[return-value]


def _first(problem: Any, objective: Any, snapshot: Any, w: Any, mu: float) -> Answers:
    """The table at a snapshot."""
    room = (np.empty((0, 0, 0)) if name == "pairs" else x.copy() for name, x in snapshot.kept._asdict().items())
    means = objective.model.padded(view("gradient", snapshot.gradient))
    finite_means = (np.where(np.isfinite(g), g, 0.0) for g in means)  # 0 where forbidden
    answers = Answers(StoredAnswers(*room), np.empty((objective.n, *w.dense.shape[1:])), *finite_means)
    saga_table(problem, w, mu, snapshot.kept, answers)
    return answers


def _copied(table: Answers) -> Answers:
    """A copy of the table, to change in place."""
    kept = StoredAnswers(*(each.copy() for each in table.kept))
    return Answers(kept, table.edges.copy(), table.mean_W.copy(), table.mean_A.copy())
