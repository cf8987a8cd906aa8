"""The k best labellings of a tree, and max-marginals: the best score with each part.

Source: Pillutla et al., Algorithm 8 (K max-product) and Definition 13 (max-marginals).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place
from reference.structures.base import KBest, k_best
from reference.structures.tree_scores import TreeScores, leading, no_nodes, order, possible, transitions

__all__ = ["max_marginals", "top_k_max_product"]


def top_k_max_product(scores: TreeScores, k: int) -> KBest:
    """The k highest-scoring distinct labellings of each tree (the top-K oracle).

    m_v^(k)(y_u) = max^(k) of psi_v(y_v) + psi_{u,v}(y_u, y_v) + sum_{c in C(v)} m_c^(l_c)(y_v) over y_v and all ranks
    l_c <= K

    Parameters
    ----------
    scores : TreeScores
    k : int >= 1
        May exceed the number of labellings.

    Returns
    -------
    KBest
        scores (..., k) from high to low, then -inf; labels (..., k, p), -1 beyond ``count``; count (...,), the number
        of labellings found: k, or all that are not forbidden. A tree without nodes has one labelling, of score 0.

    Raises
    ------
    ValueError
        The parents form a cycle.

    Notes
    -----
    Children are merged one at a time. The k best sums of two sorted lists are among the pairs of ranks (i, j) with
    i j <= k, so a node costs O(L^2 k log(k L)) and a child O(L k log^2 k), by sorting; memory O(p L k). Ties: the
    smaller label at the root first, then the better rank within the subtree of the first child, then of the next child.
    The first labelling is that of :func:`max_product`. Scores are compared as rounded sums from the leaves up. If two
    scores become equal by a later rounding, the order before that rounding stays.

    Source
    ------
    Pillutla et al., Algorithm 8, *corrected*: the labels of leaves are stored as well. Ranks of children are merged two
    lists at a time, not as K^|C(v)| tuples (66). Entries of score -inf are dropped; otherwise labellings would be
    returned twice, or although they are forbidden.
    """
    xp, place = array_namespace(scores.unary), Place.of(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    batch, p, n_labels = leading(scores), len(parents), scores.unary.shape[-1]
    if p == 0:
        return k_best(no_nodes(xp, scores)[..., None], place.integers(np.zeros((*batch, 1, 0))), k)
    unary = possible(xp, scores)
    lists = [unary[..., v, :, None] for v in range(p)]  # (..., label of v, rank): best scores of the subtree of v
    merges: dict[int, _Merge] = {}  # merges[v] merges the list of v into that of its earlier siblings
    chosen: list[Array] = [unary] * p
    ranks = [1] * p  # the number of ranks for each label in the list of a node
    for v in walk.upward:
        ranks[v] = lists[v].shape[-1]
        total = lists[v][..., None, :, :] + transitions(scores, v)[..., None]  # (..., label of u, label of v, rank)
        message, chosen[v] = _largest(xp.reshape(total, (*batch, n_labels, n_labels * ranks[v])), k)
        lists[parents[v]], merges[v] = _merged(place, lists[parents[v]], message, k)
    tree_values = []
    for v in walk.roots:
        ranks[v] = lists[v].shape[-1]
        best, chosen[v] = _largest(xp.reshape(lists[v], (*batch, n_labels * ranks[v])), k)
        tree_values.append(best)
    value, (first, *others) = tree_values[0], walk.roots
    for v, best in zip(others, tree_values[1:], strict=True):
        value, merges[v] = _merged(place, value, best, k)

    kept = value.shape[-1]
    start = xp.broadcast_to(xp.arange(kept, dtype=xp.int64, device=place.device), (*batch, kept))
    labels, rank = [start] * p, [start] * p  # rank[v]: rank in the merged list of v, undone merge by merge
    for v in reversed(others):
        rank[first], rank[v] = merges[v].ranks(place, rank[first])
    for v in walk.roots:
        state = xp.take_along_axis(chosen[v], rank[v], axis=-1)
        labels[v], rank[v] = state // ranks[v], state % ranks[v]
    for u in [*walk.roots, *reversed(walk.upward)]:
        for v in reversed(walk.children[u]):
            rank[u], message_rank = merges[v].ranks(place, rank[u], labels[u])
            table = xp.reshape(chosen[v], (*batch, n_labels * chosen[v].shape[-1]))
            state = xp.take_along_axis(table, labels[u] * chosen[v].shape[-1] + message_rank, axis=-1)
            labels[v], rank[v] = state // ranks[v], state % ranks[v]
    return k_best(value, xp.stack(labels, axis=-1), k)


class _Merge(NamedTuple):
    """The k best sums of two lists: pair (..., [label,] rank) is the index of the pair of ranks (i, j) in each sum."""

    pair: Array
    i: np.ndarray
    j: np.ndarray

    def ranks(self, place: Place, rank: Array, label: Array | None = None) -> tuple[Array, Array]:
        """The ranks in both lists, given the rank (..., k) in the merged list and, if lists have labels, the label."""
        xp, kept = place.xp, self.pair.shape[-1]
        table, state = self.pair, rank
        if label is not None:
            table, state = xp.reshape(table, (*table.shape[:-2], table.shape[-2] * kept)), label * kept + rank
        index = xp.take_along_axis(table, state, axis=-1)
        flat = xp.reshape(index, (-1,))
        i, j = (xp.reshape(xp.take(place.integers(ranks), flat), index.shape) for ranks in (self.i, self.j))
        return i, j


def _merged(place: Place, a: Array, b: Array, k: int) -> tuple[Array, _Merge]:
    """The k largest sums of an entry of a and one of b, sorted along the last axes; ties by i, then by j.

    With ranks from 1, i j - 1 other pairs come before the pair (i, j), so only pairs with i j <= k are needed.
    """
    xp = place.xp
    pairs = [(i, j) for i in range(a.shape[-1]) for j in range(min(b.shape[-1], k // (i + 1)))]
    i, j = np.array(pairs, np.int64).T
    sums = xp.take(a, place.integers(i), axis=-1) + xp.take(b, place.integers(j), axis=-1)
    best, pair = _largest(sums, k)
    return best, _Merge(pair, i, j)


def _largest(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest entries (or all) along the last axis, from high to low, and their indices; ties by index."""
    xp = array_namespace(x)
    order = xp.argsort(x, axis=-1, descending=True, stable=True)[..., : min(k, x.shape[-1])]
    order = xp.asarray(order, copy=True)  # a view would keep all of order in memory, L times as much
    return xp.take_along_axis(x, order, axis=-1), order


def max_marginals(scores: TreeScores) -> TreeScores:
    """The highest score of a labelling that has each part.

    unary[v, j] = max_{y: y_v = j} score(y),  pairwise[v, i, j] = max_{y: y_parent(v) = i, y_v = j} score(y)

    Parameters
    ----------
    scores : TreeScores

    Returns
    -------
    TreeScores
        unary (..., p, L); pairwise (..., p, L, L) **even if the scores share one matrix**: these are values, one for
        each part of an output, not a gradient. -inf for a root's pairs, for labels that do not exist and for parts
        that no possible labelling has.

    Raises
    ------
    ValueError
        The parents form a cycle.

    Notes
    -----
    Time O(p L^2), memory O(p L^2). At each node the largest value equals the value of :func:`max_product` up to
    rounding. Scores outside the subtree of a node are summed from the parent and from the siblings on both sides, so
    nothing is subtracted.

    Source
    ------
    Pillutla et al., Definition 13 (of labels; here of pairs as well), by Algorithm 7 upwards, then downwards.
    """
    xp, place = array_namespace(scores.unary), Place.of(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    batch, p, n_labels = leading(scores), len(parents), scores.unary.shape[-1]
    if p == 0:
        return scores._replace(pairwise=place.zeros((*batch, 0, n_labels, n_labels)))
    unary = possible(xp, scores)
    subtree = [unary[..., v, :] for v in range(p)]
    messages: list[Array] = [unary] * p
    for v in walk.upward:
        messages[v] = xp.max(subtree[v][..., None, :] + transitions(scores, v), axis=-1)
        subtree[parents[v]] = subtree[parents[v]] + messages[v]
    outside: list[Array] = [unary] * p  # best score outside the subtree of v, for each label of v
    trees = [xp.max(subtree[v], axis=-1)[..., None] for v in walk.roots]
    for v, others in zip(walk.roots, _all_but_one(trees, xp.zeros_like(trees[0])), strict=True):
        outside[v] = others + xp.zeros_like(subtree[v])
    no_edge = xp.full_like(unary[..., 0, :, None] + unary[..., 0, None, :], -xp.inf)
    edges = [no_edge] * p
    for u in [*walk.roots, *reversed(walk.upward)]:
        siblings = _all_but_one([messages[v] for v in walk.children[u]], unary[..., u, :] + outside[u])
        for v, rest in zip(walk.children[u], siblings, strict=True):
            total = rest[..., :, None] + transitions(scores, v)  # (..., label of u, label of v)
            outside[v], edges[v] = xp.max(total, axis=-2), total + subtree[v][..., None, :]
    nodes = xp.stack([b + a for b, a in zip(subtree, outside, strict=True)], axis=-2)
    return scores._replace(unary=nodes, pairwise=xp.stack(edges, axis=-3))


def _all_but_one(terms: list[Array], own: Array) -> list[Array]:
    """For every i, own + the sum of all terms except the i-th: by sums from both ends, n additions each."""
    prefixes, suffixes = [own], list[Array]()
    for x in terms[:-1]:
        prefixes.append(prefixes[-1] + x)
    for x in reversed(terms):
        suffixes.append(x if not suffixes else x + suffixes[-1])
    return [b if i + 1 == len(terms) else b + suffixes[-2 - i] for i, b in enumerate(prefixes[: len(terms)])]
