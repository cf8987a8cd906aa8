"""Assignment beside SciPy's, all max-marginals of a matching, and learning alignments, one core.

``python docs/figures.py matchings`` prints milliseconds and ratios: `figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import accelerated
import reference
from diptych.experiments.clock import best_of

KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, p: rng.random((p, p)),
    "integers 0 to 9": lambda rng, p: rng.integers(0, 10, (p, p)).astype(np.float64),
    "diagonal": lambda rng, p: rng.random((p, p)) + 2 * np.diag(rng.random(p)),
}
SIZES = [50, 200, 500]


def scores(kind: str, p: int) -> np.ndarray:
    """Scores (p, p), the same in every run."""
    return KINDS[kind](np.random.default_rng(0), p)


class Best:
    """Seconds for one best matching."""

    params = (list(KINDS), SIZES, ["accelerated", "scipy"])
    param_names = ("scores", "p", "solver")

    def setup(self, kind, p, solver):
        values = scores(kind, p)
        matching = accelerated.Matching(values)
        self.run = matching.best if solver == "accelerated" else lambda: linear_sum_assignment(values, maximize=True)
        self.run()

    def time_best(self, kind, p, solver):
        self.run()


class MaxMarginals:
    """Seconds for all p^2 max-marginals."""

    params = (list(KINDS), [50, 100, 200])
    param_names = ("scores", "p")

    def setup(self, kind, p):
        self.matching = accelerated.Matching(scores(kind, p))
        self.matching.max_marginals()

    def time_max_marginals(self, kind, p):
        self.matching.max_marginals()


class TopK:
    """Seconds for the k best of a matching of 50 rows."""

    params = (["reference", "accelerated"], [2, 10])
    param_names = ("panel", "k")

    def setup(self, panel, k):
        self.matching = {"reference": reference, "accelerated": accelerated}[panel].Matching(scores("uniform", 50))
        self.matching.topk(k)

    def time_top_k(self, panel, k):
        self.matching.topk(k)


def resolved(values: np.ndarray) -> Any:
    """One max-marginal in the usual way: SciPy's assignment of the matrix without row 0 and column 0."""
    return linear_sum_assignment(values[1:, 1:], maximize=True)


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    for kind in KINDS:
        for p in SIZES:
            values = scores(kind, p)
            matching = accelerated.Matching(values)
            repeat = 300 if p < 500 else 40
            ours = best_of(matching.best, repeat)
            theirs = best_of(lambda v=values: linear_sum_assignment(v, maximize=True), repeat)
            yield f"best matching, {kind}, p={p}", 1e3 * ours, "ms", None
            yield f"best matching, {kind}, p={p}, SciPy", 1e3 * theirs, "ms", None
            yield f"best matching / SciPy, {kind}, p={p}", ours / theirs, "ratio", 1.0
    for kind in KINDS:
        values = scores(kind, 100)
        matching = accelerated.Matching(values)
        every = best_of(matching.max_marginals, 300)
        again = 100**2 * best_of(lambda v=values: resolved(v), 300)
        yield f"all max-marginals of a matching, {kind}, p=100", 1e3 * every, "ms", 0.4
        yield f"re-solving all pairs by SciPy / all max-marginals, {kind}, p=100", again / every, "times", None
    matching = accelerated.Matching(scores("uniform", 50))
    five, one = best_of(lambda: matching.topk(5), 100), best_of(matching.best, 100)
    yield "5 best matchings / best, p=50", five / one, "ratio", None
