"""Binary variables whose neighbours prefer equal labels: minimum cuts by kernels; networkx as an oracle beside them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import reference.structures.cut as reference
from accelerated.arrays import are_sound, view, within
from accelerated.compiled.structures.cut import SIDE, SOURCE, Search, augment_all, new_search, start
from accelerated.compiled.structures.cut_marginals import all_margins, new_journal, node_margins, roving_margins
from accelerated.compiled.structures.cut_network import (
    BUILT,
    NO_LABEL,
    Graph,
    are_fit,
    build,
    new_graph,
    score_of_labels,
)
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible
from reference.arrays import Array, Place, host
from reference.structures.cut import CutScores
from reference.structures.cut_network import Network, refuse_edge, rounding

__all__ = ["Cut", "CutScores", "by_networkx", "max_marginals", "minimum_cut", "node_max_marginals", "score"]


EPS = float(np.finfo(np.float64).eps)


def _solved(scores: CutScores) -> tuple[Graph, Search] | None:
    """The residual graph of a maximum flow and its search trees; None if every labelling is forbidden."""
    unary, pairwise = (view("scores", host(x)) for x in (scores.unary, scores.pairwise))
    edges = view("edges", scores.edges, np.int64)
    if len(edges) != len(pairwise) or not within(edges.reshape(-1), 0, len(unary) - 1):
        raise ValueError(
            f"edges: expected {len(pairwise)} pairs of variables in 0..{len(unary) - 1}, got {edges.tolist()[:9]}"
        )
    graph = new_graph.py_func(len(unary), len(edges))
    answer = build(unary, pairwise, edges, EPS if pairwise is scores.pairwise else rounding(scores), graph)
    if answer > BUILT:
        refuse_edge(scores, answer)
    if answer == NO_LABEL:
        return None
    search = new_search.py_func(len(unary))
    start(graph, search)
    return None if augment_all(graph, search, None) == np.inf else (graph, search)


@mirrors(reference.minimum_cut)
def minimum_cut(scores: CutScores) -> tuple[Array, Array]:
    solved = _solved(scores)
    return _answer(scores, None if solved is None else (solved[1].node[:, SIDE] == SOURCE).astype(np.int64))


@mirrors(reference.score)
def score(scores: CutScores, labels: Array) -> Array:
    unary, pairwise, edges = scores
    floats = type(unary) is type(pairwise) is np.ndarray and unary.dtype == pairwise.dtype == np.float64
    if not (floats and type(labels) is np.ndarray and labels.dtype == np.int64 and labels.shape == unary.shape[:1]):
        return reference.score(scores, labels)
    edges = view("edges", edges, np.int64)
    if len(edges) != len(pairwise) or not within(edges.ravel(), 0, len(labels) - 1):
        return reference.score(scores, labels)
    return np.asarray(score_of_labels(view("unary", unary), view("pairwise", pairwise), edges, view("y", labels, None)))


@mirrors(reference.node_max_marginals)
def node_max_marginals(scores: CutScores) -> Array:
    solved = _solved(scores)
    nodes = np.full((scores.unary.shape[0], 2), -np.inf)
    if solved is not None and np.all(solved[0].residual < np.inf) and np.all(np.abs(solved[0].terminal) < np.inf):
        roving_margins(_value(scores, solved), *solved, nodes)
    elif solved is not None:
        node_margins(_value(scores, solved), *solved, new_journal(len(nodes), len(scores.edges)), nodes)
    return Place.of(scores.unary).floats(nodes)


@mirrors(reference.max_marginals)
def max_marginals(scores: CutScores) -> CutScores:
    place, solved = Place.of(scores.unary), _solved(scores)
    nodes, pairs = np.full((scores.unary.shape[0], 2), -np.inf), np.full((len(scores.edges), 2, 2), -np.inf)
    if solved is not None:
        all_margins(_value(scores, solved), *solved, new_journal(len(nodes), len(pairs)), nodes, pairs)
    return CutScores(place.floats(nodes), place.floats(pairs), scores.edges)


def _value(scores: CutScores, solved: tuple[Graph, Search]) -> float:
    """The highest score, summed in float64."""
    in_double = scores._replace(unary=host(scores.unary).astype(np.float64), pairwise=host(scores.pairwise))
    return float(score(in_double, (solved[1].node[:, SIDE] == SOURCE).astype(np.int64)))


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
            parallel = graph[a][b]["capacity"] if graph.has_edge(a, b) else 0.0
            graph.add_edge(a, b, capacity=parallel + capacity)
    try:
        residual = networkx.algorithms.flow.shortest_augmenting_path(graph, p, p + 1)
    except networkx.NetworkXUnbounded:
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

    def best(self) -> tuple[Array, Array]:
        value, labels = self.ops.minimum_cut(self.scores)
        return feasible(value, "best"), labels
