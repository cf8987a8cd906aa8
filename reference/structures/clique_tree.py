"""Clique trees: overlapping cliques of the variables of a graph that form a tree, and messages between them.

Every edge lies within a clique, and the cliques that contain a variable are connected. A message between two cliques
has one number for each joint state of their shared variables. With such messages the algorithms for trees work on any
graph. All arrays are float64 on the host. Source: Pillutla et al., Remark 10.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

__all__ = ["CliqueTree", "Reduction", "beliefs", "clique_tree", "decode", "number", "towards_the_root"]

Reduction = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]  # max or log sum exp over axes


class CliqueTree(NamedTuple):
    """Cliques of variables, each in ascending order, with parents before children.

    The first clique is the root; its parent is -1.
    """

    cliques: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    shared: tuple[tuple[int, ...], ...]  # the variables that each clique shares with its parent
    children: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...]  # for each variable, a clique that contains it
    edges: tuple[int, ...]  # for each edge, a clique that contains both its variables

    @property
    def width(self) -> int:
        """The size of the largest clique less 1, an upper bound on the graph's treewidth."""
        return max(map(len, self.cliques)) - 1

    def axes(self, c: int, kept: tuple[int, ...]) -> tuple[int, ...]:
        """The axes in the table of clique c of the variables that are not in ``kept``."""
        return tuple(axis for axis, v in enumerate(self.cliques[c]) if v not in kept)

    def spread(self, table: np.ndarray, variables: tuple[int, ...], c: int) -> np.ndarray:
        """A table over some variables of clique c, in ascending order, with axes of length 1 for the others."""
        sizes = iter(table.shape)
        return table.reshape([next(sizes) if v in variables else 1 for v in self.cliques[c]])


@lru_cache(maxsize=256)
def clique_tree(p: int, edges: tuple[tuple[int, int], ...]) -> CliqueTree:
    """A clique tree of p variables and these edges, by the min-fill heuristic.

    The heuristic next eliminates the variable that needs the fewest new edges.

    Notes
    -----
    A tree of minimum width is NP-hard to find; the heuristic finds one on trees, cycles and most small graphs. Every
    variable is in a clique, even without edges; without variables the root is empty. The last 256 trees are cached. The
    heuristic takes at least O(p^2) time: seconds for thousands of variables at any width.
    """
    import networkx
    from networkx.algorithms.approximation import treewidth_min_fill_in

    graph = networkx.Graph()
    graph.add_nodes_from(range(p))
    graph.add_edges_from(edges)
    _, tree = treewidth_min_fill_in(graph)
    root = next(iter(tree))
    parent_of = {child: parent for parent, child in networkx.bfs_edges(tree, root)}
    order = [root, *parent_of]
    number = {clique: c for c, clique in enumerate(order)}
    parents = (-1, *(number[parent_of[clique]] for clique in order[1:]))
    children: list[list[int]] = [[] for _ in order]
    containing: list[list[int]] = [[] for _ in range(p)]  # the cliques of each variable, in order
    for c, clique in enumerate(order):
        if c > 0:
            children[parents[c]].append(c)
        for v in clique:
            containing[v].append(c)

    def common_clique(a: int, b: int) -> int:
        """The first clique that contains both ends of an edge."""
        rare, other = (a, b) if len(containing[a]) <= len(containing[b]) else (b, a)
        return next(c for c in containing[rare] if other in order[c])

    return CliqueTree(
        tuple(tuple(sorted(clique)) for clique in order),
        parents,
        ((), *(tuple(sorted(clique & parent_of[clique])) for clique in order[1:])),
        tuple(map(tuple, children)),
        tuple(cliques[0] for cliques in containing),
        tuple(common_clique(a, b) for a, b in edges),
    )


def towards_the_root(
    tree: CliqueTree, tables: list[np.ndarray], reduce: Reduction
) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
    """Messages from every clique to its parent.

    message_c = reduction of inside_c over the variables that are not in the parent
    inside_c = table_c + sum of the messages of its children

    Returns
    -------
    value : float
        The reduction of all scores; -inf if every output is forbidden, and the lists are then incomplete.
    messages, inside : lists of arrays
        Each message, over the variables shared with the parent, minus its largest entry; the sum of these entries is
        the value.
    """
    messages, inside = [np.zeros(())] * len(tables), list(tables)
    value = 0.0
    for c in range(len(tables) - 1, -1, -1):
        message = reduce(inside[c], tree.axes(c, tree.shared[c]))
        top = float(message.max())
        if top == -np.inf:
            return top, messages, inside
        value += top
        messages[c] = message - top
        if c > 0:
            parent = tree.parents[c]
            inside[parent] = inside[parent] + tree.spread(messages[c], tree.shared[c], parent)
    return value, messages, inside


def beliefs(
    tree: CliqueTree, tables: list[np.ndarray], messages: list[np.ndarray], reduce: Reduction
) -> list[np.ndarray]:
    """For each clique the reduction of all scores over the variables outside it, up to a constant for each clique.

    The message from a parent to a child is the reduction of the parent's table, the message that the parent received
    from its own parent, and the messages of the other children.
    """
    from_parent = [np.zeros(())] * len(tables)
    result = []
    for c, children in enumerate(tree.children):
        from_children = [tree.spread(messages[d], tree.shared[d], c) for d in children]
        suffixes = [np.zeros(())]  # sums of the messages of the children after each
        for message in from_children[:0:-1]:
            suffixes.append(suffixes[-1] + message)
        belief = tables[c] + tree.spread(from_parent[c], tree.shared[c], c)
        for d, message, rest in zip(children, from_children, reversed(suffixes), strict=False):
            outside = reduce(belief + rest, tree.axes(c, tree.shared[d]))
            from_parent[d] = outside - outside.max()
            belief = belief + message
        result.append(belief)
    return result


def decode(tree: CliqueTree, inside: list[np.ndarray], p: int) -> np.ndarray:
    """The states (p,) of an output with the highest score, from the root down; ties go to the first state."""
    y = np.full(p, -1)
    for c, clique in enumerate(tree.cliques):
        table = inside[c][tuple(int(y[v]) if y[v] >= 0 else slice(None) for v in clique)]
        free = [v for v in clique if y[v] < 0]
        y[free] = np.unravel_index(np.argmax(table), table.shape)
    return y


def number(tree: CliqueTree, tables: list[np.ndarray]) -> int:
    """The number of outputs without an entry of -inf in the tables: exact, a Python int."""
    ways = [np.where(table > -np.inf, 1, 0).astype(object) for table in tables]
    for c in range(len(tables) - 1, 0, -1):
        message = np.asarray(ways[c].sum(axis=tree.axes(c, tree.shared[c])), dtype=object)
        parent = tree.parents[c]
        ways[parent] = ways[parent] * tree.spread(message, tree.shared[c], parent)
    return int(ways[0].sum())
