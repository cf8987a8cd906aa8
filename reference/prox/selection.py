"""Projections and proxes that select coordinates above a threshold: simplex, l1 ball, l1, squared l1.

Each sorts y = |x| (or x) in descending order, finds how many coordinates rho stay positive, and moves those down by
one threshold. All are decided through the excess of the j largest over the j-th,

    E_j = sum_{r<=j} (y_(r) - y_(j)) = sum_{r<j} r (y_(r) - y_(r+1)),

a sum of numbers >= 0: nothing cancels, so an offset of 1e16 does no harm, and integers are decided exactly. The
survivors are (y_j - y_(rho)) + least, with the least of them in closed form.

Source: Martins et al. 2010, section 3.1, Algorithm 2; supplement, Algorithm 4; Duchi et al. 2008 for the simplex.
"""

from __future__ import annotations

import math
from typing import Any

from reference.arrays import Array, floats, refuse_nan_and_inf, seen, take_last
from reference.prox.arguments import Point, into, not_empty, number, overflow_is_inf

__all__ = ["project_l1_ball", "project_simplex", "prox_squared_l1", "prox_weighted_squared_l1", "soft_threshold"]


@overflow_is_inf
def soft_threshold(x: Array, tau: float, *, out: Array | None = None) -> Array:
    """The prox of tau ||.||_1: every coordinate moves by tau towards 0 and stops there.

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
    return into(out, point.back(x - xp.clip(x, -tau, tau)))


@overflow_is_inf
def project_simplex(x: Array, radius: float = 1.0, *, out: Array | None = None) -> Array:
    """The nearest point of {u >= 0, sum u = radius} along the last axis.

    u_i = max(x_i - theta, 0) with sum u = radius; the j-th largest stays positive iff E_j < radius, and the least of
    the rho that do is (radius - E_rho) / rho.

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
    O(p log p) by sorting; in ``accelerated`` expected O(p) by selection. Equal coordinates stay equal.

    Source
    ------
    Duchi et al. 2008; Pillutla et al., Proposition 3.
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
    O(p log p) by sorting; in ``accelerated`` expected O(p) by selection. Equal magnitudes stay equal.

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

    soft(x, tau) with tau = lam ||soft(x, tau)||_1; the j-th largest magnitude y_(j) stays positive iff
    lam E_j < y_(j), and the least of the rho that do becomes (y_(rho) - lam E_rho) / (1 + lam rho).

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
    O(p log p) by sorting; in ``accelerated`` expected O(p) by selection.
    The condition is the paper's y_j > lam/(1 + j lam) sum_{r<=j} y_r, rearranged.

    Source
    ------
    Martins et al., Algorithm 2, *corrected*: x = 0 gives 0 (the printed maximum is over an empty set), lam = 0 gives x.
    """
    point, lam = Point.of("x", x), number("lam", lam)
    xp, x, _ = point
    if lam == 0 or x.shape[-1] == 0:
        return into(out, point.back(x + 0.0))
    scale = _safe_scale(xp, x)
    a = xp.abs(x) * scale
    y = xp.sort(a, axis=-1, descending=True, stable=False)
    E = _excess(xp, y)
    left = _minus_product(y, lam, E)
    rho = _at_least_one(xp, left > 0)
    pivot, left = (take_last(xp, v, rho - 1)[..., None] for v in (y, left))
    least = left / (1.0 + lam * xp.astype(rho, xp.float64)[..., None])
    return into(out, point.back(xp.sign(x) * _survivors(xp, a, pivot, least) / scale))


@overflow_is_inf
def prox_weighted_squared_l1(x: Array, weights: Array, lam: float, *, out: Array | None = None) -> Array:
    """The prox of (lam/2) (sum_m d_m |x_m|)^2 with weights d >= 0; a coordinate of weight 0 is left alone.

    z_m = sign(x_m) max(|x_m| - tau d_m, 0) with tau = lam sum_m d_m |z_m|. With u_m = |x_m| / d_m in descending order and
    A_j = sum_{r<=j} d_r^2, the excess is E_j = sum_{r<=j} d_r^2 (u_(r) - u_(j)) = sum_{r<j} A_r (u_(r) - u_(r+1)); the
    j-th stays positive iff lam E_j < u_(j), which is |x_j| > lam (d_j S_j - |x_j| A_j) with S_j = sum_{r<=j} d_r |x_r|.

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
    O(p log p) by sorting; in ``accelerated`` expected O(p) by selection.
    Weights below 2^-400 / sqrt(lam) count as 0 and those above 2^200 / sqrt(lam) as that, which moves the result by less
    than a rounding of max|x|.

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
    if lam == 0 or x.shape[-1] == 0:
        return into(out, point.back(x + 0.0))
    m, k = _as_power_of_four(lam)  # lam = m 4^k: 2^k goes into the weights, exactly
    d = xp.clip(xp.broadcast_to(xp.astype(d, xp.float64), x.shape) * 2.0**k, None, 2.0**200)
    weighted = d >= 2.0**-400
    scale = _safe_scale(xp, x)
    a = xp.abs(x) * scale
    u = xp.where(weighted, a / xp.where(weighted, d, xp.ones_like(d)), xp.full_like(d, -1.0))
    order = xp.argsort(u, axis=-1, descending=True, stable=True)
    u_, a_, d_ = (xp.take_along_axis(v, order, axis=-1) for v in (u, a, xp.where(weighted, d, xp.zeros_like(d))))
    # S and A of the coordinates before each: its own drop out of d E = d S - a A, and would hide the others in it
    S, A = (xp.cumulative_sum(d_ * v, axis=-1, include_initial=True)[..., :-1] for v in (a_, d_))
    left = _minus_product(a_, m, d_ * S - a_ * A) / xp.where(
        d_ > 0, d_, xp.ones_like(d_)
    )  # products: exact for integers
    A = A + d_ * d_
    rho = _at_least_one(xp, (left > 0) & (d_ > 0))
    pivot, left, A = (take_last(xp, v, rho - 1)[..., None] for v in (u_, left, A))
    least = xp.clip(left, 0.0, None) / (1.0 + m * A)
    z = xp.where(u >= pivot, xp.clip(a - d * pivot, 0.0, None) + d * least, xp.zeros_like(a))
    return into(out, point.back(xp.where(weighted, xp.sign(x) * z / scale, x)))


def _as_power_of_four(lam: float) -> tuple[float, int]:
    """lam = m 4^k with m in [1/2, 2)."""
    m, e = math.frexp(lam)
    return (m, e // 2) if e % 2 == 0 else (2.0 * m, (e - 1) // 2)


def _simplex(xp: Any, x: Array, radius: float) -> Array:
    y = xp.sort(x, axis=-1, descending=True, stable=False)
    E = _excess(xp, y)
    rho = _at_least_one(xp, radius > E)
    pivot = take_last(xp, y, rho - 1)[..., None]
    least = (radius - take_last(xp, E, rho - 1)[..., None]) / xp.astype(rho, xp.float64)[..., None]
    return _survivors(xp, x, pivot, least)


def _excess(xp: Any, y: Array) -> Array:
    """E_j (..., p) for y descending."""
    rank = xp.cumulative_sum(xp.ones_like(y[..., 1:]), axis=-1)
    return xp.cumulative_sum(rank * (y[..., :-1] - y[..., 1:]), axis=-1, include_initial=True)


def _minus_product(y: Array, lam: float, E: Array) -> Array:
    """y - lam E in two halves of lam, so that integers E below 2^26 and their ties are decided exactly for any lam."""
    m, e = math.frexp(lam)
    high = math.ldexp(math.floor(m * 2.0**27), e - 27)
    return (y - high * E) - (lam - high) * E


def _at_least_one(xp: Any, positive: Array) -> Array:
    """How many coordinates (...,) stay positive; one where none does (all are 0)."""
    return xp.clip(xp.sum(xp.astype(positive, xp.int64), axis=-1), 1, None)


def _survivors(xp: Any, y: Array, pivot: Array, least: Array) -> Array:
    """(y - pivot) + least from the pivot upwards, 0 below."""
    return xp.where(y >= pivot, (y - pivot) + least, xp.zeros_like(y))


def _safe_scale(xp: Any, x: Array) -> Array:
    """A power of two for each row (..., 1) that keeps products of x with weights in range; 1 for ordinary rows."""
    top = xp.max(xp.abs(x), axis=-1, keepdims=True)
    down, up = xp.full_like(top, 2.0**-600), xp.full_like(top, 2.0**600)
    return xp.where(top > 2.0**424, down, xp.where(top < 2.0**-424, up, xp.ones_like(top)))
