"""The scores of binary variables in a graph, the network whose cuts are their labellings, and its maximum flow (Dinic).

score(y) = sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e]. The scores of an edge are a
constant, a term for each of its two variables, and a cost of different labels: the capacities of two arcs. Source:
Pillutla et al., appendix C.2, after Kolmogorov and Zabin (2004).
"""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host

__all__ = ["CutScores", "Flow", "Network", "refuse_edge", "refuse_unfit_edges", "rounding", "score", "within_floats"]


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

    terminal (p,): the capacity of s -> v if positive, minus that of v -> t if negative. capacity (e, 2): of a -> b,
    which is cut if y_a = 1 and y_b = 0, and of b -> a. They are arrays of Python integers, the scores times a power of
    two, so that no sum is rounded. The capacity ``forbidding`` exceeds all others together; it fixes labels and forbids
    pairs. ``exponent``: the scores are the integers times 2^exponent.
    """

    terminal: np.ndarray
    capacity: np.ndarray
    edges: np.ndarray
    forbidding: int
    exponent: int

    @classmethod
    def of(cls, scores: CutScores) -> Network | None:
        """The network of the scores, or None if both labels of a variable are forbidden.

        With w = psi_00 + psi_11 - psi_01 - psi_10 >= 0, the scores of an edge are psi_00 + alpha y_a + beta y_b -
        (w/2) |y_a - y_b|. If a pair (0, 1) or (1, 0) is forbidden, its arc has capacity ``forbidding`` and its score is
        replaced by the one with w = 0. Where w < 0 by rounding, the larger in size of psi_01 and psi_10 is lowered by
        it. Raises ValueError for an edge that cuts cannot represent.
        """
        refuse_unfit_edges(scores)
        forbidden, no_pair = (host(x) == -np.inf for x in (scores.unary, scores.pairwise))
        if np.any(np.all(forbidden, axis=1)):
            return None
        exponent, (unary, pairwise) = _integers(host(scores.unary), host(scores.pairwise))
        edges = scores.edges
        equal0, equal1 = pairwise[:, 0, 0], pairwise[:, 1, 1]
        first, second = pairwise[:, 1, 0], pairwise[:, 0, 1]  # only the first or only the second has label 1
        no_first, no_second = no_pair[:, 1, 0], no_pair[:, 0, 1]
        equal, larger = equal0 + equal1, np.abs(first) >= np.abs(second)
        lowered, lack = no_first | no_second, np.maximum(first + second - equal, 0)
        first = np.where(no_first, np.where(no_second, equal // 2, equal - second), first)
        second = np.where(no_second, equal - first, second)
        first = np.where(~lowered & larger, first - lack, first)
        second = np.where(~lowered & ~larger, second - lack, second)
        w = equal - (first + second)
        terminal = unary[:, 1] - unary[:, 0]
        np.add.at(terminal, edges[:, 0], (equal1 + first - equal0 - second) // 2)  # alpha
        np.add.at(terminal, edges[:, 1], (equal1 + second - equal0 - first) // 2)  # beta
        forbidding = 1 + int(np.abs(terminal).sum() + w.sum())
        terminal = np.where(forbidden[:, 0], forbidding, np.where(forbidden[:, 1], -forbidding, terminal))
        capacity = np.stack([np.where(no, forbidding, w // 2) for no in (no_first, no_second)], axis=1)
        return cls(terminal, capacity, edges, forbidding, exponent)

    def in_floats(self) -> tuple[np.ndarray, np.ndarray]:
        """terminal and capacity as floats on the scale of the scores; inf fixes labels and forbids pairs."""
        unit = Fraction(2) ** self.exponent
        sizes = (np.where(np.abs(x) >= self.forbidding, np.sign(x) * np.inf, x * unit) for x in self[:2])
        terminal, capacity = (x.astype(np.float64) for x in sizes)
        return terminal, capacity


def _integers(*arrays: np.ndarray) -> tuple[int, list[np.ndarray]]:
    """An exponent, and arrays of even Python integers that are the floats over 2^exponent; 0 for -inf."""
    floats = [np.frexp(np.where(x > -np.inf, x, 0.0).astype(np.float64)) for x in arrays]
    exponent = min((int(e[m != 0].min()) for m, e in floats if np.any(m)), default=0) - 54
    shifts = [np.where(m != 0, e - (exponent + 53), 0).astype(object) for m, e in floats]
    whole = [np.ldexp(m, 53).astype(np.int64).astype(object) for m, _ in floats]
    return exponent, [x << shift for x, shift in zip(whole, shifts, strict=True)]


class Flow:
    """The residual graph of a network, and Dinic's algorithm.

    Arcs 2i and 2i + 1 are opposite; the source is node p, the sink node p + 1.
    """

    def __init__(self, network: Network) -> None:
        p = len(network.terminal)
        self.source, self.sink = p, p + 1
        self.head: list[int] = []
        self.residual: list[int] = []
        self.forbidding = network.forbidding
        self.arcs: list[list[int]] = [[] for _ in range(p + 2)]  # the arcs that leave each node
        for (a, b), (forth, back) in zip(network.edges.tolist(), network.capacity.tolist(), strict=True):
            self.add(a, b, forth, back)
        for v, capacity in enumerate(network.terminal.tolist()):
            self.add(*((self.source, v) if capacity > 0 else (v, self.sink)), abs(capacity), 0)

    def add(self, tail: int, head: int, forth: int, back: int) -> None:
        self.arcs[tail].append(len(self.head))
        self.arcs[head].append(len(self.head) + 1)
        self.head += [head, tail]
        self.residual += [forth, back]

    def maximise(self) -> bool:
        """Augment until no path from source to sink remains. False if each cut has an arc that forbids."""
        total = 0
        while total < self.forbidding and (levels := self.levels())[self.sink] >= 0:
            total += self.block(levels)
        return total < self.forbidding

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

    def block(self, level: list[int]) -> int:
        """Augment along shortest paths until each has a saturated arc; the added flow."""
        total, path, v = 0, list[int](), self.source
        tried = [0] * len(self.arcs)  # the number of arcs of each node that are used up
        while True:
            if v == self.sink:
                amount = min(self.residual[a] for a in path)
                for a in path:
                    self.residual[a] -= amount
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
    if np.any(np.abs(pairwise) > 2.0**1000):
        pairwise = pairwise / 8  # no sum overflows
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
    (equal0, second), (first, equal1) = host(scores.pairwise)[e].astype(np.float64).tolist()
    a, b = (int(v) for v in scores.edges[e])
    if min(equal0, equal1) == -np.inf:
        label = 0 if equal0 == -np.inf else 1
        raise ValueError(
            f"pairwise: edge {e} ({a}, {b}) forbids the pair of labels ({label}, {label}); "
            "cuts can forbid (0, 1) and (1, 0), and a variable's labels (unary)"
        )
    lacking = (second + first) - (equal0 + equal1)
    raise ValueError(
        f"pairwise: expected the scores of equal labels to add up to at least those of different ones; at edge {e} "
        f"({a}, {b}), "
        f"{equal0:g} + {equal1:g} falls short of {second:g} + {first:g} by {lacking:g}"
    )


def score(scores: CutScores, labels: Array) -> Array:
    """The score () of one labelling (p,), rounded once; -inf if the labelling is forbidden.

    A sum beyond the largest float is given as the largest float.
    """
    y, (a, b) = host(labels), scores.edges.T
    used = [host(scores.unary)[np.arange(len(y)), y], host(scores.pairwise)[np.arange(len(a)), y[a], y[b]]]
    terms = np.concatenate(used).astype(np.float64)
    if np.any(terms == -np.inf):
        return Place.of(scores.unary).floats(-np.inf)
    try:
        return within_floats(math.fsum(terms), scores)
    except OverflowError:  # of a part of the sum
        return within_floats(math.fsum(terms * 2.0**-64), scores, 2.0**64)


def within_floats(values: Any, scores: CutScores, unit: float = 1.0) -> Array:
    """values times unit, on the scores' device; -inf stays, larger values become the largest float of the dtype."""
    place = Place.of(scores.unary)
    largest = float(place.xp.finfo(place.dtype).max)
    return place.floats(np.where(np.isneginf(values), values, unit * np.clip(values, -largest / unit, largest / unit)))
