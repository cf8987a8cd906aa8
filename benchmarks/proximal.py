"""Epochs of the online proximal algorithm on the OCR letters beside an epoch of SGD, from the same weights with the
same steps, on one core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from benchmarks import problems

TARGET = 1.5  # epochs of SGD, for the last model
REPEATS = 7
KINDS = ("l1", "ridge", "squared mixed norm, groups by column", "squared mixed norm, groups by pixel")
AVERAGES = ("last", "uniform")


def regularizers(model: Any) -> dict[str, Any]:
    """Regularizers by name. Groups are the 8 columns of pixels, or the 128 pixels; then the other features, and the
    transitions.
    """
    L = model.n_labels
    rows = model.size // L - L
    pixel = np.repeat(np.arange(rows), L)
    columns = np.concatenate([np.where(pixel < 128, pixel % 8, 8), np.full(L * L, 9)])
    pixels = np.concatenate([np.minimum(pixel, 128), np.full(L * L, 129)])
    made = (
        accelerated.L1(1e-4),
        accelerated.HalfSquaredL2(1e-3),
        accelerated.SquaredL21(1e-4, columns),
        accelerated.SquaredL21(1e-5, pixels),
    )
    return dict(zip(KINDS, made, strict=True))


def seconds(objective: Any, regularizer: Any = None, average: str = "last") -> float:
    """One epoch, as measured by the history: without a regularizer, an epoch of SGD with its weighted average."""
    options: dict[str, Any] = {"step_size": accelerated.steps.InverseSqrt(0.05), "epochs": 1, "rng": 0}
    w = problems.weights(200)
    if regularizer is None:
        run = accelerated.sgd(objective, w, lam=0.001, **options)
    else:
        run = accelerated.online_proximal(objective, regularizer, w, average=average, **options)
    return run.history[-1].seconds


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: the best of several epochs, all kinds in turn."""
    set_num_threads(1)
    objective = problems.objective("accelerated", "StructuralHinge")
    by_name = regularizers(objective.model)
    best: dict[tuple[str, str], float] = {}
    for _ in range(REPEATS):
        for name, average in (("sgd", ""), *((name, average) for name in by_name for average in AVERAGES)):
            took = seconds(objective, by_name.get(name), average or "last")
            best[name, average] = min(took, best.get((name, average), took))
    base = best.pop(("sgd", ""))
    for (name, average), took in best.items():
        what = f"online proximal epoch over all letters, hinge, {name}, {average} model"
        yield what, took / base, "epochs of SGD", TARGET if average == "last" else None


class OnlineProximal:
    """Epochs over all letters, one core."""

    params = (list(KINDS), list(AVERAGES))
    param_names = ("regularizer", "average")
    timeout = 300

    def setup(self, regularizer: str, average: str) -> None:
        set_num_threads(1)
        self.objective = problems.objective("accelerated", "StructuralHinge")
        self.regularizer = regularizers(self.objective.model)[regularizer]
        self.track_epoch(regularizer, average)

    def track_epoch(self, regularizer: str, average: str) -> float:
        """Seconds of the updates alone, the best of three."""
        return min(seconds(self.objective, self.regularizer, average) for _ in range(3))

    track_epoch.unit = "seconds"  # type: ignore[attr-defined]

    def track_ratio_to_sgd(self, regularizer: str, average: str) -> float:
        """An epoch in units of an epoch of SGD."""
        return self.track_epoch(regularizer, average) / min(seconds(self.objective) for _ in range(3))

    track_ratio_to_sgd.unit = "epochs of SGD"  # type: ignore[attr-defined]
