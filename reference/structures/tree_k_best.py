"""More than the best labelling of a tree: the k best, and the best that has each part.

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
        of labellings found: k, or all that are not forbidden. The tree of no nodes has one, of score 0.

    Raises
    ------
    ValueError
        The parents run in a cycle.

    Notes
    -----
    Children are merged one at a time: the k best sums of two sorted lists are among the pairs of ranks (i, j) with i
    j <= k, so that a node costs O(L^2 k log(k L)) and a child O(L k log^2 k), by sorting; memory O(p L k). Ties: the
    smaller label at the root first, then the better rank of what is below its first children, then of the next; so the
    first labelling is :func:`max_product`'s. Scores are compared as summed and rounded from below; of labellings that
    become equal only by a later rounding, the one ahead stays ahead.

    Source
    ------
    Pillutla et al., Algorithm 8, *corrected*: the labels of leaves are stored, too; ranks of children are merged two
    lists at a time, not as K^|C(v)| tuples (66); entries of score -inf are dropped, so that nothing is returned twice
    or although forbidden.
    """
    xp, place = array_namespace(scores.unary), Place.of(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    batch, p, n_labels = leading(scores), len(parents), scores.unary.shape[-1]
    if p == 0:
        return k_best(no_nodes(xp, scores)[..., None], place.integers(np.zeros((*batch, 1, 0))), k)
    unary = possible(xp, scores)
    lists = [unary[..., v, :, None] for v in range(p)]  # (..., label of v, rank): the best of v and what is below it
    merges: dict[int, _Merge] = {}  # of each node, with the siblings before it
    chosen: list[Array] = [unary] * p
    ranks = [1] * p  # in the list that a node's label is chosen from
    for v in walk.upward:
        ranks[v] = lists[v].shape[-1]
        total = lists[v][..., None, :, :] + transitions(scores, v)[..., None]  # (..., label of u, label of v, rank)
        message, chosen[v] = _largest(xp.reshape(total, (*batch, n_labels, n_labels * ranks[v])), k)
        lists[parents[v]], merges[v] = _merged(place, lists[parents[v]], message, k)
    of_trees = []
    for v in walk.roots:
        ranks[v] = lists[v].shape[-1]
        best, chosen[v] = _largest(xp.reshape(lists[v], (*batch, n_labels * ranks[v])), k)
        of_trees.append(best)
    value, (first, *others) = of_trees[0], walk.roots
    for v, best in zip(others, of_trees[1:], strict=True):
        value, merges[v] = _merged(place, value, best, k)

    kept = value.shape[-1]
    start = xp.broadcast_to(xp.arange(kept, dtype=xp.int64, device=place.device), (*batch, kept))
    labels, here = [start] * p, [start] * p  # here: rank in the list of what is merged, less and less of it
    for v in reversed(others):
        here[first], here[v] = merges[v].apart(place, here[first])
    for v in walk.roots:
        state = xp.take_along_axis(chosen[v], here[v], axis=-1)
        labels[v], here[v] = state // ranks[v], state % ranks[v]
    for u in [*walk.roots, *reversed(walk.upward)]:
        for v in reversed(walk.children[u]):
            here[u], mine = merges[v].apart(place, here[u], labels[u])
            table = xp.reshape(chosen[v], (*batch, n_labels * chosen[v].shape[-1]))
            state = xp.take_along_axis(table, labels[u] * chosen[v].shape[-1] + mine, axis=-1)
            labels[v], here[v] = state // ranks[v], state % ranks[v]
    return k_best(value, xp.stack(labels, axis=-1), k)


class _Merge(NamedTuple):
    """How the k best sums of two lists came about: pair (..., [label,] rank) is the number of a pair (i, j) of
    ranks.
    """

    pair: Array
    i: np.ndarray
    j: np.ndarray

    def apart(self, place: Place, rank: Array, label: Array | None = None) -> tuple[Array, Array]:
        """The ranks in both lists of what has a rank (..., k) in the merged one, of a label (..., k) where there are
        labels.
        """
        xp, kept = place.xp, self.pair.shape[-1]
        table = (
            self.pair if label is None else xp.reshape(self.pair, (*self.pair.shape[:-2], self.pair.shape[-2] * kept))
        )
        number = xp.take_along_axis(table, rank if label is None else label * kept + rank, axis=-1)
        flat = xp.reshape(number, (-1,))
        i, j = (xp.reshape(xp.take(place.integers(of), flat), number.shape) for of in (self.i, self.j))
        return i, j


def _merged(place: Place, a: Array, b: Array, k: int) -> tuple[Array, _Merge]:
    """The k largest sums of an entry of a and one of b, sorted lists on the last axes; among equals by i, then by j.

    Of the pairs (i, j), counted from 1, i j - 1 others are as good and come before it: only i j <= k can be wanted.
    """
    xp = place.xp
    pairs = [(i, j) for i in range(a.shape[-1]) for j in range(min(b.shape[-1], k // (i + 1)))]
    i, j = np.array(pairs, np.int64).T
    sums = xp.take(a, place.integers(i), axis=-1) + xp.take(b, place.integers(j), axis=-1)
    best, pair = _largest(sums, k)
    return best, _Merge(pair, i, j)


def _largest(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest along the last axis (or all), from high to low, and their indices; among equals the smaller
    index first.
    """
    xp = array_namespace(x)
    order = xp.argsort(x, axis=-1, descending=True, stable=True)[..., : min(k, x.shape[-1])]
    order = xp.asarray(order, copy=True)  # a view would keep the whole order, L times as much
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
        unary (..., p, L); pairwise (..., p, L, L) **also where the scores share one matrix**: these are values, one for
        each part of an output, and no gradient. -inf for a root's pairs, for labels that do not exist and for parts
        that no possible labelling has.

    Raises
    ------
    ValueError
        The parents run in a cycle.

    Notes
    -----
    Time O(p L^2), memory O(p L^2). The largest at each node is :func:`max_product`'s value up to rounding: what is not
    below a node is summed from above, its siblings from both ends, so that nothing is subtracted.

    Source
    ------
    Pillutla et al., Definition 13 (there of labels; here of pairs too), by Algorithm 7 upwards and again downwards.
    """
    xp, place = array_namespace(scores.unary), Place.of(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    batch, p, n_labels = leading(scores), len(parents), scores.unary.shape[-1]
    if p == 0:
        return scores._replace(pairwise=place.zeros((*batch, 0, n_labels, n_labels)))
    unary = possible(xp, scores)
    below = [unary[..., v, :] for v in range(p)]
    messages: list[Array] = [unary] * p
    for v in walk.upward:
        messages[v] = xp.max(below[v][..., None, :] + transitions(scores, v), axis=-1)
        below[parents[v]] = below[parents[v]] + messages[v]
    above: list[Array] = [unary] * p  # best of all that is not v nor below it, with each label of v
    trees = [xp.max(below[v], axis=-1)[..., None] for v in walk.roots]
    for v, others in zip(walk.roots, _all_but_one(trees, xp.zeros_like(trees[0])), strict=True):
        above[v] = others + xp.zeros_like(below[v])
    nowhere = xp.full_like(unary[..., 0, :, None] + unary[..., 0, None, :], -xp.inf)
    edges = [nowhere] * p
    for u in [*walk.roots, *reversed(walk.upward)]:
        siblings = _all_but_one([messages[v] for v in walk.children[u]], unary[..., u, :] + above[u])
        for v, rest in zip(walk.children[u], siblings, strict=True):
            onto = rest[..., :, None] + transitions(scores, v)  # (..., label of u, label of v)
            above[v], edges[v] = xp.max(onto, axis=-2), onto + below[v][..., None, :]
    nodes = xp.stack([b + a for b, a in zip(below, above, strict=True)], axis=-2)
    return scores._replace(unary=nodes, pairwise=xp.stack(edges, axis=-3))


def _all_but_one(each: list[Array], own: Array) -> list[Array]:
    """own + the sum of all but the i-th, for every i: from both ends, n additions each."""
    before, after = [own], list[Array]()
    for x in each[:-1]:
        before.append(before[-1] + x)
    for x in reversed(each):
        after.append(x if not after else x + after[-1])
    return [b if i + 1 == len(each) else b + after[-2 - i] for i, b in enumerate(before[: len(each)])]
