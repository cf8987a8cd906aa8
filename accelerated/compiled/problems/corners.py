"""Labellings of a packed sequence as planes of the structural hinge: feature differences from the truth, and task
losses.
"""

from __future__ import annotations

from accelerated.compiled.entries import entry
from accelerated.kernel import kernel

__all__ = ["planes_of"]


@kernel
def planes_of(problem, i, outputs, weights, pairwise, losses):
    """weights (c, F, L) and pairwise (c, L, L) += the features of each of outputs (c, n) less those of the truth;
    losses (c,) = task losses.
    """
    first = problem.offsets[i]
    for k in range(outputs.shape[0]):
        losses[k] = 0.0
        for t in range(outputs.shape[1]):
            truth, y = problem.labels[first + t], outputs[k, t]
            losses[k] += problem.cost[truth, y]
            if t > 0:
                pairwise[k, outputs[k, t - 1], y] += 1.0
                pairwise[k, problem.labels[first + t - 1], truth] -= 1.0
            if y == truth:
                continue
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                weights[k, problem.indices[e], y] += entry(problem.data, e)
                weights[k, problem.indices[e], truth] -= entry(problem.data, e)
