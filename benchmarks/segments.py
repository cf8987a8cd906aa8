"""Oracles of segments: beside a count of their exponentials and multiply-adds, and beside torch-struct, one core.

``python docs/figures.py segments`` prints microseconds and ratios: `figures`. torch-struct is timed where it is
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import accelerated
from accelerated.compiled.arithmetic import exp
from accelerated.compiled.sweeps import product
from accelerated.kernel import kernel
from accelerated.threads import set_num_threads
from diptych.experiments.clock import best_of

SIZE, SMALL = (100, 10, 20), (20, 4, 5)  # tokens, lengths, labels; torch-struct takes memory for the small ones only


def scores(n: int, W: int, L: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, the same in every run."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, W, L)), rng.normal(size=(L, L))


@kernel
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = exp(x[i])


@kernel
def products(rows, matrix, out):
    for t in range(len(rows)):
        product(rows, t, matrix, matrix.shape[0], out, t)


def floor(n: int, W: int, L: int) -> float:
    """Seconds for the exponentials of sums with marginals alone, and for three products a token."""
    x, rows = scores(n, W, L)[0].ravel(), np.ones((3 * n, (L + 7) // 8 * 8))
    matrix, out, sums = np.ones((L, rows.shape[1])), np.empty_like(x), np.empty_like(rows)
    return best_of(lambda: exponentials(x, out), 300) + best_of(lambda: products(rows, matrix, sums), 300)


def torch_struct(n: int, W: int, L: int) -> Callable[[], Any] | None:
    """Log-partition and marginals of as many segments by torch-struct, or None if it is not installed."""
    try:
        import torch
        from torch_struct import SemiMarkovCRF
    except ImportError:
        return None
    potentials = torch.randn(1, n, W + 1, L, L, dtype=torch.float64)
    return lambda: SemiMarkovCRF(potentials.requires_grad_(True), torch.tensor([n + 1])).marginals


QUESTIONS = {"best": (), "expectation": (), "topk": (5,), "max_marginals": (), "sample": (10, 1.0, 0)}


class Oracles:
    """Seconds for each question about one sequence; of scores that are far apart, sums take logarithms."""

    params = ([SIZE, SMALL], [1.0, 1000.0], list(QUESTIONS))
    param_names = ("size", "scale", "question")

    def setup(self, size, scale, question):
        set_num_threads(1)
        segments = accelerated.Segments(*(scale * x for x in scores(*size)))
        self.ask = partial(getattr(segments, question), *QUESTIONS[question])
        self.ask()

    def time_answer(self, size, scale, question):
        self.ask()


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    what, segments = "{}-{}-{}".format(*SIZE), accelerated.Segments(*scores(*SIZE))
    sums = best_of(segments.expectation, 300)
    yield f"segments, {what}, best", 1e6 * best_of(segments.best, 300), "us", None
    yield f"segments, {what}, log-partition and marginals", 1e6 * sums, "us", 100.0
    yield "log-partition and marginals / their exponentials and products", sums / floor(*SIZE), "ratio", 3.0
    yield f"segments, {what}, 5 best", 1e6 * best_of(lambda: segments.topk(5), 30), "us", None
    what, few = "{}-{}-{}".format(*SMALL), accelerated.Segments(*scores(*SMALL))
    if (theirs := torch_struct(*SMALL)) is not None:
        ratio = best_of(few.expectation, 300) / best_of(theirs, 3)
        yield f"log-partition and marginals / torch-struct, {what}", ratio, "ratio", None
