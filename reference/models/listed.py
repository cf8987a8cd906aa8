"""A model from plain callables: any structure, any joint feature map, the generic loop.

The user gives the features of each part; scores, adjoint and gradient follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import reference.arrays
from reference.arrays import Array, Place, Rows, host
from reference.example_errors import example_error
from reference.models.base import LinearModel, RowsOfEach, checked, given, only, sound, squared_spread
from reference.structures.base import UnsupportedError
from reference.structures.scores import Scores, flatten
from reference.structures.table import Table, TableScores

__all__ = ["ListData", "ListModel"]


@dataclass(frozen=True, eq=False, repr=False)
class ListData(RowsOfEach):
    """Packed examples: the inputs, their part features (p_i, d) as Rows, and the true outputs (or None)."""

    inputs: tuple[Any, ...]
    features: tuple[Rows, ...]
    outputs: tuple[Any, ...] | None

    as_given = ("inputs", "outputs")

    def validate(self) -> None:
        """Raise unless each input has features, and an output if there are outputs."""
        for name in ("features", "outputs"):
            each = getattr(self, name)
            if each is not None and len(each) != len(self.inputs):
                raise ValueError(f"{name}: expected {len(self.inputs)}, one for each input, got {len(each)}")
        for i, rows in enumerate(self.features):
            checked(f"features[{i}]", rows, Rows)


class FromCallables:
    """Base of models from a user's callables: data with ``inputs`` and ``outputs``, one example at a time."""

    structure_type: Any
    _shape: Any
    _task_loss: Any

    def _piece(self, batch: np.ndarray) -> Any:
        """A piece of a batch as the other methods take it: the number of its only example."""
        return only(batch)

    def _shaped(self, data: Any, i: Any, values: Array) -> Scores:
        """Numbers, one for each part, as the structure's scores."""
        if self._shape is not None:
            return self._shape(data.inputs[i], values)
        return TableScores(values) if issubclass(self.structure_type, Table) else values

    def _given(self, X: Any, Y: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        """Inputs and true outputs, or None."""
        inputs, outputs = tuple(X), None if Y is None else tuple(Y)
        if outputs is not None and len(outputs) != len(inputs):
            raise ValueError(f"Y: expected {len(inputs)} outputs, one for each of X, got {len(outputs)}")
        return inputs, outputs

    def _room(self, data: Any, i: Any) -> tuple[Place, int]:
        """The place of example i's scores, and the number of its parts."""
        raise NotImplementedError

    def task_loss(self, data: Any, batch: np.ndarray) -> Scores:
        """The task loss of the example as scores to add."""
        i = self._piece(batch)
        place, parts = self._room(data, i)
        if self._task_loss is None:
            return self._zero_scores(data, i)
        values = place.floats(host(self._task_loss(data.inputs[i], self._true(data, i))))
        shape = tuple(values.shape)
        if shape != (parts,):
            hint = ", which has as many numbers; flatten it" if math.prod(shape) == parts else ""
            raise ValueError(f"task_loss: expected shape ({parts},), a number a part, got {shape}{hint} in example {i}")
        return self._shaped(data, i, values)

    def gold(self, data: Any, batch: np.ndarray) -> Scores:
        """The indicator of the true output's parts."""
        i = self._piece(batch)
        return self._true_parts(self._zero_scores(data, i), self._true(data, i))

    def _zero_scores(self, data: Any, i: Any) -> Scores:
        place, parts = self._room(data, i)
        return self._shaped(data, i, place.zeros((parts,)))

    def _check_outputs(self, data: Any) -> None:
        """Raise an ExampleError unless each true output, where there are some, is one of its input."""
        for i, y in enumerate(data.outputs or ()):
            piece = self._piece(np.array([i]))
            scores = self._zero_scores(data, piece)
            try:
                self._true_parts(scores, self._true(data, piece))
            except UnsupportedError:
                return  # no parts: losses say so
            except (AttributeError, LookupError, TypeError, ValueError) as problem:
                got = f"expected an output of X[{i}], got {y!r:.80}: {problem}"
                raise example_error("Y", i, got, type(problem)) from problem

    def _true(self, data: Any, i: Any) -> Any:
        return given(data.outputs, "outputs")[i]

    def _true_parts(self, scores: Scores, y: Any) -> Scores:
        """The parts of a true output. Raises ValueError also for -1, which is not an output of a Table."""
        structure = self.structure_type.unchecked(scores)
        parts = structure.parts(y)
        if isinstance(structure, Table) and np.any(host(y) < 0):
            raise ValueError(f"Y: expected outputs in 0..{structure.listed - 1}, got {host(y).min()}")
        return parts


class ListModel(FromCallables, LinearModel):
    """Scores of parts = part_features(x) @ w; the joint feature vector is part_features(x).T @ parts(y).

    Parameters
    ----------
    part_features : callable x -> (p, d)
        Dense array, CSR matrix or Rows: the features of each of the p parts of x's outputs.
    structure_type : type
        A :class:`Structure` over the scores that ``shape`` makes, such as ``Table`` (part = output).
    task_loss : callable (x, y) -> (p,), optional
        The loss that each part adds to an output that contains it, where y is true; default 0. Those of y's own parts
        must add up to 0.
    size : int
        Number of weights d.
    shape : callable (x, values) -> scores, optional
        Converts the p part scores to the structure's scores, e.g. ``lambda x, v: ChainScores(v[:a].reshape(n, L),
        ...)``. The fields of the scores, flattened in order, must be the p parts in order. Default: ``TableScores`` for
        a Table, the bare vector for any other structure.

    Raises
    ------
    ValueError
        From ``pack`` and ``task_loss``: another number of features or parts than expected, or a Y that is no output of
        its X, naming the example.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import ListModel, Table
    >>> model = ListModel(lambda x: np.eye(3) * x, Table, size=3)
    >>> data = model.pack([1.0, 2.0], [0, 2])
    >>> [int(y) for y in model.predict(data, None, np.array([0.0, 1.0, 0.5]))]
    [1, 1]
    """

    arrays: ModuleType = reference.arrays
    packed_type = ListData

    def __init__(
        self,
        part_features: Callable[[Any], Any],
        structure_type: Any,
        task_loss: Callable[[Any, Any], Any] | None = None,
        *,
        size: int,
        shape: Callable[[Any, Array], Scores] | None = None,
    ) -> None:
        self.part_features, self.structure_type, self.size = part_features, structure_type, int(size)
        self._task_loss, self._shape = task_loss, shape

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> ListData:
        """Inputs (n) and true outputs (n), in any form that the callables accept."""
        inputs, outputs = self._given(X, Y)
        features = [
            Rows.of(self.part_features(x), width=self.size, like=like, name=f"part_features(X[{i}])")
            for i, x in enumerate(inputs)
        ]
        for i, rows in enumerate(features):
            if rows.n == 0 and self._is_listed():
                raise ValueError(f"part_features(X[{i}]): expected a row for each of at least one output, got none")
        data = ListData(inputs, tuple(features), outputs)
        self._check_outputs(data)
        return data

    def _sizes(self, data: ListData) -> Iterable[tuple[str, int, int]]:
        return [("features", rows.width, self.size) for rows in data.features]

    def _room(self, data: ListData, i: int) -> tuple[Place, int]:
        return data.features[i].place, data.features[i].n

    def scores(self, data: ListData, batch: np.ndarray, w: Array) -> Scores:
        """The scores of one example (batch of one) at weights w (d,)."""
        i = only(batch)
        return sound(self._shaped(data, i, self.arrays.gather_sum(data.features[i], w[:, None])[:, 0]), w)

    def pullback(self, data: ListData, batch: np.ndarray, w: Array, g: Scores) -> Array:
        """part_features(x).T @ g, flattened: (d,)."""
        return self.arrays.scatter_sum(data.features[only(batch)], flatten(g)[:, None])[:, 0]

    def squared_norms(self, data: ListData) -> np.ndarray | None:
        """The squared spectral norm of each example's features, for a Table whose outputs are the parts; None for
        other structures.
        """
        tables = self.tables(data)
        return None if tables is None else np.array([np.linalg.norm(x, 2) ** 2 if len(x) else 0.0 for x in tables])

    def squared_diameters(self, data: ListData) -> np.ndarray | None:
        """4 max_y ||phi_y - mean phi||^2 for each example, for a Table whose outputs are the parts; None for other
        structures.
        """
        tables = self.tables(data)
        return None if tables is None else np.array([squared_spread(x) for x in tables])

    def tables(self, data: ListData) -> Iterator[np.ndarray] | None:
        """The features (m, d) of each example's outputs, float64 on the host; None if the outputs are not listed."""
        return map(_dense, data.features) if self._is_listed() else None

    def _is_listed(self) -> bool:
        return self._shape is None and isinstance(self.structure_type, type) and issubclass(self.structure_type, Table)


def _dense(rows: Rows) -> np.ndarray:
    """Rows as a dense float64 matrix on the host."""
    dense = np.zeros((rows.n, rows.width))
    np.add.at(dense, (np.repeat(np.arange(rows.n), np.diff(rows.indptr)), host(rows.indices)), host(rows.data))
    return dense
