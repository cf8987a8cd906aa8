"""The steps of a visit of block-coordinate Frank-Wolfe, from scores of outputs and squared distances D of their
directions alone.

Scores of outputs, loss(y) + <v(y), w>, matter up to a number common to an example's outputs. Moving w by -(v_b - v_a)
gamma / (lam n) adds -gamma (D_ca - D_cb) / (2 lam n) to the score of c, up to a common number. The scratch of these
functions has g, change, spread (outputs,): scores, changes of the weights in this visit, sums of weighted distances.
"""

from __future__ import annotations

import numpy as np

from accelerated.kernel import inlined, kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_STEPS

__all__ = ["frank_wolfe_step", "pairwise_steps", "visit_begins"]


@inlined
def extremes(sets, i, scratch):
    """The lowest score of an output that has weight, and the highest of all."""
    low, high = np.inf, -np.inf
    for a in range(sets.outputs[i]):
        low = scratch.g[a] if sets.alpha[sets.slots[i] + a] > 0.0 and scratch.g[a] < low else low
        high = scratch.g[a] if scratch.g[a] > high else high
    return low, high


@inlined
def first_above(g, bound):
    """The first place with g >= bound; there is one."""
    a = 0
    while g[a] < bound:
        a += 1
    return a


@kernel
def visit_begins(sets, i, scratch):
    """Start a visit: no weight has changed. Returns the best output, the difference between its score and the lowest of
    those that have weight, and the largest loss.
    """
    largest_loss = 0.0
    for a in range(sets.outputs[i]):
        scratch.change[a] = 0.0
        largest_loss = max(largest_loss, sets.losses[sets.slots[i] + a])
    low, high = extremes(sets, i, scratch)
    return first_above(scratch.g, high - EQUAL * (high - low)), high - low, largest_loss


@inlined
def best_step(gain, length, lam_n, most):
    """argmax of gain gamma - length gamma^2 / (2 lam n) over gamma in [0, most]; 0 if the length is nan."""
    if length > 0.0:
        gamma = lam_n * gain / length
        return (gamma if gamma < most else most) if gamma > 0.0 else 0.0
    return most if length <= 0.0 and gain > 0.0 else 0.0


@kernel
def frank_wolfe_step(sets, i, place, lam_n, fixed, scratch):
    """alpha <- (1 - gamma) alpha + gamma e_place, with the best gamma, or ``fixed`` if that is >= 0. Returns whether
    alpha moved.

    With sums over a, b != s = place, R = sum_a alpha_a = 1 - alpha_s and v the mean direction,

    ||v_s - v||^2 = R sum_a alpha_a D_sa - 1/2 sum_ab alpha_a alpha_b D_ab.

    So alpha_s does not enter: if lam n is tiny, all other weights are tiny, and 1 - alpha_s would be rounding.
    """
    m, slots, start, room = sets.outputs[i], sets.slots[i], sets.pairs[i], sets.room[i]
    gain, variance, rest = 0.0, 0.0, 0.0
    for c in range(m):
        scratch.spread[c] = 0.0
    for a in range(m):
        weight = sets.alpha[slots + a]
        if a != place and weight > 0.0:
            rest += weight
            gain += weight * (scratch.g[place] - scratch.g[a])
            for c in range(m):
                scratch.spread[c] += weight * sets.distances[start + a * room + c]
    for a in range(m):
        if a != place and sets.alpha[slots + a] > 0.0:
            variance += sets.alpha[slots + a] * scratch.spread[a]
    gamma = fixed if fixed >= 0.0 else best_step(gain, rest * scratch.spread[place] - 0.5 * variance, lam_n, 1.0)
    if gamma == 0.0 or rest == 0.0:
        return False
    for c in range(m):
        if c != place:
            move = gamma * sets.alpha[slots + c]
            sets.alpha[slots + c] -= move
            scratch.change[c] -= move
        apart = scratch.spread[c] - rest * sets.distances[start + place * room + c]
        scratch.g[c] -= gamma * 0.5 * apart / lam_n
    sets.alpha[slots + place] += gamma * rest
    scratch.change[place] += gamma * rest
    return True


@kernel
def pairwise_steps(sets, i, lam_n, enough, scratch):
    """Move weight from the worst output that has any to the best, until their scores are ``enough`` close. Returns
    whether any moved.
    """
    m, slots, start, room, moved = sets.outputs[i], sets.slots[i], sets.pairs[i], sets.room[i], False
    for _ in range(PAIRWISE_STEPS):
        low, high = extremes(sets, i, scratch)
        if not high - low > enough:
            break
        worst, equal = 0, EQUAL * (high - low)
        while sets.alpha[slots + worst] == 0.0 or scratch.g[worst] > low + equal:
            worst += 1
        best = first_above(scratch.g, high - equal)
        length, most = sets.distances[start + worst * room + best], sets.alpha[slots + worst]
        gamma = best_step(scratch.g[best] - scratch.g[worst], length, lam_n, most)
        if gamma == 0.0:
            break
        moved = True
        sets.alpha[slots + worst] -= gamma
        sets.alpha[slots + best] += gamma
        scratch.change[worst] -= gamma
        scratch.change[best] += gamma
        for c in range(m):
            apart = sets.distances[start + worst * room + c] - sets.distances[start + best * room + c]
            scratch.g[c] -= gamma * 0.5 * apart / lam_n
    return moved
