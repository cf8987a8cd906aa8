"""The oracles of pairwise graphs, by messages between the cliques of a clique tree.

The messages are those of trees, with cliques of variables in place of variables (``clique_tree``). Scores are copied to
the host once, and results are copied back to the device of the scores. Source: Pillutla et al., Remark 10.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, logsumexp
from reference.structures.clique_tree import Reduction, beliefs, clique_tree, decode, towards_the_root

__all__ = [
    "Cliques",
    "GraphScores",
    "clique_max_marginals",
    "clique_max_product",
    "clique_node_max_marginals",
    "clique_sum_product",
]

MAX_TABLE = 2**20


class GraphScores(NamedTuple):
    """The scores of a graph; a gradient with respect to them has the same shapes.

    unary (p, L); pairwise (e, L, L), indexed by the states of the first and the second variable of the edge; edges
    (e, 2); counts (p,), the number of states of each variable, or None if all have L. edges and counts are NumPy int64
    on the host.
    """

    unary: Array
    pairwise: Array
    edges: np.ndarray
    counts: np.ndarray | None = None


GraphScores.layout = ("edges", "counts")  # type: ignore[attr-defined]


def clique_max_product(scores: GraphScores, max_table: int = MAX_TABLE) -> tuple[Array, Array]:
    """The highest score and a best labelling (the max oracle).

    max_y sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b]

    Parameters
    ----------
    scores : GraphScores
    max_table : int
        The largest number of entries in the table of a clique.

    Returns
    -------
    value : array ()
        -inf if every labelling is forbidden.
    labels : int64 array (p,)
        All -1 if every labelling is forbidden.

    Raises
    ------
    ValueError
        The table of a clique would have more than ``max_table`` entries.

    Notes
    -----
    Time and memory O(p L^(width + 1)).

    Source
    ------
    Pillutla et al., Remark 10 and Algorithm 7, with cliques in place of nodes.
    """
    cliques = Cliques(scores, max_table)
    value, _, inside = towards_the_root(cliques.tree, cliques.tables(), _largest)
    p = len(cliques.unary)
    labels = np.full(p, -1) if value == -np.inf else decode(cliques.tree, inside, p)
    return cliques.place.floats(value), cliques.place.integers(labels)


def clique_sum_product(scores: GraphScores, mu: float = 1.0, max_table: int = MAX_TABLE) -> tuple[Array, GraphScores]:
    """The log-partition function at temperature mu, and its gradient (the exp oracle).

    A = mu log sum_y exp(score(y) / mu), with gradient the marginals P(y_v = j) and P(y_a = i, y_b = j)

    Parameters
    ----------
    scores : GraphScores
    mu : float > 0
        Temperature.
    max_table : int

    Returns
    -------
    value : array ()
        -inf if every labelling is forbidden.
    marginals : GraphScores
        All 0 if every labelling is forbidden.

    Raises
    ------
    ValueError
        The table of a clique would have more than ``max_table`` entries.

    Notes
    -----
    Time and memory O(p L^(width + 1)). Messages are logarithms with largest entry 0. Scores may be up to
    1e300 mu in absolute value. The marginals of each clique sum to 1. Those of a variable in two cliques may differ by
    the rounding of the scores / mu, about 1e-16 times the largest.

    Source
    ------
    Pillutla et al., Remark 10, Algorithm 9 and Lemma 7 (ii), with cliques in place of nodes and in log space.
    """
    cliques = Cliques(scores, max_table)
    tables = [table / mu for table in cliques.tables()]
    value, messages, _ = towards_the_root(cliques.tree, tables, _log_sum)
    probabilities = []
    if value > -np.inf:
        weights = [np.exp(log - log.max()) for log in beliefs(cliques.tree, tables, messages, _log_sum)]
        probabilities = [weight / weight.sum() for weight in weights]
    return cliques.place.floats(mu * value), _parts(cliques, scores, probabilities, np.add.reduce, 0.0)


def clique_max_marginals(scores: GraphScores, max_table: int = MAX_TABLE) -> GraphScores:
    """The highest score of a labelling that has each part.

    unary[v, j] = max_{y: y_v = j} score(y),  pairwise[e, i, j] = max_{y: y_a = i, y_b = j} score(y)

    Parameters
    ----------
    scores : GraphScores
    max_table : int

    Returns
    -------
    GraphScores
        -inf for parts that no possible labelling has.

    Raises
    ------
    ValueError
        The table of a clique would have more than ``max_table`` entries.

    Notes
    -----
    Time and memory O(p L^(width + 1)). For each variable and each edge the largest value is that of
    :func:`clique_max_product`.

    Source
    ------
    Pillutla et al., Definition 13 and Remark 10.
    """
    cliques = Cliques(scores, max_table)
    return _parts(cliques, scores, _largest_of_each(cliques), _largest, -np.inf)


def clique_node_max_marginals(scores: GraphScores, max_table: int = MAX_TABLE) -> Array:
    """The highest score (p, L) of a labelling in which variable v has state j; see :func:`clique_max_marginals`."""
    cliques = Cliques(scores, max_table)
    return cliques.of_variables(_largest_of_each(cliques), _largest, -np.inf)


def _parts(
    cliques: Cliques, scores: GraphScores, tables: list[np.ndarray], reduce: Reduction, otherwise: float
) -> GraphScores:
    """The tables of the cliques reduced to each part."""
    unary, pairwise = (each(tables, reduce, otherwise) for each in (cliques.of_variables, cliques.of_edges))
    return scores._replace(unary=unary, pairwise=pairwise)


def _largest_of_each(cliques: Cliques) -> list[np.ndarray]:
    """For each clique the highest score of a labelling with each state; an empty list if none is possible."""
    tables = cliques.tables()
    value, messages, _ = towards_the_root(cliques.tree, tables, _largest)
    if value == -np.inf:
        return []
    return [value + (belief - belief.max()) for belief in beliefs(cliques.tree, tables, messages, _largest)]


def _largest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    largest: np.ndarray = np.max(x, axis=axes)
    return largest


def _log_sum(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    total: np.ndarray = logsumexp(np, x, axes)
    return total


class Cliques:
    """The scores on the host, and the clique tree of their graph.

    Raises ValueError if a table would have more than ``max_table`` entries.
    """

    def __init__(self, scores: GraphScores, max_table: int) -> None:
        self.place = Place.of(scores.unary)
        self.unary, self.pairwise = (host(x).astype(np.float64) for x in (scores.unary, scores.pairwise))
        p, L = self.unary.shape
        self.counts = [L] * p if scores.counts is None else scores.counts.tolist()
        self.edges = tuple((a, b) for a, b in scores.edges.tolist())
        self.tree = clique_tree(p, self.edges)
        self.shapes = [tuple(self.counts[v] for v in clique) for clique in self.tree.cliques]
        largest = max(self.shapes, key=math.prod)
        if math.prod(largest) > max_table:
            raise ValueError(
                f"edges: the clique tree found has width {self.tree.width}, and a clique's table of "
                f"{' x '.join(map(str, largest))} = {math.prod(largest)} entries; max_table allows {max_table}"
            )

    def tables(self) -> list[np.ndarray]:
        """For each clique the sum of the scores assigned to it, over the states of its variables."""
        tables = [np.zeros(shape) for shape in self.shapes]
        for v, c in enumerate(self.tree.nodes):
            tables[c] += self.tree.spread(self.unary[v, : self.counts[v]], (v,), c)
        for e, (a, b) in enumerate(self.edges):
            pair = self.pairwise[e, : self.counts[a], : self.counts[b]]
            tables[self.tree.edges[e]] += self.tree.spread(pair if a < b else pair.T, (a, b), self.tree.edges[e])
        return tables

    def of_variables(self, tables: list[np.ndarray], reduce: Reduction, otherwise: float) -> Array:
        """The tables of the cliques reduced to each variable (p, L).

        ``otherwise`` is the value of states that do not exist, and of all states if there are no tables.
        """
        result = np.full(self.unary.shape, otherwise)
        for v, c in enumerate(self.tree.nodes if tables else ()):
            result[v, : self.counts[v]] = reduce(tables[c], self.tree.axes(c, (v,)))
        return self.place.floats(result)

    def of_edges(self, tables: list[np.ndarray], reduce: Reduction, otherwise: float) -> Array:
        """The tables of the cliques reduced to each edge (e, L, L), as in :meth:`of_variables`."""
        result = np.full(self.pairwise.shape, otherwise)
        for e, c in enumerate(self.tree.edges if tables else ()):
            a, b = self.edges[e]
            pair = reduce(tables[c], self.tree.axes(c, (a, b)))
            result[e, : self.counts[a], : self.counts[b]] = pair if a < b else pair.T
        return self.place.floats(result)
