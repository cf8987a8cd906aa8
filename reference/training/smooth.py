"""Methods for smooth objectives: SVRG, with step sizes found by backtracking and rejected passes, and L-BFGS."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host, squared_norm
from reference.declared import Ge, Gt, Lam
from reference.optimizers.base import Objective, traits
from reference.optimizers.lbfgs import LBFGS, LBFGSState
from reference.optimizers.subproblem import Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.result import RunState
from reference.training.run import Ending, Run
from reference.training.smoothness import Backtracking, Guess
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, check_provable, minimize, runs

__all__ = ["lbfgs", "svrg"]


@dataclass(frozen=True)
class Backtracked(Solver):
    """A run of :class:`SVRG`: a step size is found for each pass; a pass that increased the objective is rejected."""

    box: SVRG
    steps: Backtracking

    name: ClassVar[str] = "svrg"
    terms: ClassVar[Terms] = Terms(smoothed=True)

    def init(self, objective: Objective, w0: Array, rng: np.random.Generator) -> RunState:
        own_mu, mu = traits(objective).mu, self.box.mu
        if own_mu is not None and (own_mu if mu is None else mu) == 0:
            raise ValueError(
                "mu: svrg needs a smooth objective: give mu > 0, and the hinge a smoothing, such as smoothing=Entropy()"
            )
        return RunState(self.box.init(objective, w0), Guess())

    def epoch(self, objective: Objective, state: RunState, rng: np.random.Generator) -> RunState:
        box, before, order = self.box, state.box, rng.permutation(objective.n)
        problem = Subproblem(objective, box.lam, 0.0, box.mu, None)
        gamma, guess = self.steps.propose(objective, state.search, before.x, order, box.mu, box.lam)
        w = box.sweep(problem, before, before.x, order, gamma)
        started = time.perf_counter()
        after = box.snapshot(objective, w, box.mu)
        later = time.perf_counter() - started
        values = problem.value(w, after.value), problem.value(before.x, before.value)
        accepted, guess = self.steps.judge(guess, *values, w)
        counts = state.counts.plus(epochs=1, rejected=not accepted)
        return RunState(after if accepted else before, guess, counts, later=later)

    def evaluate(self, objective: Objective, state: RunState) -> Report:
        """The objective, and ||g + lam x||^2 / (2 lam), g = grad F(x): the objective minus the dual at g."""
        (x, value, gradient, *_), lam = state.box, self.box.lam
        fun, calls = value + 0.5 * lam * squared_norm(x), 2 * state.counts.epochs * objective.n + state.search.calls
        gap = squared_norm(host(gradient).astype(np.float64) + lam * host(x)) / (2 * lam) if lam > 0 else None
        return Report(x, fun, None if gap is None else fun - gap, gap, calls=calls, later=state.later)

    def saved(self, state: RunState) -> RunState:
        return state._replace(box=state.box.x)

    def restored(self, objective: Objective, saved: RunState) -> RunState:
        return saved._replace(box=self.box.snapshot(objective, saved.box, self.box.mu))

    def ending(self, run: Run, state: RunState) -> Ending:
        done = f"{run.done} epochs done"
        if state.counts.rejected:
            done += f", {state.counts.rejected} of them taken back for too long steps"
        if not run.fun <= run.first:
            outcome = False, f"{done}: the objective grew from {run.first} to {run.fun}; take shorter steps"
        elif run.tol is None:
            outcome = True, done
        else:
            more = "" if run.solved else f", more than {run.tol} of the objective"
            outcome = run.solved, f"{done}: the optimum is within {run.gap}{more}"
        iterate = "last" if self.box.average == "last" else "average of the last pass"
        certificate = run.gap if self.box.lam > 0 else "none: lam = 0 gives no strong convexity"
        return Ending(run.ending or outcome, iterate, certificate)


@runs(epochs=50, tol=None, rng=None)
def svrg(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Annotated[float, Ge(0)] | None = None,
    step_size: Annotated[float, Gt(0)] | None = None,
    average: Literal["last", "uniform"] = "last",
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F smooth, by variance-reduced stochastic gradient steps.

    w <- [w - gamma (g_i(w) - g_i(s) + grad F(s))] / (1 + gamma lam), s the snapshot at the start of the pass

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        Smooth: the log loss, or a hinge with a smoothing and mu > 0.
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam), L the smoothness of the components. In each pass L is found by
        backtracking on a few random components, starting from half its last value. A pass that increased the objective
        is rejected, though it counts, and L doubled. L never exceeds ``objective.smoothness(mu)``, if the objective has
        that bound.
    average : {"last", "uniform"}
        Start of the next pass, and iterate returned: the last iterate of a pass, or the average of its iterates.

    Returns
    -------
    Result
        With lam > 0 and convex F the certificate, and the ``gap`` of each row, is ||grad F(w) + lam w||^2 / (2 lam):
        the duality gap of the smoothed problem at the dual point grad F(w). ``success`` is False if ``tol`` was not
        reached, or the last objective is above the first or not finite.

    Raises
    ------
    ValueError
        Options out of range; an unsmoothed hinge; weights that must be >= 0; tol with lam = 0; no curvature to derive a
        step size from.

    Notes
    -----
    A pass makes 2n calls: n for the full gradient, which also gives the objective, and n for the steps. The gradients
    of the examples at the snapshot count as part of the full gradient. The full gradient after the last pass is only an
    evaluation and does not count.

    Source
    ------
    Johnson and Zhang (2013); Pillutla et al., section 7.2 (the average restarts) and 7.3.1 (the step), *corrected*: L
    must hold for each component, not only for their average.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, svrg
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = svrg(LogLoss(model, data), lam=0.1, tol=1e-6, rng=0)
    >>> result.success, result.certificate <= 1e-6 * result.fun
    (True, True)
    """
    check_provable(lam, run["tol"])
    solver = Backtracked(SVRG(lam=lam, mu=mu, average=average), Backtracking(step_size))
    return minimize(objective, solver, w0, **run).result


@dataclass(frozen=True)
class Smooth(Solver):
    """A run of :class:`LBFGS` that stops at a small gradient."""

    box: LBFGS
    tol: float | None = None
    unknown: int = 0  # positions whose labels are not known

    name: ClassVar[str] = "lbfgs"
    terms: ClassVar[Terms] = Terms(convex=False, partial=True, unit="iterations")

    def evaluate(self, objective: Objective, state: LBFGSState) -> Report:
        calls = state.evaluations * objective.n
        # there is nothing more to do if the gradient is small, or if no step decreases the objective
        solved = state.stuck or _largest(state.gradient) <= (self.tol or 0.0)
        if self.box.lam == 0 or not traits(objective).convex:
            return Report(state.w, state.fun, calls=calls, solved=solved)
        gap = squared_norm(state.gradient) / (2 * self.box.lam)
        return Report(state.w, state.fun, state.fun - gap, gap, calls=calls, solved=solved)

    def restored(self, objective: Objective, saved: LBFGSState) -> LBFGSState:
        fun, gradient = self.box.evaluate(objective, saved.w)
        return saved._replace(fun=fun, gradient=gradient)

    def ending(self, run: Run, state: LBFGSState) -> Ending:
        certificate: float | str | None = run.gap
        if self.box.lam == 0:
            certificate = "none: lam = 0 gives no strong convexity"
        elif run.gap is None:
            why = f", as the labels of {self.unknown} positions are not known" if self.unknown else ""
            certificate = f"none: the objective is not convex{why}"
        size, wanted, tol = _largest(state.gradient), run.tol is not None, run.tol or 0.0
        largest = f"largest entry of the gradient {size:.3g}"
        if size <= tol:
            outcome = True, f"{largest}, at most {tol:g}, after {run.done} iterations"
        elif state.stuck:
            why = "the objective has kinks (an unsmoothed hinge: use bcfw or sgd), or rounding allows no more"
            outcome = not wanted, f"the line search failed after {run.done} iterations: {why}; {largest}"
        else:
            above = f", above {tol:g}" if wanted else ""
            outcome = not wanted, f"{run.done} iterations done: {largest}{above}"
        return Ending(run.ending or outcome, "last", certificate)


def _largest(g: Array) -> float:
    """max_j |g_j|; 0 if g is empty."""
    xp = array_namespace(g)
    return float(xp.max(xp.abs(g))) if g.shape[0] else 0.0


@runs(iterations=100, tol=1e-5)
def lbfgs(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Annotated[float, Ge(0)] | None = None,
    memory: Annotated[int, Ge(1)] = 10,
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by L-BFGS over full gradients.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        Differentiable; on the non-smooth hinge the line search may stop early, and the result says so.
    iterations : int >= 0
        The most iterations.
    tol : float >= 0, optional
        Stop when the largest entry of the gradient is at most this; None: after ``iterations``, or at a gradient of 0.
    memory : int
        Pairs of differences kept.

    Returns
    -------
    Result
        ``success`` is False if the iterations ran out, or if no step decreased the objective. With lam > 0 the
        certificate is ||gradient||^2 / (2 lam), a bound on the distance to the optimum by strong convexity; there is
        none if the scores are not linear in the weights, or if labels are partly known.

    Raises
    ------
    ValueError
        Options out of range; an objective with weights that must be >= 0.

    Notes
    -----
    A nonlinear model's start is drawn with rng = 0. An iteration takes one evaluation of value and gradient, or a few;
    each is n calls. The objective never increases by more than rounding. Memory O(``memory`` d).

    Source
    ------
    Liu and Nocedal (1989); Nocedal and Wright (2006), Algorithms 7.4 and 7.5.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = lbfgs(LogLoss(model, data), lam=0.1)
    >>> result.success, result.certificate < 1e-6
    (True, True)
    """
    solver = Smooth(LBFGS(lam, mu, memory), run["tol"], traits(objective).unknown)
    return minimize(objective, solver, w0, epochs=run.pop("iterations"), rng=0, **run).result
