"""Solving the elastic-net CRF while screening: the run of Algorithm 1.

Source: Zhang and Qiu, Algorithm 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from reference.arrays import Array
from reference.declared import Ge, Gt, OpenUnit, checked
from reference.objectives import LogLoss
from reference.optimizers.base import traits
from reference.screening.dynamic import Screened, Screening, ScreeningState, SparseSolver, check_solver
from reference.screening.newton import ProximalNewton
from reference.screening.problem import ElasticNetCRF, State
from reference.screening.rules import L1GapRule, Rule, check_rule
from reference.training.checkpoints import same_value
from reference.training.result import Report, Result, Row, RunState, padded
from reference.training.run import Ending, Run
from reference.training.solver import Solver, Terms, minimize, start_of

__all__ = ["SparseResult", "solve_problem", "solve_sparse"]


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
    solver: SparseSolver | None = None,
    iterations: Annotated[int, Ge(0)] = 10000,
    callback: Callable[[Row, Array], Any] | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
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
    checkpoint, resume : path, optional
        A file to write the state of the run to, and such a file to continue from, with the same options.

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
    start, files = start_of(objective, traits(objective), w0), {"checkpoint": checkpoint, "resume": resume}
    return solve_problem(problem, start, tol, rule, gamma, solver, iterations, callback, **files)[0]


def solve_problem(
    problem: ElasticNetCRF,
    w0: Array | None,
    tol: float,
    rule: Rule | None,
    gamma: float,
    solver: SparseSolver | None,
    iterations: int,
    callback: Callable[[Row, Array], Any] | None = None,
    before: Any = None,
    **files: Any,
) -> tuple[SparseResult, Any]:
    """:func:`solve_sparse` on a problem; returns the result and the solver's memory.

    before: the memory of the last problem of a path. w0: None: the weights of that memory, or 0 without one. The other
    options are those of :func:`solve_sparse`.
    """
    if rule is not None:
        check_rule(rule)
    if solver is not None:
        check_solver(solver)
    box = Screened(ProximalNewton() if solver is None else solver, rule, gamma, before)
    same: dict[str, Any] = {"alpha": problem.alpha, "beta": problem.beta, "rule": rule, "gamma": gamma}
    same |= {
        "solver": box.solver,
        "partitions": getattr(problem.whole, "partitions", None),
        "scores": type(problem.scored).__name__,
    }
    run = minimize(problem, SparseRun(box), w0, epochs=iterations, tol=tol, callback=callback, same=same, **files)
    if run.state is None:
        raise KeyboardInterrupt
    return sparse_result(run), run.state.box.memory


@dataclass(frozen=True)
class SparseRun(Solver):
    """A run of :class:`Screened`; ``search`` of its state: the seconds that screening took."""

    box: Screened

    name: ClassVar[str] = "solve_sparse"
    terms: ClassVar[Terms] = Terms(unit="iterations")

    def start(self, problem: Any, w0: Any, rng: Any) -> Array:  # :func:`solve_problem` has checked its arguments
        return problem.place.floats(np.zeros(problem.size)) if w0 is None else w0

    def init(self, problem: Any, w0: Array, rng: Any) -> RunState:
        return RunState(self.box.start(problem, w0), search=0.0)

    def epoch(self, problem: Any, state: RunState, rng: Any) -> RunState:
        return state._replace(box=self.box.step(state.box))

    def evaluate(self, problem: Any, state: RunState) -> Report:
        progress, point = state.box, state.box.memory.state
        calls = progress.calls + progress.memory.calls
        return Report(progress.weights, point.fun, point.dual, point.gap, calls=calls)

    def accept(
        self, problem: Any, before: RunState | None, after: RunState, report: Report, rng: Any
    ) -> tuple[RunState, Report]:
        """The state after a screening, if one is due."""
        started = time.perf_counter()
        box = self.box.screened(after.box)
        if box is after.box:
            return after, report
        state = after._replace(box=box, search=after.search + time.perf_counter() - started)
        return state, self.evaluate(problem, state)

    def saved(self, state: RunState) -> Any:
        """The state with the numbers of the weights that are left in the place of each problem."""
        return _stored(state)

    def restored(self, problem: Any, saved: Any) -> RunState:
        """The state. ValueError if the objective at its weights is another than it was: a run on other data."""
        state: RunState = _filled(saved, problem, {})
        point = state.box.memory.state
        scored = point.problem.scored
        fun = scored.loss(scored.forward(point.w)) + point.problem.regulariser(point.w)
        if not same_value(fun, point.fun, point.w):
            values = f"the objective at its weights is {point.fun}, here {fun}"
            raise ValueError(f"resume: the checkpoint is of other data: {values}")
        return state

    def ending(self, run: Run, state: RunState) -> Ending:
        done, iterations, certificate = state.box.iteration, run.epochs_asked, certificate_of(run, state.box)
        if run.solved:
            outcome = True, f"the duality gap is at most {run.tol:.4g} of the objective after {done} iterations"
        elif run.flat:
            outcome = True, f"the duality gap is all rounding after {done} iterations"
        elif run.stopped:
            outcome = True, f"stopped by the callback after {done} of {iterations} iterations"
        else:
            outcome = False, f"the duality gap is {certificate} after {done} iterations"
        return Ending(outcome, "last", certificate)


def _stored(x: Any) -> Any:
    """A memory with the columns of each problem in the problem's place."""
    if isinstance(x, ElasticNetCRF):
        return x.columns
    return x._make(map(_stored, x)) if hasattr(x, "_make") else x


def _filled(x: Any, problem: ElasticNetCRF, reduced: dict[int, ElasticNetCRF]) -> Any:
    """The memory that :func:`_stored` was given. reduced: problems made so far, by the identity of their columns."""
    if isinstance(x, State):
        columns: Any = x.problem
        if id(columns) not in reduced:
            reduced[id(columns)] = problem if len(columns) == problem.size else problem.reduced(columns)
        return x._replace(problem=reduced[id(columns)])
    return x._make(_filled(each, problem, reduced) for each in x) if hasattr(x, "_make") else x


def certificate_of(run: Run, progress: ScreeningState) -> float | None:
    """The gap, as rows have it."""
    state = progress.memory.state
    return padded(state.gap, state.fun, run.scale, progress.weights, state.problem.n)


def sparse_result(run: Run) -> SparseResult:
    """The result of a run at its last iterate; the last iteration of an interrupted run may have no row."""
    state, message = run.state, run.result.message
    progress, point = state.box, state.box.memory.state
    if run.interrupted:
        message = f"interrupted after {progress.iteration} of {run.epochs_asked} iterations{run.why and f'; {run.why}'}"
    last = {"x": progress.weights, "fun": float(point.fun), "nit": progress.iteration, "message": message}
    last |= {"certificate": certificate_of(run, progress), "oracle_calls": int(progress.calls + progress.memory.calls)}
    return SparseResult(
        **vars(run.result) | last,
        support=point.problem.columns[point.w != 0],
        screenings=progress.screenings,
        solver_seconds=run.seconds - state.search,
        screening_seconds=state.search,
        work=progress.work,
    )
