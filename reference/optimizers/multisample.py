"""Multi-sample dual updates: each step adds several outputs of one example to the dual of the structural SVM.

    F_T(w) = sum_t lam/2 ||w||^2 + max_y [loss_t(y) + <v_t(y), w>],   v_t(y) = phi(x_t, y) - phi(x_t, y_t)
    D_T(alpha) = sum_t sum_y alpha_t(y) loss_t(y) - lam T/2 ||w||^2,   w = -1/(lam T) sum_t sum_y alpha_t(y) v_t(y)

alpha_t >= 0 of sum <= 1. Step t adds block t, so w first becomes (t-1)/t w; max D_T = min F_T. Source: Branson et al.
(2013), "Efficient large-scale structured learning", Algorithms 1 to 3, *corrected* (see ``sample_updates``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, squared_norm
from reference.models.multiclass import MulticlassModel
from reference.objectives import Corners
from reference.optimizers.base import Algorithm, Cornered, traits
from reference.optimizers.sample_updates import exact_update, expand_and_swap, multiclass_update
from reference.structures.proposals import Sampler

__all__ = ["Mixture", "Multisample", "MultisampleState"]


class Mixture(NamedTuple):
    """An example's block as one output: its mean direction (d,), sum_y alpha(y) v(y) / sum_y alpha(y), and its loss."""

    direction: Array
    loss: float


class MultisampleState(NamedTuple):
    """x = w (d,); loss = sum_t sum_y alpha_t(y) loss_t(y); mean = (w^0 + ... + w^{t-1})/t after t steps.

    blocks: the number of blocks. best: the highest dual after a pass. weights (n,), on the host: sum_y alpha_i(y) of
    each example's block. mixtures: maps the number of an example to its :class:`Mixture`. An online run never returns
    to a block and keeps neither weights nor mixtures.
    """

    x: Array
    loss: float
    mean: Array
    t: int
    blocks: int
    weights: np.ndarray
    mixtures: Mapping[int, Mixture]
    best: float = 0.0

    def dual(self, lam: float) -> float:
        """D_T(alpha) / T."""
        return self.loss / max(self.blocks, 1) - 0.5 * lam * squared_norm(self.x)


@dataclass(frozen=True)
class Multisample(Algorithm):
    """Algorithm 3, *corrected*, with the updates of Algorithms 1 and 2, on an unsmoothed hinge.

    With ``online=True`` each visit adds a new block, as printed. :func:`reference.multisample` describes the options
    and returns the state's ``x`` or ``mean``.
    """

    lam: float
    k: int = 5
    sampler: str | Sampler = "topk"
    mu: float = 1.0
    update: str = "moves"
    online: bool = False
    average: str = "last"

    def init(self, objective: Cornered, w0: Array | None = None) -> MultisampleState:
        """No blocks: w = 0."""
        zero = objective.zeros()
        return MultisampleState(zero, 0.0, zero, 0, 0, np.zeros(objective.n), {})

    def epoch(self, objective: Cornered, state: MultisampleState, rng: np.random.Generator) -> MultisampleState:
        """A visit of each example, in a new random order."""
        for i in rng.permutation(objective.n).tolist():  # lines 1 and 2
            state = self.visit(objective, state, i, self.samples(objective, state.x, i, rng))
        return state._replace(best=max(state.best, state.dual(self.lam)))

    def samples(self, objective: Cornered, w: Array, i: int, rng: np.random.Generator) -> Corners:
        """The sampled outputs of example i at w, the best loss-augmented output first."""
        if self.sampler == "topk":
            return objective.corners(w, [i], self.k)
        proposals = None if isinstance(self.sampler, str) else self.sampler  # "gibbs": draws
        return objective.sampled_corners(w, [i], self.k, self.mu, rng, proposals)

    def visit(self, objective: Cornered, state: MultisampleState, i: int, corners: Corners) -> MultisampleState:
        """An update of example i with these samples, taken at ``state.x``; a block starts from its mixture, if any."""
        place = Place.of(state.x)
        xp, m = place.xp, int(host(corners.count)[0])
        V, losses = corners.directions[0, :m, :], host(corners.losses)[0, :m].astype(np.float64)
        mixture = None if self.online else state.mixtures.get(i)
        x, blocks, start = state.x, state.blocks, np.zeros(m)
        if mixture is None:  # D_t has one more block than D_{t-1}
            blocks += 1
            x = ((blocks - 1) / blocks) * x
        else:
            V, losses = xp.concat([mixture.direction[None, :], V]), np.append(mixture.loss, losses)
            start = np.append(state.weights[i], start)
        alpha = updated(objective, x, V, losses, start, self.lam * blocks, self.update)  # line 4
        weights, mixtures = state.weights, state.mixtures
        mixed, total = mixture or Mixture(xp.zeros_like(x), 0.0), float(np.sum(alpha))
        if np.any(alpha != start):  # else V may contain inf or nan
            x = x - (1.0 / (self.lam * blocks)) * (place.floats(alpha - start) @ V)
            if total > 0:
                mixed = Mixture(place.floats(alpha / total) @ V, float(alpha @ losses) / total)
        loss = state.loss + float((alpha - start) @ losses)
        shrink = best_scale(loss, self.lam * blocks * squared_norm(x))  # for line 5
        if not self.online:
            mixtures = {**mixtures, i: mixed}
            weights = shrink * np.where(np.arange(len(weights)) == i, total, weights)
        mean = state.mean + (state.x - state.mean) / (state.t + 1)
        return MultisampleState(shrink * x, shrink * loss, mean, state.t + 1, blocks, weights, mixtures, state.best)


def updated(
    objective: Cornered, x: Array, V: Array, losses: np.ndarray, start: np.ndarray, lam_t: float, update: str
) -> np.ndarray:
    """The block's new weights; x is the w that belongs to its weights ``start``."""
    rows = host(V).astype(np.float64, copy=False)
    Q = rows @ rows.T / lam_t
    b = losses + rows @ host(x) + Q @ start
    if not (np.all(np.isfinite(Q)) and np.all(np.isfinite(b))):
        return start
    if update == "moves":
        return expand_and_swap(Q, b, start)
    if isinstance(traits(objective).model, MulticlassModel) and not np.any(start):
        return _of_classes(Q, b, losses, lam_t)
    return exact_update(Q, b, start)


def _of_classes(Q: np.ndarray, b: np.ndarray, losses: np.ndarray, lam_t: float) -> np.ndarray:
    """The closed form over the wrong classes.

    The true class has direction 0 and loss 0. Wrong classes with both 0 are left out as well: they change nothing.
    """
    wrong = (np.diag(Q) > 0) | (losses > 0)
    alpha = np.zeros(len(b))
    if np.any(wrong):
        alpha[wrong] = multiclass_update(-lam_t * b[wrong], 0.5 * lam_t * float(np.max(np.diag(Q))))
    return alpha


def best_scale(loss: float, quadratic: float) -> float:
    """argmax of s loss - s^2 quadratic / 2 over 0 <= s <= 1; scaled by it, lam T ||w||^2 is at most the loss.

    Therefore ||w||^2 <= max loss / lam. The projection of Algorithm 3, line 5, would raise the dual by less.
    """
    return min(1.0, loss / quadratic) if quadratic > 0 else 1.0
