"""Block-coordinate Frank-Wolfe on the dual of the structural SVM, with the outputs found kept in working sets.

    min_w  lam/2 ||w||^2 + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>],   v_i(y) = phi(x_i, y) - phi(x_i, y_i)
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - lam/2 ||w(alpha)||^2,
    w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

with each alpha_i in the simplex over the outputs of example i. Where some weights must be >= 0
(``objective.nonnegative``), clip(w(alpha)) stands for w(alpha): :mod:`reference.optimizers.nonnegative`. Source:
Lacoste-Julien et al. (2013), "Block-coordinate Frank-Wolfe optimization for structural SVMs", Algorithm 4, one of the
methods in Pillutla et al., section 7.2; pairwise steps and cached outputs are ideas of Osokin et al. (2016), "Minding
the gaps for block Frank-Wolfe optimization of structured SVMs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array, host
from reference.optimizers.base import Cornered, Piece
from reference.optimizers.nonnegative import best_step, clipped, constraint

__all__ = ["BCFW", "BCFWState", "WorkingSet"]

PAIRWISE_STEPS = 10  # at most so many a visit
PAIRWISE_SHARE = 0.05  # and none once the largest violation is this share of what the visit began with
EQUAL = (
    1e-6  # scores that differ by this share of the violation are equal; a violation of this share of the losses is none
)


class WorkingSet(NamedTuple):
    """The m outputs of one example found so far: directions (m, d); on the host, float64, losses (m,) and weights alpha
    (m,).

    restless: whether the last visit began with a violation above EQUAL times the largest loss.
    """

    directions: Array
    losses: np.ndarray
    alpha: np.ndarray
    restless: bool


class BCFWState(NamedTuple):
    """x = w(alpha) (d,), not clipped; loss = (1/n) sum_i sum_y alpha_i(y) loss_i(y); mean, mean_loss: their averages
    over steps 1..t.

    sets: the working sets, example number to :class:`WorkingSet`; an example without one has all weight on its true
    output.
    """

    x: Array
    loss: float
    mean: Array
    mean_loss: float
    t: int
    sets: Any


@dataclass(frozen=True)
class BCFW(Piece):
    """Algorithm 4 of Lacoste-Julien et al., over working sets, on an unsmoothed hinge.

    With ``cached_passes=0`` it is that algorithm; else pairwise steps and passes over the outputs found follow, as
    Osokin et al. have them. Options are as :func:`reference.bcfw` has them; what that returns is the state's ``mean``.
    """

    lam: float
    capacity: int = 8
    average: str = "last"
    line_search: bool = True
    cached_passes: int = 5

    def init(self, objective: Cornered, w0: Array | None = None) -> BCFWState:
        """All weight on the true outputs, whose direction and loss are 0."""
        zero = objective.zeros()
        return BCFWState(zero, 0.0, zero, 0.0, 0, {})

    def epoch(self, objective: Cornered, state: BCFWState, rng: np.random.Generator) -> BCFWState:
        """A pass that calls the oracles, then passes over the outputs that they have found."""
        return self.sweep(objective, state, [rng.permutation(objective.n) for _ in range(1 + self.cached_passes)])

    def sweep(self, objective: Cornered, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        """A visit of each example in the first order, of those in the others that are restless."""
        for turn, order in enumerate(orders):
            for i in order.tolist():
                if turn == 0 or state.sets[i].restless:
                    state = self.visit(objective, state, i, oracle=turn == 0)
        return state

    def visit(self, objective: Cornered, state: BCFWState, i: int, *, oracle: bool) -> BCFWState:
        """The oracle's output joins the set of example i and draws weight; then, in pairs, from the worst to the
        best.
        """
        n, lam_n, where = objective.n, self.lam * objective.n, constraint(objective)
        x, found = state.x, state.sets.get(i) or WorkingSet(objective.zeros()[None, :], np.zeros(1), np.ones(1), False)
        before = found.alpha @ found.losses
        if oracle:
            w = clipped(x, where)
            s = objective.corners(w, [i])  # argmax_y loss_i(y) + <v_i(y), w>
            found = joined(found, s.directions[0, 0, :], float(s.losses[0, 0]), w, self.capacity)
        _, best, violation = worst_pair(found, clipped(x, where))
        if oracle:
            gamma = None if self.line_search else 2 * n / (2 * n + state.t)
            towards = np.eye(len(found.alpha))[best] - found.alpha  # (1 - gamma) alpha_i + gamma e_s
            x, found = moved(x, found, towards, 1.0, lam_n, where, gamma)
        for _ in range(PAIRWISE_STEPS if self.cached_passes > 0 else 0):
            worst, best, left = worst_pair(found, clipped(x, where))
            if left <= PAIRWISE_SHARE * violation:
                break
            e = np.eye(len(found.alpha))
            x, found = moved(x, found, e[best] - e[worst], float(found.alpha[worst]), lam_n, where)  # a pairwise step
        found = found._replace(restless=bool(violation > EQUAL * np.max(found.losses)))
        loss, t = state.loss + float(found.alpha @ found.losses - before) / n, state.t + 1
        share = 1.0 if self.average == "last" else 2.0 / (t + 1)
        mean = x if self.average == "last" else state.mean + share * (x - state.mean)  # 2/(t^2 + t) sum_s s w_s
        mean_loss = state.mean_loss + share * (loss - state.mean_loss)
        return BCFWState(x, loss, mean, mean_loss, t, {**state.sets, i: found})


def joined(found: WorkingSet, direction: Array, loss: float, w: Array, capacity: int) -> WorkingSet:
    """The set with one more output, unless it has one of this direction and loss."""
    xp = array_namespace(w)
    known = host(xp.all(found.directions == direction, axis=1)) & (found.losses == loss)
    idle = np.flatnonzero(found.alpha == 0)
    if np.any(known):
        return found
    if len(found.alpha) < capacity or len(idle) == 0:
        directions = xp.concat([found.directions, direction[None, :]])
        return WorkingSet(directions, np.append(found.losses, loss), np.append(found.alpha, 0.0), False)
    place = int(idle[np.argmin(scores(found, w)[idle])])
    here = np.arange(len(found.alpha)) == place
    directions = xp.concat([found.directions[:place, :], direction[None, :], found.directions[place + 1 :, :]])
    return WorkingSet(directions, np.where(here, loss, found.losses), found.alpha, False)


def scores(found: WorkingSet, w: Array) -> np.ndarray:
    """loss_i(y) + <v_i(y), w> of each output (m,): n times the gradient of the dual with respect to alpha_i."""
    values: np.ndarray = found.losses + host(found.directions @ w)
    return values


def worst_pair(found: WorkingSet, w: Array) -> tuple[int, int, float]:
    """The lowest in score of the outputs that have weight, the highest of all, and how far they are apart.

    A step makes two scores equal but for rounding; the first in the set is taken of those that are, so that rounding
    decides nothing.
    """
    g = scores(found, w)
    low, high = np.where(found.alpha > 0, g, np.inf), g
    violation = float(np.max(high) - np.min(low))
    worst = np.argmax(low <= np.min(low) + EQUAL * violation)
    best = np.argmax(high >= np.max(high) - EQUAL * violation)
    return int(worst), int(best), violation


def moved(
    x: Array,
    found: WorkingSet,
    towards: np.ndarray,
    most: float,
    lam_n: float,
    where: slice | None,
    fixed: float | None = None,
) -> tuple[Array, WorkingSet]:
    """alpha_i + gamma towards, and w to match; gamma in [0, most] has the highest dual, unless it is fixed.

    n (dual at gamma - dual at 0) = gamma <towards, scores> - gamma^2 ||v||^2 / (2 lam n), v = sum_y towards(y) v_i(y),
    all weights free
    """
    xp = array_namespace(x)
    weights = xp.asarray(towards, dtype=x.dtype, device=device(x))
    v = weights @ found.directions
    gain, length = float(towards @ scores(found, clipped(x, where))), float(xp.sum(v * v))
    gamma = fixed
    if gamma is None:
        if where is not None:
            gamma = best_step(x, v, gain, most, lam_n, where)
        elif length > 0:
            gamma = min(most, max(0.0, lam_n * gain / length))
        else:
            gamma = most if length <= 0 and gain > 0 else 0.0
    if gamma == 0:  # v may be inf or nan
        return x, found
    return x - (gamma / lam_n) * v, found._replace(alpha=found.alpha + gamma * towards)
