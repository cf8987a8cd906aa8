"""Prox-linear: its run, with rejected steps, halved eta and measured gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from reference.arrays import Array, floats, host, squared_norm
from reference.bounds.casimir import balanced
from reference.declared import Ge, Gt, Lam, Temperature
from reference.linearized import LinearizedObjective
from reference.objectives import StructuralHinge
from reference.optimizers.base import Objective, evaluate, traits
from reference.optimizers.prox_linear import ConvexModel, ProxLinear, ProxLinearState, regularised, unsmoothed
from reference.smoothings import Max
from reference.training.casimir import casimir
from reference.training.casimir_schedules import LEAST_MU
from reference.training.result import Counts, RunState, StepLength, not_above, padded
from reference.training.run import Ending, Run
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, minimize, runs
from reference.weighted import Weighted

__all__ = ["ProxLinearProblem", "casimir_svrg", "prox_linear"]

BUDGET, MOST = 5, 1000  # passes for a subproblem: the paper's budget, and the most with a tolerance


class ProxLinearProblem(NamedTuple):
    """The argument of an inner solver: minimise objective(v) + lam/2 ||v||^2 from ``start`` (d,).

    ``objective`` is convex and has the interface of any objective. ``lam`` is that of the subproblem, lam + 1/eta.
    ``mu``, ``L``: smoothing and smoothness of components, None if not prescribed. ``passes``: the most passes.
    ``solved``: a callback that stops a run when its gap is small enough. ``rng``: the run's random number generator.
    """

    objective: StructuralHinge | Weighted | LinearizedObjective
    start: Array
    lam: float
    mu: float | None
    L: float | None
    passes: int
    solved: Callable[[Any, Array], Any]
    rng: np.random.Generator


class Solution(NamedTuple):
    """The model that an inner solver minimised, v (d,), the solver's result and its prescribed smoothing."""

    model: ConvexModel
    v: Array
    result: Result
    mu: float | None

    def gap(self) -> tuple[float, int]:
        """A bound on the suboptimality of v in its subproblem, and the oracle calls made."""
        convex, v, result = self.model.convex, self.v, self.result
        if not np.all(np.isfinite(host(v))):
            return np.inf, 0
        smoothed = self.mu if self.mu is not None else unsmoothed(convex)
        evaluation = evaluate(convex, v, self.model.curvature, smoothed)
        fun = evaluation.objective
        gap = padded(fun - evaluation.dual, fun, fun, v, convex.n) or 0.0
        # the certificate applies if the inner solver minimised the unsmoothed hinge
        if result.iterate == "last" and abs(result.fun - fun) <= 1e-6 * abs(fun):
            gap = gap if isinstance(result.certificate, str) else min(gap, result.certificate)
        return gap, convex.n * (2 if smoothed else 1)


@dataclass(frozen=True)
class Scheduled:
    """The argument ``inner`` of :func:`prox_linear`, with the schedule and the budget of its subproblems."""

    function: Callable[[ProxLinearProblem], Result]
    hinge: bool
    schedule: str
    mu: float | None
    L: float | None
    passes: int
    tolerance: float | None

    def __call__(self, model: ConvexModel, k: int, rng: np.random.Generator) -> tuple[Array, Solution]:
        (mu, L), eps = self.scheduled(k), self.eps(k)
        start, passes = model.w - model.center, self.passes

        def solved(row: Any, v: Array) -> bool:
            return row.gap is not None and row.gap <= eps

        result = self.function(ProxLinearProblem(model.convex, start, model.curvature, mu, L, passes, solved, rng))
        if not isinstance(result, Result):
            raise TypeError(f"inner: expected a function that returns a Result, got {type(result).__name__}")
        if result.interrupted:
            raise KeyboardInterrupt
        (v,) = floats(v=result.x)
        return v, Solution(model, v, result, mu)

    def eps(self, k: int) -> float:
        """The gap that ends the k-th subproblem; -inf if the budget ends it."""
        return -np.inf if self.tolerance is None else self.tolerance / k

    def scheduled(self, k: int) -> tuple[float | None, float | None]:
        """mu_k and L_k (section 7.3.2); mu_k is None for an objective with its own smoothing, such as the log loss."""
        mu, L = self.mu, self.L
        if not self.hinge:
            return None, L
        if self.schedule == "const":
            return mu, L
        return None if mu is None else max(mu / k, min(mu, LEAST_MU)), None if L is None else k * L


@dataclass(frozen=True)
class ProxLinearRun(Solver):
    """A run of :class:`ProxLinear`: a step that violates the model's inequality is rejected and eta is halved."""

    fixed_eta: bool
    tol: float | None

    name: ClassVar[str] = "prox_linear"
    terms: ClassVar[Terms] = Terms(convex=False, unit="iterations")

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> RunState:
        return RunState(self.box.init(objective, w0), StepLength(self.box.eta), Counts(calls=objective.n))

    def epoch(self, objective: Objective, state: RunState, rng: np.random.Generator) -> RunState:
        return state._replace(box=replace(self.box, eta=state.search.eta).epoch(objective, state.box, rng))

    def evaluate(self, objective: Objective, state: RunState) -> Report:
        solved = self.tol is not None and state.search.bound <= self.tol
        return Report(state.box.w, state.box.fun, calls=state.counts.calls, solved=solved)

    def restored(self, objective: Objective, saved: RunState) -> RunState:
        return saved._replace(box=saved.box._replace(fun=regularised(objective, saved.box.w, self.box.lam)))

    def accept(
        self, objective: Objective, before: RunState | None, after: RunState, report: Report, rng: np.random.Generator
    ) -> tuple[RunState, Report]:
        """Keep the box's step, or halve eta."""
        if before is None:
            return after, report
        w, fun, eta, tolerance = before.box.w, before.box.fun, before.search.eta, self.box.inner.tolerance
        kept, kept_fun, k, new, new_fun, solution = after.box
        model = solution.model
        model_value = model.value(solution.v, unsmoothed(objective)) if np.isfinite(new_fun) else np.inf
        counts = before.counts.plus(calls=solution.result.oracle_calls + 2 * objective.n)
        rho, gap = squared_norm(w - new) ** 0.5 / eta, np.inf
        if tolerance is not None or self.tol is not None:
            gap, calls = solution.gap()
            missed = tolerance is not None and gap > (1 + 1e-6) * self.box.inner.eps(k)
            counts = counts.plus(calls=calls, missed=missed)
        holds = np.isfinite(new_fun) and not_above(new_fun, model_value, new, fun)
        if not (holds or self.fixed_eta):
            state = RunState(before.box, StepLength(eta / 2), counts.plus(halved=1))
        else:
            bound = rho + (2.0 * max(gap, 0.0) / model.curvature) ** 0.5 / eta
            counts = counts.plus(rejected=kept is not new)
            state = RunState(ProxLinearState(kept, kept_fun, k), StepLength(eta, bound), counts)
        return state, self.evaluate(objective, state)._replace(prox_gradient=rho if np.isfinite(rho) else None)

    def ending(self, run: Run, state: RunState) -> Ending:
        return Ending(run.ending or _outcome(run, state), "last", "none: the objective is not convex", state.box.k)


@runs("subproblem", iterations=50, tol=None, rng=None)
def prox_linear(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    eta: Annotated[float, Gt(0)] = 1.0,
    mu: Temperature | None = None,
    schedule: Literal["const", "adapt"] = "adapt",
    L: Annotated[float, Gt(0)] | None = None,
    budget: Annotated[int, Ge(1)] | None = None,
    tolerance: Annotated[float, Gt(0)] | None = None,
    inner: Callable[[ProxLinearProblem], Result] | None = None,
    accept: Literal["decrease", "always"] = "decrease",
    fixed_eta: bool = False,
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F a loss of scores that are smooth in w, by the prox-linear algorithm.

    w_k ~ argmin_w F_eta(w; w_{k-1}),
    F_eta the objective with its scores linearised about w_{k-1}, plus 1/(2 eta) ||w - w_{k-1}||^2

    Parameters
    ----------
    objective : StructuralHinge, LogLoss, or Weighted of one
        Over a model with ``scores``, ``pushforward`` and ``pullback``, such as ``TwoLayerModel`` or
        ``DifferentiableModel``. A hinge needs a smoothing for ``casimir``; the unsmoothed hinge is minimised.
    eta : float > 0
        Step length. A step to w is rejected and eta halved unless F(w) + lam/2 ||w||^2 <= F_eta(w; w_{k-1}), which
        holds for eta <= 1/L, L the smoothness of the scores.
    mu : float > 0, optional
        Smoothing of a hinge's subproblems; default 1 for the default solver with a budget. Otherwise none is
        prescribed, and ``casimir`` decreases the smoothing until the subproblem is solved.
    schedule : {"adapt", "const"}
        In the k-th step, mu_k = mu/k and L_k = k L; or mu_k = mu and L_k = L.
    L : float > 0, optional
        Smoothness of the components of the first subproblem, for steps of 1/(L_k + lam + 1/eta + kappa); default: found
        for each subproblem.
    budget : int >= 1, optional
        Passes of the inner solver for each subproblem. Default 5; with a tolerance, at most 1000.
    tolerance : float > 0, optional
        eps_0: the k-th subproblem is solved until its duality gap is at most eps_0 / k. ``success`` is False if the
        budget did not suffice. With the default solver and a constant ``mu``, the error of the smoothing remains.
    inner : function, optional
        Solver of the subproblems: ``inner(problem) -> Result``, with a
        :class:`reference.training.prox_linear.ProxLinearProblem`. Default: ``casimir_svrg`` of that module. Any
        optimiser can be used, for a hinge without smoothing for instance
        ``lambda p: bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng, callback=p.solved)``.
    accept : {"decrease", "always"}
        Whether a step is accepted only if the objective does not increase (else w_k = w_{k-1}), or always.
    fixed_eta : bool
        Keep eta constant even if the inequality is violated, as in Algorithm 5.
    iterations : int >= 0
        Subproblems; those of rejected steps count.
    tol : float >= 0, optional
        Stop when the norm of the prox-gradient at the start of the last step is at most this; needs accurately solved
        subproblems.

    Returns
    -------
    Result
        ``nit`` is the number of steps, without halvings. In a row, ``epoch`` counts subproblems, and ``prox_gradient``
        is ||w_{k-1} - w||/eta with w the inner solver's solution; the norm of the prox-gradient at w_{k-1} is within
        sqrt(2 gap / (lam + 1/eta))/eta of it. There is no certificate: the objective is not convex.

    Raises
    ------
    ValueError, TypeError
        Options out of range; an objective other than the three above; a hinge without smoothing if the inner solver
        needs one; weights that must be >= 0.

    Notes
    -----
    ``oracle_calls`` counts the inner solver's calls and n for each evaluation that a decision needs: of the objective
    and of F_eta at the subproblem's solution and, with ``tolerance`` or ``tol``, of its gap. An oracle call in a
    subproblem costs a score and a Jacobian-vector product, and a vector-Jacobian product for the gradient.

    Source
    ------
    Pillutla et al., Algorithm 5, Theorem 35, Remark 36, Proposition 37, sections 6.1 and 7.3.2; *corrected* 6.1.1: gaps
    are measured, as (lam + 1/eta) ||v||^2 <= eps_k does not bound the gap by eps_k. Halving eta is not in the paper.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, prox_linear, smoothings
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])  # linear scores: the proximal point algorithm
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> hinge = StructuralHinge(model, data, smoothing=smoothings.Entropy())
    >>> result = prox_linear(hinge, lam=0.1, eta=10.0, tolerance=0.1, iterations=3, rng=0)
    >>> result.nit, result.history[-1].prox_gradient < 0.05
    (3, True)
    """
    properties = traits(objective)
    if inner is not None and not callable(inner):
        raise TypeError(f"inner: expected a function of a problem that returns a Result, got {inner!r}")
    if inner is None and isinstance(properties.smoothing, Max):
        raise ValueError(
            "objective: casimir, which solves the subproblems, needs a smoothing, such as StructuralHinge(model, "
            "data, smoothing=Entropy())"
        )
    if mu is not None and not properties.hinge:
        raise ValueError(f"mu: {type(objective).__name__} has no smoothing to scale; expected None, got {mu!r}")
    if budget is None:
        budget = BUDGET if tolerance is None else MOST
    if mu is None and tolerance is None and inner is None:
        mu = 1.0
    solves = Scheduled(inner or casimir_svrg, properties.hinge, schedule, mu, L, budget, tolerance)
    solver = ProxLinearRun(ProxLinear(lam, eta, solves, accept), fixed_eta, run["tol"])
    return minimize(objective, solver, w0, epochs=run.pop("iterations"), **run).result


def casimir_svrg(problem: ProxLinearProblem, **options: Any) -> Result:
    """Solve a subproblem of :func:`prox_linear` by Casimir-SVRG; ``options`` are others of ``casimir``.

    With mu the smoothing is constant; without mu it decreases in stages. With L, kappa is that of Proposition 29 and
    the step size is 1 / (L + lam + kappa). Source: Pillutla et al., sections 6.3 and 7.3.2.
    """
    if problem.L is not None:
        kappa = balanced(problem.L, problem.lam, problem.objective.n)
        options = {"kappa": kappa, "step_size": 1.0 / (problem.L + problem.lam + kappa), **options}
    named = {"mu": problem.mu, "schedule": None if problem.mu is None else "const", "epochs": problem.passes}
    given = {"lam": problem.lam, "rng": problem.rng, "callback": problem.solved, **named, **options}
    return casimir(problem.objective, problem.start, **given)


def _outcome(run: Run, state: RunState) -> tuple[bool, str]:
    """Success, and the message."""
    k, counts = state.box.k, state.counts
    done = f"{k} steps"
    if counts.rejected:
        done += f", {counts.rejected} of them refused as the objective would have grown"
    if counts.halved:
        done += f", eta halved {counts.halved} times to {state.search.eta:.3g}"
    if counts.missed:
        done += f", {counts.missed} subproblems left with a gap of more than tolerance / k"
    if run.solved:
        return True, f"{done}: the norm of the prox-gradient is at most {state.search.bound:.3g}"
    if k == counts.rejected and (counts.rejected or counts.halved):
        return False, f"{done}: no step was taken"
    if not state.box.fun <= run.first:
        return False, f"{done}: the objective grew from {run.first} to {state.box.fun}"
    if counts.missed:
        return False, done
    if run.tol is not None:
        return False, f"{done}: the norm of the prox-gradient is at most {state.search.bound:.3g}, more than {run.tol}"
    return True, done
