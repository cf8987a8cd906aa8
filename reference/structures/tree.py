"""Rooted trees and forests: one label a node, scores on labels and on pairs of a node and its parent.

score(y) = sum_v unary[v, y_v] + sum_{v not a root} pairwise[v, y_parent(v), y_v]. The paper's boxes are functions,
arrays in and arrays out, over any number of leading batch axes; :class:`Tree` is the view for people. The k best
labellings and max-marginals are in ``tree_k_best``, labellings drawn at random in ``tree_samples``. Source: Pillutla et
al., appendix B: Algorithm 7 (max-product), 8 (K max-product) and 9 (sum-product; here in log space, see the ledger). A
chain is a tree.

Conventions. A tree of no nodes has exactly one output, the empty one, of score 0. Several roots make a forest, whose
labellings are those of its trees, together. To the functions a label that does not exist has no parts; the view refuses
it, but for -1 throughout, which stands for no labelling. Ties go to the smallest label of each root, then of its
children given theirs, and so on (the first index in every argmax). Nothing recurs: depth is no limit.
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
from reference.structures.tree_scores import (
    TreeScores,
    exists,
    leading,
    linked,
    no_nodes,
    order,
    possible,
    transitions,
)

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
        -1 everywhere in a tree without a feasible labelling.

    Raises
    ------
    ValueError
        The parents run in a cycle.

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
    best = [unary[..., v, :] for v in range(p)]  # best score of v and what is below it, with each label of v
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
    return value, xp.where((value > -xp.inf)[..., None], labelling, xp.full_like(labelling, -1))


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
        unary (..., p, L); pairwise shaped like the scores' pairwise, 0 for roots. **A pairwise matrix that is shared is
        one set of scores, so its gradient is summed over nodes and over the batch.** All 0 where no labelling is
        feasible.

    Raises
    ------
    ValueError
        The parents run in a cycle.

    Notes
    -----
    Time O(p L^2) with an exponential for each term; memory O(p L), and p L^2 where the answer has it. Messages go up as
    logarithms, each normalised, so nothing underflows. Downwards, P(y_v) is the sum over y_parent of P(y_parent)
    P(y_v | y_parent), each distribution normalised: no message goes down, rounding does not grow with depth, and
    marginals sum to 1 at any scale.

    Source
    ------
    Pillutla et al., Algorithm 9 and Lemma 7 (ii), *corrected*: in log space, normalised; edges by conditional
    probabilities, where Remark 44 divides messages that may be 0.
    """
    xp = array_namespace(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    if not parents:
        return no_nodes(xp, scores), scores._replace(pairwise=xp.zeros_like(scores.pairwise))
    scaled = scores._replace(unary=possible(xp, scores) / mu, pairwise=scores.pairwise / mu)
    log_z, below = filtered(xp, scaled, walk)
    some = xp.astype(log_z > -xp.inf, log_z.dtype)[..., None]
    nodes: list[Array] = [some] * len(parents)
    for v in walk.roots:
        nodes[v] = some * softmax(xp, below[v])
    edges = _Edges(xp, scores)
    for v in reversed(walk.upward):
        conditional = softmax(xp, below[v][..., None, :] + transitions(scaled, v))  # P(y_v | y_parent)
        pair = nodes[parents[v]][..., :, None] * conditional
        nodes[v] = normalized(xp, xp.sum(pair, axis=-2))
        edges.add(v, pair)
    return mu * log_z, scores._replace(unary=xp.stack(nodes, axis=-2), pairwise=edges.together())


def score(scores: TreeScores, labels: Array) -> Array:
    """The score (...,) of one labelling (..., p) of each tree; a label that does not exist has none."""
    xp = array_namespace(scores.unary)
    here = one_hot(xp, labels, scores.unary.shape[-1], xp.bool) & exists(xp, scores)
    total = xp.sum(xp.where(here, scores.unary, xp.zeros_like(scores.unary)), axis=(-2, -1))
    nodes, parents, _ = linked(scores)
    before, after = (xp.take(here, nodes_, axis=-2) for nodes_ in (parents, nodes))
    pair = before[..., :, None] & after[..., None, :]
    table = scores.pairwise if scores.pairwise.ndim == 2 else xp.take(scores.pairwise, nodes, axis=-3)
    table = xp.broadcast_to(table, pair.shape)
    return total + xp.sum(xp.where(pair, table, xp.zeros_like(table)), axis=(-3, -2, -1))


def parts(scores: TreeScores, labels: Array) -> TreeScores:
    """The indicator of the parts of one labelling (..., p) of each tree, shaped like ``scores``.

    A shared pairwise matrix gets the number of times each pair of labels occurs, summed over the batch. Labels that do
    not exist (such as -1) have no parts.
    """
    xp = array_namespace(scores.unary)
    here = one_hot(xp, labels, scores.unary.shape[-1], scores.unary.dtype)
    here = xp.where(exists(xp, scores), here, xp.zeros_like(here))
    return scores._replace(unary=here, pairwise=_pairs(xp, scores, here, here))


def _pairs(xp: Any, scores: TreeScores, weighed: Array, here: Array) -> Array:
    """sum over nodes (or for each) of weighed[parent] times here[v], both (..., p, L), shaped like the pairwise
    scores.
    """
    nodes, parents, has_parent = linked(scores)
    if scores.pairwise.ndim > 2:
        up = Place.of(scores.unary).integers(np.maximum(scores.parents, 0))
        before = xp.take(weighed, up, axis=-2) * has_parent[:, None]
        return before[..., :, None] * here[..., None, :]
    before, after = xp.take(weighed, parents, axis=-2), xp.take(here, nodes, axis=-2)
    counts = xp.matmul(xp.matrix_transpose(before), after)
    return xp.sum(counts, axis=tuple(range(counts.ndim - 2)))


class _Edges:
    """Edge marginals (..., L, L) of one node after another, kept apart or summed, as the pairwise scores are."""

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
    """A rooted tree, a forest, or a batch of them of one form, as an object.

    Parameters
    ----------
    unary : array (..., p, L)
        Score of each label at each node; -inf forbids it. Leading axes are a batch.
    pairwise : array (L, L) or (..., p, L, L)
        Score of (label of the parent, label of the node): one matrix for all nodes, or one for each; a root's is
        ignored.
    parents : int array (p,)
        Parent of each node, -1 for a root; in any order, several roots or none.
    counts : int array (p,), optional
        Number of labels of each node, 1..L; default: all L. What the scores say of other labels is ignored.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, parents outside -1..p-1 or in a cycle, counts outside 1..L, nan or +inf, dtypes other
        than float32 and float64 (integers and booleans become float64), arrays of different namespaces or devices.

    Examples
    --------
    >>> tree = Tree([[1.0, 0.0], [0.0, 0.5], [0.0, 3.0]], [[0.0, -1.0], [0.0, 0.0]], parents=[-1, 0, 0])
    >>> value, labels = tree.best()
    >>> float(value), labels.tolist()
    (3.5, [1, 1, 1])
    """

    ops = sys.modules[__name__]  # where the functions come from: the accelerated panel points this at its own module
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
        return feasible(value, "best"), labels

    def expectation(self, mu: float = 1.0) -> tuple[Array, TreeScores]:
        """Log-partition (...,) and marginals at temperature mu; see :func:`sum_product`. Raises InfeasibleError."""
        value, marginals = self.ops.sum_product(self.scores, positive_mu(mu))
        return feasible(value, "expectation"), marginals

    def topk(self, k: int) -> KBest:
        """The k best labellings; see :func:`top_k_max_product`. Fewer, or none, where fewer are possible: never
        InfeasibleError.
        """
        *batch, p, n_labels = self.scores.unary.shape
        k = positive_k(k, math.prod(batch) * p)
        at_most("k", min(k, n_labels**p), math.prod(batch) * p * n_labels)  # the search keeps so many for each label
        found: KBest = self.ops.top_k_max_product(self.scores, k)
        return found

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Labels (..., size, p) drawn with probability proportional to exp(score / mu); see :func:`sample`. Raises
        InfeasibleError.
        """
        *batch, p, n_labels = self.scores.unary.shape
        size = at_most("size", integer("size", size, 1), math.prod(batch) * max(p, n_labels))
        numbers = uniforms(rng, (*batch, size, p), self.scores.unary)
        value, labels = self.ops.sample(self.scores, numbers, positive_mu(mu))
        feasible(value, "sample")
        return labels

    def max_marginals(self) -> TreeScores:
        """The highest score of a labelling with each part; see :func:`max_marginals`. All -inf where there is none."""
        found: TreeScores = self.ops.max_marginals(self.scores)
        return found

    def score(self, y: Any) -> Array:
        """Score (...,) of labels (..., p) that their nodes have; -1 throughout: no labelling, 0. Raises ValueError."""
        return self.ops.score(self.scores, self._labels(y))

    def parts(self, y: Any) -> TreeScores:
        """Indicator of the parts of labels (..., p), as :meth:`score` takes them; see :func:`parts`. Raises
        ValueError.
        """
        parts: TreeScores = self.ops.parts(self.scores, self._labels(y))
        return parts

    def expected_parts(self, outputs: Array, weights: Array) -> TreeScores:
        """sum_k weights[..., k] parts(outputs[..., k, :]) of labels (..., k, p); see :func:`parts`."""
        xp = array_namespace(self.scores.unary)
        here = one_hot(xp, outputs, self.scores.unary.shape[-1], self.scores.unary.dtype)  # (..., k, p, L)
        here = xp.where(exists(xp, self.scores), here, xp.zeros_like(here))
        weighed = here * weights[..., None, None]
        pairs = _pairs(xp, self.scores, weighed, here)
        if self.scores.pairwise.ndim > 2:
            pairs = xp.sum(pairs, axis=-4)
        return self.scores._replace(unary=xp.sum(weighed, axis=-3), pairwise=pairs)

    def first(self) -> Tree:
        """The tree itself; of a batch along one axis the first."""
        unary, pairwise, *_ = self.scores
        if unary.ndim == 2:
            return self
        pairwise = pairwise if pairwise.ndim == 2 else pairwise[0, ...]
        return type(self).unchecked(self.scores._replace(unary=unary[0, ...], pairwise=pairwise))

    def count(self) -> int:
        """Number of labellings that are not forbidden (one tree at a time); exact, a Python int."""
        unary, pairwise, counts = self._one_tree("count")
        parents = self.scores.parents
        walk, below = order(parents), parents >= 0
        if np.all(unary > -np.inf) and np.all(pairwise[below] > -np.inf):
            return math.prod(counts.tolist())
        ways = [[int(allowed) for allowed in row[:n] > -np.inf] for row, n in zip(unary, counts, strict=True)]
        for v in walk.upward:
            above = ways[parents[v]]
            for i, row in enumerate(pairwise[v, : len(above), : len(ways[v])] > -np.inf):
                above[i] *= sum(ways[v][j] for j in np.flatnonzero(row))
        return math.prod(sum(ways[v]) for v in walk.roots)

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every labelling that is not forbidden (one tree at a time), in lexicographic order, as tuples."""
        unary, pairwise, counts = self._one_tree("enumerate")
        below = np.flatnonzero(self.scores.parents >= 0).tolist()
        parents = self.scores.parents.tolist()
        for y in itertools.product(*(range(n) for n in counts.tolist())):
            nodes = all(unary[v, label] > -np.inf for v, label in enumerate(y))
            if nodes and all(pairwise[v, y[parents[v]], y[v]] > -np.inf for v in below):
                yield y

    def _labels(self, y: Any) -> Array:
        shape = tuple(self.scores.unary.shape[:-1])
        y = arrays.integers("y", y, Place.of(self.scores.unary))
        if tuple(y.shape) != shape:
            raise ValueError(f"y: expected labels of shape {shape}, got {tuple(y.shape)}")
        xp, L, counts = array_namespace(y), self.scores.unary.shape[-1], self.scores.counts
        most = L if counts is None else Place.of(self.scores.unary).integers(counts)
        none = xp.all(y == -1, axis=-1)  # as oracles say that nothing is feasible
        outside = ((y < 0) | (y >= most)) & ~none[..., None]
        if seen(xp.any(outside)):
            at = tuple(int(i) for i in np.argwhere(host(outside))[0])
            own = L if counts is None else counts[at[-1]]
            raise ValueError(f"y: expected labels in 0..{own - 1} at node {at[-1]}, got {int(y[at])} at {at}")
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
    """An integer for each of p nodes, within bounds, as int64 on the host."""
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
