"""Prox-linear: the scores linearised, a convex problem solved, again and again. For scores that are not linear in the weights.

min_w F(w) + lam/2 ||w||^2 with F(w) = (1/n) sum_i h(g_i(w)), h convex and g smooth. About w_{k-1},

    F_eta(w; w_{k-1}) = (1/n) sum_i h(g_i(w_{k-1}) + J_i(w_{k-1}) (w - w_{k-1})) + lam/2 ||w||^2 + 1/(2 eta) ||w - w_{k-1}||^2

is minimised by a convex solver. With c = w_{k-1} / (1 + eta lam) and w = c + v its quadratics are (lam + 1/eta)/2 ||v||^2 and a constant, so
that any optimiser of ours solves it. Source: Pillutla et al., Algorithm 5 and section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, floats, host, integer, number, squared_norm
from reference.linearized import linearized
from reference.optimizers.arguments import check_objective, check_options, initial_of, start_of
from reference.optimizers.casimir import casimir
from reference.optimizers.evaluation import evaluate
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result, Row
from reference.optimizers.runs import Point, Run
from reference.smoothing import Max, positive_mu

__all__ = ["ProxLinearProblem", "ProxLinearState", "casimir_svrg", "prox_linear"]

BUDGET, MOST = 5, 1000  # passes for a subproblem: the paper's budget, and the bound where a tolerance ends it
LEAST_MU = 1e-10  # a smoothing that falls by itself stops here
CHOICES = {"schedule": ("const", "adapt"), "accept": ("decrease", "always")}


class ProxLinearProblem(NamedTuple):
    """What an inner solver is given: to minimise objective(v) + lam/2 ||v||^2, ``objective`` being convex and as any optimiser takes it, from ``start`` (d,), in at most so many ``passes``.

    ``lam`` is that of the subproblem, lam + 1/eta. ``mu``, ``L``: smoothing and smoothness of components, where they are prescribed. ``solved``:
    a callback that ends a run whose gap is small enough. ``rng``: the run's random numbers.
    """

    objective: Any
    start: Array
    lam: float
    mu: float | None
    L: float | None
    passes: int
    solved: Callback
    rng: np.random.Generator


class ProxLinearState(NamedTuple):
    """w (d,); fun, the objective there; eta; k, the steps done; halved, how often eta was; refused, the steps that were not accepted; missed, the
    subproblems that were not solved to their tolerance; calls, the oracles asked for; first, the objective at the start; bound, on the norm of the prox-gradient where the last step began.
    """

    w: Array
    fun: float
    eta: float
    k: int
    halved: int
    refused: int
    missed: int
    calls: int
    first: float
    bound: float


def prox_linear(
    objective: Any,
    w0: Array | None = None,
    *,
    lam: float,
    eta: float = 1.0,
    mu: float | None = None,
    schedule: str = "adapt",
    L: float | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    inner: Callable[[ProxLinearProblem], Result] | None = None,
    accept: str = "decrease",
    fixed_eta: bool = False,
    iterations: int = 50,
    tol: float | None = None,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F a loss over scores that are smooth in w, by the prox-linear algorithm.

    w_k ~ argmin_w F_eta(w; w_{k-1}),  F_eta the objective with its scores linearised about w_{k-1}, plus 1/(2 eta) ||w - w_{k-1}||^2

    Parameters
    ----------
    objective : StructuralHinge, LogLoss, or Weighted of one
        Over a model with ``scores``, ``pushforward`` and ``pullback``, such as ``TwoLayerModel`` or ``DifferentiableModel``. A hinge with a
        smoothing, as ``casimir`` needs it; its unsmoothed self is what is minimised.
    w0 : array (d,), optional
        Start; default ``model.initial(data, rng)`` where the model has it, else zeros (where a network may have no slope).
    lam : float >= 0
        Weight of the squared norm.
    eta : float > 0
        Step length. It is halved whenever a subproblem's solution w breaks F(w) + lam/2 ||w||^2 <= F_eta(w; w_{k-1}), which holds for
        eta <= 1/L, L the smoothness of scores: that step is taken back.
    mu : float > 0, optional
        Smoothing of a hinge's subproblems; default 1 for the default solver and a budget. Otherwise none is prescribed: ``casimir`` then lets it
        fall by itself, until the subproblem is solved.
    schedule : {"adapt", "const"}
        In the k-th step, mu_k = mu/k and L_k = k L; or mu_k = mu and L_k = L.
    L : float > 0, optional
        Smoothness of the components of the first subproblem, for steps of 1/(L_k + lam + 1/eta + kappa); default: found, anew for each.
    budget : int >= 1, optional
        Passes of the inner solver for each subproblem. Default 5; with a tolerance, at most 1000.
    tolerance : float > 0, optional
        eps_0: the k-th subproblem is solved until its duality gap is at most eps_0 / k. ``success`` is False where the budget did not suffice; with the
        default solver a constant ``mu`` keeps the gap above what smoothing costs.
    inner : function, optional
        What solves a subproblem: ``inner(problem) -> Result``, of a :class:`ProxLinearProblem`. Default :func:`casimir_svrg`. Any optimiser will
        do: ``lambda p: bcfw(p.objective, lam=p.lam, epochs=p.passes, rng=p.rng, callback=p.solved)`` for a hinge without smoothing.
    accept : {"decrease", "always"}
        Whether w_k is taken only where the objective is not larger there (else w_k = w_{k-1}), or always.
    fixed_eta : bool
        Leave eta as it is, whatever the inequality says: Algorithm 5 to the letter.
    iterations : int >= 0
        Subproblems, those of steps that were taken back included.
    tol : float >= 0, optional
        Stop when the norm of the prox-gradient is at most this, where the last step began; needs subproblems that are solved well.
    rng : int, numpy.random.Generator or None
        For the start and the orders of examples, drawn with NumPy on the host.
    callback : callable, optional
        Called as ``callback(row, w)`` after each subproblem, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        ``nit`` is the number of steps, halvings not counted. In a row, ``epoch`` counts subproblems, and ``prox_gradient`` is
        ||w_{k-1} - w||/eta with w what the inner solver found; the norm of the prox-gradient at w_{k-1} is within
        sqrt(2 gap / (lam + 1/eta))/eta of it. There is no certificate: the objective is not convex.

    Raises
    ------
    ValueError, TypeError
        Options out of range; what is no objective of ours; a hinge without smoothing where the inner solver needs one; weights that must be >= 0.

    Notes
    -----
    ``oracle_calls`` are the inner solver's and n for each evaluation that decides: of the objective and of F_eta at the subproblem's solution, with a
    tolerance or tol also those of its gap. An
    oracle of a subproblem costs a score and a Jacobian-vector product, and a vector-Jacobian product for the gradient.

    Source
    ------
    Pillutla et al., Algorithm 5, Theorem 35, Remark 36, Proposition 37, sections 6.1 and 7.3.2; *corrected* 6.1.1: gaps are measured, as
    (lam + 1/eta) ||v||^2 <= eps_k bounds none by eps_k. Halving eta is a step beyond the paper.

    Examples
    --------
    >>> from reference import Entropy, MulticlassModel, StructuralHinge, prox_linear
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])  # linear scores: prox-linear is then the proximal point algorithm
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> hinge = StructuralHinge(model, data, smoothing=Entropy())
    >>> result = prox_linear(hinge, lam=0.1, eta=10.0, tolerance=0.1, iterations=3, rng=0)
    >>> result.nit, result.history[-1].prox_gradient < 0.05
    (3, True)
    """
    check_objective(objective)
    check_options(lam=lam, mu=mu, iterations=iterations, callback=callback)
    number("eta", eta, positive=True)
    for name, value in (("L", L), ("tolerance", tolerance)):
        if value is not None:
            number(name, value, positive=True)
    if tol is not None:
        number("tol", tol)
    if budget is not None:
        integer("budget", budget, 1)
    for name, chosen in (("schedule", schedule), ("accept", accept)):
        if chosen not in CHOICES[name]:
            raise ValueError(f"{name}: expected one of {', '.join(CHOICES[name])}, got {chosen!r}")
    _check(objective, mu, inner)
    refuse_constraint("prox_linear", objective)
    start = start_of(objective, initial_of(objective, w0, rng))
    asked: dict[str, Any] = {
        "lam": lam,
        "eta": eta,
        "mu": mu,
        "schedule": schedule,
        "L": L,
        "budget": budget,
        "tolerance": tolerance,
    }
    asked |= {"inner": inner, "accept": accept, "fixed_eta": fixed_eta}
    solver = inner or casimir_svrg
    if budget is None:
        budget = BUDGET if tolerance is None else MOST
    if mu is None and tolerance is None and inner is None:
        mu = 1.0
    at: ProxLinearState | None = None

    def reached(point: Point) -> bool:
        return tol is not None and at is not None and at.bound <= tol

    options = [objective, start, asked, iterations, rng, callback, checkpoint, resume]
    run = Run("prox_linear", *options, reached=reached, unit="iterations")
    at = run.resumed(None)
    with run:
        if at is None:
            with run.timed():
                fun = regularised(objective, start, lam)
            at = ProxLinearState(start, fun, eta, 0, 0, 0, 0, objective.n, fun, np.inf)
            run.begin(at.w, at.fun, calls=at.calls)
        else:
            run.begin(at.w, regularised(objective, at.w, lam))
        for j in run.epochs():
            w, fun, eta, k, halved, refused, missed, calls, first, _ = at
            k, curvature = k + 1, lam + 1.0 / eta
            center = w / (1.0 + eta * lam)
            with run.timed():
                convex = linearized(objective, w, center)
            mu_k, L_k = _scheduled(objective, schedule, mu, L, k)
            eps = -np.inf if tolerance is None else tolerance / k
            solved = partial(_small, eps)
            problem = ProxLinearProblem(convex, w - center, curvature, mu_k, L_k, budget, solved, run.rng)
            found = solver(problem)
            if not isinstance(found, Result):
                raise TypeError(f"inner: expected a function that returns a Result, got {type(found).__name__}")
            if found.interrupted:
                raise KeyboardInterrupt
            (v,) = floats(v=found.x)
            run.seconds += found.history[-1].seconds if found.history else 0.0
            with run.timed():
                new, model_value = center + v, np.inf
                after = regularised(objective, new, lam)
                if np.isfinite(after):
                    model_value = convex.value_and_gradient(v, None, _plain(objective))[0]
                    model_value += 0.5 * curvature * squared_norm(v) + 0.5 * lam * squared_norm(w) / (1.0 + eta * lam)
            calls += found.oracle_calls + 2 * objective.n
            rho, gap = squared_norm(w - new) ** 0.5 / eta, np.inf
            if tol is not None or tolerance is not None:
                with run.timed():
                    gap, more = _gap(found, convex, v, curvature, mu_k)
                calls += more
            del problem, convex  # Jacobians that are written out may be large
            missed += tolerance is not None and gap > (1 + 1e-6) * eps
            holds = np.isfinite(after) and _not_above(after, model_value, fun, new)
            if not (holds or fixed_eta):
                at = ProxLinearState(w, fun, eta / 2, k - 1, halved + 1, refused, missed, calls, first, np.inf)
            else:
                taken = np.isfinite(after) and (accept == "always" or after <= fun)
                bound = rho + (2.0 * max(gap, 0.0) / curvature) ** 0.5 / eta
                kept = (new, after) if taken else (w, fun)
                at = ProxLinearState(*kept, eta, k, halved, refused + (not taken), missed, calls, first, bound)
            run.record(at, at.w, at.fun, calls=calls, epoch=j, prox_gradient=rho if np.isfinite(rho) else None)
    certificate = "none: the objective is not convex"
    return run.result(_outcome(run, at, tol), iterate="last", certificate=certificate, nit=at.k if at else 0)


def casimir_svrg(problem: ProxLinearProblem, **options: Any) -> Result:
    """Solve a subproblem of :func:`prox_linear` by Casimir-SVRG with constant smoothing; ``options`` are others of ``casimir``, such as ``warm_start``.

    Where L is given, kappa is that of Proposition 29 for it, and steps are 1 / (L + lam + kappa). Without mu, smoothing falls in stages.

    Source
    ------
    Pillutla et al., sections 6.3 and 7.3.2.
    """
    if problem.L is not None:
        balanced = problem.L / problem.objective.n
        kappa = balanced - problem.lam if balanced > 4 * problem.lam else problem.lam
        options = {"kappa": kappa, "step_size": 1.0 / (problem.L + problem.lam + kappa), **options}
    named = {"mu": problem.mu, "schedule": None if problem.mu is None else "const", "epochs": problem.passes}
    given = {"lam": problem.lam, "rng": problem.rng, "callback": problem.solved, **named, **options}
    return casimir(problem.objective, problem.start, **given)


def regularised(objective: Any, w: Array, lam: float) -> float:
    """F(w) + lam/2 ||w||^2, a hinge unsmoothed; inf where w is not finite."""
    if not np.all(np.isfinite(host(w))):
        return np.inf
    return objective.value_and_gradient(w, None, _plain(objective))[0] + 0.5 * lam * squared_norm(w)


def _plain(objective: Any) -> float | None:
    """The mu that smooths nothing."""
    return 0.0 if getattr(objective, "loss_augmented", False) else None


def _scheduled(
    objective: Any, schedule: str, mu: float | None, L: float | None, k: int
) -> tuple[float | None, float | None]:
    """mu_k and L_k (section 7.3.2); what has its own mu keeps it."""
    if not getattr(objective, "loss_augmented", False):
        return None, L
    if schedule == "const":
        return mu, L
    return None if mu is None else max(mu / k, min(mu, LEAST_MU)), None if L is None else k * L


def _gap(found: Result, convex: Any, v: Array, lam: float, mu: float | None) -> tuple[float, int]:
    """A bound on how far v is from the subproblem's optimum, and the oracle calls that it took."""
    if not np.all(np.isfinite(host(v))):
        return np.inf, 0
    known = found.certificate if found.iterate == "last" and not isinstance(found.certificate, str) else np.inf
    smoothed = mu if mu is not None else _plain(convex)
    now = evaluate(convex, v, lam, smoothed)
    gap = min(now.objective - now.dual, known if _unsmoothed(found, now.objective) else np.inf)
    return gap, convex.n * (2 if smoothed else 1)


def _unsmoothed(found: Result, value: float) -> bool:
    """Whether the inner solver minimised the hinge itself, so that its certificate is of that."""
    return abs(found.fun - value) <= 1e-6 * abs(value)


def _small(eps: float, row: Row, v: Array) -> bool:
    return row.gap is not None and row.gap <= eps


def _not_above(value: float, other: float, scale: float, x: Array) -> bool:
    """value <= other, up to the rounding of sums of this scale."""
    eps = float(array_namespace(x).finfo(x.dtype).eps)
    return bool(value <= other + 1e3 * eps * max(abs(other), abs(scale)))


def _check(objective: Any, mu: float | None, inner: Any) -> None:
    if inner is not None and not callable(inner):
        raise TypeError(f"inner: expected a function of a problem that returns a Result, got {inner!r}")
    if inner is None and isinstance(getattr(objective, "smoothing", None), Max):
        raise ValueError(
            "objective: casimir, which solves the subproblems, needs a smoothing, such as StructuralHinge(model, data, smoothing=Entropy())"
        )
    if mu is not None:
        if not getattr(objective, "loss_augmented", False):
            raise ValueError(f"mu: {type(objective).__name__} has no smoothing to scale; expected None, got {mu!r}")
        positive_mu(mu)


def _outcome(run: Run, at: ProxLinearState | None, tol: float | None) -> tuple[bool, str]:
    """Success, and the sentence about it."""
    if at is None or run.ending:
        return run.ending or (False, "nothing was done")
    done = f"{at.k} steps"
    if at.refused:
        done += f", {at.refused} of them refused as the objective would have grown"
    if at.halved:
        done += f", eta halved {at.halved} times to {at.eta:.3g}"
    if at.missed:
        done += f", {at.missed} subproblems left with a gap of more than tolerance / k"
    if run.solved:
        return True, f"{done}: the norm of the prox-gradient is at most {at.bound:.3g}"
    if at.k == at.refused and (at.refused or at.halved):
        return False, f"{done}: no step was taken"
    if not at.fun <= at.first:
        return False, f"{done}: the objective grew from {at.first} to {at.fun}"
    if at.missed:
        return False, done
    if tol is not None:
        return False, f"{done}: the norm of the prox-gradient is at most {at.bound:.3g}, more than {tol}"
    return True, done
