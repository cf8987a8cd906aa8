"""Casimir: its run. The paper leaves some choices open: constants from the data, rejected iterations, smoothing in
stages.

Source: Pillutla et al., sections 7.2 and 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import Array
from reference.bounds.casimir import Choice
from reference.declared import Gt, Lam, Said, Temperature
from reference.optimizers.base import Evaluation, Objective, evaluate, traits
from reference.optimizers.casimir import Casimir
from reference.optimizers.subproblem import Pass, Subproblem, UserPass
from reference.training.casimir_schedules import LEAST_MU, Plan, Plans, checked, theory
from reference.training.result import Counts, RunState, not_above
from reference.training.run import Ending, Run
from reference.training.smoothness import INNER, Backtracking, Searched, Spent
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, check_provable, minimize, runs

__all__ = ["casimir", "casimir_svrg_adapt", "casimir_svrg_const"]

STAGE = 0.3  # a stage of constant smoothing ends when its smoothed problem is solved to this share of the gap


@dataclass(frozen=True)
class CasimirRun(Solver):
    """A run of :class:`Casimir` in which iterations are rejected; the box gets its schedule when the run starts."""

    plans: Plans

    name: ClassVar[str] = "casimir"
    terms: ClassVar[Terms] = Terms(smoothed=True)

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> RunState:
        plan, calls = self.plans.plan(objective, w0, rng)
        return RunState(self.box_of(plan).init(objective, w0), None if self.plans.given else plan, Counts(calls=calls))

    def epoch(self, objective: Objective, state: RunState, rng: np.random.Generator) -> RunState:
        return state._replace(box=self.box_of(state.search).epoch(objective, state.box, rng))

    def evaluate(self, objective: Objective, state: RunState) -> Report:
        mu = self.box_of(state.search).schedule.mu_k(max(state.box.k, 1))
        return self.report(state, evaluate(objective, state.box.w, self.plans.lam, mu))

    def accept(
        self, objective: Objective, before: RunState | None, after: RunState, report: Report, rng: np.random.Generator
    ) -> tuple[RunState, Report]:
        """Reject an iteration that increased F_{mu,kappa}; halve mu if the smoothed problem is solved."""
        evaluation: Evaluation = report.detail
        if before is None:
            return after._replace(evaluation=evaluation), report
        plan, mu, k, w = self.box_of(after.search).schedule, evaluation.mu, after.box.k, after.box.w
        problem, spent = Subproblem(objective, plan.lam, plan.kappa_k(k), mu, before.box.z), after.box.memory
        value, best = problem.value(w, evaluation.smoothed), before.evaluation
        if self.box.inner.epochs is None:  # one pass, of a step size that may be guessed
            kept, guess = self.box.inner.steps.judge(spent.guess, value, spent.first, w)
            spent = spent._replace(guess=guess)
        else:
            kept = not_above(value, spent.first, w)
        if kept:  # a dual bound of a hinge remains valid; of another objective, only for the same mu
            lasting = traits(objective).hinge or mu == best.mu
            best = evaluation._replace(dual=max(best.dual if lasting else -np.inf, evaluation.dual))
        box = (after if kept else before).box._replace(memory=spent)
        state = RunState(box, after.search, before.counts.plus(kept=kept, rejected=not kept), best)
        gap = best.objective - best.dual
        solved = evaluation.slope <= STAGE * gap and gap > 1e-12 * abs(best.objective)
        if kept and solved and self.plans.staged(objective) and plan.mu_k(k) > LEAST_MU:
            state = self.halved(objective, state, 0.5 * plan.mu_k(k), rng)
        return state, self.report(state, best)

    def halved(self, objective: Objective, state: RunState, mu: float, rng: np.random.Generator) -> RunState:
        """The next stage: half the smoothing, a new kappa, momentum restarted."""
        plan, calls = self.plans.constant(objective, state.box.w, mu, rng)
        box_state = self.box_of(plan).init(objective, state.box.w)._replace(memory=state.box.memory)
        return state._replace(search=plan, box=box_state, counts=state.counts.plus(calls=calls))

    def box_of(self, plan: Plan | None) -> Casimir:
        """The box with a plan as its schedule; None: that of the user."""
        box: Casimir = replace(self.box, schedule=plan or Plan(self.plans.schedule))
        return box

    def report(self, state: RunState, evaluation: Evaluation) -> Report:
        """The report of a state with this evaluation."""
        spent: Spent = state.box.memory or Spent()
        bounds = evaluation.dual, evaluation.objective - evaluation.dual
        dual, gap = (bound if np.isfinite(bound) else None for bound in bounds)
        calls = state.counts.calls + spent.calls + spent.guess.calls
        more: dict[str, Any] = {"exact": evaluation.exact, "calls": calls, "passes": spent.passes}
        return Report(state.box.w, evaluation.objective, dual, gap, detail=evaluation, **more)

    def ending(self, run: Run, state: RunState) -> Ending:
        certificate = run.gap if self.plans.lam > 0 else "none: lam = 0 gives no dual point"
        done = f"{run.done} epochs done"
        if state.counts.rejected:
            done += f", {state.counts.rejected} iterations taken back for too long steps"
        if run.solved:
            outcome = True, f"gap {run.gap} after {run.done} epochs"
        elif run.ending:
            outcome = run.ending
        elif not not_above(run.fun, run.first, state.box.w):
            outcome = False, f"{done}: the objective grew from {run.first} to {run.fun}; take shorter steps"
        elif run.tol is not None:
            outcome = False, f"{done}: the gap is {run.gap}, more than {run.tol} of the objective"
        else:
            outcome = bool(np.isfinite(run.fun)), done
        return Ending(outcome, "last", certificate, state.counts.kept)


@runs("outer iteration", epochs=50, tol=None, rng=None)
def casimir(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Temperature | None = None,
    kappa: Annotated[float, Gt(0)] | None = None,
    schedule: Literal["const", "adapt", "theory"] | Choice | None = None,
    accuracy: Annotated[float, Gt(0)] | None = None,
    inner: Annotated[Literal["svrg", "saga", "gradient"], Said("one of svrg, saga, gradient, or a function")]
    | Pass = "svrg",
    stop: Literal["budget", "gradient"] = "budget",
    warm_start: Literal["center", "last", "extrapolated"] = "center",
    step_size: Annotated[float, Gt(0)] | None = None,
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F a structural hinge or any smooth finite sum, by Casimir.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        A hinge with a smoothing (the unsmoothed hinge is minimised), the log loss, or any smooth finite sum.
    mu : float, optional
        Constant smoothing: the run reaches the optimum up to mu D, D the width of the smoothing. Default for a hinge
        with lam > 0: stages of constant smoothing 1, 1/2, 1/4, ...; a stage ends when its smoothed problem is solved to
        0.3 of the gap, and the next starts with a new kappa and without momentum. Default for lam = 0: 1.
    kappa : float > 0, optional
        Weight of the proximal term; default L/(n+1) for lam = 0 (Proposition 31), otherwise L/n - lam if
        L/n > 4 lam and lam if not (Proposition 29). L is the smoothness of components, found by backtracking at the
        start.
    schedule : optional
        None: constant mu and kappa, as above. ``"const"``: the same without stages; mu defaults to 1. ``"adapt"``: mu_k
        decreases from ``mu``, by default 2 (:func:`casimir_svrg_adapt`). ``"theory"``: the constants of Proposition 29
        for an ``accuracy``, and subproblems solved until (26) holds; slow, for small problems and for checks of the
        bounds. Or an object with ``lam``, ``alpha_0``, ``kappa_k(k)``, ``mu_k(k)`` and ``delta_k(k)``, such as
        ``reference.bounds.Corollary18``.
    accuracy : float > 0, optional
        For ``"theory"``: the distance to the optimum to reach.
    inner : {"svrg", "saga", "gradient"} or function
        Solver of the subproblems: passes of SVRG, of SAGA, or full gradient steps. A function makes one pass,
        ``inner(problem, snapshot, order, step_size, memory) -> (x, calls, memory)``, as
        :data:`reference.optimizers.subproblem.Pass` describes.
    stop : {"budget", "gradient"}
        When a subproblem is solved: after one pass (n steps of SVRG or SAGA, or one gradient step); or when
        ||grad F_{mu,kappa}(w; z)||^2 <= (lam + kappa) delta kappa ||w - z||^2, which implies (26).
    warm_start : {"center", "last", "extrapolated"}
        Where a subproblem starts: z_{k-1}; w_{k-1}; or w_{k-1} + kappa/(kappa + lam) (z_{k-1} - z_{k-2}).
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam + kappa), L found as in ``svrg``.
    epochs : int >= 0
        Passes, or gradient steps, in all; rejected ones count. If subproblems are solved until (26) holds, a resumed
        run must have the same number: it may cut the last subproblem short.

    Returns
    -------
    Result
        The last w_k. In a row, ``epoch`` counts passes, ``objective`` is not smoothed, ``dual`` is the best so far (the
        weights of the smoothed max are a dual point), and ``exact`` is the share of examples whose smoothed max was
        certified. The certificate is objective - dual.

    Raises
    ------
    ValueError
        Options out of range; an unsmoothed objective; weights that must be >= 0; no curvature to derive a step size
        from; no constants for ``"theory"``; more gradients than SAGA can keep.

    Notes
    -----
    A pass of SVRG or SAGA makes 2n calls, a gradient step n calls. With ``stop="gradient"`` each subproblem makes n
    more for its last gradient. The search for step sizes counts; the evaluation of objective and dual after an
    iteration does not. If the step size was guessed and F_{mu,kappa} increased, the iteration is rejected and L is
    doubled. Memory of SAGA: n d numbers, at most 2^27.

    Source
    ------
    Pillutla et al., Algorithm 4, (22)-(29), Corollaries 17 and 19, Propositions 29 and 31, sections 5.1 and 7.3.1,
    *corrected*: L holds for each component, not only for their average.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, casimir, smoothings
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> hinge = StructuralHinge(model, data, smoothing=smoothings.Entropy())
    >>> result = casimir(hinge, lam=0.1, tol=0.1, rng=0)  # to within a tenth of the unsmoothed optimum
    >>> result.success, result.certificate <= 0.1 * result.fun
    (True, True)
    """
    check_provable(lam, run["tol"])
    until, resolved = None, {}
    if stop == "gradient" or schedule == "theory":  # the epochs may cut the last subproblem short
        until, resolved = run["epochs"], {"epochs": run["epochs"]}
    if schedule == "theory":
        _refuse("schedule='theory' has its own", mu=mu, kappa=kappa, step_size=step_size)
        schedule, step_size = theory(objective, lam, accuracy)
    elif schedule is None or (isinstance(schedule, str) and schedule in ("const", "adapt")):
        _refuse("only schedule='theory' takes one", accuracy=accuracy)
    else:
        _refuse("the schedule has its own", mu=mu, kappa=kappa, accuracy=accuracy)
        schedule = checked(schedule, lam)
    solves = Searched(UserPass(inner) if callable(inner) else INNER[inner], Backtracking(step_size), until)
    box = Casimir(None, solves, warm_start)  # type: ignore[arg-type]
    solver = CasimirRun(box, Plans(lam, mu, kappa, schedule))
    return minimize(objective, solver, w0, resolved=resolved, **run).result


def _refuse(why: str, **options: Any) -> None:
    """Raise ValueError if one of these options was given."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {why}, got {value}")


def casimir_svrg_const(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Temperature | None = None,
    kappa: Annotated[float, Gt(0)] | None = None,
    **options: Any,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by Casimir with constant smoothing, each subproblem by one pass of SVRG.

    mu_k = mu,  kappa_k = kappa; momentum of Corollary 17, of 19 for lam = 0

    Parameters
    ----------
    objective, w0, lam, **options
        As for :func:`casimir` with ``schedule="const"``, which describes the result and the errors, too.
    mu : float > 0, optional
        Strength of the smoothing, to be tuned: the run ends up to mu D above the optimum, D the width of the smoothing.
        Default 1; the log loss has its own.
    kappa : float > 0, optional
        Weight of the proximal term.

    Source
    ------
    Pillutla et al., section 7.2 (Casimir-SVRG-const), Propositions 29 and 31; the paper tunes L on a grid instead.
    """
    return casimir(objective, w0, lam=lam, mu=mu, kappa=kappa, schedule="const", **options)


def casimir_svrg_adapt(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Temperature | None = None,
    kappa: Annotated[float, Gt(0)] | None = None,
    **options: Any,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by Casimir with decreasing smoothing, each subproblem by one pass of SVRG.

    lam > 0:  mu_k = mu (1 - sqrt(q)/2)^{k/2}, q = lam/(lam + kappa),  kappa_k = kappa = lam
    lam = 0:  mu_k = mu/k,  kappa_k = kappa k,  kappa = L/(n+1), L the smoothness of the examples' losses at mu

    Momentum is that of Corollary 18, of 20 for lam = 0. The objective must have a smoothing.

    Parameters
    ----------
    objective, w0, lam, **options
        As for :func:`casimir` with ``schedule="adapt"``, which describes the result and the errors, too.
    mu : float > 0, optional
        First value of the smoothing; default 2. Its choice matters little.
    kappa : float > 0, optional
        Weight of the proximal term.

    Source
    ------
    Pillutla et al., section 7.2 (Casimir-SVRG-adapt), Propositions 30 and 32; the paper tunes a constant step size on a
    grid instead.
    """
    return casimir(objective, w0, lam=lam, mu=mu, kappa=kappa, schedule="adapt", **options)
