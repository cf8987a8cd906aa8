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
from reference.optimizers.base import Objective, traits
from reference.optimizers.casimir import Casimir
from reference.optimizers.subproblem import Pass, Subproblem
from reference.smoothings import Max
from reference.training.arguments import check_provable
from reference.training.casimir_schedules import LEAST_MU, Plan, Plans
from reference.training.result import Counts, Evaluation, RunState, evaluate, not_above
from reference.training.run import Ending, Run
from reference.training.smoothness import Backtracking, Spent, searched
from reference.training.solver import Report, Result, RunOptions, Solver, minimize, runs

__all__ = ["casimir"]

STAGE = 0.3  # a stage of constant smoothing ends when its smoothed problem is solved to this share of the gap


@dataclass(frozen=True)
class CasimirRun(Solver):
    """A run of :class:`Casimir` in which iterations are rejected; the box gets its schedule when the run starts."""

    plans: Plans

    name: ClassVar[str] = "casimir"

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        if isinstance(traits(objective).smoothing, Max):
            raise ValueError(
                "objective: casimir needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
            )
        return super().start(objective, w0, rng)

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> RunState:
        plan = self.plans.plan(objective, w0, rng)
        named = self.plans.schedule is None or isinstance(self.plans.schedule, str)  # else it has no form in a file
        return RunState(self.box_of(plan).init(objective, w0), plan if named else None, Counts(calls=plan.calls))

    def epoch(self, objective: Objective, state: RunState, rng: np.random.Generator) -> RunState:
        return state._replace(box=self.box_of(self.plan_in(state)).epoch(objective, state.box, rng))

    def evaluate(self, objective: Objective, state: RunState) -> Report:
        mu = self.plan_in(state).mu_k(max(state.box.k, 1))
        return self.report(state, evaluate(objective, state.box.w, self.plans.lam, mu))

    def accept(
        self, objective: Objective, before: RunState | None, after: RunState, report: Report, rng: np.random.Generator
    ) -> tuple[RunState, Report]:
        """Reject an iteration that increased F_{mu,kappa}; halve mu if the smoothed problem is solved."""
        evaluation: Evaluation = report.detail
        if before is None:
            return after._replace(evaluation=evaluation), report
        plan, mu, k, w, best = self.plan_in(after), evaluation.mu, after.box.k, after.box.w, before.evaluation
        problem, spent = Subproblem(objective, plan.lam, plan.kappa_k(k), mu, before.box.z), after.box.memory
        value = problem.value(w, evaluation.smoothed)
        if plan.stop == "budget":
            kept, guess = self.plans.steps.judge(spent.guess, value, spent.first, w)
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
        if plan.staged and kept and solved and plan.schedule.mu_k(k) > LEAST_MU:
            state = self.halved(objective, state, 0.5 * plan.schedule.mu_k(k), rng)
        return state, self.report(state, best)

    def halved(self, objective: Objective, state: RunState, mu: float, rng: np.random.Generator) -> RunState:
        """The next stage: half the smoothing, a new kappa, momentum restarted."""
        schedule, calls = self.plans.constant(objective, state.box.w, mu, rng)
        plan = state.search._replace(schedule=schedule)
        box_state = self.box_of(plan).init(objective, state.box.w)._replace(memory=state.box.memory)
        return state._replace(search=plan, box=box_state, counts=state.counts.plus(calls=calls))

    def box_of(self, plan: Plan) -> Casimir:
        """The box with the schedule and the step size of a plan."""
        steps = replace(self.plans.steps, step_size=plan.step_size)
        box: Casimir = replace(self.box, schedule=plan, inner=replace(self.box.inner, steps=steps))
        return box

    def plan_in(self, state: RunState) -> Plan:
        """The plan of a state; a schedule of the user is the solver's."""
        plans = self.plans
        return state.search or Plan(plans.schedule, True, False, plans.steps.step_size, plans.stop, 0)

    def report(self, state: RunState, evaluation: Evaluation) -> Report:
        """The report of a state with this evaluation."""
        spent: Spent = state.box.memory or Spent()
        bounds = evaluation.dual, evaluation.objective - evaluation.dual
        dual, gap = (bound if np.isfinite(bound) else None for bound in bounds)
        calls = state.counts.calls + spent.calls + spent.guess.calls
        more: dict[str, Any] = {"exact": evaluation.exact, "calls": calls, "passes": spent.passes}
        return Report(state.box.w, evaluation.objective, dual, gap, detail=evaluation, **more)

    def ending(self, run: Run, state: RunState | None) -> Ending:
        certificate = run.gap if self.plans.lam > 0 else "none: lam = 0 gives no dual point"
        done, kept = f"{run.done} epochs done", state.counts.kept if state else 0
        if state and state.counts.rejected:
            done += f", {state.counts.rejected} iterations taken back for too long steps"
        if run.solved:
            outcome = True, f"gap {run.gap} after {run.done} epochs"
        elif state is None or run.ending:
            outcome = run.ending or (False, "nothing was done")
        elif not not_above(run.fun, run.first, state.box.w):
            outcome = False, f"{done}: the objective grew from {run.first} to {run.fun}; take shorter steps"
        elif run.tol is not None:
            outcome = False, f"{done}: the gap is {run.gap}, more than {run.tol} of the objective"
        else:
            outcome = bool(np.isfinite(run.fun)), done
        return Ending(outcome, "last", certificate, kept)


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
        ``inner(problem, snapshot, order, step_size, memory) -> (x, calls, memory)``. It starts from ``snapshot.x``
        (d,) and returns the new point x (d,); ``snapshot.value`` and ``snapshot.gradient`` are F_mu and its gradient at
        the start. ``problem`` has ``objective``, ``mu``, ``lam``, ``kappa``, ``center`` (z) and
        ``gradient(snapshot)``, the gradient of the subproblem.
        ``order`` is a permutation of the examples. ``calls`` is the number of oracle calls of one example. ``memory``
        is what the previous pass over this subproblem returned as memory, None in the first pass.
    stop : {"budget", "gradient"}
        When a subproblem is solved: after one pass (n steps of SVRG or SAGA, or one gradient step); or when
        ||grad F_{mu,kappa}(w; z)||^2 <= (lam + kappa) delta kappa ||w - z||^2, which implies (26).
    warm_start : {"center", "last", "extrapolated"}
        Where a subproblem starts: z_{k-1}; w_{k-1}; or w_{k-1} + kappa/(kappa + lam) (z_{k-1} - z_{k-2}).
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam + kappa), L found as in ``svrg``.
    epochs : int >= 0
        Passes, or gradient steps, in all; rejected ones count.
    tol : float >= 0, optional
        Stop when the gap is at most ``tol`` times the objective; needs lam > 0.
    checkpoint, resume : path, optional
        A file to write the state of the run to, and such a file to continue from, with the same options. If subproblems
        are solved until (26) holds, ``epochs`` must be the same, too: it may cut the last subproblem short.

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
    plans = Plans(lam, mu, kappa, schedule, accuracy, stop, Backtracking(step_size))
    box = Casimir(None, searched(inner, step_size, until), warm_start)  # type: ignore[arg-type]
    return minimize(objective, CasimirRun(box, plans), w0, resolved=resolved, **run).result
