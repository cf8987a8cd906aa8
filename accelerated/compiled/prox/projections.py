"""Thresholds of rows, applied: x, out (rows, p) float64 in C order, out may be x; tau comes from ``selection``."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.prox.selection import MAGNITUDE, PLAIN, Level, View, split_root, sums_at_root
from accelerated.compiled.reductions import maximum, plus
from accelerated.kernel import inlined, kernel

__all__ = ["ball_rows", "extents", "simplex_rows", "soft_rows", "squared_rows", "weight_extents", "weighted_rows"]

LARGE, SMALLER = 2.0**800, 2.0**-200  # numbers whose sums might overflow are scaled before they are added


@kernel
def extents(lo, hi, x, bits, largest, total):
    """largest[i] of x[i] or |x[i]|, total[i] = sum |x[i]|; not finite if a number of the row is not finite."""
    view = View(bits, 0.0)
    for i in range(lo, hi):
        largest[i], total[i] = _extent(x[i], view)


@kernel
def _extent(x, view):
    top, total = -np.inf, 0.0
    for b in range((len(x) + 4095) // 4096):
        first, size = np.uint64(4096 * b), np.uint64(min(4096, len(x) - 4096 * b))
        s = 0.0
        for e in range(size):
            top = maximum(top, np.int64(np.float64(x[first + e]).view(np.int64) & view.bits).view(np.float64))
            s = plus(s, abs(x[first + e]))
        total += s
    return top, total


@kernel
def weight_extents(lo, hi, d, least, total):
    """least[i] = min d[i], total[i] = sum d[i]."""
    for i in range(lo, hi):
        low, s = -np.inf, 0.0
        for e in range(d.shape[1]):
            low = maximum(low, -d[i, e])
            s = plus(s, d[i, e])
        least[i], total[i] = -low, s


@kernel
def soft_rows(lo, hi, x, tau, out):
    """Soft thresholds of rows. Returns a number that is not finite if an entry is not finite."""
    total = 0.0
    for i in range(lo, hi):
        for e in range(x.shape[1]):
            left = abs(x[i, e]) - tau
            total = plus(total, abs(x[i, e]))
            out[i, e] = 0.0 if left <= 0.0 else np.copysign(left, x[i, e])
    return total


@kernel
def simplex_rows(lo, hi, x, radius, largest, out):
    v = np.empty(x.shape[1])
    f = SMALLER if radius > LARGE else 1.0
    level = Level(1.0, 0.0, radius * f, -radius * f)
    for i in range(lo, hi):
        S, M = sums_at_root(_scaled(x, i, f), None, View(PLAIN, largest[i] * f), level, v, None)
        high, low = split_root(level, S, M)
        high, low = high / f, low / f
        for e in range(x.shape[1]):
            left = ((x[i, e] - largest[i]) - high) - low
            out[i, e] = left if left > 0.0 else 0.0


@kernel
def ball_rows(lo, hi, x, radius, largest, total, out):
    v = np.empty(x.shape[1])
    f = SMALLER if radius > LARGE else 1.0
    for i in range(lo, hi):
        if total[i] <= radius:
            out[i] = x[i]
            continue
        level = Level(1.0, 0.0, radius * f, -min(radius, largest[i]) * f)
        S, M = sums_at_root(_scaled(x, i, f), None, View(MAGNITUDE, largest[i] * f), level, v, None)
        high, low = split_root(level, S, M)
        _shrink(x, i, largest[i], high / f, low / f, out)


@kernel
def squared_rows(lo, hi, x, w, c, total, out):
    """The prox of (lam/2) ||x||_1^2 in each row, lam = w / c."""
    v = np.empty(x.shape[1])
    level = Level(w, c, 0.0, 0.0)
    for i in range(lo, hi):
        f = SMALLER if total[i] > LARGE else 1.0
        S, M = sums_at_root(_scaled(x, i, f), None, View(MAGNITUDE, 0.0), level, v, None)
        high, low = split_root(level, S, M)
        _shrink(x, i, 0.0, high / f, low / f, out)


@kernel
def _scaled(x, i, f):
    return x[i] if f == 1.0 else x[i] * f


@inlined
def _shrink(x, i, shift, high, low, out):
    for e in range(x.shape[1]):
        left = ((abs(x[i, e]) - shift) - high) - low
        out[i, e] = np.copysign(left, x[i, e]) if left > 0.0 else 0.0


@kernel
def weighted_rows(lo, hi, x, d, w, c, floor, out):
    """The prox of the weighted squared l1 norm in each row: d (rows, p), or (1, p) for all rows; floor (rows,)."""
    v, a = np.empty(x.shape[1]), np.empty(x.shape[1])
    for i in range(lo, hi):
        j = i if d.shape[0] > 1 else 0
        level = Level(w, c, 0.0, floor[i])
        S, M = sums_at_root(x[i], d[j], View(MAGNITUDE, 0.0), level, v, a)
        high, low = split_root(level, S, M)
        for e in range(x.shape[1]):
            product = d[j, e] * high
            left = (abs(x[i, e]) - product) - (muladd(d[j, e], high, -product) + d[j, e] * low)
            out[i, e] = np.copysign(left, x[i, e]) if left > 0.0 else 0.0
