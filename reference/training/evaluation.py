"""The evaluation of an iterate: the objective, and a dual value if there is one."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from reference.arrays import Array, host, squared_norm
from reference.optimizers.base import Linearized, Objective, traits, value_of

__all__ = ["Evaluation", "evaluate"]


class Evaluation(NamedTuple):
    """At w: objective, F(w) + lam/2 ||w||^2; dual, a lower bound on its minimum; smoothed, F_mu(w).

    slope: a bound on F_mu(w) + lam/2 ||w||^2 minus its minimum. exact: the share of exact oracles. mu: as given. For
    lam = 0 there are no bounds: dual = -inf, slope = inf.
    """

    objective: float
    dual: float
    smoothed: float
    slope: float
    exact: float
    mu: float | None = None


def evaluate(objective: Objective, w: Array, lam: float, mu: float | None) -> Evaluation:
    """Objective and dual at w (d,), from the oracles smoothed at mu.

    A structural hinge is evaluated unsmoothed, and the weights of its smoothed max are a dual point:
    D = task loss - ||g||^2 / (2 lam). Any other objective F is its own target; if it is convex, then
    F(w) + lam/2 ||w||^2 - ||g + lam w||^2 / (2 lam) is a lower bound by strong convexity.
    """
    x = host(w).astype(np.float64, copy=False)
    is_hinge = traits(objective).hinge
    if is_hinge:
        value, g, task_loss, exact = cast(Linearized, objective).linearize(w, None, mu)
        target = value if mu == 0 else value_of(objective, w, 0.0)
    else:
        value, g = objective.value_and_gradient(w, None, mu)
        target, exact = value, 1.0
    regularised = target + 0.5 * lam * squared_norm(x)
    if lam == 0:
        return Evaluation(regularised, -np.inf, value, np.inf, exact, mu)
    slope = squared_norm(host(g).astype(np.float64, copy=False) + lam * x) / (2 * lam)
    dual = task_loss - squared_norm(g) / (2 * lam) if is_hinge else regularised - slope
    return Evaluation(regularised, dual, value, slope, exact, mu)
