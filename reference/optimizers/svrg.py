"""SVRG: stochastic gradients whose noise is taken out by a full gradient, once a pass.

min_w F(w) + lam/2 ||w||^2 + kappa/2 ||w - z||^2 with a smooth finite sum F = (1/n) sum_i f_i. A pass starts from a snapshot s and
its full gradient, and takes one step for each example of a random order:

    v_i(w) = grad f_i(w) - grad f_i(s) + grad F(s)
    w <- [w - gamma v_i(w) + gamma kappa z] / [1 + gamma (lam + kappa)]

The quadratics are taken implicitly (a proximal step). kappa = 0 is SVRG itself; Casimir (Pillutla et al., Algorithm 4) solves its
subproblems (25) with kappa > 0. Source: Johnson and Zhang (2013); Pillutla et al., sections 5.3, 7.2 and 7.3.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, host, squared_norm
from reference.optimizers.arguments import check_objective, check_options, refuse_nonlinear, start_of
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result, not_above, small_enough
from reference.optimizers.runs import Point, Run
from reference.optimizers.smoothness import ComponentSteps
from reference.smoothing import Max

__all__ = ["SVRGState", "Snapshot", "svrg"]

AVERAGES = ("last", "uniform")


class Snapshot(NamedTuple):
    """x (d,), and F (without regulariser) and its gradient (d,) there over all examples.

    kept: what a fused epoch makes use of again.
    """

    x: Array
    value: float
    gradient: Array
    kept: Any = None


class SVRGState(NamedTuple):
    """x (d,), where the next pass starts; L, the guess of the components' smoothness, and trials, the oracle calls it took; taken_back: passes
    that were; first: the objective at the start.
    """

    x: Array
    L: float | None
    trials: int
    taken_back: int
    first: float


def svrg(
    objective: Any,
    w0: Array | None = None,
    *,
    lam: float,
    mu: float | None = None,
    step_size: float | None = None,
    epochs: int = 50,
    average: str = "last",
    tol: float | None = None,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2, F smooth, by variance-reduced stochastic gradient steps.

    w <- [w - gamma (g_i(w) - g_i(s) + grad F(s))] / (1 + gamma lam), s the snapshot that the pass started from

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
        Smooth: the log loss, or a hinge with a smoothing and mu > 0.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``.
    lam : float >= 0
        Weight of the squared norm.
    mu : float, optional
        Smoothing, handed to the objective.
    step_size : float, optional
        Constant step gamma; default 1 / (L + lam), L the smoothness of the components. It is found by backtracking on a few random
        ones, each pass from half its last value, and a pass after which the objective is larger is taken back and L doubled; L
        never exceeds ``objective.smoothness(mu)``, where the objective has that method and an answer.
    epochs : int >= 0
        Passes over the data, each in a new random order, those taken back included.
    average : {"last", "uniform"}
        Where the next pass starts, and what is returned: the last iterate of a pass, or the average of its iterates.
    tol : float >= 0, optional
        Stop when the gap, ||grad F(w) + lam w||^2 / (2 lam), is at most ``tol`` times the objective. Needs lam > 0.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation a pass.
    callback : callable, optional
        Called as ``callback(row, w)`` after each pass, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        With lam > 0 and convex F the certificate, and the ``gap`` of each row, is ||grad F(w) + lam w||^2 / (2 lam): the duality
        gap of the smoothed problem at the dual point grad F(w). ``success`` is False where ``tol`` was not reached, or the objective
        ended above its start or left the finite numbers.

    Raises
    ------
    ValueError
        Options out of range; an unsmoothed hinge; weights that must be >= 0; tol at lam = 0; no step size where no curvature can be found.

    Notes
    -----
    A pass makes 2n calls: n for the full gradient, which also is the objective's value, and n for the steps; an example's
    gradient at the snapshot is counted with the full gradient. The plain loop computes it again; the compiled one keeps the answers of the
    full gradient's oracles, where they take no more than 256 MB (entropy: 8 L bytes a position and 8 L^2 an example; K best outputs:
    8 K a position), and else does as well. The gradient after the last pass only evaluates and is not counted.

    Source
    ------
    Johnson and Zhang (2013); Pillutla et al., section 7.2 (the average restarts) and 7.3.1 (the step), *corrected*: L must hold for
    each component, not only for their average.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, svrg
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = svrg(LogLoss(model, data), lam=0.1, tol=1e-6, rng=0)
    >>> result.success, result.certificate <= 1e-6 * result.fun
    (True, True)
    """
    check_objective(objective)
    check_options(lam=lam, mu=mu, epochs=epochs, step_size=step_size, tol=tol, callback=callback)
    if average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {average!r}")
    refuse_nonlinear("svrg", objective)
    _check_smooth(objective, mu)
    refuse_constraint("svrg", objective)
    run_epoch = getattr(objective, "fused_epoch", lambda name: None)("svrg") or epoch
    start, asked = start_of(objective, w0), {"lam": lam, "mu": mu, "step_size": step_size, "average": average}
    options: dict[str, Any] = {"lam": lam, "kappa": 0.0, "center": None, "mu": mu, "average": average}

    def reached(point: Point) -> bool:
        return point.gap is not None and small_enough(point.gap, point.fun, tol)

    run = Run("svrg", objective, start, asked, epochs, rng, callback, checkpoint, resume, reached=reached)
    state = run.resumed(SVRGState(start, None, 0, 0, np.nan))
    with run:
        steps = ComponentSteps(objective, mu, lam, step_size)
        steps.L, steps.calls = state.L, state.trials
        with run.timed():
            now = snapshot(objective, state.x, mu)
        fun, bound = _regularised(now, lam), _bound(now, lam)
        state = state._replace(first=state.first if run.history else fun)
        run.begin(now.x, fun, bound)
        for k in run.epochs():
            with run.timed():
                order = run.rng.permutation(objective.n)
                gamma = steps.at(now.x, order)
                x = run_epoch(now, objective, order, step_size=gamma, **options)
            seconds = run.seconds
            with run.timed():  # the full gradient is the next pass's
                after = snapshot(objective, x, mu)
                value = _regularised(after, lam)
                accepted = not steps.guessed or not_above(value, fun, x)
                steps.judge(accepted)
                if accepted:
                    now, fun, bound = after, value, _bound(after, lam)
            state = SVRGState(now.x, steps.L, steps.calls, state.taken_back + (not accepted), state.first)
            calls, dual = 2 * k * objective.n + steps.calls, None if bound is None else fun - bound
            run.record(state, now.x, fun, calls=calls, dual=dual, gap=bound, seconds=seconds)
    return run.result(
        run.ending or _outcome(run, state, tol),
        iterate="last" if average == "last" else "average of the last pass",
        certificate=run.gap if lam > 0 else "none: lam = 0 gives no strong convexity",
    )


def snapshot(objective: Any, x: Array, mu: float | None) -> Snapshot:
    """F and its full gradient at x, for :func:`epoch`: n oracle calls. A fused snapshot has this signature."""
    take = getattr(objective, "fused_epoch", lambda name: None)("snapshot") or full_gradient
    return take(objective, x, mu)


def full_gradient(objective: Any, x: Array, mu: float | None) -> Snapshot:
    """The same with nothing kept."""
    return Snapshot(x, *objective.value_and_gradient(x, None, mu))


def epoch(
    start: Snapshot,
    objective: Any,
    order: np.ndarray,
    *,
    step_size: float,
    lam: float,
    kappa: float,
    center: Array | None,
    mu: float | None,
    average: str,
) -> Array:
    """One step for each example in ``order``, from the snapshot: the last iterate or the iterates' mean.

    center (d,) is z; None where kappa = 0. No examples, no steps: the snapshot's x. A fused epoch has this signature.
    """
    w = mean = start.x
    for t in range(len(order)):
        w = step(w, start, objective, order[t : t + 1], step_size, lam, kappa, center, mu)
        mean = mean + (w - mean) / (t + 1)
    return w if average == "last" else mean


def step(
    w: Array,
    start: Snapshot,
    objective: Any,
    one: np.ndarray,
    gamma: float,
    lam: float,
    kappa: float,
    center: Array | None,
    mu: float | None,
) -> Array:
    """One step on the example ``one`` (1,): the equation above."""
    return implicit(w - gamma * variance_reduced(w, start, objective, one, mu), gamma, lam, kappa, center)


def implicit(moved: Array, gamma: float, lam: float, kappa: float, center: Array | None) -> Array:
    """argmin_w ||w - moved||^2 / (2 gamma) + lam/2 ||w||^2 + kappa/2 ||w - center||^2."""
    if center is not None:
        moved = moved + (gamma * kappa) * center
    return moved / (1.0 + gamma * (lam + kappa))


def variance_reduced(w: Array, start: Snapshot, objective: Any, one: np.ndarray, mu: float | None) -> Array:
    """v_i(w) = g_i(w) - g_i(s) + grad F(s): over all i its mean is grad F(w), and at w = s it has no noise."""
    _, g = objective.value_and_gradient(w, one, mu)
    _, g_s = objective.value_and_gradient(start.x, one, mu)
    return g - g_s + start.gradient


def _regularised(at: Snapshot, lam: float) -> float:
    """F(x) + lam/2 ||x||^2."""
    return at.value + 0.5 * lam * squared_norm(at.x)


def _bound(at: Snapshot, lam: float) -> float | None:
    """||g + lam x||^2 / (2 lam) with g = grad F(x): F + lam/2 ||.||^2 at x less its dual at g; None at lam = 0."""
    if lam == 0:
        return None
    return squared_norm(host(at.gradient).astype(np.float64) + lam * host(at.x)) / (2 * lam)


def _outcome(run: Run, state: SVRGState, tol: float | None) -> tuple[bool, str]:
    """Success, and the sentence about it."""
    done = f"{run.done} epochs done"
    if state.taken_back:
        done += f", {state.taken_back} of them taken back for too long steps"
    if not run.fun <= state.first:
        return False, f"{done}: the objective grew from {state.first} to {run.fun}; take shorter steps"
    if tol is None:
        return True, done
    more = "" if run.solved else f", more than {tol} of the objective"
    return run.solved, f"{done}: the optimum is within {run.gap}{more}"


def _check_smooth(objective: Any, mu: float | None) -> None:
    """Refuse our own hinges at mu = 0; what has no ``mu`` of its own is trusted."""
    own = getattr(objective, "mu", None)
    if own is not None and (own if mu is None else mu) == 0:
        raise ValueError(
            "mu: svrg needs a smooth objective: give mu > 0, and the hinge a smoothing, such as smoothing=Entropy()"
        )
    if isinstance(getattr(objective, "smoothing", None), Max):
        raise ValueError(
            f"objective: svrg needs a smoothing at mu = {mu}, such as StructuralHinge(model, data, smoothing=Entropy())"
        )
