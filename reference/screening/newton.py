"""Proximal Newton on a working set for the elastic-net CRF, the default solver of :mod:`reference.screening.dynamic`.

Source: Lee, Sun and Saunders (2014), proximal Newton-type methods; Friedman, Hastie and Tibshirani (2010), coordinate
descent on the quadratic model; Byrd, Nocedal and Schnabel (1994), limited-memory matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import integer
from reference.screening.problem import State
from reference.screening.proximal import AcceleratedProximalGradient, Momentum, curvature_along_gradient

__all__ = ["ProximalNewton"]

SUFFICIENT = 1e-4  # the least share of the linear model's decrease
HALVINGS = 20
PATIENCE = 10  # steps in which the gap must be halved
# added to the Hessian's diagonal, times the largest curvature, or times beta^2, which has the same unit: steps stay
# finite if features are collinear or F is flat
RIDGE = 1e-10


class Newton(NamedTuple):
    """The memory of proximal Newton: the current state, oracle calls and steps so far.

    moves, changes (m, d): if there is no Hessian, the last moves of w and changes of G. curvature: that of the BFGS
    matrix in all other directions. goal: the gap to reach by step ``due``. slower: the memory of accelerated proximal
    gradient, which does all later steps once a goal is missed.
    """

    state: State
    calls: int = 0
    steps: int = 0
    moves: np.ndarray = np.zeros((0, 0))
    changes: np.ndarray = np.zeros((0, 0))
    curvature: float = 0.0
    goal: float = np.inf
    due: int = 0
    slower: Momentum | None = None


@dataclass(frozen=True)
class ProximalNewton:
    """Proximal Newton on a working set, with steps by coordinate descent.

    x = argmin_x <G_A, x - w> + (x - w)' B (x - w)/2 + beta (alpha/2 ||x||^2 + ||x||_1),
    A = {j: w_j != 0 or |G_j| > beta}

    A line search moves w towards x on A; it nearly always takes the full step. B is the Hessian of F on A if outputs
    are listed, else the matrix of limited-memory BFGS.

    Parameters
    ----------
    memory : int >= 1
        Pairs of moves and changes that BFGS keeps, also along a path.
    largest : int >= 1
        The largest working set. :class:`AcceleratedProximalGradient` takes over beyond this size, and if 10 steps do
        not halve the gap.

    Notes
    -----
    A step takes one oracle call an example, one product with the features each way (forward with nonzero weights only),
    the Hessian, and O(|A|^2) for each sweep of coordinate descent. Each halving of the step takes one more call.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, ProximalNewton, solve_sparse
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> objective = LogLoss(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]))
    >>> result = solve_sparse(objective, beta=0.01, tol=1e-9, solver=ProximalNewton())
    >>> result.success, result.nit < 10
    (True, True)

    Source
    ------
    Lee, Sun and Saunders (2014); Friedman, Hastie and Tibshirani (2010); Byrd, Nocedal and Schnabel (1994), equation
    (3.5).
    """

    memory: int = 20
    largest: int = 2000

    def __post_init__(self) -> None:
        integer("memory", self.memory, 1)
        integer("largest", self.largest, 1)

    def start(self, state: State, before: Newton | None = None) -> Newton:
        """The memory at a state, with the last pairs of the previous problem of a path."""
        state, calls = _with_scores(state)
        if before is None or len(before.moves) == 0:
            return Newton(state, calls)
        problem, last = state.problem, before.state.problem
        inside = np.searchsorted(problem.columns, last.columns)
        moves, changes = np.zeros((2, len(before.moves), problem.size))
        moves[:, inside], changes[:, inside] = before.moves, before.changes
        return Newton(state, calls, steps=before.steps, moves=moves, changes=changes, curvature=before.curvature)

    def step(self, memory: Newton) -> Newton:
        """One iteration."""
        if memory.slower is not None:
            return self._slower(memory)
        state = memory.state
        problem, w, gradient = state.problem, state.w, state.gradient
        working = np.flatnonzero((w != 0) | (np.abs(gradient) > problem.beta))
        if len(working) > self.largest or (memory.steps >= memory.due and state.gap > memory.goal):
            return self._slower(memory)
        if memory.steps >= memory.due:
            memory = memory._replace(goal=0.5 * state.gap, due=memory.steps + PATIENCE)
        B, memory = self._curvature(memory, working)
        x = w.copy()
        x[working] = problem.scored.descend(B, gradient[working], w[working], problem.alpha, problem.beta)
        step = line_search(state, x)
        if step is None:
            return self._slower(memory)
        after, trials = step
        return self._remembered(memory, after)._replace(
            state=after, calls=memory.calls + trials * problem.n + after.more_calls, steps=memory.steps + 1
        )

    def narrow(self, memory: Newton, state: State, columns: np.ndarray) -> Newton:
        """The memory of the weights ``columns``, at ``state``."""
        slower, calls = memory.slower, 0
        if slower is None:
            state, calls = _with_scores(state)
        else:
            slower = AcceleratedProximalGradient().narrow(slower, state, columns)
        moves, changes = memory.moves, memory.changes
        if len(moves):
            moves, changes = moves[:, columns], changes[:, columns]
            kept = convex(moves, changes)
            moves, changes = moves[kept], changes[kept]
        return memory._replace(state=state, calls=memory.calls + calls, moves=moves, changes=changes, slower=slower)

    def _slower(self, memory: Newton) -> Newton:
        """A step of accelerated proximal gradient, which does all later steps, too."""
        solver, before = AcceleratedProximalGradient(), memory.slower
        if before is None:
            before = solver.start(memory.state)
            memory = memory._replace(calls=memory.calls + before.calls)
        after = solver.step(before)
        calls = memory.calls + after.calls - before.calls
        return memory._replace(state=after.state, calls=calls, steps=memory.steps + 1, slower=after)

    def _curvature(self, memory: Newton, working: np.ndarray) -> tuple[np.ndarray, Newton]:
        """B on the working set, with a ridge."""
        state = memory.state
        B = state.problem.scored.hessian(state.scores, working, memory.steps)
        if B is None:
            if memory.curvature == 0:
                first = curvature_along_gradient(state)
                memory = memory._replace(curvature=first, calls=memory.calls + state.problem.n)
            B = limited_memory(memory.moves, memory.changes, memory.curvature, working)
        B[np.diag_indices(len(B))] += RIDGE * float(np.max(np.diagonal(B), initial=state.problem.beta**2))
        return B, memory

    def _remembered(self, memory: Newton, after: State) -> Newton:
        """The memory with the pair of the last step, if there is no Hessian and the pair is :func:`convex`."""
        if memory.curvature == 0:
            return memory
        move, change = after.w - memory.state.w, after.gradient - memory.state.gradient
        if not convex(move, change):
            return memory
        moves, changes = (
            np.concatenate([old.reshape(-1, len(new)), new[None]])[-self.memory :]
            for old, new in ((memory.moves, move), (memory.changes, change))
        )
        return memory._replace(moves=moves, changes=changes, curvature=float(change @ change) / float(move @ change))


def convex(moves: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Whether <move, change> is clearly positive, for each pair (..., d); if not, the BFGS matrix is not positive
    definite or does not exist.
    """
    along, squares = np.sum(moves * changes, axis=-1), np.sum(moves**2, axis=-1) * np.sum(changes**2, axis=-1)
    result: np.ndarray = along > 1e-10 * np.sqrt(squares)
    return result


def line_search(state: State, x: np.ndarray) -> tuple[State, int] | None:
    """The state at the first w + t (x - w), t = 1, 1/2, 1/4, ..., with sufficient decrease, and the number of trials.

    Sufficient is a decrease of P by 1e-4 of the decrease of its linear model. None if 20 trials fail, or if the linear
    model does not decrease.
    """
    problem, w = state.problem, state.w
    scored, move = problem.scored, x - w
    model_decrease = float(state.gradient @ move) + problem.regulariser(x) - problem.regulariser(w)
    if not model_decrease < 0:
        return None
    scores, rounding = scored.forward(x), 16 * problem.eps * (1 + abs(state.fun))
    t = 1.0
    for trials in range(HALVINGS):
        answer = scored.loss_and_gradient(scores, state.scores, t - 1.0) if t < 1 else scored.loss_and_gradient(scores)
        point = x if t == 1 else w + t * move
        if answer.loss + problem.regulariser(point) - state.fun <= SUFFICIENT * t * model_decrease + rounding:
            point_scores = scores if t == 1 else scored.forward(point)
            return problem.state(point, answer.loss, point, answer, point_scores), trials + 1
        t *= 0.5
    return None


def limited_memory(moves: np.ndarray, changes: np.ndarray, curvature: float, columns: np.ndarray) -> np.ndarray:
    """The BFGS matrix of the pairs, among ``columns``: B = c I - Q M^-1 Q',  Q = [c S, Y],  M = [[c S'S, L], [L', -D]].

    S, Y: moves and changes as columns; L + D + (upper) = S'Y, D its diagonal, L its strictly lower part; c: the
    curvature.

    Source
    ------
    Byrd, Nocedal and Schnabel (1994), equation (3.5).
    """
    scaled = curvature * np.eye(len(columns))
    if len(moves) == 0:
        return scaled
    products = moves @ changes.T
    below, diagonal = np.tril(products, -1), np.diag(np.diagonal(products))
    M = np.block([[curvature * (moves @ moves.T), below], [below.T, -diagonal]])
    Q = np.concatenate([curvature * moves[:, columns], changes[:, columns]])
    B: np.ndarray = scaled - Q.T @ np.linalg.solve(M, Q)
    return B


def _with_scores(state: State) -> tuple[State, int]:
    """The state with scores and with loss and gradient at w, and the oracle calls made."""
    if state.y is not state.w:
        evaluated = state.problem.evaluate(state.w, state.scores)
        return evaluated, evaluated.problem.n + evaluated.more_calls
    return state if state.scores is not None else state._replace(scores=state.problem.scored.forward(state.w)), 0
