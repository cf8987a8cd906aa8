"""Clique trees: overlapping cliques of the variables of a graph that form a tree, and messages between them.

Every edge lies within a clique, and the cliques that contain a variable are connected. A message between two cliques
has one number for each joint state of their shared variables. With such messages the algorithms for trees work on any
graph. All arrays are float64 on the host. Source: Pillutla et al., Remark 10.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
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

    The heuristic next eliminates the variable that needs the fewest new edges between its neighbours. It forms a clique
    with them; the parent is the clique of the neighbour eliminated first. The variables that remain are the root.

    Notes
    -----
    A tree of minimum width is NP-hard to find; the heuristic finds one on trees, cycles and most small graphs. Every
    variable is in a clique, even without edges; without variables the root is empty. Every clique but the root has one
    variable that its parent lacks. The last 256 trees are cached. Time O(p log p) for graphs of bounded width and
    degree. Ties: the smaller degree, then the smaller variable.
    """
    eliminated, core = min_fill(p, edges)
    made = [core, *({v, *neighbours} for v, neighbours in reversed(eliminated))]  # every clique after its parent
    own = {v: c for c, (v, _) in enumerate(reversed(eliminated), 1)}  # the clique of a variable's elimination
    below: list[list[int]] = [[] for _ in made]
    for v, neighbours in reversed(eliminated):
        below[max((own.get(u, 0) for u in neighbours), default=0)].append(own[v])
    order, parents, children = [0], [-1], []  # breadth first
    for c, clique in enumerate(order):
        children.append(tuple(range(len(order), len(order) + len(below[clique]))))
        order += below[clique]
        parents += [c] * len(below[clique])
    cliques = [made[clique] for clique in order]
    nodes = [0] * p
    for c in range(len(cliques) - 1, -1, -1):
        for v in cliques[c]:
            nodes[v] = c  # the first in order: the others are below it
    return CliqueTree(
        tuple(tuple(sorted(clique)) for clique in cliques),
        tuple(parents),
        ((), *(tuple(sorted(cliques[c] & cliques[parents[c]])) for c in range(1, len(cliques)))),
        tuple(children),
        tuple(nodes),
        tuple(max(nodes[a], nodes[b]) for a, b in edges),  # the first with both
    )


def min_fill(p: int, edges: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, set[int]]], set[int]]:
    """Each variable that is eliminated, with its neighbours then, and the variables that remain, all adjacent.

    fill[v] is the number of pairs of neighbours of v without an edge; it is updated after each elimination.
    """
    adjacent: dict[int, set[int]] = {v: set() for v in range(p)}
    for a, b in edges:
        adjacent[a].add(b)
        adjacent[b].add(a)
    fill = {v: len(near) * (len(near) - 1) // 2 for v, near in adjacent.items()}
    for v, near in adjacent.items():
        fill[v] -= sum(len(near & adjacent[u]) for u in near) // 2
    missing = p * (p - 1) // 2 - sum(map(len, adjacent.values())) // 2  # pairs of variables without an edge
    queue = [(fill[v], len(near), v) for v, near in adjacent.items()]
    heapq.heapify(queue)
    eliminated = []
    while missing > 0:
        *key, v = heapq.heappop(queue)
        if v not in adjacent or key != [fill[v], len(adjacent[v])]:
            continue  # an outdated entry
        near = adjacent.pop(v)
        missing -= len(adjacent) - len(near)
        changed = set(near)
        for u in near:
            adjacent[u].remove(v)
            fill[u] -= len(adjacent[u]) - len(adjacent[u] & near)  # pairs of v and a neighbour of u that v lacks
        for a, b in itertools.combinations(near, 2):
            if b not in adjacent[a]:
                common = adjacent[a] & adjacent[b]
                fill[a] += len(adjacent[a]) - len(common)
                fill[b] += len(adjacent[b]) - len(common)
                for u in common:
                    fill[u] -= 1
                changed |= common
                adjacent[a].add(b)
                adjacent[b].add(a)
                missing -= 1
        for u in changed:
            heapq.heappush(queue, (fill[u], len(adjacent[u]), u))
        eliminated.append((v, near))
    return eliminated, set(adjacent)


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
