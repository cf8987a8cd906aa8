"""L-BFGS by SciPy, for smooth objectives: the log loss and smoothed hinges."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from reference.arrays import Array, Place, host, integer, number
from reference.optimizers.arguments import check_objective, check_options, start_of
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result, Row, wants_to_stop

__all__ = ["lbfgs"]


def lbfgs(
    objective: Any,
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
        Start; default ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm.
    mu : float, optional
        Smoothing, handed to the objective.
    iterations : int >= 0
        At most so many.
    tol : float >= 0
        Stop when the largest entry of the gradient is at most this.
    memory : int
        Pairs of differences kept.
    callback : callable, optional
        Called as ``callback(row, w)`` after each iteration, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.

    Returns
    -------
    Result
        ``success`` is False where the iterations ran out. With lam > 0 the certificate is ||gradient||^2 / (2 lam), a bound
        on the distance to the optimum by strong convexity.

    Raises
    ------
    ValueError
        Options out of range; an objective with weights that must be >= 0.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = lbfgs(LogLoss(model, data), lam=0.1)
    >>> result.success, result.certificate < 1e-6
    (True, True)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    """
    from scipy.optimize import minimize

    check_objective(objective)
    check_options(lam=lam, mu=mu, iterations=iterations, callback=callback)
    integer("memory", memory, 1)
    number("tol", tol)
    refuse_constraint("lbfgs", objective)
    start = start_of(objective, w0)
    place = Place.of(start)
    history: list[Row] = []
    calls, stopped, started = 0, False, time.perf_counter()

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        calls += 1
        value, g = objective.value_and_gradient(place.floats(x), None, mu)
        return value + 0.5 * lam * float(x @ x), host(g).astype(np.float64) + lam * x

    def after_iteration(intermediate_result: Any) -> None:
        nonlocal stopped
        seconds = time.perf_counter() - started
        history.append(Row(len(history) + 1, calls * objective.n, seconds, float(intermediate_result.fun)))
        if wants_to_stop(callback, history[-1], place.floats(intermediate_result.x)):
            stopped = True
            raise StopIteration

    if iterations == 0:
        fun = value_and_gradient(host(start).astype(np.float64))[0]
        return Result(start, fun, 0, False, "no iterations asked for", "last", objective.n, "none: not run", ())
    options = {"maxiter": iterations, "gtol": tol, "ftol": 0.0, "maxcor": memory, "maxfun": 20 * iterations + 20}
    x0 = host(start).astype(np.float64)
    found = minimize(value_and_gradient, x0, jac=True, method="L-BFGS-B", callback=after_iteration, options=options)
    gradient = np.asarray(found.jac)
    return Result(
        x=place.floats(found.x),
        fun=float(found.fun),
        nit=len(history),
        success=bool(found.success) or stopped,
        message=_message(str(found.message), len(history), stopped),
        iterate="last",
        oracle_calls=calls * objective.n,
        certificate=float(gradient @ gradient) / (2 * lam) if lam > 0 else "none: lam = 0 gives no strong convexity",
        history=tuple(history),
    )


def _message(scipy: str, iterations: int, stopped: bool) -> str:
    if stopped:
        return f"stopped by the callback after {iterations} iterations"
    if scipy.startswith("ABNORMAL"):
        return "the line search failed: the objective has kinks (an unsmoothed hinge: use bcfw or sgd), or rounding allows no more"
    return scipy
