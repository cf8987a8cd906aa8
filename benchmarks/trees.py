"""Tree oracles, one tree of 1,000 nodes: random recursive, a path, a star; and the work of merging siblings."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from accelerated.threads import set_num_threads
from benchmarks import problems
from diptych.experiments.clock import best_of
from reference.structures import tree_k_best

SHAPES = ["random", "path", "star"]
P, L = 1000, 10


@functools.cache
def parents(shape: str, p: int = P) -> np.ndarray:
    """Parents (p,) of a tree of the given shape, numbered from the root."""
    rng = np.random.default_rng(0)
    of = {"random": [int(rng.integers(v)) for v in range(1, p)], "path": range(p - 1), "star": [0] * (p - 1)}
    return np.array([-1, *of[shape]])


def tree(panel: str, shape: str, shared: bool = True, p: int = P) -> Any:
    """A tree of Gaussian scores as the panel's structure."""
    rng = np.random.default_rng(1)
    return importlib.import_module(panel).Tree(
        rng.normal(size=(p, L)), rng.normal(size=(L, L) if shared else (p, L, L)), parents(shape, p)
    )


class Oracles:
    """Seconds for one tree; separate pairwise scores for each node are four times as much memory to read."""

    params = (problems.PANELS, SHAPES, [True, False])
    param_names = ("panel", "shape", "shared")

    def setup(self, panel, shape, shared):
        set_num_threads(1)
        self.tree = tree(panel, shape, shared)
        self.tree.best()
        self.tree.expectation()
        self.tree.max_marginals()

    def time_max_product(self, panel, shape, shared):
        self.tree.best()

    def time_sum_product(self, panel, shape, shared):
        self.tree.expectation()

    def time_sample(self, panel, shape, shared):
        self.tree.sample(1, rng=0)

    def time_max_marginals(self, panel, shape, shared):
        self.tree.max_marginals()


class TopK:
    """Seconds and memory for the k best; k = 1 is the baseline."""

    params = (problems.PANELS, SHAPES, [1, 5, 10])
    param_names = ("panel", "shape", "k")
    timeout = 300

    def setup(self, panel, shape, k):
        set_num_threads(1)
        self.tree = tree(panel, shape)
        self.tree.topk(k)

    def time_top_k(self, panel, shape, k):
        self.tree.topk(k)

    def peakmem_top_k(self, panel, shape, k):
        self.tree.topk(k)


class Candidates:
    """Pairs of ranks that Algorithm 8 compares at a root with this many leaves, 10 labels, 10 best."""

    params = [16, 256]
    param_names = ("leaves",)
    unit = "pairs"

    def track_merged_candidates(self, leaves):
        sizes, merge = [], tree_k_best._merged

        def counted(place, a, b, k):
            best, merged = merge(place, a, b, k)
            sizes.append(L * len(merged.i))
            return best, merged

        tree_k_best._merged = counted
        try:
            tree("reference", "star", p=leaves + 1).topk(10)
        finally:
            tree_k_best._merged = merge
        return sum(sizes)


def figures() -> list[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: times of the fast panel, and their ratios to its best labelling."""
    rows: list[tuple[str, float, str, float | None]] = []
    for shape in SHAPES:
        for shared in (True, False):
            one, what = (
                tree("accelerated", shape, shared),
                f"p={P}, L={L}, {shape}{'' if shared else ', a matrix a node'}",
            )
            best = best_of(one.best, 60)
            rows.append((f"tree max-product, {what}", best * 1e6, "us", None))
            rows.append((f"tree sum-product / max-product, {what}", best_of(one.expectation, 60) / best, "ratio", None))
            for k, most in ((5, 8.0), (10, None), (20, None)):
                rows.append(
                    (
                        f"tree top-{k} / max-product, {what}",
                        best_of(lambda t=one, k=k: t.topk(k), 40) / best,
                        "ratio",
                        most,
                    )
                )
    return rows
