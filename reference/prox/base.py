"""The methods of every regularizer, and the three regularizers that a norm N gives.

    tau N(x)            conjugate: the indicator of {N*(y) <= tau}
    (lam/2) N(x)^2      conjugate: N*(y)^2 / (2 lam)
    N(x) <= radius      conjugate: radius N*(y)

with N*(y) = max {<x, y> : N(x) <= 1} the dual norm. N may be a seminorm that ignores some coordinates, those in no
group or of weight 0: then N* is inf unless y is 0 at these coordinates. Source: Martins et al. 2010, section 3.1;
supplement, section A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import device

from reference.arrays import Array
from reference.prox import selection
from reference.prox.arguments import Point, into, number, overflow_is_inf, product, slack

__all__ = ["Ball", "HalfSquaredNorm", "Regularizer", "ScaledNorm"]


class Regularizer:
    """A convex, lower semicontinuous function of the last axis of x (..., p), by its value, prox and conjugate.

    A subclass defines ``_value(point)``, ``_conjugate(point)`` and ``_prox(point, step_size)``. ``point.x`` (..., p) is
    checked and in float64, ``point.xp`` is its namespace. The other methods are derived from these; override one that
    has a closed form.
    """

    ops: Any = selection  # the module that holds the selections; the accelerated panel has its own

    @overflow_is_inf
    def value(self, x: Array) -> Array:
        """phi(x) (...,) of x (..., p); inf outside an indicator's set, with a tolerance of 4096 machine epsilons."""
        point = Point.of("x", x)
        return point.back(self._value(point))

    @overflow_is_inf
    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        """The proximity operator argmin_u step_size phi(u) + ||u - x||^2 / 2 (..., p); of an indicator, the projection.

        Parameters
        ----------
        x : array (..., p)
            Finite.
        step_size : float > 0
        out : array (..., p), optional
            Receives the result (shape, dtype and namespace of x; may be x itself).

        Returns
        -------
        array (..., p)
            ``out`` if given.

        Raises
        ------
        ValueError, TypeError
            A number of x is not finite, the step is not positive and finite, the last axis does not fit, ``out`` does
            not fit or cannot be written.
        """
        point = Point.of("x", x)
        return into(out, point.back(self._prox(point, number("step_size", step_size, positive=True))))

    @overflow_is_inf
    def conjugate(self, y: Array) -> Array:
        """phi*(y) = sup_x <x, y> - phi(x) (...,) of y (..., p); inf outside its domain, with a tolerance of 4096
        machine epsilons.
        """
        point = Point.of("y", y)
        return point.back(self._conjugate(point))

    @overflow_is_inf
    def prox_conjugate(self, y: Array, step_size: float = 1.0) -> Array:
        """argmin_v step_size phi*(v) + ||v - y||^2 / 2 (..., p), the prox of the conjugate.

        Source: Martins et al., Proposition 2 (Moreau), unless a class has a closed form.
        """
        point = Point.of("y", y)
        return point.back(self._prox_conjugate(point, number("step_size", step_size, positive=True)))

    @overflow_is_inf
    def envelope(self, x: Array, step_size: float = 1.0) -> Array:
        """The Moreau envelope min_u phi(u) + ||u - x||^2 / (2 step_size) (...,) of x (..., p)."""
        point, step_size = Point.of("x", x), number("step_size", step_size, positive=True)
        xp, x, _ = point
        p = self.prox(x, step_size)
        distance = l2(xp, x - p)
        return point.back(self.value(p) + half_square(xp, product(1.0, 1.0 / step_size), distance))

    def _value(self, point: Point) -> Array:
        raise self._lacks("_value")

    def _prox(self, point: Point, step_size: float) -> Array:
        raise self._lacks("_prox")

    def _conjugate(self, point: Point) -> Array:
        raise self._lacks("_conjugate")

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        """Moreau: y - s prox_{phi/s}(y/s)."""
        return point.x - step_size * self.prox(point.x / step_size, 1.0 / step_size)

    def __post_init__(self) -> None:
        """Check the fields. Each class checks those that it adds."""

    def _lacks(self, method: str) -> TypeError:
        return TypeError(f"{type(self).__name__} must define {method}")


class OfNorm(Regularizer):
    """A function of a norm N. A subclass defines the norm, ``_norm``, and its dual norm, ``_dual_norm``."""

    def _norm(self, point: Point) -> Array:
        raise self._lacks("_norm")

    def _dual_norm(self, point: Point) -> Array:
        raise self._lacks("_dual_norm")


@dataclass(frozen=True)
class ScaledNorm(OfNorm):
    """tau N(x), for a norm N given by ``_norm`` and ``_dual_norm``."""

    tau: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", number("tau", self.tau))
        super().__post_init__()

    def _value(self, point: Point) -> Array:
        norm = self._norm(point)
        return self.tau * norm if self.tau > 0 else point.xp.zeros_like(norm)

    def _conjugate(self, point: Point) -> Array:
        return indicator(point.xp, self._dual_norm(point) <= self.tau * (1.0 + slack(point)))

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        """The projection onto {N* <= tau} for every step: y - prox(y)."""
        return point.x - self.prox(point.x)


@dataclass(frozen=True)
class HalfSquaredNorm(OfNorm):
    """(lam/2) N(x)^2, for a norm N given by ``_norm`` and ``_dual_norm``."""

    lam: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", number("lam", self.lam))
        super().__post_init__()

    def _value(self, point: Point) -> Array:
        return half_square(point.xp, self.lam, self._norm(point))

    def _conjugate(self, point: Point) -> Array:
        dual = self._dual_norm(point)
        return (0.5 * dual / self.lam) * dual if self.lam > 0 else indicator(point.xp, dual == 0)

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        """y - prox(y, 1/s), as phi is homogeneous of degree 2."""
        return point.x - self.prox(point.x, product(1.0, 1.0 / step_size))


@dataclass(frozen=True)
class Ball(OfNorm):
    """The indicator of {N(x) <= radius}, for a norm N given by ``_norm`` and ``_dual_norm``; the prox is the
    projection.
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius))
        super().__post_init__()

    def _value(self, point: Point) -> Array:
        return indicator(point.xp, self._norm(point) <= self.radius * (1.0 + slack(point)))

    def _conjugate(self, point: Point) -> Array:
        dual = self._dual_norm(point)  # inf where y points along a direction in which the set is unbounded
        bounded = dual < math.inf
        return point.xp.where(bounded, self.radius * point.xp.where(bounded, dual, point.xp.zeros_like(dual)), dual)

    def _prox(self, point: Point, step_size: float) -> Array:
        return self._project(point.x, self.radius)

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        """y less its projection onto the ball of radius s radius."""
        return point.x - self._project(point.x, product(step_size, self.radius))

    def _project(self, x: Array, radius: float) -> Array:
        raise self._lacks("_project")


def checked_regularizer(name: str, part: Any) -> Regularizer:
    """The part of a composite. Raises TypeError if it is not a regularizer."""
    if not isinstance(part, Regularizer):
        raise TypeError(f"{name}: expected a Regularizer such as L1(1.0), got {part!r}")
    return part


def indicator(xp: Any, inside: Array) -> Array:
    """0 where inside, inf elsewhere, in float64."""
    zero = xp.astype(xp.zeros_like(inside), xp.float64)
    return xp.where(inside, zero, zero + math.inf)


def half_square(xp: Any, lam: float, norm: Array) -> Array:
    """(lam/2) norm^2 without needless overflow; 0 for lam = 0, even if the norm is inf."""
    return (0.5 * lam * norm) * norm if lam > 0 else xp.zeros_like(norm)


def largest(xp: Any, x: Array) -> Array:
    """max |x_k| along the last axis (...,), 0 if the axis is empty."""
    return xp.max(
        xp.concat([xp.abs(x), xp.zeros((*x.shape[:-1], 1), dtype=x.dtype, device=device(x))], axis=-1), axis=-1
    )


def l2(xp: Any, x: Array) -> Array:
    """||x|| along the last axis (...,), at any scale."""
    top = largest(xp, x)
    scale = xp.where(top > 0, top, xp.ones_like(top))
    return top * xp.sqrt(xp.sum((x / scale[..., None]) ** 2, axis=-1))
