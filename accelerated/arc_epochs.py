"""The loops of the optimisers for parsers: one sentence at a time, with updates as sparse as a tree's features.

What ``fused_epoch`` of an objective over a ``ParsingModel`` returns, with the signatures of ``sgd.epoch`` and ``bcfw.epoch``, and the pass
over sentences of its full gradients. Weights are kept as scale * v, and their average by way of u,

    sum_t c_t x_t = acc v - u,   acc = sum_t c_t scale_t,   u <- u + acc dv with each change dv of v,

so that a step costs what it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelerated.compiled.arc_features import (
    add_arcs,
    add_listed,
    arc_scores,
    list_arcs,
    squared_length,
    weigh_arcs,
)
from accelerated.models.parsing import ParsingModel
from reference.arrays import Array
from reference.objectives import _smoothed, _total
from reference.optimizers import bcfw, sgd
from reference.optimizers.bcfw import BCFWState, WorkingSet
from reference.optimizers.sgd import SGDState
from reference.structures.arborescence import ArborescenceScores
from reference.structures.scores import inner

__all__ = ["LOOPS", "sweep", "sweeps"]

SMALLEST, LARGEST = 1e-9, 1e9  # scales beyond are multiplied out


def sweeps(objective: Any, w: Array) -> bool:
    """Whether :func:`sweep` and the loops take this objective and these weights: exactly our parser, finite float64 of NumPy."""
    ours = type(objective.model) is ParsingModel
    return ours and isinstance(w, np.ndarray) and w.dtype == np.float64 and bool(np.all(np.isfinite(w)))


def sweep(objective: Any, w: np.ndarray, batch: np.ndarray, mu: float) -> tuple[float, np.ndarray, float, float]:
    """The sum over the batch of losses, gradients, task losses and exact calls."""
    model, data = objective.model, objective.data
    features = model.arc_features(data)
    total, gradient, task_loss, exact = 0.0, np.zeros(model.size), 0.0, 0.0
    for (i,), scores, gold, loss, structure in objective._pieces(w, batch):
        answer = _smoothed(objective.smoothing, structure, mu)
        total += _total(answer.value) - inner(scores, gold)
        excess = answer.gradient.values - gold.values
        add_arcs(features, int(data.offsets[i]), len(excess), excess, gradient)
        task_loss += 0.0 if loss is None else inner(loss, answer.gradient)
        exact += _total(answer.exact)
    return total, gradient, task_loss, exact


class Sentences:
    """What a loop asks of the packed sentences of an objective."""

    def __init__(self, objective: Any) -> None:
        self.objective, self.model, self.data = objective, objective.model, objective.data
        self.features = self.model.arc_features(self.data)

    def gold(self, i: int) -> np.ndarray:
        """The true heads (n,)."""
        return self.data.heads[self.data.positions(i)][1:]

    def scores(self, i: int, v: np.ndarray) -> np.ndarray:
        """The scores (n, n + 1) of all arcs."""
        n = int(self.data.lengths[i])
        values = np.zeros((n, n + 1))
        arc_scores(self.features, int(self.data.offsets[i]), n, v, values)
        return values

    def some_scores(self, i: int, v: np.ndarray, arcs: np.ndarray) -> np.ndarray:
        """The scores where arcs (n, n + 1) is not 0, 0 elsewhere."""
        values = np.where(arcs != 0, 1.0, 0.0)
        weigh_arcs(self.features, int(self.data.offsets[i]), len(arcs), values, v)
        return values

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The heads (n,) of the best tree."""
        return self.model.structure_type.unchecked(ArborescenceScores(scores)).best()[1]

    def add(self, i: int, values: np.ndarray, v: np.ndarray) -> None:
        """v (d,) += values (n, n + 1) times the features of each arc."""
        add_arcs(self.features, int(self.data.offsets[i]), len(values), values, v)

    def listed(self, i: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """The features of the arcs whose value is not 0: numbers, values, how many."""
        tags = len(np.unique(self.data.tags[self.data.positions(i)]))
        T, with_tags = self.features.head.shape[1], self.features.between.shape[1]
        room = int(np.count_nonzero(values)) * (T + with_tags * tags)
        index, shares = np.empty(room, np.int64), np.empty(room)
        return index, shares, list_arcs(self.features, int(self.data.offsets[i]), len(values), values, index, shares)


# stochastic gradients --------------------------------------------------------------------------------------------------


def run_sgd(
    state: SGDState,
    objective: Any,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    lam: float,
    mu: float | None,
    average: str,
) -> SGDState:
    if not sweeps(objective, state.x):
        return sgd.epoch(state, objective, order, batch_size=batch_size, steps=steps, lam=lam, mu=mu, average=average)
    sentences, averaging, mu = Sentences(objective), average != "last", objective._mu(mu)
    weighs = np.arange(state.t + 1.0, state.t + len(order) + 1) if average == "weighted" else np.ones(len(order))
    weighed = state.t * (state.t + 1) / 2 if average == "weighted" else float(state.t)
    v, scale, sums = state.x.copy(), 1.0, weighed * state.mean
    acc, u = 0.0, np.zeros_like(v) if averaging else v[:0]
    for i, gamma, c in zip(order.tolist(), steps.tolist(), weighs.tolist(), strict=True):
        change = -gamma * _slope(sentences, i, scale * sentences.scores(i, v), mu)
        scale *= 1.0 - gamma * lam
        if not SMALLEST < abs(scale) < LARGEST:
            sums += acc * v - u if averaging else 0.0
            v *= scale
            acc, scale = 0.0, 1.0
            u[:] = 0.0
        change /= scale
        sentences.add(i, change, v)
        if averaging:
            sentences.add(i, acc * change, u)
            acc += c * scale
    x = scale * v
    mean = (sums + (acc * v - u)) / (weighed + weighs.sum()) if averaging else x
    return SGDState(x, mean, state.t + len(order))


def _slope(sentences: Sentences, i: int, scores: np.ndarray, mu: float) -> np.ndarray:
    """The gradient of sentence i's loss with respect to its scores (n, n + 1)."""
    gold = sentences.gold(i)
    tokens = np.arange(len(gold))
    if sentences.objective.loss_augmented:
        scores += 1.0
        scores[tokens, gold] -= 1.0
    if mu == 0:
        slope = np.zeros_like(scores)
        slope[tokens, sentences.best(scores)] = 1.0
    else:
        structure = sentences.model.structure_type.unchecked(ArborescenceScores(scores))
        slope = np.array(structure.smooth_max(sentences.objective.smoothing, mu)[1].values)
    slope[tokens, gold] -= 1.0
    return slope


# block-coordinate Frank-Wolfe ------------------------------------------------------------------------------------------


class Trees(NamedTuple):
    """The working set of a sentence: heads (m, n), and losses, weights and restless as in a WorkingSet."""

    heads: np.ndarray
    losses: np.ndarray
    alpha: np.ndarray
    restless: bool


class Dual:
    """The weights w(alpha) in the making, with their running sum over visits."""

    def __init__(self, state: BCFWState, sentences: Sentences, lam_n: float, averaging: bool) -> None:
        self.sentences, self.lam_n, self.averaging = sentences, lam_n, averaging
        self.x, self.scratch = state.x.copy(), np.zeros_like(state.x)
        self.acc, self.u = 0.0, np.zeros_like(state.x) if averaging else state.x[:0]

    def scores(self, i: int, found: Trees) -> np.ndarray:
        """loss_i(y) + <v_i(y), w> of each tree (m,)."""
        gold = self.sentences.gold(i)
        n = len(gold)
        arcs = np.zeros((n, n + 1))
        arcs[np.arange(n), found.heads] = arcs[np.arange(n), gold] = 1.0
        return _sums(self.sentences.some_scores(i, self.x, arcs), found, gold)

    def move(self, i: int, found: Trees, g: np.ndarray, towards: np.ndarray, most: float, fixed: float | None) -> Trees:
        """alpha_i + gamma towards with the highest dual, gamma in [0, most], or fixed, and w to match."""
        n = found.heads.shape[1]
        arcs = np.zeros((n, n + 1))
        for y, share in zip(found.heads, towards, strict=True):
            arcs[np.arange(n), y] += share
        listed = self.sentences.listed(i, arcs)
        length, gain = squared_length(*listed, self.scratch), float(towards @ g)
        gamma = fixed
        if gamma is None:
            gamma = min(most, max(0.0, self.lam_n * gain / length)) if length > 0 else most if gain > 0 else 0.0
        if gamma == 0:
            return found
        add_listed(*listed, -gamma / self.lam_n, self.x)
        if self.averaging:
            add_listed(*listed, -gamma / self.lam_n * self.acc, self.u)
        return found._replace(alpha=found.alpha + gamma * towards)


def run_bcfw(
    state: BCFWState,
    objective: Any,
    orders: Sequence[np.ndarray],
    *,
    lam: float,
    capacity: int,
    average: str,
    line_search: bool,
) -> BCFWState:
    """As the reference's epoch; the state's sets are of :class:`Trees`, and change in place."""
    if not isinstance(state.x, np.ndarray) or state.x.dtype != np.float64:
        return bcfw.epoch(
            state, objective, orders, lam=lam, capacity=capacity, average=average, line_search=line_search
        )
    n, averaging, sets = objective.n, average != "last", dict(state.sets)
    dual = Dual(state, Sentences(objective), lam * n, averaging)
    loss, mean_loss, t = state.loss, state.mean_loss, state.t
    for turn, order in enumerate(orders):
        for i in order.tolist():
            if turn > 0 and not sets[i].restless:
                continue
            fixed = None if line_search else 2 * n / (2 * n + t)
            before = sets.get(i)
            sets[i] = found = _visit(dual, i, before, turn == 0, len(orders) > 1, capacity, fixed)
            loss += float(found.alpha @ found.losses - (before.alpha @ before.losses if before else 0.0)) / n
            t += 1
            dual.acc += t
            mean_loss += (2.0 / (t + 1) if averaging else 1.0) * (loss - mean_loss)
    x, mean = dual.x, dual.x
    if averaging and t > 0:
        mean = (state.t * (state.t + 1) / 2 * state.mean + (dual.acc * x - dual.u)) / (t * (t + 1) / 2)
    return BCFWState(x, loss, mean, mean_loss, t, sets)


def _visit(
    dual: Dual, i: int, found: Trees | None, oracle: bool, pairwise: bool, capacity: int, fixed: float | None
) -> Trees:
    """As the reference's step: the oracle's tree joins the set and draws weight; then, in pairs, from the worst to the best."""
    gold = dual.sentences.gold(i)
    found = found or Trees(gold[None, :], np.zeros(1), np.ones(1), False)
    if oracle:
        scores = dual.sentences.scores(i, dual.x)
        augmented = scores + 1.0
        augmented[np.arange(len(gold)), gold] -= 1.0
        y = dual.sentences.best(augmented)
        found = _joined(found, y, float(np.sum(y != gold)), _sums(scores, found, gold), capacity)
        g = _sums(scores, found, gold)
    else:
        g = dual.scores(i, found)
    _, s, violation = _worst_pair(found, g)
    if oracle:
        found = dual.move(i, found, g, np.eye(len(found.alpha))[s] - found.alpha, 1.0, fixed)
    for _ in range(bcfw.PAIRWISE_STEPS if pairwise and violation > 0 and len(found.alpha) > 1 else 0):
        g = dual.scores(i, found)
        worst, best, left = _worst_pair(found, g)
        if left <= bcfw.PAIRWISE_SHARE * violation:
            break
        one = np.eye(len(found.alpha))
        found = dual.move(i, found, g, one[best] - one[worst], float(found.alpha[worst]), None)
    return found._replace(restless=bool(violation > bcfw.EQUAL * np.max(found.losses)))


def _sums(scores: np.ndarray, found: Trees, gold: np.ndarray) -> np.ndarray:
    """loss_i(y) + <v_i(y), w> of each tree (m,), from the scores of the arcs."""
    tokens = np.arange(len(gold))
    return found.losses + scores[tokens, found.heads].sum(axis=1) - scores[tokens, gold].sum()


def _worst_pair(found: Trees, g: np.ndarray) -> tuple[int, int, float]:
    """The reference's, of trees with scores g (m,): their directions count by their products with w alone."""
    return bcfw.worst_pair(WorkingSet((g - found.losses)[:, None], found.losses, found.alpha, False), np.ones(1))


def _joined(found: Trees, y: np.ndarray, loss: float, g: np.ndarray, capacity: int) -> Trees:
    """The set with one more tree, unless it has it: in the place of one of weight 0 where it is full and there is one."""
    if np.any(np.all(found.heads == y, axis=1)):
        return found
    idle = np.flatnonzero(found.alpha == 0)
    if len(found.alpha) < capacity or len(idle) == 0:
        return Trees(np.vstack([found.heads, y]), np.append(found.losses, loss), np.append(found.alpha, 0.0), False)
    place = int(idle[np.argmin(g[idle])])
    heads, losses = found.heads.copy(), found.losses.copy()
    heads[place], losses[place] = y, loss
    return Trees(heads, losses, found.alpha, False)


LOOPS: dict[str, Callable[..., Any]] = {"sgd": run_sgd, "bcfw": run_bcfw}
