"""Dependency trees: the reference's functions as kernels, on the host; networkx as an oracle beside them.

The best tree takes O(n^2). Best trees and sums of a batch are one call of a kernel, over threads.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import reference.structures.arborescence as reference
from accelerated.arrays import are_sound, like, ready, view
from accelerated.compiled.structures.arborescence_max import (
    best_heads,
    best_parts,
    best_range,
    best_tree,
    best_with_each_arc,
    tree_score,
)
from accelerated.compiled.structures.arborescence_samples import sample_trees
from accelerated.compiled.structures.arborescence_sum import sum_over_trees, sum_range
from accelerated.compiled.structures.assignment import are_scores
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array, Place, host
from reference.structures.arborescence import ArborescenceScores
from reference.structures.base import KBest

__all__ = [
    "Arborescence",
    "ArborescenceScores",
    "by_networkx",
    "max_marginals",
    "maximum_arborescence",
    "sample",
    "top_k_arborescences",
    "tree_partition",
]


@mirrors(reference.maximum_arborescence)
def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    if ready(scores.values) and scores.values.ndim == 2 and scores.lengths is None:
        value, heads = best_tree(scores.values, single_root)
        return np.asarray(value), heads
    value, heads = answers(best_range, scores, (single_root,), (0.0,), (-1, scores.values.shape[-2]))
    return like(value, scores.values), like(heads, scores.values)


def answers(
    kernel: Any, scores: ArborescenceScores, given: tuple[Any, ...], *rooms: Any, threads: int | None = None
) -> list[np.ndarray]:
    """What a kernel of ranges of sentences answers beside what it is given; ranges by the cubes of lengths. A room
    (number, *shape) is an array (..., *shape), filled with the number before.
    """
    (values, lengths), batch = flat(scores), scores.values.shape[:-2]
    filled = [np.full((len(values), *shape), number) for number, *shape in rooms]
    pieces = [(0, len(lengths))]
    if len(lengths) > 1:
        pieces = ranges(np.concatenate([[0], np.cumsum(lengths**3)]), at_least=10**5)
    in_parallel(lambda lo, hi: kernel(lo, hi, values, lengths, *given, *filled), pieces, threads)
    return [x.reshape((*batch, *x.shape[1:])) for x in filled]


def flat(scores: ArborescenceScores) -> tuple[np.ndarray, np.ndarray]:
    """values (B, n, n + 1), float32 or float64, and lengths (B,) of a batch."""
    *batch, n, m = scores.values.shape
    B = math.prod(batch)
    lengths = np.full(B, n) if scores.lengths is None else view("lengths", scores.lengths, np.int64).reshape(-1)
    if m != n + 1 or lengths.shape != (B,) or (B and not 0 <= lengths.min() <= lengths.max() <= n):
        raise ValueError(
            f"lengths: expected {B} numbers in 0..{n} for values {(*batch, n, m)}, got {lengths.tolist()[:9]}"
        )
    return view("values", scores.values, None).reshape(B, n, m), lengths


def _sentences(scores: ArborescenceScores) -> Iterator[tuple[int, np.ndarray]]:
    """The place and the scores of each sentence."""
    if scores.values.ndim == 2 and scores.lengths is None:
        yield 0, view("values", scores.values)
        return
    for b, (values, n) in enumerate(zip(*flat(scores), strict=True)):
        yield b, np.ascontiguousarray(values[:n, : n + 1], np.float64)


@mirrors(reference.max_marginals)
def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    *batch, n, m = scores.values.shape
    marginals = np.full((math.prod(batch), n, m), -np.inf)
    for b, values in _sentences(scores):
        own = marginals[b, : len(values), : len(values) + 1]
        own[:] = best_with_each_arc(values, single_root) if are_scores(values) else np.nan
    return scores._replace(values=like(marginals.reshape(*batch, n, m), scores.values))


@mirrors(reference.tree_partition)
def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    if ready(scores.values) and scores.values.ndim == 2 and scores.lengths is None:
        value, marginals = sum_over_trees(scores.values, float(mu), single_root)
        return np.asarray(value), ArborescenceScores(marginals)
    rooms = (0.0,), (0.0, *scores.values.shape[-2:])
    value, marginals = answers(sum_range, scores, (single_root, float(mu)), *rooms)
    return like(value, scores.values), scores._replace(values=like(marginals, scores.values))


@mirrors(reference.sample)
def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    numbers, (*batch, n, _) = view("uniforms", uniforms), scores.values.shape
    if numbers.ndim != len(batch) + 2 or (*numbers.shape[:-2], numbers.shape[-1]) != (*batch, n + 1):
        raise ValueError(f"uniforms: expected shape {(*batch, 'size', n + 1)}, got {numbers.shape}")
    B, size = math.prod(batch), numbers.shape[-2]
    value, heads = np.empty(B), np.full((B, size, n), -1)
    numbers = numbers.reshape(B, size, n + 1)
    for b, values in _sentences(scores):
        own = np.full((size, len(values)), -1)
        of_tokens = np.ascontiguousarray(numbers[b, :, : len(values) + 1])
        value[b] = sample_trees(values, float(mu), single_root, of_tokens, own)
        heads[b, :, : len(values)] = own
    shaped = heads.reshape(*batch, size, n)
    return like(value.reshape(batch), scores.values), like(shaped, scores.values)


@mirrors(reference.top_k_arborescences)
def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    (*batch, n, _), place = scores.values.shape, Place.of(scores.values)
    highest, labels = np.full((math.prod(batch), k), -np.inf), np.full((math.prod(batch), k, n), -1)
    for b, values in _sentences(scores):
        for rank, (score, heads) in enumerate(_best_trees(values, k, single_root)):
            highest[b, rank], labels[b, rank, : len(heads)] = score, heads
    scores_of = place.floats(highest.reshape(*batch, k))
    return k_best(scores_of, place.integers(labels.reshape(*batch, k, n)), k)


def _best_trees(values: np.ndarray, k: int, single_root: bool) -> list[tuple[float, np.ndarray]]:
    """The scores and heads of the k best trees of one sentence, or of all if there are fewer."""
    heads = np.empty(len(values), np.int64)
    trees: list[tuple[float, np.ndarray]] = []
    waiting: list[tuple[float, int, np.ndarray, int, np.ndarray, np.ndarray]] = []
    if are_scores(values) and best_heads(values, single_root, heads):
        waiting.append((-tree_score(values, heads), 0, heads, -1, values, heads))
    numbers = 1
    while waiting and len(trees) < k:
        score, _, heads, m, limited, of_parent = heapq.heappop(waiting)
        trees.append((-score, heads))
        if len(trees) == k:
            break
        if m >= 0:
            limited = _part(limited, of_parent, m)
        possible, values_of, heads_of = best_parts(limited, heads, max(m, 0), single_root)
        for i in np.flatnonzero(possible).tolist():
            heapq.heappush(waiting, (-values_of[i], numbers, heads_of[i], i, limited, heads))
            numbers += 1
    return trees


def _part(limited: np.ndarray, heads: np.ndarray, m: int) -> np.ndarray:
    """The scores that leave the trees with heads ``heads`` before row m and another head in row m."""
    limited, chosen = limited.copy(), heads[:m]
    kept = limited[np.arange(m), chosen]
    limited[:m] = -np.inf
    limited[np.arange(m), chosen] = kept
    limited[m, heads[m]] = -np.inf
    return limited


def by_networkx(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    """Highest score and a best tree by networkx's branchings: an ``oracle`` for models, of either panel.

    Parameters
    ----------
    scores : ArborescenceScores
        Of any namespace and device; the tree is found on the host.
    single_root : bool
        Whether exactly one token has the root as its head. As an oracle: ``partial(by_networkx, single_root=True)``.

    Returns
    -------
    value : array ()
        The sum of the arcs' scores, token after token; -inf where every tree uses a forbidden arc, nan where a score is
        nan or +inf.
    heads : int64 array (n,)
        -1 throughout if there is no tree.

    Notes
    -----
    Runs ``networkx.maximum_branching`` on scores raised so far that a branching of more arcs always scores higher;
    ``maximum_spanning_arborescence`` raises them too little, and misses trees. With ``single_root``, runs once for each
    token that may be under the root. Ties: not specified.

    Source
    ------
    Edmonds (1967), as implemented in networkx; Martins et al., section 4.

    Examples
    --------
    >>> from accelerated import ParsingModel, StructuralHinge, bcfw
    >>> model = ParsingModel([("h.tag", "m.tag", "direction")], bits=6, oracle=by_networkx)
    >>> data = model.pack([{"tag": ["D", "N", "V"]}, {"tag": ["N", "V", "D", "N"]}], [[2, 3, 0], [2, 0, 4, 2]])
    >>> w = bcfw(StructuralHinge(model, data), lam=0.1, rng=0).x
    >>> [heads.tolist() for heads in model.predict(data, None, w)]
    [[2, 3, 0], [2, 0, 4, 2]]
    """
    values, place = np.array(host(scores.values), np.float64, order="C"), Place.of(scores.values)
    n = len(values)
    value, best = -np.inf, np.full(n, -1)
    if not are_scores(values):
        return place.floats(np.nan), place.integers(best)
    for root in range(n) if single_root and n else [None]:
        limited = values.copy()
        if root is not None:
            limited[np.arange(n) != root, 0] = -np.inf
        heads = _networkx_heads(limited)
        if heads is not None and tree_score(values, heads) > value:
            value, best = tree_score(values, heads), heads
    return place.floats(value), place.integers(best)


def _networkx_heads(values: np.ndarray) -> np.ndarray | None:
    """The heads (n,) of a best tree; None if there is none."""
    import networkx

    n, graph = len(values), networkx.DiGraph()
    graph.add_nodes_from(range(n + 1))
    arcs = [(h, m + 1) for m, h in np.argwhere(values > -np.inf).tolist() if h != m + 1]
    each = np.array([values[m - 1, h] for h, m in arcs])
    lowest, highest = each.min(initial=np.inf), each.max(initial=-np.inf)
    raised = each - lowest + ((n + 1) * (highest - lowest) or 1.0)  # any n of these exceed any n - 1
    graph.add_weighted_edges_from((*arc, weight) for arc, weight in zip(arcs, raised.tolist(), strict=True))
    tree = networkx.maximum_branching(graph)
    heads = np.full(n, -1)
    for h, m in tree.edges():
        heads[m - 1] = h
    return None if np.any(heads < 0) else heads


class Arborescence(reference.Arborescence):
    ops = sys.modules[__name__]

    def __init__(self, values: Any, single_root: bool = False, lengths: Any = None) -> None:
        sound = lengths is None and are_sound(values) and values.ndim >= 2 and values.shape[-1] == values.shape[-2] + 1
        if sound and isinstance(single_root, bool):
            self.scores, self.single_root = ArborescenceScores(values), single_root
        else:
            super().__init__(values, single_root, lengths)
