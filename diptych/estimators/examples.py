"""The inputs of estimators (sequences, named features, labels, sample weights), checked and in one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reference.arrays import DENSE, floats, host, unmasked
from reference.example_errors import ExampleError, ExampleTypeError, each_example, is_frame, listed, values_of
from reference.models.partial import labels_in, members


def check_classes(y: Any) -> None:
    """Raise ValueError for targets that are not classes."""
    try:
        from sklearn.utils.multiclass import check_classification_targets
    except ImportError:
        return
    check_classification_targets(y)


def checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    weights: np.ndarray
    given = unmasked("sample_weight", listed("sample_weight", sample_weight))
    expected = f"sample_weight: expected shape ({n},), one number for each example (a sequence, not a token)"
    try:
        (weights,) = floats(sample_weight=given)
    except ValueError as problem:
        raise ValueError(f"{expected}: {problem}") from None
    if weights.shape != (n,):
        raise ValueError(f"{expected}, got {weights.shape}")
    for i in np.flatnonzero(~((weights >= 0) & (weights < np.inf)))[:1].tolist():
        raise ExampleError("sample_weight", i, None, f"expected finite numbers >= 0, got {weights[i]}")
    if not np.any(weights > 0):
        raise ValueError("sample_weight: expected a number > 0; all being zero leaves nothing to learn from")
    return weights


def of_positions(sample_weight: Any) -> bool:
    """Whether these are weights of positions, an array for each example, and not of examples."""
    return sample_weight is not None and any(np.ndim(host(each)) for each in listed("sample_weight", sample_weight))


def label_sequences(X: Any, Y: Any, partial: bool = False) -> list[Any]:
    """The label sequences, one for each sequence of X. ValueError if there is no label at all.

    partial: labels may be partly known: sets, or None.
    """
    if Y is None:
        raise ValueError("y: expected the labels of each sequence, got None")
    Y = listed("y", Y)
    if len(X) != len(Y):
        raise ValueError(f"y: expected {len(X)} label sequences, one for each of X, got {len(Y)}")
    for i, y in enumerate(Y):
        if isinstance(y, str | Mapping) or not hasattr(y, "__iter__"):
            raise TypeError(f"y: expected a list of label sequences, each a list of labels, got y[{i}] = {y!r:.80}")
    each: list[Any] = [
        host(y).tolist() if hasattr(y, "__array_namespace__") or isinstance(y, np.ndarray) else list(y) for y in Y
    ]
    first = next((label for y in each for label in (labels_in(y) if partial else y)), None)
    if not any(each) or (partial and first is None):
        raise ValueError("y: expected labels, got none")
    kind: Any = str if isinstance(first, str) else (int, np.integer)
    for i, y in enumerate(each):
        labels = ((t, label) for t, given in enumerate(y) for label in (members(given) if partial else [given]))
        for t, label in labels:
            if isinstance(label, bool) or not isinstance(label, kind):
                problem = f"expected labels that are all strings or all integers, got {label!r:.80}"
                raise ExampleTypeError("y", i, t, f"{problem} after {first!r:.80}" if label is not first else problem)
    return each


def as_records(X: Any) -> Any:
    """X with each data frame as a list of dictionaries, one per row. TypeError unless X is a list of sequences."""
    if not is_frame(X) and (isinstance(X, str | Mapping) or not hasattr(X, "__iter__")):
        raise TypeError(f"X: expected {SEQUENCES}, got {type(X).__name__}")
    X = [x.to_dict("records") if is_frame(x) else x for x in X] if any(map(is_frame, X := listed("X", X))) else X
    arrays = any(hasattr(x, "shape") for x in X)
    for i, x in enumerate(X):
        if _is_single(x):
            raise TypeError(f"X: expected {SEQUENCES}, got X[{i}] = {x!r:.80}")
        if isinstance(x, list | tuple) and len(x) and _is_single(x[0]) and not isinstance(x[0], Mapping):
            hint = "; for words: [[{'word': word} for word in sentence] for sentence in X]"
            raise TypeError(f"X: expected {SEQUENCES}, got X[{i}][0] = {x[0]!r:.80}{hint * isinstance(x[0], str)}")
        for t, position in enumerate(x) if isinstance(x, list | tuple) and not arrays else ():
            if isinstance(position, list | tuple | np.ndarray) and not all(isinstance(v, str) for v in position):
                raise ExampleTypeError("X", i, t, f"expected names of features, got {position!r:.80}; {DENSE}")
    return X


SEQUENCES = (
    "a list of sentences, each a list of positions (lists of strings, such as ['word=the'], or dictionaries), an array "
    "(n, d), a CSR matrix or a data frame"
)


def _is_single(x: Any) -> bool:
    """Whether x is a string, a number or a dictionary, so not a sequence of items."""
    return isinstance(x, str | Mapping) or not hasattr(x, "__len__")


def dense_sequences(X: Sequence[Any]) -> list[np.ndarray]:
    """Arrays (n_i, d); CSR matrices are made dense."""
    return each_example("X", X, lambda _, x: x.toarray() if hasattr(x, "toarray") else np.asarray(host(values_of(x))))


def packed(pack: Callable[..., Any], X: Any, Y: Any, *arguments: Any, **options: Any) -> Any:
    """``pack(X, Y, ...)``; errors name Y as learners do, y."""
    try:
        return pack(X, Y, *arguments, **options)
    except ExampleError as error:
        if error.argument != "Y":
            raise
        raise type(error)("y", error.example, error.position, error.problem) from None


def classes_of(Y: list[Any]) -> tuple[np.ndarray, list[str]]:
    """The distinct labels in order, and their names."""
    classes = np.unique(np.concatenate([np.asarray(y) for y in map(labels_in, Y) if len(y)]))
    return classes, [str(c) for c in classes]


def by_name(X: Any) -> bool:
    """Whether features have names: the first position holds strings or a dictionary."""
    first = next((x[0] for x in X if isinstance(x, list | tuple) and len(x)), None)
    return isinstance(first, Mapping | list | tuple | set) and all(isinstance(name, str) for name in first)


def share_right(truth: Sequence[Any], guess: Sequence[Any], sample_weight: Any) -> float:
    """The share of right labels over all positions whose label is known; each has the weight of its example."""
    truth = listed("y", truth)
    if len(truth) != len(guess):
        raise ValueError(f"y: expected {len(guess)} sequences, one for each of X, got {len(truth)}")
    for i, (y, z) in enumerate(zip(truth, guess, strict=True)):
        if len(y) != len(z):
            raise ExampleError("y", i, None, f"expected {len(z)} items, one for each position of X[{i}], got {len(y)}")
    scale = np.ones(len(truth)) if sample_weight is None else checked_weights(sample_weight, len(truth))
    right = np.array([np.sum(np.asarray(y) == z) for y, z in zip(truth, guess, strict=True)], np.float64)
    sizes = (sum(label is not None and not isinstance(label, set | frozenset) for label in y) for y in truth)
    length = np.array([*sizes], np.float64)
    return float(scale @ right / (scale @ length)) if np.any(scale * length) else float("nan")
