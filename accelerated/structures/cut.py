"""Binary variables whose neighbours prefer equal labels: minimum cuts by kernels; networkx as an oracle beside them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import reference.structures.cut as reference
from accelerated.arrays import are_sound, view
from accelerated.compiled.rows import within
from accelerated.compiled.structures.cut import SIDE, SOURCE, Search, augment_all, best_labels, new_search, start
from accelerated.compiled.structures.cut_marginals import all_margins, new_journal, node_margins, roving_margins
from accelerated.compiled.structures.cut_network import (
    BUILT,
    NO_LABEL,
    Graph,
    are_fit,
    build,
    forgone,
    new_graph,
    score_of_labels,
)
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from reference.arrays import Array, Place, host, refuse_nan_and_inf
from reference.structures.cut import Constrained, CutScores
from reference.structures.cut_network import Network, refuse_edge, rounding, within_floats

__all__ = ["Cut", "CutScores", "by_networkx", "max_marginals", "minimum_cut", "node_max_marginals", "score"]


EPS = float(np.finfo(np.float64).eps)
ROUNDING = 16 * EPS * 1e12  # what an amount in the network may lose, over what scores that are used may
FEW = 128  # variables
LARGE_UNIT = 2.0**128


class _Solved(NamedTuple):
    """The residual graph of a maximum flow, its search trees, labels (p,) of a minimum cut, their score, and the sum of
    all capacities. They and the scores (unary, pairwise, edges) are in units that keep sums from overflowing.
    """

    graph: Graph
    search: Search
    labels: np.ndarray
    score: float
    capacities: float
    scores: tuple[np.ndarray, np.ndarray, np.ndarray]
    unit: float

    def is_accurate(self, values: Any) -> Any:
        """Whether these best scores, under constraints, are within 1e-12 of the sum of absolute scores that they
        use.
        """
        accurate = ROUNDING * (self.capacities + self.score - values) <= np.abs(values)
        if np.all(accurate):
            return accurate
        lost, least = ROUNDING * (forgone(*self.scores, self.labels) + self.score - values), 0.0
        if len(self.labels) > FEW:  # of many labels, a best score near 0 is a matter of chance
            unary = self.scores[0][np.isfinite(self.scores[0]).all(axis=1)]
            sizes = np.abs(unary[:, 1] - unary[:, 0])
            least = np.count_nonzero(sizes) * np.median(sizes[sizes > 0]) if np.any(sizes) else 0.0
        return lost <= np.maximum(np.abs(values), least)


def _arrays(scores: CutScores) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """unary, pairwise, edges, and the rounding of the scores, relative."""
    unary, pairwise = (view("scores", host(x)) for x in (scores.unary, scores.pairwise))
    edges = view("edges", scores.edges, np.int64)
    if len(edges) != len(pairwise) or not within(edges.reshape(-1), 0, len(unary) - 1):
        raise ValueError(
            f"edges: expected {len(pairwise)} pairs of variables in 0..{len(unary) - 1}, got {edges.tolist()[:9]}"
        )
    return unary, pairwise, edges, EPS if pairwise is scores.pairwise else rounding(scores)


def _solved(scores: CutScores) -> _Solved | None:
    """A maximum flow; None if every labelling is forbidden."""
    return _solved_in(1.0, scores, *_arrays(scores))


def _solved_in(
    unit: float, scores: CutScores, unary: np.ndarray, pairwise: np.ndarray, edges: np.ndarray, eps: float
) -> _Solved | None:
    """The same in this unit, or in a larger one if sums overflow."""
    graph, search = new_graph.py_func(len(unary), len(edges)), new_search.py_func(len(unary))
    answer, capacities = build(unary, pairwise, edges, eps, graph)
    if answer > BUILT:
        refuse_edge(scores, answer)
    if answer == NO_LABEL:
        return None
    if answer == BUILT:
        start(graph, search)
        if augment_all(graph, search, None) == np.inf:
            return None
        labels = (search.node[:, SIDE] == SOURCE).astype(np.int64)
        score, _ = score_of_labels(unary, pairwise, edges, labels)
        if abs(score) < np.inf:
            return _Solved(graph, search, labels, score, capacities, (unary, pairwise, edges), unit)
    refuse_nan_and_inf("unary", unary)
    refuse_nan_and_inf("pairwise", pairwise)
    return _solved_in(LARGE_UNIT, scores, unary / LARGE_UNIT, pairwise / LARGE_UNIT, edges, eps)


@mirrors(reference.minimum_cut)
def minimum_cut(scores: CutScores) -> tuple[Array, Array]:
    unary, pairwise, edges, eps = _arrays(scores)
    if unary is scores.unary:
        labels = np.empty(len(unary), np.int64)
        answer, capacities, value, size = best_labels(unary, pairwise, edges, eps, labels)
        # the first check of is_accurate, and that of score
        if answer == BUILT and max(ROUNDING * capacities, 2.0**-20 * size) <= abs(value) < np.inf and size < np.inf:
            return np.asarray(value), labels
    solved = _solved(scores)
    if solved is None or solved.is_accurate(solved.score):
        return _answer(scores, None if solved is None else solved.labels)
    return _answer(scores, Constrained(scores).labels)


@mirrors(reference.score)
def score(scores: CutScores, labels: Array) -> Array:
    unary, pairwise, edges = scores
    floats = type(unary) is type(pairwise) is np.ndarray and unary.dtype == pairwise.dtype == np.float64
    if not (floats and type(labels) is np.ndarray and labels.dtype == np.int64 and labels.shape == unary.shape[:1]):
        return reference.score(scores, labels)
    edges = view("edges", edges, np.int64)
    if len(edges) != len(pairwise) or not within(edges.ravel(), 0, len(labels) - 1):
        return reference.score(scores, labels)
    total, size = score_of_labels(view("unary", unary), view("pairwise", pairwise), edges, view("y", labels, None))
    return reference.score(scores, labels) if size == np.inf or abs(total) < 2.0**-20 * size else np.asarray(total)


@mirrors(reference.node_max_marginals)
def node_max_marginals(scores: CutScores) -> Array:
    solved = _solved(scores)
    nodes = np.full((scores.unary.shape[0], 2), -np.inf)
    if solved is None:
        return within_floats(nodes, scores)
    graph, search, _, score, *_ = solved
    largest = max(graph.residual.max(initial=0.0), np.abs(graph.terminal).max(initial=0.0))
    if len(nodes) > FEW and ROUNDING * largest <= abs(score):
        roving_margins(score, graph, search, nodes)
    else:
        node_margins(score, graph, search, new_journal(len(nodes), len(scores.edges)), nodes)
    return within_floats(_exact(scores, solved, nodes), scores, solved.unit)


@mirrors(reference.max_marginals)
def max_marginals(scores: CutScores) -> CutScores:
    solved = _solved(scores)
    nodes, pairs = np.full((scores.unary.shape[0], 2), -np.inf), np.full((len(scores.edges), 2, 2), -np.inf)
    unit = 1.0 if solved is None else solved.unit
    if solved is not None:
        journal = new_journal(len(nodes), len(pairs))
        all_margins(solved.score, solved.graph, solved.search, journal, nodes, pairs)
        _exact(scores, solved, nodes)
        _exact(scores, solved, pairs)
    return CutScores(within_floats(nodes, scores, unit), within_floats(pairs, scores, unit), scores.edges)


def _exact(scores: CutScores, solved: _Solved, values: np.ndarray) -> np.ndarray:
    """Max-marginals of nodes (p, 2) or pairs (e, 2, 2), those that are not accurate replaced by cuts of their own."""
    wrong = ~(solved.is_accurate(values) | np.isneginf(values))
    if np.any(wrong):
        constrained = Constrained(scores)
        for i, *labels in np.argwhere(wrong).tolist():
            variables = [i] if values.ndim == 2 else scores.edges[i].tolist()
            values[i, *labels] = constrained.best(dict(zip(variables, labels, strict=True))) / solved.unit
    return values


def by_networkx(scores: CutScores) -> tuple[Array, Array]:
    """The highest score and a best labelling by networkx's maximum flow: an ``oracle`` for models, of either panel.

    Parameters
    ----------
    scores : CutScores
        Of any namespace and device; the flow is found on the host.

    Returns
    -------
    value : array ()
        The score of the labels, summed anew; -inf where every labelling is forbidden.
    labels : int64 array (p,)
        -1 where every labelling is forbidden.

    Raises
    ------
    ValueError
        An edge that is not supermodular, by name.

    Notes
    -----
    The nodes that the source still reaches get label 1: of all best labellings the one with the fewest ones. The flow
    is found by augmenting paths. Preflows, which networkx's ``minimum_cut`` uses, fail on float capacities: an excess
    left by rounding is raised beyond the highest level. Paths end when arcs of flow < capacity no longer reach the
    sink, whatever the rounding: there is no tolerance.

    Source
    ------
    Pillutla et al., Algorithm 11 and Theorem 47, *corrected*; Edmonds and Karp (1972), as implemented in networkx.

    Examples
    --------
    >>> from accelerated import SegmentationModel, StructuralHinge, bcfw, grid_edges
    >>> model, edges = SegmentationModel(1, 1, oracle=by_networkx), grid_edges(1, 4)
    >>> seen = np.array([[1.0], [-0.5], [1.0], [-1.0]])  # a feature of each node
    >>> data = model.pack([(seen, edges, np.ones((3, 1)))], [[1, 1, 1, 0]])
    >>> w = bcfw(StructuralHinge(model, data), lam=0.1, rng=0).x
    >>> model.predict(data, None, w)[0].tolist()
    [1, 1, 1, 0]
    """
    return _answer(scores, _networkx_labels(scores))


def _answer(scores: CutScores, labels: np.ndarray | None) -> tuple[Array, Array]:
    """The score of labels (p,) and the labels, in the namespace and on the device of the scores. None: every labelling
    is forbidden.
    """
    if labels is not None and type(scores.unary) is np.ndarray:
        return score(scores, labels), labels
    place = Place.of(scores.unary)
    if labels is None:
        return place.floats(-np.inf), place.integers(np.full(scores.unary.shape[0], -1))
    return score(scores, labels), place.integers(labels)


def _networkx_labels(scores: CutScores) -> np.ndarray | None:
    """Labels (p,): 1 where the source reaches in the residual network of a maximum flow; None if all labellings are
    forbidden.
    """
    import networkx

    network = Network.of(scores)
    if network is None:
        return None
    graph, p = networkx.DiGraph(), len(network.terminal)
    graph.add_nodes_from(range(p + 2))  # the source is p, the sink p + 1
    arcs = [(a, b, c) for (a, b), (c, _) in zip(network.edges.tolist(), network.capacity.tolist(), strict=True)]
    arcs += [(b, a, c) for (a, b), (_, c) in zip(network.edges.tolist(), network.capacity.tolist(), strict=True)]
    arcs += [(p, v, c) if c > 0 else (v, p + 1, -c) for v, c in enumerate(network.terminal.tolist())]
    for a, b, capacity in arcs:
        if capacity > 0:
            parallel = graph[a][b]["capacity"] if graph.has_edge(a, b) else 0
            graph.add_edge(a, b, capacity=parallel + capacity)
    residual = networkx.algorithms.flow.shortest_augmenting_path(graph, p, p + 1)
    if residual.graph["flow_value"] >= network.forbidding:
        return None
    labels, waiting = np.zeros(p + 2, np.int64), [p]
    while waiting:
        v = waiting.pop()
        labels[v] = 1
        for u, arc in residual[v].items():
            if labels[u] == 0 and arc["flow"] < arc["capacity"]:
                waiting.append(u)
    return labels[:p]


class Cut(reference.Cut):
    ops = sys.modules[__name__]

    def __init__(self, unary: Any, pairwise: Any, edges: Any) -> None:
        if are_sound(unary, pairwise) and unary.ndim == 2 and unary.shape[1] == 2 and type(edges) is np.ndarray:
            p, e = len(unary), len(pairwise)
            whole = edges.dtype == np.int64 and edges.shape == (e, 2) and pairwise.shape == (e, 2, 2)
            if whole and are_fit(pairwise, view("edges", edges, np.int64), p, EPS):
                self.scores = CutScores(unary, pairwise, edges.copy())
                return
        super().__init__(unary, pairwise, edges)
