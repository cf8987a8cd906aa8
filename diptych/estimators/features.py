"""The weights of a linear learner by name: a table of the largest weights, and the start for a warm start."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from diptych.estimators.protocol import check_fitted
from reference.arrays import host, integer


class FeatureWeight(NamedTuple):
    """A weight with its feature and label; the label is None for a model without labels."""

    label: Any
    feature: Any
    weight: float


class FeatureTable(list[FeatureWeight]):
    """Rows (label, feature, weight), printed as a table; ``note`` says why features have no names."""

    def __init__(self, rows: Iterable[FeatureWeight] = (), note: str | None = None) -> None:
        super().__init__(rows)
        self.note = note

    def __repr__(self) -> str:
        cells = [("label", "feature", "weight")]
        cells += [("" if a is None else str(a), str(b), f"{w:.4f}") for a, b, w in self]
        left, middle, right = (max(map(len, column)) for column in zip(*cells, strict=True))
        lines = [f"{a:{left}}  {b:{middle}}  {c:>{right}}".rstrip() for a, b, c in cells]
        return "\n".join([*lines, *([] if self.note is None else [self.note])])


class Named(NamedTuple):
    """Weights as a matrix (F, L) of features and labels, and transitions (L, L), if any.

    names: names of the features; labels: labels of the columns; note: why features have no names, else None.
    """

    matrix: np.ndarray
    transitions: np.ndarray | None
    names: Sequence[Hashable]
    labels: Sequence[Hashable]
    note: str | None = None

    def onto(self, other: Named) -> Named:
        """These weights at the positions of their features and labels in ``other``, and 0 elsewhere."""
        matrix = np.zeros_like(other.matrix)
        transitions = None if other.transitions is None else np.zeros_like(other.transitions)
        mine, theirs = _common(self.labels, other.labels)
        rows, places = _common(self.names, other.names)
        matrix[np.ix_(places, theirs)] = self.matrix[np.ix_(rows, mine)]
        if transitions is not None and self.transitions is not None:
            transitions[np.ix_(theirs, theirs)] = self.transitions[np.ix_(mine, mine)]
        return other._replace(matrix=matrix, transitions=transitions)


class Linear:
    """Learners whose weights have names, which ``_named`` gives."""

    model_: Any
    weights_: Any
    classes_: np.ndarray

    @property
    def coef_(self) -> Any:
        """The weights in the shape that users see."""
        return self._coefficients(self.weights_)

    def _coefficients(self, w: Any) -> Any:
        """Weights (d,) in that shape; the same as they are, unless a learner has another."""
        return w

    def _named(self, model: Any, w: Any) -> Named:
        """The weights w of a model, by name."""
        raise NotImplementedError

    def _flat(self, model: Any, named: Named) -> np.ndarray:
        """The weights (d,) of a model from their named form; the inverse of ``_named``."""
        return named.matrix.reshape(-1)

    def top_features(self, top: int = 10) -> FeatureTable:
        """The ``top`` largest nonzero absolute weights of each label.

        The result is a list of (label, feature, weight) that prints as a table. A feature is given by its name if it
        has one, else by its index; a hashed feature by its hash.
        """
        check_fitted(self)
        integer("top", top, 0)
        named = self._named(self.model_, host(self.weights_))
        rows = []
        for k in sorted(range(len(named.labels)), key=lambda k: self._order(named.labels[k])):
            weights = named.matrix[:, k]
            order = np.argsort(-np.abs(weights), kind="stable")[:top]
            shown = [j for j in order.tolist() if weights[j]]
            rows += [FeatureWeight(named.labels[k], named.names[j], float(weights[j])) for j in shown]
        return FeatureTable(rows, named.note)

    def _order(self, label: Any) -> int:
        """The position of a label in the table, the same as in ``classes_``."""
        classes = getattr(self, "classes_", None)
        return 0 if classes is None else classes.tolist().index(label)

    def _last(self, warm: bool) -> Named | None:
        """The weights of the last fit, if the next fit starts from them."""
        return self._named(self.model_, host(self.weights_)) if warm and hasattr(self, "weights_") else None

    def _start_from(self, last: Named | None, model: Any) -> dict[str, Any]:
        """{"w0": the last fit's weights for a new model}, or {} without a last fit."""
        if last is None:
            return {}
        new = self._named(model, np.zeros(model.size))
        numbered = all(isinstance(name, int) for name in (*last.names, *new.names) if name not in ENDS)
        if numbered and len(last.names) != len(new.names):
            expected = f"expected {len(last.names)} features, as in the last fit"
            raise ValueError(f"warm_start: {expected}, got {len(new.names)}")
        return {"w0": self._flat(model, last.onto(new))}


ENDS = ("start", "stop", "intercept")


def _common(mine: Sequence[Hashable], theirs: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """The indices of the common names, in ``mine`` and in ``theirs``."""
    place = {name: k for k, name in enumerate(theirs)}
    both = [(k, place[name]) for k, name in enumerate(mine) if name in place]
    return [k for k, _ in both], [k for _, k in both]
