"""Dependency trees: the reference's functions as kernels, on the host; networkx's solver beside them, as a check."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.structures.arborescence as reference
from accelerated.arrays import like, view
from accelerated.compiled.arborescence_sums import sum_over_trees
from accelerated.compiled.arborescences import best_heads, best_parts, best_tree, best_with_each_arc, tree_score
from accelerated.compiled.assignment import are_scores
from accelerated.mirror import mirrors
from reference.arrays import Array, Place
from reference.structures.arborescence import ArborescenceScores, sample
from reference.structures.base import KBest, feasible, k_best

__all__ = [
    "Arborescence",
    "ArborescenceScores",
    "max_marginals",
    "maximum_arborescence",
    "sample",
    "top_k_arborescences",
    "tree_partition",
]


@mirrors(reference.maximum_arborescence)
def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    return _answer(scores, single_root, best_tree)


@mirrors(reference.max_marginals)
def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    values = view("values", scores.values)
    found = best_with_each_arc(values, single_root) if are_scores(values) else np.full(values.shape, np.nan)
    return ArborescenceScores(like(found, scores.values))


@mirrors(reference.tree_partition)
def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    value, marginals = sum_over_trees(view("values", scores.values), mu, single_root)
    return like(np.asarray(value), scores.values), ArborescenceScores(like(marginals, scores.values))


@mirrors(reference.top_k_arborescences)
def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    values, place = view("values", scores.values), Place.of(scores.values)
    heads = np.empty(len(values), np.int64)
    found: list[tuple[float, np.ndarray]] = []
    waiting: list[tuple[float, int, np.ndarray, int, np.ndarray, np.ndarray]] = []
    if are_scores(values) and best_heads(values, single_root, heads):
        waiting.append((-tree_score(values, heads), 0, heads, -1, values, heads))
    numbers = 1
    while waiting and len(found) < k:
        score, _, heads, m, limited, of_parent = heapq.heappop(waiting)
        found.append((-score, heads))
        if len(found) == k:
            break
        if m >= 0:
            limited = _part(limited, of_parent, m)
        possible, values_of, heads_of = best_parts(limited, heads, max(m, 0), single_root)
        for i in np.flatnonzero(possible).tolist():
            heapq.heappush(waiting, (-values_of[i], numbers, heads_of[i], i, limited, heads))
            numbers += 1
    labels = np.array([heads for _, heads in found], np.int64).reshape(len(found), len(values))
    return k_best(place.floats([score for score, _ in found]), place.integers(labels), k)


def _part(limited: np.ndarray, heads: np.ndarray, m: int) -> np.ndarray:
    """The scores of the trees whose heads are ``heads`` before row m, and not in it."""
    limited, chosen = limited.copy(), heads[:m]
    kept = limited[np.arange(m), chosen]
    limited[:m] = -np.inf
    limited[np.arange(m), chosen] = kept
    limited[m, heads[m]] = -np.inf
    return limited


def _answer(scores: ArborescenceScores, single_root: bool, solve: Callable[[np.ndarray, bool], Any]) -> tuple[Any, Any]:
    """Value and heads (n,) from a solver, in the scores' place."""
    values = scores.values
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.c_contiguous:
        value, heads = solve(values, single_root)
        return np.asarray(value), heads
    value, heads = solve(view("values", values), single_root)
    return like(np.asarray(value), values), like(heads, values)


def _by_networkx(values: np.ndarray, single_root: bool) -> tuple[float, np.ndarray]:
    """Value and heads of a best tree by networkx: for a single root the best over all tokens that may be it."""
    n, best = len(values), (-np.inf, np.full(len(values), -1))
    if n == 0:
        return 0.0, best[1]
    for r in range(n if single_root else 1):
        limited = values.copy()
        if single_root:
            limited[np.arange(n) != r, 0] = -np.inf
        heads = _networkx_heads(limited)
        if heads is not None and tree_score(values, heads) > best[0]:
            best = tree_score(values, heads), heads
    return best


def _networkx_heads(values: np.ndarray) -> np.ndarray | None:
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(values) + 1))
    arcs = np.argwhere(values > -np.inf).tolist()
    graph.add_weighted_edges_from((h, m + 1, values[m, h]) for m, h in arcs if h != m + 1)
    try:
        tree = networkx.maximum_spanning_arborescence(graph)
    except networkx.NetworkXException:
        return None
    heads = np.empty(len(values), np.int64)
    for h, m in tree.edges():
        heads[m - 1] = h
    return heads


class Arborescence(reference.Arborescence):
    __doc__ = reference.Arborescence.__doc__
    ops = sys.modules[__name__]
    solvers = ("auto", "networkx")

    def best(self) -> tuple[Array, Array]:
        value, heads = _answer(self.scores, self.single_root, _SOLVERS[self.solver])
        return value if value > -np.inf else feasible(value, "best"), heads


_SOLVERS: dict[str, Any] = {"auto": best_tree, "networkx": _by_networkx}
