"""Multi-sample dual updates over packed sequences, an epoch as a kernel.

The reference's visits run where there is no kernel: for samplers of the user and for weights that are not finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.epochs.multisample import Blocks, Options, Point, multisample_epoch
from accelerated.problems import finite, has_edges, problem_of, touched_of
from reference.arrays import Array
from reference.optimizers import multisample
from reference.optimizers.base import Cornered, is_hinge
from reference.optimizers.multisample import Mixture, MultisampleState
from reference.structures.base import at_most

__all__ = ["Mixture", "Multisample", "MultisampleState"]

_LARGEST_SEARCH = 2**20  # outputs times positions, 32 bytes each; beyond, the loop


class Mixtures(Mapping[int, Mixture]):
    """The kernel's blocks, read as the reference's mixtures. A sequence takes 8 L bytes for each of its features, and 8
    L^2.
    """

    def __init__(self, model: Any, touched: tuple[np.ndarray, np.ndarray], blocks: Blocks, place: Array) -> None:
        self.model, self.touched, self.blocks, self.place = model, touched, blocks, place

    def __getitem__(self, i: int) -> Mixture:
        if not 0 <= i < len(self.blocks.present) or not self.blocks.present[i]:
            raise KeyError(i)
        W, A = self.model.padded(np.zeros(self.model.size))
        start, rows = self.touched
        here = slice(start[i], start[i + 1])
        W[rows[here], : A.shape[1]], A[0] = self.blocks.rows[here], self.blocks.transitions[i]
        return Mixture(like(self.model.flat(W, A), self.place), float(self.blocks.losses[i]))

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.blocks.present).tolist())

    def __len__(self) -> int:
        return int(np.sum(self.blocks.present))


class Multisample(multisample.Multisample):
    # A visit makes no dense directions. An epoch writes all mixtures to new arrays: earlier states stay valid, and two
    # states are in memory at a time.

    @classmethod
    def fits(cls, box: multisample.Multisample, objective: Any) -> bool:
        """A hinge with all weights free, a built-in sampler, no features of pairs of neighbours."""
        free = objective.nonnegative is None and not getattr(objective.model, "restricted", False)
        free = free and not has_edges(objective)
        return is_hinge(objective) and free and isinstance(box.sampler, str)

    def epoch(self, objective: Cornered, state: MultisampleState, rng: np.random.Generator) -> MultisampleState:
        target: Any = objective
        model, problem, x = target.model, problem_of(target, 0.0), view("x", state.x)
        longest, k = int(target.data.lengths.max(initial=0)), at_most("k", self.k, model.size, "whose directions take")
        if self.sampler == "topk":
            k = min(k, model.n_labels ** min(longest, 64))
        if problem is None or k * (longest + 1) > _LARGEST_SEARCH or not finite(x):
            return super().epoch(objective, state, rng)
        order, mu = rng.permutation(objective.n), 0.0 if self.sampler == "topk" else self.mu
        uniforms = rng.random((k - 1) * int(np.sum(target.data.lengths)) if mu > 0 else 0)
        touched = touched_of(objective, problem)
        before = _blocks(objective, touched, state, self.online)
        after = Blocks(
            before.present.copy(),
            before.weights.copy(),
            before.losses.copy(),
            np.empty_like(before.rows),
            np.empty_like(before.transitions),
        )
        W, A = model.padded(x)
        point = Point(W, A, np.zeros_like(W), np.zeros_like(A))
        options = Options(self.lam, k, mu, self.update == "exact", self.online)
        loss, blocks = multisample_epoch(
            problem, touched, order, uniforms, options, state.loss, state.blocks, before, after, point
        )
        t = state.t + len(order)
        mean = (state.t * view("mean", state.mean) + model.flat(point.sum_W, point.sum_A)) / max(t, 1)
        x = like(model.flat(W, A), state.x)
        if self.online:
            weights, mixtures = state.weights, state.mixtures
        else:
            weights, mixtures = after.weights, Mixtures(model, touched, _rounded(after, state.x), state.x)
        result = MultisampleState(x, loss, like(mean, state.x), t, blocks, weights, mixtures, state.best)
        return result._replace(best=max(result.best, result.dual(self.lam)))


def _blocks(objective: Any, touched: tuple[np.ndarray, np.ndarray], state: MultisampleState, online: bool) -> Blocks:
    """The blocks of a state. Directions of the reference's mixtures are cut to the rows that the sequences touch, as
    all others are 0.
    """
    n, L, (start, rows) = objective.n, objective.model.n_labels, touched
    if online:
        return Blocks(np.zeros(n, bool), np.zeros(n), np.zeros(n), np.zeros((0, L)), np.zeros((0, L, L)))
    if isinstance(state.mixtures, Mixtures):
        return state.mixtures.blocks._replace(weights=state.weights)
    blocks = Blocks(np.zeros(n, bool), state.weights, np.zeros(n), np.zeros((len(rows), L)), np.zeros((n, L, L)))
    for i, mixture in state.mixtures.items():
        W, A = objective.model.padded(view("direction", mixture.direction))
        blocks.rows[start[i] : start[i + 1]] = W[rows[start[i] : start[i + 1]], :L]
        blocks.present[i], blocks.losses[i], blocks.transitions[i] = True, mixture.loss, A[0]
    return blocks


def _rounded(blocks: Blocks, place: Array) -> Blocks:
    """The blocks with directions rounded to the dtype of the weights, as a checkpoint stores them."""
    if "32" not in str(place.dtype):
        return blocks
    rows, transitions = (x.astype(np.float32).astype(np.float64) for x in (blocks.rows, blocks.transitions))
    return blocks._replace(rows=rows, transitions=transitions)
