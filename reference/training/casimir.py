"""Casimir: its run, where the paper leaves things open: constants from the data, iterations taken back, smoothing in
stages.

Source: Pillutla et al., sections 7.2 and 7.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from reference.arrays import Array, number
from reference.optimizers.base import Objective, traits
from reference.optimizers.casimir import Casimir, CasimirState
from reference.optimizers.subproblem import Pass, Subproblem
from reference.smoothings import Max, positive_mu
from reference.training.arguments import check_options, one_of
from reference.training.casimir_schedules import LEAST_MU, Plan, constant, plan_of
from reference.training.evaluation import Evaluation, evaluate
from reference.training.inner import Searched, Spent, searched
from reference.training.minimize import minimize
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result, not_above
from reference.training.run import Run
from reference.training.smoothness import Backtracking
from reference.training.solver import Ending, Solver

__all__ = ["casimir"]

STAGE = 0.3  # a stage of constant smoothing ends when its own problem is solved to this share of the gap
CHOICES = {
    "stop": ("budget", "gradient"),
    "warm_start": ("center", "last", "extrapolated"),
}


class Standing(NamedTuple):
    """What a run has come to: its plan (None in a checkpoint where the schedule was given), the box's state, the mu
    that led there and what that is worth; iterations kept and taken back; oracle calls that plans took.
    """

    plan: Any  # a :class:`Plan`
    at: CasimirState
    mu: float | None
    best: Any = None  # an :class:`Evaluation`
    kept: int = 0
    taken_back: int = 0
    calls: int = 0


@dataclass(frozen=True)
class Steered(Solver):
    """A run of :class:`Casimir`, with the options of :func:`casimir`; the box gets its schedule when the run starts."""

    lam: float
    mu: float | None
    kappa: float | None
    schedule: Any
    accuracy: float | None
    stop: str

    name: ClassVar[str] = "casimir"

    @property
    def inner(self) -> Searched:
        """What solves subproblems."""
        inner: Searched = self.box.inner
        return inner

    @property
    def asked(self) -> dict[str, Any]:
        options = {"lam": self.lam, "mu": self.mu, "kappa": self.kappa, "schedule": self.schedule}
        options |= {"accuracy": self.accuracy, "inner": self.inner.named, "stop": self.stop}
        options |= {"warm_start": self.box.warm_start, "step_size": self.inner.steps.step_size}
        return options | ({} if self.inner.epochs is None else {"epochs": self.inner.epochs})

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> Standing:
        plan = self.plan(objective, w0, rng)
        return Standing(plan, self.by(plan).init(objective, w0), plan.mu_k(1), calls=plan.calls)

    def epoch(self, objective: Objective, now: Standing, rng: np.random.Generator) -> Standing:
        mu = now.plan.mu_k(now.at.k + 1)
        return now._replace(at=self.by(now.plan).epoch(objective, now.at, rng), mu=mu)

    def settle(
        self, objective: Objective, before: Standing | None, after: Standing, report: Report, rng: np.random.Generator
    ) -> tuple[Standing, Report]:
        """Take an iteration back if it went up; halve mu where its problem is solved."""
        found: Evaluation = report.detail
        if before is None:
            return after._replace(best=found), report
        plan, mu, k, w = after.plan, after.mu, after.at.k, after.at.w
        problem, spent = Subproblem(objective, self.lam, plan.kappa_k(k), mu, before.at.z), after.at.memory
        kept = not_above(problem.value(w, found.smoothed), spent.first, w)
        if plan.stop == "budget":
            kept = kept or not spent.guess.guessed
            spent = spent._replace(guess=self.inner.steps.judge(spent.guess, kept))
        if kept:  # a dual point of the hinge stays one; of another objective, only while mu stays
            lasting = traits(objective).hinge or mu == before.mu
            best = found._replace(dual=max(before.best.dual if lasting else -np.inf, found.dual))
            now = after._replace(at=after.at._replace(memory=spent), best=best, kept=before.kept + 1)
        else:
            now = before._replace(at=before.at._replace(memory=spent), taken_back=before.taken_back + 1)
        gap = now.best.objective - now.best.dual
        solved = found.slope <= STAGE * gap and gap > 1e-12 * abs(now.best.objective)
        if plan.staged and kept and solved and plan.schedule.mu_k(k) > LEAST_MU:
            now = self.halved(objective, now, 0.5 * plan.schedule.mu_k(k), rng)
        return now, self.report(now, now.best)

    def halved(self, objective: Objective, now: Standing, mu: float, rng: np.random.Generator) -> Standing:
        """The next stage: half the smoothing, another kappa, momentum from the start."""
        schedule, calls = constant(objective, now.at.w, self.lam, mu, self.kappa, rng, self.found)
        plan = now.plan._replace(schedule=schedule)
        at = self.by(plan).init(objective, now.at.w)._replace(memory=now.at.memory)
        return now._replace(plan=plan, at=at, calls=now.calls + calls)

    def by(self, plan: Plan) -> Casimir:
        """The box by this plan."""
        steps = replace(self.inner.steps, step_size=plan.step_size)
        box: Casimir = replace(self.box, schedule=plan, inner=replace(self.inner, steps=steps))
        return box

    @property
    def found(self) -> Backtracking:
        """Steps that are found."""
        return replace(self.inner.steps, step_size=None)

    def plan(self, objective: Objective, start: Array | None, rng: np.random.Generator | None) -> Plan:
        """What the options stand for."""
        options: dict[str, Any] = {"lam": self.lam, "mu": self.mu, "kappa": self.kappa, "accuracy": self.accuracy}
        options |= {"step_size": self.inner.steps.step_size, "stop": self.stop, "steps": self.found}
        return plan_of(objective, start, self.schedule, **options, rng=rng)

    def evaluate(self, objective: Objective, now: Standing) -> Report:
        return self.report(now, evaluate(objective, now.at.w, self.lam, now.mu))

    def report(self, now: Standing, found: Evaluation) -> Report:
        """The row of a state that is worth this."""
        spent: Spent = now.at.memory or Spent()
        bounds = _known(found.dual), _known(found.objective - found.dual), found.exact
        calls = now.calls + spent.calls + spent.guess.calls
        return Report(now.at.w, found.objective, *bounds, calls, spent.passes, detail=found)

    def saved(self, now: Standing) -> Standing:
        return now if self.schedule is None or isinstance(self.schedule, str) else now._replace(plan=None)

    def restored(self, objective: Objective, saved: Standing) -> Standing:
        return saved if saved.plan else saved._replace(plan=self.plan(objective, None, None))

    def check(self, objective: Objective, tol: float | None) -> None:
        super().check(objective, tol)
        check_options(lam=self.lam, mu=self.mu, step_size=self.inner.steps.step_size, tol=tol)
        for name, value in (("kappa", self.kappa), ("accuracy", self.accuracy)):
            if value is not None:
                number(name, value, positive=True)
        one_of("stop", self.stop, CHOICES["stop"])
        one_of("warm_start", self.box.warm_start, CHOICES["warm_start"])
        if isinstance(traits(objective).smoothing, Max):
            raise ValueError(
                "objective: casimir needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
            )
        if self.mu is not None:
            positive_mu(self.mu)

    def ending(self, run: Run, now: Standing | None, tol: float | None) -> Ending:
        certificate = run.gap if self.lam > 0 else "none: lam = 0 gives no dual point"
        return Ending(_outcome(run, now, tol), "last", certificate, now.kept if now else 0)


@runs(epochs=50, tol=None, rng=None)
def casimir(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: float,
    mu: float | None = None,
    kappa: float | None = None,
    schedule: Any = None,
    accuracy: float | None = None,
    inner: str | Pass = "svrg",
    stop: str = "budget",
    warm_start: str = "center",
    step_size: float | None = None,
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F a structural hinge or any smooth finite sum, by Casimir.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        A hinge with a smoothing (its unsmoothed self is what is minimised), the log loss, or a smooth finite sum of
        yours.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm.
    mu : float, optional
        Constant smoothing: the optimum is met up to mu D, D the width of the smoothing. Default for a hinge with
        lam > 0: stages of constant smoothing 1, 1/2, 1/4, ..., each ended when its smoothed problem is solved to 0.3 of
        the gap; kappa is chosen anew for each, and momentum starts again. With lam = 0 it is 1.
    kappa : float, optional
        Weight of the proximal term, > 0; default L/n - lam where L/n > 4 lam and lam otherwise (Proposition 29),
        L/(n+1) where lam = 0 (Proposition 31), with L the smoothness of components that backtracking finds at the
        start.
    schedule : optional
        None: constant mu and kappa, as above. ``"const"``: the same without stages, mu being 1 where none is given.
        ``"adapt"``: mu_k falls from ``mu``, by default 2 (:func:`casimir_svrg_adapt`). ``"theory"``: Proposition 29's
        own constants for an ``accuracy``, subproblems solved until (26) holds; slow, meant for small problems and for
        checking the bounds. Or an object with ``lam``, ``alpha_0``, ``kappa_k(k)``, ``mu_k(k)`` and ``delta_k(k)``,
        such as ``reference.bounds.Corollary18``.
    accuracy : float > 0, optional
        For ``"theory"``: the distance to the optimum that is asked for.
    inner : {"svrg", "saga", "gradient"} or function
        What solves a subproblem: passes of SVRG, of SAGA, or full gradient steps. Or a function that makes one pass,
        ``inner(problem, at, order, step_size, memory) -> (x, calls, memory)``: from ``at.x`` (d,), where ``at.value``
        and ``at.gradient`` are F_mu and its gradient, to x. ``problem`` has ``objective``, ``mu``, ``lam``, ``kappa``,
        ``center`` (z), and ``problem.gradient(at)`` is the subproblem's; ``order`` is a permutation of the examples;
        ``calls`` says how many oracles of one example it asked for; ``memory`` is what the last pass of this subproblem
        returned as such, None in its first.
    stop : {"budget", "gradient"}
        When a subproblem is solved: after one pass (n steps of SVRG or SAGA, or one gradient step); or when
        ||grad F_{mu,kappa}(w; z)||^2 <= (lam + kappa) delta kappa ||w - z||^2, which implies (26).
    warm_start : {"center", "last", "extrapolated"}
        Where a subproblem starts: z_{k-1}; w_{k-1}; or w_{k-1} + kappa/(kappa + lam) (z_{k-1} - z_{k-2}).
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam + kappa), L found as ``svrg`` does.
    epochs : int >= 0
        Passes, or gradient steps, in all; those taken back included.
    tol : float >= 0, optional
        Stop when the gap is at most ``tol`` times the objective; needs lam > 0.
    callback : callable, optional
        Called as ``callback(row, w)`` after each outer iteration, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options (for subproblems
        solved until (26) holds, the same ``epochs`` too, as these cut the last one short).

    Returns
    -------
    Result
        The last w_k. In a row, ``epoch`` counts passes, ``objective`` is the unsmoothed one, ``dual`` the best met (the
        weights of the smoothed max are a dual point), ``exact`` the share of examples whose smoothed max was certified.
        The certificate is objective - dual.

    Raises
    ------
    ValueError
        Options out of range, an unsmoothed objective, weights that must be >= 0, no step size where no curvature can be
        found, no theory to go by, more gradients than SAGA can keep.

    Notes
    -----
    A pass of SVRG or SAGA makes 2n calls, a gradient step n, and with ``stop="gradient"`` each subproblem n more for
    the gradient that ends it; what the search for step sizes asks is counted, the evaluation of objective and dual
    after an iteration is not. An iteration whose step size was guessed and after which F_{mu,kappa} is larger, as that
    evaluation shows, is taken back and L doubled. Memory of SAGA: n d numbers, at most 2^27.

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
    until = run["epochs"] if stop == "gradient" or schedule == "theory" else None
    box = Casimir(None, searched(inner, step_size, until), warm_start)  # type: ignore[arg-type]
    solver = Steered(box, lam, mu, kappa, schedule, accuracy, stop)
    return minimize(objective, solver, w0, **run)


def _outcome(run: Run, now: Standing | None, tol: float | None) -> tuple[bool, str]:
    """Success, and the sentence about it."""
    if run.solved:
        return True, f"gap {run.gap} after {run.done} epochs"
    if now is None or run.ending:
        return run.ending or (False, "nothing was done")
    done = f"{run.done} epochs done"
    if now.taken_back:
        done += f", {now.taken_back} iterations taken back for too long steps"
    if not not_above(run.fun, run.first, now.at.w):
        return False, f"{done}: the objective grew from {run.first} to {run.fun}; take shorter steps"
    if tol is not None:
        return False, f"{done}: the gap is {run.gap}, more than {tol} of the objective"
    return bool(np.isfinite(run.fun)), done


def _known(number: float) -> float | None:
    return number if np.isfinite(number) else None
