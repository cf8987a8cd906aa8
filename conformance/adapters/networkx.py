"""networkx: dependency trees by its arborescences, minimum cuts and matchings."""

from __future__ import annotations

import itertools

import numpy as np

from reference import CutScores, KBest
from reference.structures.cut_network import Network

PACKAGE, MODULE = "networkx", "networkx"
MAPPING = {
    "Arborescence": "a `DiGraph` with an edge for each arc that is not forbidden, none into the root: "
    "`maximum_spanning_arborescence`; `ArborescenceIterator(minimum=False)` for the K best.",
    "Cut": "`minimum_cut` with float capacities, no `capacity` where it is infinite; the labels are its partition.",
    "Matching": "`max_weight_matching(maxcardinality=True)` of the bipartite graph of pairs that are not forbidden.",
}
KNOWN = {
    "Arborescence.best, forbidden parts": "A graph with the one arborescence 0 -> 1 -> 2 -> 3 of weight 0 and edges "
    "2 -> 1 and 3 -> 2 of weight 1: `No maximum spanning arborescence in G`.",
    "Arborescence.topk, forbidden parts|Arborescence.topk, more than there are": "`ArborescenceIterator` leaves out "
    "arborescences, or raises `No maximum spanning arborescence in G`: of five in the graph with edges 2 -> 1 (0), "
    "3 -> 1 (1), 0 -> 2 (0), 3 -> 2 (3), 0 -> 3 (0), 1 -> 3 (0), added in this order after nodes 0 to 3, that of edges "
    "0 -> 2, 2 -> 1, 1 -> 3 does not come.",
}


class Arborescence:
    def __init__(self, values):
        import networkx

        self.values, self.graph = values, networkx.DiGraph()
        self.graph.add_nodes_from(range(len(values) + 1))
        arcs = np.argwhere(values > -np.inf).tolist()
        self.graph.add_weighted_edges_from((h, m + 1, float(values[m, h])) for m, h in arcs if h != m + 1)

    def heads(self, tree):
        heads = np.full(len(self.values), -1)
        for h, m in tree.edges:
            heads[m - 1] = h
        return heads

    def best(self):
        import networkx

        return None, self.heads(networkx.maximum_spanning_arborescence(self.graph))

    def topk(self, k):
        from networkx.algorithms.tree.branchings import ArborescenceIterator

        trees = itertools.islice(ArborescenceIterator(self.graph, minimum=False), k)
        found = [self.heads(tree) for tree in trees]
        scores = [self.values[range(len(heads)), heads].sum() for heads in found]
        return KBest(scores, found, len(found))


class Cut:
    def __init__(self, unary, pairwise, edges):
        self.zeros = unary[:, 0].sum() + pairwise[:, 0, 0].sum()  # the score of labels 0
        self.edges, network = edges, Network.of(CutScores(unary, pairwise, edges))
        self.network = None if network is None else network.in_floats()

    def best(self):
        import networkx

        if self.network is None:
            raise ValueError("a variable without labels")
        terminal, capacity = self.network
        graph, p = networkx.DiGraph(), len(terminal)
        graph.add_nodes_from(range(p + 2))  # the source is p, the sink p + 1
        for (a, b), (forth, back) in zip(self.edges.tolist(), capacity.tolist(), strict=True):
            self.add(graph, a, b, forth)
            self.add(graph, b, a, back)
        for v, t in enumerate(terminal.tolist()):
            self.add(graph, *((p, v) if t > 0 else (v, p + 1)), abs(t))
        cost, (ones, _) = networkx.minimum_cut(graph, p, p + 1)
        value = self.zeros + np.maximum(terminal, 0.0).sum() - cost
        return value if np.isfinite(value) else None, np.array([int(v in ones) for v in range(p)])

    def add(self, graph, a, b, capacity):
        together = graph.get_edge_data(a, b, {"capacity": 0.0}).get("capacity", np.inf) + capacity
        if together == np.inf:
            graph.add_edge(a, b)
            graph[a][b].pop("capacity", None)
        else:
            graph.add_edge(a, b, capacity=together)


class Matching:
    def __init__(self, values):
        self.values = values

    def best(self):
        import networkx

        p, q = self.values.shape
        graph = networkx.Graph()
        graph.add_nodes_from(range(p + q))
        pairs = np.argwhere(self.values > -np.inf).tolist()
        graph.add_weighted_edges_from((i, p + j, float(self.values[i, j])) for i, j in pairs)
        y = np.full(p, -1)
        for pair in networkx.max_weight_matching(graph, maxcardinality=True):
            y[min(pair)] = max(pair) - p
        if np.sum(y >= 0) < min(p, q):
            return -np.inf, y
        return None, y
