"""Batches of matrices of scores, each of which may use only its first rows and columns; structures that choose a column
for each row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import array_namespace, device

from reference import arrays
from reference.arrays import Array, Place, host, one_hot
from reference.structures.base import Structure

__all__ = ["Choices", "checked_lengths", "cut", "places", "refuse_batch", "total"]


def places(batch: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """The index of each member of a batch of this shape; () alone if there are no batch axes."""
    return itertools.product(*map(range, batch))


def checked_lengths(lengths: Any, shape: tuple[int, ...], most: Any, values: Array) -> Array | None:
    """Lengths of this shape in 0..most, as int64 beside ``values``; None stays None. Raises ValueError, TypeError."""
    if lengths is None:
        return None
    lengths = arrays.integers("lengths", lengths, Place.of(values))
    if tuple(lengths.shape) != shape:
        raise ValueError(f"lengths: expected shape {shape}, got {tuple(lengths.shape)}")
    if not arrays.concrete(lengths):
        return lengths
    given = host(lengths)
    for b in map(tuple, np.argwhere((given < 0) | (given > most))[:1].tolist()):
        raise ValueError(f"lengths: expected 0..{np.broadcast_to(most, shape)[b]}, got {given[b]} at {b}")
    return lengths


def cut(outputs: Array, lengths: Array | None) -> Array:
    """Outputs (..., n) with -1 past each length; lengths broadcast against the leading axes, None: all n."""
    if lengths is None:
        return outputs
    xp = array_namespace(outputs)
    place = xp.arange(outputs.shape[-1], dtype=xp.int64, device=device(outputs))
    return xp.where(place < lengths[..., None], outputs, -1)


def refuse_batch(question: str, values: Array, one: str) -> None:
    """Raise ValueError unless values (p, q) are those of one structure."""
    if values.ndim != 2:
        raise ValueError(f"{question}: expected a single {one}, got a batch of shape {tuple(values.shape[:-2])}")


def total(values: Array, parts: Array) -> Array:
    """The sum (...,) of the entries of values (..., p, q) whose indicators in ``parts`` are 1."""
    xp = array_namespace(values)
    return xp.sum(xp.where(parts != 0, values, 0.0), axis=(-2, -1))


class Choices(Structure):
    """Outputs (..., p) choose a column of values (..., p, q) for each row, or -1 for none. ``chosen`` is their name."""

    chosen: ClassVar[str]

    def score(self, y: Any) -> Array:
        """Score (...,) of an output as in :meth:`parts`. Raises ValueError."""
        return total(self.scores.values, self.parts(y).values)

    def parts(self, y: Any) -> Any:
        """Indicator (..., p, q) of the choices of an output y (..., p); those past a length are ignored. -1 at every
        row means no output and has no parts. Raises ValueError.
        """
        values, lengths = self.scores
        y, (*batch, p, q) = arrays.integers("y", y, Place.of(values)), values.shape
        if tuple(y.shape) != (*batch, p):
            raise ValueError(f"y: expected {self.chosen} of shape {(*batch, p)}, got {tuple(y.shape)}")
        y = cut(y, self._rows)
        outputs, sizes = host(y), None if lengths is None else host(lengths)
        for b in places(batch):
            self._require(outputs[b], None if sizes is None else sizes[b])
        return self.scores._replace(values=one_hot(array_namespace(values), y, q, values.dtype))

    def expected_parts(self, outputs: Array, weights: Array) -> Any:
        """sum_k weights[..., k] parts(outputs[..., k, :]) of outputs (..., k, p)."""
        xp, values = array_namespace(self.scores.values), self.scores.values
        outputs = cut(outputs, None if self._rows is None else self._rows[..., None])
        parts = one_hot(xp, outputs, values.shape[-1], values.dtype)
        return self.scores._replace(values=xp.sum(parts * weights[..., None, None], axis=-3))

    def first(self) -> Self:
        """The first member of a batch along one axis; a single structure itself."""
        if self.scores.values.ndim == 2:
            return self
        return self._with(self.scores._make(None if x is None else x[0, ...] for x in self.scores))

    @property
    def _rows(self) -> Array | None:
        """The number of rows of each member, or None if all have p."""
        return self.scores.lengths

    def _require(self, y: np.ndarray, lengths: Any) -> None:
        """Raise ValueError unless y (p,) is an output of lengths, or -1 throughout."""
        raise NotImplementedError
