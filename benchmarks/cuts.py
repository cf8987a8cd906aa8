"""Minimum cuts of 4-connected grids with random submodular energies, beside PyMaxflow where it is installed; and
max-marginals.

Both sides start from NumPy arrays of scores and end with labels. ``python docs/figures.py cuts`` prints
`figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import accelerated
from diptych.experiments.clock import best_of

COUPLINGS = {"weak": 0.5, "strong": 2.0}
SIZES = [128, 256]


def grid(n: int, coupling: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """unary (n^2, 2): Gaussian; pairwise (e, 2, 2): coupling times a uniform number for equal labels; edges (e, 2)."""
    rng, edges = np.random.default_rng(0), accelerated.grid_edges(n, n)
    unary, pairwise = rng.normal(size=(n * n, 2)), np.zeros((len(edges), 2, 2))
    pairwise[:, 0, 0] = pairwise[:, 1, 1] = 2 * coupling * rng.random(len(edges))
    return unary, pairwise, edges


def by_pymaxflow(unary: np.ndarray, pairwise: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The labels by PyMaxflow. Raises ImportError if it is not installed."""
    import maxflow

    graph, nodes = maxflow.Graph[float](len(unary), len(edges)), np.arange(len(unary))
    graph.add_nodes(len(unary))
    weight = 0.5 * (pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0])
    graph.add_edges(edges[:, 0], edges[:, 1], weight, weight)
    net = unary[:, 1] - unary[:, 0]
    graph.add_grid_tedges(nodes, np.maximum(net, 0.0), np.maximum(-net, 0.0))
    graph.maxflow()
    return 1 - graph.get_grid_segments(nodes).astype(np.int64)


class MinimumCut:
    """Seconds for one grid."""

    params = ([*COUPLINGS], SIZES)
    param_names = ("coupling", "side")

    def setup(self, coupling: str, n: int) -> None:
        self.scores = grid(n, COUPLINGS[coupling])
        self.cut = accelerated.Cut(*self.scores)
        self.cut.best()

    def time_best(self, coupling: str, n: int) -> None:
        self.cut.best()

    def peakmem_best(self, coupling: str, n: int) -> None:
        self.cut.best()


class MinimumCutByPyMaxflow:
    """Seconds for one grid, where PyMaxflow is installed."""

    params = ([*COUPLINGS], SIZES)
    param_names = ("coupling", "side")

    def setup(self, coupling: str, n: int) -> None:
        try:
            import maxflow  # noqa: F401
        except ImportError:
            raise NotImplementedError("PyMaxflow is not installed") from None  # tells asv to skip; only in a setup
        self.scores = grid(n, COUPLINGS[coupling])

    def time_minimum_cut(self, coupling: str, n: int) -> None:
        by_pymaxflow(*self.scores)


class MaxMarginals:
    """Seconds for max-marginals of all labels of a 32 x 32 grid, and of its edges, too."""

    params = [*COUPLINGS]
    param_names = ("coupling",)
    timeout = 300

    def setup(self, coupling: str) -> None:
        self.cut = accelerated.Cut(*grid(32, COUPLINGS[coupling]))
        self.cut.node_max_marginals()

    def time_nodes(self, coupling: str) -> None:
        self.cut.node_max_marginals()

    def time_nodes_and_edges(self, coupling: str) -> None:
        self.cut.max_marginals()


def figures() -> Iterator[tuple[str, float, str, float | None, bool]]:
    """Name, value, unit and target of each figure, and whether the target is a lower bound."""
    for name, coupling in COUPLINGS.items():
        for n in SIZES:
            scores = grid(n, coupling)
            cut = accelerated.Cut(*scores)
            ours = best_of(cut.best)
            yield f"minimum cut, {n} x {n}, {name} coupling", ours * 1e3, "ms", None, False
            theirs = _if_installed(lambda s=scores: by_pymaxflow(*s))
            if theirs is not None:
                assert np.isclose(float(cut.score(by_pymaxflow(*scores))), float(cut.best()[0]), rtol=1e-12)
                yield f"minimum cut, {n} x {n}, {name} coupling, PyMaxflow", theirs * 1e3, "ms", None, False
                yield f"minimum cut / PyMaxflow, {n} x {n}, {name} coupling", ours / theirs, "ratio", 1.8, False
        cut = accelerated.Cut(*grid(32, coupling))
        cold, warm = best_of(cut.best), best_of(cut.node_max_marginals, 5)
        yield f"all label max-marginals, 32 x 32, {name} coupling", warm * 1e3, "ms", None, False
        yield (
            f"2p cold cuts / all label max-marginals, 32 x 32, {name} coupling",
            2048 * cold / warm,
            "times",
            25.0,
            True,
        )
        yield (
            f"with the max-marginals of edges, 32 x 32, {name} coupling",
            best_of(cut.max_marginals, 3) * 1e3,
            "ms",
            None,
            False,
        )


def _if_installed(run: Callable[[], Any]) -> float | None:
    try:
        return best_of(run)
    except ImportError:
        return None
