"""PyMaxflow: the best labels of binary variables by a minimum cut of Boykov and Kolmogorov."""

from __future__ import annotations

import numpy as np

from conformance.adapters import NotOffered
from reference import CutScores
from reference.structures.cut_network import Network

PACKAGE, MODULE = "PyMaxflow", "maxflow"
MAPPING = {
    "Cut": "`GraphFloat` with the terminal and pairwise capacities of our network; the labels are `get_segment`. "
    "Forbidden parts would be infinite capacities."
}
KNOWN: dict[str, str] = {}


class Cut:
    def __init__(self, unary, pairwise, edges):
        self.zeros = unary[:, 0].sum() + pairwise[:, 0, 0].sum()  # the score of labels 0
        self.edges, network = edges, Network.of(CutScores(unary, pairwise, edges))
        self.network = None if network is None else network.in_floats()

    def best(self):
        import maxflow

        if self.network is None or not all(np.all(np.isfinite(x)) for x in self.network):
            raise NotOffered("capacities are finite: `maxflow` does not end on infinite ones from source to sink")
        terminal, capacity = self.network
        graph = maxflow.GraphFloat(len(terminal), len(capacity))
        nodes = graph.add_nodes(len(terminal)).tolist()
        for v, t in zip(nodes, terminal.tolist(), strict=True):
            graph.add_tedge(v, max(t, 0.0), max(-t, 0.0))
        for (a, b), capacities in zip(self.edges.tolist(), capacity.tolist(), strict=True):
            graph.add_edge(nodes[a], nodes[b], *capacities)
        value = self.zeros + np.maximum(terminal, 0.0).sum() - graph.maxflow()
        return value, np.array([1 - graph.get_segment(v) for v in nodes])
