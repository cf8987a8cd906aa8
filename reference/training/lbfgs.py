"""L-BFGS by SciPy, for smooth objectives: the log loss and smoothed hinges."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from reference.arrays import Array, Place, host, integer, number
from reference.optimizers.base import Objective
from reference.training.arguments import (
    check_objective,
    check_options,
    check_run,
    initial_of,
    is_nonlinear,
    refuse_constraint,
    start_of,
)
from reference.training.result import Callback, Report, Result
from reference.training.run import Run

__all__ = ["lbfgs"]


def lbfgs(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: float,
    mu: float | None = None,
    iterations: int = 100,
    tol: float = 1e-5,
    memory: int = 10,
    callback: Callback | None = None,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by SciPy's L-BFGS-B over full gradients.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        Differentiable; on the non-smooth hinge the line search may stop early, and the result says so.
    w0 : array (d,), optional
        Start; default ``model.initial(data, 0)`` if the model has that method, else ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm.
    mu : float, optional
        Smoothing, passed to the objective.
    iterations : int >= 0
        The most iterations.
    tol : float >= 0
        Stop when the largest entry of the gradient is at most this.
    memory : int
        Pairs of differences kept.
    callback : callable, optional
        Called as ``callback(row, w)`` after each iteration, with a :class:`Row` and the weights (d,) that would be
        returned at that point; do not modify them. The run stops if it returns True or raises StopIteration.

    Returns
    -------
    Result
        ``success`` is False if the iterations ran out. With lam > 0 the certificate is ||gradient||^2 / (2 lam), a
        bound on the distance to the optimum by strong convexity; there is none if the scores are not linear in the
        weights.

    Raises
    ------
    ValueError
        Options out of range; an objective with weights that must be >= 0.

    Notes
    -----
    There are no checkpoints, as SciPy does not expose its memory. To continue a run, start from its weights.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = lbfgs(LogLoss(model, data), lam=0.1)
    >>> result.success, result.certificate < 1e-6
    (True, True)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    """
    from scipy.optimize import minimize

    check_objective(objective)
    check_run(callback, iterations=iterations)
    check_options(lam=lam, mu=mu)
    integer("memory", memory, 1)
    number("tol", tol)
    refuse_constraint("lbfgs", objective)
    start = start_of(objective, initial_of(objective, w0, 0))
    place, x0, calls, gap, started = Place.of(start), host(start).astype(np.float64), 0, None, time.perf_counter()
    convex = not is_nonlinear(objective)
    run = Run("lbfgs", objective, start, {}, iterations, callback=callback, unit="iterations")

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls, gap
        value, g = objective.value_and_gradient(place.floats(x), None, mu)
        gradient, calls = host(g).astype(np.float64) + lam * x, calls + 1
        fun, gap = (
            value + 0.5 * lam * float(x @ x),
            float(gradient @ gradient) / (2 * lam) if lam > 0 and convex else None,
        )
        if calls == 1:
            run.begin(Report(start, fun, None, gap, calls=objective.n))
        return fun, gradient

    def after_iteration(intermediate_result: Any) -> None:
        # the line search returns the last x it evaluated: the gap belongs to this x
        fun, run.seconds = float(intermediate_result.fun), time.perf_counter() - started
        dual = None if gap is None else fun - gap
        x = place.floats(intermediate_result.x)
        run.record(None, Report(x, fun, dual, gap, calls=calls * objective.n), run.done + 1)
        if run.stopped:
            raise StopIteration

    success, message = False, "no iterations asked for"
    options = {"maxiter": iterations, "gtol": tol, "ftol": 0.0, "maxcor": memory, "maxfun": 20 * iterations + 20}
    with run:
        if iterations == 0:
            value_and_gradient(x0)
        else:
            answer = minimize(
                value_and_gradient, x0, jac=True, method="L-BFGS-B", callback=after_iteration, options=options
            )
            success, message = bool(answer.success), _message(str(answer.message))
    certificate = "none: lam = 0 gives no strong convexity" if lam == 0 else run.gap
    if not convex:
        certificate = "none: the objective is not convex"
    result = run.result(run.ending or (success, message), iterate="last", certificate=certificate)
    return replace(result, oracle_calls=calls * objective.n)


def _message(scipy: str) -> str:
    if scipy.startswith("ABNORMAL"):
        return (
            "the line search failed: the objective has kinks (an unsmoothed hinge: use bcfw or sgd), or rounding "
            "allows no more"
        )
    return scipy
