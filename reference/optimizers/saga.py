"""SAGA: stochastic gradients, with variance reduced by the last gradient of each example.

min_w F(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2 with a smooth finite sum F = (1/n) sum_i f_i. A table keeps a gradient
g_i of each example, at first all at the same point. A step on example i is

    w <- [w - gamma (grad f_i(w) - g_i + (1/n) sum_j g_j) + gamma kappa z] / [1 + gamma (lam + kappa)],
    g_i <- grad f_i(w)

with the same w on the right of both. The step is implicit in the quadratics, as in :mod:`reference.optimizers.svrg`.
An inner solver of Casimir. Source: Defazio, Bach and Lacoste-Julien (2014); for its use, Pillutla et al., section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.optimizers.subproblem import InnerPass, Snapshot, Subproblem

__all__ = ["MOST", "SAGA", "Table", "table_at"]

MOST = 2**27  # the most numbers in a table: 1 GiB of float64


class Table(NamedTuple):
    """The last gradient (d,) of each example, None if it is still the gradient at x (d,); the mean (d,) of all."""

    x: Array
    gradients: tuple[Array | None, ...]
    mean: Array


@dataclass(frozen=True)
class SAGA(InnerPass):
    """One pass of SAGA, as an inner pass of Casimir; its memory is a :class:`Table`."""

    def one_pass(
        self, problem: Subproblem, snapshot: Snapshot, order: np.ndarray, step_size: float, memory: Table | None
    ) -> tuple[Array, int, Table]:
        """Take a step for each example in ``order``, from the snapshot; ``memory=None`` starts from a new table."""
        objective, mu = problem.objective, problem.mu
        w, (x, gradients, mean) = snapshot.x, memory or table_at(snapshot, objective)
        kept = list(gradients)
        for t in range(len(order)):
            one, i = order[t : t + 1], int(order[t])
            _, g = objective.value_and_gradient(w, one, mu)
            last = objective.value_and_gradient(x, one, mu)[1] if kept[i] is None else kept[i]
            w = problem.prox(w - step_size * (g - last + mean), step_size)
            mean = mean + (g - last) / objective.n
            kept[i] = g
        return w, len(order), Table(x, tuple(kept), mean)


def table_at(start: Snapshot, objective: Objective) -> Table:
    """A table of the gradients at a snapshot; each is computed when its example is first visited.

    Raises
    ------
    ValueError
        n d > MOST.
    """
    n, d = objective.n, start.x.shape[0]
    if n * d > MOST:
        raise ValueError(
            f"inner: 'saga' keeps a gradient of each example, {n} of {d} numbers, expected at most {MOST} in all; "
            "'svrg' keeps none"
        )
    return Table(start.x, (None,) * n, start.gradient)
