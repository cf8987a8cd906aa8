"""Outputs in a list: the max of their scores, smoothed by entropy over all of them or by squared l2 over the k best.

``outputs`` selects the smoothing: ENTROPY, MAX, or k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelerated.kernel import kernel

__all__ = ["ENTROPY", "MAX", "Listed", "listed_room", "smooth_max"]

ENTROPY, MAX = 0, -1


class Listed(NamedTuple):
    """Room for one list: its scores; the numbers, scores and weights of the outputs that count; state (3,): how many
    outputs count, whether the weights are those over all outputs, and whether the truth is to be subtracted.
    """

    scores: np.ndarray
    rows: np.ndarray
    psi: np.ndarray
    weights: np.ndarray
    state: np.ndarray


@kernel
def listed_room(longest, outputs):
    """Room for lists of up to ``longest`` outputs."""
    room = longest if outputs == ENTROPY else abs(outputs) + 1
    return Listed(np.empty(longest), np.zeros(room, np.int64), np.empty(room), np.empty(room), np.zeros(3, np.int64))


@kernel
def smooth_max(listed, m, outputs, mu):
    """The (smoothed) max of the first m scores; ``listed`` then has its weights."""
    listed.state[:] = 1
    if outputs == ENTROPY:
        listed.state[0] = m
        return softmax(listed, m, mu)
    if outputs == MAX:
        select(listed, m, 1)
        listed.weights[0] = 1.0
        return listed.psi[0]
    number = select(listed, m, min(outputs + 1, m))
    listed.state[0] = count = min(outputs, number)
    listed.state[1] = number <= outputs or certified(listed.psi, outputs, mu)
    return project(listed, count, mu)


@kernel
def softmax(listed, m, mu):
    """mu log sum exp(scores / mu) over m scores; all of them become outputs that count."""
    top = listed.scores[0]
    for y in range(1, m):
        top = max(top, listed.scores[y])
    total = 0.0
    for y in range(m):
        listed.rows[y] = y
        listed.weights[y] = math.exp((listed.scores[y] - top) / mu)
        total += listed.weights[y]
    for y in range(m):
        listed.weights[y] /= total
    return top + mu * math.log(total)


@kernel
def select(listed, m, k):
    """Put the k best of m scores into rows and psi, in decreasing order, the first of equal scores first. Returns k."""
    count = 0
    for y in range(m):
        x = listed.scores[y]
        if count == k and not x > listed.psi[k - 1]:
            continue
        place = count if count < k else k - 1
        while place > 0 and x > listed.psi[place - 1]:
            listed.psi[place], listed.rows[place] = listed.psi[place - 1], listed.rows[place - 1]
            place -= 1
        listed.psi[place], listed.rows[place] = x, y
        count = min(count + 1, k)
    return count


@kernel
def project(listed, count, mu):
    """The max over ``count`` sorted scores smoothed by squared l2; ``weights`` become its weights."""
    top, total, tau = listed.psi[0], 0.0, 0.0
    for k in range(count):  # the support is a prefix
        z = (listed.psi[k] - top) / mu
        if not (z > -1.0 and 1.0 + (k + 1) * z > total + z):
            break
        total += z
        tau = (total - 1.0) / (k + 1)
    linear, square = 0.0, 0.0
    for k in range(count):
        z = (listed.psi[k] - top) / mu
        u = z - tau if z > tau and z > -1.0 else 0.0
        listed.weights[k] = u
        linear += u * z if u > 0 else 0.0
        square += u * u
    return top + mu * (linear + (1.0 - square) / 2)


@kernel
def certified(psi, k, mu):
    """Whether the k best give the max smoothed over all outputs: Proposition 4 of Pillutla et al., with a margin for
    rounding.
    """
    average, largest = 0.0, 0.0
    for j in range(k):
        average += (psi[j] - psi[k]) / k
        largest = max(largest, abs(psi[j]))
    return average - 2.0**-52 * ((k + 2) * average + largest) >= mu / k
