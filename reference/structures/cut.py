"""Binary variables whose neighbours prefer equal labels: exact max oracles by minimum cuts.

score(y) = sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b], (a, b) = edges[e], is maximised over y in {0, 1}^p. The
score must be supermodular (its negative, the energy, submodular): pairwise[e, 0, 0] + pairwise[e, 1, 1] >=
pairwise[e, 0, 1] + pairwise[e, 1, 0]. ``cut_network`` has the scores, the network and its maximum flow by augmenting
paths. Source: Pillutla et al., Algorithm 11 (*corrected*) and Theorem 47, after Kolmogorov and Zabin (2004).

Conventions. A score of -inf may forbid a label of a variable and the pairs (0, 1) and (1, 0) of an edge. If an edge
violates supermodularity only by rounding (4 eps times the sum of the absolute values of its scores, eps of their
dtype), the two sums count as equal. The network's capacities are exact integers: penalties of any size that the best
labelling does not pay change nothing. Ties: of all best labellings, the one with the fewest ones (its ones are common
to all of them).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host, one_hot
from reference.structures.base import IntractableError, KBest, Structure, checked_edges
from reference.structures.base import feasible as feasible  # of ops
from reference.structures.bmmf import bmmf
from reference.structures.cut_network import CutScores, Flow, Network, refuse_unfit_edges, score

__all__ = ["Cut", "CutScores", "max_marginals", "minimum_cut", "node_max_marginals", "score"]


def minimum_cut(scores: CutScores) -> tuple[Array, Array]:
    """The highest score and a best labelling (the max oracle).

    max over y in {0, 1}^p of sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b]

    Parameters
    ----------
    scores : CutScores

    Returns
    -------
    value : array ()
        The score of the labels, summed again from the scores; -inf if every labelling is forbidden.
    labels : int64 array (p,)
        All -1 if every labelling is forbidden.

    Raises
    ------
    ValueError
        An edge is not supermodular; the message has its index.

    Notes
    -----
    Dinic's algorithm, time O(p^2 e) and usually far less. Ties: the best labelling with the fewest ones.

    Source
    ------
    Pillutla et al., Algorithm 11 and Theorem 47, *corrected*: arcs have non-negative capacities for scores of any sign.
    """
    place = Place.of(scores.unary)
    network = Network.of(scores)
    labels = None if network is None else _labels(network)
    if labels is None:
        return place.floats(-np.inf), place.integers(np.full(len(host(scores.unary)), -1))
    return score(scores, labels), place.integers(labels)


def node_max_marginals(scores: CutScores) -> Array:
    """The highest score (p, 2) of a labelling in which variable v has label j; -inf if there is none.

    Notes
    -----
    p + 1 minimum cuts: one for the best labelling, and one for each label that it does not have.

    Source
    ------
    Pillutla et al., Algorithm 11 with the constraint y_v = j, and proof of Proposition 14.
    """
    return Place.of(scores.unary).floats(Constrained(scores).nodes())


def max_marginals(scores: CutScores) -> CutScores:
    """For each label of a variable and each pair of labels of an edge, the highest score of a labelling that has it.

    -inf if there is no such labelling.

    Notes
    -----
    At most p + 3 e + 1 minimum cuts.

    Source
    ------
    Pillutla et al., Definition 13 and Algorithm 11, with constraints on one variable or on both ends of an edge.
    """
    place, constrained = Place.of(scores.unary), Constrained(scores)
    return CutScores(place.floats(constrained.nodes()), place.floats(constrained.edges()), scores.edges)


class Constrained:
    """Best scores under constraints y_v = j. Each needs one minimum cut, unless the best labelling satisfies them."""

    def __init__(self, scores: CutScores) -> None:
        self.scores, self.network = scores, Network.of(scores)
        self.labels = None if self.network is None else _labels(self.network)

    def best(self, fixed: dict[int, int]) -> float:
        if self.labels is None or self.network is None:
            return -np.inf
        labels: np.ndarray | None = self.labels
        if any(self.labels[v] != j for v, j in fixed.items()):
            terminal = self.network.terminal.copy()
            for v, j in fixed.items():
                fixing = self.network.forbidding if j == 1 else -self.network.forbidding
                if terminal[v] == -fixing:
                    return -np.inf
                terminal[v] = fixing
            labels = _labels(self.network._replace(terminal=terminal))
        return -np.inf if labels is None else float(host(score(self.scores, labels)))

    def nodes(self) -> np.ndarray:
        p = self.scores.unary.shape[0]
        return np.array([[self.best({v: j}) for j in (0, 1)] for v in range(p)]).reshape(p, 2)

    def edges(self) -> np.ndarray:
        pairs = [[self.best({a: i, b: j}) for i in (0, 1) for j in (0, 1)] for a, b in self.scores.edges.tolist()]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2, 2)


def _labels(network: Network) -> np.ndarray | None:
    """Labels (p,) of a minimum cut, 1 on the side of the source; None if every labelling is forbidden."""
    flow = Flow(network)
    return flow.source_side().astype(np.int64) if flow.maximise() else None


class Cut(Structure):
    """Binary variables in a graph whose edges prefer equal labels.

    Parameters
    ----------
    unary : array (p, 2)
        Score of each label of each variable; -inf forbids it.
    pairwise : array (e, 2, 2)
        Score of each pair of labels of the first and second variable of an edge, with pairwise[e, 0, 0] +
        pairwise[e, 1, 1] >= pairwise[e, 0, 1] + pairwise[e, 1, 0] up to rounding; -inf forbids a pair of different
        labels.
    edges : int array (e, 2)
        The two different variables of each edge. An edge may occur twice.

    Raises
    ------
    ValueError, TypeError
        An edge that is not supermodular, edges out of range or from a variable to itself, inconsistent shapes, nan or
        +inf, -inf for a pair of equal labels, dtypes other than float32 and float64 (integers and booleans become
        float64), arrays of different namespaces or devices. If ``augment`` makes an edge non-supermodular, the methods
        of the result raise ValueError.

    Examples
    --------
    >>> cut = Cut([[0.0, 3.0], [1.0, 0.0]], [[[0.0, -2.0], [-2.0, 0.0]]], [[0, 1]])
    >>> value, labels = cut.best()
    >>> float(value), labels.tolist()
    (3.0, [1, 1])
    """

    ops = sys.modules[__name__]
    scores: CutScores
    axes = ("variables", "labels")
    variables = "unary"
    intractable = {
        "expectation": "the log-partition function of supermodular scores is #P-complete to compute "
        "(Pillutla et al., Proposition 14 (iii), after Jerrum and Sinclair, 1993)"
    }

    def __init__(self, unary: Any, pairwise: Any, edges: Any) -> None:
        unary, pairwise = arrays.floats(unary=unary, pairwise=pairwise)
        if unary.ndim != 2 or unary.shape[1] != 2:
            raise ValueError(f"unary: expected shape (p, 2), got {tuple(unary.shape)}")
        edges = checked_edges(edges, unary, pairwise)
        arrays.refuse_nan_and_inf("unary", unary)
        arrays.refuse_nan_and_inf("pairwise", pairwise)
        super().__init__(CutScores(unary, pairwise, edges))
        refuse_unfit_edges(self.scores)

    def best(self) -> tuple[Array, Array]:
        """Highest score () and best labels (p,); see :func:`minimum_cut`. Raises InfeasibleError."""
        value, labels = self.ops.minimum_cut(self.scores)
        return self.ops.feasible(value, "best"), labels

    def topk(self, k: int) -> KBest:
        """The k best labellings, padded (:class:`KBest`) if fewer are possible; see :func:`bmmf`.

        Does not raise InfeasibleError: the count is 0 if every labelling is forbidden.
        """
        return bmmf(self, k)

    def max_marginals(self) -> CutScores:
        """The highest score of a labelling with each part; see :func:`max_marginals`. -inf if there is none."""
        values: CutScores = self.ops.max_marginals(self.scores)
        return values

    def node_max_marginals(self) -> Array:
        """The max-marginals (p, 2) of the variables only; see :func:`node_max_marginals`."""
        return self.ops.node_max_marginals(self.scores)

    def score(self, y: Any) -> Array:
        """Score () of labels (p,)."""
        return self.ops.score(self.scores, self._checked(y))

    def parts(self, y: Any) -> CutScores:
        """Indicator of the parts of labels (p,), shaped like the scores.

        -1 at every variable means no labelling and has no parts. Raises ValueError.
        """
        y = arrays.integers("y", y, Place.of(self.scores.unary))
        is_none = np.all(host(y) == -1) and tuple(y.shape) == (self.scores.unary.shape[0],)
        return self._parts(y if is_none else self._checked(y))

    def expected_parts(self, outputs: Array, weights: Array) -> CutScores:
        """sum_k weights[k] parts(outputs[k, :]) of labels (k, p); labels of -1 have no parts."""
        parts = self._parts(outputs)
        xp = array_namespace(weights)
        return CutScores(
            xp.sum(parts.unary * weights[:, None, None], axis=0),
            xp.sum(parts.pairwise * weights[:, None, None, None], axis=0),
            self.scores.edges,
        )

    def count(self) -> int:
        """The number of labellings that are not forbidden, as a Python int.

        Raises IntractableError if forbidden pairs link more than 20 variables: counting the closed sets of a partial
        order is #P-complete (Provan and Ball, 1983).
        """
        unary, pairwise, edges = self._on_host()
        linked = np.unique(edges[np.any(pairwise == -np.inf, axis=(1, 2))])
        if len(linked) > 20:
            raise IntractableError(
                f"count: forbidden pairs link {len(linked)} variables; counting the other labellings is #P-complete"
            )
        free = np.ones(len(unary), dtype=bool)
        free[linked] = False
        ways = 1
        for states in np.sum(unary[free] > -np.inf, axis=1).tolist():
            ways *= states
        inner = np.flatnonzero(np.isin(edges, linked).all(axis=1))
        small = CutScores(unary[linked], pairwise[inner], np.searchsorted(linked, edges[inner]))
        return ways * sum(1 for _ in type(self).unchecked(small).enumerate())

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every labelling that is not forbidden, in lexicographic order, as tuples."""
        unary, pairwise, edges = self._on_host()
        for y in itertools.product((0, 1), repeat=len(unary)):
            if all(unary[v, j] > -np.inf for v, j in enumerate(y)) and all(
                pairwise[e, y[a], y[b]] > -np.inf for e, (a, b) in enumerate(edges)
            ):
                yield y

    def _parts(self, y: Array) -> CutScores:
        """Indicators (..., p, 2) and (..., e, 2, 2) of labels (..., p)."""
        unary, edges = self.scores.unary, self.scores.edges
        xp, place = array_namespace(unary), Place.of(unary)
        indicator = one_hot(xp, y, 2, unary.dtype)
        ends = [xp.take(indicator, place.integers(edges[:, i]), axis=indicator.ndim - 2) for i in (0, 1)]
        return CutScores(indicator, ends[0][..., :, None] * ends[1][..., None, :], edges)

    def _checked(self, y: Any) -> Array:
        p = self.scores.unary.shape[0]
        y = arrays.integers("y", y, Place.of(self.scores.unary))
        on_host = host(y)
        if tuple(y.shape) != (p,) or (p and not 0 <= on_host.min() <= on_host.max() <= 1):
            raise ValueError(f"y: expected {p} labels of 0 or 1, got {on_host.tolist()}")
        return y

    def _on_host(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return host(self.scores.unary), host(self.scores.pairwise), self.scores.edges
