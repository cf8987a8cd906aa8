"""Screening while solving: the paper's algorithm around any solver.

A solver is an object with three methods. Its memory is any object with the fields ``state`` (the current
:class:`State`) and ``calls`` (oracle calls so far, in examples):

    start(state, before) -> memory                  begin at ``state``; before: None, or its last memory on the previous
                                                    problem of a path
    step(memory) -> memory                          one iteration, on the problem memory.state.problem
    narrow(memory, state, columns) -> memory        continue with only the weights ``columns``, from ``state``, which
                                                    belongs to the reduced problem

Source: Zhang and Qiu, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from reference.arrays import Array
from reference.optimizers.base import Algorithm
from reference.screening.problem import ElasticNetCRF, State
from reference.screening.rules import Rule

__all__ = ["Screened", "Screening", "ScreeningState", "SparseSolver", "check_solver"]


class SparseSolver(Protocol):
    """The interface of a solver for :func:`solve_sparse`; see the docstring of this module."""

    def start(self, state: State, before: Any = None) -> Any:
        """A memory at ``state``."""
        ...

    def step(self, memory: Any) -> Any:
        """The memory after one iteration."""
        ...

    def narrow(self, memory: Any, state: State, columns: np.ndarray) -> Any:
        """The memory on the reduced problem of the weights ``columns``, at ``state``."""
        ...


class Screening(NamedTuple):
    """One use of a rule. iteration: iterations before it; gap: the gap at that point; kept: weights left after it;
    size: weights of the original problem.
    """

    iteration: int
    gap: float
    kept: int
    size: int

    @property
    def reservation(self) -> float:
        """Share of the weights that are left."""
        return self.kept / self.size if self.size else 0.0

    def rejection(self, zeros: int) -> float:
        """Share of the optimum's ``zeros`` zero weights that are screened so far; 1 if zeros = 0."""
        return (self.size - self.kept) / zeros if zeros else 1.0


class ScreeningState(NamedTuple):
    """The solver's memory, on the weights that are left, and counts.

    calls: oracle calls besides the solver's. gap: at the last screening. iteration: iterations done. work: active
    weights summed over iterations.
    """

    memory: Any
    calls: int
    gap: float = np.inf
    screenings: tuple[Screening, ...] = ()
    iteration: int = 0
    work: int = 0

    @property
    def weights(self) -> Array:
        """All weights (d,), in the problem's place."""
        state = self.memory.state
        x = np.zeros(state.problem.whole.model.size)
        x[state.problem.columns] = state.w
        return state.problem.place.floats(x)


@dataclass(frozen=True)
class Screened(Algorithm):
    """Algorithm 1: a solver on the part of a problem that screening has left; :func:`reference.solve_sparse` returns
    the state's ``weights``.

    rule: screens once the gap has fallen below gamma times that of the last screening; None: no screening. before: the
    solver's memory on the previous problem of a path.
    """

    solver: SparseSolver
    rule: Rule | None
    gamma: float = 0.5
    before: Any = None

    def init(self, problem: ElasticNetCRF, w0: Array) -> ScreeningState:
        return self.screened(self.start(problem, w0))

    def epoch(self, problem: ElasticNetCRF, state: ScreeningState, rng: Any = None) -> ScreeningState:
        """One iteration of the solver, and a screening if one is due."""
        return self.screened(self.step(state))

    def start(self, problem: ElasticNetCRF, w0: Array) -> ScreeningState:
        """The solver's memory at w0, or at the weights of the previous problem."""
        if self.before is not None:
            state, calls = problem.resumed(self.before.state)
        else:
            state = problem.evaluate(w0)
            calls = problem.n + state.more_calls
        memory = self.solver.start(state, self.before)
        if not hasattr(memory, "state") or not hasattr(memory, "calls"):
            raise TypeError(
                f"solver: expected start to give a memory with state and calls, got {type(memory).__name__}"
            )
        return ScreeningState(memory, calls)

    def step(self, state: ScreeningState) -> ScreeningState:
        """One iteration of the solver."""
        work, iteration = state.work + state.memory.state.problem.size, state.iteration + 1
        return state._replace(memory=self.solver.step(state.memory), work=work, iteration=iteration)

    def screened(self, state: ScreeningState) -> ScreeningState:
        """The state without the weights that the rule screens, if a screening is due."""
        memory, calls, current = state.memory, state.calls, state.memory.state
        if self.rule is None or not current.gap < self.gamma * state.gap:
            return state
        drops, size = np.asarray(self.rule.screen(current)), current.problem.size
        if drops.dtype != bool or drops.shape != (size,):
            got = f"{drops.dtype} of shape {drops.shape}"
            raise ValueError(f"rule: expected screen(state) to give {size} booleans, got {got}")
        if np.any(drops):
            kept = np.flatnonzero(~drops)
            smaller, new_calls = current.problem.narrowed(current, kept)
            memory, calls = self.solver.narrow(memory, smaller, kept), calls + new_calls
        left = memory.state.problem
        done = Screening(state.iteration, memory.state.gap, left.size, left.whole.model.size)
        return state._replace(memory=memory, calls=calls, gap=memory.state.gap, screenings=(*state.screenings, done))


def check_solver(solver: Any) -> None:
    """Raise TypeError unless the argument is a solver."""
    if isinstance(solver, type) or not all(
        callable(getattr(solver, name, None)) for name in ("start", "step", "narrow")
    ):
        raise TypeError(
            f"solver: expected an object with start, step and narrow, such as ProximalNewton(), got {solver!r}"
        )
