"""Solving the elastic-net CRF while screening: the paper's loop around any solver.

A solver is an object with three methods; its memory is anything with fields ``state`` (a :class:`State`: where it stands) and ``calls`` (oracle
calls so far, in examples):

    start(state, before) -> memory                  from here; before: None, or the memory with which it ended on a problem like this
    step(memory) -> memory                          one iteration, on the problem memory.state.problem
    narrow(memory, state, columns) -> memory        go on with the weights ``columns`` alone, from ``state`` on the reduced problem

Source: Zhang and Qiu, Algorithm 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from reference.arrays import Array, integer, number
from reference.optimizers.arguments import start_of
from reference.optimizers.result import Result, Row, small_enough, wants_to_stop
from reference.screening.newton import ProximalNewton
from reference.screening.problem import ElasticNetCRF, State
from reference.screening.rules import L1GapRule, Rule, check_rule

__all__ = ["Screening", "Solver", "SparseResult", "solve_sparse"]


class Solver(Protocol):
    """What :func:`solve_sparse` can wrap; see the head of this module."""

    def start(self, state: State, before: Any = None) -> Any:
        """A memory that stands at ``state``."""
        ...

    def step(self, memory: Any) -> Any:
        """The memory after one iteration."""
        ...

    def narrow(self, memory: Any, state: State, columns: np.ndarray) -> Any:
        """The memory on the reduced problem of the weights ``columns``, standing at ``state``."""
        ...


class Screening(NamedTuple):
    """One use of a rule. iteration: after so many; gap: there; kept: weights left after it; size: weights of the whole problem."""

    iteration: int
    gap: float
    kept: int
    size: int

    @property
    def reservation(self) -> float:
        """Share of the weights that are left."""
        return self.kept / self.size if self.size else 0.0

    def rejection(self, zeros: int) -> float:
        """Share of the optimum's ``zeros`` zero weights that are screened so far; 1 where there are none."""
        return (self.size - self.kept) / zeros if zeros else 1.0


@dataclass(frozen=True)
class SparseResult(Result):
    """A :class:`Result` with what screening did.

    support: numbers of the weights of x that are not 0, int64. screenings: one :class:`Screening` each time the rule was used.
    solver_seconds, screening_seconds: of these. work: weights that were active, summed over iterations.
    """

    support: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    screenings: tuple[Screening, ...] = field(default=(), repr=False)
    solver_seconds: float = 0.0
    screening_seconds: float = 0.0
    work: int = 0

    @property
    def rejection(self) -> tuple[float, ...]:
        """For each screening, the share of x's zeros that were screened by then."""
        return tuple(s.rejection(s.size - len(self.support)) for s in self.screenings)

    @property
    def reservation(self) -> tuple[float, ...]:
        """For each screening, the share of weights that are left after it."""
        return tuple(s.reservation for s in self.screenings)


def solve_sparse(
    objective: Any,
    w0: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float,
    tol: float = 1e-6,
    rule: Rule | None = L1GapRule(),  # noqa: B008, frozen
    gamma: float = 0.5,
    solver: Solver | None = None,
    iterations: int = 10000,
    callback: Callable[[Row, Array], Any] | None = None,
) -> SparseResult:
    """Minimise F(w) + beta (alpha/2 ||w||^2 + ||w||_1), removing weights as soon as a rule proves them 0.

    Each time the gap has fallen below gamma times that of the last screening, the rule is asked; weights that it screens leave the problem, its
    arrays and the solver's memory.

    Parameters
    ----------
    objective : LogLoss
        Over any model whose scores are linear in the weights.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.
    alpha : float >= 0
    beta : float > 0
        :func:`beta_max` is the least at which all weights are 0.
    tol : float >= 0
        Stop when the duality gap is at most tol times the objective; less than 2.2e-16, the unit of rounding, is read as that.
    rule : rule or None
        An object with ``screen(state)``, booleans (state.problem.size,): True where the optimal weight is 0; default ``L1GapRule()``, None: no screening.
    gamma : float in (0, 1)
    solver : solver, optional
        An object with ``start``, ``step`` and ``narrow``; default ``ProximalNewton()``.
    iterations : int >= 0
        At most so many.
    callback : callable, optional
        Called as ``callback(row, w)`` after each iteration, w (d,) being the weights that would be returned then. Stops the run by returning
        True or raising StopIteration.

    Returns
    -------
    SparseResult
        ``certificate`` is the duality gap, a bound on ``fun`` minus the optimum of the whole problem; ``success`` is False where the
        iterations ran out or Ctrl-C ended them (``interrupted``): then these are the last weights.

    Raises
    ------
    TypeError, ValueError
        Options out of range; an objective that is no LogLoss.
    UnsupportedError
        A rule that the model has no answers for.

    Notes
    -----
    With alpha > 0, ||x - w*|| <= sqrt(2 gap / (alpha beta)).

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, beta_max, solve_sparse
    >>> model = MulticlassModel(n_features=3, labels=["a", "b"])
    >>> data = model.pack([[0, 2], [0, 1, 2], [1, 2]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> objective = LogLoss(model, data)
    >>> result = solve_sparse(objective, beta=0.9 * beta_max(objective))
    >>> result.success, len(result.support)
    (True, 2)

    Source
    ------
    Zhang and Qiu, Algorithm 1.
    """
    problem = ElasticNetCRF(objective, alpha=alpha, beta=beta)
    return solve_problem(problem, start_of(objective, w0), tol, rule, gamma, solver, iterations, callback)[0]


def solve_problem(
    problem: ElasticNetCRF,
    w0: Array | None,
    tol: float,
    rule: Rule | None,
    gamma: float,
    solver: Solver | None,
    iterations: int,
    callback: Callable[[Row, Array], Any] | None = None,
    before: Any = None,
) -> tuple[SparseResult, Any]:
    """:func:`solve_sparse` on a problem; options as there. With the solver's memory, which ``before`` takes for the next of a path.

    w0: None: where that memory stands, or else 0.
    """
    tol = max(number("tol", tol), float(np.finfo(np.float64).eps))
    integer("iterations", iterations, 0)
    if not 0 < number("gamma", gamma) < 1:
        raise ValueError(f"gamma: expected a number in (0, 1), got {gamma}")
    if rule is not None:
        check_rule(rule)
    if solver is not None:
        check_solver(solver)
    run = ScreenedRun(problem, ProximalNewton() if solver is None else solver, w0, before)
    gap, ending = np.inf, None  # the gap at the last screening
    try:
        while ending is None:
            if rule is not None and run.state.gap < gamma * gap:
                run.screen(rule)
                gap = run.state.gap
            stopped = run.iteration > 0 and run.tell(callback)
            if small_enough(run.state.gap, run.state.fun, tol):
                ending = True, f"the duality gap is at most {tol:.4g} of the objective after {run.iteration} iterations"
            elif stopped:
                ending = True, f"stopped by the callback after {run.iteration} of {iterations} iterations"
            elif run.iteration == iterations:
                ending = False, f"the duality gap is {run.state.gap} after {iterations} iterations"
            else:
                run.step()
    except KeyboardInterrupt:
        return run.result(False, f"interrupted after {run.iteration} of {iterations} iterations", True), run.memory
    return run.result(*ending), run.memory


def check_solver(solver: Any) -> None:
    """Raise TypeError unless this is a solver."""
    if isinstance(solver, type) or not all(
        callable(getattr(solver, name, None)) for name in ("start", "step", "narrow")
    ):
        raise TypeError(
            f"solver: expected an object with start, step and narrow, such as ProximalNewton(), got {solver!r}"
        )


class ScreenedRun:
    """A solver at work on what screening has left of a problem: the weights ``columns``, at ``state``."""

    def __init__(self, problem: ElasticNetCRF, solver: Solver, w0: Array | None, before: Any) -> None:
        self.problem, self.solver, self.columns = problem, solver, np.arange(problem.size)
        self.history: list[Row] = []
        self.screenings: list[Screening] = []
        self.iteration = self.work = 0
        self.solving = self.screening = 0.0
        started = time.perf_counter()
        if w0 is None and before is not None:
            state, self.calls_besides = problem.resumed(before.state)
        else:
            state = problem.evaluate(np.zeros(problem.size) if w0 is None else w0)
            self.calls_besides = problem.n + state.more_calls
        self.memory = solver.start(state, before)
        if not hasattr(self.memory, "state") or not hasattr(self.memory, "calls"):
            raise TypeError(
                f"solver: expected start to give a memory with state and calls, got {type(self.memory).__name__}"
            )
        self.solving += time.perf_counter() - started

    @property
    def state(self) -> State:
        """Where the solver stands."""
        return self.memory.state

    @property
    def calls(self) -> int:
        """Oracle calls so far, in examples."""
        return self.calls_besides + self.memory.calls

    @property
    def weights(self) -> Array:
        """All weights (d,), in the problem's place."""
        x = np.zeros(self.problem.size)
        x[self.columns] = self.state.w
        return self.problem.place.floats(x)

    def step(self) -> None:
        """One iteration of the solver."""
        started = time.perf_counter()
        self.memory = self.solver.step(self.memory)
        self.solving += time.perf_counter() - started
        self.work += len(self.columns)
        self.iteration += 1

    def screen(self, rule: Rule) -> None:
        """Drop what the rule screens."""
        started = time.perf_counter()
        screened = np.asarray(rule.screen(self.state))
        if screened.dtype != bool or screened.shape != (len(self.columns),):
            got = f"{screened.dtype} of shape {screened.shape}"
            raise ValueError(f"rule: expected screen(state) to give {len(self.columns)} booleans, got {got}")
        if np.any(screened):
            kept = np.flatnonzero(~screened)
            state, calls = self.state.problem.narrowed(self.state, kept)
            self.calls_besides += calls
            self.columns, self.memory = self.columns[kept], self.solver.narrow(self.memory, state, kept)
        self.screenings.append(Screening(self.iteration, self.state.gap, len(self.columns), self.problem.size))
        self.screening += time.perf_counter() - started

    def tell(self, callback: Callable[[Row, Array], Any] | None) -> bool:
        """Add a row and show it to the callback; True if that wants to stop."""
        seconds, state = self.solving + self.screening, self.state
        row = Row(self.iteration, self.calls, seconds, state.fun, state.dual, state.gap)
        self.history.append(row)
        return callback is not None and wants_to_stop(callback, row, self.weights)

    def result(self, success: bool, message: str, interrupted: bool = False) -> SparseResult:
        """As it stands."""
        return SparseResult(
            x=self.weights,
            fun=self.state.fun,
            nit=self.iteration,
            success=success,
            message=message,
            iterate="last",
            oracle_calls=self.calls,
            certificate=self.state.gap,
            history=tuple(self.history),
            interrupted=interrupted,
            support=self.columns[self.state.w != 0],
            screenings=tuple(self.screenings),
            solver_seconds=self.solving,
            screening_seconds=self.screening,
            work=self.work,
        )
