"""Best dependency trees beside a C++ package, sums over all trees beside a determinant, one core.

``python docs/figures.py arborescences`` prints microseconds and ratios: `figures`. ufal.chu-liu-edmonds and
networkx are timed where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import accelerated
from diptych.experiments.clock import best_of, least_seconds

SIZES = [20, 40, 60]
KINDS = ["random", "planted"]
TREES = 10  # of each size and kind


def scores(kind: str, n: int, seed: int = 0) -> np.ndarray:
    """Normal scores (n, n + 1), the same in every run; planted: 5 more for the arcs of a random tree."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, n + 1))
    if kind == "planted":
        order = rng.permutation(n)
        for m in range(1, n):
            values[order[m], order[rng.integers(m)] + 1] += 5.0
        values[order[0], 0] += 5.0
    return values


def determinant(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-partition and inverse by the usual formula: no marginals yet, and no answer if exp overflows."""
    w = np.exp(values)
    np.fill_diagonal(w[:, 1:], 0.0)
    laplacian = np.diag(w.sum(axis=1)) - w[:, 1:]
    return np.linalg.slogdet(laplacian)[1], np.linalg.inv(laplacian)


def ufal_solver(values: np.ndarray) -> Callable[[], Any] | None:
    """A call of the C++ package on its kind of matrix, or None if it is not installed."""
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError:
        return None
    full = np.full((len(values) + 1, len(values) + 1), np.nan)
    full[1:] = values
    np.fill_diagonal(full, np.nan)
    return lambda: chu_liu_edmonds(full)


class Best:
    """Seconds for one best tree."""

    params = (KINDS, SIZES, [False, True])
    param_names = ("scores", "n", "single root")

    def setup(self, kind, n, single_root):
        self.trees = accelerated.Arborescence(scores(kind, n), single_root)
        self.trees.best()

    def time_best(self, kind, n, single_root):
        self.trees.best()


class Sums:
    """Seconds for a log-partition with all marginals, and for 50 samples: by weights, or logarithms if far apart."""

    params = (["Arborescence", "Projective"], [20, 40], [False, True], [1.0, 300.0])
    param_names = ("structure", "n", "single root", "scale")

    def setup(self, structure, n, single_root, scale):
        self.trees = getattr(accelerated, structure)(scale * scores("random", n), single_root)
        self.trees.expectation()

    def time_expectation(self, structure, n, single_root, scale):
        self.trees.expectation()

    def time_sample(self, structure, n, single_root, scale):
        self.trees.sample(50, rng=0)


class Others:
    """Seconds for the 5 best trees, and for all max-marginals, of 20 tokens."""

    def setup(self):
        self.trees = accelerated.Arborescence(scores("random", 20))
        self.time_top_k()
        self.time_max_marginals()

    def time_top_k(self):
        self.trees.topk(5)

    def time_max_marginals(self):
        self.trees.max_marginals()


def projective_figures(B: int = 32, n: int = 30) -> Iterator[tuple[str, float, str, float | None]]:
    """Processor time. Inside a chart are n (n + 1) (n + 2) / 2 additions; with marginals three times as many steps."""
    values = np.stack([scores("random", n, seed) for seed in range(B)])
    trees, steps = accelerated.Projective(values), B * n * (n + 1) * (n + 2) // 2
    ours = {"argmax": least_seconds(trees.best, 20), "marginals": least_seconds(trees.expectation, 20)}
    yield f"best projective tree, n={n}, {B} at a time", 1e6 * ours["argmax"] / B, "us", None
    yield f"best projective tree, n={n}", 1e9 * ours["argmax"] / steps, "ns an addition", None
    yield f"marginals of projective trees, n={n}, {B} at a time", 1e6 * ours["marginals"] / B, "us", None
    yield f"marginals of projective trees, n={n}", 1e9 * ours["marginals"] / (3 * steps), "ns a step", None
    try:
        import torch
        from torch_struct import DependencyCRF
    except ImportError:
        return
    torch.set_num_threads(1)
    arcs = torch.from_numpy(np.swapaxes(values[..., 1:], -1, -2).copy())
    arcs.diagonal(dim1=-2, dim2=-1).copy_(torch.from_numpy(values[..., 0]))
    for question, seconds in ours.items():
        theirs = least_seconds(
            lambda q=question: getattr(DependencyCRF(arcs.clone().requires_grad_(True), None, {}), q)
        )
        yield f"projective trees / torch-struct, {question}, n={n}", seconds / theirs, "ratio", 0.1


def mean_of(calls: list[Callable[[], Any]], repeat: int = 200) -> float:
    """The mean, over instances, of the best time of each, in microseconds."""
    return 1e6 * float(np.mean([best_of(call, repeat) for call in calls]))


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    for kind in KINDS:
        for n in SIZES:
            instances = [scores(kind, n, seed) for seed in range(TREES)]
            ours = mean_of([accelerated.Arborescence(v).best for v in instances])
            single = mean_of([accelerated.Arborescence(v, single_root=True).best for v in instances])
            yield f"best tree, {kind}, n={n}", ours, "us", None
            yield f"best tree of a single root, {kind}, n={n}", single, "us", None
            theirs = [solver for v in instances if (solver := ufal_solver(v)) is not None]
            if theirs:
                yield f"best tree / ufal.chu-liu-edmonds, {kind}, n={n}", ours / mean_of(theirs), "ratio", 1.0
    instances = [scores("random", 40, seed) for seed in range(TREES)]
    ours = mean_of([accelerated.Arborescence(v).expectation for v in instances])
    yield "log-partition and marginals of trees, n=40", ours, "us", 80.0
    yield (
        "log-partition and marginals / determinant and inverse, n=40",
        ours / mean_of([lambda v=v: determinant(v) for v in instances]),
        "ratio",
        None,
    )
    trees = accelerated.Arborescence(instances[0])
    yield "5 best trees, n=40", mean_of([lambda: trees.topk(5)], 30), "us", None
    yield "all max-marginals of trees, n=40", mean_of([trees.max_marginals], 5), "us", None
    yield from projective_figures()
