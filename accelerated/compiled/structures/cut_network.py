"""The network of binary variables' scores as a residual graph, built in one sweep over the edges.

If terminal[v] is positive, node v has an arc from the source of that capacity, else an arc to the sink of capacity
-terminal[v]; capacities may be inf. Arcs 2k and 2k + 1 are the two directions of edge k, so the opposite of an arc is
arc ^ 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import kernel

__all__ = ["Graph", "are_fit", "build", "build_agreeing", "new_graph", "score_of_labels"]

NO_LABEL, BUILT = -2, -1
ONE = np.uint64(1)


class Graph(NamedTuple):
    """A residual graph: the arcs that leave v are arc[first[v] : first[v + 1]]. Arcs lead to head (2 e) and have
    residual (2 e).
    """

    first: np.ndarray
    arc: np.ndarray
    head: np.ndarray
    residual: np.ndarray
    terminal: np.ndarray


@kernel
def new_graph(p, n_edges):
    """Room for a graph of p nodes."""
    arc, head, residual = np.empty(2 * n_edges, np.uint32), np.empty(2 * n_edges, np.uint32), np.empty(2 * n_edges)
    return Graph(np.empty(p + 1, np.uint32), arc, head, residual, np.empty(p))


@kernel
def are_fit(pairwise, edges, p, eps):
    """Whether each edge joins two of p variables, and cuts can express its scores."""
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        if a == b or not (0 <= a < p and 0 <= b < p):
            return False
        equal0, second, one, equal1 = pairwise[k, 0, 0], pairwise[k, 0, 1], pairwise[k, 1, 0], pairwise[k, 1, 1]
        w = (equal0 + equal1) - (one + second)
        if not w >= 0.0:
            size = abs(equal0) + abs(second) + abs(one) + abs(equal1)
            if equal0 == -np.inf or equal1 == -np.inf or (w < 0.0 and not w >= -4.0 * eps * size):
                return False
    return True


@kernel
def build(unary, pairwise, edges, eps, graph):
    """Fill the graph of scores (p, 2), (e, 2, 2), edges (e, 2), as ``Network.of``.

    Returns BUILT, or NO_LABEL if a variable has no label left, or the first edge that cuts cannot express.
    """
    head, residual, terminal = graph.head, graph.residual, graph.terminal
    impossible = False
    for v in range(len(terminal)):
        impossible |= unary[v, 0] == -np.inf and unary[v, 1] == -np.inf
        terminal[v] = 0.0 if impossible else unary[v, 1] - unary[v, 0]
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        equal0, second, one, equal1 = pairwise[k, 0, 0], pairwise[k, 0, 1], pairwise[k, 1, 0], pairwise[k, 1, 1]
        w = (equal0 + equal1) - (one + second)
        forth = back = 0.5 * w
        if not (w >= 0.0 and w < np.inf):
            size = abs(equal0) + abs(second) + abs(one) + abs(equal1)
            if equal0 == -np.inf or equal1 == -np.inf or (w < 0.0 and not w >= -4.0 * eps * size):
                return k
            no_one, no_second = one == -np.inf, second == -np.inf
            forth, back = np.inf if no_one else 0.0, np.inf if no_second else 0.0
            if no_one and no_second:
                one = second = 0.5 * equal0 + 0.5 * equal1
            elif no_one:
                one = equal0 + equal1 - second
            elif no_second:
                second = equal0 + equal1 - one
        terminal[a] += 0.5 * ((equal1 + one) - (equal0 + second))
        terminal[b] += 0.5 * ((equal1 + second) - (equal0 + one))
        residual[2 * k], residual[2 * k + 1] = forth, back
        head[2 * k], head[2 * k + 1] = b, a
    if impossible:
        return NO_LABEL
    _sort_arcs(graph)
    _fill_short_paths(graph)
    return BUILT


@kernel
def score_of_labels(unary, pairwise, edges, labels):
    """The score of labels (p,) under scores (p, 2) and (e, 2, 2) of edges (e, 2); a label but 0 and 1 has no parts."""
    total = 0.0
    for v in range(len(labels)):
        if 0 <= labels[v] <= 1:
            total += unary[v, labels[v]]
    for k in range(len(edges)):
        one, other = labels[edges[k, 0]], labels[edges[k, 1]]
        if 0 <= one <= 1 and 0 <= other <= 1:
            total += pairwise[k, one, other]
    return total


@kernel
def build_agreeing(difference, strength, edges, graph):
    """The same from difference (p,), the score of label 1 less that of label 0, and strength (e,) >= 0, which an edge
    subtracts if its ends differ.
    """
    for v in range(len(difference)):
        graph.terminal[v] = difference[v]
    for k in range(len(edges)):
        graph.residual[2 * k] = graph.residual[2 * k + 1] = strength[k]
        graph.head[2 * k], graph.head[2 * k + 1] = edges[k, 1], edges[k, 0]
    _sort_arcs(graph)
    _fill_short_paths(graph)


@kernel
def _sort_arcs(graph):
    """first and arc from head, by counting: arc k leaves head[k ^ 1]."""
    first, arc, head, _, terminal = graph
    p = len(terminal)
    first[:] = 0
    for k in range(len(head)):
        first[head[k] + ONE] += 1
    for v in range(p):
        first[v + 1] += first[v]
    for k in range(len(head)):
        v = head[k ^ 1]
        arc[first[v]] = k
        first[v] += 1
    for v in range(p, 0, -1):
        first[v] = first[v - 1]
    first[0] = 0


@kernel
def _fill_short_paths(graph):
    """Fill the paths of one edge between the terminals. They need no tree, and in weakly coupled graphs most paths are
    such.
    """
    _, _, head, residual, terminal = graph
    for k in range(len(head)):
        v, u = head[k ^ 1], head[k]
        if terminal[v] > 0.0 and terminal[u] < 0.0:
            amount = min(min(terminal[v], -terminal[u]), residual[k])
            if amount < np.inf:  # else augment_all finds that it cannot be filled
                terminal[v] -= amount
                terminal[u] += amount
                residual[k] -= amount
                residual[k ^ 1] += amount
