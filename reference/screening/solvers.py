"""Solving the elastic-net CRF while screening: the paper's loop around any solver.

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

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from reference.arrays import Array
from reference.declared import Ge, Gt, OpenUnit, checked
from reference.objectives import LogLoss
from reference.screening.newton import ProximalNewton
from reference.screening.problem import ElasticNetCRF, State
from reference.screening.rules import L1GapRule, Rule, check_rule
from reference.training.arguments import start_of
from reference.training.minimize import run_of
from reference.training.result import Report, Result, Row, padded
from reference.training.run import Run
from reference.training.solver import Ending
from reference.training.solver import Solver as TrainingSolver

__all__ = ["Screening", "Solver", "SparseResult", "solve_sparse"]


class Solver(Protocol):
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


@dataclass(frozen=True)
class SparseResult(Result):
    """A :class:`Result` with a record of the screening.

    support: numbers of the nonzero weights of x, int64. screenings: one :class:`Screening` for each use of the rule.
    solver_seconds, screening_seconds: time in the solver and in screening. work: active weights summed over iterations.
    """

    support: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    screenings: tuple[Screening, ...] = field(default=(), repr=False)
    solver_seconds: float = field(default=0.0, repr=False)
    screening_seconds: float = field(default=0.0, repr=False)
    work: int = field(default=0, repr=False)

    @property
    def rejection(self) -> tuple[float, ...]:
        """For each screening, the share of x's zeros that were screened by then."""
        return tuple(s.rejection(s.size - len(self.support)) for s in self.screenings)

    @property
    def reservation(self) -> tuple[float, ...]:
        """For each screening, the share of weights that are left after it."""
        return tuple(s.reservation for s in self.screenings)


@checked
def solve_sparse(
    objective: LogLoss,
    w0: Array | None = None,
    *,
    alpha: Annotated[float, Ge(0)] = 1.0,
    beta: Annotated[float, Gt(0)],
    tol: Annotated[float, Ge(0)] = 1e-6,
    rule: Rule | None = L1GapRule(),  # noqa: B008, frozen
    gamma: Annotated[float, OpenUnit()] = 0.5,
    solver: Solver | None = None,
    iterations: Annotated[int, Ge(0)] = 10000,
    callback: Callable[[Row, Array], Any] | None = None,
) -> SparseResult:
    """Minimise F(w) + beta (alpha/2 ||w||^2 + ||w||_1), removing weights as soon as a rule proves them 0.

    The rule is used whenever the gap is below gamma times the gap at the last screening. The weights that it screens
    are removed from the problem, its arrays and the solver's memory.

    Parameters
    ----------
    objective : LogLoss
        Over any model whose scores are linear in the weights.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.
    alpha : float >= 0
    beta : float > 0
        :func:`beta_max` is the least beta at which all weights are 0.
    tol : float >= 0
        Stop when the duality gap is at most tol times the objective, or is only rounding.
    rule : rule or None
        An object with ``screen(state)``, which returns booleans (state.problem.size,): True where the optimal weight is
        0. Default ``L1GapRule()``; None: no screening.
    gamma : float in (0, 1)
    solver : solver, optional
        An object with ``start``, ``step`` and ``narrow``; default ``ProximalNewton()``.
    iterations : int >= 0
        The most iterations.
    callback : callable, optional
        Called as ``callback(row, w)`` after each iteration, with a :class:`Row` and a copy of the weights (d,) that
        would be returned at that point, read-only with NumPy. The run stops if it returns True or raises StopIteration.

    Returns
    -------
    SparseResult
        ``certificate`` is the duality gap, a bound on ``fun`` minus the optimum of the original problem. ``success`` is
        False if the iterations ran out or Ctrl-C ended the run (``interrupted``); x is then the last iterate.

    Raises
    ------
    TypeError, ValueError
        Options out of range; an objective that is not a LogLoss.
    UnsupportedError
        A rule that needs bounds which the model does not have.

    Notes
    -----
    With alpha > 0, ||x - w*|| <= sqrt(2 gap / (alpha beta)).

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, beta_max, solve_sparse
    >>> model = MulticlassModel(n_features=3, labels=["a", "b"])
    >>> data = model.pack([[0, 2], [0, 1, 2], [1, 2]], ["a", "b", "b"])  # active features and labels of three examples
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
    """:func:`solve_sparse` on a problem; returns the result and the solver's memory.

    before: the memory of the last problem of a path. w0: None: the weights of that memory, or 0 without one. The other
    options are those of :func:`solve_sparse`.
    """
    if rule is not None:
        check_rule(rule)
    if solver is not None:
        check_solver(solver)
    screened = Screened(ProximalNewton() if solver is None else solver, rule, gamma, before, problem)
    result, state = run_of(problem, screened, w0, epochs=iterations, tol=tol, callback=callback)
    return result, state.memory  # type: ignore[return-value]


def check_solver(solver: Any) -> None:
    """Raise TypeError unless the argument is a solver."""
    if isinstance(solver, type) or not all(
        callable(getattr(solver, name, None)) for name in ("start", "step", "narrow")
    ):
        raise TypeError(
            f"solver: expected an object with start, step and narrow, such as ProximalNewton(), got {solver!r}"
        )


class Progress(NamedTuple):
    """The solver's memory on the active weights ``columns``, and counts.

    calls: oracle calls besides the solver's. gap: at the last screening. iteration: iterations done. work: active
    weights summed over iterations. seconds: time of screening.
    """

    memory: Any
    columns: np.ndarray
    calls: int
    gap: float = np.inf
    screenings: tuple[Screening, ...] = ()
    iteration: int = 0
    work: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Screened(TrainingSolver):
    """A run of Algorithm 1: a solver on the part of a problem that screening has left."""

    rule: Rule | None
    gamma: float
    before: Any
    problem: ElasticNetCRF

    name: ClassVar[str] = "solve_sparse"
    unit: ClassVar[str] = "iterations"

    def check(self, problem: Any, tol: float | None) -> None:
        """Nothing: :func:`solve_problem` has checked its arguments."""

    def start(self, problem: Any, w0: Any, rng: Any) -> Array:
        return problem.place.floats(np.zeros(problem.size)) if w0 is None else w0

    def init(self, problem: Any, w0: Array, rng: Any) -> Progress:
        if self.before is not None:
            state, calls = problem.resumed(self.before.state)
        else:
            state = problem.evaluate(w0)
            calls = problem.n + state.more_calls
        memory = self.box.start(state, self.before)
        if not hasattr(memory, "state") or not hasattr(memory, "calls"):
            raise TypeError(
                f"solver: expected start to give a memory with state and calls, got {type(memory).__name__}"
            )
        return Progress(memory, np.arange(problem.size), calls)

    def epoch(self, problem: Any, progress: Progress, rng: Any) -> Progress:
        """One iteration of the solver."""
        work, iteration = progress.work + len(progress.columns), progress.iteration + 1
        return progress._replace(memory=self.box.step(progress.memory), work=work, iteration=iteration)

    def evaluate(self, problem: Any, progress: Progress) -> Report:
        state = progress.memory.state
        calls = progress.calls + progress.memory.calls
        return Report(_weights(problem, progress), state.fun, state.dual, state.gap, calls=calls)

    def accept(
        self, problem: Any, before: Progress | None, after: Progress, report: Report, rng: Any
    ) -> tuple[Progress, Report]:
        """Screen, if the gap is small enough since the last screening."""
        if self.rule is None or not after.memory.state.gap < self.gamma * after.gap:
            return after, report
        progress = self.screened(problem, after, self.rule)
        return progress, self.evaluate(problem, progress)

    def screened(self, problem: ElasticNetCRF, progress: Progress, rule: Rule) -> Progress:
        """The progress without the weights that the rule screens."""
        started, state = time.perf_counter(), progress.memory.state
        memory, columns, calls = progress.memory, progress.columns, progress.calls
        drops = np.asarray(rule.screen(state))
        if drops.dtype != bool or drops.shape != (len(columns),):
            got = f"{drops.dtype} of shape {drops.shape}"
            raise ValueError(f"rule: expected screen(state) to give {len(columns)} booleans, got {got}")
        if np.any(drops):
            kept = np.flatnonzero(~drops)
            smaller, new_calls = state.problem.narrowed(state, kept)
            memory, columns, calls = self.box.narrow(memory, smaller, kept), columns[kept], calls + new_calls
        done = Screening(progress.iteration, memory.state.gap, len(columns), problem.size)
        return progress._replace(
            memory=memory,
            columns=columns,
            calls=calls,
            gap=memory.state.gap,
            screenings=(*progress.screenings, done),
            seconds=progress.seconds + time.perf_counter() - started,
        )

    def ending(self, run: Run, progress: Progress | None, tol: float | None) -> Ending:
        if progress is None:
            raise KeyboardInterrupt
        done, iterations = progress.iteration, run.epochs_asked
        if run.solved:
            outcome = True, f"the duality gap is at most {tol:.4g} of the objective after {done} iterations"
        elif run.flat:
            outcome = True, f"the duality gap is all rounding after {done} iterations"
        elif run.stopped:
            outcome = True, f"stopped by the callback after {done} of {iterations} iterations"
        else:
            outcome = False, f"the duality gap is {self.certificate(run, progress)} after {done} iterations"
        return Ending(outcome, "last", self.certificate(run, progress))

    def certificate(self, run: Run, progress: Progress) -> float | None:
        """The gap, as rows have it; the last iteration of an interrupted run may have no row."""
        state = progress.memory.state
        return padded(state.gap, state.fun, run.scale, _weights(self.problem, progress), self.problem.n)

    def result(self, result: Result, run: Run, progress: Progress) -> SparseResult:
        state, message = progress.memory.state, result.message
        if run.interrupted:  # the last iteration may have no row
            message = f"interrupted after {progress.iteration} of {run.epochs_asked} iterations"
        named = {
            "fun": state.fun,
            "nit": progress.iteration,
            "message": message,
            "certificate": self.certificate(run, progress),
        }
        return SparseResult(
            **vars(result)
            | named
            | {
                "x": _weights(self.problem, progress),
                "oracle_calls": progress.calls + progress.memory.calls,
                "support": progress.columns[state.w != 0],
                "screenings": progress.screenings,
                "solver_seconds": run.seconds - progress.seconds,
                "screening_seconds": progress.seconds,
                "work": progress.work,
            }
        )


def _weights(problem: ElasticNetCRF, progress: Progress) -> Array:
    """All weights (d,), in the problem's place."""
    x = np.zeros(problem.size)
    x[progress.columns] = progress.memory.state.w
    return problem.place.floats(x)
