"""Projections and proxes that select coordinates above a threshold: simplex, l1 ball, l1, squared l1.

A projection, or the prox of a squared norm, sorts y = |x| (or x) in descending order, finds rho, the number of
coordinates that stay positive, and moves all coordinates by the threshold that the first rho define. The lines of the
code are the papers', in float64. Rounding decides whether a coordinate very close to the threshold becomes 0;
``accelerated`` decides it exactly.

Source: Martins et al. 2010, section 3.1, Algorithm 2; supplement, Algorithm 4; Duchi et al. 2008 for the simplex.
"""

from __future__ import annotations

from typing import Any

from reference.arrays import Array, floats, refuse_nan_and_inf, seen
from reference.prox.arguments import Point, into, not_empty, number, overflow_is_inf

__all__ = ["project_l1_ball", "project_simplex", "prox_squared_l1", "prox_weighted_squared_l1", "soft_threshold"]


@overflow_is_inf
def soft_threshold(x: Array, tau: float, *, out: Array | None = None) -> Array:
    """The prox of tau ||.||_1: every coordinate moves towards 0 by tau, but not past 0.

    soft(x, tau)_k = sign(x_k) max(|x_k| - tau, 0)

    Parameters
    ----------
    x : array (..., p)
        Finite.
    tau : float >= 0
    out : array (..., p), optional
        Receives the result (shape, dtype and namespace of x; may be x itself).

    Returns
    -------
    array (..., p)
        ``out`` if given.

    Raises
    ------
    ValueError, TypeError
        A number of x is not finite, tau is negative or not finite, ``out`` does not fit or cannot be written.

    Source
    ------
    Martins et al., section 3.1.
    """
    point, tau = Point.of("x", x), number("tau", tau)
    xp, x, _ = point
    return into(out, point.back(_soft(xp, x, tau)))


@overflow_is_inf
def project_simplex(x: Array, radius: float = 1.0, *, out: Array | None = None) -> Array:
    """The nearest point of {u >= 0, sum u = radius} along the last axis.

    u_i = max(x_i - theta, 0) with theta = (sum_{r<=rho} x_(r) - radius) / rho, where x_(1) >= x_(2) >= ... and
    rho = max {j : x_(j) > (sum_{r<=j} x_(r) - radius) / j}.

    Parameters
    ----------
    x : array (..., p), p >= 1
        Finite.
    radius : float > 0
    out : array (..., p), optional
        Receives the result (shape, dtype and namespace of x; may be x itself).

    Returns
    -------
    array (..., p)
        ``out`` if given.

    Raises
    ------
    ValueError, TypeError
        A number of x is not finite, the last axis is empty, the radius is not positive and finite, ``out`` does not
        fit or cannot be written.

    Notes
    -----
    O(p log p). Equal coordinates stay equal. Adding c to all of x changes nothing but the rounding of x + c.

    Source
    ------
    Duchi et al. 2008, Figure 1; Pillutla et al., Proposition 3.
    """
    point, radius = Point.of("x", x), number("radius", radius, positive=True)
    not_empty("x", point)
    return into(out, point.back(_simplex(point.xp, point.x, radius)))


@overflow_is_inf
def project_l1_ball(x: Array, radius: float = 1.0, *, out: Array | None = None) -> Array:
    """The nearest point of {||u||_1 <= radius} along the last axis.

    x itself if inside; otherwise sign(x) times the projection of |x| onto the simplex of that radius.

    Parameters
    ----------
    x : array (..., p)
        Finite.
    radius : float >= 0
    out : array (..., p), optional
        Receives the result (shape, dtype and namespace of x; may be x itself).

    Returns
    -------
    array (..., p)
        ``out`` if given.

    Raises
    ------
    ValueError, TypeError
        A number of x is not finite, the radius is negative or not finite, ``out`` does not fit or cannot be written.

    Notes
    -----
    O(p log p). Equal magnitudes stay equal.

    Source
    ------
    Duchi et al. 2008; Martins et al., section 3.2 ("projected subgradient with groups").
    """
    point, radius = Point.of("x", x), number("radius", radius)
    xp, x, _ = point
    inside = xp.sum(xp.abs(x), axis=-1, keepdims=True) <= radius
    if radius == 0 or x.shape[-1] == 0:
        return into(out, point.back(xp.zeros_like(x)))
    return into(out, point.back(xp.where(inside, x, xp.sign(x) * _simplex(xp, xp.abs(x), radius))))


@overflow_is_inf
def prox_squared_l1(x: Array, lam: float, *, out: Array | None = None) -> Array:
    """The prox of (lam/2) ||.||_1^2, which is not separable: one threshold for all coordinates.

    soft(x, tau) with tau = lam/(1 + rho lam) sum_{r<=rho} y_r, where y is |x| in descending order and
    rho = max {j : y_j - lam/(1 + j lam) sum_{r<=j} y_r > 0}.

    Parameters
    ----------
    x : array (..., p)
        Finite.
    lam : float >= 0
    out : array (..., p), optional
        Receives the result (shape, dtype and namespace of x; may be x itself).

    Returns
    -------
    array (..., p)
        ``out`` if given.

    Raises
    ------
    ValueError, TypeError
        A number of x is not finite, lam is negative or not finite, ``out`` does not fit or cannot be written.

    Notes
    -----
    O(p log p). Correct to a rounding of max|x| while lam ||x||_1 is in range.

    Source
    ------
    Martins et al., Algorithm 2, *corrected*: x = 0 gives 0 (the printed maximum is over an empty set), lam = 0 gives x.
    """
    point, lam = Point.of("x", x), number("lam", lam)
    xp, x, _ = point
    if x.shape[-1] == 0:
        return into(out, point.back(x + 0.0))
    y = xp.sort(xp.abs(x), axis=-1, descending=True, stable=False)  # line 2
    t = lam * xp.cumulative_sum(y, axis=-1) / (1.0 + _rank(xp, y) * lam)
    rho = _last(xp, y - t > 0)  # line 3
    tau = xp.take_along_axis(t, rho - 1, axis=-1)  # line 4
    return into(out, point.back(_soft(xp, x, tau)))


@overflow_is_inf
def prox_weighted_squared_l1(x: Array, weights: Array, lam: float, *, out: Array | None = None) -> Array:
    """The prox of (lam/2) (sum_m d_m |x_m|)^2 with weights d >= 0; a coordinate of weight 0 does not change.

    z_m = sign(x_m) max(|x_m| - tau d_m, 0) with tau = lam S_rho / (1 + lam A_rho): u = |x| / d in descending order,
    S_j = sum_{r<=j} d_r |x_r|, A_j = sum_{r<=j} d_r^2 and rho = max {j : u_(j) > lam S_j / (1 + lam A_j)}. The code
    finds rho as the j at which this fraction is largest, because rounding would decide the condition for weights 1e8
    times apart.

    Parameters
    ----------
    x : array (..., p)
        Finite.
    weights : array (p,) or (..., p)
        d, finite and >= 0; the shape of x or of its last axis.
    lam : float >= 0
    out : array (..., p), optional
        Receives the result (shape, dtype and namespace of x; may be x itself).

    Returns
    -------
    array (..., p)
        ``out`` if given.

    Raises
    ------
    ValueError, TypeError
        A number of x or weights is not finite, a weight or lam is negative, shapes do not fit, ``out`` does not fit or
        cannot be written.

    Notes
    -----
    O(p log p). Correct to a rounding of max|x| while lam sum d |x| and lam sum d^2 are in range.

    Source
    ------
    Martins et al. 2011 supplement, Algorithm 4, *corrected*: d_m = 0 (printed: a division by 0) and x = 0.
    """
    point, d = Point.of("x", x), floats(x=x, weights=weights)[1]
    xp, x, _ = point
    if tuple(d.shape) not in (tuple(x.shape), tuple(x.shape[-1:])):
        raise ValueError(f"weights: expected shape {tuple(x.shape[-1:])} or {tuple(x.shape)}, got {tuple(d.shape)}")
    refuse_nan_and_inf("weights", d, forbidden=False)
    if seen(xp.any(d < 0)):
        raise ValueError(f"weights: expected numbers >= 0, got {float(xp.min(d))}")
    lam = number("lam", lam)
    if x.shape[-1] == 0:
        return into(out, point.back(x + 0.0))
    d = xp.broadcast_to(xp.astype(d, xp.float64), x.shape)
    u = xp.where(d > 0, xp.abs(x) / xp.where(d > 0, d, xp.ones_like(d)), xp.zeros_like(x))  # weights of 0 come last
    order = xp.argsort(u, axis=-1, descending=True, stable=True)
    S, A = (xp.cumulative_sum(xp.take_along_axis(v, order, axis=-1), axis=-1) for v in (d * xp.abs(x), d * d))
    t = lam * S / (1.0 + lam * A)
    tau = xp.max(t, axis=-1, keepdims=True)  # t_rho: t_j rises up to rho and falls after it
    return into(out, point.back(_soft(xp, x, tau * d)))


def _simplex(xp: Any, x: Array, radius: float) -> Array:
    x = x - xp.max(x, axis=-1, keepdims=True)  # shifts theta only, and the sums keep the digits of the radius
    mu = xp.sort(x, axis=-1, descending=True, stable=False)
    theta = (xp.cumulative_sum(mu, axis=-1) - radius) / _rank(xp, mu)
    rho = _last(xp, mu - theta > 0)
    return xp.clip(x - xp.take_along_axis(theta, rho - 1, axis=-1), 0.0, None)


def _rank(xp: Any, y: Array) -> Array:
    """j = 1, ..., p along the last axis, in the shape of y."""
    return xp.cumulative_sum(xp.ones_like(y), axis=-1)


def _last(xp: Any, positive: Array) -> Array:
    """rho = max {j : positive_j} (..., 1); 1 where there is none, as at x = 0."""
    j = xp.cumulative_sum(xp.ones_like(positive, dtype=xp.int64), axis=-1)
    return xp.max(xp.where(positive, j, xp.ones_like(j)), axis=-1, keepdims=True)


def _soft(xp: Any, x: Array, tau: Array | float) -> Array:
    return xp.sign(x) * xp.clip(xp.abs(x) - tau, 0.0, None)
