"""Sums over the dependency trees of a batch of sentences, and their best trees."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.structures.arborescence_max import best_tree
from accelerated.compiled.structures.arborescence_sum import sum_over_trees
from accelerated.kernel import kernel

__all__ = ["best_range", "sum_range"]


@kernel
def sentence_of(values, b, n):
    """The scores (n, n + 1) of sentence b of values (B, N, N + 1), float64."""
    own = np.empty((n, n + 1))
    for m in range(n):
        for h in range(n + 1):
            own[m, h] = values[b, m, h]
    return own


@kernel
def sum_range(lo, hi, values, lengths, single_root, mu, value, marginals):
    """value (B,), the log-partitions at temperature mu, and marginals (B, N, N + 1) of sentences lo..hi - 1."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], own = sum_over_trees(sentence_of(values, b, n), mu, single_root)
        for m in range(n):
            for h in range(n + 1):
                marginals[b, m, h] = own[m, h]


@kernel
def best_range(lo, hi, values, lengths, single_root, value, heads):
    """value (B,), the highest scores, and heads (B, N) of sentences lo..hi - 1; -inf, or nan, and -1 without a tree."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], tree = best_tree(sentence_of(values, b, n), single_root)
        copy_to(tree, heads[b])
