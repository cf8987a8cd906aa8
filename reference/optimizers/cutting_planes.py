"""One-slack cutting planes: the mean hinge is replaced by the maximum of the planes found so far.

    min_w  lam/2 ||w||^2 + max_j [b_j + <a_j, w>],   a_j = a subgradient of the mean hinge at w_j, b_j the mean task loss there
    max_alpha  <b, alpha> - ||sum_j alpha_j a_j||^2 / (2 lam),   alpha in the simplex,   w = -1/lam sum_j alpha_j a_j

Source: Joachims, Finley and Yu (2009), "Cutting-plane training of structural SVMs", Algorithm 3 (one slack); Teo et al. (2010), "Bundle
methods for regularized risk minimization"; one of the baselines in Pillutla et al., Table 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host, integer, squared_norm
from reference.optimizers.arguments import check_hinge, check_options
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.simplex import maximize_on_simplex
from reference.optimizers.verdicts import reaches, verdict
from reference.structures.base import UnsupportedError

__all__ = ["CuttingPlanesState", "cutting_planes"]

MASTER = 1e-3  # the small problem is solved to this share of the gap


class CuttingPlanesState(NamedTuple):
    """x = w(alpha) (d,), the minimiser of the model; planes a (m, d) with, on the host, b (m,), alpha (m,), products <a_j, a_k> (m, m).

    best (d,), fun: the iterate of the lowest objective so far, and that; dual: the value of the model's dual at alpha.
    """

    x: Array
    planes: Array
    b: np.ndarray
    alpha: np.ndarray
    products: np.ndarray
    best: Array
    fun: float
    dual: float


def cutting_planes(
    objective: Any,
    *,
    lam: float,
    epochs: int = 1000,
    tol: float | None = 1e-3,
    capacity: int = 200,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Train a structural SVM by one-slack cutting planes, until the duality gap is small.

    w_{k+1} = argmin_w  lam/2 ||w||^2 + max_{j <= k} [b_j + <a_j, w>],  b_j + <a_j, w> <= F(w) the tangent plane of the mean hinge F at w_j

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)``, ``linearize(w, batch, mu)``
        A structural hinge, not smoothed.
    lam : float > 0
        Weight of the squared norm; C = 1/(lam n).
    epochs : int >= 0
        At most so many planes: each takes a pass over the examples.
    tol : float >= 0, optional
        Stop when gap <= tol * objective; None: after ``epochs`` planes.
    capacity : int >= 1
        Planes kept, as far as can be: beyond, the oldest of those of weight 0 are dropped; where all have weight, the set grows.
    callback : callable, optional
        Called as ``callback(row, w)`` after each plane, with a :class:`Row` and the weights (d,) that would be returned then, which are to
        be left as they are. Stops the run by returning True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        Of the iterate of lowest objective; ``certificate`` is the duality gap, that objective less the dual, and so are the gaps in
        ``history``. ``success`` is False where a ``tol`` > 0 was not reached, and where the objective left the finite numbers.

    Raises
    ------
    ValueError
        Options out of range; a hinge with a smoothing; weights that must be >= 0.
    TypeError
        An objective without ``linearize``.
    UnsupportedError
        The log loss, whose planes have no task loss.

    Notes
    -----
    The objective at w_k comes with its plane: nothing is evaluated besides. The dual never decreases; the gap is at most eps after O(1/(lam eps))
    planes (Joachims et al., Theorem 5; Teo et al., Theorem 5). The small problem over the simplex is solved to a thousandth of the gap.
    Memory O(capacity d).

    Source
    ------
    Joachims et al. (2009), Algorithm 3; Teo et al. (2010), Algorithm 2 (BMRM).

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, cutting_planes
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = cutting_planes(StructuralHinge(model, data), lam=0.1, tol=1e-3)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    """
    check_hinge("cutting_planes", objective, lam, tol, needed="linearize")
    check_options(lam=lam, epochs=epochs, callback=callback)
    capacity = integer("capacity", capacity, 1)
    refuse_constraint("cutting_planes", objective)
    if not getattr(objective, "loss_augmented", True):
        raise UnsupportedError(
            f"objective: cutting_planes needs planes with a task loss, which {type(objective).__name__} has not; StructuralHinge has"
        )
    zero, asked = objective.zeros(), {"lam": lam, "capacity": capacity}
    solved = reaches(tol, zero)
    run = Run("cutting_planes", objective, zero, asked, epochs, None, callback, checkpoint, resume, reached=solved)
    with run:
        state = run.resumed(None) or init(objective)
        fun = (
            state.fun
            if run.resume is None
            else float(objective.value_and_gradient(state.best, None, None)[0]) + 0.5 * lam * squared_norm(state.best)
        )
        run.begin(state.best, fun, fun - state.dual)
        for k in run.epochs():
            with run.timed():
                state = step(state, objective, lam=lam, capacity=capacity, tol=tol)
            run.record(state, state.best, state.fun, calls=k * objective.n, dual=state.dual)
    return run.result(verdict(run, tol, epochs), iterate="best", certificate=run.gap)


def init(objective: Any) -> CuttingPlanesState:
    """The plane 0, a lower bound as the true outputs are among the others: w = 0."""
    zero = objective.zeros()
    fun = float(objective.value_and_gradient(zero, None, None)[0])
    return CuttingPlanesState(zero, zero[None, :], np.zeros(1), np.ones(1), np.zeros((1, 1)), zero, fun, 0.0)


def step(
    state: CuttingPlanesState, objective: Any, *, lam: float, capacity: int, tol: float | None
) -> CuttingPlanesState:
    """The tangent plane at x joins the model, and x becomes the model's minimiser."""
    xp, place = array_namespace(state.x), Place.of(state.x)
    at = objective.linearize(state.x, None, None)
    fun = at.value + 0.5 * lam * squared_norm(state.x)
    best, lowest = (state.x, fun) if fun < state.fun else (state.best, state.fun)
    state = _with_room(state, capacity)
    planes = xp.concat([state.planes, at.gradient[None, :]])
    rows, new = host(planes).astype(np.float64), host(at.gradient).astype(np.float64)
    across = rows @ new
    products = np.block([[state.products, across[:-1, None]], [across[None, :]]])
    b, alpha = np.append(state.b, at.task_loss), np.append(state.alpha, 0.0)
    if not (np.isfinite(fun) and np.all(np.isfinite(products))):
        return state._replace(best=best, fun=fun)
    alpha = maximize_on_simplex(products / lam, b, alpha, MASTER * max(lowest - state.dual, (tol or 0.0) * lowest, 0.0))
    x = (-1.0 / lam) * (place.floats(alpha) @ planes)
    dual = max(state.dual, float(b @ alpha - 0.5 * lam * squared_norm(x)))
    return CuttingPlanesState(x, planes, b, alpha, products, best, lowest, dual)


def _with_room(state: CuttingPlanesState, capacity: int) -> CuttingPlanesState:
    """Without the oldest planes of weight 0 that are too many for one more."""
    idle = np.flatnonzero(state.alpha == 0)[: max(0, len(state.alpha) + 1 - capacity)]
    if len(idle) == 0:
        return state
    kept = np.setdiff1d(np.arange(len(state.alpha)), idle)
    xp, place = array_namespace(state.x), Place.of(state.x)
    return state._replace(
        planes=xp.take(state.planes, place.integers(kept), axis=0),
        b=state.b[kept],
        alpha=state.alpha[kept],
        products=state.products[np.ix_(kept, kept)],
    )
