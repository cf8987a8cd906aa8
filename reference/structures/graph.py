"""Graphs of small treewidth: exact oracles for any pairwise graph whose clique tree fits in memory.

score(y) = sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b], (a, b) = edges[e]. Time and memory are exponential in the
treewidth; a clique tree with too large tables is rejected. Source: Pillutla et al., Remark 10.

Conventions. Variable v has the states 0..counts[v]-1; scores of other states are ignored. A graph without variables has
one output, of score 0. An edge may occur twice; its scores are added. Ties: the smallest states of the root's variables
first, then clique by clique downwards.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from reference import arrays
from reference.arrays import Array, Place, host, integer
from reference.structures.base import KBest, Structure, at_most, checked_edges, feasible, positive_mu
from reference.structures.bmmf import bmmf
from reference.structures.clique_oracles import (
    MAX_TABLE,
    Cliques,
    GraphScores,
    clique_max_marginals,
    clique_max_product,
    clique_node_max_marginals,
    clique_sum_product,
)
from reference.structures.clique_samples import clique_sample
from reference.structures.clique_tree import number
from reference.structures.sampling import uniforms
from reference.structures.scores import inner

__all__ = [
    "Graph",
    "GraphScores",
    "clique_max_marginals",
    "clique_max_product",
    "clique_node_max_marginals",
    "clique_sample",
    "clique_sum_product",
]


class Graph(Structure):
    """A graph of variables with pairwise scores, of small treewidth.

    Parameters
    ----------
    unary : array (p, L)
        Score of each state of each variable; -inf forbids it.
    pairwise : array (e, L, L)
        Score of each pair of states of the first and second variable of each edge; -inf forbids it.
    edges : int array (e, 2)
        The two different variables of each edge, in any order. An edge may occur twice.
    counts : int array (p,), optional
        Number of states of each variable, 1..L; default: all L.
    max_table : int
        The largest number of entries in the table of a clique.

    Raises
    ------
    ValueError, TypeError
        A clique with more than ``max_table`` entries, inconsistent shapes, edges or counts out of range, nan or +inf,
        dtypes other than float32 and float64 (integers and booleans become float64), arrays of different namespaces or
        devices.

    Examples
    --------
    >>> edges = [[0, 1], [1, 2], [2, 0]]
    >>> differ = [[0.0, 1.0], [1.0, 0.0]]
    >>> value, labels = Graph([[0.5, 0.0], [0.0, 0.0], [0.0, 0.0]], [differ] * 3, edges).best()
    >>> float(value), labels.tolist()
    (2.5, [0, 0, 1])
    """

    ops = sys.modules[__name__]
    scores: GraphScores
    axes = ("variables", "labels")
    variables = "unary"
    max_table: int = MAX_TABLE

    def __init__(self, unary: Any, pairwise: Any, edges: Any, counts: Any = None, max_table: int = MAX_TABLE) -> None:
        unary, pairwise = arrays.floats(unary=unary, pairwise=pairwise)
        if unary.ndim != 2 or unary.shape[1] < 1:
            raise ValueError(f"unary: expected shape (p, L) with L >= 1, got {tuple(unary.shape)}")
        p, L = unary.shape
        edges = checked_edges(edges, unary, pairwise)
        if counts is not None:
            counts = arrays.integers("counts", counts, Place.of(None))
            if counts.shape != (p,):
                raise ValueError(f"counts: expected shape {(p,)}, got {counts.shape}")
            if p and not 1 <= counts.min() <= counts.max() <= L:
                raise ValueError(f"counts: expected 1..{L}, got {counts.min()}..{counts.max()}")
        arrays.refuse_nan_and_inf("unary", unary)
        arrays.refuse_nan_and_inf("pairwise", pairwise)
        super().__init__(GraphScores(unary, pairwise, edges, counts))
        self.max_table = integer("max_table", max_table, 1)
        Cliques(self.scores, self.max_table)

    def best(self) -> tuple[Array, Array]:
        """Highest score () and best labels (p,); see :func:`clique_max_product`. Raises InfeasibleError."""
        value, labels = self.ops.clique_max_product(self.scores, self.max_table)
        return feasible(value, "best"), labels

    def topk(self, k: int) -> KBest:
        """The k best labellings, padded (:class:`KBest`) if fewer are possible; see :func:`bmmf`.

        Does not raise InfeasibleError: the count is 0 if every labelling is forbidden.
        """
        return bmmf(self, k)

    def expectation(self, mu: float = 1.0) -> tuple[Array, GraphScores]:
        """Log-partition () and marginals at temperature mu; see :func:`clique_sum_product`. Raises InfeasibleError."""
        value, marginals = self.ops.clique_sum_product(self.scores, positive_mu(mu), self.max_table)
        return feasible(value, "expectation"), marginals

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Labels (size, p) drawn with probability proportional to exp(score / mu); see :func:`clique_sample`.

        Raises InfeasibleError.
        """
        unary = self.scores.unary
        size = at_most("size", integer("size", size, 1), unary.shape[0])
        numbers = uniforms(rng, (size, unary.shape[0]), unary)
        value, labels = self.ops.clique_sample(self.scores, numbers, positive_mu(mu), self.max_table)
        feasible(value, "sample")
        return labels

    def max_marginals(self) -> GraphScores:
        """The highest score of a labelling with each part; see :func:`clique_max_marginals`. -inf if there is none."""
        values: GraphScores = self.ops.clique_max_marginals(self.scores, self.max_table)
        return values

    def node_max_marginals(self) -> Array:
        """The max-marginals (p, L) of the variables only; see :func:`clique_node_max_marginals`."""
        return self.ops.clique_node_max_marginals(self.scores, self.max_table)

    def score(self, y: Any) -> Array:
        """Score () of labels (p,); labels outside 0..counts[v]-1 have no parts."""
        return Place.of(self.scores.unary).floats(inner(self.scores, self.parts(y)))

    def parts(self, y: Any) -> GraphScores:
        """Indicator of the parts of labels (p,), shaped like the scores."""
        unary, _, edges, counts = self.scores
        p, L = unary.shape
        place = Place.of(unary)
        y = host(arrays.integers("y", y, place))
        if y.shape != (p,):
            raise ValueError(f"y: expected labels of shape {(p,)}, got {y.shape}")
        exists = np.arange(L) < (L if counts is None else counts[:, None])
        indicator = (y[:, None] == np.arange(L)) & exists
        pairs = indicator[edges[:, 0], :, None] & indicator[edges[:, 1], None, :]
        return GraphScores(place.floats(indicator), place.floats(pairs), edges, counts)

    def count(self) -> int:
        """The number of labellings that are not forbidden; exact, a Python int."""
        cliques = Cliques(self.scores, self.max_table)
        return number(cliques.tree, cliques.tables())

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every labelling that is not forbidden, in lexicographic order, as tuples."""
        cliques = Cliques(self.scores, self.max_table)
        for y in itertools.product(*map(range, cliques.counts)):
            nodes = all(cliques.unary[v, j] > -np.inf for v, j in enumerate(y))
            if nodes and all(cliques.pairwise[e, y[a], y[b]] > -np.inf for e, (a, b) in enumerate(cliques.edges)):
                yield y

    def _with(self, scores: GraphScores) -> Self:
        other = super()._with(scores)
        other.max_table = self.max_table
        return other
