"""Best dependency trees: the algorithm of Chu and Liu and of Edmonds, one contraction at a time.

Every token takes its best head; a cycle of tokens that arises becomes one token, whose possible heads are scored by
what the cycle gains with them. Source: McDonald et al. (2005), figure 3, after Chu and Liu (1965) and Edmonds (1967):
the minimum spanning trees of Martins et al., section 4.

With a single root the root is a last resort: trees are ordered by their number of root arcs first and by their score
second, and as only root arcs count, a token takes one only if it has no other head. More than one in the end: there is
no such tree.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host
from reference.structures.base import KBest, k_best

__all__ = ["ArborescenceScores", "max_marginals", "maximum_arborescence", "top_k_arborescences"]


class ArborescenceScores(NamedTuple):
    """The scores (n, n + 1) of the heads of n tokens: values[m, h] of head h, 0 the root, for token m + 1; -inf
    forbids. values[m, m + 1] is ignored.
    """

    values: Array


def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    """Highest score and a best dependency tree (the max oracle).

    max over trees y of sum_m values[m, y_m]

    Parameters
    ----------
    scores : ArborescenceScores
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array ()
        The sum of the arcs' scores, token after token; -inf where every tree uses a forbidden arc, nan where a score is
        nan or +inf.
    heads : int64 array (n,)
        0 for the root, m for token m; -1 throughout if there is no tree.

    Notes
    -----
    Time O(n^3). Scores up to 1e300 in size. Ties: a token's first best head, where these form a tree;
    otherwise not specified.

    Source
    ------
    Martins et al., section 4 (maximum spanning trees, after McDonald et al. 2005).
    """
    values, place = host_values(scores), Place.of(scores.values)
    no_tree = np.full(len(values), -1)
    if not np.all(values < np.inf):
        return place.floats(np.nan), place.integers(no_tree)
    heads = best_heads(values, single_root)
    if heads is None:
        return place.floats(-np.inf), place.integers(no_tree)
    return place.floats(tree_score(values, heads)), place.integers(heads)


def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    """For each arc the highest score of a tree that has it; -inf where there is none, and for a token as its own head.

    Notes
    -----
    A best tree for each arc that the best tree lacks: n^2 of them. All nan where a score is nan or +inf.

    Source
    ------
    Pillutla et al., Definition 13.
    """
    values = host_values(scores)
    out = np.full(values.shape, -np.inf if np.all(values < np.inf) else np.nan)
    best = best_heads(values, single_root) if np.all(values < np.inf) else None
    if best is not None:
        out[np.arange(len(values)), best] = tree_score(values, best)
        for m, h in np.argwhere((values > -np.inf) & (np.arange(values.shape[1]) != best[:, None])):
            heads = best_heads(_with_arc(values, m, h), single_root)
            if heads is not None:
                out[m, h] = tree_score(values, heads)
    return ArborescenceScores(Place.of(scores.values).floats(out))


def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    """The k best distinct trees (the top-K oracle).

    Parameters
    ----------
    scores : ArborescenceScores
    k : int >= 1
        May exceed the number of trees.
    single_root : bool

    Returns
    -------
    KBest
        scores (k,) from high to low, then -inf; labels (k, n), -1 beyond ``count``.

    Notes
    -----
    The trees but for the best are divided by the first token whose head differs, and each part, by its best tree, waits
    for its turn; at most k n best trees are computed. Equal scores in the order in which they were found.

    Source
    ------
    Lawler (1972), over the trees of Martins et al., section 4.
    """
    values, place = host_values(scores), Place.of(scores.values)
    found: list[tuple[float, np.ndarray]] = []
    waiting: list[tuple[float, int, np.ndarray, np.ndarray, int]] = []  # (-score, number, heads, scores, tokens fixed)
    numbers = 0

    def add(limited: np.ndarray, fixed: int) -> None:
        nonlocal numbers
        heads = best_heads(limited, single_root)
        if heads is not None:
            heapq.heappush(waiting, (-tree_score(values, heads), numbers, heads, limited, fixed))
            numbers += 1

    if np.all(values < np.inf):
        add(values, 0)
    while waiting and len(found) < k:
        score, _, heads, limited, fixed = heapq.heappop(waiting)
        found.append((-score, heads))
        for m in range(fixed, len(heads)) if len(found) < k else ():
            others = limited.copy()
            others[m, heads[m]] = -np.inf
            add(others, m)
            limited = _with_arc(limited, m, heads[m])
    labels = np.array([heads for _, heads in found], np.int64).reshape(len(found), len(values))
    return k_best(place.floats([score for score, _ in found]), place.integers(labels), k)


def host_values(scores: ArborescenceScores) -> np.ndarray:
    """The scores (n, n + 1) as float64 on the host, no token being its own head."""
    values = host(scores.values).astype(np.float64)
    tokens = np.arange(len(values))
    values[tokens, tokens + 1] = -np.inf
    return values


def tree_score(values: np.ndarray, heads: np.ndarray) -> float:
    """The score of a tree, added up token after token."""
    return float(sum(values[m, h] for m, h in enumerate(heads)))


def _with_arc(values: np.ndarray, m: int, h: int) -> np.ndarray:
    """The scores of the trees in which row m has head h."""
    limited = values.copy()
    limited[m, np.arange(values.shape[1]) != h] = -np.inf
    return limited


# one contraction at a time -----------------------------------------------------------------------------------------


class Contraction(NamedTuple):
    """How to undo that the tokens of a cycle became one, the last.

    heads (k,) before; cycle (c,) and kept (k - c,) rows; leaving (k - c,): the row of the cycle that is the best head
    of each kept one; entered (k - c + 1,): the row of the cycle that takes each possible head of it, the root first and
    then the kept rows.
    """

    heads: np.ndarray
    cycle: np.ndarray
    kept: np.ndarray
    leaving: np.ndarray
    entered: np.ndarray


def best_heads(values: np.ndarray, single_root: bool) -> np.ndarray | None:
    """The heads (n,) of a best tree under host scores (n, n + 1) with -inf for own heads; None if there is no tree."""
    contractions = []
    heads = greedy_heads(values, single_root)
    while heads is not None and len(cycle := find_cycle(heads)):
        values, contraction = contract(values, heads, cycle)
        contractions.append(contraction)
        heads = greedy_heads(values, single_root)
    if heads is None:
        return None
    for contraction in reversed(contractions):
        heads = expand(heads, contraction)
    return None if single_root and np.sum(heads == 0) > 1 else heads


def greedy_heads(values: np.ndarray, single_root: bool) -> np.ndarray | None:
    """The first best head of each token, the root as a last resort if it is to be single; None if a token has no
    head.
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    heads = np.argmax(values, axis=1)
    if single_root:
        others = values[:, 1:]
        heads = np.where(np.max(others, axis=1) > -np.inf, 1 + np.argmax(others, axis=1), 0)
    return heads if np.all(values[np.arange(len(heads)), heads] > -np.inf) else None


def find_cycle(heads: np.ndarray) -> np.ndarray:
    """The rows of a cycle of heads (k,), or none."""
    visited = np.full(len(heads), -1)  # by the walk from which row
    for start in range(len(heads)):
        m = start
        while m >= 0 and visited[m] < 0:
            visited[m] = start
            m = int(heads[m]) - 1
        if m >= 0 and visited[m] == start:
            cycle = [m]
            while (m := int(heads[m]) - 1) != cycle[0]:
                cycle.append(m)
            return np.array(cycle)
    return np.zeros(0, np.int64)


def contract(values: np.ndarray, heads: np.ndarray, cycle: np.ndarray) -> tuple[np.ndarray, Contraction]:
    """The scores after the rows of a cycle have become one, the last; a head of the cycle scores the gain over the
    arc that it replaces.
    """
    kept = np.setdiff1d(np.arange(len(values)), cycle)
    columns = np.concatenate([[0], kept + 1])
    gain = (values[cycle] - values[cycle, heads[cycle], None])[:, columns]
    below = values[np.ix_(kept, cycle + 1)]
    smaller = np.full((len(kept) + 1, len(kept) + 2), -np.inf)
    smaller[:-1, :-1] = values[np.ix_(kept, columns)]
    smaller[:-1, -1] = below.max(axis=1)
    smaller[-1, :-1] = gain.max(axis=0)
    return smaller, Contraction(heads, cycle, kept, cycle[below.argmax(axis=1)], cycle[gain.argmax(axis=0)])


def expand(heads: np.ndarray, undo: Contraction) -> np.ndarray:
    """The heads before a contraction: the cycle keeps its arcs but one."""
    names = np.concatenate([[0], undo.kept + 1, [-1]])
    of_kept, of_cycle = heads[:-1], heads[-1]
    before = undo.heads.copy()
    before[undo.kept] = np.where(names[of_kept] < 0, undo.leaving + 1, names[of_kept])
    before[undo.entered[of_cycle]] = names[of_cycle]
    return before
