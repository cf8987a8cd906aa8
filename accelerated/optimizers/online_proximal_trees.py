"""An epoch of the online proximal algorithm over sentences, as one call of a kernel where there is one for the
regularizer and the model.

There is one for (weight/2) ||w||^2, and for ``L21`` or ``SquaredL21`` over groups of complete templates; an ``L2Ball``
may follow.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from accelerated.compiled.epochs.online_proximal.arcs import (
    L21_NORM,
    SQUARED_L2,
    SQUARED_L21,
    Blocks,
    Learned,
    Penalty,
    rounds_of_trees,
)
from accelerated.models.parsing import ParsingModel
from accelerated.optimizers.sgd import steps_of
from accelerated.problems import finds_itself, finite, problem_of
from accelerated.prox import grouped
from reference.optimizers import online_proximal
from reference.optimizers.base import Objective
from reference.optimizers.online_proximal import OnlineProximalState
from reference.prox.composite import Sequential
from reference.prox.grouped import L21, SquaredL21
from reference.prox.norms import HalfSquaredL2, L2Ball
from reference.smoothings import Entropy, Max

__all__ = ["OnlineProximal"]

TINY = 1e-200  # squared norms below may have lost digits


class OnlineProximal(online_proximal.OnlineProximal):
    # for penalties on norms of groups of templates; other regularizers and smoothings run the reference's loop

    @classmethod
    def fits(cls, box: online_proximal.OnlineProximal, objective: Any) -> bool:
        """One sentence at a time, all weights free."""
        return box.batch_size == 1 and objective.nonnegative is None and finds_itself(objective)

    def sweep(self, objective: Objective, state: OnlineProximalState, order: np.ndarray) -> OnlineProximalState:
        target: Any = objective
        mu, steps = target._mu(self.mu), steps_of(self, state, order, self.sigma)
        ours = problem_of(target, mu) is not None and type(target.smoothing) in (Entropy, Max) and finite(state.x)
        penalty = (
            penalty_of(target.model, self.proxes, self.sigma) if ours and isinstance(state.x, np.ndarray) else None
        )
        after = None
        if penalty is not None:
            after = run_rounds(state, target, penalty, order, steps, mu, averaging=self.average != "last")
        return super().sweep(objective, state, order) if after is None else after


class Penalized(NamedTuple):
    """Groups of templates, and the penalty on their norms."""

    blocks: Blocks
    penalty: Penalty


def penalty_of(model: ParsingModel, proxes: Any, sigma: float) -> Penalized | None:
    """The kernel's groups and penalty for these regularizers; None where there is no kernel."""
    parts = _parts(proxes)
    radius = parts.pop().radius if len(parts) == 2 and type(parts[1]) is L2Ball else np.inf
    if len(parts) > 1:
        return None
    part = parts[0]
    if type(part) is HalfSquaredL2:
        groups = np.zeros(len(model.bounds) - 1, np.int64)
        penalty = Penalty(SQUARED_L2, part.lam, np.ones(1), 1, sigma, radius)
    elif type(part) in (L21, SquaredL21, grouped.SquaredL21):
        group_of_block, count = _groups_of_blocks(model, part.groups), len(part.groups)
        if group_of_block is None:
            return None
        groups = group_of_block
        if type(part) is L21:
            penalty = Penalty(L21_NORM, part.tau, np.append(part.weights, 0.0), count, sigma, radius)
        else:
            penalty = Penalty(SQUARED_L21, part.lam, np.ones(count + 1), count, sigma, radius)
    else:
        return None
    templates = groups if model.blocks else np.full(len(model.templates), groups[0])
    return Penalized(Blocks(model.bounds, groups, templates), penalty)


def _parts(proxes: Any) -> list[Any]:
    """The regularizers of a sequence, perhaps of sequences, in the order in which they apply."""
    if type(proxes) is not Sequential:
        return [proxes]
    return [part for inner in proxes.parts for part in _parts(inner)]


def _groups_of_blocks(model: ParsingModel, groups: Any) -> np.ndarray | None:
    """The group of each block, len(groups) for no group; None if a block is in more than one group."""
    if groups.width > model.size or (groups.exact and groups.width != model.size):
        return None
    result, labels = np.zeros(len(model.bounds) - 1, np.int64), groups.label(model.size)
    for b, (low, high) in enumerate(itertools.pairwise(model.bounds.tolist())):
        if high > low:
            result[b] = labels[low]
            if np.any(labels[low:high] != result[b]):
                return None
    return result


def run_rounds(
    state: OnlineProximalState,
    objective: Any,
    penalized: Penalized,
    order: np.ndarray,
    steps: np.ndarray,
    mu: float,
    *,
    averaging: bool,
) -> OnlineProximalState | None:
    """The state after the epoch; None if a squared norm leaves the floating-point range."""
    (blocks, penalty), model = penalized, objective.model
    each, K, room = np.repeat(blocks.groups, np.diff(blocks.bounds)), len(penalty.shares), averaging * model.size
    with np.errstate(over="ignore"):
        squared, alive = np.bincount(each, state.x * state.x, K), np.bincount(each, state.x != 0, K) > 0
    if np.any(alive & (squared < TINY)):
        return None
    learned = Learned(state.x.copy(), 1.0 * alive, squared, np.zeros(K), np.zeros(room), np.zeros(room))
    problem = problem_of(objective, mu)
    if not rounds_of_trees(problem, np.asarray(order, np.int64), steps, mu, blocks, penalty, learned):
        return None
    x, t = learned.W * learned.scale[each], state.t + len(order)
    if not averaging or t == 0:
        return OnlineProximalState(x, x if not averaging else state.mean, t)
    total = state.t * state.mean + learned.before + learned.S[each] * learned.W - learned.U
    return OnlineProximalState(x, total / t, t)
