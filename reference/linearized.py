"""An objective whose scores are linearised about a point: the convex model of it that the prox-linear algorithm
minimises.

F(w; w_k) = (1/n) sum_i h(g_i(w_k) + J_i(w_k) (w - w_k)),   F(w) = (1/n) sum_i h(g_i(w)),
as a function of v = w - center

Source: Pillutla et al., section 6.1.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, TypeVar

from array_api_compat import array_namespace

from reference.arrays import Array, Place
from reference.models.base import LinearModel
from reference.models.nonlinear import HomogeneousModel, LinearizedModel, NonlinearModel
from reference.objectives import Corners, Linearization, StructuralHinge
from reference.smoothings import Entropy
from reference.weighted import OfObjective, Weighted

__all__ = ["LinearizedObjective", "linearized"]

O = TypeVar("O", bound=StructuralHinge | Weighted)


def linearized(
    objective: StructuralHinge | Weighted, w: Array, center: Array
) -> StructuralHinge | Weighted | LinearizedObjective:
    """v -> F(center + v; w): an objective over a linear model if the model can write out its Jacobians and the loss has
    a task loss, to which the constants are added; else a :class:`LinearizedObjective`.
    """
    whole = _whole(objective)
    if isinstance(whole.model, NonlinearModel) and whole.loss_augmented:
        explicit = whole.model.explicit(whole.data, w, center)
        if explicit is not None:
            return _with_model(objective, *explicit)
    return LinearizedObjective(objective, w, center)


class LinearizedObjective(OfObjective):
    """v -> F(center + v; w), convex, for any optimiser.

    Parameters
    ----------
    objective : StructuralHinge or LogLoss, or Weighted of one
        Its model has ``scores``, ``pushforward`` and ``pullback``. Smoothing, task loss and data are those of the
        objective.
    w : array (d,)
        The point of linearisation.
    center : array (d,), optional
        The point that v = 0 means; default w.

    Raises
    ------
    TypeError
        The argument is not an objective of this package.

    Notes
    -----
    If the model is linear, this is the objective itself, shifted by the center.

    Source
    ------
    Pillutla et al., section 6.1.
    """

    def __init__(self, objective: StructuralHinge | Weighted, w: Array, center: Array | None = None) -> None:
        whole = _whole(objective)
        model = LinearizedModel(whole.model, whole.data, w, center)
        self.affine = _with_model(objective, model)
        self.homogeneous = _with_model(objective, HomogeneousModel(model))
        self.objective, self.w, self.center = objective, model.w, model.center

    def zeros(self) -> Array:
        """v = 0 (d,), the center."""
        return self.affine.zeros()

    def value_and_gradient(self, v: Array, batch: Any = None, mu: float | None = None) -> tuple[float, Array]:
        """Mean loss over a batch and its (sub)gradient (d,); arguments and errors as
        :meth:`StructuralHinge.value_and_gradient`.
        """
        return self.affine.value_and_gradient(v, batch, mu)

    def linearize(self, v: Array, batch: Any = None, mu: float | None = None) -> Linearization:
        """As :meth:`StructuralHinge.linearize`; the task loss includes the constant of the linearised scores, as a dual
        point requires.
        """
        value, gradient, task_loss, exact = self.homogeneous.linearize(_with_one(v), batch, mu)
        return Linearization(value, gradient[:-1], task_loss + float(gradient[-1]), exact)

    def corners(self, v: Array, batch: Any = None, k: int = 1) -> Corners:
        """As :meth:`StructuralHinge.corners`; the losses include the constants."""
        return _without_one(self.homogeneous.corners(_with_one(v), batch, k))

    def sampled_corners(self, v: Array, batch: Any = None, *arguments: Any, **options: Any) -> Corners:
        """As :meth:`StructuralHinge.sampled_corners`; the losses include the constants."""
        return _without_one(self.homogeneous.sampled_corners(_with_one(v), batch, *arguments, **options))

    def smoothness(self, mu: float | None = None) -> float | None:
        """L of the smoothed losses; None except for linear models."""
        return self.affine.smoothness(mu)

    def local_smoothness(self, mu: float | None = None) -> float:
        """L where the K best outputs do not change; inf if none is known."""
        return self.affine.local_smoothness(mu)

    def width(self) -> float:
        """D such that smoothing at mu changes any example's loss by at most mu D."""
        return self.objective.width()


def _whole(objective: StructuralHinge | Weighted) -> StructuralHinge:
    """The objective without weights of examples."""
    whole = objective.objective if isinstance(objective, Weighted) else objective
    if not isinstance(whole, StructuralHinge):
        raise TypeError(f"objective: expected StructuralHinge or LogLoss, got {type(objective).__name__}")
    return whole


def _with_model(objective: O, model: LinearModel, data: Any = None, squared_diameter: float | None = None) -> O:
    """The objective with another model of its data, or of other data."""
    copied = copy.copy(objective)
    if isinstance(copied, Weighted):
        copied.objective = _with_model(copied.objective, model, data, squared_diameter)
        return copied
    for name in [name for name in vars(copied) if isinstance(getattr(type(copied), name, None), cached_property)]:
        del vars(copied)[name]
    if data is not None:  # its smoothness, if computed before
        curvature = squared_diameter / 4 if squared_diameter and isinstance(copied.smoothing, Entropy) else None
        vars(copied).update(data=data, _squared_diameter=squared_diameter, _curvature=curvature)
    copied.model, copied._like = model, model.zeros(copied.data)
    return copied


def _with_one(v: Array) -> Array:
    return array_namespace(v).concat([v, Place.of(v).floats([1.0])])


def _without_one(corners: Corners) -> Corners:
    return Corners(corners.directions[..., :-1], corners.losses + corners.directions[..., -1], corners.count)
