"""The paper's screening rule: a ball from the dual's gradient and strong convexity, cut by half-spaces.

It needs listed outputs. In the paper's coordinates theta_i lacks the last output of example i, and theta* lies in

    ||theta - (that - (n/m) grad D(that))|| <= (n/m) ||grad D(that)||,   sum(theta_k) <= 1 for each k        (Theorem 3)

with D of the reduced problem, m/n its modulus of strong convexity (Lemma 2). G is affine in theta, so the largest |G_j|
over the ball and one half-space is problem (4), which has a closed form (Theorem 4). Floating point: the errors of
centre and radius are assumed to be at most ||n B||_F ||delta|| / (m alpha beta) + 4096 eps (1 + radius), delta as in
:mod:`reference.screening.rules`; the sets are enlarged by that.

Source: Zhang and Qiu, section 3, *corrected*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import host
from reference.screening.problem import ROUNDING, State
from reference.screening.rules import ByBounds, listed_spread, rounding
from reference.structures.sampling import generator

__all__ = ["HalfSpaceRule"]


@dataclass(frozen=True)
class HalfSpaceRule(ByBounds):
    """The paper's rule for listed outputs: a ball from the dual's gradient and strong convexity, cut by half-spaces
    sum(theta_k) <= 1.

    The ball has centre a0 = theta - (n/m) grad D(theta) and radius r = (n/m) ||grad D(theta)||, in coordinates without
    each example's last output; m is the modulus. A weight is screened if, for one of the half-spaces k that are used,
    the largest |G_j| over the ball and half-space k, problem (4), is at most beta.

    Parameters
    ----------
    modulus : 1 or 2
        n times the modulus of strong convexity of D: 2 (default), or the paper's smaller bound 1.
    half_spaces : {"random", "all", "none"}
        Cut by one random half-space, by each of the n in turn (the best one counts), or not at all.
    rng : int, numpy.random.Generator or None
        Draws the half-space.

    Raises
    ------
    ValueError
        Another modulus or choice of half-spaces; from ``screen``: alpha = 0, for which the dual has no gradient.
    UnsupportedError
        From ``screen``: a model whose outputs are not listed.

    Notes
    -----
    Two passes over the data besides the gradient; "all": n more pullbacks of one example, each O(d).

    Source
    ------
    Zhang and Qiu, Lemma 2 (sharpened), Theorem 3 (*corrected*: D of the reduced problem everywhere), equations (1) to
    (4) (*corrected*: with the constant), Theorem 4 (*corrected*), Theorem 5, Remark 1.
    """

    modulus: int = 2
    half_spaces: str = "random"
    rng: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.modulus not in (1, 2):
            raise ValueError(f"modulus: expected 1 or 2, got {self.modulus!r}")
        if self.half_spaces not in ("random", "all", "none"):
            raise ValueError(f"half_spaces: expected random, all or none, got {self.half_spaces!r}")
        object.__setattr__(self, "rng", generator(self.rng))

    def bounds(self, state: State) -> np.ndarray:
        """The least over the half-spaces used of the largest |G_j(theta)| (d,) over ball and half-space."""
        problem = state.problem
        if problem.alpha == 0:
            raise ValueError("alpha: HalfSpaceRule needs alpha > 0, the dual has no gradient at 0")
        norms = listed_spread(state).from_last / problem.n  # ||B_j||
        ball = dual_ball(state, self.modulus)
        delta = rounding(state)
        error = float(np.linalg.norm(norms * problem.n) * np.linalg.norm(delta)) / (
            self.modulus * problem.alpha * problem.beta
        )
        error += ROUNDING * problem.eps * (1.0 + ball.radius)  # of the centre, of its sums, and of the radius
        radius = ball.radius + 2 * error
        bound = np.abs(ball.at_centre) + radius * norms
        for k in self._chosen(problem.n):
            if ball.sizes[k] == 1:
                continue  # a single output: no half-space
            p = float(np.sqrt(ball.sizes[k] - 1.0))
            distance = (ball.sums[k] - 1.0) / p - error
            along = _along(state, k, int(ball.sizes[k])) / (problem.n * p)
            up, down = (_drop(sign * along, norms, distance, radius) for sign in (-1.0, 1.0))
            bound = np.minimum(bound, np.maximum(ball.at_centre + up, down - ball.at_centre))
        result: np.ndarray = bound + delta
        return result

    def _chosen(self, n: int) -> Any:
        if self.half_spaces == "random":
            return [int(self.rng.integers(n))]
        return range(n) if self.half_spaces == "all" else []


def smallest_on_ball_and_half_space(b: np.ndarray, p: np.ndarray, c: float, center: np.ndarray, radius: float) -> float:
    """min <b, a> over ||a - center|| <= radius and <p, a> <= c; inf if there is no such a.

    Parameters
    ----------
    b, p, center : array (N,)
    c : float
    radius : float >= 0

    Notes
    -----
    Let g = (<p, center> - c)/||p||. If g > r, the set is empty. If g <= -r or r <b, p>/||p|| >= g ||b||, the minimum is
    that over the ball alone, <b, center> - r ||b||. Otherwise the step from the centre is g along p and
    sqrt(r^2 - g^2) along the part of b orthogonal to p.

    Source
    ------
    Zhang and Qiu, problem (4) and Theorem 4, *corrected*.
    """
    size, length = float(np.linalg.norm(p)), float(np.linalg.norm(b))
    at_center = float(b @ center)
    if size == 0:
        return at_center - radius * length if c >= 0 else np.inf
    over = (float(p @ center) - c) / size
    if over > radius:
        return np.inf
    drop = _drop(np.array([float(b @ p) / size]), np.array([length]), over, radius)
    return at_center - float(drop[0])


def _drop(along: np.ndarray, length: np.ndarray, over: float, radius: float) -> np.ndarray:
    """The largest <b, a0> - <b, a> over ball and half-space, for each b given by <b, p>/||p|| (d,) and ||b|| (d,).

    over: the distance of a0 beyond the half-space. If by rounding the ball does not reach the half-space, the result is
    that of the ball alone.
    """
    ball = radius * length
    if over > radius or over <= -radius:
        return ball
    across = np.sqrt(np.maximum((length - along) * (length + along), 0.0))
    cut = over * along + np.sqrt((radius - over) * (radius + over)) * across
    return np.where(radius * along >= over * length, ball, np.minimum(cut, ball))


class DualBall(NamedTuple):
    """The ball that contains theta*: G at its centre (d,), its radius, and the sum of each block of the centre (n,).

    sizes: the numbers of outputs (n,).
    """

    at_centre: np.ndarray
    radius: float
    sums: np.ndarray
    sizes: np.ndarray


def dual_ball(state: State, modulus: int) -> DualBall:
    """Centre a0 = theta - (n/m) grad D(theta) and radius (n/m) ||grad D(theta)|| at theta_i = p(. | x_i; y), m the
    modulus.

    Block i of the gradient is B_i' v / n, v = w(theta) - y, which is (score_i(last; v) - score_i(y; v)) / n. One pass
    over the data computes these scores, another one G at the centre.

    Source
    ------
    Zhang and Qiu, Theorem 3, *corrected*.
    """
    problem = state.problem
    change_of_w = problem.primal_weights(state.gradient) - state.y
    if hasattr(problem.scored, "centre"):
        moved, step, sums, sizes = problem.scored.centre(state.y, change_of_w, modulus)
        return DualBall(moved / problem.n, step, sums, sizes)
    objective, place, n = problem.objective, problem.place, problem.n
    model, data, xp = objective.model, objective.data, problem.place.xp
    w, v = place.floats(state.y), place.floats(change_of_w)
    at_centre, square = np.zeros(problem.size), 0.0
    sums, sizes = np.zeros(n), np.zeros(n, np.int64)
    for piece in model.chunks(data, np.arange(n)):
        _, theta = model.structure_type.unchecked(objective.augmented(piece, w)).expectation()
        change = model.pushforward(data, piece, w, v).values
        step = (change - change[..., -1:]) / modulus  # -(n/m) times the gradient; 0 for the last output
        centre = (theta.values + step)[..., :-1]
        total = xp.sum(centre, axis=-1)
        whole = xp.concat([centre, 1.0 - total[..., None]], axis=-1)
        gold = model.gold(data, piece)
        moved = model.pullback(data, piece, w, type(theta)(whole - gold.values))
        at_centre += host(moved).astype(np.float64)
        square += float(np.sum(host(step).astype(np.float64) ** 2))
        sums[piece], sizes[piece] = host(total), theta.values.shape[-1]
    return DualBall(at_centre / n, float(np.sqrt(square)), sums, sizes)


def _along(state: State, k: int, m: int) -> np.ndarray:
    """-n <B_j, p> (d,), the sign as in G; p is the indicator of block k: sum_y phi_kj(y) - m phi_kj(last)."""
    problem = state.problem
    if hasattr(problem.scored, "along"):
        products: np.ndarray = problem.scored.along(k)
        return products
    objective, place = problem.objective, problem.place
    piece = np.array([k])
    scores = objective.model.scores(objective.data, piece, objective.zeros())
    weights = np.ones(tuple(scores.values.shape))
    weights[..., -1] = 1.0 - m
    moved = objective.model.pullback(objective.data, piece, objective.zeros(), type(scores)(place.floats(weights)))
    return host(moved).astype(np.float64)
