"""Minimum cuts by two search trees that grow towards each other and are kept from one augmenting path to the next.

Written from Boykov and Kolmogorov (2004), section 3: growth, augmentation, adoption; the graph is that of
``cut_network``. All roundings are harmless: an arc is saturated by subtracting itself, which gives exactly 0, so no
path is found twice. Indices are unsigned, because each signed index is tested for counting from the end (a quarter of
the time). Numba makes a float of an unsigned and a signed number, hence the constant ONE. Loops stand in the functions
that need them where a helper call would cost as much. A ``journal`` records what changes (``cut_marginals``); None
records nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.cut_network import BUILT, NO_LABEL, ONE, build, new_graph, score_of_labels
from accelerated.kernel import inlined, kernel

__all__ = [
    "FREE",
    "SINK",
    "SOURCE",
    "Search",
    "activate",
    "adopt",
    "augment_all",
    "best_labels",
    "new_search",
    "orphan_add",
    "start",
]

SIDE, PARENT, STAMP, DISTANCE = 0, 1, 2, 3  # columns of Search.node
FREE, SOURCE, SINK = np.uint32(0), np.uint32(1), np.uint32(2)  # the tree that a node is in
ROOT, ORPHAN = (
    np.uint32(2**32 - 1),
    np.uint32(2**32 - 2),
)  # instead of an arc: the parent is a terminal; it has been lost
TIME, FIRST, ACTIVE, NEXT, ORPHANS = 0, 1, 2, 3, 4  # entries of Search.clock
NONE = np.uint64(0)
FAR = np.uint64(2**32)


class Search(NamedTuple):
    """Both trees, and the queues of active nodes and orphans.

    node (p, 4): SIDE, PARENT (an arc to it), STAMP and DISTANCE (to the terminal, as of that time). active (p): a ring
    of nodes; ``waiting`` marks its members. orphan (p): a ring of orphans. clock: the time; first and number of the
    active nodes; the numbers of orphans served and added.
    """

    node: np.ndarray
    active: np.ndarray
    waiting: np.ndarray
    orphan: np.ndarray
    clock: np.ndarray


@kernel
def best_labels(unary, pairwise, edges, eps, labels):
    """Fill labels (p,) by a minimum cut. Returns what ``build`` does, NO_LABEL if there are none, and their score
    with the sum of its absolute terms. One call, because small cuts take as long as calls.
    """
    graph, search = new_graph(len(unary), len(edges)), new_search(len(unary))
    answer, capacities = build(unary, pairwise, edges, eps, graph)
    if answer != BUILT:
        return answer, capacities, 0.0, 0.0
    start(graph, search)
    if augment_all(graph, search, None) == np.inf:
        return NO_LABEL, capacities, 0.0, 0.0
    for v in range(len(labels)):
        labels[v] = search.node[v, SIDE] == SOURCE
    score, size = score_of_labels(unary, pairwise, edges, labels)
    return answer, capacities, score, size


@kernel
def new_search(p):
    """Room for trees over p nodes."""
    node, waiting, clock = np.empty((p, 4), np.uint32), np.zeros(p, np.bool_), np.zeros(5, np.uint64)
    return Search(node, np.empty(p, np.uint32), waiting, np.empty(p, np.uint32), clock)


@kernel
def start(graph, search):
    """Every node with an arc from or to a terminal becomes an active root."""
    node, clock = search.node, search.clock
    clock[:] = 0
    for v in range(len(node)):
        t = graph.terminal[v]
        node[v, SIDE] = SOURCE if t > 0.0 else SINK if t < 0.0 else FREE
        node[v, PARENT], node[v, STAMP], node[v, DISTANCE] = ROOT, 0, 1
        search.waiting[v] = False
        if t != 0.0:
            activate(np.uint64(v), search)


@kernel
def augment_all(graph, search, journal):
    """Find and fill paths until there is none. Returns the flow added, or inf if a path cannot be filled."""
    first, arc, head, residual, _ = graph
    node, active, waiting, _, clock = search
    p = np.uint64(len(active))
    total = 0.0
    while clock[ACTIVE] > NONE:
        v = np.uint64(active[clock[FIRST]])
        clock[FIRST] = clock[FIRST] + ONE if clock[FIRST] + ONE < p else NONE
        clock[ACTIVE] -= ONE
        waiting[v] = False
        i, end = np.uint64(first[v]), np.uint64(first[v + ONE])
        while i < end and node[v, SIDE] != FREE:
            side, a = node[v, SIDE], np.uint64(arc[i])
            if (residual[a] if side == SOURCE else residual[a ^ ONE]) > 0.0:
                u = np.uint64(head[a])
                if node[u, SIDE] == FREE:
                    save_node(u, graph, search, journal)
                    node[u, SIDE] = side
                    _adopt_by(v, u, a ^ ONE, node)
                    activate(u, search)
                elif node[u, SIDE] != side:
                    amount = _augment(a if side == SOURCE else a ^ ONE, graph, search, journal)
                    total += amount
                    if amount == np.inf:
                        return amount
                    adopt(graph, search, journal)
                    continue  # with the same arc
                elif node[u, STAMP] <= node[v, STAMP] and node[u, DISTANCE] > node[v, DISTANCE]:
                    save_node(u, graph, search, journal)
                    _adopt_by(v, u, a ^ ONE, node)
            i += ONE
    return total


@inlined
def _adopt_by(v, u, arc, node):
    """v becomes the parent of u; arc leads from u to v."""
    node[u, PARENT], node[u, STAMP], node[u, DISTANCE] = arc, node[v, STAMP], node[v, DISTANCE] + ONE


@inlined
def activate(v, search):
    """Queue v, unless it is queued already."""
    if not search.waiting[v]:
        search.waiting[v] = True
        p, clock = np.uint64(len(search.active)), search.clock
        place = clock[FIRST] + clock[ACTIVE]
        search.active[place - p if place >= p else place] = v
        clock[ACTIVE] += ONE


@inlined
def orphan_add(v, graph, search, journal):
    """Queue v as an orphan: it has lost its parent."""
    save_node(v, graph, search, journal)
    search.node[v, PARENT] = ORPHAN
    search.orphan[search.clock[ORPHANS] % np.uint64(len(search.orphan))] = v
    search.clock[ORPHANS] += ONE


@inlined
def save_node(v, graph, search, journal):
    """Save the state of v in the journal, if there is one, unless it is saved already."""
    if journal is not None and journal.node_epoch[v] != journal.epoch[0]:
        journal.node_epoch[v] = journal.epoch[0]
        row = journal.nodes[0]
        journal.nodes[0] += 1
        journal.node[row], journal.terminal[row] = v, graph.terminal[v]
        for column in range(4):
            journal.record[row, column] = search.node[v, column]


@inlined
def save_edge(arc, graph, journal):
    """Save an edge's residuals in the journal, likewise."""
    if journal is not None:
        k = arc >> ONE
        if journal.edge_epoch[k] != journal.epoch[0]:
            journal.edge_epoch[k] = journal.epoch[0]
            row = journal.edges[0]
            journal.edges[0] += 1
            journal.edge[row] = k
            journal.residual[row, 0] = graph.residual[arc & ~ONE]
            journal.residual[row, 1] = graph.residual[arc | ONE]


@inlined
def _augment(bridge, graph, search, journal):
    """Fill the path over arc ``bridge`` from the source's tree to the sink's. Returns its least residual; nodes that
    are cut off become orphans.
    """
    _, _, head, residual, terminal = graph
    node = search.node
    amount = residual[bridge]
    v = np.uint64(head[bridge ^ ONE])
    while node[v, PARENT] < ORPHAN:
        a = np.uint64(node[v, PARENT])
        amount = residual[a ^ ONE] if residual[a ^ ONE] < amount else amount
        v = np.uint64(head[a])
    amount = terminal[v] if terminal[v] < amount else amount
    u = np.uint64(head[bridge])
    while node[u, PARENT] < ORPHAN:
        a = np.uint64(node[u, PARENT])
        amount = residual[a] if residual[a] < amount else amount
        u = np.uint64(head[a])
    amount = -terminal[u] if -terminal[u] < amount else amount
    if amount == np.inf:
        return amount

    save_node(v, graph, search, journal)
    terminal[v] -= amount
    if terminal[v] == 0.0:
        orphan_add(v, graph, search, journal)
    save_node(u, graph, search, journal)
    terminal[u] += amount
    if terminal[u] == 0.0:
        orphan_add(u, graph, search, journal)
    save_edge(bridge, graph, journal)
    residual[bridge] -= amount
    residual[bridge ^ ONE] += amount
    v = np.uint64(head[bridge ^ ONE])
    while node[v, PARENT] < ORPHAN:
        a = np.uint64(node[v, PARENT])
        save_edge(a, graph, journal)
        residual[a] += amount
        residual[a ^ ONE] -= amount
        if residual[a ^ ONE] == 0.0:
            orphan_add(v, graph, search, journal)
        v = np.uint64(head[a])
    u = np.uint64(head[bridge])
    while node[u, PARENT] < ORPHAN:
        a = np.uint64(node[u, PARENT])
        save_edge(a, graph, journal)
        residual[a] -= amount
        residual[a ^ ONE] += amount
        if residual[a] == 0.0:
            orphan_add(u, graph, search, journal)
        u = np.uint64(head[a])
    return amount


@inlined
def adopt(graph, search, journal):
    """Give each orphan the parent that is nearest to the terminal, or set it free."""
    first, arc, head, residual, _ = graph
    node, _, _, orphan, clock = search
    clock[TIME] += ONE
    time, p = clock[TIME], np.uint64(len(orphan))
    while clock[NEXT] < clock[ORPHANS]:
        v = np.uint64(orphan[clock[NEXT] % p])
        clock[NEXT] += ONE
        side = node[v, SIDE]
        best, nearest = NONE, FAR
        for i in range(np.uint64(first[v]), np.uint64(first[v + ONE])):
            a = np.uint64(arc[i])
            if node[head[a], SIDE] == side and (residual[a ^ ONE] if side == SOURCE else residual[a]) > 0.0:
                u, distance = (
                    np.uint64(head[a]),
                    ONE,
                )  # to its terminal, along parents until one has this time's stamp
                while node[u, STAMP] != time and node[u, PARENT] < ORPHAN:
                    u = np.uint64(head[node[u, PARENT]])
                    distance += ONE
                if node[u, STAMP] == time:
                    distance += node[u, DISTANCE] - ONE
                elif node[u, PARENT] == ORPHAN:
                    continue
                if distance < nearest:
                    best, nearest = a, distance
                u = np.uint64(head[a])
                while node[u, STAMP] != time:
                    save_node(u, graph, search, journal)
                    node[u, STAMP], node[u, DISTANCE] = time, distance
                    distance -= ONE
                    if node[u, PARENT] == ROOT:
                        break
                    u = np.uint64(head[node[u, PARENT]])
        save_node(v, graph, search, journal)
        if nearest < FAR:
            node[v, PARENT], node[v, STAMP], node[v, DISTANCE] = best, time, nearest + ONE
            continue
        node[v, SIDE] = FREE
        for i in range(np.uint64(first[v]), np.uint64(first[v + ONE])):
            a = np.uint64(arc[i])
            u = np.uint64(head[a])
            if node[u, SIDE] == side:
                if (residual[a ^ ONE] if side == SOURCE else residual[a]) > 0.0:
                    activate(u, search)
                if node[u, PARENT] == a ^ ONE:
                    orphan_add(u, graph, search, journal)
    clock[NEXT] = clock[ORPHANS] = NONE
