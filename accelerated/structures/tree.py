"""Rooted trees and forests: the reference's functions as kernels, over batches of trees of one form, in parallel
over trees.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import reference.structures.tree as reference
from accelerated.arrays import are_sound, are_whole, like, view
from accelerated.compiled.rows import within
from accelerated.compiled.structures.tree import (
    Forest,
    forest_of,
    is_forest,
    max_marginals_of_trees,
    max_product_of_trees,
)
from accelerated.compiled.structures.tree_k_best import top_k_of_trees
from accelerated.compiled.structures.tree_samples import sample_of_trees
from accelerated.compiled.structures.tree_sum import sum_product_of_trees
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.structures.base import KBest
from reference.structures.tree import TreeScores, parts, score
from reference.structures.tree_scores import order

__all__ = [
    "Tree",
    "TreeScores",
    "max_marginals",
    "max_product",
    "parts",
    "sample",
    "score",
    "sum_product",
    "top_k_max_product",
]


class FlatTrees(NamedTuple):
    """A batch in the kernels' layout: tree b owns rows b * p : (b + 1) * p of unary (B * p, L).

    The matrix of its node v is pairwise[(b * p + v) * stride]; a shared one is (1, L, L) with stride 0.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    stride: int
    forest: Forest

    @classmethod
    def of(cls, scores: TreeScores) -> FlatTrees:
        *batch, p, n_labels = scores.unary.shape
        shared = scores.pairwise.ndim == 2
        if tuple(scores.pairwise.shape) not in ((n_labels, n_labels), (*batch, p, n_labels, n_labels)):
            raise ValueError(
                f"pairwise: shape {tuple(scores.pairwise.shape)} does not fit unary {tuple(scores.unary.shape)}"
            )
        parents = _of_nodes("parents", scores.parents, p, -1, p - 1)
        counts = np.full(p, n_labels) if scores.counts is None else _of_nodes("counts", scores.counts, p, 0, n_labels)
        forest, sound = forest_of(parents, counts)
        if not sound:
            order(parents)  # raises the error, with the place
        return cls(
            view("unary", scores.unary).reshape(-1, n_labels),
            view("pairwise", scores.pairwise).reshape(-1, n_labels, n_labels),
            0 if shared else 1,
            forest,
        )

    @property
    def trees(self) -> tuple[int, int]:
        """The number of trees (0 if they have no nodes), and of nodes."""
        p = len(self.forest.above)
        return len(self.unary) // max(p, 1), p

    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of trees for threads."""
        trees, p = self.trees
        if trees == 1:
            return [(0, 1)]
        return ranges(np.arange(trees + 1) * p)


def _of_nodes(name: str, x: np.ndarray, p: int, least: int, most: int) -> np.ndarray:
    x = view(name, x, np.int64)
    if x.shape != (p,) or not within(x, least, most):
        raise ValueError(f"{name}: expected {p} numbers in {least}..{most}, got {x.tolist()[:9]}")
    return x


@mirrors(reference.max_product)
def max_product(scores: TreeScores) -> tuple[Array, Array]:
    flat = FlatTrees.of(scores)
    shape = tuple(scores.unary.shape[:-1])
    value, labels = np.zeros(shape[:-1]), np.full(shape, -1)
    flat_value, flat_labels = value.reshape(-1), labels.reshape(-1)
    in_parallel(lambda lo, hi: max_product_of_trees(lo, hi, *flat, flat_value, flat_labels), flat.ranges())
    return like(value, scores.unary), like(labels, scores.unary)


@mirrors(reference.sum_product)
def sum_product(scores: TreeScores, mu: float = 1.0) -> tuple[Array, TreeScores]:
    flat = FlatTrees.of(scores)
    pieces, shared = flat.ranges(), flat.stride == 0
    value, nodes = np.zeros(tuple(scores.unary.shape[:-2])), np.zeros(flat.unary.shape)
    edges = np.zeros((len(pieces) if shared else 1, *flat.pairwise.shape))
    flat_value = value.reshape(-1)

    def run(lo: int, hi: int) -> None:
        mine = edges[pieces.index((lo, hi)) if shared else 0]
        sum_product_of_trees(lo, hi, *flat, float(mu), flat_value, nodes, mine)

    in_parallel(run, pieces)
    return like(value, scores.unary), scores._replace(
        unary=like(nodes.reshape(scores.unary.shape), scores.unary),
        pairwise=like(
            (edges[0] if len(edges) == 1 else edges.sum(axis=0)).reshape(scores.pairwise.shape), scores.pairwise
        ),
    )


@mirrors(reference.sample)
def sample(scores: TreeScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    flat, shape = FlatTrees.of(scores), tuple(uniforms.shape)
    if (*shape[:-2], shape[-1]) != tuple(scores.unary.shape[:-1]):
        raise ValueError(f"uniforms: shape {shape} does not fit unary {tuple(scores.unary.shape)}")
    numbers = view("uniforms", uniforms).reshape(flat.trees[0], shape[-2], flat.trees[1])
    value, labels = np.zeros(shape[:-2]), np.full(numbers.shape, -1)
    flat_value = value.reshape(-1)
    in_parallel(lambda lo, hi: sample_of_trees(lo, hi, *flat, float(mu), numbers, flat_value, labels), flat.ranges())
    return like(value, scores.unary), like(labels.reshape(shape), scores.unary)


@mirrors(reference.top_k_max_product)
def top_k_max_product(scores: TreeScores, k: int) -> KBest:
    flat = FlatTrees.of(scores)
    *batch, p, _ = scores.unary.shape
    outputs = 1
    for n in flat.forest.counts.tolist():
        outputs *= n
        if outputs >= k:
            break
    kept = min(k, max(outputs, 1))
    value, labels = np.full((*batch, kept), -np.inf), np.full((*batch, kept, p), -1)
    if p == 0:
        value[...] = 0.0
    flat_value, flat_labels = value.reshape(-1, kept), labels.reshape(-1, kept, p) if p else labels
    in_parallel(lambda lo, hi: top_k_of_trees(lo, hi, *flat, flat_value, flat_labels), flat.ranges())
    return k_best(like(value, scores.unary), like(labels, scores.unary), k)


@mirrors(reference.max_marginals)
def max_marginals(scores: TreeScores) -> TreeScores:
    flat = FlatTrees.of(scores)
    *batch, p, n_labels = scores.unary.shape
    nodes = np.full(flat.unary.shape, -np.inf)
    edges = np.full((len(flat.unary), n_labels, n_labels), -np.inf)
    in_parallel(lambda lo, hi: max_marginals_of_trees(lo, hi, *flat, nodes, edges), flat.ranges())
    return scores._replace(
        unary=like(nodes.reshape(scores.unary.shape), scores.unary),
        pairwise=like(edges.reshape(*batch, p, n_labels, n_labels), scores.unary),
    )


class Tree(reference.Tree):
    ops = sys.modules[__name__]

    def __init__(self, unary: Any, pairwise: Any, parents: Any, counts: Any = None) -> None:
        if counts is None and are_sound(unary, pairwise) and unary.ndim >= 2 and unary.shape[-1] >= 1:
            *batch, p, n_labels = unary.shape
            shapes = ((n_labels, n_labels), (*batch, p, n_labels, n_labels))
            if pairwise.shape in shapes and are_whole(parents, (p,)) and is_forest(parents):
                self.scores = TreeScores(unary, pairwise, parents.copy())
                return
        super().__init__(unary, pairwise, parents, counts)
