"""Max-marginals of binary variables: each constraint continues from the optimal flow and its trees, and is then undone.

Forcing a variable to the other side gives it an arc of capacity inf there; the score falls by the flow that this adds
(after Kohli and Torr, 2005, who reuse flow and trees for other changes of capacities). A ``Journal`` holds the previous
state of whatever was touched, so that a constraint costs what it changes, not a copy of the graph. There are two
levels: a node, then the other end of each of its edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.cut import (
    ACTIVE,
    DISTANCE,
    FREE,
    NONE,
    PARENT,
    ROOT,
    SIDE,
    SINK,
    SOURCE,
    STAMP,
    TIME,
    activate,
    adopt,
    augment_all,
    orphan_add,
    save_node,
)
from accelerated.compiled.structures.cut_network import ONE
from accelerated.kernel import inlined, kernel

__all__ = ["Journal", "all_margins", "new_journal", "node_margins", "roving_margins"]


class Journal(NamedTuple):
    """The state to restore: nodes[0] entries of nodes and edges[0] of edges, each saved once an epoch, before its first
    change.

    node (2 p) with terminal (2 p) and record (2 p, 4), rows of Search.node; edge (2 e) with residual (2 e, 2).
    """

    epoch: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    node_epoch: np.ndarray
    edge_epoch: np.ndarray
    node: np.ndarray
    terminal: np.ndarray
    record: np.ndarray
    edge: np.ndarray
    residual: np.ndarray


def new_journal(p, n_edges):
    """Room for two levels of changes to p nodes and their edges."""
    counts = np.zeros((3, 1), np.int64)
    return Journal(
        counts[0],
        counts[1],
        counts[2],
        np.zeros(p, np.int64),
        np.zeros(n_edges, np.int64),
        np.empty(2 * p, np.uint32),
        np.empty(2 * p),
        np.empty((2 * p, 4), np.uint32),
        np.empty(2 * n_edges, np.uint32),
        np.empty((2 * n_edges, 2)),
    )


@kernel
def node_margins(value, graph, search, journal, nodes):
    """nodes (p, 2): the highest score with each label. Starts from the state after ``augment_all``, whose score is
    ``value``.
    """
    for v in range(len(nodes)):
        side = search.node[v, SIDE]
        nodes[v, 0] = nodes[v, 1] = value
        if side != FREE:
            other = SINK if side == SOURCE else SOURCE
            nodes[v, 1 if other == SOURCE else 0] = value - _force(v, other, graph, search, journal)
            _put_back(0, 0, graph, search, journal)


@kernel
def roving_margins(value, graph, search, nodes):
    """As ``node_margins`` where no capacity is inf: the flow sent to one variable stays there as an arc of its own, for
    the next variable to draw on.

    This is still a maximum flow (of the same network, up to a constant), and neighbours draw most of their flow from
    each other.
    """
    best = search.node[:, SIDE].copy()
    for v in range(len(nodes)):
        nodes[v, 0] = nodes[v, 1] = value
        if best[v] == FREE:
            continue
        flow = abs(graph.terminal[v])
        graph.terminal[v] = -np.inf if best[v] == SOURCE else np.inf
        _plant(np.uint64(v), SINK if best[v] == SOURCE else SOURCE, graph, search)
        flow += augment_all(graph, search, None)
        nodes[v, 0 if best[v] == SOURCE else 1] = value - flow
        graph.terminal[v] = flow if best[v] == SOURCE else -flow
        _plant(np.uint64(v), best[v], graph, search)


@kernel
def _plant(v, side, graph, search):
    """Make v a root of the other tree, or of its own; its children look for new parents."""
    node = search.node
    before = node[v, SIDE]
    node[v, SIDE], node[v, PARENT], node[v, STAMP], node[v, DISTANCE] = side, ROOT, search.clock[TIME], ONE
    if before != side and before != FREE:
        for i in range(graph.first[v], graph.first[v + ONE]):
            a = np.uint64(graph.arc[i])
            u = np.uint64(graph.head[a])
            if node[u, SIDE] == before and node[u, PARENT] == a ^ ONE:
                orphan_add(u, graph, search, None)
        adopt(graph, search, None)
    activate(v, search)


@kernel
def all_margins(value, graph, search, journal, nodes, pairs):
    """nodes (p, 2) and pairs (e, 2, 2): the highest score with each label, and with each pair of labels of an edge."""
    for v in range(len(nodes)):
        for label in range(2):
            best = value - _force(v, SOURCE if label == 1 else SINK, graph, search, journal)
            nodes[v, label] = best
            saved_nodes, saved_edges = journal.nodes[0], journal.edges[0]
            for i in range(graph.first[v], graph.first[v + 1]):
                a = np.uint64(graph.arc[i])
                if a & ONE != NONE:  # v is the second node of that edge: the first handles it
                    continue
                k, u = a >> ONE, graph.head[a]
                side = search.node[u, SIDE]
                pairs[k, label, 0] = pairs[k, label, 1] = best
                if side != FREE and best > -np.inf:
                    other = SINK if side == SOURCE else SOURCE
                    more = _force(u, other, graph, search, journal)
                    pairs[k, label, 1 if other == SOURCE else 0] = best - more
                    _put_back(saved_nodes, saved_edges, graph, search, journal)
            _put_back(0, 0, graph, search, journal)


@kernel
def _force(v, side, graph, search, journal):
    """Bind v to the source (label 1) or the sink (label 0) in a new epoch. Returns the flow that this adds, inf if it
    is forbidden.
    """
    journal.epoch[0] += 1
    node, own = search.node, graph.terminal[v]
    added = max(0.0, -own if side == SOURCE else own)
    if added == np.inf:
        return added
    v = np.uint64(v)
    save_node(v, graph, search, journal)
    before = node[v, SIDE]
    graph.terminal[v] = np.inf if side == SOURCE else -np.inf
    node[v, SIDE], node[v, PARENT], node[v, STAMP], node[v, DISTANCE] = side, ROOT, search.clock[TIME], ONE
    if before == side:
        return added
    if before != FREE:
        for i in range(graph.first[v], graph.first[v + ONE]):
            a = np.uint64(graph.arc[i])
            u = np.uint64(graph.head[a])
            if node[u, SIDE] == before and node[u, PARENT] == a ^ ONE:
                orphan_add(u, graph, search, journal)
        adopt(graph, search, journal)
    activate(v, search)
    return added + augment_all(graph, search, journal)


@inlined
def _put_back(nodes, edges, graph, search, journal):
    """Undo the changes, last first, until ``nodes`` saved nodes and ``edges`` saved edges are left; no node is active
    then.
    """
    for row in range(journal.nodes[0] - 1, nodes - 1, -1):
        v = journal.node[row]
        graph.terminal[v] = journal.terminal[row]
        for column in range(4):
            search.node[v, column] = journal.record[row, column]
    for row in range(journal.edges[0] - 1, edges - 1, -1):
        k = np.uint64(journal.edge[row])
        graph.residual[k << ONE], graph.residual[k << ONE | ONE] = journal.residual[row, 0], journal.residual[row, 1]
    journal.nodes[0], journal.edges[0] = nodes, edges
    if search.clock[ACTIVE] > NONE:  # left by a path that cannot be filled
        search.clock[ACTIVE] = NONE
        search.waiting[:] = False
