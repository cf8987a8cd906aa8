"""The network of binary variables' scores as a residual graph, built in one sweep over the edges.

If terminal[v] is positive, node v has an arc from the source of that capacity, else an arc to the sink of capacity
-terminal[v]; capacities may be inf. Arcs 2k and 2k + 1 are the two directions of edge k, so the opposite of an arc is
arc ^ 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import inlined, kernel

__all__ = ["Graph", "are_fit", "build", "build_agreeing", "forgone", "new_graph", "score_of_labels"]

TOO_LARGE, NO_LABEL, BUILT = -3, -2, -1
LARGE = 2.0**960
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


@inlined
def _is_unfit(equal0, second, one, equal1, eps):
    """Whether cuts cannot express the scores of an edge, but for rounding."""
    if (equal0 + equal1) - (one + second) >= 0.0:
        return False
    if equal0 == -np.inf or equal1 == -np.inf:
        return True
    if one == -np.inf or second == -np.inf:
        return False
    equal0, second, one, equal1 = 0.125 * equal0, 0.125 * second, 0.125 * one, 0.125 * equal1  # sums do not overflow
    size = abs(equal0) + abs(second) + abs(one) + abs(equal1)
    return (equal0 + equal1) - (one + second) < -4.0 * eps * size


@inlined
def _normal_form(equal0, second, one, equal1):
    """The scores of an edge as equal0 + alpha y_a + beta y_b - forth [y = 1, 0] - back [y = 0, 1]; the last two >= 0.

    alpha may be anything from ``one - equal0`` to ``equal1 - second``, and alpha + beta = equal1 - equal0. The middle
    leaves the least flow. But beside a penalty it may be huge: then alpha or beta is 0, and each number is one
    difference of two scores, so that the penalty is rounded by itself and swallows no other score.
    """
    least, most = one - equal0, equal1 - second  # of alpha
    total, difference, w = equal1 - equal0, one - second, most - least
    if abs(difference) <= 8.0 * abs(total) and abs(total) <= 8.0 * w:
        return 0.5 * (total + difference), 0.5 * (total - difference), 0.5 * w, 0.5 * w
    if least <= 0.0 <= most:
        return 0.0, total, -least, most
    low, high = second - equal0, equal1 - one  # of beta
    if low <= 0.0 <= high:
        return total, 0.0, high, -low
    if max(abs(low), abs(high)) < max(abs(least), abs(most)):
        w = high - low
    w = max(w, 0.0)
    if abs(one) >= abs(second):  # the larger in size is lowered where w < 0 by rounding
        return most, low, w, 0.0
    return least, high, 0.0, w


@kernel
def are_fit(pairwise, edges, p, eps):
    """Whether each edge joins two of p variables, and cuts can express its scores."""
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        if a == b or not (0 <= a < p and 0 <= b < p):
            return False
        if _is_unfit(pairwise[k, 0, 0], pairwise[k, 0, 1], pairwise[k, 1, 0], pairwise[k, 1, 1], eps):
            return False
    return True


@kernel
def build(unary, pairwise, edges, eps, graph):
    """Fill the graph of scores (p, 2), (e, 2, 2), edges (e, 2).

    Returns BUILT, NO_LABEL if a variable has no label left, TOO_LARGE if sums may overflow, or the first edge that cuts
    cannot express; and the sum of all finite capacities.
    """
    head, residual, terminal = graph.head, graph.residual, graph.terminal
    impossible, large, total = False, False, 0.0
    for v in range(len(terminal)):
        impossible |= unary[v, 0] == -np.inf and unary[v, 1] == -np.inf
        terminal[v] = 0.0 if impossible else unary[v, 1] - unary[v, 0]
        size = abs(terminal[v])
        large |= size > LARGE and min(unary[v, 0], unary[v, 1]) > -np.inf
        total += size if size < np.inf else 0.0
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        equal0, second, one, equal1 = pairwise[k, 0, 0], pairwise[k, 0, 1], pairwise[k, 1, 0], pairwise[k, 1, 1]
        if _is_unfit(equal0, second, one, equal1, eps):
            return k, total
        alpha, beta, forth, back = _normal_form(equal0, second, one, equal1)
        size = abs(alpha) + abs(beta)
        size += (forth if forth < np.inf or one > -np.inf else 0.0) + (
            back if back < np.inf or second > -np.inf else 0.0
        )
        large |= size > LARGE
        total += size
        terminal[a] += alpha
        terminal[b] += beta
        residual[2 * k], residual[2 * k + 1] = forth, back
        head[2 * k], head[2 * k + 1] = b, a
    if impossible or large:
        return NO_LABEL if impossible else TOO_LARGE, total
    _sort_arcs(graph)
    _fill_short_paths(graph)
    return BUILT, total


@kernel
def forgone(unary, pairwise, edges, labels):
    """What labels (p,) forgo in the network, with the scores that cancel in it: its rounding is a share of both."""
    p = len(labels)
    terminal, size, total = np.empty(p), np.empty(p), 0.0
    for v in range(p):
        terminal[v] = unary[v, 1] - unary[v, 0]
        size[v] = abs(terminal[v])
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        alpha, beta, forth, back = _normal_form(
            pairwise[k, 0, 0], pairwise[k, 0, 1], pairwise[k, 1, 0], pairwise[k, 1, 1]
        )
        terminal[a] += alpha
        terminal[b] += beta
        size[a] += abs(alpha)
        size[b] += abs(beta)
        if labels[a] != labels[b]:
            total += forth if labels[a] == 1 else back
    for v in range(p):
        if abs(terminal[v]) < np.inf:
            total += max(0.0, -terminal[v] if labels[v] == 1 else terminal[v])
            total += max(0.0, size[v] - 8.0 * abs(terminal[v]))
    return total


@kernel
def score_of_labels(unary, pairwise, edges, labels):
    """The score of labels (p,) under scores (p, 2) and (e, 2, 2) of edges (e, 2), and the sum of its absolute terms; a
    label but 0 and 1 has no parts.
    """
    total = size = 0.0
    for v in range(len(labels)):
        if 0 <= labels[v] <= 1:
            total += unary[v, labels[v]]
            size += abs(unary[v, labels[v]])
    for k in range(len(edges)):
        one, other = labels[edges[k, 0]], labels[edges[k, 1]]
        if 0 <= one <= 1 and 0 <= other <= 1:
            total += pairwise[k, one, other]
            size += abs(pairwise[k, one, other])
    return total, size


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
