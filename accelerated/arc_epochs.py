"""The loops of the optimisers for parsers: one sentence at a time, with updates as sparse as a tree's features.

Counterparts of boxes over a ``ParsingModel``, and the pass over sentences of its full gradients. In SGD weights are kept as scale * v, and their average by way of u,

    sum_t c_t x_t = acc v - u,   acc = sum_t c_t scale_t,   u <- u + acc dv with each change dv of v,

so that a step costs what it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelerated.arc_rounds import penalty_of, run_rounds
from accelerated.compiled.epochs.bcfw_arcs import bcfw_pass_of_trees, tree_sets
from accelerated.compiled.epochs.bcfw_sets import with_room
from accelerated.compiled.epochs.gradient_arcs import sweep_of_trees
from accelerated.compiled.problems.arc_features import add_arcs, arc_scores
from accelerated.epochs import steps_of
from accelerated.models.parsing import ParsingModel
from reference.arrays import Array
from reference.objectives import _smoothed, _total
from reference.optimizers import bcfw, online_proximal, sgd
from reference.optimizers.bcfw import BCFWState
from reference.optimizers.online_proximal import OnlineProximalState
from reference.optimizers.sgd import SGDState
from reference.smoothing import Entropy, Max
from reference.structures.arborescence import ArborescenceScores
from reference.structures.scores import inner

__all__ = ["BCFW", "SGD", "OnlineProximal", "sweep", "sweeps"]

SMALLEST, LARGEST = 1e-9, 1e9  # scales beyond are multiplied out


def sweeps(objective: Any, w: Array) -> bool:
    """Whether :func:`sweep` and the loops take this objective and these weights: exactly our parser, finite float64 of NumPy."""
    ours = type(objective.model) is ParsingModel and objective.model.oracle is None
    return ours and isinstance(w, np.ndarray) and w.dtype == np.float64 and bool(np.all(np.isfinite(w)))


def sweep(objective: Any, w: np.ndarray, batch: np.ndarray, mu: float) -> tuple[float, np.ndarray, float, float]:
    """The sum over the batch of losses, gradients, task losses and exact calls."""
    model, data = objective.model, objective.data
    features, gradient = model.arc_features(data), np.zeros(model.size)
    if type(objective.smoothing) is Entropy or (type(objective.smoothing) is Max and mu == 0):
        sentences = (*model.sentences(data), np.asarray(batch, np.int64))
        total, task_loss = sweep_of_trees(features, *sentences, objective.loss_augmented, mu, w, gradient)
        return total, gradient, task_loss, float(len(batch))
    total, task_loss, exact = 0.0, 0.0, 0.0
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
        return self.model.true_heads(self.data)[self.data.positions(i)][1:]

    def scores(self, i: int, v: np.ndarray) -> np.ndarray:
        """The scores (n, n + 1) of all arcs."""
        n = int(self.data.lengths[i])
        values = np.zeros((n, n + 1))
        arc_scores(self.features, int(self.data.offsets[i]), n, v, values)
        return values

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The heads (n,) of the best tree."""
        return self.model.structure_type.unchecked(ArborescenceScores(scores)).best()[1]

    def add(self, i: int, values: np.ndarray, v: np.ndarray) -> None:
        """v (d,) += values (n, n + 1) times the features of each arc."""
        add_arcs(self.features, int(self.data.offsets[i]), len(values), values, v)


def _free(objective: Any) -> bool:
    """Whether all weights are free, and trees are ours to find."""
    return objective.nonnegative is None and objective.model.oracle is None


# stochastic gradients --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SGD(sgd.SGD):
    @classmethod
    def fits(cls, box: sgd.SGD, objective: Any) -> bool:
        """One sentence at a time, all weights free."""
        return box.batch_size == 1 and _free(objective)

    def sweep(self, objective: Any, state: SGDState, order: np.ndarray) -> SGDState:
        lam, mu, average, steps = self.lam, self.mu, self.average, steps_of(self, state, order, self.lam)
        if not sweeps(objective, state.x):
            return super().sweep(objective, state, order)
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


@dataclass(frozen=True)
class BCFW(bcfw.BCFW):
    """Working sets are packed and change in place."""

    @classmethod
    def fits(cls, box: bcfw.BCFW, objective: Any) -> bool:
        """A hinge with all weights free."""
        return objective.loss_augmented and _free(objective) and not getattr(objective.model, "restricted", False)

    def sweep(self, objective: Any, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
        lam, capacity, average, line_search = self.lam, self.capacity, self.average, self.line_search
        if not isinstance(state.x, np.ndarray) or state.x.dtype != np.float64:
            return super().sweep(objective, state, orders)
        model, data, n, averaging = objective.model, objective.data, objective.n, average != "last"
        x, mean, loss, mean_loss, t = state.x.copy(), state.mean, state.loss, state.mean_loss, state.t
        sentences = model.sentences(data)
        sets = state.sets or tree_sets(*sentences[:2])
        for number, order in enumerate(orders):
            u = np.zeros_like(x) if averaging else x[:0]
            sets = with_room(sets, data.lengths)
            options = (number == 0, self.cached_passes > 0, lam * n, capacity, line_search, averaging)
            before = t * (t + 1) / 2
            t, loss, mean_loss = bcfw_pass_of_trees(
                model.arc_features(data), *sentences, order, *options, t, loss, mean_loss, sets, x, u
            )
            total = t * (t + 1) / 2
            if averaging and total > before:
                mean = (before * mean + (total - before) * x - u) / total
        return BCFWState(x, loss, mean if averaging else x, mean_loss, t, sets)


# the online proximal algorithm -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnlineProximal(online_proximal.OnlineProximal):
    """Of penalties on norms of groups of templates; other regularizers and smoothings get the reference's loop."""

    @classmethod
    def fits(cls, box: online_proximal.OnlineProximal, objective: Any) -> bool:
        """One sentence at a time."""
        return box.batch_size == 1 and _free(objective)

    def sweep(self, objective: Any, state: OnlineProximalState, order: np.ndarray) -> OnlineProximalState:
        temperature, steps = objective._mu(self.mu), steps_of(self, state, order, self.sigma)
        kinds = (Entropy,) if temperature > 0 else (Entropy, Max)
        known = type(objective.smoothing) in kinds and sweeps(objective, state.x)
        penalty = penalty_of(objective.model, self.proxes, self.sigma) if known else None
        after = None
        if penalty is not None:
            after = run_rounds(state, objective, penalty, order, steps, temperature, averaging=self.average != "last")
        return super().sweep(objective, state, order) if after is None else after
