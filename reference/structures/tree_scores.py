"""The scores of rooted trees and forests, the order of their nodes, and functions that all oracles of trees use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from reference.arrays import Array, Place

__all__ = [
    "Order",
    "TreeScores",
    "exists",
    "finite",
    "leading",
    "linked",
    "no_nodes",
    "order",
    "possible",
    "transitions",
]


class TreeScores(NamedTuple):
    """The scores of a tree or of a batch of trees with the same parents. A gradient has the same shapes.

    unary (..., p, L); pairwise (L, L) shared by all nodes, or (..., p, L, L), pairwise[v, label of v's parent, label of
    v], where a root's entry is ignored; parents (p,) NumPy int64 on the host, -1 for a root; counts (p,) NumPy int64,
    the number of labels of each node, or None if all have L. Labels at and past a node's count do not exist.
    """

    unary: Array
    pairwise: Array
    parents: np.ndarray
    counts: np.ndarray | None = None


# not scores: every oracle returns them unchanged
TreeScores.layout = ("parents", "counts")  # type: ignore[attr-defined]


class Order(NamedTuple):
    """The roots, the other nodes with children before parents, and the children of each node, by number."""

    roots: list[int]
    upward: list[int]
    children: list[list[int]]


def order(parents: np.ndarray) -> Order:
    """The nodes deepest first, by number within a depth. Raises ValueError if the parents form a cycle."""
    roots: list[int] = []
    children: list[list[int]] = [[] for _ in range(len(parents))]
    for v, u in enumerate(parents.tolist()):
        (roots if u < 0 else children[u]).append(v)
    levels = [roots]
    while levels[-1]:
        levels.append(sorted(v for u in levels[-1] for v in children[u]))
    upward = [v for level in levels[:0:-1] for v in level]
    if len(roots) + len(upward) < len(parents):
        v = min(set(range(len(parents))) - set(roots) - set(upward))
        raise ValueError(f"parents: expected a forest, got a cycle: node {v} has no root above it")
    return Order(roots, upward, children)


def transitions(scores: TreeScores, v: int) -> Array:
    """Pairwise scores between node v and its parent: (label of the parent, label of v) on the last axes."""
    return scores.pairwise if scores.pairwise.ndim == 2 else scores.pairwise[..., v, :, :]


def exists(xp: Any, scores: TreeScores) -> Array:
    """Booleans (p, L): True for the labels that a node has."""
    n_labels, place = scores.unary.shape[-1], device(scores.unary)
    if scores.counts is None:
        return xp.ones(tuple(scores.unary.shape[-2:]), dtype=xp.bool, device=place)
    counts = Place.of(scores.unary).integers(scores.counts)
    return xp.arange(n_labels, dtype=xp.int64, device=place) < counts[:, None]


def possible(xp: Any, scores: TreeScores) -> Array:
    """The unary scores, with -inf for labels that do not exist."""
    if scores.counts is None:
        return scores.unary
    return xp.where(exists(xp, scores), scores.unary, -xp.inf)


def linked(scores: TreeScores) -> tuple[Array, Array, Array]:
    """The m nodes with a parent: their indices (m,), the indices of their parents (m,), and an indicator (p,) of them.

    All are arrays on the device of the scores.
    """
    place = Place.of(scores.unary)
    nodes = np.flatnonzero(scores.parents >= 0)
    return place.integers(nodes), place.integers(scores.parents[nodes]), place.floats(scores.parents >= 0)


def finite(xp: Any, x: Array) -> Array:
    """x with 0 in place of -inf: -inf minus -inf is then never computed."""
    return xp.where(x > -xp.inf, x, 0.0)


def leading(scores: TreeScores) -> tuple[int, ...]:
    """The shape of the batch axes."""
    return tuple(scores.unary.shape[:-2])


def no_nodes(xp: Any, scores: TreeScores) -> Array:
    """The value of a tree with p = 0 nodes: it has one output, of score 0."""
    return xp.zeros(leading(scores), dtype=scores.unary.dtype, device=device(scores.unary))
