"""Online exponentiated gradient on the dual of the CRF's log loss and of the structural hinge, an example at a time.

    min_w  lam/2 ||w||^2 + (1/n) sum_i mu log sum_y exp([loss_i(y) + <v_i(y), w>] / mu),
    v_i(y) = phi(x_i, y) - phi(x_i, y_i)
    max_alpha  (1/n) sum_i [mu H(alpha_i) + sum_y alpha_i(y) loss_i(y)] - lam/2 ||w(alpha)||^2,
    w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

with each alpha_i in the simplex over the outputs of example i, and H its entropy. The log loss has mu = 1 and no task
loss; the hinge has mu = 0. An alpha_i is kept as local scores theta_i, alpha_i(y) ~ exp(score of y under theta_i). The
structure's exp oracle gives its marginals and its exact entropy, H = log Z(theta_i) - <theta_i, marginals>.

With l1 ||w||_1 in the objective, w = soft(x, l1/lam) for x = w(alpha) above, and the dual is the same in that w:

    max_w [lam <x, w> - l1 ||w||_1 - lam/2 ||w||^2]
        = sum_j soft(lam |x_j|, l1)^2 / (2 lam) = lam/2 ||soft(x, l1/lam)||^2

Source: Collins, Globerson, Koo, Carreras and Bartlett (2008), "Exponentiated gradient algorithms for conditional random
fields and max-margin Markov networks"; a baseline of Pillutla et al., Table 1. The dual with l1: Shalev-Shwartz and
Zhang (2014), "Accelerated proximal stochastic dual coordinate ascent for regularized loss minimization".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host
from reference.objectives import StructuralHinge, _total, check_own_loss
from reference.optimizers.base import Algorithm, traits
from reference.optimizers.nonnegative import shrunk
from reference.structures.base import feasible
from reference.structures.scores import Scores, add, inner

__all__ = ["EGState", "ExponentiatedGradient", "Point"]

CONCENTRATION = 5.0  # the first theta_i is minus this many task losses: most weight lies near the truth
FIRST_TRIES, SHARPER = 12, 1.5  # until the dual rises, the first theta_i is scaled by SHARPER; the most tries
GROWTH, SHRINKAGE = 1.1, 0.5  # factors on an example's step size after an accepted and after a rejected step
UNIFORM = 0.2  # the share of visits that are drawn uniformly, not by gains
ROUNDING = 16  # times eps: a decrease of the dual by this share of its terms is rounding


class Point(NamedTuple):
    """alpha_i of one example: local scores theta, and the marginals in parts (the truth's while it has all weight)."""

    theta: Scores
    parts: Scores


class EGState(NamedTuple):
    """x = w(alpha) (d,), neither clipped nor shrunk; k epochs and ``calls`` calls of the exp oracle done.

    points: maps the number of an example to its :class:`Point`; an example without a point has all weight on its true
    output. On the host, (n,) each: values, mu H(alpha_i) + sum_y alpha_i(y) loss_i(y); steps, the next step sizes;
    rates, the gain in the dual at the last accepted step, divided by the step size.
    """

    x: Array
    values: np.ndarray
    steps: np.ndarray
    rates: np.ndarray
    calls: int
    points: Any
    k: int = 0


@dataclass(frozen=True)
class ExponentiatedGradient(Algorithm):
    """Online exponentiated gradient, on a log loss or a hinge; :func:`reference.exponentiated_gradient` returns ``x``.

    That function describes the options; mu is 1 for the log loss and 0 for the unsmoothed hinge. step_size may be one
    for each example (n,). The updates are Collins et al.'s. The adaptive step size of each example and the sampling by
    gains are not in their paper.
    """

    lam: float
    mu: float
    step_size: float | np.ndarray
    sampling: str = "gains"
    l1: float = 0.0

    def init(self, objective: StructuralHinge, w0: Array | None = None) -> EGState:
        """All weight on the true outputs, which have task loss 0."""
        n = objective.n
        return EGState(objective.zeros(), np.zeros(n), np.full(n, self.step_size, np.float64), np.zeros(n), 0, {})

    def weights(self, objective: StructuralHinge, x: Array) -> Array:
        """w (d,) of x = w(alpha): soft(x, l1/lam), and clipped."""
        return shrunk(x, self.l1 / self.lam, traits(objective).nonnegative)

    def value(self, state: EGState) -> float:
        """(1/n) sum_i [mu H(alpha_i) + sum_y alpha_i(y) loss_i(y)]."""
        return float(np.mean(state.values))

    def moved_to(self, state: EGState, x: Array) -> EGState:
        """The state with another x."""
        return state._replace(x=x)

    def difference(self, objective: StructuralHinge, state: EGState) -> Array:
        """(1/n) sum_i of the features of the truth less their expectation under alpha_i (d,).

        That is lam x up to rounding. The objective may also have another model of the same examples, labels and
        transitions: its features are then those of the result.
        """
        model, data, v = objective.model, objective.data, objective.zeros()
        for i, point in state.points.items():
            (piece,) = model.chunks(data, np.array([i]))
            v = v + model.pullback(data, piece, v, add(model.gold(data, piece), point.parts, -1.0)) / objective.n
        return v

    def from_weights(self, objective: StructuralHinge, state: EGState, w: Array) -> EGState:
        """The state with each alpha_i ~ exp([loss_i(y) + score_i(y; w)] / mu), for mu > 0."""
        model, data, x, points, values = objective.model, objective.data, objective.zeros(), {}, state.values
        for i in range(objective.n):
            (piece,) = model.chunks(data, np.array([i]))
            task_loss, gold = model.task_loss(data, piece), model.gold(data, piece)
            scores = objective.augmented(piece, w)
            theta = mixed(scores, scores, 0.0, 1.0 / self.mu)
            value, _, parts = _expected(objective, self.mu, theta, task_loss)
            x = x + model.pullback(data, piece, w, add(gold, parts, -1.0)) / (self.lam * objective.n)
            points[i], values = Point(theta, parts), _put(values, i, value)
        return state._replace(x=x, values=values, calls=state.calls + objective.n, points=points)

    def epoch(self, objective: StructuralHinge, state: EGState, rng: np.random.Generator) -> EGState:
        """Visit n examples, as ``sampling`` selects them."""
        return self.sweep(objective, state, self.order(state, rng))._replace(k=state.k + 1)

    def order(self, state: EGState, rng: np.random.Generator) -> np.ndarray:
        """The n examples to visit: each once, or drawn by the gains of their last steps from the third epoch on."""
        n, rates = len(state.rates), state.rates
        if self.sampling == "permutation" or state.k < 2 or not 0 < np.sum(rates) < np.inf:
            return rng.permutation(n)
        return rng.choice(n, n, p=(1 - UNIFORM) * rates / np.sum(rates) + UNIFORM / n)

    def sweep(self, objective: StructuralHinge, state: EGState, order: np.ndarray) -> EGState:
        """A visit of each example in ``order``."""
        for i in order.tolist():
            state = self.visit(objective, state, i)
        return state

    def visit(self, objective: StructuralHinge, state: EGState, i: int) -> EGState:
        """A step of theta_i towards [loss_i + scores_i(w)] / mu, rejected if the dual would decrease.

        n (new dual - old dual) = new value - old value - lam n/2 (||new w||^2 - ||old w||^2)
        """
        model, data, mu = objective.model, objective.data, self.mu
        w, lam_n = self.weights(objective, state.x), self.lam * objective.n
        eta, calls = float(state.steps[i]), state.calls
        (piece,) = model.chunks(data, np.array([i]))
        scores, task_loss = model.scores(data, piece, w), model.task_loss(data, piece)
        target = add(scores, task_loss) if objective.loss_augmented else scores
        first = i not in state.points
        old = _start(task_loss, model.gold(data, piece), i) if first else state.points[i]
        for tries_left in reversed(range(FIRST_TRIES if first else 1)):
            theta = mixed(old.theta, target, 1.0 - eta, eta / mu) if mu > 0 else mixed(old.theta, target, 1.0, eta)
            value, used, parts = _expected(objective, mu, theta, task_loss)
            calls += 1
            x = state.x + model.pullback(data, piece, w, add(old.parts, parts, -1.0)) / lam_n
            growth = 0.5 * lam_n * _growth(w, self.weights(objective, x))
            gain = value - float(state.values[i]) - growth
            lost = ROUNDING * float(array_namespace(x).finfo(x.dtype).eps) * (abs(value) + mu * abs(used) + abs(growth))
            if gain >= -lost or (first and tries_left == 0 and np.isfinite(gain)):
                values, rates = _put(state.values, i, value), _put(state.rates, i, max(gain, 0.0) / eta)
                steps = _put(state.steps, i, min(GROWTH * eta, 1.0) if mu > 0 else GROWTH * eta)
                return EGState(x, values, steps, rates, calls, {**state.points, i: Point(theta, parts)}, state.k)
            old = Point(add(old.theta, old.theta, SHARPER - 1.0), old.parts)
        return state._replace(steps=_put(state.steps, i, SHRINKAGE * eta), calls=calls)

    def between(self, objective: StructuralHinge, state: EGState, before: EGState, share: float) -> EGState:
        """The state with each theta_i at (1 - share) times that of ``before`` plus share times its own.

        ``before`` is the state of one epoch earlier. An example that it has no point of keeps its own point.
        """
        model, data, x, points, values = objective.model, objective.data, state.x, {}, state.values
        for i, point in state.points.items():
            if i not in before.points:
                points[i] = point
                continue
            (piece,) = model.chunks(data, np.array([i]))
            theta = mixed(before.points[i].theta, point.theta, 1.0 - share, share)
            value, _, parts = _expected(objective, self.mu, theta, model.task_loss(data, piece))
            x = x + model.pullback(data, piece, x, add(point.parts, parts, -1.0)) / (self.lam * objective.n)
            points[i], values = Point(theta, parts), _put(values, i, value)
        return state._replace(x=x, values=values, calls=state.calls + len(before.points), points=points)


def mixed(theta: Scores, target: Scores, keep: float, share: float) -> Scores:
    """keep theta + share target, field by field; a part forbidden in target (-inf) is forbidden in the result."""

    def field(mine: Array, theirs: Array) -> Array:
        xp = array_namespace(mine, theirs)
        forbidden = theirs == -xp.inf
        nothing = xp.zeros_like(theirs)
        finite = keep * xp.where(forbidden, nothing, mine) + share * xp.where(forbidden, nothing, theirs)
        return xp.where(forbidden, theirs, finite)

    if not isinstance(theta, tuple):
        return field(theta, target)
    layout = getattr(theta, "layout", ())
    return type(theta)(
        *(
            mine if name in layout else field(mine, theirs)
            for name, mine, theirs in zip(theta._fields, theta, target, strict=True)  # type: ignore[attr-defined]
        )
    )


def _expected(objective: StructuralHinge, mu: float, theta: Scores, task_loss: Scores) -> tuple[float, float, Scores]:
    """Under theta: mu H(alpha_i) + sum_y alpha_i(y) loss_i(y), the mean of theta's scores, and the marginals."""
    log_z, parts = objective.model.structure_type.unchecked(theta).expectation(1.0)
    used = inner(theta, parts)
    entropy = _total(feasible(log_z, "expectation") if hasattr(log_z, "ndim") else log_z) - used
    value = mu * entropy + (inner(task_loss, parts) if objective.loss_augmented else 0.0)
    return value, used, parts


def _start(task_loss: Scores, gold: Scores, i: int) -> Point:
    """All weight on the truth, with theta for the first step: a distribution concentrated near the truth."""
    check_own_loss(task_loss, gold, i)
    return Point(add(task_loss, task_loss, -1.0 - CONCENTRATION), gold)


def _growth(old: Array, new: Array) -> float:
    """||new||^2 - ||old||^2 without cancellation, in float64 on the host."""
    before, after = host(old).astype(np.float64), host(new).astype(np.float64)
    return float((after - before) @ (after + before))


def _put(values: np.ndarray, i: int, value: float) -> np.ndarray:
    values = values.copy()
    values[i] = value
    return values
