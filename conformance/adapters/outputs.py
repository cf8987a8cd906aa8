"""All outputs of a small instance, their scores and their parts, by enumeration: the truth that answers are held to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

__all__ = ["OUTPUTS", "Listing", "spans"]


class Listing(NamedTuple):
    """outputs: m of them; scores (m,); parts: for each field of the marginals an array (m, ...) of 0 and 1."""

    outputs: list[Any]
    scores: np.ndarray
    parts: tuple[np.ndarray, ...]

    @property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.log_probabilities)

    @property
    def log_probabilities(self) -> np.ndarray:
        off = self.scores - self.scores.max()
        return off - np.log(np.exp(off).sum())

    @property
    def log_partition(self) -> float:
        top = self.scores.max()
        return float(top + np.log(np.exp(self.scores - top).sum()))


def listed(outputs: list[Any], fields: tuple[np.ndarray, ...], parts: tuple[np.ndarray, ...]) -> Listing:
    """The listing whose scores are sums of the parts that an output has: -inf * 0 is none of them."""
    scores = np.zeros(len(outputs))
    for field, part in zip(fields, parts, strict=True):
        scores += (np.where(part > 0, field, 0.0) * part).reshape(len(outputs), -1).sum(axis=1)
    return Listing(outputs, scores, parts)


def chains(unary: np.ndarray, pairwise: np.ndarray, lengths: np.ndarray | None = None) -> list[Listing]:
    """Labels (n,) of each chain; parts are nodes (n, L) and how often one label follows another (L, L)."""
    batch = [unary] if lengths is None else [each[:n] for each, n in zip(unary, lengths, strict=True)]
    found = []
    for each in batch:
        outputs, *parts = labellings(*each.shape)
        found.append(listed(outputs, (each, pairwise), tuple(parts)))
    return found


@lru_cache
def labellings(n: int, L: int) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """All labels of n positions, and their parts."""
    outputs = list(itertools.product(range(L), repeat=n))
    nodes, pairs = np.zeros((len(outputs), n, L)), np.zeros((len(outputs), L, L))
    for i, y in enumerate(outputs):
        nodes[i, range(n), y] = 1
        np.add.at(pairs[i], (y[:-1], y[1:]), 1)
    return outputs, nodes, pairs


def arborescences(values: np.ndarray, single_root: bool = False) -> list[Listing]:
    """Heads (n,), 0 the root; parts are arcs (n, n + 1)."""
    outputs, arcs = spanning(len(values), single_root)
    return [listed(outputs, (values,), (arcs,))]


def projective_trees(values: np.ndarray, single_root: bool = False) -> list[Listing]:
    """As arborescences, without crossing arcs."""
    outputs, arcs = spanning(len(values), single_root)
    kept = [i for i, heads in enumerate(outputs) if not crossing(heads)]
    return [listed([outputs[i] for i in kept], (values,), (arcs[kept],))]


@lru_cache
def spanning(n: int, single_root: bool) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Heads from which every token reaches the root, and their arcs."""
    outputs = []
    for heads in itertools.product(range(n + 1), repeat=n):
        reached = {0}
        for _ in range(n):
            reached |= {m + 1 for m, h in enumerate(heads) if h in reached}
        if len(reached) > n and not (single_root and heads.count(0) > 1):
            outputs.append(heads)
    arcs = np.zeros((len(outputs), n, n + 1))
    for i, heads in enumerate(outputs):
        arcs[i, range(n), heads] = 1
    return outputs, arcs


def crossing(heads: tuple[int, ...]) -> bool:
    """Whether two arcs cross where tokens stand in a row with the root at its left end."""
    arcs = [sorted((h, m + 1)) for m, h in enumerate(heads)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def spans(first: int, last: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Each binary tree over positions first..last, as its spans (i, j), both ends included."""
    if first == last:
        yield ((first, first),)
    for split in range(first, last):
        for left, right in itertools.product(spans(first, split), spans(split + 1, last)):
            yield ((first, last), *left, *right)


def span_trees(values: np.ndarray) -> list[Listing]:
    """Binary trees over n positions as sorted spans; parts are spans (n, n), first and last position."""
    outputs = [tuple(sorted(tree)) for tree in spans(0, len(values) - 1)]
    parts = np.zeros((len(outputs), *values.shape))
    for i, tree in enumerate(outputs):
        for first, last in tree:
            parts[i, first, last] = 1
    return [listed(outputs, (values,), (parts,))]


def cuts(unary: np.ndarray, pairwise: np.ndarray, edges: np.ndarray) -> list[Listing]:
    """Labels (p,) of 0 and 1; parts are nodes (p, 2) and edges (e, 2, 2)."""
    outputs = list(itertools.product((0, 1), repeat=len(unary)))
    nodes, pairs = np.zeros((len(outputs), *unary.shape)), np.zeros((len(outputs), *pairwise.shape))
    for i, y in enumerate(outputs):
        nodes[i, range(len(y)), y] = 1
        for e, (a, b) in enumerate(edges):
            pairs[i, e, y[a], y[b]] = 1
    return [listed(outputs, (unary, pairwise), (nodes, pairs))]


def matchings(values: np.ndarray) -> list[Listing]:
    """Columns (p,), -1 for none, of min(p, q) pairs; parts are pairs (p, q)."""
    p, q = values.shape
    outputs = [
        y
        for y in itertools.product(range(-1, q), repeat=p)
        if sum(j >= 0 for j in y) == len({j for j in y if j >= 0}) == min(p, q)
    ]
    pairs = np.zeros((len(outputs), p, q))
    for k, y in enumerate(outputs):
        for i, j in enumerate(y):
            if j >= 0:
                pairs[k, i, j] = 1
    return [listed(outputs, (values,), (pairs,))]


OUTPUTS = {
    "Chain": chains,
    "Arborescence": arborescences,
    "ProjectiveTree": projective_trees,
    "SpanTree": span_trees,
    "Cut": cuts,
    "Matching": matchings,
}
