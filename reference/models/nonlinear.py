"""Models whose scores are a smooth function of the weights, and their linearisations about a point.

A nonlinear model has the methods of a linear one, and ``pushforward``, the Jacobian of its scores at w times dw. Its
``pullback`` is the adjoint of that. About a point w_k, scores are replaced by

    g(w_k) + J(w_k) (w - w_k),   w = center + v

which is affine in v. Source: Pillutla et al., section 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place
from reference.models.base import LinearModel
from reference.structures.scores import Scores, add, inner

__all__ = ["Delegating", "HomogeneousModel", "LinearizedModel", "NonlinearModel", "is_linear"]


class NonlinearModel(LinearModel):
    """A model whose scores are continuously differentiable in the weights; subclass it for a new one.

    A subclass defines the methods that one of :class:`LinearModel` does, with ``pullback(data, batch, w, g)`` the
    adjoint of the Jacobian at w, and ``pushforward(data, batch, w, dw)``, the Jacobian times dw.
    :meth:`value_and_pushforward` and :meth:`value_and_pullback` are for models that compute both at little more than
    the cost of one.
    """

    def pushforward(self, data: Any, batch: np.ndarray, w: Array, dw: Array) -> Scores:
        """The Jacobian of the scores at w times dw (d,)."""
        raise TypeError(f"{type(self).__name__} must define pushforward(data, batch, w, dw)")

    def value_and_pushforward(self, data: Any, batch: np.ndarray, w: Array, dw: Array) -> tuple[Scores, Scores]:
        """The scores at w, and their Jacobian there times dw (d,)."""
        return self.scores(data, batch, w), self.pushforward(data, batch, w, dw)

    def value_and_pullback(self, data: Any, batch: np.ndarray, w: Array, g: Scores) -> tuple[Scores, Array]:
        """The scores at w, and the adjoint of their Jacobian there at g, a gradient (d,)."""
        return self.scores(data, batch, w), self.pullback(data, batch, w, g)

    def cached_at(self, data: Any, w: Array) -> NonlinearModel:
        """The model for many calls at one point w (d,): the model itself, or one that caches its results there."""
        return self

    def explicit(self, data: Any, w: Array, center: Array) -> tuple[Any, Any, float] | None:
        """The model linearised about w (d,) with its Jacobians written out, or None (here: always).

        A linear model in v, where weights are center + v; data for it, whose task loss includes the constants of the
        linearised scores, less that of the true output; and a bound on the squared diameter of any example's features.
        """
        return None


class Delegating(LinearModel):
    """A model that delegates everything but scores and gradients to another model."""

    def __init__(self, model: LinearModel) -> None:
        self.model, self.structure_type, self.size = model, model.structure_type, model.size

    def check(self, data: Any) -> None:
        self.model.check(data)

    def zeros(self, data: Any) -> Array:
        return self.model.zeros(data)

    def chunks(self, data: Any, batch: np.ndarray) -> Iterator[np.ndarray]:
        return self.model.chunks(data, batch)

    def task_loss(self, data: Any, batch: np.ndarray) -> Scores:
        return self.model.task_loss(data, batch)

    def gold(self, data: Any, batch: np.ndarray) -> Scores:
        return self.model.gold(data, batch)

    def counts(self, data: Any) -> list[int]:
        return self.model.counts(data)

    def _split(self, data: Any, piece: np.ndarray, outputs: Any) -> Sequence[Any]:
        return self.model._split(data, piece, outputs)


class LinearizedModel(Delegating):
    """A model linearised about w_k: scores g(w_k) + J(w_k) (center + v - w_k), affine in its weights v.

    Parameters
    ----------
    model : model with ``scores``, ``pushforward`` and ``pullback``
    data : packed data
        The data that it will be evaluated on.
    w : array (d,)
        The point w_k.
    center : array (d,), optional
        The point that v = 0 means; default w_k.
    """

    def __init__(self, model: LinearModel, data: Any, w: Array, center: Array | None = None) -> None:
        super().__init__(model)
        self.w, self.center = w, w if center is None else center
        self.at_w: LinearModel = model.cached_at(data, w) if isinstance(model, NonlinearModel) else model
        self.offset = self.center - w

    def scores(self, data: Any, batch: np.ndarray, v: Array) -> Scores:
        """The scores of a piece of a batch at v (d,)."""
        if is_linear(self.model):
            return self.model.scores(data, batch, self.center + v)
        value, slope = _value_and_pushforward(self.at_w, data, batch, self.w, self.offset + v)
        return add(value, slope)

    def pushforward(self, data: Any, batch: np.ndarray, v: Array, dv: Array) -> Scores:
        """J(w_k) dv, for any v."""
        return self.at_w.pushforward(data, batch, self.w, dv)

    def pullback(self, data: Any, batch: np.ndarray, v: Array, g: Scores) -> Array:
        """The adjoint of :meth:`pushforward`, a gradient (d,)."""
        return self.at_w.pullback(data, batch, self.w, g)

    def squared_diameters(self, data: Any) -> np.ndarray | None:
        """The model's own where it is linear."""
        return self.model.squared_diameters(data) if is_linear(self.model) else None

    def squared_norms(self, data: Any) -> np.ndarray | None:
        """The model's own where it is linear."""
        return self.model.squared_norms(data) if is_linear(self.model) else None


class HomogeneousModel(Delegating):
    """A linearised model with an additional weight t, that of the constant: scores t [g(w_k) + J(w_k) (center - w_k)] +
    J(w_k) v at (v, t).

    They are linear in (v, t), and equal the linearised model's at t = 1. Planes and dual points of the linearised
    problem are therefore planes and dual points of this one: the last entry of a gradient (d + 1,) belongs to the
    constant.
    """

    def __init__(self, linearized: LinearizedModel) -> None:
        super().__init__(linearized.model)
        self.linearized, self.size = linearized, linearized.size + 1

    def zeros(self, data: Any) -> Array:
        """Weights of zero (d + 1,)."""
        zeros = self.model.zeros(data)
        return Place.of(zeros).zeros((self.size,))

    def scores(self, data: Any, batch: np.ndarray, v: Array) -> Scores:
        """The scores of a piece of a batch at (v, t) (d + 1,)."""
        point, t = self.linearized, float(v[-1])
        if is_linear(point.model):
            return point.model.scores(data, batch, t * point.center + v[:-1])
        value, slope = _value_and_pushforward(point.at_w, data, batch, point.w, t * point.offset + v[:-1])
        return add(slope, value, t) if t != 1 else add(value, slope)

    def pullback(self, data: Any, batch: np.ndarray, v: Array, g: Scores) -> Array:
        """The adjoint, a gradient (d + 1,)."""
        point = self.linearized
        if is_linear(point.model):
            gradient = point.model.pullback(data, batch, point.center, g)
            constant = inner(point.model.scores(data, batch, point.center), g)
        else:
            value, gradient = _value_and_pullback(point.at_w, data, batch, point.w, g)
            constant = inner(value, g) + inner(point.offset, gradient)
        return array_namespace(gradient).concat([gradient, Place.of(gradient).floats([constant])])


def is_linear(model: LinearModel) -> bool:
    """Whether the model declares its scores linear: their Jacobian is the scores themselves."""
    return getattr(type(model), "pushforward", None) is LinearModel.pushforward


def _value_and_pushforward(
    model: LinearModel, data: Any, batch: np.ndarray, w: Array, dw: Array
) -> tuple[Scores, Scores]:
    if isinstance(model, NonlinearModel):
        return model.value_and_pushforward(data, batch, w, dw)
    return model.scores(data, batch, w), model.pushforward(data, batch, w, dw)


def _value_and_pullback(model: LinearModel, data: Any, batch: np.ndarray, w: Array, g: Scores) -> tuple[Scores, Array]:
    if isinstance(model, NonlinearModel):
        return model.value_and_pullback(data, batch, w, g)
    return model.scores(data, batch, w), model.pullback(data, batch, w, g)
