"""Concave quadratics on the simplex, as :mod:`reference.optimizers.simplex` solves them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import kernel
from reference.optimizers.simplex import RIDGE, STEPS

__all__ = ["Room", "maximize_on_simplex", "simplex_room"]


class Room(NamedTuple):
    """Room for m variables: g, towards (m,); free (m,), the working set; system (m + 1, m + 2), its equations."""

    g: np.ndarray
    towards: np.ndarray
    free: np.ndarray
    system: np.ndarray


@kernel
def simplex_room(m):
    return Room(np.zeros(m), np.zeros(m), np.zeros(m, np.int64), np.zeros((m + 1, m + 2)))


@kernel
def maximize_on_simplex(Q, b, alpha, m, tol, room):
    """alpha[:m] goes to argmax <b, alpha> - <alpha, Q alpha>/2 over the simplex, to a gap of ``tol``."""
    for _ in range(STEPS * m):
        best, mean = 0, 0.0
        for j in range(m):
            room.g[j] = b[j]
            for k in range(m):
                room.g[j] -= Q[j, k] * alpha[k]
            mean += alpha[j] * room.g[j]
            best = j if room.g[j] > room.g[best] else best
        if room.g[best] - mean <= tol:
            break
        if not _newton(Q, alpha, m, best, room):
            _pair(Q, alpha, m, best, room)
        total, moves = 0.0, False
        for j in range(m):
            room.towards[j] = max(alpha[j] + room.towards[j], 0.0)
            total += room.towards[j]
        for j in range(m):
            moves |= room.towards[j] / total != alpha[j]
            alpha[j] = room.towards[j] / total
        if not moves:
            break


@kernel
def _newton(Q, alpha, m, best, room):
    """towards: the step to the best point of the working set's affine hull, cut where a weight becomes 0. Returns False
    if the step is cut to 0.
    """
    f, top = 0, 0.0
    for j in range(m):
        room.towards[j] = 0.0
        if alpha[j] > 0.0 or j == best:
            room.free[f] = j
            top = max(top, Q[j, j])
            f += 1
    if not top > 0.0:
        return False
    system = room.system
    for a in range(f):
        for c in range(f):
            system[a, c] = Q[room.free[a], room.free[c]]
        system[a, a] += RIDGE * top
        system[a, f] = system[f, a] = top
        system[a, f + 1] = room.g[room.free[a]]
    system[f, f] = system[f, f + 1] = 0.0
    _solve(system, f + 1)
    share = 1.0
    for a in range(f):
        step, weight = system[a, f + 1], alpha[room.free[a]]
        share = weight / -step if step < 0.0 and weight / -step < share else share
    if not share > 0.0:
        return False
    for a in range(f):
        step, weight = system[a, f + 1], alpha[room.free[a]]
        blocked = step < 0.0 and weight <= -share * step
        room.towards[room.free[a]] = -weight if blocked else share * step
    return True


@kernel
def _solve(system, m):
    """The last column of system (m, m + 1) becomes the solution: elimination with partial pivoting."""
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            pivot = r if abs(system[r, c]) > abs(system[pivot, c]) else pivot
        for k in range(c, m + 1):
            system[c, k], system[pivot, k] = system[pivot, k], system[c, k]
        for r in range(c + 1, m):
            factor = system[r, c] / system[c, c]
            for k in range(c + 1, m + 1):
                system[r, k] -= factor * system[c, k]
    for c in range(m - 1, -1, -1):
        for k in range(c + 1, m):
            system[c, m] -= system[c, k] * system[k, m]
        system[c, m] /= system[c, c]


@kernel
def _pair(Q, alpha, m, best, room):
    """towards: the best move of weight from the variable of smallest g that has some to the one of largest g."""
    worst = -1
    for j in range(m):
        room.towards[j] = 0.0
        if alpha[j] > 0.0 and (worst < 0 or room.g[j] < room.g[worst]):
            worst = j
    curvature = Q[best, best] + Q[worst, worst] - 2.0 * Q[best, worst]
    step = alpha[worst]
    if curvature > 0.0:
        step = min(step, (room.g[best] - room.g[worst]) / curvature)
    room.towards[best], room.towards[worst] = step, -step
