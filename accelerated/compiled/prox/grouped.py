"""Proxes of functions of group norms, one after another, on the norms n (K + 1,) of disjoint parts; the last part has
the weights in no group.

A group of an operation is a union of parts, and its prox scales them all: n changes in place, and part a is scaled by
the ratio.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import inlined, kernel

__all__ = ["BALL", "POWER", "RIDGE", "SQUARE", "SUM", "SUM_BALL", "Proxes", "shrink_norms"]

RIDGE, SUM, SQUARE, POWER, SUM_BALL, BALL = range(6)


class Proxes(NamedTuple):
    """Operation o has g = gamma / (1 + gamma damp[o]), and N_k are the norms of its groups:

    RIDGE: every part / (1 + g weight). SUM: prox of g weight sum_k w_k N_k. SQUARE: of g weight/2 (sum_k N_k)^2. POWER:
    of g weight/2 sum_k N_k^power. SUM_BALL: projection onto sum_k N_k <= weight. BALL: onto ||.|| <= weight. member (O,
    K + 1): a part's group, -1 for none; groups (O,): the number of groups; alike (O,): whether group k is part k;
    weights (O, most): w.
    """

    kind: np.ndarray
    weight: np.ndarray
    damp: np.ndarray
    power: np.ndarray
    member: np.ndarray
    groups: np.ndarray
    alike: np.ndarray
    weights: np.ndarray


@kernel
def shrink_norms(proxes, gamma, n, before, after, levels):
    """n becomes the norms after all operations. before, after (most,): room; levels (O,): the last threshold of each
    operation, where the search for the next one starts.
    """
    for o in range(len(proxes.kind)):
        kind, g = proxes.kind[o], gamma / (1.0 + gamma * proxes.damp[o])
        if kind == RIDGE:
            factor = 1.0 / (1.0 + g * proxes.weight[o])
            for a in range(len(n)):
                n[a] *= factor
        elif kind == BALL:
            total = 0.0
            for a in range(len(n)):
                total += n[a] * n[a]
            if total > proxes.weight[o] * proxes.weight[o]:
                factor = proxes.weight[o] / np.sqrt(total)
                for a in range(len(n)):
                    n[a] *= factor
        elif proxes.alike[o]:
            prox_of_norms(proxes, o, g, n, n, levels)
        else:
            count = proxes.groups[o]
            for k in range(count):
                before[k] = 0.0
            for a in range(len(n)):
                if proxes.member[o, a] >= 0:
                    before[proxes.member[o, a]] += n[a] * n[a]
            for k in range(count):
                before[k] = np.sqrt(before[k])
            prox_of_norms(proxes, o, g, before, after, levels)
            for a in range(len(n)):
                k = proxes.member[o, a]
                if k >= 0 and before[k] > 0.0:
                    n[a] *= after[k] / before[k]


@kernel
def prox_of_norms(proxes, o, g, n, b, levels):
    """b = the prox at n >= 0, of the first groups[o] norms; b may be n."""
    kind, weight, count = proxes.kind[o], proxes.weight[o], proxes.groups[o]
    if kind == SUM:
        for k in range(count):
            rest = n[k] - g * weight * proxes.weights[o, k]
            b[k] = rest if rest > 0.0 else 0.0
        return
    if kind == POWER:
        for k in range(count):
            b[k] = power_root(n[k], 0.5 * g * weight, proxes.power[o])
        return
    if kind == SQUARE:
        level = square_level(n, count, g * weight, levels[o])
    else:
        level = ball_level(n, count, weight, levels[o])
    levels[o] = level
    for k in range(count):
        rest = n[k] - level
        b[k] = rest if rest > 0.0 else 0.0


@inlined
def above(n, count, level):
    """The sum and the number of the n_k > level, k < count."""
    s0 = s1 = s2 = s3 = 0.0
    m = 0
    for block in range(count // 4):
        k = 4 * block
        s0 += n[k] if n[k] > level else 0.0
        s1 += n[k + 1] if n[k + 1] > level else 0.0
        s2 += n[k + 2] if n[k + 2] > level else 0.0
        s3 += n[k + 3] if n[k + 3] > level else 0.0
        m += (n[k] > level) + (n[k + 1] > level) + (n[k + 2] > level) + (n[k + 3] > level)
    for k in range(count - count % 4, count):
        s0 += n[k] if n[k] > level else 0.0
        m += n[k] > level
    return (s0 + s1) + (s2 + s3), m


@kernel
def square_level(n, count, lam, level):
    """The root of lam sum_k max(n_k - level, 0) = level, by Newton's method: exact once the set of n_k above the root
    is known.
    """
    m = -1
    for _ in range(count + 3):  # after the first step the sets only shrink
        total, number = above(n, count, level)
        if number == m:
            break
        m, level = number, lam / (1.0 + lam * number) * total
    return level


@kernel
def ball_level(n, count, radius, level):
    """The root of sum_k max(n_k - level, 0) = radius; 0 if the sum of n is at most the radius."""
    total, number = above(n, count, 0.0)
    if total <= radius:
        return 0.0
    if radius == 0.0:
        return np.max(n[:count])
    total, number = above(n, count, level)
    if number == 0:
        total, number = above(n, count, 0.0)
    m = -1
    for _ in range(count + 3):
        if number == m or number == 0:
            break
        m, level = number, (total - radius) / number
        total, number = above(n, count, level)
    return level


@kernel
def power_root(n, half, q):
    """The root u of u + half q u^(q-1) = n, for q > 1, half > 0: Newton's method on the logarithm, from the right,
    for v = log(u/n).
    """
    if n == 0.0 or half == 0.0:
        return n
    c = np.log(half) + np.log(q) + (q - 2.0) * np.log(n)
    v = -c / (q - 1.0)
    v = v if v < 0.0 else 0.0
    for _ in range(100):
        other = c + (q - 1.0) * v
        top = v if v > other else other
        total = top + np.log(np.exp(v - top) + np.exp(other - top))
        step = total / (np.exp(v - total) + (q - 1.0) * np.exp(other - total))
        v -= step
        if not abs(step) > 1e-16 * (1.0 + abs(v)):
            break
    return n * np.exp(v)
