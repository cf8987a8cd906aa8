"""What a training run tells: lines as crfsuite writes them, and the numbers of each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LabelScore", "TrainingLog", "iteration_lines", "scores_of"]


class LabelScore(NamedTuple):
    """Of a label in the held-out group: right, predicted and true positions; precision, recall, F1 (None if it neither
    occurs nor is predicted).
    """

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainingLog:
    """The log of one run.

    Attributes
    ----------
    iterations : list of dict
        Of each iteration ``num``, ``loss`` (the objective), ``gap`` (the duality gap, or None), ``feature_norm``,
        ``active_features``, ``time`` and ``scores``. With a held-out group ``scores`` is {label: LabelScore}, and there
        are ``avg_precision``, ``avg_recall`` and ``avg_f1`` (means over labels), ``item_accuracy`` and
        ``instance_accuracy`` (fractions), and the same as ``item_accuracy_float`` and ``instance_accuracy_float``.
    last_iteration : dict or None
    best_iteration : dict or None
        The first iteration with the highest ``item_accuracy``.
    featgen_num_features : int or None
    featgen_seconds, training_seconds, storing_seconds : float or None
    log : list of str
        All lines. ``last_log``: those of the last event.
    """

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self.log: list[str] = []
        self.last_log = ""
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None

    @property
    def best_iteration(self) -> dict[str, Any] | None:
        rated = [each for each in self.iterations if "item_accuracy" in each]
        return max(rated, key=lambda each: each["item_accuracy"], default=None)


def scores_of(names: Sequence[str], truth: Sequence[np.ndarray], guess: Sequence[np.ndarray]) -> dict[str, Any]:
    """The scores of an iteration, from numbers of labels."""
    y, z, L = np.concatenate([[], *truth]).astype(int), np.concatenate([[], *guess]).astype(int), len(names)
    counts = np.stack([np.bincount(each, minlength=L) for each in (y[y == z], z, y)], 1)
    scores = {name: _label_score(*row) for name, row in zip(names, counts.tolist(), strict=True)}
    items = Fraction(int(np.count_nonzero(y == z)), max(len(y), 1))
    whole = Fraction(sum(np.array_equal(a, b) for a, b in zip(truth, guess, strict=True)), max(len(truth), 1))
    means = [sum(getattr(each, what) or 0.0 for each in scores.values()) / L for what in ("precision", "recall", "f1")]
    return {
        "scores": scores,
        **dict(zip(("avg_precision", "avg_recall", "avg_f1"), means, strict=True)),
        "item_accuracy": items,
        "item_accuracy_float": float(items),
        "instance_accuracy": whole,
        "instance_accuracy_float": float(whole),
    }


def iteration_lines(info: dict[str, Any]) -> Iterator[str]:
    """The lines about an iteration."""
    yield f"***** Iteration #{info['num']} *****\n"
    yield f"Loss: {info['loss']:f}\n"
    if info["gap"] is not None:
        yield f"Gap: {info['gap']:f}\n"
    yield f"Feature norm: {info['feature_norm']:f}\n"
    yield f"Active features: {info['active_features']}\n"
    yield f"Seconds required for this iteration: {info['time']:.3f}\n"
    if info["scores"]:
        yield "Performance by label (#match, #model, #ref) (precision, recall, F1):\n"
        for name, (match, model, ref, *shares) in info["scores"].items():
            told = ", ".join("******" if share is None else f"{share:.4f}" for share in shares)
            yield f"    {name}: ({match}, {model}, {ref}) ({told})\n"
        means = ", ".join(f"{info[f'avg_{what}']:.6f}" for what in ("precision", "recall", "f1"))
        yield f"Macro-average precision, recall, F1: ({means})\n"
        for what in ("item", "instance"):
            yield f"{what.capitalize()} accuracy: {info[f'{what}_accuracy_float']:.4f}\n"
    yield "\n"


def _label_score(match: int, model: int, ref: int) -> LabelScore:
    if not model and not ref:
        return LabelScore(0, 0, 0, None, None, None)
    precision, recall = match / max(model, 1), match / max(ref, 1)
    return LabelScore(match, model, ref, precision, recall, 2 * match / (model + ref))
