"""One-slack cutting planes: the mean hinge is replaced by the maximum of the planes found so far.

    min_w  lam/2 ||w||^2 + max_j [b_j + <a_j, w>],
    a_j = a subgradient of the mean hinge at w_j, b_j the mean task loss there
    max_alpha  <b, alpha> - ||sum_j alpha_j a_j||^2 / (2 lam),   alpha in the simplex,   w = -1/lam sum_j alpha_j a_j

Source: Joachims, Finley and Yu (2009), "Cutting-plane training of structural SVMs", Algorithm 3 (one slack); Teo et al.
(2010), "Bundle methods for regularized risk minimization"; one of the baselines in Pillutla et al., Table 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host, squared_norm
from reference.optimizers.base import Algorithm, Linearized
from reference.optimizers.simplex import maximize_on_simplex

__all__ = ["CuttingPlanes", "CuttingPlanesState"]

MASTER = 1e-3  # the master problem is solved to this share of the gap


class CuttingPlanesState(NamedTuple):
    """x = w(alpha) (d,), the minimiser of the model, and the m planes of the model.

    planes: a (m, d). On the host: b (m,), alpha (m,) and products <a_j, a_k> (m, m). best (d,), fun: the iterate of
    lowest objective so far, and its objective. dual: the value of the model's dual at alpha.
    """

    x: Array
    planes: Array
    b: np.ndarray
    alpha: np.ndarray
    products: np.ndarray
    best: Array
    fun: float
    dual: float


@dataclass(frozen=True)
class CuttingPlanes(Algorithm):
    """Algorithm 3 of Joachims et al., on an unsmoothed hinge; :func:`reference.cutting_planes` returns its ``best``.

    tol: the relative gap to reach; the master problem need not be solved more accurately.
    """

    lam: float
    capacity: int = 200
    tol: float = 0.0

    def init(self, objective: Linearized, w0: Array | None = None) -> CuttingPlanesState:
        """One plane, 0, and w = 0; the plane is a lower bound because the true output is one of the outputs."""
        zero = objective.zeros()
        fun = float(objective.value_and_gradient(zero, None, None)[0])
        return CuttingPlanesState(zero, zero[None, :], np.zeros(1), np.ones(1), np.zeros((1, 1)), zero, fun, 0.0)

    def epoch(self, objective: Linearized, state: CuttingPlanesState, rng: Any = None) -> CuttingPlanesState:
        """The tangent plane at x joins the model, and x becomes the model's minimiser."""
        xp, place, lam = array_namespace(state.x), Place.of(state.x), self.lam
        tangent = objective.linearize(state.x, None, None)  # a = tangent.gradient, b = tangent.task_loss
        fun = tangent.value + 0.5 * lam * squared_norm(state.x)
        best, lowest = (state.x, fun) if fun < state.fun else (state.best, state.fun)
        state = with_room(state, self.capacity)
        planes = xp.concat([state.planes, tangent.gradient[None, :]])
        across = host(planes).astype(np.float64, copy=False) @ host(tangent.gradient).astype(np.float64)
        products = np.block([[state.products, across[:-1, None]], [across[None, :]]])
        b, alpha = np.append(state.b, tangent.task_loss), np.append(state.alpha, 0.0)
        if not (np.isfinite(fun) and np.all(np.isfinite(products))):
            return state._replace(best=best, fun=fun)
        # max_alpha <b, alpha> - ||sum_j alpha_j a_j||^2 / (2 lam), to a share of the gap
        gap_tol = MASTER * max(lowest - state.dual, self.tol * lowest, 0.0)
        alpha = maximize_on_simplex(products / lam, b, alpha, gap_tol, still=len(b))
        x = (-1.0 / lam) * (place.floats(alpha) @ planes)  # w(alpha)
        dual = max(state.dual, float(b @ alpha - 0.5 * lam * squared_norm(x)))
        return CuttingPlanesState(x, planes, b, alpha, products, best, lowest, dual)


def with_room(state: CuttingPlanesState, capacity: int) -> CuttingPlanesState:
    """The state with room for one more plane, if planes of weight 0 can be dropped; the oldest go first."""
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
