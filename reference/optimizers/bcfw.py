"""Block-coordinate Frank-Wolfe on the dual of the structural SVM, with the outputs found kept in working sets.

    min_w  lam/2 ||w||^2 + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>],   v_i(y) = phi(x_i, y) - phi(x_i, y_i)
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - lam/2 ||w(alpha)||^2,   w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

with each alpha_i in the simplex over the outputs of example i. Where some weights must be >= 0 (``objective.nonnegative``), clip(w(alpha))
stands for w(alpha): :mod:`reference.optimizers.nonnegative`. Source: Lacoste-Julien et al. (2013), "Block-coordinate
Frank-Wolfe optimization for structural SVMs", Algorithm 4, one of the methods in Pillutla et al., section 7.2; pairwise steps
and cached outputs are ideas of Osokin et al. (2016), "Minding the gaps for block Frank-Wolfe optimization of structured SVMs".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array, host, integer, squared_norm
from reference.optimizers.arguments import check_hinge, check_options
from reference.optimizers.nonnegative import best_step, clipped, constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.verdicts import reaches, verdict

__all__ = ["BCFWState", "WorkingSet", "bcfw"]

AVERAGES = ("last", "weighted")
PAIRWISE_STEPS = 10  # at most so many a visit
PAIRWISE_SHARE = 0.05  # and none once the largest violation is this share of what the visit began with
EQUAL = (
    1e-6  # scores that differ by this share of the violation are equal; a violation of this share of the losses is none
)


class WorkingSet(NamedTuple):
    """The m outputs of one example found so far: directions (m, d); on the host, float64, losses (m,) and weights alpha (m,).

    restless: whether the last visit began with a violation above EQUAL times the largest loss.
    """

    directions: Array
    losses: np.ndarray
    alpha: np.ndarray
    restless: bool


class BCFWState(NamedTuple):
    """x = w(alpha) (d,), not clipped; loss = (1/n) sum_i sum_y alpha_i(y) loss_i(y); mean, mean_loss: their averages over steps 1..t.

    sets: the working sets, example number to :class:`WorkingSet`; an example without one has all weight on its true output. A
    fused epoch keeps them in a form of its own.
    """

    x: Array
    loss: float
    mean: Array
    mean_loss: float
    t: int
    sets: Any


def bcfw(
    objective: Any,
    *,
    lam: float,
    epochs: int = 100,
    tol: float | None = 1e-3,
    cached_passes: int = 5,
    capacity: int = 8,
    average: str = "last",
    line_search: bool = True,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Train a structural SVM by block-coordinate Frank-Wolfe, until the duality gap is small.

    A visit of example i finds s = argmax_y loss_i(y) + <v_i(y), w> and moves alpha_i towards it:

    alpha_i <- (1 - gamma) alpha_i + gamma e_s,  gamma = clip( lam n [loss_i(s) - loss + <v_i(s) - v, w>] / ||v_i(s) - v||^2, 0, 1 ),

    v = sum_y alpha_i(y) v_i(y) and loss = sum_y alpha_i(y) loss_i(y). With cached passes, weight then moves from the worst to the
    best of the outputs found so far, in pairs, and visits that do only this follow, of the examples that had something to move at their last visit.

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)`` and ``corners(w, batch)``
        A structural hinge, not smoothed. Weights that its ``nonnegative`` names are kept >= 0.
    lam : float > 0
        Weight of the squared norm; C = 1/(lam n).
    epochs : int >= 0
        At most so many passes that call the oracle of each example.
    tol : float >= 0, optional
        Stop when gap <= tol * objective; None: after ``epochs`` passes.
    cached_passes : int >= 0
        Passes over the working sets after each pass of oracles. 0: plain block-coordinate Frank-Wolfe.
    capacity : int >= 1
        Outputs kept for an example, as far as can be: a new output takes the place of one of weight 0, the one of the lowest score; where all
        have weight, the set grows.
    average : {"last", "weighted"}
        Which iterate is returned: w_t, or 2/(t^2+t) sum_s s w_s over the t visits. Cached passes make the last one better; the
        average is for ``cached_passes=0``.
    line_search : bool
        Whether gamma is as above, or, where weights are kept >= 0, the best for that dual; else gamma = 2n/(2n + visits so far).
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation for each pass, cached passes too.
    callback : callable, optional
        Called as ``callback(row, w)`` after each epoch (a pass of oracles and the cached passes after it), with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the returned weights; in ``history``, dual and gap belong to the iterate that would be
        returned: the average's dual point is the average of the dual points. ``success`` is False where a ``tol`` > 0 was not reached,
        and where the objective left the finite numbers. A gap next to rounding may come out below 0; a ``tol`` below the rounding of
        the dtype is reached only where objective and dual are 0.

    Raises
    ------
    ValueError
        Options out of range; a hinge with a smoothing, which would be left out of account.
    UnsupportedError, TypeError
        An objective without corners, such as the log loss.

    Notes
    -----
    The dual never decreases along the last iterates under line search, up to rounding. A step whose direction is too long for its
    square to be a number is not taken. Memory: O(d) for each output kept; in the compiled epoch, for a sequence of length n with m outputs,
    about 8 n^2 + 16 m^2 + 8 n m bytes (the letters, 6251 words: some 25 MB), as labellings take the place of directions.

    Source
    ------
    Lacoste-Julien et al. (2013), Algorithm 4; Pillutla et al., section 7.2 (bcfw-wavg).

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, bcfw
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = bcfw(StructuralHinge(model, data), lam=0.1, tol=1e-3, rng=0)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    """
    _check(objective, lam, tol, capacity, average)
    check_options(lam=lam, epochs=epochs, cached_passes=cached_passes, callback=callback)
    epoch_of = getattr(objective, "fused_epoch", lambda name: None)("bcfw") or epoch
    options: dict[str, Any] = {"lam": lam, "capacity": capacity, "average": average, "line_search": line_search}
    zero, where, asked = objective.zeros(), constraint(objective), {**options, "cached_passes": cached_passes}
    solved = reaches(tol, zero)
    run = Run("bcfw", objective, zero, asked, epochs, rng, callback, checkpoint, resume, reached=solved, loop=epoch_of)
    with run:
        state = run.resumed(init(objective))
        fun, dual = _bounds(objective, state, lam)
        run.begin(clipped(state.mean, where), fun, fun - dual)
        for k in run.epochs():
            with run.timed():
                orders = [run.rng.permutation(objective.n) for _ in range(1 + cached_passes)]
                state = epoch_of(state, objective, orders, **options)
            fun, dual = _bounds(objective, state, lam)
            run.record(state, clipped(state.mean, where), fun, calls=k * objective.n, dual=dual)
    iterate = "last" if average == "last" else f"{average} average"
    return run.result(verdict(run, tol, epochs), iterate=iterate, certificate=run.gap)


def init(objective: Any) -> BCFWState:
    """All weight on the true outputs, whose direction and loss are 0."""
    zero = objective.zeros()
    return BCFWState(zero, 0.0, zero, 0.0, 0, {})


def epoch(
    state: BCFWState,
    objective: Any,
    orders: Sequence[np.ndarray],
    *,
    lam: float,
    capacity: int,
    average: str,
    line_search: bool,
) -> BCFWState:
    """One pass that calls the oracles, in the first order, then passes over the working sets that are restless, in the others.

    A fused epoch has this signature.
    """
    for turn, order in enumerate(orders):
        for i in order.tolist():
            if turn > 0 and not state.sets[i].restless:
                continue
            visit = {"oracle": turn == 0, "pairwise": len(orders) > 1}
            state = step(
                state, objective, i, **visit, lam=lam, capacity=capacity, average=average, line_search=line_search
            )
    return state


def step(
    state: BCFWState,
    objective: Any,
    i: int,
    *,
    oracle: bool,
    pairwise: bool,
    lam: float,
    capacity: int,
    average: str,
    line_search: bool,
) -> BCFWState:
    """A visit of example i: the oracle's output joins its set and draws weight; then, in pairs, from the worst to the best."""
    x, loss, lam_n, where = state.x, state.loss, lam * objective.n, constraint(objective)
    found = state.sets.get(i) or WorkingSet(objective.zeros()[None, :], np.zeros(1), np.ones(1), False)
    if oracle:
        w = clipped(x, where)
        corner = objective.corners(w, [i])
        found = joined(found, corner.directions[0, 0, :], float(corner.losses[0, 0]), w, capacity)
    _, s, violation = worst_pair(found, clipped(x, where))
    if oracle:
        fixed = None if line_search else 2 * objective.n / (2 * objective.n + state.t)
        x, found = moved(x, found, np.eye(len(found.alpha))[s] - found.alpha, 1.0, lam_n, where, fixed)
    for _ in range(PAIRWISE_STEPS if pairwise else 0):
        worst, best, left = worst_pair(found, clipped(x, where))
        if left <= PAIRWISE_SHARE * violation:
            break
        one = np.eye(len(found.alpha))
        x, found = moved(x, found, one[best] - one[worst], float(found.alpha[worst]), lam_n, where)
    before = state.sets[i].alpha @ state.sets[i].losses if i in state.sets else 0.0
    loss = loss + float(found.alpha @ found.losses - before) / objective.n
    t = state.t + 1
    share = 1.0 if average == "last" else 2.0 / (t + 1)
    mean = x if average == "last" else state.mean + share * (x - state.mean)
    mean_loss = state.mean_loss + share * (loss - state.mean_loss)
    found = found._replace(restless=bool(violation > EQUAL * np.max(found.losses)))
    return BCFWState(x, loss, mean, mean_loss, t, {**state.sets, i: found})


def joined(found: WorkingSet, direction: Array, loss: float, w: Array, capacity: int) -> WorkingSet:
    """The set with one more output, unless it has one of this direction and loss."""
    xp = array_namespace(w)
    known = host(xp.all(found.directions == direction, axis=1)) & (found.losses == loss)
    idle = np.flatnonzero(found.alpha == 0)
    if np.any(known):
        return found
    if len(found.alpha) < capacity or len(idle) == 0:
        directions = xp.concat([found.directions, direction[None, :]])
        return WorkingSet(directions, np.append(found.losses, loss), np.append(found.alpha, 0.0), False)
    place = int(idle[np.argmin(scores(found, w)[idle])])
    here = np.arange(len(found.alpha)) == place
    directions = xp.concat([found.directions[:place, :], direction[None, :], found.directions[place + 1 :, :]])
    return WorkingSet(directions, np.where(here, loss, found.losses), found.alpha, False)


def scores(found: WorkingSet, w: Array) -> np.ndarray:
    """loss_i(y) + <v_i(y), w> of each output (m,): n times the gradient of the dual with respect to alpha_i."""
    return found.losses + host(found.directions @ w)


def worst_pair(found: WorkingSet, w: Array) -> tuple[int, int, float]:
    """The lowest in score of the outputs that have weight, the highest of all, and how far they are apart.

    A step makes two scores equal but for rounding; the first in the set is taken of those that are, so that rounding decides nothing.
    """
    g = scores(found, w)
    low, high = np.where(found.alpha > 0, g, np.inf), g
    violation = float(np.max(high) - np.min(low))
    worst = np.argmax(low <= np.min(low) + EQUAL * violation)
    best = np.argmax(high >= np.max(high) - EQUAL * violation)
    return int(worst), int(best), violation


def moved(
    x: Array,
    found: WorkingSet,
    towards: np.ndarray,
    most: float,
    lam_n: float,
    where: slice | None,
    fixed: float | None = None,
) -> tuple[Array, WorkingSet]:
    """alpha_i + gamma towards, and w to match; gamma in [0, most] has the highest dual, unless it is fixed.

    n (dual at gamma - dual at 0) = gamma <towards, scores> - gamma^2 ||v||^2 / (2 lam n), v = sum_y towards(y) v_i(y), all weights free
    """
    xp = array_namespace(x)
    weights = xp.asarray(towards, dtype=x.dtype, device=device(x))
    v = weights @ found.directions
    gain, length = float(towards @ scores(found, clipped(x, where))), float(xp.sum(v * v))
    gamma = fixed
    if gamma is None:
        if where is not None:
            gamma = best_step(x, v, gain, most, lam_n, where)
        elif length > 0:
            gamma = min(most, max(0.0, lam_n * gain / length))
        else:
            gamma = most if length <= 0 and gain > 0 else 0.0
    if gamma == 0:  # v may be inf or nan
        return x, found
    return x - (gamma / lam_n) * v, found._replace(alpha=found.alpha + gamma * towards)


def _bounds(objective: Any, state: BCFWState, lam: float) -> tuple[float, float]:
    """Objective and dual at the iterate that would be returned now."""
    w = clipped(state.mean, constraint(objective))
    quadratic = 0.5 * lam * squared_norm(w)
    return objective.value_and_gradient(w, None, None)[0] + quadratic, state.mean_loss - quadratic


def _check(objective: Any, lam: float, tol: float | None, capacity: int, average: str) -> None:
    check_hinge("bcfw", objective, lam, tol)
    integer("capacity", capacity, 1)
    if average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {average!r}")
