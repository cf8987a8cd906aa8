"""scikit-learn's scores over the labels of all sequences together, named as in sklearn-crfsuite."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Labels = Sequence[Sequence[Any]]


def _flat(name: str) -> Callable[..., Any]:
    """``flat_NAME(y_true, y_pred, ...)``: scikit-learn's score of that name of the labels one after another."""

    def score(y_true: Labels, y_pred: Labels, *arguments: Any, **options: Any) -> Any:
        try:
            from sklearn import metrics
        except ImportError:
            raise ImportError(f"flat_{name} needs scikit-learn: pip install scikit-learn") from None
        flat = [list(itertools.chain.from_iterable(labels)) for labels in (y_true, y_pred)]
        return getattr(metrics, name)(*flat, *arguments, **options)

    score.__name__ = score.__qualname__ = f"flat_{name}"
    score.__doc__ = f"scikit-learn's ``{name}`` of the labels of all sequences, with its options."
    return score


flat_accuracy_score = _flat("accuracy_score")
flat_precision_score = _flat("precision_score")
flat_recall_score = _flat("recall_score")
flat_f1_score = _flat("f1_score")


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: Sequence[Any] | None = None, **options: Any
) -> Any:
    """scikit-learn's ``classification_report`` of the labels of all sequences, with its options."""
    return _flat("classification_report")(y_true, y_pred, labels=labels, **options)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **options: Any) -> Any:
    """scikit-learn's ``fbeta_score`` of the labels of all sequences, with its options."""
    return _flat("fbeta_score")(y_true, y_pred, beta=beta, **options)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """The share of sequences all of whose labels are right; 0 if there are none."""
    right = sum(list(y) == list(z) for y, z in zip(y_true, y_pred, strict=True))
    return right / len(y_true) if len(y_true) else 0
