"""Stochastic (sub)gradient descent with averaging.

min_w F(w) + lam/2 ||w||^2, one batch at a time: w <- (1 - gamma_t lam) w - gamma_t g_t. Source: Pillutla et al., section 7.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, floats, integer, real, squared_norm
from reference.optimizers.arguments import check_objective, check_options, initial_of, start_of
from reference.optimizers.nonnegative import check_start, clipped, constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.schedules import Constant, Pegasos

__all__ = ["SGDState", "sgd"]

AVERAGES = ("last", "uniform", "weighted")


class SGDState(NamedTuple):
    """x: the last iterate (d,); mean: the average of the iterates after steps 1..t, as asked; t: steps done."""

    x: Array
    mean: Array
    t: int


def sgd(
    objective: Any,
    w0: Array | None = None,
    *,
    lam: float,
    mu: float | None = None,
    step_size: float | Callable[[np.ndarray, float], np.ndarray] | None = None,
    epochs: int = 10,
    batch_size: int = 1,
    average: str = "weighted",
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by stochastic (sub)gradient steps.

    w_t = (1 - gamma_t lam) w_{t-1} - gamma_t g_t, with g_t the mean (sub)gradient of a batch at w_{t-1}

    Weights that ``objective.nonnegative`` names are set to 0 after a step that took them below.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
    w0 : array (d,), optional
        Start; default ``objective.zeros()``, of a nonlinear model ``model.initial(data, rng)`` where it has that.
    lam : float >= 0
        Weight of the squared norm; in other conventions C = 1/(lam n), or crfsuite's c2 = lam n / 2.
    mu : float, optional
        Smoothing, handed to the objective.
    step_size : float or schedule, optional
        A number is a constant step; default ``Pegasos(offset=max(n, 1/lam))``, which starts at 1/(lam n) or 1, whichever is
        less: needs lam > 0. It knows nothing of the features' scale: where they are large, shorter steps are steadier.
    epochs : int >= 0
        Passes over the data, each in a new random order.
    batch_size : int
    average : {"weighted", "uniform", "last"}
        Which iterate is returned: 2/(T^2+T) sum_t t w_t, (1/T) sum_t w_t, or w_T.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation an epoch.
    callback : callable, optional
        Called as ``callback(row, w)`` after each epoch, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        Its certificate says that plain SGD proves no gap. ``success`` is False where the objective left the finite numbers.

    Raises
    ------
    ValueError
        Options out of range, a start below 0 where weights must not be, a schedule that does not give one finite step >= 0 for each batch, no step size at lam = 0.

    Source
    ------
    Pillutla et al., section 7.2; Shalev-Shwartz et al. (2011) for 1/(lam t) and the weighted average.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, sgd
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = sgd(LogLoss(model, data), lam=0.1, epochs=20, rng=0)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    >>> result.nit, result.oracle_calls, result.iterate
    (20, 60, 'weighted average')
    """
    check_objective(objective)
    check_options(lam=lam, mu=mu, epochs=epochs, callback=callback)
    integer("batch_size", batch_size, 1)
    if average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {average!r}")
    schedule = _schedule(step_size, objective.n, lam)
    epoch_of = getattr(objective, "fused_epoch", lambda name: None)("sgd") if batch_size == 1 else None
    options: dict[str, Any] = {"lam": lam, "mu": mu, "batch_size": batch_size, "average": average}
    start = start_of(objective, initial_of(objective, w0, rng))
    check_start(start, constraint(objective))
    asked = {**options, "step_size": schedule}
    run = Run("sgd", objective, start, asked, epochs, rng, callback, checkpoint, resume)
    batches = -(-objective.n // batch_size)
    with run:
        state = run.resumed(init(start))
        known = run.resume is not None or epochs == 0
        run.begin(state.mean, regularised(objective, state.mean, lam, mu) if known else np.nan)
        for k in run.epochs():
            with run.timed():
                order = run.rng.permutation(objective.n)
                steps = _steps(schedule, np.arange(state.t + 1, state.t + batches + 1), lam)
                state = (epoch_of or epoch)(state, objective, order, steps=steps, **options)
            run.record(state, state.mean, regularised(objective, state.mean, lam, mu), calls=k * objective.n)
    return run.result(
        run.ending or (True, f"{epochs} epochs done"),
        iterate="last" if average == "last" else f"{average} average",
        certificate="none: stochastic gradient descent keeps no dual point",
    )


def init(w0: Any) -> SGDState:
    """The state before the first step."""
    (w0,) = floats(w0=w0)
    return SGDState(w0, w0, 0)


def epoch(
    state: SGDState,
    objective: Any,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    lam: float,
    mu: float | None,
    average: str,
) -> SGDState:
    """One pass over the examples in ``order``, a step for each batch; a fused epoch has this signature."""
    for number, gamma in enumerate(steps):
        batch = order[number * batch_size : (number + 1) * batch_size]
        state = step(state, objective, batch, float(gamma), lam, mu, average)
    return state


def step(
    state: SGDState, objective: Any, batch: np.ndarray, gamma: float, lam: float, mu: float | None, average: str
) -> SGDState:
    """One step: the equation above, then the average."""
    _, g = objective.value_and_gradient(state.x, batch, mu)
    t = state.t + 1
    x = clipped((1.0 - gamma * lam) * state.x - gamma * g, constraint(objective))
    share = {"last": 1.0, "uniform": 1.0 / t, "weighted": 2.0 / (t + 1)}[average]
    return SGDState(x, x if average == "last" else state.mean + share * (x - state.mean), t)


def regularised(objective: Any, w: Array, lam: float, mu: float | None) -> float:
    """F(w) + lam/2 ||w||^2."""
    return objective.value_and_gradient(w, None, mu)[0] + 0.5 * lam * squared_norm(w)


def _schedule(step_size: Any, n: int, lam: float) -> Callable[[np.ndarray, float], np.ndarray]:
    if step_size is None:
        if lam == 0:
            raise ValueError("step_size: lam = 0 has no default step size; give one")
        return Pegasos(offset=max(n, 1.0 / lam))
    return step_size if callable(step_size) else Constant(real("step_size", step_size))


def _steps(schedule: Callable[[np.ndarray, float], np.ndarray], t: np.ndarray, lam: float) -> np.ndarray:
    steps = np.asarray(schedule(t, lam), dtype=np.float64)
    if steps.shape != t.shape or not np.all(np.isfinite(steps) & (steps >= 0)):
        raise ValueError(
            f"step_size: expected {len(t)} finite steps >= 0 from {schedule}, got shape {steps.shape}: {steps}"
        )
    return steps
