"""L-BFGS: its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Unpack

from array_api_compat import array_namespace

from reference.arrays import Array, squared_norm
from reference.declared import Ge, Lam
from reference.optimizers.base import Objective, traits
from reference.optimizers.lbfgs import LBFGS, LBFGSState
from reference.training.run import Ending, Run
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, minimize, runs

__all__ = ["lbfgs"]


@dataclass(frozen=True)
class Smooth(Solver):
    """A run of :class:`LBFGS` that stops at a small gradient."""

    box: LBFGS
    tol: float | None = None

    name: ClassVar[str] = "lbfgs"
    terms: ClassVar[Terms] = Terms(convex=False, unit="iterations")

    def evaluate(self, objective: Objective, state: LBFGSState) -> Report:
        calls = state.evaluations * objective.n
        # there is nothing more to do if the gradient is small, or if no step decreases the objective
        solved = state.stuck or _largest(state.gradient) <= (self.tol or 0.0)
        if self.box.lam == 0 or not traits(objective).linear:
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
            certificate = "none: the objective is not convex"
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
    w0 : array (d,), optional
        Start; default ``model.initial(data, 0)`` if the model has that method, else ``objective.zeros()``.
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
        none if the scores are not linear in the weights.

    Raises
    ------
    ValueError
        Options out of range; an objective with weights that must be >= 0.

    Notes
    -----
    An iteration takes one evaluation of value and gradient, or a few; each is n calls. The objective never increases by
    more than rounding. Memory O(``memory`` d).

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
    solver = Smooth(LBFGS(lam, mu, memory), run["tol"])
    return minimize(objective, solver, w0, epochs=run.pop("iterations"), rng=0, **run).result
