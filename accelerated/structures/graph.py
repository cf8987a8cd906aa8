"""Graphs of small treewidth: the reference's functions as kernels, over a clique tree that is laid out once a graph."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

import reference.structures.graph as reference
from accelerated.arrays import like, view
from accelerated.compiled.structures.clique_samples import sample_from_cliques
from accelerated.compiled.structures.clique_tables import Walks
from accelerated.compiled.structures.clique_tree import Layout, best_of_cliques, parts_of_cliques
from accelerated.mirror import mirrors
from reference.arrays import Array
from reference.structures.clique_oracles import MAX_TABLE, Cliques, GraphScores

__all__ = [
    "Graph",
    "GraphScores",
    "clique_max_marginals",
    "clique_max_product",
    "clique_node_max_marginals",
    "clique_sample",
    "clique_sum_product",
]


@mirrors(reference.clique_max_product)
def clique_max_product(scores: GraphScores, max_table: int = MAX_TABLE) -> tuple[Array, Array]:
    flat, layout = _flat(scores, max_table)
    labels = np.full(scores.unary.shape[0], -1)
    value = np.asarray(best_of_cliques(flat, layout, labels))
    return like(value, scores.unary), like(labels, scores.unary)


@mirrors(reference.clique_sum_product)
def clique_sum_product(scores: GraphScores, mu: float = 1.0, max_table: int = MAX_TABLE) -> tuple[Array, GraphScores]:
    flat, layout = _flat(scores, max_table)
    marginals = np.zeros(len(flat))
    value = np.asarray(parts_of_cliques(flat, float(mu), layout, marginals))
    return like(value, scores.unary), _shaped(marginals, scores)


@mirrors(reference.clique_sample)
def clique_sample(
    scores: GraphScores, uniforms: Array, mu: float = 1.0, max_table: int = MAX_TABLE
) -> tuple[Array, Array]:
    flat, layout = _flat(scores, max_table)
    numbers = view("uniforms", uniforms)
    if numbers.ndim != 2 or numbers.shape[1] != scores.unary.shape[0]:
        raise ValueError(f"uniforms: expected shape (size, {scores.unary.shape[0]}), got {numbers.shape}")
    labels = np.full(numbers.shape, -1)
    value = np.asarray(sample_from_cliques(flat, float(mu), layout, numbers, labels))
    return like(value, scores.unary), like(labels, scores.unary)


@mirrors(reference.clique_max_marginals)
def clique_max_marginals(scores: GraphScores, max_table: int = MAX_TABLE) -> GraphScores:
    flat, layout = _flat(scores, max_table)
    parts = np.full(len(flat), -np.inf)
    parts_of_cliques(flat, 0.0, layout, parts)
    return _shaped(parts, scores)


@mirrors(reference.clique_node_max_marginals)
def clique_node_max_marginals(scores: GraphScores, max_table: int = MAX_TABLE) -> Array:
    flat, layout = _flat(scores, max_table)
    p, L = scores.unary.shape
    parts = np.full(p * L, -np.inf)
    parts_of_cliques(flat, 0.0, layout, parts)
    return like(parts.reshape(p, L), scores.unary)


def _flat(scores: GraphScores, max_table: int) -> tuple[np.ndarray, Layout]:
    """The scores as one vector, as kernels take them, and the layout of the tables."""
    unary, pairwise = view("unary", scores.unary), view("pairwise", scores.pairwise)
    edges, counts = np.asarray(scores.edges, np.int64), scores.counts
    p, L = unary.shape
    if pairwise.shape != (len(edges), L, L):
        raise ValueError(f"pairwise: expected shape {(len(edges), L, L)}, got {pairwise.shape}")
    packed = None if counts is None else np.asarray(counts, np.int64).tobytes()
    return np.concatenate([unary.ravel(), pairwise.ravel()]), _layout(p, L, edges.tobytes(), packed, max_table)


def _shaped(parts: np.ndarray, scores: GraphScores) -> GraphScores:
    """The numbers of all parts as ``unary`` and ``pairwise``."""
    p, L = scores.unary.shape
    unary, pairwise = parts[: p * L].reshape(p, L), parts[p * L :].reshape(-1, L, L)
    return scores._replace(unary=like(unary, scores.unary), pairwise=like(pairwise, scores.unary))


@lru_cache(maxsize=256)
def _layout(p: int, L: int, packed_edges: bytes, packed_counts: bytes | None, max_table: int) -> Layout:
    """The places of tables, messages and parts. Raises ValueError if a table would exceed ``max_table``."""
    edges = np.frombuffer(packed_edges, np.int64).reshape(-1, 2)
    counts = None if packed_counts is None else np.frombuffer(packed_counts, np.int64)
    if len(edges) and not 0 <= edges.min() <= edges.max() < p:
        raise ValueError(f"edges: expected variables in 0..{p - 1}, got {edges.min()}..{edges.max()}")
    if counts is not None and (counts.shape != (p,) or (p and not 1 <= counts.min() <= counts.max() <= L)):
        raise ValueError(f"counts: expected {p} numbers in 1..{L}, got {counts.tolist()[:9]}")
    cliques = Cliques(GraphScores(np.empty((p, L)), np.empty((0, L, L)), edges, counts), max_table)
    tree, shapes = cliques.tree, cliques.shapes
    strides = [_strides(shape) for shape in shapes]
    messages, up, down = [], [], []
    for c, shared in enumerate(tree.shared):
        shape = [cliques.counts[v] for v in shared]
        mine = dict(zip(shared, _strides(shape), strict=True))
        parent = max(tree.parents[c], 0)
        messages.append(math.prod(shape))
        up.append(_runs(shapes[c], [mine.get(v, 0) for v in tree.cliques[c]]))
        down.append(_runs(shapes[parent], [mine.get(v, 0) for v in tree.cliques[parent]]))
    homes = np.array([*tree.nodes, *tree.edges], np.int64)
    order = np.argsort(homes, kind="stable")
    parts, where = [], []
    for q in order.tolist():
        c, (a, b) = int(homes[q]), (-1, q) if q < p else cliques.edges[q - p]
        parts.append(_runs(shapes[c], [L * (v == a) + (v == b) for v in tree.cliques[c]]))
        where.append(q * L if q < p else p * L + (q - p) * L * L)
    walks = up + down + parts
    return Layout(
        _offsets([math.prod(shape) for shape in shapes]).astype(np.uint64),
        _offsets(messages).astype(np.uint64),
        _offsets([len(below) for below in tree.children]),
        np.array([d for below in tree.children for d in below], np.int64),
        _offsets(np.bincount(homes, minlength=len(shapes)).tolist()),
        np.array(where, np.uint64),
        Walks(
            _offsets([len(runs) for runs in walks]),
            np.array([size for runs in walks for size, _ in runs], np.uint64),
            np.array([stride for runs in walks for _, stride in runs], np.uint64),
        ),
        _offsets([len(clique) for clique in tree.cliques]),
        np.array([v for clique in tree.cliques for v in clique], np.int64),
        np.array([size for shape in shapes for size in shape], np.uint64),
        np.array([stride for each in strides for stride in each], np.uint64),
    )


def _strides(shape: Sequence[int]) -> list[int]:
    """The strides of an array of this shape in C order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _runs(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Size and stride of each run: adjacent axes that can be walked with one stride are one run."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        elif size > 1:
            runs.append((size, stride))
    return runs or [(1, 0)]


def _offsets(sizes: Sequence[int]) -> np.ndarray:
    """The first place of each block of these sizes, and the end of the last."""
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))])


class Graph(reference.Graph):
    ops = sys.modules[__name__]
