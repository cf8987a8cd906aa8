"""Passes of SVRG (a full gradient, then a step for each example) on the OCR letters: raw pixels, and hashed patches
of pixels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from benchmarks import problems
from diptych.experiments.clock import Pass, best_of
from diptych.experiments.sparse_data import handwritten_words

LOSSES = ["LogLoss", "top-5"]  # the CRF, and the hinge smoothed by its five best outputs
SIZES = [16, 20]  # log2 of the number of hashed weights
LABELS = 26


@functools.cache
def hashed(bits: int) -> list[accelerated.Rows]:
    """The letters with hashed features: each active pixel with the pattern of its 3 x 3, 1 x 5 and 5 x 1
    neighbourhoods.

    A feature is hashed to one of 2^bits // 26 rows, whose 26 weights lie side by side.
    """
    rows = 2**bits // LABELS
    images = np.concatenate(handwritten_words().X).reshape(-1, 16, 8) > 0
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2))).astype(np.int64)
    squares = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    columns, lines = [(i, 0) for i in range(-2, 3)], [(0, j) for j in range(-2, 3)]
    codes = []
    for kind, patch in enumerate((squares, columns, lines)):
        pattern = sum(padded[:, 2 + i : 18 + i, 2 + j : 10 + j] << b for b, (i, j) in enumerate(patch))
        pixel = np.arange(128).reshape(16, 8)
        codes.append((pattern * 128 + pixel) * 3 + kind)
    code = np.stack(codes, axis=-1)[images].astype(np.uint64)  # (active pixels, 3)
    with np.errstate(over="ignore"):
        mixed = (code ^ (code >> np.uint64(7))) * np.uint64(0x9E3779B97F4A7C15)
    index = ((mixed >> np.uint64(33)) % np.uint64(rows)).astype(np.int64).ravel()
    ends = np.concatenate([[0], 3 * np.cumsum(images.sum(axis=(1, 2)))])
    words, first = [], 0
    for X in handwritten_words().X:
        here = ends[first : first + len(X) + 1]
        words.append(accelerated.Rows(here - here[0], index[here[0] : here[-1]], np.ones(here[-1] - here[0]), rows))
        first += len(X)
    return words


def objective(loss: str, bits: int | None = None) -> tuple[Any, float | None]:
    """An objective over the letters, raw or hashed, and its mu."""
    letters = handwritten_words()
    X = letters.X if bits is None else hashed(bits)
    model = accelerated.SequenceModel(128 if bits is None else X[0].width, letters.labels)
    data = model.pack(X, letters.Y)
    if loss == "LogLoss":
        return accelerated.LogLoss(model, data), None
    return accelerated.StructuralHinge(model, data, smoothing=accelerated.smoothings.TopK(5)), 1.0


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: one core."""
    log_loss, top_5 = objective("LogLoss"), objective("top-5")
    yield "SVRG pass over all letters, log loss", best_of(Pass(log_loss), 7), "s", 0.15
    yield "SVRG pass over all letters, log loss, averaged", best_of(Pass(log_loss, average="uniform"), 7), "s", None
    yield "Casimir-SVRG pass over all letters, top-5", best_of(Pass(top_5, kappa=0.03), 7), "s", 0.15
    hashed_top_5 = best_of(Pass(objective("top-5", SIZES[0]), kappa=0.03), 7)
    yield "Casimir-SVRG pass, 2^16 hashed weights, top-5", hashed_top_5, "s", None
    small, large = (best_of(Pass(objective("LogLoss", bits)), 7) for bits in SIZES)
    yield "SVRG pass, 2^16 hashed weights, log loss", small, "s", None
    yield "SVRG pass, 2^20 hashed weights / 2^16", large / small, "ratio", 2.5


class SVRG:
    """One core, all letters: raw pixels (0 bits) and hashed features."""

    params = (LOSSES, [0, *SIZES])
    param_names = ("loss", "bits")
    timeout = 300

    def setup(self, loss, bits):
        set_num_threads(1)
        self.run = Pass(objective(loss, bits or None), kappa=0.03 if loss != "LogLoss" else 0.0)
        self.run()

    def teardown(self, loss, bits):
        set_num_threads(None)

    def time_pass(self, loss, bits):
        self.run()


class OracleCalls:
    """Oracle calls of SVRG to a duality gap of 1 % of the objective: a count, not seconds."""

    params = ["last", "uniform"]
    param_names = ("average",)
    timeout = 300
    unit = "oracle calls"

    def track_calls_to_one_percent(self, average):
        crf = problems.objective("accelerated", "LogLoss", 1000)
        return accelerated.svrg(
            crf, lam=0.01, average=average, epochs=200, rng=0, callback=lambda row, w: row.gap <= 0.01 * row.objective
        ).oracle_calls
