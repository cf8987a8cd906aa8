"""Accelerated proximal gradient for the elastic-net CRF, as :mod:`reference.screening.solvers` wraps it.

Source: Beck and Teboulle (2009); O'Donoghue and Candes (2015), gradient restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import number
from reference.screening.problem import ElasticNetCRF, State

__all__ = ["AcceleratedProximalGradient"]


class Momentum(NamedTuple):
    """The memory of accelerated proximal gradient: where it stands, the extrapolated y (d,), its t, L in use, oracle calls."""

    state: State
    y: np.ndarray
    t: float
    curvature: float
    calls: int


@dataclass(frozen=True)
class AcceleratedProximalGradient:
    """Accelerated proximal gradient with backtracking, steps that grow again, and restarts.

    x+ = prox(y - G(y)/L),  prox(v) = S_{beta/L}(v) / (1 + alpha beta/L),  y+ = x+ + (t - 1)/t+ (x+ - x),  t+ = (1 + sqrt(1 + 4 t^2))/2

    L is multiplied by ``grow`` until F(x+) <= F(y) + <G(y), x+ - y> + L/2 ||x+ - y||^2, and by ``shrink`` after each iteration. Where
    <y - x+, x+ - x> > 0 the momentum starts anew.

    Parameters
    ----------
    curvature : float > 0, optional
        The first L; default: that with which the last problem of a path ended, or else the curvature of F along its gradient.
    grow : float > 1
    shrink : float in (0, 1]

    Notes
    -----
    Two oracle calls an example and iteration, one after a restart, one more for each time L grows, and one for the first L.

    Source
    ------
    Beck and Teboulle (2009); O'Donoghue and Candes (2015), gradient restart.
    """

    curvature: float | None = None
    grow: float = 1.5
    shrink: float = 0.95

    def __post_init__(self) -> None:
        if self.curvature is not None:
            number("curvature", self.curvature, positive=True)
        if not number("grow", self.grow) > 1:
            raise ValueError(f"grow: expected a number > 1, got {self.grow}")
        if not 0 < number("shrink", self.shrink) <= 1:
            raise ValueError(f"shrink: expected a number in (0, 1], got {self.shrink}")

    def start(self, state: State, before: Momentum | None = None) -> Momentum:
        """No momentum yet."""
        if self.curvature is not None:
            return Momentum(state, state.w, 1.0, self.curvature, 0)
        if before is not None:
            return Momentum(state, state.w, 1.0, before.curvature, 0)
        return Momentum(state, state.w, 1.0, curvature_along_gradient(state), state.problem.n)

    def step(self, memory: Momentum) -> Momentum:
        """One iteration."""
        (here, y, t, L, calls), problem = memory, memory.state.problem
        n = problem.n
        if y is here.w:
            loss, gradient = here.loss, here.gradient
        else:
            (loss, gradient), calls = problem.loss_and_gradient(y), calls + n
        while True:
            x = proximal_step(problem, y, gradient, L)
            (new_loss, new_gradient), calls = problem.loss_and_gradient(x), calls + n
            if not np.isfinite(L) or _descends(x - y, loss, gradient, new_loss, new_gradient, L, problem.eps):
                break
            L *= self.grow
        state = problem.state(x, new_loss, new_gradient)
        if float((y - x) @ (x - here.w)) > 0:
            return Momentum(state, x, 1.0, L * self.shrink, calls)
        t_next = 0.5 * (1 + np.sqrt(1 + 4 * t**2))
        further = x if t == 1 else x + (t - 1) / t_next * (x - here.w)
        return Momentum(state, further, t_next, L * self.shrink, calls)

    def narrow(self, memory: Momentum, state: State, columns: np.ndarray) -> Momentum:
        """The same momentum, on what is left of it."""
        y = state.w if memory.y is memory.state.w else memory.y[columns]
        return memory._replace(state=state, y=y)


def curvature_along_gradient(state: State) -> float:
    """||G(w - h G) - G(w)|| / (h ||G||), h so small that F falls by about a hundredth: at most L; 1 where G = 0."""
    length = float(np.linalg.norm(state.gradient))
    if length == 0 or state.loss == 0:
        return 1.0
    step = 0.01 * state.loss / length
    _, there = state.problem.loss_and_gradient(state.w - step * (state.gradient / length))
    found = float(np.linalg.norm(there - state.gradient)) / step
    return found if 0 < found < np.inf else 1.0


def proximal_step(problem: ElasticNetCRF, y: np.ndarray, gradient: np.ndarray, L: float) -> np.ndarray:
    """argmin_x <gradient, x> + L/2 ||x - y||^2 + beta (alpha/2 ||x||^2 + ||x||_1) (d,)."""
    v = y - gradient / L
    return (v - np.clip(v, -problem.beta / L, problem.beta / L)) / (1 + problem.alpha * problem.beta / L)


def _descends(
    move: np.ndarray, loss: float, gradient: np.ndarray, new_loss: float, new_gradient: np.ndarray, L: float, eps: float
) -> bool:
    """Whether F(x) - F(y) - <G(y), x - y> <= L/2 ||x - y||^2, the left side by half <G(x) - G(y), x - y> where rounding hides it."""
    above = new_loss - loss - float(gradient @ move)
    if abs(above) <= 1e5 * eps * (1 + abs(loss)):
        above = 0.5 * float((new_gradient - gradient) @ move)
    return above <= 0.5 * L * float(move @ move)
