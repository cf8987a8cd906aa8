"""L-BFGS: a quasi-Newton method that keeps the last few steps, and the changes of the gradient over them.

min_w f(w) = F(w) + lam/2 ||w||^2 with a smooth F. An iteration steps along p = -H g, g the gradient at w, and keeps the
step s and the change y of the gradient. H, close to the inverse Hessian, is gamma I updated by the m last pairs (s, y),
the newest last:

    H <- (I - r s y') H (I - r y s') + r s s',   r = 1/<s, y>,   gamma = <s, y>/<y, y> of the newest pair

The step length a satisfies the strong Wolfe conditions: with phi(a) = f(w + a p),

    phi(a) <= phi(0) + c1 a phi'(0),   |phi'(a)| <= c2 |phi'(0)|,   so that <s, y> > 0

Source: Liu and Nocedal (1989); Nocedal and Wright (2006), Algorithms 7.4 (H g), 7.5 and section 3.5 (step lengths);
Hager and Zhang (2005), (23): where differences of phi are rounding, its slopes alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, epsilon
from reference.optimizers.base import Algorithm, Objective

__all__ = ["LBFGS", "LBFGSState", "Pair", "direction"]

C1, C2 = 1e-4, 0.9  # of the Wolfe conditions
TRIALS = 20  # step lengths tried in one iteration
ROUNDING = 1e3  # differences of phi up to this many units in its last place are rounding


class Pair(NamedTuple):
    """A step s (d,), the change y (d,) of the gradient over it, and <s, y> > 0."""

    s: Array
    y: Array
    product: float


class LBFGSState(NamedTuple):
    """w (d,), f(w) and its gradient (d,); pairs: the last steps, the newest last; evaluations: of f, so far.

    stuck: no step along the direction decreased f, nor did one along -g.
    """

    w: Array
    fun: float
    gradient: Array
    pairs: tuple[Pair, ...] = ()
    evaluations: int = 1
    stuck: bool = False


class Trial(NamedTuple):
    """A step length a, phi(a), phi'(a), and the point w + a p with its gradient."""

    a: float
    fun: float
    slope: float
    w: Array
    gradient: Array


@dataclass(frozen=True)
class LBFGS(Algorithm):
    """L-BFGS with strong Wolfe steps; :func:`reference.lbfgs` describes the options. An epoch is one iteration."""

    lam: float
    mu: float | None = None
    memory: int = 10

    def init(self, objective: Objective, w0: Array) -> LBFGSState:
        fun, gradient = self.evaluate(objective, w0)
        return LBFGSState(w0, fun, gradient)

    def epoch(self, objective: Objective, state: LBFGSState, rng: Any = None) -> LBFGSState:
        """One step along -H g; if no length of it decreases f, one along -g, with the pairs forgotten."""
        accepted, tried = self.step(objective, state)
        if accepted is None and state.pairs:
            state = state._replace(pairs=())
            accepted, more = self.step(objective, state)
            tried += more
        evaluations = state.evaluations + tried
        if accepted is None:
            return state._replace(evaluations=evaluations, stuck=True)
        s, y = accepted.w - state.w, accepted.gradient - state.gradient
        product, pairs = dot(s, y), state.pairs
        if product > 0 and np.isfinite(product):
            pairs = (*pairs, Pair(s, y, product))[-self.memory :]
        return LBFGSState(accepted.w, accepted.fun, accepted.gradient, pairs, evaluations)

    def step(self, objective: Objective, state: LBFGSState) -> tuple[Trial | None, int]:
        """A point along -H g that satisfies the Wolfe conditions, or a lower one; None if none is lower. With the
        number of evaluations.
        """
        p, norm = direction(state.gradient, state.pairs), dot(state.gradient, state.gradient) ** 0.5
        start = Trial(0.0, state.fun, dot(p, state.gradient), state.w, state.gradient)
        if not (start.slope < 0 and np.isfinite(start.fun + start.slope)):
            return None, 0
        noise = ROUNDING * epsilon(p) * abs(start.fun)
        a = 1.0 if state.pairs else 1.0 / norm  # without pairs the first step has length 1
        low, high = start, None  # a good step lies between them; low is the best so far
        for k in range(TRIALS):
            w = state.w + a * p
            fun, gradient = self.evaluate(objective, w)
            new = Trial(a, fun, dot(p, gradient), w, gradient)
            lower = fun <= start.fun + C1 * a * start.slope or abs(fun - start.fun) <= noise
            if lower and abs(new.slope) <= -C2 * start.slope:
                return new, k + 1
            if lower and new.slope < 0:
                low = new
            else:
                high = new
            a = between(low, high)
            if high is not None and not low.a < a < high.a:
                break
        return (low if low.fun < start.fun else None), k + 1

    def evaluate(self, objective: Objective, w: Array) -> tuple[float, Array]:
        """F(w) + lam/2 ||w||^2, and its gradient (d,)."""
        value, g = objective.value_and_gradient(w, None, self.mu)
        return float(value) + 0.5 * self.lam * dot(w, w), g + self.lam * w


def direction(g: Array, pairs: tuple[Pair, ...]) -> Array:
    """-H g (d,), by the two loops over the pairs: from the newest to the oldest, and back."""
    p, along = -g, []
    for s, y, product in reversed(pairs):
        along.append(dot(s, p) / product)
        p = p - along[-1] * y
    if pairs:
        p = (pairs[-1].product / dot(pairs[-1].y, pairs[-1].y)) * p
    for s, y, product in pairs:
        p = p + (along.pop() - dot(y, p) / product) * s
    return p


def between(low: Trial, high: Trial | None) -> float:
    """The next step length: where the cubic with the values and slopes of both trials is least, at least a tenth of
    their distance from either; without a high end, four times the low one.
    """
    if high is None:
        return 4.0 * low.a
    width, share = high.a - low.a, 0.5
    mean = low.slope + high.slope - 3 * (high.fun - low.fun) / width
    square = mean * mean - low.slope * high.slope
    if 0 <= square < np.inf:  # not where the high end is not finite
        root = square**0.5
        change = high.slope - low.slope + 2 * root
        if change > 0:
            share = 1 - (high.slope + root - mean) / change
    return low.a + width * min(max(share, 0.1), 0.9)


def dot(a: Array, b: Array) -> float:
    """<a, b> as a Python number."""
    return float(array_namespace(a).vecdot(a, b))
