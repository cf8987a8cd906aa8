"""Scorers for scikit-learn's searches: ``flat_accuracy`` and ``sequence_accuracy``, as in sklearn-crfsuite."""

from __future__ import annotations

from typing import Any

from diptych.crfsuite import metrics

NAMES = ("flat_accuracy", "sequence_accuracy")


def __getattr__(name: str) -> Any:
    """A scorer, made by scikit-learn when it is needed."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.metrics import make_scorer

    return make_scorer(getattr(metrics, f"{name}_score"))
