"""Block-coordinate Frank-Wolfe on the dual of the structural SVM, with working sets of the oracle's outputs.

    min_w  lam/2 ||w||^2 + (1/n) sum_i max_y [loss_i(y) + <v_i(y), w>],   v_i(y) = phi(x_i, y) - phi(x_i, y_i)
    max_alpha  (1/n) sum_i sum_y alpha_i(y) loss_i(y) - lam/2 ||w(alpha)||^2,
    w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

with each alpha_i in the simplex over the outputs of example i. With l1 ||w||_1, and if some weights must be >= 0
(``objective.nonnegative``), shrunk(w(alpha)) replaces w(alpha): see :mod:`reference.optimizers.nonnegative`. Source:
Lacoste-Julien et al. (2013), "Block-coordinate Frank-Wolfe optimization for structural SVMs", Algorithm 4, one of the
methods in Pillutla et al., section 7.2. Pairwise steps and cached outputs are from Osokin et al. (2016), "Minding the
gaps for block Frank-Wolfe optimization of structured SVMs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array, host
from reference.optimizers.base import Algorithm, Cornered, traits
from reference.optimizers.nonnegative import best_step, shrunk

__all__ = ["BCFW", "BCFWState", "WorkingSet"]

PAIRWISE_STEPS = 10  # the most pairwise steps in a visit
PAIRWISE_SHARE = 0.05  # pairwise steps stop at this share of the visit's first violation
# scores closer than this share of the violation are equal; a violation below this share of the largest loss is none
EQUAL = 1e-6
FLAT = 1e-12  # with l1, a slope below this share of its terms is rounding


class WorkingSet(NamedTuple):
    """The working set of an example, m outputs: directions (m, d); on the host in float64, losses and alpha (m,).

    restless: whether the last visit began with a violation above EQUAL times the largest loss.
    """

    directions: Array
    losses: np.ndarray
    alpha: np.ndarray
    restless: bool


class BCFWState(NamedTuple):
    """x = w(alpha) (d,), not shrunk; loss = (1/n) sum_i sum_y alpha_i(y) loss_i(y); t steps done.

    mean, mean_loss: the averages of x and loss over steps 1..t. sets: maps the number of an example to its
    :class:`WorkingSet`; an example without a working set has all weight on its true output.
    """

    x: Array
    loss: float
    mean: Array
    mean_loss: float
    t: int
    sets: Any


@dataclass(frozen=True)
class BCFW(Algorithm):
    """Algorithm 4 of Lacoste-Julien et al., over working sets, on an unsmoothed hinge.

    ``cached_passes=0`` is that algorithm; otherwise pairwise steps and passes over the working sets follow, as in
    Osokin et al. :func:`reference.bcfw` describes the options and returns the state's ``mean``.
    """

    lam: float
    capacity: int = 8
    average: str = "last"
    line_search: bool = True
    cached_passes: int = 5
    l1: float = 0.0

    def init(self, objective: Cornered, w0: Array | None = None) -> BCFWState:
        """All weight on the true outputs, which have direction 0 and loss 0."""
        zero = objective.zeros()
        return BCFWState(zero, 0.0, zero, 0.0, 0, {})

    def epoch(self, objective: Cornered, state: BCFWState, rng: np.random.Generator) -> BCFWState:
        """A pass with a call of the oracle for each example, then ``cached_passes`` passes over the working sets."""
        return self.sweep(objective, state, [rng.permutation(objective.n) for _ in range(1 + self.cached_passes)])

    def sweep(self, objective: Cornered, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        """A visit of each example in the first order, and of each restless example in the other orders."""
        for turn, order in enumerate(orders):
            for i in order.tolist():
                if turn == 0 or state.sets[i].restless:
                    state = self.visit(objective, state, i, oracle=turn == 0)
        return state

    def visit(self, objective: Cornered, state: BCFWState, i: int, *, oracle: bool) -> BCFWState:
        """Weight moves to the oracle's output for example i, then by pairwise steps from the worst to the best."""
        n, lam_n = objective.n, self.lam * objective.n
        shrink = self.l1 / self.lam, traits(objective).nonnegative
        x, working_set = state.x, state.sets.get(i)
        if working_set is None:
            working_set = WorkingSet(objective.zeros()[None, :], np.zeros(1), np.ones(1), False)
        before = working_set.alpha @ working_set.losses
        if oracle:
            w = shrunk(x, *shrink)
            s = objective.corners(w, [i])  # argmax_y loss_i(y) + <v_i(y), w>
            working_set = joined(working_set, s.directions[0, 0, :], float(s.losses[0, 0]), w, self.capacity)
        _, best, violation = worst_pair(working_set, shrunk(x, *shrink))
        if oracle:
            gamma = None if self.line_search else 2 * n / (2 * n + state.t)
            delta = np.eye(len(working_set.alpha))[best] - working_set.alpha  # (1 - gamma) alpha_i + gamma e_s
            x, working_set = moved(x, working_set, delta, 1.0, lam_n, shrink, gamma)
        for _ in range(PAIRWISE_STEPS if self.cached_passes > 0 else 0):
            worst, best, left = worst_pair(working_set, shrunk(x, *shrink))
            if left <= PAIRWISE_SHARE * violation:
                break
            e, gamma_max = np.eye(len(working_set.alpha)), float(working_set.alpha[worst])
            x, working_set = moved(x, working_set, e[best] - e[worst], gamma_max, lam_n, shrink)  # a pairwise step
        working_set = working_set._replace(restless=bool(violation > EQUAL * np.max(working_set.losses)))
        loss, t = state.loss + float(working_set.alpha @ working_set.losses - before) / n, state.t + 1
        share = 1.0 if self.average == "last" else 2.0 / (t + 1)
        mean = x if self.average == "last" else state.mean + share * (x - state.mean)  # 2/(t^2 + t) sum_s s w_s
        mean_loss = state.mean_loss + share * (loss - state.mean_loss)
        return BCFWState(x, loss, mean, mean_loss, t, {**state.sets, i: working_set})

    def weights(self, objective: Cornered, x: Array) -> Array:
        """w (d,) of x = w(alpha): soft(x, l1/lam), and clipped."""
        return shrunk(x, self.l1 / self.lam, traits(objective).nonnegative)

    def value(self, state: BCFWState) -> float:
        """(1/n) sum_i sum_y alpha_i(y) loss_i(y)."""
        return state.loss

    def moved_to(self, state: BCFWState, x: Array) -> BCFWState:
        """The state with another x, for ``average="last"``."""
        return state._replace(x=x, mean=x)

    def alpha(self, state: BCFWState) -> Any:
        """The weights alpha_i of the outputs in the sets, for :meth:`between`."""
        return {i: one.alpha for i, one in state.sets.items()}

    def between(self, state: BCFWState, alpha: Any, gamma: float) -> BCFWState:
        """The state with (1 - gamma) alpha + gamma times its own alpha, and its own x and loss.

        alpha: that of one epoch earlier. In an epoch, outputs join a set behind the others, or in the place of an
        output of weight 0, so that the others keep their places.
        """
        sets = {}
        for i, one in state.sets.items():
            earlier = np.zeros(len(one.alpha))
            before = alpha.get(i, np.ones(1))  # all weight on the true output
            earlier[: len(before)] = before
            sets[i] = one._replace(alpha=(1.0 - gamma) * earlier + gamma * one.alpha)
        return state._replace(sets=sets)


def joined(working_set: WorkingSet, direction: Array, loss: float, w: Array, capacity: int) -> WorkingSet:
    """The set with one more output, unless one of the same direction and loss is in it already."""
    xp = array_namespace(w)
    duplicates = host(xp.all(working_set.directions == direction, axis=1)) & (working_set.losses == loss)
    idle = np.flatnonzero(working_set.alpha == 0)
    if np.any(duplicates):
        return working_set
    if len(working_set.alpha) < capacity or len(idle) == 0:
        directions = xp.concat([working_set.directions, direction[None, :]])
        return WorkingSet(directions, np.append(working_set.losses, loss), np.append(working_set.alpha, 0.0), False)
    place = int(idle[np.argmin(scores(working_set, w)[idle])])
    chosen = np.arange(len(working_set.alpha)) == place
    directions = xp.concat(
        [working_set.directions[:place, :], direction[None, :], working_set.directions[place + 1 :, :]]
    )
    return WorkingSet(directions, np.where(chosen, loss, working_set.losses), working_set.alpha, False)


def scores(working_set: WorkingSet, w: Array) -> np.ndarray:
    """loss_i(y) + <v_i(y), w> of each output (m,): n times the gradient of the dual with respect to alpha_i."""
    values: np.ndarray = working_set.losses + host(working_set.directions @ w)
    return values


def worst_pair(working_set: WorkingSet, w: Array) -> tuple[int, int, float]:
    """The output of lowest score among those with weight, the output of highest score, and the scores' difference.

    After a step two scores are equal up to rounding. Ties within EQUAL go to the first output in the set, so that
    rounding does not decide.
    """
    g = scores(working_set, w)
    low, high = np.where(working_set.alpha > 0, g, np.inf), g
    violation = float(np.max(high) - np.min(low))
    worst = np.argmax(low <= np.min(low) + EQUAL * violation)
    best = np.argmax(high >= np.max(high) - EQUAL * violation)
    return int(worst), int(best), violation


def moved(
    x: Array,
    working_set: WorkingSet,
    delta: np.ndarray,
    gamma_max: float,
    lam_n: float,
    shrink: tuple[float, slice | None],
    fixed: float | None = None,
) -> tuple[Array, WorkingSet]:
    """alpha_i + gamma delta, and the matching x; gamma in [0, gamma_max] maximises the dual unless ``fixed`` is given.

    n (dual at gamma - dual at 0) = gamma <delta, scores> - gamma^2 ||v||^2 / (2 lam n), v = sum_y delta(y) v_i(y),
    if w = x. shrink: the other arguments of :func:`shrunk`.
    """
    xp, (threshold, constrained) = array_namespace(x), shrink
    weights = xp.asarray(delta, dtype=x.dtype, device=device(x))
    v = weights @ working_set.directions
    g, length = scores(working_set, shrunk(x, *shrink)), float(xp.sum(v * v))
    gain = float(delta @ g)
    gamma = fixed
    if gamma is None:
        if constrained is not None or threshold > 0:
            flat = FLAT * float(np.abs(delta) @ (np.abs(g) + working_set.losses)) if threshold > 0 else 0.0
            gamma = best_step(x, v, gain, gamma_max, lam_n, constrained, threshold, flat)
        elif length > 0:
            gamma = min(gamma_max, max(0.0, lam_n * gain / length))
        else:
            gamma = gamma_max if length <= 0 and gain > 0 else 0.0
    if gamma == 0:  # v may be inf or nan
        return x, working_set
    return x - (gamma / lam_n) * v, working_set._replace(alpha=working_set.alpha + gamma * delta)
