"""The losses of packed sentences and their gradient in one sweep: features are made twice, to score arcs and to add their marginals."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems.arc_features import add_arcs, arc_scores
from accelerated.compiled.structures.arborescence_max import best_tree
from accelerated.compiled.structures.arborescence_sum import sum_over_trees
from accelerated.kernel import kernel

__all__ = ["sweep_of_trees"]


@kernel
def sweep_of_trees(f, offsets, heads, single_root, batch, augmented, mu, w, gradient):
    """gradient (d,) += that of the sum over the batch of max_mu [loss + score] - score of the true tree; returns that sum and the expected losses.

    augmented: whether losses are added to scores; mu = 0: the maximum, else the log-partition at temperature mu.
    """
    total, task_loss = 0.0, 0.0
    for k in range(len(batch)):
        a = offsets[batch[k]]
        n = offsets[batch[k] + 1] - a - 1
        values = np.zeros((n, n + 1))
        arc_scores(f, a, n, w, values)
        for m in range(n):
            gold = heads[a + 1 + m]
            total -= values[m, gold]
            if augmented:
                values[m] += 1.0
                values[m, gold] -= 1.0
        if mu > 0.0:
            value, expected = sum_over_trees(values, mu, single_root)
        else:
            value, found = best_tree(values, single_root)
            expected = np.zeros((n, n + 1))
            for m in range(n):
                expected[m, found[m]] = 1.0
        total += value
        if augmented:
            task_loss += n
        for m in range(n):
            gold = heads[a + 1 + m]
            if augmented:
                task_loss -= expected[m, gold]
            expected[m, gold] -= 1.0
        add_arcs(f, a, n, expected, gradient)
    return total, task_loss
