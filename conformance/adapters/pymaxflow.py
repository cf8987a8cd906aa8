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
        self.network = Network.of(CutScores(unary, pairwise, edges))

    def best(self):
        import maxflow

        network = self.network
        if network is None or np.any(np.isinf(network.terminal)) or np.any(np.isinf(network.capacity)):
            raise NotOffered("capacities are finite: `maxflow` does not end on infinite ones from source to sink")
        graph = maxflow.GraphFloat(len(network.terminal), len(network.edges))
        nodes = graph.add_nodes(len(network.terminal)).tolist()
        for v, capacity in zip(nodes, network.terminal.tolist(), strict=True):
            graph.add_tedge(v, max(capacity, 0.0), max(-capacity, 0.0))
        for (a, b), capacities in zip(network.edges.tolist(), network.capacity.tolist(), strict=True):
            graph.add_edge(nodes[a], nodes[b], *capacities)
        value = self.zeros + np.maximum(network.terminal, 0.0).sum() - graph.maxflow()
        return value, np.array([1 - graph.get_segment(v) for v in nodes])
