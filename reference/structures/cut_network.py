"""The scores of binary variables in a graph, the network whose cuts are their labellings, and its maximum flow (Dinic).

score(y) = sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e]. The scores of an edge are a
constant, a term for each of its two variables, and a cost of different labels: the capacities of two arcs. Source:
Pillutla et al., appendix C.2, after Kolmogorov and Zabin (2004).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host

__all__ = ["CutScores", "Flow", "Network", "refuse_edge", "refuse_unfit_edges", "rounding", "score"]


class CutScores(NamedTuple):
    """The scores of p binary variables and e edges between them; a gradient with respect to them has the same shapes.

    unary (p, 2); pairwise (e, 2, 2), indexed by the labels of the first and second variable of the edge; edges (e, 2),
    NumPy int64 on the host.
    """

    unary: Array
    pairwise: Array
    edges: np.ndarray


CutScores.layout = ("edges",)  # type: ignore[attr-defined]  # not scores: every oracle returns them unchanged


class Network(NamedTuple):
    """A network whose cuts are the labellings; the capacity of a cut is the cost of its labelling.

    Variables of label 1 are on the side of the source s, variables of label 0 on the side of the sink t.

    terminal (p,): the capacity of s -> v if positive, minus that of v -> t if negative; inf and -inf fix the label.
    capacity (e, 2): of a -> b, which is cut if y_a = 1 and y_b = 0, and of b -> a; inf forbids. Both are NumPy float64.
    """

    terminal: np.ndarray
    capacity: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, scores: CutScores) -> Network | None:
        """The network of the scores, or None if both labels of a variable are forbidden.

        With w = psi_00 + psi_11 - psi_01 - psi_10 >= 0, the scores of an edge are psi_00 + alpha y_a + beta y_b -
        (w/2) |y_a - y_b|. If a pair (0, 1) or (1, 0) is forbidden, its arc has capacity inf and its score is replaced
        by the one with w = 0. Raises ValueError for an edge that cuts cannot represent.
        """
        unary, pairwise = host(scores.unary).astype(np.float64), host(scores.pairwise).astype(np.float64)
        edges = scores.edges
        refuse_unfit_edges(scores)
        if np.any(np.all(unary == -np.inf, axis=1)):
            return None
        equal0, equal1 = pairwise[:, 0, 0], pairwise[:, 1, 1]
        first, second = pairwise[:, 1, 0], pairwise[:, 0, 1]  # only the first or only the second has label 1
        no_first, no_second = first == -np.inf, second == -np.inf
        both = equal0 / 2 + equal1 / 2
        first, second = (
            np.where(no_first, np.where(no_second, both, equal0 + equal1 - np.where(no_second, 0.0, second)), first),
            np.where(no_second, np.where(no_first, both, equal0 + equal1 - np.where(no_first, 0.0, first)), second),
        )
        w = np.where(no_first | no_second, 0.0, np.maximum((equal0 + equal1) - (first + second), 0.0))
        terminal = unary[:, 1] - unary[:, 0]
        np.add.at(terminal, edges[:, 0], ((equal1 + first) - (equal0 + second)) / 2)  # alpha
        np.add.at(terminal, edges[:, 1], ((equal1 + second) - (equal0 + first)) / 2)  # beta
        capacity = np.stack([np.where(no_first, np.inf, w / 2), np.where(no_second, np.inf, w / 2)], axis=1)
        return cls(terminal, capacity, edges)


class Flow:
    """The residual graph of a network, and Dinic's algorithm.

    Arcs 2i and 2i + 1 are opposite; the source is node p, the sink node p + 1.
    """

    def __init__(self, network: Network) -> None:
        p = len(network.terminal)
        self.source, self.sink = p, p + 1
        self.head: list[int] = []
        self.residual: list[float] = []
        self.arcs: list[list[int]] = [[] for _ in range(p + 2)]  # the arcs that leave each node
        for (a, b), (forth, back) in zip(network.edges.tolist(), network.capacity.tolist(), strict=True):
            self.add(a, b, forth, back)
        for v, capacity in enumerate(network.terminal.tolist()):
            self.add(*((self.source, v) if capacity > 0 else (v, self.sink)), abs(capacity), 0.0)

    def add(self, tail: int, head: int, forth: float, back: float) -> None:
        self.arcs[tail].append(len(self.head))
        self.arcs[head].append(len(self.head) + 1)
        self.head += [head, tail]
        self.residual += [forth, back]

    def maximise(self) -> float:
        """Augment until no path from source to sink remains; the maximum flow, or inf."""
        total = 0.0
        while (levels := self.levels())[self.sink] >= 0:
            total += self.block(levels)
            if total == np.inf:
                break
        return total

    def levels(self) -> list[int]:
        """The number of arcs of a shortest residual path from the source to each node; -1 if there is none."""
        level = [-1] * len(self.arcs)
        level[self.source] = 0
        queue = deque([self.source])
        while queue:
            v = queue.popleft()
            for a in self.arcs[v]:
                if self.residual[a] > 0 and level[self.head[a]] < 0:
                    level[self.head[a]] = level[v] + 1
                    queue.append(self.head[a])
        return level

    def block(self, level: list[int]) -> float:
        """Augment along shortest paths until each has a saturated arc; the added flow."""
        total, path, v = 0.0, list[int](), self.source
        tried = [0] * len(self.arcs)  # the number of arcs of each node that are used up
        while True:
            if v == self.sink:
                amount = min(self.residual[a] for a in path)
                if amount == np.inf:
                    return amount
                for a in path:
                    self.residual[a] -= amount  # exactly 0 on the arc of least residual capacity
                    self.residual[a ^ 1] += amount
                total += amount
                saturated = next(i for i, a in enumerate(path) if self.residual[a] == 0)
                v = self.head[path[saturated] ^ 1]
                del path[saturated:]
            elif tried[v] < len(self.arcs[v]):
                a = self.arcs[v][tried[v]]
                if self.residual[a] > 0 and level[self.head[a]] == level[v] + 1:
                    path.append(a)
                    v = self.head[a]
                else:
                    tried[v] += 1
            elif path:
                v = self.head[path.pop() ^ 1]
                tried[v] += 1
            else:
                return total

    def source_side(self) -> np.ndarray:
        """Booleans (p,): the variables that the source reaches in the residual graph."""
        return np.array(self.levels()[: self.source], dtype=np.int64) >= 0


def refuse_unfit_edges(scores: CutScores) -> None:
    """Raise ValueError for the first edge that is not supermodular or forbids a pair of equal labels.

    A violation of at most 4 eps (|psi_00| + |psi_01| + |psi_10| + |psi_11|), eps of the scores' dtype, is rounding.
    """
    pairwise = host(scores.pairwise).astype(np.float64)
    equal, different = pairwise[:, 0, 0] + pairwise[:, 1, 1], pairwise[:, 0, 1] + pairwise[:, 1, 0]
    finite = (equal > -np.inf) & (different > -np.inf)
    size = np.where(finite[:, None, None], np.abs(pairwise), 0.0).sum(axis=(1, 2))
    lack = np.where(finite, different, 0.0) - np.where(finite, equal, 0.0)
    for e in np.flatnonzero((equal == -np.inf) | (lack > 4 * rounding(scores) * size))[:1]:
        refuse_edge(scores, int(e))


def rounding(scores: CutScores) -> float:
    """The machine epsilon of the scores' dtype."""
    return float(array_namespace(scores.pairwise).finfo(scores.pairwise.dtype).eps)


def refuse_edge(scores: CutScores, e: int) -> None:
    """Raise a ValueError that says why no cut represents edge ``e``."""
    psi = host(scores.pairwise)[e].astype(np.float64)
    a, b = (int(v) for v in scores.edges[e])
    if min(psi[0, 0], psi[1, 1]) == -np.inf:
        label = 0 if psi[0, 0] == -np.inf else 1
        raise ValueError(
            f"pairwise: edge {e} ({a}, {b}) forbids the pair of labels ({label}, {label}); "
            "cuts can forbid (0, 1) and (1, 0), and a variable's labels (unary)"
        )
    lacking = (psi[0, 1] + psi[1, 0]) - (psi[0, 0] + psi[1, 1])
    raise ValueError(
        f"pairwise: expected the scores of equal labels to add up to at least those of different ones; at edge {e} "
        f"({a}, {b}), "
        f"{psi[0, 0]:g} + {psi[1, 1]:g} falls short of {psi[0, 1]:g} + {psi[1, 0]:g} by {lacking:g}"
    )


def score(scores: CutScores, labels: Array) -> Array:
    """The score () of one labelling (p,), summed in float64; -inf if the labelling is forbidden."""
    y, (a, b) = host(labels), scores.edges.T
    total = host(scores.unary)[np.arange(len(y)), y].sum(dtype=np.float64)
    total += host(scores.pairwise)[np.arange(len(a)), y[a], y[b]].sum(dtype=np.float64)
    return Place.of(scores.unary).floats(total)
