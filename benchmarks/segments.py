"""Oracles of segments: beside a count of their exponentials and multiply-adds, and beside torch-struct, one core.

``python docs/figures.py segments`` prints microseconds and ratios: `figures`. torch-struct is timed where it is
installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import accelerated
from accelerated.compiled.arithmetic import exp
from accelerated.compiled.sweeps import padded, product
from accelerated.kernel import kernel
from accelerated.threads import set_num_threads
from diptych.experiments.clock import best_of

SIZE, SMALL = (100, 10, 20), (20, 4, 5)  # tokens, lengths, labels; torch-struct takes memory for the small ones only


def drawn(n: int, W: int, L: int, scale: float = 1.0) -> accelerated.Segments:
    """Of normal scores, the same in every run."""
    rng = np.random.default_rng(0)
    return accelerated.Segments(scale * rng.normal(size=(n, W, L)), scale * rng.normal(size=(L, L)))


@kernel
def counted(x, exponentials, rows, matrix, sums):
    for i in range(len(x)):
        exponentials[i] = exp(x[i])
    for t in range(len(rows)):
        product(rows, t, matrix, matrix.shape[0], sums, t)


def floor(n: int, W: int, L: int) -> float:
    """Seconds for the exponentials of sums with marginals alone, and for three products a token."""
    x, rows = drawn(n, W, L).scores.segments.ravel(), np.ones((3 * n, padded(L)))
    matrix, room, sums = np.ones((L, padded(L))), np.empty_like(x), np.empty_like(rows)
    return best_of(lambda: counted(x, room, rows, matrix, sums), 300)


QUESTIONS = {"best": (), "expectation": (), "topk": (5,), "max_marginals": (), "sample": (10, 1.0, 0)}


class Oracles:
    """Seconds for each question about one sequence; of scores that are far apart, sums take logarithms."""

    params = ([SIZE, SMALL], [1.0, 1000.0], list(QUESTIONS))
    param_names = ("size", "scale", "question")

    def setup(self, size, scale, question):
        set_num_threads(1)
        self.ask = partial(getattr(drawn(*size, scale), question), *QUESTIONS[question])
        self.ask()

    def time_answer(self, size, scale, question):
        self.ask()


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    what, segments = "{}-{}-{}".format(*SIZE), drawn(*SIZE)
    sums = best_of(segments.expectation, 300)
    yield f"segments, {what}, best", 1e6 * best_of(segments.best, 300), "us", None
    yield f"segments, {what}, log-partition and marginals", 1e6 * sums, "us", 100.0
    yield "log-partition and marginals / their exponentials and products", sums / floor(*SIZE), "ratio", 3.0
    yield f"segments, {what}, 5 best", 1e6 * best_of(lambda: segments.topk(5), 30), "us", None
    try:
        import torch
        from torch_struct import SemiMarkovCRF
    except ImportError:
        return
    n, W, L = SMALL
    scores, lengths = torch.randn(1, n, W + 1, L, L, dtype=torch.float64).requires_grad_(True), torch.tensor([n + 1])
    ratio = best_of(drawn(*SMALL).expectation, 300) / best_of(lambda: SemiMarkovCRF(scores, lengths).marginals, 3)
    yield "log-partition and marginals / torch-struct, {}-{}-{}".format(*SMALL), ratio, "ratio", None
