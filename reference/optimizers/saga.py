"""SAGA: stochastic gradients whose noise is taken out by the last gradient of each example.

min_w F(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2 with a smooth finite sum F = (1/n) sum_i f_i. A table has a gradient
g_i of each example, all at one point to begin with; a step on example i is

    w <- [w - gamma (grad f_i(w) - g_i + (1/n) sum_j g_j) + gamma kappa z] / [1 + gamma (lam + kappa)],
    g_i <- grad f_i(w)

with the same w on the right of both: the quadratics are taken implicitly, as in :mod:`reference.optimizers.svrg`. An
inner solver of Casimir. Source: Defazio, Bach and Lacoste-Julien (2014); for its use, Pillutla et al., section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Objective
from reference.optimizers.subproblem import InnerPass, Snapshot, Subproblem

__all__ = ["MOST", "SAGA", "Table", "table_at"]

MOST = 2**27  # numbers in a table: 1 GiB of float64


class Table(NamedTuple):
    """The last gradient (d,) of each example, None where it is still the one at x (d,); their mean (d,)."""

    x: Array
    gradients: tuple[Array | None, ...]
    mean: Array


@dataclass(frozen=True)
class SAGA(InnerPass):
    """One pass of SAGA, inside of Casimir; its memory is a :class:`Table`."""

    def one_pass(
        self, problem: Subproblem, at: Snapshot, order: np.ndarray, step_size: float, memory: Table | None
    ) -> tuple[Array, int, Table]:
        """A step for each example in ``order``, from the snapshot; without a memory all gradients are those at the
        snapshot.
        """
        objective, mu = problem.objective, problem.mu
        w, (x, gradients, mean) = at.x, memory or table_at(at, objective)
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
    """All gradients at a snapshot, each to be computed when its example is first visited.

    Raises
    ------
    ValueError
        n d numbers would be more than MOST.
    """
    n, d = objective.n, start.x.shape[0]
    if n * d > MOST:
        raise ValueError(
            f"inner: 'saga' keeps a gradient of each example, {n} of {d} numbers, expected at most {MOST} in all; "
            "'svrg' keeps none"
        )
    return Table(start.x, (None,) * n, start.gradient)
