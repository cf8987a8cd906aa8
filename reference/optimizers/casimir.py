"""Casimir: accelerated proximal-point steps on a smoothed objective, each solved by SVRG or by gradient descent.

min_w F(w) + lam/2 ||w||^2, F = mean_i max_y (...), by way of the smoothed, re-centred problems

    F_{mu,kappa}(w; z) = F_mu(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2,   w_k ~ argmin F_{mu_k,kappa_k}(.; z_{k-1}),
    z_k = w_k + beta_k (w_k - w_{k-1})

Source: Pillutla et al., Algorithm 4 and section 5.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, number, squared_norm
from reference.bounds import Corollary17, Corollary19, momentum, next_alpha
from reference.optimizers.arguments import check_objective, check_options, generator, start_of
from reference.optimizers.evaluation import evaluate
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result, Row, not_above, small_enough, wants_to_stop
from reference.optimizers.smoothness import ComponentSteps
from reference.optimizers.svrg import Snapshot, epoch, full_gradient, snapshot
from reference.smoothing import Max, positive_mu

__all__ = ["CasimirState", "Subproblem", "casimir", "outer_step", "solve"]


LEAST_MU = 1e-10  # no stage has a smaller one
STAGE = 0.3  # a stage of constant smoothing ends when its own problem is solved to this share of the gap
CHOICES = {
    "inner": ("svrg", "gradient"),
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


class Subproblem(NamedTuple):
    """F_{mu,kappa}(.; z): the objective, lam, kappa, mu and the center z (d,)."""

    objective: Any
    lam: float
    kappa: float
    mu: float | None
    center: Array

    def value(self, w: Array, smoothed: float) -> float:
        """F_{mu,kappa}(w; z), given F_mu(w)."""
        return smoothed + 0.5 * self.lam * squared_norm(w) + 0.5 * self.kappa * squared_norm(w - self.center)

    def gradient(self, at: Snapshot) -> Array:
        """Its gradient (d,), given that of F_mu."""
        return at.gradient + self.lam * at.x + self.kappa * (at.x - self.center)


def casimir(
    objective: Any,
    w0: Array | None = None,
    *,
    lam: float,
    mu: float | None = None,
    kappa: float | None = None,
    schedule: Any = None,
    accuracy: float | None = None,
    inner: str = "svrg",
    stop: str = "budget",
    warm_start: str = "center",
    step_size: float | None = None,
    epochs: int = 50,
    tol: float | None = None,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
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
        None: constant mu and kappa, as above. ``"theory"``: Proposition 29's own constants for an ``accuracy``, subproblems solved
        until (26) holds; slow, meant for small problems and for checking the bounds. Or an object with ``lam``, ``alpha_0``,
        ``kappa_k(k)``, ``mu_k(k)`` and ``delta_k(k)``, such as ``reference.bounds.Corollary18``.
    accuracy : float > 0, optional
        For ``"theory"``: the distance to the optimum that is asked for.
    inner : {"svrg", "gradient"}
        What solves a subproblem: passes of SVRG, or full gradient steps.
    stop : {"budget", "gradient"}
        When a subproblem is solved: after one pass of SVRG (n steps) or one gradient step; or when
        ||grad F_{mu,kappa}(w; z)||^2 <= (lam + kappa) delta kappa ||w - z||^2, which implies (26).
    warm_start : {"center", "last", "extrapolated"}
        Where a subproblem starts: z_{k-1}; w_{k-1}; or w_{k-1} + kappa/(kappa + lam) (z_{k-1} - z_{k-2}).
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam + kappa), L found as ``svrg`` does.
    epochs : int >= 0
        Passes of SVRG, or gradient steps, in all; those taken back included.
    tol : float >= 0, optional
        Stop when the gap is at most ``tol`` times the objective; needs lam > 0.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation a pass of SVRG.
    callback : callable, optional
        Called as ``callback(row, w)`` after each outer iteration, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.

    Returns
    -------
    Result
        The last w_k. In a row, ``epoch`` counts passes, ``objective`` is the unsmoothed one, ``dual`` the best met (the weights of
        the smoothed max are a dual point), ``exact`` the share of examples whose smoothed max was certified. The certificate is
        objective - dual.

    Raises
    ------
    ValueError
        Options out of range, an unsmoothed objective, weights that must be >= 0, no step size where no curvature can be found, no theory to go by.

    Notes
    -----
    A pass of SVRG makes 2n calls, a gradient step n, and with ``stop="gradient"`` each subproblem n more for the gradient that ends it; what
    the search for step sizes asks is counted, the evaluation of objective and dual after an iteration is not. An iteration whose step size was guessed and after which F_{mu,kappa} is larger, as that evaluation shows, is taken back and L doubled.

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
    _check(objective, mu, inner=inner, stop=stop, warm_start=warm_start)
    refuse_constraint("casimir", objective)
    rng = generator(rng)
    is_hinge = getattr(objective, "loss_augmented", False)
    staged = schedule is None and mu is None and lam > 0 and is_hinge
    has_mu = getattr(objective, "mu", None) is not None or mu is not None or schedule is not None
    started, calls = time.perf_counter(), 0
    if schedule == "theory":
        _refuse("schedule='theory' has its own", mu=mu, kappa=kappa, step_size=step_size)
        schedule, step_size = _theory(objective, lam, accuracy)
        stop = "gradient"
    elif schedule is None:
        _refuse("only schedule='theory' takes one", accuracy=accuracy)
        schedule, calls = _constant(objective, start, lam, mu, kappa, rng)
    else:
        _refuse("the schedule has its own", mu=mu, kappa=kappa, accuracy=accuracy)
    if not all(hasattr(schedule, name) for name in ("lam", "alpha_0", "kappa_k", "mu_k", "delta_k")):
        raise ValueError(
            f"schedule: expected 'theory' or an object with lam, alpha_0, kappa_k, mu_k, delta_k, got {schedule!r}"
        )
    if schedule.lam != lam:
        raise ValueError(f"schedule: made for lam = {schedule.lam}, got lam = {lam}")

    state, outer = CasimirState(start, start, start, schedule.alpha_0, 0), 0
    history: list[Row] = []
    seconds, done, taken_back, message = time.perf_counter() - started, 0, 0, ""
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is reported below
        steps = ComponentSteps(objective, schedule.mu_k(1) if has_mu else None, lam + schedule.kappa_k(1), step_size)
        best, best_mu = evaluate(objective, start, lam, steps.mu), steps.mu
        first = best.objective
        while done < epochs and not message:
            started, k = time.perf_counter(), state.k + 1
            problem = Subproblem(objective, lam, schedule.kappa_k(k), schedule.mu_k(k) if has_mu else None, state.z)
            steps.aim(problem.mu, lam + problem.kappa)
            limit, delta = (1, None) if stop == "budget" else (epochs - done, schedule.delta_k(k))
            found = solve(problem, _warm(state, problem, warm_start), inner, limit, delta, steps, rng)
            seconds += time.perf_counter() - started
            done, calls = done + found.passes, calls + found.calls

            now = evaluate(objective, found.w, lam, problem.mu)
            kept = not_above(problem.value(found.w, now.smoothed), found.first, found.w)
            if stop == "budget":
                kept |= not steps.guessed
                steps.judge(kept)
            if kept:  # a dual point of the hinge stays one; of another objective, only while mu stays
                known = best.dual if is_hinge or problem.mu == best_mu else -np.inf
                best, best_mu = now._replace(dual=max(known, now.dual)), problem.mu
                state = outer_step(state, found.w, schedule)
            outer, taken_back = outer + kept, taken_back + (not kept)
            gap = best.objective - best.dual
            solved = now.slope <= STAGE * gap and gap > 1e-12 * abs(best.objective)
            if staged and kept and solved and schedule.mu_k(k) > LEAST_MU:
                started = time.perf_counter()
                schedule, asked = _constant(objective, state.w, lam, 0.5 * schedule.mu_k(k), kappa, rng)
                state = CasimirState(state.w, state.w, state.w, schedule.alpha_0, 0)
                seconds, calls = seconds + time.perf_counter() - started, calls + asked
            history.append(
                Row(done, calls + steps.calls, seconds, best.objective, *(_known(best.dual), _known(gap)), best.exact)
            )
            stopped = wants_to_stop(callback, history[-1], state.w)
            if not np.isfinite(best.objective):
                message = f"diverged in epoch {done}: objective {best.objective}; take shorter steps"
            elif small_enough(gap, best.objective, tol):
                message = f"gap {gap} after {done} epochs"
            elif stopped:
                message = f"stopped by the callback after {done} of {epochs} epochs"
    gap = best.objective - best.dual
    success, done_all = bool(np.isfinite(best.objective)), f"{done} epochs done"
    if taken_back:
        done_all += f", {taken_back} iterations taken back for too long steps"
    if not message and not not_above(best.objective, first, start):
        success, message = False, f"{done_all}: the objective grew from {first} to {best.objective}; take shorter steps"
    elif not message and tol is not None and not small_enough(gap, best.objective, tol):
        success, message = False, f"{done_all}: the gap is {gap}, more than {tol} of the objective"
    return Result(
        x=state.w,
        fun=best.objective,
        nit=outer,
        success=success,
        message=message or done_all,
        iterate="last",
        oracle_calls=calls + steps.calls,
        certificate=gap if lam > 0 else "none: lam = 0 gives no dual point",
        history=tuple(history),
    )


def outer_step(state: CasimirState, w: Array, schedule: Any) -> CasimirState:
    """The state after w_k: alpha_k by (27), beta_k by (29), z_k = w_k + beta_k (w_k - w_{k-1}) by (28)."""
    k = state.k + 1
    lam, kappa, kappa_next = schedule.lam, schedule.kappa_k(k), schedule.kappa_k(k + 1)
    alpha = next_alpha(state.alpha, lam, kappa, kappa_next)
    beta = momentum(state.alpha, alpha, lam, kappa, kappa_next)
    return CasimirState(w, w + beta * (w - state.w), state.z, alpha, k)


class Solved(NamedTuple):
    """A subproblem's point w (d,), its value where the solver started, passes made, oracles asked for."""

    w: Array
    first: float
    passes: int
    calls: int


def solve(
    problem: Subproblem,
    start: Array,
    inner: str,
    limit: int,
    delta: float | None,
    steps: ComponentSteps,
    rng: np.random.Generator,
) -> Solved:
    """Minimise a subproblem: one pass if delta is None, else until its gradient is small enough for (26), or ``limit`` passes.

    A pass with a guessed step size that ends higher is taken back (with delta None that is left to the caller).
    """
    objective, n = problem.objective, problem.objective.n
    look = snapshot if inner == "svrg" else full_gradient
    now = look(objective, start, problem.mu)
    first = value = problem.value(now.x, now.value)
    passes, calls = 0, n
    while True:
        order = rng.permutation(n)
        gamma = steps.at(now.x, order)
        if inner == "svrg":
            x = _svrg_pass(problem, now, order, gamma)
            calls += n
        else:
            x = now.x - gamma * problem.gradient(now)
        passes += 1
        if delta is None:
            return Solved(x, first, passes, calls)
        after = look(objective, x, problem.mu)
        calls += n
        after_value = problem.value(x, after.value)
        kept = not steps.guessed or not_above(after_value, value, x)
        steps.judge(kept)
        if kept:
            now, value = after, after_value
        small = delta * problem.kappa * (problem.lam + problem.kappa) * squared_norm(now.x - problem.center)
        if (kept and squared_norm(problem.gradient(now)) <= small) or passes == limit:
            return Solved(now.x, first, passes, calls)


def _svrg_pass(problem: Subproblem, now: Snapshot, order: np.ndarray, gamma: float) -> Array:
    run = getattr(problem.objective, "fused_epoch", lambda name: None)("svrg") or epoch
    lam, kappa, center = problem.lam, problem.kappa, problem.center
    return run(
        now,
        problem.objective,
        order,
        step_size=gamma,
        lam=lam,
        kappa=kappa,
        center=center,
        mu=problem.mu,
        average="last",
    )


def _warm(state: CasimirState, problem: Subproblem, warm_start: str) -> Array:
    """Where the subproblem starts (section 7.3.1)."""
    if warm_start == "center":
        return state.z
    if warm_start == "last":
        return state.w
    return state.w + problem.kappa / (problem.kappa + problem.lam) * (state.z - state.center)


def _constant(
    objective: Any, start: Array, lam: float, mu: float | None, kappa: float | None, rng: np.random.Generator
) -> tuple[Corollary17 | Corollary19, int]:
    """Constant mu and kappa, kappa balancing outer and inner iterations for the smoothness found at the start; the oracle calls that took."""
    calls = 0
    if mu is None and getattr(objective, "mu", None) is not None:
        mu = float(objective.mu) or 1.0
    if kappa is None:
        n = objective.n
        with np.errstate(over="ignore", invalid="ignore"):
            steps = ComponentSteps(objective, mu, lam)
            L = 1.0 / steps.at(start, rng.permutation(n)) - lam
        balanced, calls = L / n if lam > 0 else L / (n + 1), steps.calls
        kappa = (balanced - lam if balanced > 4 * lam else lam) if lam > 0 else balanced
    smoothing = 0.0 if mu is None else float(mu)
    return (Corollary17(lam, kappa, smoothing) if lam > 0 else Corollary19(kappa, smoothing)), calls


def _theory(objective: Any, lam: float, accuracy: float | None) -> tuple[Corollary17 | Corollary19, float]:
    """The constants of Proposition 29 (31 where lam = 0) and the step size 1 / (A/mu + lam + kappa)."""
    if accuracy is None:
        raise ValueError("accuracy: schedule='theory' needs a finite number > 0, got None")
    A = objective.smoothness(1.0) if getattr(objective, "loss_augmented", False) else None
    if A is None:
        raise ValueError("schedule: 'theory' needs a hinge with a known smoothness, such as one with Entropy()")
    D = objective.width()
    if D == 0:
        raise ValueError("schedule: 'theory' has nothing to smooth, as every example has a single output")
    if lam > 0:
        choice: Corollary17 | Corollary19 = Corollary17.for_svrg(accuracy, lam=lam, A=A, D=D, n=objective.n)
    else:
        choice = Corollary19.for_svrg(accuracy, A=A, D=D, n=objective.n)
    return choice, 1.0 / (A / choice.mu + lam + choice.kappa)


def _known(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _refuse(why: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {why}, got {value}")


def _check(objective: Any, mu: float | None, **chosen: str) -> None:
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ValueError(f"{name}: expected one of {', '.join(CHOICES[name])}, got {value!r}")
    if isinstance(getattr(objective, "smoothing", None), Max):
        raise ValueError(
            "objective: casimir needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
        )
    if mu is not None:
        positive_mu(mu)
