"""Mistake: the k-th best of a node takes the k-th best of each of its children, not the best combinations of their
ranks.
"""

import numpy as np

import reference
from conformance.meta import with_ops
from reference import *  # noqa: F403
from reference.structures import tree, tree_k_best


def _merged(place, a, b, k):
    n = min(k, a.shape[-1], b.shape[-1])
    best, pair = tree_k_best._largest(a[..., :n] + b[..., :n], k)
    return best, tree_k_best._Merge(pair, np.arange(n), np.arange(n))


def _top_k_max_product(scores, k):
    right, tree_k_best._merged = tree_k_best._merged, _merged
    try:
        return tree.top_k_max_product(scores, k)
    finally:
        tree_k_best._merged = right


Tree = with_ops(reference.Tree, top_k_max_product=_top_k_max_product)
