"""Best dependency trees by the algorithm of Chu, Liu and Edmonds, one contraction at a time.

Every token takes its best head. If these heads form a cycle, the cycle is contracted to one token; the score of a head
of this token is the gain of the cycle from replacing one of its arcs. Source: McDonald et al. (2005), figure 3, after
Chu and Liu (1965) and Edmonds (1967): the minimum spanning trees of Martins et al., section 4.

With a single root, trees are ordered first by their number of root arcs and then by their score. A token then takes a
root arc only if it has no other head. If the resulting tree has several root arcs, no tree has a single one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host
from reference.structures.base import KBest, k_best
from reference.structures.batches import places

__all__ = ["ArborescenceScores", "max_marginals", "maximum_arborescence", "top_k_arborescences"]


class ArborescenceScores(NamedTuple):
    """values (..., n, n + 1): values[..., m, h] is the score of head h (0: the root) for token m + 1.

    -inf forbids an arc; values[..., m, m + 1] is ignored. lengths (...,) int64: the number of tokens of each sentence,
    or None if all have n.
    """

    values: Array
    lengths: Array | None = None


ArborescenceScores.layout = ("lengths",)  # type: ignore[attr-defined]


def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    """Highest score and a best dependency tree of each sentence (the max oracle).

    max over trees y of sum_m values[m, y_m]

    Parameters
    ----------
    scores : ArborescenceScores
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array (...,)
        The sum of the arc scores in the order of the tokens; -inf if every tree has a forbidden arc, nan if a score is
        nan or +inf.
    heads : int64 array (..., n)
        0 for the root, m for token m; -1 past a sentence's length, and all -1 if there is no tree.

    Notes
    -----
    Time O(n^3). Scores may be up to 1e300 in absolute value. Ties: the first best head of each token if these heads
    form a tree; otherwise not specified.

    Source
    ------
    Martins et al., section 4 (maximum spanning trees, after McDonald et al. 2005).
    """
    (*batch, n, _), place = scores.values.shape, Place.of(scores.values)
    value, heads = np.zeros(batch), np.full((*batch, n), -1)
    for b, values in sentences(scores):
        value[b], heads[b][: len(values)] = best_tree(values, single_root)
    return place.floats(value), place.integers(heads)


def best_tree(values: np.ndarray, single_root: bool) -> tuple[float, np.ndarray | int]:
    """Value and heads (n,) of a best tree of one sentence, -1 if there is none."""
    if not np.all(values < np.inf):
        return np.nan, -1
    heads = best_heads(values, single_root)
    return (-np.inf, -1) if heads is None else (tree_score(values, heads), heads)


def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    """For each arc the highest score of a tree with this arc; -inf if there is none, for a token as its own head, and
    past a sentence's length.

    Notes
    -----
    Time O(n^5): one maximum arborescence for each of the n^2 arcs outside the best tree. A sentence with a score of
    nan or +inf has nan throughout.

    Source
    ------
    Pillutla et al., Definition 13.
    """
    marginals = np.full(scores.values.shape, -np.inf)
    for b, values in sentences(scores):
        n = len(values)
        marginals[b][:n, : n + 1] = best_with_each_arc(values, single_root)
    return scores._replace(values=Place.of(scores.values).floats(marginals))


def best_with_each_arc(values: np.ndarray, single_root: bool) -> np.ndarray:
    """The max-marginals (n, n + 1) of one sentence."""
    out = np.full(values.shape, -np.inf if np.all(values < np.inf) else np.nan)
    best = best_heads(values, single_root) if np.all(values < np.inf) else None
    if best is not None:
        out[np.arange(len(values)), best] = tree_score(values, best)
        for m, h in np.argwhere((values > -np.inf) & (np.arange(values.shape[1]) != best[:, None])):
            heads = best_heads(_with_arc(values, m, h), single_root)
            if heads is not None:
                out[m, h] = tree_score(values, heads)
    return out


def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    """The k best distinct trees of each sentence (the top-K oracle).

    Parameters
    ----------
    scores : ArborescenceScores
    k : int >= 1
        May exceed the number of trees.
    single_root : bool

    Returns
    -------
    KBest
        scores (..., k) from high to low, then -inf; labels (..., k, n), -1 beyond ``count`` and past a sentence's
        length; count (...,).

    Notes
    -----
    The trees other than the best one are partitioned by the first token with another head. A priority queue holds these
    sets, ordered by the score of their best tree. At most k n best trees are computed. Ties: in the order in which the
    trees were found.

    Source
    ------
    Lawler (1972), for the trees of Martins et al., section 4.
    """
    (*batch, n, _), place = scores.values.shape, Place.of(scores.values)
    highest, labels = np.full((*batch, k), -np.inf), np.full((*batch, k, n), -1)
    for b, values in sentences(scores):
        for rank, (score, heads) in enumerate(best_trees(values, k, single_root)):
            highest[b][rank], labels[b][rank, : len(heads)] = score, heads
    return k_best(place.floats(highest), place.integers(labels), k)


def best_trees(values: np.ndarray, k: int, single_root: bool) -> list[tuple[float, np.ndarray]]:
    """The scores and heads of the k best trees of one sentence, or of all if there are fewer."""
    best: list[tuple[float, np.ndarray]] = []
    queue: list[tuple[float, int, np.ndarray, np.ndarray, int]] = []  # (-score, number, heads, values, tokens fixed)
    n_sets = 0

    def add(limited: np.ndarray, fixed: int) -> None:
        nonlocal n_sets
        heads = best_heads(limited, single_root)
        if heads is not None:
            heapq.heappush(queue, (-tree_score(values, heads), n_sets, heads, limited, fixed))
            n_sets += 1

    if np.all(values < np.inf):
        add(values, 0)
    while queue and len(best) < k:
        score, _, heads, limited, fixed = heapq.heappop(queue)
        best.append((-score, heads))
        for m in range(fixed, len(heads)) if len(best) < k else ():
            others = limited.copy()
            others[m, heads[m]] = -np.inf
            add(others, m)
            limited = _with_arc(limited, m, heads[m])
    return best


def sentences(scores: ArborescenceScores) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The place of each sentence in its batch, and its scores (n, n + 1): float64 on the host, with -inf for a token as
    its own head, n the length of the sentence.
    """
    values = host(scores.values).astype(np.float64)
    *batch, n, _ = values.shape
    values[..., np.arange(n), np.arange(1, n + 1)] = -np.inf
    lengths = np.full(batch, n) if scores.lengths is None else host(scores.lengths)
    for b in places(batch):
        yield b, values[b][: lengths[b], : lengths[b] + 1]


def tree_score(values: np.ndarray, heads: np.ndarray) -> float:
    """The score of a tree: the sum of its arc scores in the order of the tokens."""
    return float(sum(values[m, h] for m, h in enumerate(heads)))


def _with_arc(values: np.ndarray, m: int, h: int) -> np.ndarray:
    """The scores with -inf for every head of row m except h."""
    limited = values.copy()
    limited[m, np.arange(values.shape[1]) != h] = -np.inf
    return limited


# one contraction at a time -----------------------------------------------------------------------------------------


class Contraction(NamedTuple):
    """The contraction of a cycle of tokens to one token, the last row; :func:`expand` undoes it.

    heads (k,): the heads before; cycle (c,) and kept (k - c,): the rows in the cycle and outside; leaving (k - c,): for
    each kept row its best head in the cycle, as a row; entered (k - c + 1,): for each head of the cycle, the root and
    then the kept rows, the row of the cycle that takes it.
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
    """The first best head of each token; None if a token has no possible head.

    With ``single_root`` a token takes the root only if it has no other possible head.
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    heads = np.argmax(values, axis=1)
    if single_root:
        others = values[:, 1:]
        heads = np.where(np.max(others, axis=1) > -np.inf, 1 + np.argmax(others, axis=1), 0)
    return heads if np.all(values[np.arange(len(heads)), heads] > -np.inf) else None


def find_cycle(heads: np.ndarray) -> np.ndarray:
    """The rows of a cycle of heads (k,); empty if there is no cycle."""
    visited = np.full(len(heads), -1)  # the row at which the walk that visited this row started
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
    """The scores after a cycle is contracted to one row, the last, and the record to undo the contraction.

    The score of a head of the cycle is its gain over the arc that it replaces.
    """
    kept = np.setdiff1d(np.arange(len(values)), cycle)
    columns = np.concatenate([[0], kept + 1])
    gain = (values[cycle] - values[cycle, heads[cycle], None])[:, columns]
    from_cycle = values[np.ix_(kept, cycle + 1)]
    smaller = np.full((len(kept) + 1, len(kept) + 2), -np.inf)
    smaller[:-1, :-1] = values[np.ix_(kept, columns)]
    smaller[:-1, -1] = from_cycle.max(axis=1)
    smaller[-1, :-1] = gain.max(axis=0)
    return smaller, Contraction(heads, cycle, kept, cycle[from_cycle.argmax(axis=1)], cycle[gain.argmax(axis=0)])


def expand(heads: np.ndarray, contraction: Contraction) -> np.ndarray:
    """The heads before a contraction: the cycle keeps all its arcs except one."""
    names = np.concatenate([[0], contraction.kept + 1, [-1]])
    of_kept, of_cycle = heads[:-1], heads[-1]
    expanded = contraction.heads.copy()
    expanded[contraction.kept] = np.where(names[of_kept] < 0, contraction.leaving + 1, names[of_kept])
    expanded[contraction.entered[of_cycle]] = names[of_cycle]
    return expanded
