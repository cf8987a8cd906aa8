"""Casimir: accelerated proximal-point steps on a smoothed objective, each solved by SVRG or by gradient descent.

min_w F(w) + lam/2 ||w||^2, F = mean_i max_y (...), by way of the smoothed, re-centred problems

    F_{mu,kappa}(w; z) = F_mu(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2,   w_k ~ argmin F_{mu_k,kappa_k}(.; z_{k-1}),
    z_k = w_k + beta_k (w_k - w_{k-1})

Source: Pillutla et al., Algorithm 4 and section 5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, number
from reference.bounds import momentum, next_alpha
from reference.optimizers.arguments import check_objective, check_options, refuse_nonlinear, start_of
from reference.optimizers.casimir_schedules import LEAST_MU, Plan, constant, plan_of
from reference.optimizers.evaluation import Evaluation, evaluate
from reference.optimizers.inner_solvers import INNER, Pass, Subproblem, solve
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result, not_above, small_enough
from reference.optimizers.runs import Point, Run
from reference.optimizers.smoothness import ComponentSteps
from reference.smoothing import Max, positive_mu

__all__ = ["CasimirState", "casimir", "outer_step"]

STAGE = 0.3  # a stage of constant smoothing ends when its own problem is solved to this share of the gap
CHOICES = {
    "stop": ("budget", "gradient"),
    "warm_start": ("center", "last", "extrapolated"),
}


class CasimirState(NamedTuple):
    """After k outer iterations: w_k, z_k and z_{k-1} (d,), alpha_k, k."""

    w: Array
    z: Array
    center: Array
    alpha: float
    k: int


class Standing(NamedTuple):
    """What a run has come to: its plan (None where the schedule was given), state, what w is worth, the mu of that; the objective at the
    start; iterations kept and taken back; oracle calls, without those of step sizes; the guess of the smoothness, and the calls it took.
    """

    plan: Plan | None
    state: CasimirState
    best: Evaluation
    mu: float | None
    first: float
    outer: int
    taken_back: int
    calls: int
    L: float | None
    trials: int


def casimir(
    objective: Any,
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
    epochs: int = 50,
    tol: float | None = None,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F a structural hinge or any smooth finite sum, by Casimir.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        A hinge with a smoothing (its unsmoothed self is what is minimised), the log loss, or a smooth finite sum of yours.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm.
    mu : float, optional
        Constant smoothing: the optimum is met up to mu D, D the width of the smoothing. Default for a hinge with lam > 0: stages
        of constant smoothing 1, 1/2, 1/4, ..., each ended when its smoothed problem is solved to 0.3 of the gap; kappa is
        chosen anew for each, and momentum starts again. With lam = 0 it is 1.
    kappa : float, optional
        Weight of the proximal term, > 0; default L/n - lam where L/n > 4 lam and lam otherwise (Proposition 29), L/(n+1) where lam = 0
        (Proposition 31), with L the smoothness of components that backtracking finds at the start.
    schedule : optional
        None: constant mu and kappa, as above. ``"const"``: the same without stages, mu being 1 where none is given. ``"adapt"``: mu_k falls
        from ``mu``, by default 2 (:func:`casimir_svrg_adapt`). ``"theory"``: Proposition 29's own constants for an ``accuracy``, subproblems solved
        until (26) holds; slow, meant for small problems and for checking the bounds. Or an object with ``lam``, ``alpha_0``,
        ``kappa_k(k)``, ``mu_k(k)`` and ``delta_k(k)``, such as ``reference.bounds.Corollary18``.
    accuracy : float > 0, optional
        For ``"theory"``: the distance to the optimum that is asked for.
    inner : {"svrg", "saga", "gradient"} or function
        What solves a subproblem: passes of SVRG, of SAGA, or full gradient steps. Or a function that makes one pass,
        ``inner(problem, at, order, step_size, memory) -> (x, calls, memory)``: from ``at.x`` (d,), where ``at.value`` and ``at.gradient`` are F_mu
        and its gradient, to x. ``problem`` has ``objective``, ``mu``, ``lam``, ``kappa``, ``center`` (z), and ``problem.gradient(at)`` is the
        subproblem's; ``order`` is a permutation of the examples; ``calls`` says how many oracles of one example it asked for; ``memory`` is what
        the last pass of this subproblem returned as such, None in its first.
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
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation a pass.
    callback : callable, optional
        Called as ``callback(row, w)`` after each outer iteration, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options (for subproblems solved until (26) holds,
        the same ``epochs`` too, as these cut the last one short).

    Returns
    -------
    Result
        The last w_k. In a row, ``epoch`` counts passes, ``objective`` is the unsmoothed one, ``dual`` the best met (the weights of
        the smoothed max are a dual point), ``exact`` the share of examples whose smoothed max was certified. The certificate is
        objective - dual.

    Raises
    ------
    ValueError
        Options out of range, an unsmoothed objective, weights that must be >= 0, no step size where no curvature can be found, no theory to go
        by, more gradients than SAGA can keep.

    Notes
    -----
    A pass of SVRG or SAGA makes 2n calls, a gradient step n, and with ``stop="gradient"`` each subproblem n more for the gradient that ends it; what
    the search for step sizes asks is counted, the evaluation of objective and dual after an iteration is not. An iteration whose step size was guessed and after which F_{mu,kappa} is larger, as that evaluation shows, is taken back and L doubled.
    Memory of SAGA: n d numbers, at most 2^27, in the plain loop; the compiled one keeps what the oracles answered, as ``svrg`` does, and L^2
    numbers an example.

    Source
    ------
    Pillutla et al., Algorithm 4, (22)-(29), Corollaries 17 and 19, Propositions 29 and 31, sections 5.1 and 7.3.1, *corrected*: L
    holds for each component, not only for their average.

    Examples
    --------
    >>> from reference import Entropy, MulticlassModel, StructuralHinge, casimir
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> hinge = StructuralHinge(model, data, smoothing=Entropy())
    >>> result = casimir(hinge, lam=0.1, tol=0.1, rng=0)  # to within a tenth of the unsmoothed optimum
    >>> result.success, result.certificate <= 0.1 * result.fun
    (True, True)
    """
    check_objective(objective)
    start = start_of(objective, w0)
    check_options(lam=lam, mu=mu, epochs=epochs, step_size=step_size, tol=tol, callback=callback)
    for name, value in (("kappa", kappa), ("accuracy", accuracy)):
        if value is not None:
            number(name, value, positive=True)
    _check(objective, mu, inner, stop=stop, warm_start=warm_start)
    refuse_constraint("casimir", objective)
    refuse_nonlinear("casimir", objective)
    asked = {"lam": lam, "mu": mu, "kappa": kappa, "schedule": schedule, "accuracy": accuracy, "inner": inner}
    asked |= {"stop": stop, "warm_start": warm_start, "step_size": step_size}
    if stop == "gradient" or schedule == "theory":
        asked["epochs"] = epochs

    def reached(point: Point) -> bool:
        return point.gap is not None and small_enough(point.gap, point.fun, tol)

    run = Run("casimir", objective, start, asked, epochs, rng, callback, checkpoint, resume, reached=reached)
    is_hinge, own = getattr(objective, "loss_augmented", False), schedule is None or isinstance(schedule, str)
    options: dict[str, Any] = {
        "lam": lam,
        "mu": mu,
        "kappa": kappa,
        "accuracy": accuracy,
        "step_size": step_size,
        "stop": stop,
    }
    at = run.resumed(None)
    with run:
        with run.timed():
            plan = at.plan if at and own else plan_of(objective, start, schedule, **options, rng=run.rng)
        if at is None:
            state = CasimirState(start, start, start, plan.schedule.alpha_0, 0)
            best = evaluate(objective, start, lam, plan.mu_k(1))
            at = Standing(plan if own else None, state, best, plan.mu_k(1), best.objective, 0, 0, plan.calls, None, 0)
        now = evaluate(objective, at.state.w, lam, at.mu) if run.history else at.best
        run.begin(at.state.w, now.objective, _known(now.objective - now.dual), calls=at.calls)
        steps = ComponentSteps(objective, at.mu, lam + plan.schedule.kappa_k(at.state.k + 1), plan.step_size)
        steps.L, steps.calls = at.L, at.trials
        for _ in run.epochs():
            _, state, best, best_mu, first, outer, taken_back, calls, *_ = at
            with run.timed():
                k = state.k + 1
                problem = Subproblem(objective, lam, plan.schedule.kappa_k(k), plan.mu_k(k), state.z)
                steps.aim(problem.mu, lam + problem.kappa)
                budget = plan.stop == "budget"
                limit, delta = (1, None) if budget else (epochs - run.done, plan.schedule.delta_k(k))
                found = solve(problem, _warm(state, problem, warm_start), inner, limit, delta, steps, run.rng)
            calls += found.calls
            now = evaluate(objective, found.w, lam, problem.mu)
            kept = not_above(problem.value(found.w, now.smoothed), found.first, found.w)
            if budget:
                kept |= not steps.guessed
                steps.judge(kept)
            if kept:  # a dual point of the hinge stays one; of another objective, only while mu stays
                known = best.dual if is_hinge or problem.mu == best_mu else -np.inf
                best, best_mu = now._replace(dual=max(known, now.dual)), problem.mu
                state = outer_step(state, found.w, plan.schedule)
            gap = best.objective - best.dual
            solved = now.slope <= STAGE * gap and gap > 1e-12 * abs(best.objective)
            if plan.staged and kept and solved and plan.schedule.mu_k(k) > LEAST_MU:
                with run.timed():
                    half = 0.5 * plan.schedule.mu_k(k)
                    following, trials = constant(objective, state.w, lam, half, kappa, run.rng)
                plan, calls = plan._replace(schedule=following), calls + trials
                state = CasimirState(state.w, state.w, state.w, following.alpha_0, 0)
            counts = outer + kept, taken_back + (not kept), calls
            at = Standing(plan if own else None, state, best, best_mu, first, *counts, steps.L, steps.calls)
            bounds = {"dual": _known(best.dual), "gap": _known(gap), "exact": best.exact}
            total, done = calls + steps.calls, run.done + found.passes
            run.record(at, state.w, best.objective, calls=total, epoch=done, **bounds)
    certificate = run.gap if lam > 0 else "none: lam = 0 gives no dual point"
    return run.result(_outcome(run, at, tol), iterate="last", certificate=certificate, nit=at.outer if at else 0)


def outer_step(state: CasimirState, w: Array, schedule: Any) -> CasimirState:
    """The state after w_k: alpha_k by (27), beta_k by (29), z_k = w_k + beta_k (w_k - w_{k-1}) by (28)."""
    k = state.k + 1
    lam, kappa, kappa_next = schedule.lam, schedule.kappa_k(k), schedule.kappa_k(k + 1)
    alpha = next_alpha(state.alpha, lam, kappa, kappa_next)
    beta = momentum(state.alpha, alpha, lam, kappa, kappa_next)
    return CasimirState(w, w + beta * (w - state.w), state.z, alpha, k)


def _outcome(run: Run, at: Standing | None, tol: float | None) -> tuple[bool, str]:
    """Success, and the sentence about it."""
    if run.solved:
        return True, f"gap {run.gap} after {run.done} epochs"
    if at is None or run.ending:
        return run.ending or (False, "nothing was done")
    done = f"{run.done} epochs done"
    if at.taken_back:
        done += f", {at.taken_back} iterations taken back for too long steps"
    if not not_above(run.fun, at.first, at.state.w):
        return False, f"{done}: the objective grew from {at.first} to {run.fun}; take shorter steps"
    if tol is not None:
        return False, f"{done}: the gap is {run.gap}, more than {tol} of the objective"
    return bool(np.isfinite(run.fun)), done


def _warm(state: CasimirState, problem: Subproblem, warm_start: str) -> Array:
    """Where the subproblem starts (section 7.3.1)."""
    if warm_start == "center":
        return state.z
    if warm_start == "last":
        return state.w
    return state.w + problem.kappa / (problem.kappa + problem.lam) * (state.z - state.center)


def _known(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _check(objective: Any, mu: float | None, inner: Any, **chosen: str) -> None:
    if not callable(inner) and inner not in tuple(INNER):
        raise ValueError(f"inner: expected one of {', '.join(INNER)}, or a function, got {inner!r}")
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ValueError(f"{name}: expected one of {', '.join(CHOICES[name])}, got {value!r}")
    if isinstance(getattr(objective, "smoothing", None), Max):
        raise ValueError(
            "objective: casimir needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
        )
    if mu is not None:
        positive_mu(mu)
