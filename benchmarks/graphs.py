"""Structures of graphs, one of each: clique trees, Best Max-Marginal First over graphs, cuts and matchings. K = 5."""

from __future__ import annotations

from accelerated.threads import set_num_threads
from diptych.experiments.table2 import STRUCTURES, K, counted, graph


class Oracles:
    """Seconds for one structure, one core."""

    params = list(STRUCTURES)
    param_names = ("structure",)

    def setup(self, structure):
        set_num_threads(1)
        self.structure = STRUCTURES[structure]()
        self.structure.topk(2)

    def time_best(self, structure):
        self.structure.best()

    def time_node_max_marginals(self, structure):
        self.structure.node_max_marginals()

    def time_top_5(self, structure):
        self.structure.topk(K)


class Exp:
    """Seconds for log-partition and marginals, and for 10 samples."""

    def setup(self):
        self.graph = graph()
        self.graph.expectation()

    def time_clique_tree(self):
        self.graph.expectation()

    def time_sample(self):
        self.graph.sample(10, rng=0)


class Sets:
    """The number of sets of max-marginals for the K = 5 best, which Theorem 46 bounds by 2 K."""

    params = list(STRUCTURES)
    param_names = ("structure",)
    unit = "sets"

    def track_sets_of_max_marginals(self, structure):
        return counted(STRUCTURES[structure]())["sets of max-marginals"]
