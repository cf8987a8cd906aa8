"""Regularizers made of the l1 and l2 norms, weighted or not, squared or not.

Source: Martins et al. 2010, section 3.1, Algorithm 2; supplement, Algorithm 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reference.arrays import Array, floats, host
from reference.prox.arguments import Point, not_empty, number, product, slack
from reference.prox.base import Ball, HalfSquaredNorm, Regularizer, ScaledNorm, indicator, l2, largest

__all__ = ["L1", "HalfSquaredL2", "L1Ball", "L2Ball", "Simplex", "SquaredL1", "WeightedSquaredL1"]


class _L1Norm(Regularizer):
    """N = ||.||_1, N* = ||.||_inf."""

    def _norm(self, point: Point) -> Array:
        return point.xp.sum(point.xp.abs(point.x), axis=-1)

    def _dual_norm(self, point: Point) -> Array:
        return largest(point.xp, point.x)


class _L2Norm(Regularizer):
    """N = N* = ||.||."""

    def _norm(self, point: Point) -> Array:
        return l2(point.xp, point.x)

    def _dual_norm(self, point: Point) -> Array:
        return l2(point.xp, point.x)


@dataclass(frozen=True)
class L1(_L1Norm, ScaledNorm):
    """tau ||x||_1, the lasso.

    prox: soft(x, s tau). conjugate: 0 if ||y||_inf <= tau, else inf; its prox clips to [-tau, tau].

    Parameters
    ----------
    tau : float >= 0

    Source
    ------
    Martins et al., section 3.1.
    """

    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        step_size = number("step_size", step_size, positive=True)
        return self.ops.soft_threshold(x, product(step_size, self.tau), out=out)

    @property
    def levels(self) -> tuple[None]:
        """One level of a tree: None stands for all single coordinates."""
        return (None,)

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        return point.xp.clip(point.x, -self.tau, self.tau)


@dataclass(frozen=True)
class SquaredL1(_L1Norm, HalfSquaredNorm):
    """(lam/2) ||x||_1^2.

    prox: one threshold for all coordinates, by selection. conjugate: ||y||_inf^2 / (2 lam).

    Parameters
    ----------
    lam : float >= 0

    Source
    ------
    Martins et al., Algorithm 2, *corrected* for x = 0 and lam = 0.
    """

    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        step_size = number("step_size", step_size, positive=True)
        return self.ops.prox_squared_l1(x, product(step_size, self.lam), out=out)


@dataclass(frozen=True)
class L1Ball(_L1Norm, Ball):
    """The indicator of {||x||_1 <= radius}.

    prox: the projection. conjugate: radius ||y||_inf.

    Parameters
    ----------
    radius : float >= 0

    Source
    ------
    Martins et al., section 3.2 ("projected subgradient with groups"); Duchi et al. 2008.
    """

    radius: float = 1.0

    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        number("step_size", step_size, positive=True)
        return self.ops.project_l1_ball(x, self.radius, out=out)

    def _project(self, x: Array, radius: float) -> Array:
        return self.ops.project_l1_ball(x, radius)


@dataclass(frozen=True)
class HalfSquaredL2(_L2Norm, HalfSquaredNorm):
    """(lam/2) ||x||^2, the ridge.

    prox: x / (1 + s lam). conjugate: ||y||^2 / (2 lam); its prox is y lam / (lam + s).

    Parameters
    ----------
    lam : float >= 0

    Source
    ------
    Martins et al., section 3.1.
    """

    def _prox(self, point: Point, step_size: float) -> Array:
        return point.x / (1.0 + product(step_size, self.lam))

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        return point.x / (1.0 + step_size / self.lam) if self.lam > 0 else point.xp.zeros_like(point.x)


@dataclass(frozen=True)
class L2Ball(_L2Norm, Ball):
    """The indicator of {||x|| <= radius}.

    prox: x min(1, radius / ||x||). conjugate: radius ||y||.

    Parameters
    ----------
    radius : float >= 0

    Source
    ------
    Martins et al., Algorithm 3, projection step; the factor is 1 at x = 0.
    """

    radius: float = 1.0

    def _project(self, x: Array, radius: float) -> Array:
        point = Point.of("x", x)
        top = largest(point.xp, x)[..., None]
        unit = x / point.xp.where(top > 0, top, point.xp.ones_like(top))
        norm = l2(point.xp, unit)[..., None]  # 0, or from 1 to sqrt(p): the norm itself may be out of range
        return point.xp.where(
            top * norm <= radius, x, unit * (radius / point.xp.where(norm > 0, norm, point.xp.ones_like(norm)))
        )


@dataclass(frozen=True)
class Simplex(Regularizer):
    """The indicator of {x >= 0, sum x = radius}.

    prox: the projection. conjugate: radius max_k y_k.

    Parameters
    ----------
    radius : float > 0

    Source
    ------
    Pillutla et al., Proposition 3; Duchi et al. 2008.
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius, positive=True))

    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        number("step_size", step_size, positive=True)
        return self.ops.project_simplex(x, self.radius, out=out)

    def _value(self, point: Point) -> Array:
        xp, x, _ = point
        not_empty("x", point)
        near = slack(point) * self.radius
        total = xp.sum(x, axis=-1) - self.radius
        return indicator(xp, xp.all(x >= -near, axis=-1) & (xp.abs(total) <= near))

    def _conjugate(self, point: Point) -> Array:
        not_empty("y", point)
        return self.radius * point.xp.max(point.x, axis=-1)

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        """y less its projection onto the simplex of radius s radius."""
        return point.x - self.ops.project_simplex(point.x, product(step_size, self.radius))


@dataclass(frozen=True, eq=False)
class WeightedSquaredL1(HalfSquaredNorm):
    """(lam/2) (sum_m d_m |x_m|)^2 with weights d >= 0; a coordinate of weight 0 is free.

    prox: sign(x_m) max(|x_m| - tau d_m, 0), by selection. conjugate: max_m (|y_m| / d_m)^2 / (2 lam), inf if y_m is not
    0 at an m with d_m = 0.

    Parameters
    ----------
    lam : float >= 0
    weights : array (p,)
        d, finite and >= 0; kept on the host, so that one regularizer works in every namespace.

    Source
    ------
    Martins et al. 2011 supplement, Algorithm 4, *corrected* for weights of 0 and x = 0.
    """

    weights: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", nonnegative_weights(self.weights))
        super().__post_init__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lam={self.lam}, weights=<{len(self.weights)} weights>)"

    def prox(self, x: Array, step_size: float = 1.0, *, out: Array | None = None) -> Array:
        step_size = number("step_size", step_size, positive=True)
        point = Point.of("x", x)
        return self.ops.prox_weighted_squared_l1(x, self._weights(point), product(step_size, self.lam), out=out)

    def _norm(self, point: Point) -> Array:
        return point.xp.sum(self._weights(point) * point.xp.abs(point.x), axis=-1)

    def _dual_norm(self, point: Point) -> Array:
        return largest(point.xp, over_weights(point.xp, point.xp.abs(point.x), self._weights(point)))

    def _weights(self, point: Point) -> Array:
        if point.x.shape[-1] != len(self.weights):
            raise ValueError(
                f"x: expected {len(self.weights)} coordinates along the last axis, one a weight, got "
                f"{point.x.shape[-1]}"
            )
        return point.send(self.weights)


def nonnegative_weights(weights: Any) -> np.ndarray:
    """Weights on the host, float64, a read-only copy."""
    (given,) = floats(weights=weights)
    values = np.array(host(given), dtype=np.float64)
    if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError(f"weights: expected a vector of finite numbers >= 0, got {values} of shape {values.shape}")
    values.flags.writeable = False
    return values


def over_weights(xp: Any, y: Array, weights: Array) -> Array:
    """y / weights for y >= 0; where a weight is 0: inf, or 0 for y = 0."""
    positive = weights > 0
    ratio = y / xp.where(positive, weights, xp.ones_like(weights))
    return xp.where(positive, ratio, xp.where(y > 0, xp.full_like(y, xp.inf), xp.zeros_like(y)))
