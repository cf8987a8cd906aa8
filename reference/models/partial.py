"""Labels that are partly known: at each position a label, a set of labels, or None where nothing is known.

The data then say which labels are allowed at each position, and the log loss of an example is minus the logarithm of
the probability of its allowed labellings,

    log sum_y exp(score(y)) - log sum_{y allowed} exp(score(y))

A prediction may be restricted in the same way. Source: Tsuboi et al. (2008), "Training conditional random fields using
incomplete annotations"; Quattoni et al. (2007), "Hidden conditional random fields", where some variables are never
known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, Place, host
from reference.example_errors import Example, ExampleError, each_example, example_error, listed
from reference.models.base import LabelledModel, check_lengths, label_indices, one_for_each, packed_labels
from reference.packed import lock

__all__ = ["PartlyLabelled", "unknown_positions"]


class PartlyLabelled(LabelledModel):
    """A model of labellings whose packed data have ``offsets``, ``labels`` and ``allowed``; a subclass defines
    ``within(data, batch, scores)``: scores with -inf for the labels that ``data.allowed`` excludes.

    allowed (N, L): booleans, the labels that each position may have; None if the labels are known, or none are given.
    """

    def constrained(self, data: Any, known: Any) -> Any:
        """The data with what ``known`` allows instead of their own labels, for :meth:`within`.

        Parameters
        ----------
        data : packed data
        known : sequence of n label sequences
            Each with a label, a set of labels or None at each position.

        Raises
        ------
        ValueError, TypeError
            Naming ``known[i]`` and the position, for unknown labels, empty sets, wrong lengths, and where no labelling
            is possible.
        """
        self.check(data)
        allowed = allowed_labels("known", known, self.labels, data.offsets)
        self._check_allowed("known", allowed, data.offsets)
        return data._replace(labels=None, allowed=in_place(allowed, data.rows.place))

    def predict(self, data: Any, batch: np.ndarray | None, w: Array, known: Any = None) -> list[Any]:
        """As :meth:`LinearModel.predict`. known: as for :meth:`constrained`, for all examples of the data, whose own
        labels are not looked at: only what it allows is predicted.
        """
        return self._predicted(data, batch, w, None if known is None else self.constrained(data, known))

    def true_labels(self, data: Any) -> Array:
        """The labels (N,) of all positions; ValueError if not all of them are known."""
        if data.allowed is not None:
            raise ValueError(f"data: {needs_all('this', unknown_positions(data))}")
        return super().true_labels(data)

    def _sizes(self, data: Any) -> Iterable[tuple[str, int, int]]:
        own = [] if data.allowed is None else [("labels", data.allowed.shape[1], self.n_labels)]
        return [*super()._sizes(data), *own]

    def _targets(self, Y: Any, offsets: np.ndarray, place: Place, of: str = "position") -> tuple[Any, Any]:
        """What ``pack`` makes of Y: labels (N,) and None if all are known, else None and the allowed labels (N, L)."""
        if Y is None or not any(map(is_partial, Y := listed("Y", Y))):
            return packed_labels(Y, self.labels, offsets, place, of), None
        allowed = allowed_labels("Y", Y, self.labels, offsets, of)
        if np.all(np.count_nonzero(allowed, axis=1) == 1):
            return lock(place.integers(np.argmax(allowed, axis=1))), None
        self._check_allowed("Y", allowed, offsets)
        return None, in_place(allowed, place)

    def _check_allowed(self, argument: str, allowed: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an ExampleError if an example has no possible labelling."""


def unknown_positions(data: Any) -> int:
    """The number of positions of packed data with more than one allowed label."""
    allowed = getattr(data, "allowed", None)
    return 0 if allowed is None else int(np.count_nonzero(np.count_nonzero(host(allowed), axis=1) != 1))


def needs_all(what: str, unknown: int) -> str:
    """The message of what does not take labels that are partly known, at so many positions."""
    return f"{what} needs every label, and those of {unknown} positions are not known; LogLoss, lbfgs and sgd take them"


def allowed_labels(
    argument: str, Y: Any, names: tuple[str, ...], offsets: np.ndarray, of: str = "position"
) -> np.ndarray:
    """The labels that are allowed at each position, as booleans (N, L) on the host."""
    lengths = np.diff(offsets)
    Y = one_for_each(Y, len(lengths), "label sequences", argument=argument)
    each = each_example(argument, Y, lambda name, y: _allowed(name, y, names))
    check_lengths(argument, each, lengths, of)
    return np.concatenate([np.zeros((0, len(names)), bool), *each])


def in_place(allowed: np.ndarray, place: Place) -> Array:
    """Booleans on the host as a read-only array in a place."""
    return lock(place.xp.asarray(allowed, device=place.device))


def check_allowed(allowed: Any, labels: Any, n: int, xp: Any) -> None:
    """Raise unless ``allowed`` is None, or booleans (n, L) in the namespace, at least one in each row, without
    labels.
    """
    if allowed is None:
        return
    if not is_array_api_obj(allowed) or array_namespace(allowed) is not xp or allowed.dtype != xp.bool:
        dtype = getattr(allowed, "dtype", type(allowed).__name__)
        raise TypeError(f"allowed: expected booleans in the namespace of the features, got {dtype}")
    if allowed.ndim != 2 or allowed.shape[0] != n:
        raise ValueError(f"allowed: expected shape ({n}, L), a row for each position, got {tuple(allowed.shape)}")
    if labels is not None:
        raise ValueError("allowed: expected None beside labels, got an array")
    for t in np.flatnonzero(~np.any(host(allowed), axis=1))[:1]:
        raise ValueError(f"allowed: expected at least one label at each position, got none in row {t}")


def is_partial(y: Any) -> bool:
    """Whether a label sequence is a list or a tuple that has None or a set at a position."""
    return isinstance(y, list | tuple) and any(label is None or isinstance(label, set | frozenset) for label in y)


def labels_in(y: Any) -> Any:
    """The labels of a sequence, and of the sets in it."""
    return [label for each in y for label in members(each)] if is_partial(y) else y


def members(label: Any) -> list[Any]:
    """The labels that are named at a position: none for None, those of a set, or the label."""
    return sorted(label, key=str) if isinstance(label, set | frozenset) else [] if label is None else [label]


def _allowed(name: Example, y: Any, names: tuple[str, ...]) -> np.ndarray:
    """The allowed labels (n, L) of one sequence."""
    y = y if isinstance(y, list | tuple) else label_indices(name, y, names)
    allowed = np.zeros((len(y), len(names)), bool)
    labels: list[Any] = []
    position: list[int] = []
    for t, label in enumerate(y):
        if isinstance(label, set | frozenset) and not label:
            raise example_error(name, t, "expected a label, None or a set of labels, got an empty set")
        allowed[t] = label is None
        labels += members(label)
        position += [t] * (len(labels) - len(position))
    try:
        allowed[np.array(position, np.int64), label_indices(name, labels, names)] = True
    except ExampleError as error:
        raise type(error)(error.argument, error.example, position[error.position or 0], error.problem) from None
    return allowed
