"""Accelerated proximal gradient for the elastic-net CRF, as a solver for :mod:`reference.screening.dynamic`.

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
    """The memory of accelerated proximal gradient: the state at w, the previous weights and their scores, and t.

    c: the extrapolation; the next y is w + c (w - before). curvature: the current L. calls: oracle calls.
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
    """Accelerated proximal gradient with backtracking, growing steps and restarts.

    x+ = prox(y - G(y)/L),   prox(v) = S_{beta/L}(v) / (1 + alpha beta/L),   y+ = x+ + (t - 1)/t+ (x+ - x),
    t+ = (1 + sqrt(1 + 4 t^2))/2

    L is multiplied by ``grow`` until F(x+) <= F(y) + <G(y), x+ - y> + L/2 ||x+ - y||^2, and by ``shrink`` after each
    iteration. If <y - x+, x+ - x> > 0, the momentum is reset.

    Parameters
    ----------
    curvature : float > 0, optional
        The first L; default: the last L of the previous problem of a path, or else the curvature of F along its
        gradient.
    grow : float > 1
    shrink : float in (0, 1]
    skip_zeros : bool
        Whether products with the features may skip weights of 0 where that is faster; False: only screened weights are
        left out.

    Notes
    -----
    An iteration makes two oracle calls an example: loss and gradient at y, and the loss at x+. It takes one product
    with the features each way, as the scores at y follow from those at the last two x. The state's gap is that of x+
    with the dual point of y; the two points differ by F(x+) - F(y) - <G(y), x+ - y>. If rounding hides this difference,
    the gradient at x+ is computed, too. Each increase of L takes one more call and product, the first L two calls.

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
        """The memory at a state, without momentum."""
        if state.scores is None:
            state = state._replace(scores=state.problem.scored.forward(state.w, self.skip_zeros))
        if self.curvature is not None:
            return Momentum(state, state.w, state.scores, 1.0, 0.0, self.curvature, 0)
        if before is not None:
            return Momentum(state, state.w, state.scores, 1.0, 0.0, before.curvature, 0)
        return Momentum(state, state.w, state.scores, 1.0, 0.0, curvature_along_gradient(state), state.problem.n)

    def step(self, memory: Momentum) -> Momentum:
        """One iteration."""
        (old, before, before_scores, t, c, L, calls), problem = memory, memory.state.problem
        n, scored = problem.n, problem.scored
        if c == 0 and old.y is old.w:
            y, answer_y = old.w, old.answer
        elif c == 0:
            y, answer_y, calls = old.w, scored.loss_and_gradient(old.scores), calls + n
        else:
            y, calls = old.w + c * (old.w - before), calls + n
            answer_y = scored.loss_and_gradient(old.scores, before_scores, c)
        while True:
            x = proximal_step(problem, y, answer_y.gradient, L)
            scores = scored.forward(x, self.skip_zeros)
            loss, answer_x, calls = scored.loss(scores), None, calls + n
            excess = loss - answer_y.loss - float(answer_y.gradient @ (x - y))
            # where rounding hides the excess, half <G(x) - G(y), x - y> replaces it
            if abs(excess) <= 1e5 * problem.eps * (1 + abs(loss)):
                answer_x, calls = scored.loss_and_gradient(scores), calls + n
                loss, excess = answer_x.loss, 0.5 * float((answer_x.gradient - answer_y.gradient) @ (x - y))
            if not np.isfinite(L) or excess <= 0.5 * L * float((x - y) @ (x - y)):
                break
            L *= self.grow
        if answer_x is None:
            state = problem.state(x, loss, y, answer_y, scores)
        else:
            state = problem.state(x, loss, x, answer_x, scores)
        calls += state.more_calls
        if float((y - x) @ (x - old.w)) > 0:
            return Momentum(state, x, scores, 1.0, 0.0, L * self.shrink, calls)
        t_next = 0.5 * (1 + np.sqrt(1 + 4 * t**2))
        return Momentum(state, old.w, old.scores, t_next, (t - 1) / t_next, L * self.shrink, calls)

    def narrow(self, memory: Momentum, state: State, columns: np.ndarray) -> Momentum:
        """The memory of the weights ``columns``; the momentum is reset if a nonzero weight leaves."""
        before, kept = memory.before, np.zeros(len(memory.before), dtype=bool)
        kept[columns] = True
        if memory.c == 0 or np.any(before[~kept] != 0) or np.any(memory.state.w[~kept] != 0):
            return memory._replace(state=state, before=state.w, before_scores=state.scores, t=1.0, c=0.0)
        scores = memory.state.problem.scored.taken(memory.before_scores, columns)
        return memory._replace(state=state, before=before[columns], before_scores=scores)


def curvature_along_gradient(state: State) -> float:
    """||G(w - h G) - G(w)|| / (h ||G||) <= L, for an h at which F decreases by about 1/100; 1 if G = 0."""
    length = float(np.linalg.norm(state.gradient))
    if length == 0 or state.loss == 0:
        return 1.0
    step = 0.01 * state.loss / length
    _, gradient = state.problem.loss_and_gradient(state.w - step * (state.gradient / length))
    curvature = float(np.linalg.norm(gradient - state.gradient)) / step
    return curvature if 0 < curvature < np.inf else 1.0


def proximal_step(problem: ElasticNetCRF, y: np.ndarray, gradient: np.ndarray, L: float) -> np.ndarray:
    """argmin_x <gradient, x> + L/2 ||x - y||^2 + beta (alpha/2 ||x||^2 + ||x||_1) (d,)."""
    v = y - gradient / L
    return (v - np.clip(v, -problem.beta / L, problem.beta / L)) / (1 + problem.alpha * problem.beta / L)
