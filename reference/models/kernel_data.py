"""Packed sequences for kernels, and weights over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, Rows, host
from reference.example_errors import ExampleError, each_example, values_of
from reference.gram import PIECE, Gram
from reference.models.base import Concatenated, check_labels
from reference.packed import check_offsets

__all__ = ["KernelData", "KernelWeights", "checked_sequences", "pieces", "scaled"]


@dataclass(frozen=True, eq=False, repr=False)
class KernelData(Concatenated):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1] of X (N, d); labels (N,), or None.

    grams: the Gram matrix of each kernel, None for an explicit group; rows: the sparse rows of X, scaled, if a group is
    explicit.
    """

    X: Array
    offsets: np.ndarray
    labels: Array | None
    grams: tuple[Gram | None, ...]
    rows: Rows | None

    as_given = ("grams",)
    counted = "positions"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the positions, and the kernels' matrices, labels >= 0 and sparse rows have
        the same number of positions.
        """
        if not is_array_api_obj(self.X) or self.X.ndim != 2:
            raise ValueError(f"X: expected an array (N, d), got {getattr(self.X, 'shape', type(self.X).__name__)}")
        xp, N = array_namespace(self.X), int(self.X.shape[0])
        if self.X.dtype not in (xp.float32, xp.float64):
            raise TypeError(f"X: expected float32 or float64, got {self.X.dtype}")
        if not bool(xp.all(xp.isfinite(self.X))):
            raise ValueError("X: expected finite numbers")
        check_offsets("offsets", self.offsets, N, "positions")
        for k, gram in enumerate(self.grams):
            if gram is None and self.rows is None:
                raise ValueError(f"rows: expected sparse rows, as group {k} is explicit, got None")
            if gram is not None and (not isinstance(gram, Gram) or gram.n != N):
                raise ValueError(f"grams[{k}]: expected a Gram matrix of {N} positions")
        if self.rows is not None and (
            not isinstance(self.rows, Rows) or (self.rows.n, self.rows.width) != tuple(self.X.shape)
        ):
            raise ValueError(f"rows: expected sparse rows of shape {tuple(self.X.shape)}, as X has")
        check_labels(self.labels, N, xp)


class KernelWeights(NamedTuple):
    """The learned weights, with everything that a prediction needs.

    coefficients: of each group, (N, L) over the rows, or (d, L); transitions (q, L, L); squared_norms (p,) on the host;
    rows (N, d): training positions. q: 1 if transitions are a group of their own (then the last of p) or free, and the
    number of kernels if each kernel has its own.
    """

    coefficients: tuple[Array, ...]
    transitions: Array
    squared_norms: np.ndarray
    rows: Array

    @property
    def beta(self) -> np.ndarray:
        """The groups' share (p,) in the sum of norms; all 0 if the sum is 0."""
        norms = np.sqrt(self.squared_norms)
        shares: np.ndarray = norms / total if (total := norms.sum()) > 0 else norms
        return shares


def scaled(X: Array) -> Array:
    """Rows (n, d) scaled to length 1; rows of zeros stay."""
    xp = array_namespace(X)
    top = xp.max(xp.abs(X), axis=1, keepdims=True) if X.shape[1] else xp.zeros_like(X)
    X = X / xp.where(top > 0, top, xp.ones_like(top))
    lengths = xp.sqrt(xp.sum(X * X, axis=1))[:, None]
    return X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def pieces(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Consecutive ranges of sequences of about PIECE positions."""
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], PIECE))
    cuts = np.unique([0, *cuts.tolist(), len(offsets) - 1])
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def checked_sequences(X: Any, width: int | None = None) -> list[np.ndarray]:
    """Arrays (n_i, d) of finite numbers on the host, d = ``width`` or that of the first. Errors name the sequence."""
    each = each_example("X", X, lambda name, x: host(x.toarray() if hasattr(x, "toarray") else values_of(x), name))
    if width is None:
        width = next((x.shape[1] for x in each if x.ndim == 2), None)
    for i, x in enumerate(each):
        if x.ndim != 2 or x.shape[1] != width or x.dtype.kind not in "fiub" or not np.all(np.isfinite(x)):
            columns = "d" if width is None else width
            if x.ndim == 2 and x.shape[1] == width and x.dtype.kind == "f":
                t, column = np.argwhere(~np.isfinite(x))[0].tolist()
                raise ExampleError("X", i, t, f"column {column}: expected a finite number, got {x[t, column]}")
            problem = f"expected finite numbers of shape (n, {columns}), got {x.dtype} of shape {x.shape}"
            raise ExampleError("X", i, None, problem)
    return each
