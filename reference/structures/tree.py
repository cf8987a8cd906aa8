"""Rooted trees and forests: one label per node, with scores of labels and of pairs of a node and its parent.

score(y) = sum_v unary[v, y_v] + sum_{v not a root} pairwise[v, y_parent(v), y_v]. The paper's algorithms are functions
of arrays with any number of leading batch axes; :class:`Tree` wraps them and validates its arguments. ``tree_k_best``
has the k best labellings and max-marginals, ``tree_samples`` random labellings. A chain is a tree. Source: Pillutla et
al., appendix B: Algorithm 7 (max-product), 8 (K max-product) and 9 (sum-product; here in log space, see the ledger).

Conventions. A tree without nodes has exactly one output, the empty one, of score 0. Several roots make a forest; a
labelling of a forest labels all its trees. In the functions a label that does not exist has no parts. :class:`Tree`
rejects such a label; only -1 at every node is allowed and means no labelling. Ties go to the smallest label of each
root, then of its children given the label of the root, and so on (the first index in every argmax). No function is
recursive, so the depth of a tree is not limited.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host, integer, normalized, one_hot, seen, softmax, take_last
from reference.structures.base import KBest, Structure, at_most, feasible, positive_k, positive_mu
from reference.structures.sampling import uniforms
from reference.structures.tree_k_best import max_marginals, top_k_max_product
from reference.structures.tree_samples import filtered, sample
from reference.structures.tree_scores import TreeScores, exists, leading, linked, no_nodes, order, possible, transitions

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


def max_product(scores: TreeScores) -> tuple[Array, Array]:
    """Highest score and best labelling of each tree (the max oracle).

    m_v(y_u) = max_{y_v} psi_v(y_v) + psi_{u,v}(y_u, y_v) + sum_{c in C(v)} m_c(y_v), u the parent of v

    Parameters
    ----------
    scores : TreeScores

    Returns
    -------
    value : array (...,)
        -inf where every labelling is forbidden.
    labels : int64 array (..., p)
        -1 at every node of a tree without a feasible labelling.

    Raises
    ------
    ValueError
        The parents form a cycle.

    Notes
    -----
    Time O(p L^2), memory O(p L). Ties: the smallest label of each root, then downwards.

    Source
    ------
    Pillutla et al., Algorithm 7.
    """
    xp = array_namespace(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    value = no_nodes(xp, scores)
    p = len(parents)
    if p == 0:
        return value, Place.of(scores.unary).integers(np.zeros((*leading(scores), 0)))
    unary = possible(xp, scores)
    best = [unary[..., v, :] for v in range(p)]  # best score of the subtree of v, for each label of v
    back: dict[int, Array] = {}
    for v in walk.upward:
        total = best[v][..., None, :] + transitions(scores, v)  # (..., label of the parent, label of v)
        back[v] = xp.argmax(total, axis=-1)
        best[parents[v]] = best[parents[v]] + xp.max(total, axis=-1)
    labels: list[Array] = [value] * p
    for v in walk.roots:
        value = value + xp.max(best[v], axis=-1)
        labels[v] = xp.argmax(best[v], axis=-1)
    for v in reversed(walk.upward):
        labels[v] = take_last(xp, back[v], labels[parents[v]])
    labelling = xp.stack(labels, axis=-1)
    return value, xp.where((value > -xp.inf)[..., None], labelling, -1)


def sum_product(scores: TreeScores, mu: float = 1.0) -> tuple[Array, TreeScores]:
    """Log-partition function of each tree at temperature mu, and its gradient (the exp oracle).

    A = mu log sum_y exp(score(y) / mu), with gradient the marginals P(y_v = j) and P(y_parent(v) = i, y_v = j).

    Parameters
    ----------
    scores : TreeScores
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        -inf where every labelling is forbidden.
    marginals : TreeScores
        unary (..., p, L); pairwise shaped like the scores' pairwise, 0 for roots. **The gradient of a shared pairwise
        matrix is summed over nodes and over the batch.** All 0 if no labelling is feasible.

    Raises
    ------
    ValueError
        The parents form a cycle.

    Notes
    -----
    Time O(p L^2) with an exponential per term; memory O(p L), or O(p L^2) if each node has its own pairwise scores.
    Upward messages are normalised logarithms, so nothing underflows. There are no downward messages: P(y_v) is the sum
    over y_parent of P(y_parent) P(y_v | y_parent), with each distribution normalised. Thus rounding errors do not grow
    with depth, and marginals sum to 1 at any scale.

    Source
    ------
    Pillutla et al., Algorithm 9 and Lemma 7 (ii), *corrected*: messages are normalised and in log space. Edge
    marginals use conditional probabilities; Remark 44 divides by messages that may be 0.
    """
    xp = array_namespace(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    if not parents:
        return no_nodes(xp, scores), scores._replace(pairwise=xp.zeros_like(scores.pairwise))
    scaled = scores._replace(unary=possible(xp, scores) / mu, pairwise=scores.pairwise / mu)
    log_z, subtree = filtered(xp, scaled, walk)
    is_feasible = xp.astype(log_z > -xp.inf, log_z.dtype)[..., None]
    nodes: list[Array] = [is_feasible] * len(parents)
    for v in walk.roots:
        nodes[v] = is_feasible * softmax(xp, subtree[v])
    edges = _Edges(xp, scores)
    for v in reversed(walk.upward):
        conditional = softmax(xp, subtree[v][..., None, :] + transitions(scaled, v))  # P(y_v | y_parent)
        pair = nodes[parents[v]][..., :, None] * conditional
        nodes[v] = normalized(xp, xp.sum(pair, axis=-2))
        edges.add(v, pair)
    return mu * log_z, scores._replace(unary=xp.stack(nodes, axis=-2), pairwise=edges.together())


def score(scores: TreeScores, labels: Array) -> Array:
    """The score (...,) of one labelling (..., p) of each tree; labels that do not exist have no parts."""
    xp = array_namespace(scores.unary)
    indicator = one_hot(xp, labels, scores.unary.shape[-1], xp.bool) & exists(xp, scores)
    total = xp.sum(xp.where(indicator, scores.unary, 0.0), axis=(-2, -1))
    nodes, parents, _ = linked(scores)
    of_parents, of_nodes = (xp.take(indicator, index, axis=-2) for index in (parents, nodes))
    pair = of_parents[..., :, None] & of_nodes[..., None, :]
    table = scores.pairwise if scores.pairwise.ndim == 2 else xp.take(scores.pairwise, nodes, axis=-3)
    table = xp.broadcast_to(table, pair.shape)
    return total + xp.sum(xp.where(pair, table, 0.0), axis=(-3, -2, -1))


def parts(scores: TreeScores, labels: Array) -> TreeScores:
    """The indicator of the parts of one labelling (..., p) of each tree, shaped like ``scores``.

    A shared pairwise matrix gets the number of times each pair of labels occurs, summed over the batch. Labels that do
    not exist (such as -1) have no parts.
    """
    xp = array_namespace(scores.unary)
    indicator = one_hot(xp, labels, scores.unary.shape[-1], scores.unary.dtype)
    indicator = xp.where(exists(xp, scores), indicator, xp.zeros_like(indicator))
    return scores._replace(unary=indicator, pairwise=_pairs(xp, scores, indicator, indicator))


def _pairs(xp: Any, scores: TreeScores, weighted: Array, indicator: Array) -> Array:
    """weighted[parent of v] times indicator[v], both (..., p, L): for each v, or summed if the matrix is shared."""
    nodes, parents, has_parent = linked(scores)
    if scores.pairwise.ndim > 2:
        up = Place.of(scores.unary).integers(np.maximum(scores.parents, 0))
        of_parents = xp.take(weighted, up, axis=-2) * has_parent[:, None]
        return of_parents[..., :, None] * indicator[..., None, :]
    of_parents, of_nodes = xp.take(weighted, parents, axis=-2), xp.take(indicator, nodes, axis=-2)
    counts = xp.matmul(xp.matrix_transpose(of_parents), of_nodes)
    return xp.sum(counts, axis=tuple(range(counts.ndim - 2)))


class _Edges:
    """Edge marginals (..., L, L) for each node: stored separately, or summed if the pairwise scores are shared."""

    def __init__(self, xp: Any, scores: TreeScores) -> None:
        self.xp, self.shared = xp, scores.pairwise.ndim == 2
        zero = xp.zeros_like(scores.pairwise)
        self.each = [zero] if self.shared else [zero[..., v, :, :] for v in range(len(scores.parents))]

    def add(self, v: int, pair: Array) -> None:
        if self.shared:
            self.each[0] = self.each[0] + (
                self.xp.sum(pair, axis=tuple(range(pair.ndim - 2))) if pair.ndim > 2 else pair
            )
        else:
            self.each[v] = pair

    def together(self) -> Array:
        return self.each[0] if self.shared else self.xp.stack(self.each, axis=-3)


class Tree(Structure):
    """A rooted tree, a forest, or a batch of forests with the same parents.

    Parameters
    ----------
    unary : array (..., p, L)
        Score of each label at each node; -inf forbids it. Leading axes are a batch.
    pairwise : array (L, L) or (..., p, L, L)
        Score of (label of the parent, label of the node): one matrix for all nodes, or one for each; the matrix of a
        root is ignored.
    parents : int array (p,)
        Parent of each node, -1 for a root. Nodes may be in any order, and several may be roots.
    counts : int array (p,), optional
        Number of labels of each node, 1..L; default: all L. Scores of labels that do not exist are ignored.

    Raises
    ------
    ValueError, TypeError
        Inconsistent shapes, parents outside -1..p-1 or in a cycle, counts outside 1..L, nan or +inf, dtypes other
        than float32 and float64 (integers and booleans become float64), arrays of different namespaces or devices.

    Examples
    --------
    >>> tree = Tree([[1.0, 0.0], [0.0, 0.5], [0.0, 3.0]], [[0.0, -1.0], [0.0, 0.0]], parents=[-1, 0, 0])
    >>> value, labels = tree.best()
    >>> float(value), labels.tolist()
    (3.5, [1, 1, 1])
    """

    ops = sys.modules[__name__]  # the module with the functions; the accelerated panel replaces it by its own
    scores: TreeScores
    axes = ("nodes", "labels")
    variables = "unary"

    def __init__(self, unary: Any, pairwise: Any, parents: Any, counts: Any = None) -> None:
        unary, pairwise = arrays.floats(unary=unary, pairwise=pairwise)
        if unary.ndim < 2 or unary.shape[-1] < 1:
            raise ValueError(f"unary: expected shape (..., p, L) with L >= 1, got {tuple(unary.shape)}")
        *batch, p, n_labels = unary.shape
        shared, each = (n_labels, n_labels), (*batch, p, n_labels, n_labels)
        if tuple(pairwise.shape) not in (shared, each):
            raise ValueError(f"pairwise: expected shape {shared} or {each}, got {tuple(pairwise.shape)}")
        arrays.refuse_nan_and_inf("unary", unary)
        arrays.refuse_nan_and_inf("pairwise", pairwise)
        parents = _one_a_node("parents", parents, p, -1, p - 1)
        order(parents)
        if counts is not None:
            counts = _one_a_node("counts", counts, p, 1, n_labels)
        super().__init__(TreeScores(unary, pairwise, parents, counts))

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and best labels (..., p); see :func:`max_product`. Raises InfeasibleError."""
        value, labels = self.ops.max_product(self.scores)
        return self.ops.feasible(value, "best"), labels

    def expectation(self, mu: float = 1.0) -> tuple[Array, TreeScores]:
        """Log-partition (...,) and marginals at temperature mu; see :func:`sum_product`. Raises InfeasibleError."""
        value, marginals = self.ops.sum_product(self.scores, positive_mu(mu))
        return self.ops.feasible(value, "expectation"), marginals

    def topk(self, k: int) -> KBest:
        """The k best labellings, padded (:class:`KBest`) if fewer are possible; see :func:`top_k_max_product`.

        Does not raise InfeasibleError: the count is 0 if every labelling is forbidden.
        """
        *batch, p, n_labels = self.scores.unary.shape
        k = positive_k(k, math.prod(batch) * p)
        # the k best are kept for each label at each node
        at_most("k", min(k, n_labels**p), math.prod(batch) * p * n_labels, "for which the search keeps")
        result: KBest = self.ops.top_k_max_product(self.scores, k)
        return result

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Labels (..., size, p) drawn with probability proportional to exp(score / mu); see :func:`sample`.

        Raises InfeasibleError.
        """
        *batch, p, _ = self.scores.unary.shape
        size = at_most("size", integer("size", size, 1), math.prod(batch) * p)
        numbers = uniforms(rng, (*batch, size, p), self.scores.unary)
        value, labels = self.ops.sample(self.scores, numbers, positive_mu(mu))
        feasible(value, "sample")
        return labels

    def max_marginals(self) -> TreeScores:
        """The highest score of a labelling with each part; see :func:`max_marginals`. -inf if there is none."""
        values: TreeScores = self.ops.max_marginals(self.scores)
        return values

    def score(self, y: Any) -> Array:
        """Score (...,) of labels (..., p), each in 0..count-1 of its node.

        -1 at every node means no labelling and has score 0. Raises ValueError.
        """
        return self.ops.score(self.scores, self._labels(y))

    def parts(self, y: Any) -> TreeScores:
        """Indicator of the parts of labels (..., p) as in :meth:`score`; see :func:`parts`.

        Raises ValueError.
        """
        parts: TreeScores = self.ops.parts(self.scores, self._labels(y))
        return parts

    def expected_parts(self, outputs: Array, weights: Array) -> TreeScores:
        """sum_k weights[..., k] parts(outputs[..., k, :]) of labels (..., k, p); see :func:`parts`."""
        xp = array_namespace(self.scores.unary)
        indicator = one_hot(xp, outputs, self.scores.unary.shape[-1], self.scores.unary.dtype)  # (..., k, p, L)
        indicator = xp.where(exists(xp, self.scores), indicator, xp.zeros_like(indicator))
        weighted = indicator * weights[..., None, None]
        pairs = _pairs(xp, self.scores, weighted, indicator)
        if self.scores.pairwise.ndim > 2:
            pairs = xp.sum(pairs, axis=-4)
        return self.scores._replace(unary=xp.sum(weighted, axis=-3), pairwise=pairs)

    def first(self) -> Tree:
        """The first tree of a batch along one axis; a single tree itself."""
        unary, pairwise, *_ = self.scores
        if unary.ndim == 2:
            return self
        pairwise = pairwise if pairwise.ndim == 2 else pairwise[0, ...]
        return type(self).unchecked(self.scores._replace(unary=unary[0, ...], pairwise=pairwise))

    def count(self) -> int:
        """Number of labellings of a single tree that are not forbidden; exact, a Python int."""
        unary, pairwise, counts = self._one_tree("count")
        parents = self.scores.parents
        walk, has_parent = order(parents), parents >= 0
        if np.all(unary > -np.inf) and np.all(pairwise[has_parent] > -np.inf):
            return math.prod(counts.tolist())
        ways = [[int(allowed) for allowed in row[:n] > -np.inf] for row, n in zip(unary, counts, strict=True)]
        for v in walk.upward:
            parent_ways = ways[parents[v]]
            for i, row in enumerate(pairwise[v, : len(parent_ways), : len(ways[v])] > -np.inf):
                parent_ways[i] *= sum(ways[v][j] for j in np.flatnonzero(row))
        return math.prod(sum(ways[v]) for v in walk.roots)

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every labelling of a single tree that is not forbidden, in lexicographic order, as tuples."""
        unary, pairwise, counts = self._one_tree("enumerate")
        children = np.flatnonzero(self.scores.parents >= 0).tolist()
        parents = self.scores.parents.tolist()
        for y in itertools.product(*(range(n) for n in counts.tolist())):
            nodes = all(unary[v, label] > -np.inf for v, label in enumerate(y))
            if nodes and all(pairwise[v, y[parents[v]], y[v]] > -np.inf for v in children):
                yield y

    def _labels(self, y: Any) -> Array:
        shape = tuple(self.scores.unary.shape[:-1])
        y = arrays.integers("y", y, Place.of(self.scores.unary))
        if tuple(y.shape) != shape:
            raise ValueError(f"y: expected labels of shape {shape}, got {tuple(y.shape)}")
        xp, L, counts = array_namespace(y), self.scores.unary.shape[-1], self.scores.counts
        n_labels = L if counts is None else Place.of(self.scores.unary).integers(counts)
        # the oracles return -1 at every node if every labelling is forbidden
        no_labelling = xp.all(y == -1, axis=-1)
        outside = ((y < 0) | (y >= n_labels)) & ~no_labelling[..., None]
        if seen(xp.any(outside)):
            index = tuple(int(i) for i in np.argwhere(host(outside))[0])
            count = L if counts is None else counts[index[-1]]
            raise ValueError(
                f"y: expected labels in 0..{count - 1} at node {index[-1]}, got {int(y[index])} at {index}"
            )
        return y

    def _one_tree(self, question: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """unary (p, L), pairwise (p, L, L) and counts (p,) on the host."""
        unary, pairwise, _, counts = self.scores
        if unary.ndim != 2:
            raise ValueError(f"{question}: expected a single tree, got a batch of shape {tuple(unary.shape[:-2])}")
        p, n_labels = unary.shape
        pairwise = np.broadcast_to(host(pairwise), (p, n_labels, n_labels))
        return host(unary), pairwise, np.full(p, n_labels) if counts is None else counts


def _one_a_node(name: str, x: Any, p: int, least: int, most: int) -> np.ndarray:
    """One integer in least..most for each of the p nodes, as int64 on the host."""
    values = np.asarray(host(x))
    if values.size == 0:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got {values.dtype}")
    if values.shape != (p,):
        raise ValueError(f"{name}: expected shape ({p},), one for each node, got {values.shape}")
    if p and not least <= values.min() <= values.max() <= most:
        raise ValueError(f"{name}: expected {least}..{most}, got {values.min()}..{values.max()}")
    return values.astype(np.int64)
