"""Prox-linear: linearise the scores, solve a convex problem, repeat. For scores that are not linear in the weights.

min_w F(w) + lam/2 ||w||^2 with F(w) = (1/n) sum_i h(g_i(w)), h convex and g smooth. About w_{k-1},

    F_eta(w; w_{k-1}) = (1/n) sum_i h(g_i(w_{k-1}) + J_i(w_{k-1}) (w - w_{k-1})) + lam/2 ||w||^2 + 1/(2 eta)
    ||w - w_{k-1}||^2

is minimised by a convex solver. With c = w_{k-1} / (1 + eta lam) and w = c + v, its quadratics are (lam + 1/eta)/2
||v||^2 plus a constant: any solver of this package that adds lam/2 ||.||^2 applies. Source: Pillutla et al.,
Algorithm 5 and section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, host, squared_norm
from reference.linearized import LinearizedObjective, linearized
from reference.objectives import StructuralHinge
from reference.optimizers.base import Algorithm, Objective, traits, value_of
from reference.weighted import Weighted

__all__ = ["ConvexModel", "ProxLinear", "ProxLinearState"]


class ConvexModel(NamedTuple):
    """F_eta(.; w), convex: the loss of the scores linearised about w (d,), and quadratics.

    With v = u - center, its quadratics are curvature/2 ||v||^2 plus a constant.
    """

    convex: StructuralHinge | Weighted | LinearizedObjective
    w: Array
    eta: float
    lam: float

    @classmethod
    def about(cls, objective: StructuralHinge | Weighted, w: Array, eta: float, lam: float) -> ConvexModel:
        """The model with the scores linearised about w."""
        return cls(linearized(objective, w, w / (1.0 + eta * lam)), w, eta, lam)

    @property
    def center(self) -> Array:
        """c = w / (1 + eta lam) (d,)."""
        return self.w / (1.0 + self.eta * self.lam)

    @property
    def curvature(self) -> float:
        """lam + 1/eta."""
        return self.lam + 1.0 / self.eta

    def value(self, v: Array, mu: float | None) -> float:
        """F_eta(center + v; w)."""
        constant = 0.5 * self.lam * squared_norm(self.w) / (1.0 + self.eta * self.lam)
        return self.convex.value_and_gradient(v, None, mu)[0] + (0.5 * self.curvature * squared_norm(v) + constant)


class ProxLinearState(NamedTuple):
    """After k steps: w_k (d,), fun = F(w_k) + lam/2 ||w_k||^2, and k.

    Of the last step: w_hat (d,), the inner solver's point; fun_hat, the objective there; report, the inner solver's.
    """

    w: Array
    fun: float
    k: int = 0
    w_hat: Array = None
    fun_hat: float = np.nan
    report: Any = None


@dataclass(frozen=True)
class ProxLinear(Algorithm):
    """Algorithm 5. inner: minimises the :class:`ConvexModel` of the k-th step, ``inner(model, k, rng) -> (v, report)``.

    v (d,) is the step from the model's center, and ``report`` anything to keep in the state. accept: "decrease", or
    "always" to take finite points where the objective grows, too (Remark 36).

    Examples
    --------
    >>> import numpy as np
    >>> from reference import LogLoss, MulticlassModel, algorithms, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])  # linear scores: the proximal point algorithm
    >>> objective = LogLoss(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]))
    >>> def inner(model, k, rng):  # argmin_v convex(v) + lam_eta/2 ||v||^2
    ...     return lbfgs(model.convex, model.w - model.center, lam=model.curvature).x, None
    >>> box = algorithms.ProxLinear(lam=0.1, eta=1.0, inner=inner)
    >>> state = box.init(objective, objective.zeros())
    >>> for _ in range(40):
    ...     state = box.epoch(objective, state, np.random.default_rng(0))
    >>> bool(np.max(np.abs(state.w - lbfgs(objective, lam=0.1, tol=1e-9).x)) < 1e-3)
    True
    """

    lam: float
    eta: float
    inner: Callable[[ConvexModel, int, np.random.Generator], tuple[Array, Any]]
    accept: str = "decrease"

    def init(self, objective: StructuralHinge | Weighted, w0: Array) -> ProxLinearState:
        return ProxLinearState(w0, regularised(objective, w0, self.lam))

    def epoch(
        self, objective: StructuralHinge | Weighted, state: ProxLinearState, rng: np.random.Generator
    ) -> ProxLinearState:
        """One step: linearise the scores, solve the convex problem, take its solution unless the objective grows."""
        model = ConvexModel.about(objective, state.w, self.eta, self.lam)  # F_eta(.; w_{k-1})
        v, report = self.inner(model, state.k + 1, rng)  # line 3: to a tolerance eps_k or for a budget
        w_hat = model.center + v
        fun_hat = regularised(objective, w_hat, self.lam)
        taken = np.isfinite(fun_hat) and (self.accept == "always" or fun_hat <= state.fun)  # line 4
        w, fun = (w_hat, fun_hat) if taken else (state.w, state.fun)
        return ProxLinearState(w, fun, state.k + 1, w_hat, fun_hat, report)


def regularised(objective: Objective, w: Array, lam: float) -> float:
    """F(w) + lam/2 ||w||^2, with the unsmoothed F of a hinge; inf if w is not finite."""
    if not np.all(np.isfinite(host(w))):
        return np.inf
    return value_of(objective, w, unsmoothed(objective)) + 0.5 * lam * squared_norm(w)


def unsmoothed(objective: Objective) -> float | None:
    """The mu that means no smoothing."""
    return 0.0 if traits(objective).hinge else None
