"""The inputs of estimators (sequences, named features, labels, sample weights), checked and in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reference.arrays import floats, host, unmasked

__all__ = [
    "as_columns",
    "as_records",
    "by_name",
    "check_classes",
    "checked_weights",
    "classes_of",
    "dense_sequences",
    "label_sequences",
    "share_right",
]


def check_classes(y: Any) -> None:
    """Raise ValueError for targets that are not classes."""
    try:
        from sklearn.utils.multiclass import check_classification_targets
    except ImportError:
        return
    check_classification_targets(y)


def checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    weights: np.ndarray
    (weights,) = floats(sample_weight=np.asarray(unmasked("sample_weight", sample_weight)))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight: expected shape ({n},), one for each example, got {weights.shape}")
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and np.any(weights > 0)):
        raise ValueError("sample_weight: expected finite numbers >= 0; all being zero leaves nothing to learn from")
    return weights


def label_sequences(X: Any, Y: Any) -> list[Any]:
    """The label sequences, one for each sequence of X. ValueError if there is no label at all."""
    if Y is None:
        raise ValueError("y: expected the labels of each sequence, got None")
    if len(X) != len(Y):
        raise ValueError(f"y: expected {len(X)} label sequences, one for each of X, got {len(Y)}")
    for i, y in enumerate(Y):
        if _is_single(y):
            raise TypeError(f"y: expected a list of label sequences, each a list of labels, got y[{i}] = {y!r:.80}")
    if not any(len(y) for y in Y):
        raise ValueError("y: expected labels, got none")
    # a data frame's column of strings is an object array
    Y = [np.asarray(y).tolist() if np.asarray(y).dtype.kind == "O" else y for y in Y]
    kinds = {np.asarray(y).dtype.kind for y in Y if len(y)}
    if not kinds <= {"i", "u"} and not kinds <= {"U", "T"}:
        raise TypeError("y: expected labels that are all strings or all integers")
    return list(Y)


def as_records(X: Any) -> Any:
    """X with each data frame as a list of dictionaries, one per row. TypeError unless X is a list of sequences."""
    if _is_frame(X) or _is_single(X):
        raise TypeError(f"X: expected {SEQUENCES}, got {type(X).__name__}")
    if any(map(_is_frame, X)):
        X = [x.to_dict("records") if _is_frame(x) else x for x in X]
    for i, x in enumerate(X):
        if _is_single(x):
            raise TypeError(f"X: expected {SEQUENCES}, got X[{i}] = {x!r:.80}")
        if isinstance(x, list | tuple) and len(x) and _is_single(x[0]) and not isinstance(x[0], Mapping):
            raise TypeError(f"X: expected {SEQUENCES}, got X[{i}][0] = {x[0]!r:.80}{_as_words(x[0])}")
    return X


SEQUENCES = (
    "a list of sentences, each a list of positions (lists of strings, such as ['word=the'], or dictionaries), an array "
    "(n, d), a CSR matrix or a data frame"
)


def _as_words(x: Any) -> str:
    return "; for words: [[{'word': word} for word in sentence] for sentence in X]" if isinstance(x, str) else ""


def _is_single(x: Any) -> bool:
    """Whether x is a string, a number or a dictionary, so not a sequence of items."""
    return isinstance(x, str | Mapping) or not hasattr(x, "__len__")


def as_columns(X: Any) -> Any:
    """X with each data frame as a dictionary of columns."""
    return [x.to_dict("list") if _is_frame(x) else x for x in X]


def _is_frame(x: Any) -> bool:
    """Whether x has the interface of a pandas data frame."""
    return hasattr(x, "columns") and hasattr(x, "to_dict")


def dense_sequences(X: Sequence[Any]) -> list[np.ndarray]:
    """Arrays (n_i, d); CSR matrices are made dense."""
    return [x.toarray() if hasattr(x, "toarray") else np.asarray(host(x)) for x in X]


def classes_of(Y: list[Any]) -> tuple[np.ndarray, list[str]]:
    """The distinct labels in order, and their names."""
    classes = np.unique(np.concatenate([np.asarray(y) for y in Y if len(y)]))
    return classes, [str(c) for c in classes]


def by_name(X: Any) -> bool:
    """Whether features have names: the first position holds strings or a dictionary."""
    first = next((x[0] for x in X if isinstance(x, list | tuple) and len(x)), None)
    return isinstance(first, Mapping | list | tuple | set) and all(isinstance(name, str) for name in first)


def share_right(truth: Sequence[Any], guess: Sequence[Any], sample_weight: Any) -> float:
    """The share of right labels over all positions; each position has the weight of its example."""
    if len(truth) != len(guess):
        raise ValueError(f"y: expected {len(guess)} sequences, one for each of X, got {len(truth)}")
    scale = np.ones(len(truth)) if sample_weight is None else checked_weights(sample_weight, len(truth))
    right = np.array([np.sum(np.asarray(y) == z) for y, z in zip(truth, guess, strict=True)], np.float64)
    length = np.array([len(z) for z in guess], np.float64)
    return float(scale @ right / (scale @ length)) if np.any(scale * length) else float("nan")
