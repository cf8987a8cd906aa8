"""Labelled trees: features at each node, one weight for each feature and label, and weights of (parent's label, child's
label).

Sequence labelling with a parent instead of a predecessor (Pillutla et al., section 2.1: a score that
decomposes over the nodes and edges of a tree). Weights are one vector w (d,): first a matrix (F + 1, L), the L weights
of a feature side by side, then the matrix of pairs (L, L). The model adds the last feature, which is active on roots;
roots need no other special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import reference.arrays
from reference.arrays import Array, Rows, host
from reference.example_errors import Example, each_example, example_error
from reference.models.base import (
    Concatenated,
    check_labels,
    checked,
    given,
    integer,
    offsets_of,
    only,
    sound,
    squared_sums,
    stacked,
    with_ones,
    zero_at_truth,
)
from reference.models.partial import PartlyLabelled, check_allowed
from reference.packed import check_forests, check_indices, check_offsets, lock
from reference.structures.answered import Oracle
from reference.structures.base import limited
from reference.structures.tree import Tree, TreeScores
from reference.structures.tree_scores import order

__all__ = ["TreeData", "TreeModel"]


@dataclass(frozen=True, eq=False, repr=False)
class TreeData(Concatenated):
    """Packed trees: tree i owns nodes offsets[i]:offsets[i+1].

    rows: features of all N nodes; offsets (n+1,) NumPy int64; parents (N,) NumPy int64, numbered within their tree, -1
    for roots; labels (N,) int64 in the rows' place, or None; allowed (N, L) booleans in their place, the labels that
    each node may have, if they are partly known.
    """

    rows: Rows
    offsets: np.ndarray
    parents: np.ndarray
    labels: Array | None
    allowed: Array | None = None

    counted = "nodes"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the rows, the parents make a forest of each tree, and each node has a label
        >= 0 if there are labels.
        """
        N = checked("rows", self.rows, Rows).n
        check_offsets("offsets", self.offsets, N, "nodes")
        check_indices("parents", self.parents, (N,))
        check_forests("parents", self.parents, self.offsets)
        check_labels(self.labels, self.rows.n, self.rows.place.xp)
        check_allowed(self.allowed, self.labels, self.rows.n, self.rows.place.xp)

    def nodes(self, i: int) -> np.ndarray:
        """The nodes of tree i (p,)."""
        return np.arange(self.offsets[i], self.offsets[i + 1])


class TreeModel(PartlyLabelled):
    """A labeller of the nodes of trees and forests over sparse or dense features.

    score(y) = sum_v <W[:, y_v], x_v> + sum_{v not a root} A[y_parent(v), y_v]

    Parameters
    ----------
    n_features : int
        Number of features F of a node.
    labels : int or sequence of str
        Number of labels, or their names.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over nodes; default: Hamming, 1 where they differ.
    oracle : callable, optional
        Used instead of ``Tree.best`` in training and prediction: from TreeScores to (value, labels), with value -inf if
        every output is forbidden. Model files do not store it.

    Attributes
    ----------
    labels : tuple of str
        Label names.
    size : int
        Number of weights d = (n_features + 1) L + L^2.

    Source
    ------
    Pillutla et al., equation (13) on a tree, appendix B.
    """

    structure_type: Any = Tree
    packed_type = TreeData
    arrays: ModuleType = reference.arrays

    def __init__(
        self, n_features: int, labels: int | Sequence[str], *, cost: Any = None, oracle: Oracle | None = None
    ) -> None:
        self.n_features = integer("n_features", n_features, 0)
        self._label(labels, cost)
        self.width = self.n_features + 1
        self.size = self.width * self.n_labels + self.n_labels**2
        self._answer_by(oracle)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> TreeData:
        """Trees and their labels, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n pairs (features, parents)
            Features: a dense array (p_i, F), a CSR matrix, a Rows, or a list of p_i lists of active columns; parents
            (p_i,): the parent of each node, numbered within its tree, -1 for a root. Trees without nodes and forests
            are allowed.
        Y : sequence of n label sequences, optional
            Each (p_i,) integer indices, or label names (a string counts as a sequence of one-letter names). A set of
            them, or None, stands for a label that is partly known (:mod:`reference.models.partial`).
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        TreeData

        Raises
        ------
        ValueError, TypeError
            Naming the tree, for a wrong number of features, parents or labels, parents outside the tree or in a cycle,
            unknown labels, numbers that are not finite.
        """
        pairs = each_example("X", X, self._tree)
        each, forests = [rows for rows, _ in pairs], [above for _, above in pairs]
        offsets, parents = offsets_of(forests), np.concatenate([np.zeros(0, np.int64), *forests])
        roots = np.flatnonzero(parents < 0)
        rows = Rows.of(with_ones(stacked(each, self.n_features), roots, self.n_features, self.width), like=like)
        return TreeData(rows, lock(offsets), lock(parents), *self._targets(Y, offsets, rows.place, "node"))

    def _tree(self, name: Example, x: Any) -> tuple[Rows, np.ndarray]:
        """The rows of one tree, and the parents."""
        if isinstance(x, dict):
            raise TypeError("expected a pair (features, parents), got dict")
        if len(x) != 2:
            raise ValueError(f"expected a pair (features, parents), got {len(x)} items")
        rows = Rows.of(x[0], width=self.n_features, name=name)
        return rows, _parents(name, x[1], rows.n)

    def scores(self, data: TreeData, batch: np.ndarray, w: Array) -> TreeScores:
        """The scores of one tree (batch of one) at weights w (d,): unary (p, L), pairwise (L, L)."""
        weights, pairwise = self.split(w)
        i = only(batch, data)
        unary = self.arrays.gather_sum(data.rows.take(data.nodes(i)), weights)
        return sound(TreeScores(unary, pairwise, data.parents[data.nodes(i)]), w)

    def pullback(self, data: TreeData, batch: np.ndarray, w: Array, g: TreeScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient with respect to the scores of a tree, as one (d,) in the
        weights.
        """
        xp = data.rows.place.xp
        weights = self.arrays.scatter_sum(data.rows.take(data.nodes(only(batch, data))), g.unary)
        return xp.concat([xp.reshape(weights, (-1,)), xp.reshape(g.pairwise, (-1,))])

    @zero_at_truth
    def task_loss(self, data: TreeData, batch: np.ndarray) -> TreeScores:
        """The task loss as scores to add: cost[true label, label] at each node."""
        i, place = only(batch, data), data.rows.place
        unary = place.xp.take(place.floats(self.cost), self._true(data, i), axis=0)
        return TreeScores(unary, place.zeros((self.n_labels,) * 2), data.parents[data.nodes(i)])

    def gold(self, data: TreeData, batch: np.ndarray) -> TreeScores:
        """The indicator of the true labelling's parts, shaped like the scores."""
        i, place = only(batch, data), data.rows.place
        true = self._true(data, i)
        unary, pairwise = place.zeros((true.shape[0], self.n_labels)), place.zeros((self.n_labels,) * 2)
        shape = TreeScores(unary, pairwise, data.parents[data.nodes(i)])
        parts: TreeScores = self.structure_type.ops.parts(shape, true)
        return parts

    def within(self, data: TreeData, batch: np.ndarray, scores: Any) -> TreeScores:
        """The scores of a tree with -inf for the labels that ``data.allowed`` excludes."""
        i, rows = only(batch, data), given(data.allowed, "labels")
        allowed = rows[int(data.offsets[i]) : int(data.offsets[i + 1]), :]
        restricted: TreeScores = scores._replace(unary=limited(scores.unary, allowed))
        return restricted

    def counts(self, data: TreeData) -> list[int]:
        """L^p_i for each tree."""
        return [self.n_labels**n for n in data.lengths.tolist()]

    def squared_diameters(self, data: TreeData) -> np.ndarray:
        """2 ||sum_v |x_v| ||^2 + 2 m_i^2 for each tree of m_i edges: features of nodes, then counts of pairs.

        Counts of m pairs have norm at most m and no negative inner product.
        """
        edges = np.bincount(np.repeat(np.arange(data.n), data.lengths), data.parents >= 0, data.n)
        return 2 * squared_sums(data.rows, data.offsets) + 2 * edges**2

    def _true(self, data: TreeData, i: int) -> Array:
        """The labels (p,) of tree i. Raises ValueError if the data were packed without labels."""
        return self.true_labels(data)[int(data.offsets[i]) : int(data.offsets[i + 1])]

    def _split(self, data: TreeData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [host(outputs)]


def _parents(name: str, parents: Any, p: int) -> np.ndarray:
    """The parents of a tree's p nodes as int64 on the host, checked."""
    given = host(parents, name)
    if given.shape != (p,) or (p and given.dtype.kind not in "iu"):
        raise ValueError(
            f"{name}: expected the parents of {p} nodes, integers (-1: a root), "
            f"got {given.dtype} of shape {given.shape}"
        )
    checked: np.ndarray = given.astype(np.int64)
    for v in np.flatnonzero((checked < -1) | (checked >= p))[:1].tolist():
        raise example_error(name, v, f"expected parents in -1..{p - 1}, got {checked[v]}")
    try:
        order(checked)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    return checked
