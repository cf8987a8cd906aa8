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

from reference.arrays import Array, squared_norm
from reference.linearized import LinearizedObjective, linearized
from reference.objectives import StructuralHinge
from reference.optimizers.base import Piece
from reference.weighted import Weighted

__all__ = ["Model", "ProxLinear", "ProxLinearState"]


class Model(NamedTuple):
    """F_eta(.; w), convex: the loss of the scores linearised about w (d,), and quadratics.

    With v = u - center, its quadratics are curvature/2 ||v||^2 plus a constant.
    """

    convex: StructuralHinge | Weighted | LinearizedObjective
    w: Array
    eta: float
    lam: float

    @classmethod
    def about(cls, objective: StructuralHinge | Weighted, w: Array, eta: float, lam: float) -> Model:
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
    """After k steps: w_k (d,), k, and what the inner solver reported on the last step."""

    w: Array
    k: int = 0
    report: Any = None


@dataclass(frozen=True)
class ProxLinear(Piece):
    """Algorithm 5. inner: minimises the :class:`Model` of the k-th step, ``inner(model, k, rng) -> (v, report)``.

    v (d,) is the step from the model's center, and ``report`` anything to keep in the state.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import LogLoss, MulticlassModel, boxes, lbfgs
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])  # linear scores: the proximal point algorithm
    >>> objective = LogLoss(model, model.pack([[0], [0, 1], [1]], ["a", "b", "b"]))
    >>> def inner(model, k, rng):  # argmin_v convex(v) + lam_eta/2 ||v||^2
    ...     return lbfgs(model.convex, model.w - model.center, lam=model.curvature).x, None
    >>> box = boxes.ProxLinear(lam=0.1, eta=1.0, inner=inner)
    >>> state = box.init(objective, objective.zeros())
    >>> for _ in range(40):
    ...     state = box.epoch(objective, state, np.random.default_rng(0))
    >>> bool(np.max(np.abs(state.w - lbfgs(objective, lam=0.1, tol=1e-9).x)) < 1e-3)
    True
    """

    lam: float
    eta: float
    inner: Callable[[Model, int, np.random.Generator], tuple[Array, Any]]

    def init(self, objective: StructuralHinge | Weighted, w0: Array) -> ProxLinearState:
        return ProxLinearState(w0)

    def epoch(
        self, objective: StructuralHinge | Weighted, state: ProxLinearState, rng: np.random.Generator
    ) -> ProxLinearState:
        """One step: linearise the scores, then solve the convex problem."""
        model = Model.about(objective, state.w, self.eta, self.lam)  # F_eta(.; w_{k-1})
        v, report = self.inner(model, state.k + 1, rng)  # w_k = center + v, to a tolerance eps_k or for a budget
        return ProxLinearState(model.center + v, state.k + 1, report)
