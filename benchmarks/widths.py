"""An epoch over hashed weights: it costs what the features cost that occur, whatever the number of weights.

``python docs/figures.py widths --chunks conll2000.zip`` measures the first 2,000 sentences of CoNLL-2000, with weights
for all pairs of an attribute and a label. The suite uses made-up sentences.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from benchmarks.taggers import made_up
from diptych.files.columns import load_columns

Line = tuple[str, float, str, float | None]
BITS = (16, 20, 24)


def objectives(sentences: list[Any], bits: int) -> tuple[Any, Any]:
    """The log loss, and the hinge with top-5 smoothing, over 2^bits hashed weights."""
    Y = [x["label"] for x in sentences]
    model = accelerated.TaggingModel.of(sentences, Y, "chunks", pairs="all", bits=bits)
    data = model.pack(sentences, Y)
    smoothing = accelerated.smoothings.TopK(5)
    return accelerated.LogLoss(model, data), accelerated.StructuralHinge(model, data, smoothing=smoothing)


def runs(crf: Any, hinge: Any) -> dict[str, Callable[[int], Any]]:
    """Runs of some epochs, by name."""
    return {
        "SGD": lambda epochs: accelerated.sgd(crf, lam=1e-3, epochs=epochs, rng=0),
        "Casimir": lambda epochs: accelerated.casimir_svrg_const(hinge, lam=1e-3, mu=1.0, epochs=epochs, rng=0),
        "L-BFGS": lambda epochs: accelerated.lbfgs(crf, lam=1e-3, iterations=epochs),
    }


def figures(archive: str | None) -> Iterator[Line]:
    """Name, value, unit and target of each figure; nothing without the archive."""
    if archive is None:
        print("  widths: --chunks names no conll2000.zip", file=sys.stderr)
        return
    sentences = load_columns(f"{archive}:train.txt")[:2000]
    least: dict[str, float] = {}
    for bits in BITS:
        crf, hinge = objectives(sentences, bits)
        yield f"features that occur, of {crf.data.rows.width}", len(np.unique(crf.data.rows.indices)), "", None
        for name, run in runs(crf, hinge).items():
            run(1)  # compiles
            seconds = np.diff([0.0, *(row.seconds for row in run(6).history)])
            least.setdefault(name, min(seconds[1:]))
            yield f"{name}, 2^{bits} weights, an epoch", min(seconds[1:]), "s", None
            yield (
                f"{name}, 2^{bits} weights, the first epoch / a later one",
                seconds[0] / min(seconds[1:]),
                "ratio",
                None,
            )
            yield f"{name}, an epoch at 2^{bits} / at 2^16", min(seconds[1:]) / least[name], "ratio", None


class Widths:
    """Seconds of three epochs over 300 made-up sentences, one core."""

    params = (["SGD", "Casimir", "L-BFGS"], list(BITS))
    param_names = ("run", "bits")
    timeout = 300

    def setup(self, run: str, bits: int) -> None:
        set_num_threads(1)
        self.run = runs(*objectives(made_up(300), bits))[run]
        self.run(1)

    def teardown(self, run: str, bits: int) -> None:
        set_num_threads(None)

    def time_epochs(self, run: str, bits: int) -> None:
        self.run(3)
