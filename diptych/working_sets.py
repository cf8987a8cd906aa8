"""A value of a path of l1, solved on a working set of weights and certified over all of them.

Where l1 is large most weights are 0, and most features then have none that is not. v (d,), minus the gradient of the
log loss, tells at the last value which weights may leave 0 at the next one: w_j stays 0 while |v_j| <= l1, and v_j
seldom moves by more than l1 does. So the working set has the weights that are not 0 and those with

    |v_j| >= max(SHARE l1, l1 - |l1 - last l1|)

This is not safe. The dual's bound is therefore taken over all weights; those that were missed, |v_j| > l1, enter the
set, and exponentiated gradient goes on from where it is.

Source: Tibshirani et al. (2012), "Strong rules for discarding predictors in lasso-type problems", the sequential rule;
SHARE is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reference import TaggingModel
from reference.arrays import Array
from reference.optimizers.centre import Centred, CentredState, default_kappa
from reference.optimizers.exponentiated_gradient import ExponentiatedGradient
from reference.screening.solvers import SparseResult
from reference.training.counterparts import counterpart
from reference.training.exponentiated_gradient import CentredGradient
from reference.training.result import padded
from reference.training.solver import minimize

__all__ = ["EVERY", "STEP", "Carried", "before_all", "next_value", "over", "renumbered_rows"]

STEP = 0.3  # the first step size of exponentiated gradient
EVERY = 3  # its epochs from one evaluation to the next, which follows a move of the centre
SHARE = 0.5
LEAST = 0.05  # the least first step size


class Carried(NamedTuple):
    """What a value of a path hands on: its l1, v (d,) at its dual point, the first step sizes of the next value."""

    l1: float
    v: np.ndarray
    steps: float | np.ndarray


def before_all(objective: Any) -> Carried | None:
    """Before the first value: all weights are 0, the solution for l1 = max |v_j|. None: there are no working sets for
    this model or for its arrays.
    """
    zeros = objective.zeros()
    if not isinstance(objective.model, TaggingModel) or objective.model.n_edge_features:
        return None
    if type(zeros) is not np.ndarray or zeros.dtype != np.float64:
        return None
    v = -objective.value_and_gradient(zeros)[1]
    return Carried(float(np.max(np.abs(v), initial=0.0)), v, STEP)


@dataclass(frozen=True)
class Continued(CentredGradient):
    """A run that goes on from a state."""

    state: CentredState

    def init(self, objective: Any, w0: Array, rng: np.random.Generator) -> CentredState:
        return self.state


def next_value(
    objective: Any, w0: np.ndarray, before: Carried, *, l1: float, lam: float, iterations: int, tol: float
) -> tuple[SparseResult, Carried]:
    """The solution at l1 from the weights w0 (d,) at the last value, and what it hands on.

    The certificate is that of the problem over all weights: every dual point of a working set is one of the whole
    problem, with the same entropies and another v.
    """
    kept = (w0 != 0) | (np.abs(before.v) >= max(SHARE * l1, l1 - abs(l1 - before.l1)))
    kept[len(kept) - len(objective.model.label_pairs) :] = True  # a state has marginals of all transitions
    # examples that took short steps start with shorter ones: theirs are the weights that leave 0 all at once
    steps = before.steps if np.ndim(before.steps) == 0 else np.maximum(np.square(before.steps), LEAST)
    dual = ExponentiatedGradient(lam, 1.0, steps, l1=l1)
    box, whole = Centred(lam, default_kappa(objective, l1), dual), counterpart(dual, objective)
    solver, start, highest, seconds, done = CentredGradient(box), w0, -np.inf, 0.0, 0
    while True:
        part = over(objective, kept)
        run = minimize(part, solver, start[kept], rng=0, every=EVERY, epochs=iterations - done, tol=tol)
        result, state, seconds, done = run.result, run.state, seconds + run.seconds, done + run.result.nit
        x = spread(result.x, kept)
        if result.interrupted:
            return found(result, x, done, seconds), before
        v = whole.difference(objective, state.dual)
        highest = max(highest, box.bound_of(float(whole.value(state.dual)), v))
        gap = padded(result.fun - highest, result.fun, 0.0, x, objective.n) or 0.0
        missed = (np.abs(v) > l1) & ~kept
        reached = gap <= tol * result.fun
        same = run.result.nit == 0 and not np.any(missed)  # both gaps are one but for rounding: nothing would move
        if reached or same or done >= iterations or not (run.solved or np.any(missed)):
            break
        y, kept = spread(state.y, kept), kept | missed
        x_dual = (v[kept] + state.kappa * y[kept]) / (lam + state.kappa)
        best = (x[kept], result.fun, highest)
        state = state._replace(dual=state.dual._replace(x=x_dual), y=y[kept], best=best)
        solver, start = Continued(counterpart(box, part), state), x
    success = result.success and (reached or same or not run.solved)
    result = replace(result, certificate=gap, success=success, oracle_calls=state.dual.calls)
    return found(result, x, done, seconds), Carried(l1, v, state.dual.steps)


def found(result: Any, x: np.ndarray, done: int, seconds: float) -> SparseResult:
    """The result over a working set as one over all weights x (d,)."""
    fields = {**vars(result), "x": x, "nit": done}
    return SparseResult(**fields, support=np.flatnonzero(x), solver_seconds=seconds)


def spread(w: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """All weights (d,), those of the working set from w."""
    x = np.zeros(len(kept))
    x[kept] = w
    return x


def over(objective: Any, kept: np.ndarray) -> Any:
    """The objective over these weights, booleans (d,), and all transitions: the others are fixed at 0."""
    model, data = objective.model, objective.data
    rows, pairs, label_pairs = attributes_of(model, np.flatnonzero(kept))
    settings = {name: getattr(model, name) for name in ("transitions", "cost", "max_cells")}
    names = list(map(str, rows.tolist()))
    part = type(model)(model.labels, None, vocabulary=names, pairs=pairs, label_pairs=label_pairs, **settings)
    return objective.over(part, replace(data, rows=data.rows.select(rows)))


def attributes_of(model: Any, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the weights numbered ``kept``: their attributes, their pairs with these numbered from 0, their transitions."""
    cells, L = model.cells[kept], model.n_labels
    inside = cells < model.width * L
    return *renumbered_rows(cells[inside], L), cells[~inside] - model.width * L


def renumbered_rows(cells: np.ndarray, many: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ``many`` weights that have cells, and the cells where only these rows are left."""
    rows, number = np.unique(cells // many, return_inverse=True)
    return rows, number * many + cells % many
