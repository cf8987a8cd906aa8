"""Labellings of trees drawn at random, one tree after another, all of one form: log-domain messages up, labels down."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.structures.tree import load_nodes, sound
from accelerated.compiled.structures.tree_sum import log_upward
from accelerated.compiled.sweeps import padded
from accelerated.kernel import kernel

__all__ = ["sample_of_trees"]


@kernel
def sample_of_trees(lo, hi, unary, pairwise, stride, forest, mu, uniforms, value, labels):
    """value (B,) = mu log Z; labels (B, size, p): draws by the numbers uniforms (B, size, p) in [0, 1]. An impossible
    tree has value -inf and keeps its labels.
    """
    p, L, inverse_mu = len(forest.above), unary.shape[1], 1.0 / mu
    scores, row, rows = np.empty((p, padded(L))), np.empty((1, padded(L))), np.empty((2, padded(L)))
    for b in range(lo, hi):
        first, nodes = b * p * stride, slice(b * p, (b + 1) * p)
        if not sound(unary[nodes], pairwise, first, stride):
            value[b] = np.nan
            continue
        load_nodes(unary[nodes], forest.counts, inverse_mu, scores)
        value[b] = mu * log_upward(scores, forest, pairwise, first, stride, inverse_mu, row)
        if value[b] > -np.inf:
            for s in range(uniforms.shape[1]):
                _draw(scores, forest, pairwise, first, stride, inverse_mu, uniforms[b, s], rows, labels[b, s])


@kernel
def _draw(scores, forest, pairwise, first, stride, inverse_mu, uniforms, rows, labels):
    """labels (p,) from the roots down; scores (p, Lp) = log P(label | scores of the subtree), rows (2, Lp) scratch."""
    above, upward = forest.above, forest.upward
    p, L = len(above), pairwise.shape[1]
    for k in range(p - 1, -1, -1):
        v = upward[k]
        for j in range(rows.shape[1]):
            rows[0, j] = scores[v, j]
        if above[v] < p:
            e, y = first + v * stride, labels[above[v]]
            for j in range(L):
                rows[0, j] += pairwise[e, y, j] * inverse_mu
        labels[v] = choose(rows, L, uniforms[v])
