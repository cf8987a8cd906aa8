"""Regularizers of the l2 norms of disjoint groups, such as the group lasso and multiple kernel learning.

Each is psi(||x_1||, ..., ||x_K||), and its prox scales group k by b_k / n_k with n_k = ||x_k|| and b = prox_psi(n).

Source: Martins et al. 2010, Proposition 1, *corrected*: psi must be even in each coordinate
(or be restricted to u >= 0), and a group of norm 0 stays 0, where the printed b_k / n_k is 0/0.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from reference.arrays import Array, seen
from reference.prox.arguments import Point, number, product
from reference.prox.base import (
    Ball,
    HalfSquaredNorm,
    Regularizer,
    ScaledNorm,
    checked_regularizer,
    half_square,
    indicator,
    l2,
    largest,
)
from reference.prox.groups import Groups
from reference.prox.norms import nonnegative_weights, over_weights

__all__ = ["L21", "ElasticNet", "ElasticNetMKL", "L21Ball", "NonSparseMKL", "SquaredL21"]


@dataclass(frozen=True, eq=False)
class _Grouped(Regularizer):
    """N = sum_k ||x_k||, N* = max_k ||y_k||, inf where y is not 0 outside the groups."""

    groups: Any

    def __post_init__(self) -> None:
        groups = self.groups if isinstance(self.groups, Groups) else Groups(self.groups)
        object.__setattr__(self, "groups", groups)
        super().__post_init__()

    def _norm(self, point: Point) -> Array:
        return point.xp.sum(self.groups.norms(point), axis=-1)

    def _dual_norm(self, point: Point) -> Array:
        return _unless_free(self.groups, point, largest(point.xp, self.groups.norms(point)))

    def _with_norms(self, point: Point, norms: Array, b: Array) -> Array:
        """Proposition 1: group k scaled by b_k / n_k, 0 where n_k = 0."""
        xp = point.xp
        factors = xp.where(norms > 0, b / xp.where(norms > 0, norms, xp.ones_like(norms)), xp.zeros_like(norms))
        return self.groups.scale(point, factors)


def _unless_free(groups: Groups, point: Point, value: Array) -> Array:
    """The value (...,), inf where y is not 0 at a coordinate that is in no group."""
    return value + indicator(point.xp, largest(point.xp, groups.free(point)) == 0)


@dataclass(frozen=True, eq=False)
class L21(_Grouped, ScaledNorm):
    """tau sum_k w_k ||x_k||, the group lasso.

    prox: x_k max(0, 1 - s tau w_k / ||x_k||). conjugate: 0 if ||y_k|| <= tau w_k for all k (and y = 0 outside the
    groups), else inf.

    Parameters
    ----------
    tau : float >= 0
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group is free.
    weights : array (K,), optional
        w, finite and >= 0; default 1.

    Source
    ------
    Martins et al., section 3.2 ("truncated subgradient with groups").
    """

    _: KW_ONLY
    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = nonnegative_weights(np.ones(len(self.groups)) if self.weights is None else self.weights)
        if len(weights) != len(self.groups):
            raise ValueError(f"weights: expected {len(self.groups)} numbers, one a group, got {len(weights)}")
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(tau={self.tau}, groups={self.groups!r}, weights=<{len(self.weights)} weights>)"

    @property
    def levels(self) -> tuple[Groups, ...]:
        """The groups, as one level of a tree."""
        return (self.groups,)

    def _prox(self, point: Point, step_size: float) -> Array:
        norms = self.groups.norms(point)
        threshold = product(step_size, self.tau) * point.send(self.weights)
        return self._with_norms(point, norms, point.xp.clip(norms - threshold, 0.0, None))

    def _norm(self, point: Point) -> Array:
        return point.xp.sum(point.send(self.weights) * self.groups.norms(point), axis=-1)

    def _dual_norm(self, point: Point) -> Array:
        ratios = over_weights(point.xp, self.groups.norms(point), point.send(self.weights))
        return _unless_free(self.groups, point, largest(point.xp, ratios))


@dataclass(frozen=True, eq=False)
class SquaredL21(_Grouped, HalfSquaredNorm):
    """(lam/2) (sum_k ||x_k||)^2, the regularizer of multiple kernel learning.

    prox: Proposition 1 with the prox of (lam/2) ||.||_1^2 on the norms. conjugate: max_k ||y_k||^2 / (2 lam), inf if y
    is not 0 outside the groups.

    Parameters
    ----------
    lam : float >= 0
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group is free.

    Source
    ------
    Martins et al., equation (7), Proposition 1 and Algorithm 2, *corrected* for groups of norm 0.

    Examples
    --------
    >>> SquaredL21(1.0, [[0, 1], [2]]).prox([3.0, 4.0, 1.0]).tolist()
    [1.5, 2.0, 0.0]
    """

    def _prox(self, point: Point, step_size: float) -> Array:
        norms = self.groups.norms(point)
        return self._with_norms(point, norms, self.ops.prox_squared_l1(norms, product(step_size, self.lam)))


@dataclass(frozen=True, eq=False)
class L21Ball(_Grouped, Ball):
    """The indicator of {sum_k ||x_k|| <= radius}.

    prox: the projection, by Proposition 1 from the l1 ball. conjugate: radius max_k ||y_k||, inf if y is not 0 outside
    the groups.

    Parameters
    ----------
    radius : float >= 0
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group is free.

    Source
    ------
    Martins et al., section 3.2 ("projected subgradient with groups").
    """

    def _project(self, x: Array, radius: float) -> Array:
        point = Point.of("x", x)
        norms = self.groups.norms(point)
        return self._with_norms(point, norms, self.ops.project_l1_ball(norms, radius))


@dataclass(frozen=True, eq=False)
class NonSparseMKL(Regularizer):
    """(lam/2) sum_k ||x_k||^q, multiple kernel learning that keeps every kernel for q > 1.

    prox: ||u_k|| solves u + (s lam q/2) u^(q-1) = ||x_k|| (for q = 1 a soft threshold at s lam/2). conjugate: sum_k of
    (1 - 1/q) t r with t = ||y_k|| and r = (2t / (lam q))^(1/(q-1)); for q = 1, 0 if all t <= lam/2, else inf.

    Parameters
    ----------
    lam : float >= 0
    q : float >= 1
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group is free.

    Notes
    -----
    With u = ||x_k|| e^v and c = (s lam q/2) ||x_k||^(q-2) the equation is log(e^v + c e^((q-1)v)) = 0, convex and
    increasing in v. Newton's method from v = min(0, -log(c)/(q-1)), where the left side is in [0, log 2], therefore
    decreases to the root without overshooting, for every q > 1 and at every scale. It needs no other safeguard.

    Source
    ------
    Martins et al., section 3.2 ("other variants"), *corrected*: the printed equation has lam eta q, but R = (1/2) sum
    ||.||^q gives half of that.
    """

    lam: float
    q: float
    groups: Any
    _l21: L21 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", number("lam", self.lam))
        object.__setattr__(self, "q", number("q", self.q))
        if self.q < 1:
            raise ValueError(f"q: expected a finite number >= 1, got {self.q}")
        object.__setattr__(self, "_l21", L21(0.5 * self.lam, self.groups))
        object.__setattr__(self, "groups", self._l21.groups)

    def _value(self, point: Point) -> Array:
        norms = self.groups.norms(point)
        scaled = product(0.5, self.lam) ** (1.0 / self.q) * norms if self.lam > 0 else point.xp.zeros_like(norms)
        return point.xp.sum(scaled**self.q, axis=-1)

    def _prox(self, point: Point, step_size: float) -> Array:
        half = product(step_size, product(0.5, self.lam))
        if self.q == 1 or half == 0:
            return self._l21.prox(point.x, step_size)
        norms = self.groups.norms(point)
        return self.groups.scale(point, _power_shrinkage(point.xp, norms, half, self.q))

    def _conjugate(self, point: Point) -> Array:
        if self.q == 1 or self.lam == 0:
            return self._l21.conjugate(point.x)
        t = self.groups.norms(point)
        r = (t / (product(0.5, self.lam) * self.q)) ** (1.0 / (self.q - 1.0))
        return _unless_free(self.groups, point, point.xp.sum((1.0 - 1.0 / self.q) * t * r, axis=-1))


def _power_shrinkage(xp: Any, n: Array, half: float, q: float) -> Array:
    """u / n for the root u of u + half q u^(q-1) = n, with q > 1 and half > 0; 0 for n = 0."""
    log_n = xp.log(xp.where(n > 0, n, xp.ones_like(n)))
    log_c = math.log(half) + math.log(q) + (q - 2.0) * log_n
    v = xp.minimum(xp.zeros_like(n), -log_c / (q - 1.0))
    for _ in range(100):
        linear, power = v, log_c + (q - 1.0) * v
        total = xp.logaddexp(linear, power)
        slope = xp.exp(linear - total) + (q - 1.0) * xp.exp(power - total)
        step = total / slope
        v = v - step
        if seen(~xp.any(xp.abs(step) > 1e-16 * (1.0 + xp.abs(v)))):
            break
    return xp.where(n > 0, xp.exp(v), xp.zeros_like(n))


@dataclass(frozen=True, eq=False)
class ElasticNet(Regularizer):
    """R(x) + (sigma/2) ||x||^2, a regularizer made strongly convex.

    prox: prox_R(x / (1 + s sigma), s / (1 + s sigma)). conjugate: R*(y - sigma u) + (sigma/2) ||u||^2 at
    u = prox_R(y / sigma, 1 / sigma), so that y - sigma u is the prox of sigma R* at y; R*(y) for sigma = 0.

    Parameters
    ----------
    part : Regularizer
        R: ``L1`` for the elastic net, ``L21`` for the elastic net of kernels, ``SquaredL21`` for multiple kernel
        learning with a quadratic term.
    sigma : float >= 0

    Source
    ------
    Martins et al., section 3.3 and Proposition 8.3; Tomioka and Suzuki 2010.
    """

    part: Any
    sigma: float

    def __post_init__(self) -> None:
        checked_regularizer("part", self.part)
        object.__setattr__(self, "sigma", number("sigma", self.sigma))

    def _value(self, point: Point) -> Array:
        return self.part.value(point.x) + half_square(point.xp, self.sigma, l2(point.xp, point.x))

    def _prox(self, point: Point, step_size: float) -> Array:
        scale = 1.0 + product(step_size, self.sigma)
        return self.part.prox(point.x / scale, product(step_size, 1.0 / scale))

    def _conjugate(self, point: Point) -> Array:
        if self.sigma == 0:
            return self.part.conjugate(point.x)
        u = self.part.prox(point.x / self.sigma, product(1.0, 1.0 / self.sigma))
        square = half_square(point.xp, self.sigma, l2(point.xp, u))
        rest = self.part.conjugate(self.part.prox_conjugate(point.x, self.sigma))
        return rest + point.xp.where(rest > -point.xp.inf, square, point.xp.zeros_like(square))


@dataclass(frozen=True, eq=False)
class ElasticNetMKL(ElasticNet):
    """tau sum_k ||x_k|| + (sigma/2) ||x||^2, the elastic net of kernels.

    prox: the group lasso's, divided by 1 + s sigma. conjugate: sum_k max(||y_k|| - tau, 0)^2 / (2 sigma), and
    y^2 / (2 sigma) outside the groups; the group lasso's for sigma = 0.

    Parameters
    ----------
    tau : float >= 0
    sigma : float >= 0
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group has only the quadratic term.

    Source
    ------
    Martins et al., section 3.3; Tomioka and Suzuki 2010.
    """

    def __init__(self, tau: float, sigma: float, groups: Any) -> None:
        object.__setattr__(self, "part", L21(tau, groups))
        object.__setattr__(self, "sigma", sigma)
        self.__post_init__()

    def _conjugate(self, point: Point) -> Array:
        if self.sigma == 0:
            return self.part.conjugate(point.x)
        norm = l2(point.xp, self.part.prox(point.x))
        return (0.5 * norm / self.sigma) * norm
