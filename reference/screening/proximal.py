"""Accelerated proximal gradient for the elastic-net CRF, as :mod:`reference.screening.solvers` wraps it.

Source: Beck and Teboulle (2009); O'Donoghue and Candes (2015), gradient restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import number
from reference.screening.problem import ElasticNetCRF, State

__all__ = ["AcceleratedProximalGradient"]


class Momentum(NamedTuple):
    """The memory of accelerated proximal gradient: where it stands, and before, with its scores; t; the extrapolation
    c; L in use; oracle calls.

    The next y is w + c (w - before).
    """

    state: State
    before: np.ndarray
    before_scores: Any
    t: float
    c: float
    curvature: float
    calls: int


@dataclass(frozen=True)
class AcceleratedProximalGradient:
    """Accelerated proximal gradient with backtracking, steps that grow again, and restarts.

    x+ = prox(y - G(y)/L),   prox(v) = S_{beta/L}(v) / (1 + alpha beta/L),   y+ = x+ + (t - 1)/t+ (x+ - x),
    t+ = (1 + sqrt(1 + 4 t^2))/2

    L is multiplied by ``grow`` until F(x+) <= F(y) + <G(y), x+ - y> + L/2 ||x+ - y||^2, and by ``shrink`` after each
    iteration. Where <y - x+, x+ - x> > 0 the momentum starts anew.

    Parameters
    ----------
    curvature : float > 0, optional
        The first L; default: that with which the last problem of a path ended, or else the curvature of F along its
        gradient.
    grow : float > 1
    shrink : float in (0, 1]
    skip_zeros : bool
        Whether products with the features may skip weights that are 0 where they gain by it; False: only what screening
        has removed is left out.

    Notes
    -----
    An iteration takes two oracle calls an example, at y and x+, the latter for the loss alone, and one product with the
    features each way: scores at y follow from those at x+ and x. The state's gap is that of x+ with the dual point of
    y, F(x+) - F(y) - <G(y), x+ - y> being what the two differ by; where rounding hides that, the gradient at x+ is
    asked for too. One call and a product more for each time L grows, two calls for the first L.

    Examples
    --------
    >>> from reference import AcceleratedProximalGradient, LogLoss, MulticlassModel, solve_sparse
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> objective = LogLoss(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]))
    >>> solve_sparse(objective, beta=0.01, solver=AcceleratedProximalGradient(skip_zeros=False)).success
    True

    Source
    ------
    Beck and Teboulle (2009); O'Donoghue and Candes (2015), gradient restart.
    """

    curvature: float | None = None
    grow: float = 1.5
    shrink: float = 0.95
    skip_zeros: bool = True

    def __post_init__(self) -> None:
        if self.curvature is not None:
            number("curvature", self.curvature, positive=True)
        if not number("grow", self.grow) > 1:
            raise ValueError(f"grow: expected a number > 1, got {self.grow}")
        if not 0 < number("shrink", self.shrink) <= 1:
            raise ValueError(f"shrink: expected a number in (0, 1], got {self.shrink}")
        if not isinstance(self.skip_zeros, bool):
            raise TypeError(f"skip_zeros: expected True or False, got {self.skip_zeros!r}")

    def start(self, state: State, before: Momentum | None = None) -> Momentum:
        """No momentum yet."""
        if state.scores is None:
            state = state._replace(scores=state.problem.scored.forward(state.w, self.skip_zeros))
        if self.curvature is not None:
            return Momentum(state, state.w, state.scores, 1.0, 0.0, self.curvature, 0)
        if before is not None:
            return Momentum(state, state.w, state.scores, 1.0, 0.0, before.curvature, 0)
        return Momentum(state, state.w, state.scores, 1.0, 0.0, curvature_along_gradient(state), state.problem.n)

    def step(self, memory: Momentum) -> Momentum:
        """One iteration."""
        (here, before, before_scores, t, c, L, calls), problem = memory, memory.state.problem
        n, scored = problem.n, problem.scored
        if c == 0 and here.y is here.w:
            y, at_y = here.w, here.answer
        elif c == 0:
            y, at_y, calls = here.w, scored.loss_and_gradient(here.scores), calls + n
        else:
            y, calls = here.w + c * (here.w - before), calls + n
            at_y = scored.loss_and_gradient(here.scores, before_scores, c)
        while True:
            x = proximal_step(problem, y, at_y.gradient, L)
            scores = scored.forward(x, self.skip_zeros)
            loss, at_x, calls = scored.loss(scores), None, calls + n
            above = loss - at_y.loss - float(at_y.gradient @ (x - y))
            if abs(above) <= 1e5 * problem.eps * (
                1 + abs(loss)
            ):  # by half <G(x) - G(y), x - y> where rounding hides it
                at_x, calls = scored.loss_and_gradient(scores), calls + n
                loss, above = at_x.loss, 0.5 * float((at_x.gradient - at_y.gradient) @ (x - y))
            if not np.isfinite(L) or above <= 0.5 * L * float((x - y) @ (x - y)):
                break
            L *= self.grow
        state = problem.state(x, loss, y, at_y, scores) if at_x is None else problem.state(x, loss, x, at_x, scores)
        calls += state.more_calls
        if float((y - x) @ (x - here.w)) > 0:
            return Momentum(state, x, scores, 1.0, 0.0, L * self.shrink, calls)
        further = 0.5 * (1 + np.sqrt(1 + 4 * t**2))
        return Momentum(state, here.w, here.scores, further, (t - 1) / further, L * self.shrink, calls)

    def narrow(self, memory: Momentum, state: State, columns: np.ndarray) -> Momentum:
        """The same momentum, on what is left of it; none where weights leave that were not 0 before."""
        before, kept = memory.before, np.zeros(len(memory.before), dtype=bool)
        kept[columns] = True
        if memory.c == 0 or np.any(before[~kept] != 0) or np.any(memory.state.w[~kept] != 0):
            return memory._replace(state=state, before=state.w, before_scores=state.scores, t=1.0, c=0.0)
        scores = memory.state.problem.scored.taken(memory.before_scores, columns)
        return memory._replace(state=state, before=before[columns], before_scores=scores)


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
