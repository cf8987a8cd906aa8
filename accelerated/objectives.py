"""Objectives whose full gradients and epochs run as kernels where the model is exactly ours.

With ``SequenceModel`` itself (not a subclass) and a smoothing that has an oracle in :mod:`accelerated.epochs.problems`,
everything below runs over the packed data in one call; otherwise the reference's loop runs over this panel's structures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.objectives as reference
from accelerated.arrays import like, view
from accelerated.epochs.loops import gradient_range, sgd_epoch
from accelerated.epochs.problems import EntropyProblem, MaxProblem
from accelerated.models.sequence import SequenceModel
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.optimizers.sgd import SGDState, average_shares
from reference.smoothing import Entropy, Max

__all__ = ["LogLoss", "StructuralHinge"]


class StructuralHinge(reference.StructuralHinge):
    __doc__ = reference.StructuralHinge.__doc__

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        problem = self._problem(mu)
        if problem is None:
            return super()._sum(w, batch, mu)
        model = self.model
        W, A = model.split(view("w", w))
        pieces = ranges(np.concatenate([[0], np.cumsum(self.data.lengths[batch])]))
        G = np.zeros((len(pieces), model.size))

        def run(lo: int, hi: int) -> float:
            G_W, G_A = model.split(G[pieces.index((lo, hi))])
            return gradient_range(problem, batch, lo, hi, W, A[None], max(mu, 1e-300), G_W, G_A[None])

        total = sum(in_parallel(run, pieces))
        return total, like(G.sum(axis=0), w)

    def fused_epoch(self, optimizer: str) -> Callable[..., Any] | None:
        """The compiled epoch of ``"sgd"`` for exactly ``SequenceModel``; None means the reference's loop over ``Chain``."""
        if optimizer != "sgd" or type(self.model) is not SequenceModel:
            return None
        return functools.partial(_sgd_epoch)

    def _problem(self, mu: float) -> MaxProblem | EntropyProblem | None:
        """The packed arrays as the problem type that names the oracle, or None where there is no kernel."""
        if type(self.model) is not SequenceModel:
            return None
        kind = (
            MaxProblem
            if mu == 0 or type(self.smoothing) is Max
            else EntropyProblem
            if type(self.smoothing) is Entropy
            else None
        )
        if kind is None:
            return None
        rows, labels = self.data.rows, self.model.true_labels(self.data)
        cost = self.model.cost if self.loss_augmented else np.zeros_like(self.model.cost)
        return kind(
            self.data.offsets,
            rows.indptr,
            view("features", rows.indices, np.int64),
            view("features", rows.data),
            view("labels", labels, np.int64),
            cost,
        )


class LogLoss(reference.LogLoss, StructuralHinge):
    __doc__ = reference.LogLoss.__doc__


def _sgd_epoch(
    state: SGDState,
    objective: StructuralHinge,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    lam: float,
    mu: float | None,
    average: str,
) -> SGDState:
    mu = objective._mu(mu)
    problem = objective._problem(mu)
    x, mean = view("w0", state.x).copy(), view("w0", state.mean).copy()
    (W, A), (mean_W, mean_A) = objective.model.split(x), objective.model.split(mean)
    t = np.arange(state.t + 1, state.t + len(order) + 1)
    sgd_epoch(problem, order, steps, average_shares(t, average), lam, max(mu, 1e-300), W, A[None], mean_W, mean_A[None])
    return SGDState(like(x, state.x), like(mean, state.x), state.t + len(order))
