"""Batches of matrices of scores, each of which may use only its first rows and columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from reference import arrays
from reference.arrays import Array, Place, concrete, host

__all__ = ["checked_lengths", "cut", "places", "refuse_batch", "total"]


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
    given = host(lengths) if concrete(lengths) else np.zeros(shape)
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
