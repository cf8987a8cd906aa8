"""Projections and proxes that select coordinates above a threshold, as kernels: expected linear time, no sort.

Numbers at the threshold are decided exactly, for any lam and at any scale (``__conformance_promises__``).
Rows are checked before they are written, so that a rejected argument leaves ``out`` unchanged (except in
``soft_threshold``, which checks while it writes).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import reference.prox.selection as reference
from accelerated.arrays import like, view
from accelerated.compiled.prox.projections import (
    ball_rows,
    extents,
    simplex_rows,
    soft_rows,
    squared_rows,
    weight_extents,
    weighted_rows,
)
from accelerated.compiled.prox.selection import MAGNITUDE, PLAIN
from accelerated.mirror import mirrors
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array, floats, refuse_nan_and_inf
from reference.prox.arguments import into, number

__all__ = ["project_l1_ball", "project_simplex", "prox_squared_l1", "prox_weighted_squared_l1", "soft_threshold"]

AT_LEAST = 2**15  # numbers per thread


@mirrors(reference.soft_threshold)
def soft_threshold(x: Array, tau: float, *, out: Array | None = None) -> Array:
    rows, tau = Rows.of(x, out), number("tau", tau)
    sums = rows.each(lambda lo, hi: soft_rows(lo, hi, rows.x, tau, rows.target))
    if not math.isfinite(sum(sums)):
        refuse_nan_and_inf("x", rows.original, forbidden=False)
    return rows.result()


@mirrors(reference.project_simplex)
def project_simplex(x: Array, radius: float = 1.0, *, out: Array | None = None) -> Array:
    rows, radius = Rows.of(x, out), number("radius", radius, positive=True)
    if rows.x.shape[1] == 0:
        raise ValueError(f"x: expected at least one number along the last axis, got shape {tuple(rows.original.shape)}")
    largest, _ = rows.extents(PLAIN)
    rows.each(lambda lo, hi: simplex_rows(lo, hi, rows.x, radius, largest, rows.target))
    return rows.result()


@mirrors(reference.project_l1_ball)
def project_l1_ball(x: Array, radius: float = 1.0, *, out: Array | None = None) -> Array:
    rows, radius = Rows.of(x, out), number("radius", radius)
    largest, total = rows.extents(MAGNITUDE)
    if radius == 0:
        rows.target[...] = 0.0
    else:
        rows.each(lambda lo, hi: ball_rows(lo, hi, rows.x, radius, largest, total, rows.target))
    return rows.result()


@mirrors(reference.prox_squared_l1)
def prox_squared_l1(x: Array, lam: float, *, out: Array | None = None) -> Array:
    rows, lam = Rows.of(x, out), number("lam", lam)
    _, total = rows.extents(MAGNITUDE)
    e = max(0, math.frexp(lam)[1])
    w, c = math.ldexp(lam, -e), math.ldexp(1.0, -e)
    rows.each(lambda lo, hi: squared_rows(lo, hi, rows.x, w, c, total, rows.target))
    return rows.result()


@mirrors(reference.prox_weighted_squared_l1)
def prox_weighted_squared_l1(x: Array, weights: Array, lam: float, *, out: Array | None = None) -> Array:
    rows = Rows.of(x, out, weights)
    if not (_plain(x) and _plain(weights)):
        _, weights = floats(x=x, weights=weights)
    shape = tuple(rows.original.shape)
    if tuple(weights.shape) not in (shape, shape[-1:]):
        raise ValueError(f"weights: expected shape {shape[-1:]} or {shape}, got {tuple(weights.shape)}")
    d = view("weights", weights)
    d = d.reshape(1, -1) if d.ndim == 1 else d.reshape(rows.x.shape)
    least, total_d = np.empty(len(d)), np.empty(len(d))
    in_parallel(lambda lo, hi: weight_extents(lo, hi, d, least, total_d), _pieces(d))
    if not np.isfinite(total_d).all():
        refuse_nan_and_inf("weights", weights, forbidden=False)
    if d.size and least.min() < 0:
        raise ValueError(f"weights: expected numbers >= 0, got {least.min()}")
    lam = number("lam", lam)
    _, total = rows.extents(MAGNITUDE)
    ordinary = ((total > 2.0**-400) & (total < 2.0**400)) | (total == 0)
    if lam > 2.0**100 or (total_d > 2.0**400).any() or not ordinary.all():
        return _far_weighted(rows, d, lam)
    floor = np.zeros(len(rows.x))
    rows.each(lambda lo, hi: weighted_rows(lo, hi, rows.x, d, lam, 1.0, floor, rows.target))
    return rows.result()


def _far_weighted(rows: Rows, d: np.ndarray, lam: float) -> Array:
    """The weighted prox where products may overflow or underflow: lam = m 4^k, and x and the weights are scaled by
    powers of two.

    A weight d with lam d^2 > 2^1000 sets its coordinate to 0, but bounds tau from below by |x| / d. Up to rounding (a
    relative 2^-1000), either this is tau or the coordinate is below it.
    """
    v = np.abs(rows.x)
    factor = np.ldexp(1.0, -np.clip(np.frexp(v.max(axis=1, initial=0.0, keepdims=True))[1], -1000, None))
    v = v * factor
    m, k = math.frexp(lam)
    m, k = (m, k // 2) if k % 2 == 0 else (2.0 * m, (k - 1) // 2)
    heaviest = np.max(np.where(v > 0, d, 0.0), initial=0.0)
    j = min(max(math.frexp(heaviest)[1] + k, 0), 500) if heaviest > 0 else 0
    with np.errstate(over="ignore", under="ignore"):
        d = np.ldexp(d, k - j)
        heavy = d > 1.0
        bounds = np.where(heavy, v / np.where(heavy, d, 1.0), 0.0)
    floor = bounds.max(axis=1, initial=0.0) * (1.0 + 1e-15)
    z, x, light = np.empty_like(v), rows.x * factor, np.where(heavy, 0.0, d)
    rows.each(lambda lo, hi: weighted_rows(lo, hi, x, light, m, math.ldexp(1.0, -2 * j), floor, z))
    rows.target[...] = np.where(d == 0, rows.x, np.where(heavy, 0.0, z / factor))
    return rows.result()


class Rows(NamedTuple):
    """An argument (..., p) as a matrix of float64 in C order, and the matrix that receives the answer."""

    original: Array
    x: np.ndarray
    target: np.ndarray
    out: Array | None
    in_place: bool  # whether target is out

    @classmethod
    def of(cls, x: Any, out: Array | None, *others: Any) -> Rows:
        if not _plain(x):
            (x,) = floats(x=x)
        if x.ndim == 0:
            raise ValueError("x: expected shape (..., p), got ()")
        numbers = view("x", x)
        shape = (math.prod(numbers.shape[:-1]), numbers.shape[-1])
        in_place = _writable(out, x, numbers, others)
        target: Any = out if in_place else np.empty(numbers.shape)
        return cls(x, numbers.reshape(shape), target.reshape(shape), out, in_place)

    def extents(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """The largest and the sum of magnitudes of each row. Raises ValueError for numbers that are not finite."""
        largest, total = np.empty(len(self.x)), np.empty(len(self.x))
        self.each(lambda lo, hi: extents(lo, hi, self.x, bits, largest, total))
        if not np.isfinite(total).all():
            refuse_nan_and_inf("x", self.original, forbidden=False)
        return largest, total

    def each(self, work: Callable[[int, int], Any]) -> list[Any]:
        """``work(lo, hi)`` over ranges of rows, on several threads if there are many numbers."""
        return in_parallel(work, _pieces(self.x))

    def result(self) -> Array:
        """The written matrix, in the namespace and dtype of the argument, and in ``out`` if given."""
        if self.in_place:
            return self.out
        return into(self.out, like(self.target.reshape(self.original.shape), self.original))


def _pieces(x: np.ndarray) -> list[tuple[int, int]]:
    if x.size < 2 * AT_LEAST or len(x) == 1:
        return [(0, len(x))]
    return ranges(np.arange(len(x) + 1) * x.shape[1], at_least=AT_LEAST)


def _plain(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float64


def _writable(out: Any, x: Array, numbers: np.ndarray, others: tuple[Any, ...]) -> bool:
    """Whether a kernel may write into ``out`` directly: it is like the answer and overlaps nothing but x itself."""
    if not (_plain(out) and _plain(x) and out.shape == x.shape and out.flags.c_contiguous and out.flags.writeable):
        return False
    if any(isinstance(other, np.ndarray) and np.may_share_memory(out, other) for other in others):
        return False
    return out is x or not np.may_share_memory(out, numbers)
