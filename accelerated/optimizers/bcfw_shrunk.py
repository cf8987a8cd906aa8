"""Block-coordinate Frank-Wolfe with an l1 norm, or where some weights must be >= 0: passes as calls of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelerated.arrays import like, view
from accelerated.compiled.epochs.bcfw import Done, Visits
from accelerated.compiled.epochs.bcfw_shrunk import DirectionSets, Point, more_room, new_direction_sets, shrunk_pass
from accelerated.models.dense import DenseWeights
from accelerated.problems import touched_of
from reference.optimizers.base import traits
from reference.optimizers.bcfw import BCFW, BCFWState
from reference.optimizers.nonnegative import shrunk

__all__ = ["shrunk_sweep"]


def shrunk_sweep(box: BCFW, objective: Any, problem: Any, state: BCFWState, orders: Sequence[np.ndarray]) -> BCFWState:
    """``box.sweep`` over a packed problem, from finite weights."""
    model, where, averaging = objective.model, traits(objective).nonnegative, box.average != "last"
    threshold, touched = box.l1 / box.lam, touched_of(objective, problem)

    def laid_out(weights: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
        """W and A in one array; the dual's point may be negative where weights may not."""
        W, A = (DenseWeights if isinstance(model, DenseWeights) else type(model)).padded(model, weights)
        return np.concatenate([W.reshape(-1), A.reshape(-1)]), W.shape, A.shape

    flat = view("x", state.x)
    (x, W, A), (w, *_) = laid_out(flat), laid_out(shrunk(flat, threshold, where))
    mean = laid_out(view("mean", state.mean))[0] if averaging else np.empty(0)
    cut, signed = int(np.prod(W)), where or slice(0, 0)
    point = Point(x, mean, w, w[:cut].reshape(W), w[cut:].reshape(A), signed.start, signed.stop, threshold)
    most = int(np.max(np.diff(touched[0]))) * W[1] + len(x) - cut
    previous: Any = state.sets
    sets: DirectionSets = previous or new_direction_sets(objective.n)
    progress = Done(state.t, state.loss, state.mean_loss)
    for number, order in enumerate(orders):
        calls, pairwise, place = number == 0, box.cached_passes > 0, 0
        visits = Visits(order, calls, pairwise, box.lam * objective.n, box.capacity, box.line_search, averaging)
        while place < len(order):
            sets = more_room(sets, most) if calls else sets
            place, *done = shrunk_pass(problem, touched, visits, place, progress, sets, point)
            progress = Done(*done)

    def back(point: np.ndarray) -> Any:
        return like(model.flat(point[:cut].reshape(W), point[cut:].reshape(A)), state.x)

    x = back(point.x)
    return BCFWState(x, progress.loss, back(point.mean) if averaging else x, progress.mean_loss, progress.t, sets)
