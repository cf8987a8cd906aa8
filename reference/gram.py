"""Gram matrices of the rows of an array: dense, sparse, or computed a few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Rows, host, integer
from reference.kernels import Kernel, Precomputed, checked_rows, is_known, symmetrised, titled, warn_if_indefinite

__all__ = ["STORAGES", "Gram"]

STORAGES = ("auto", "dense", "sparse", "blocks")
BUDGET = 2**30  # bytes
PIECE = 256  # rows computed at a time


class Gram:
    """K (N, N) of the rows of X (N, d) under a kernel; :meth:`several` makes those of more than one.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, d)
    storage : {"auto", "dense", "sparse", "blocks"}
        "dense" and "sparse" hold the matrix or its non-zeros in memory; "blocks" computes rows when they are used.
        "auto": the first of these that takes at most ``budget`` bytes, but sparse if that takes at most half of
        dense.
    budget : int >= 0
        Bytes for "auto".
    whole : array (N, N), optional
        The matrix, if it is known; it stays in memory.

    Attributes
    ----------
    storage : str
        The storage in use.
    nbytes : int
        Bytes of the matrix, without X.

    Raises
    ------
    ValueError, TypeError
        ``kernel`` is not a kernel; an unknown storage; the errors of :class:`Kernel` for X; a number of the matrix that
        is not finite, a matrix that is not symmetric up to rounding (:func:`reference.kernels.symmetrised`).

    Notes
    -----
    A user's kernel is checked for symmetry, and its rounding errors are averaged; for this, "sparse" and "blocks" also
    compute the transposed block. A warning is given if the Gram matrix of at most 256 rows, evenly spaced, has a
    negative eigenvalue.
    """

    arrays = reference.arrays

    def __init__(
        self, kernel: Kernel, X: Array, storage: str = "auto", budget: int = BUDGET, whole: Array | None = None
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel: expected a Kernel such as Linear(), got {kernel!r}")
        if storage not in STORAGES:
            raise ValueError(f"storage: expected one of {', '.join(STORAGES)}, got {storage!r}")
        self.kernel, (self.X, _) = kernel, checked_rows(X, X)
        self.n, budget = int(self.X.shape[0]), integer("budget", budget, 0)
        self.storage = storage if whole is None else "dense"
        self._symmetric, self._name = is_known(kernel, Precomputed), f"kernel {titled(kernel)}"
        if whole is None:
            refuse_overflow(kernel, self.X)
        if self.storage == "auto":
            self.storage = chosen_storage(kernel, self.X, budget)
        self._whole = whole
        self._rows: Rows | None = None
        if self.storage == "sparse":
            self._rows = self._sparse()
        if self.storage == "dense" and whole is None:
            self._whole = self._all()
        if self._whole is not None and not self._symmetric:
            self._whole = symmetrised(self._name, self._whole)
        warn_if_indefinite(kernel, self.X)
        entries = self.n**2 * (self.storage == "dense")
        itemsize = host(self.X[:0, :]).dtype.itemsize
        self.nbytes = itemsize * entries if self._rows is None else (itemsize + 8) * int(self._rows.indptr[-1])

    @classmethod
    def several(cls, kernels: Sequence[Kernel], X: Array, storage: str = "auto", budget: int = BUDGET) -> list[Gram]:
        """The matrices of several kernels; the budget is for all together."""
        grams: list[Gram] = []
        for kernel in kernels:
            grams.append(cls(kernel, X, storage, max(budget - sum(gram.nbytes for gram in grams), 0)))
        return grams

    def block(self, first: int, last: int, columns: slice = slice(None)) -> Array:
        """K[first:last, columns] (last - first, m)."""
        if self._whole is not None:
            return self._whole[first:last, columns]
        xp, x, y = array_namespace(self.X), self.X[first:last, :], self.X[columns, :]
        K = self.kernel._block(xp, x, y)
        if self._symmetric:
            return K
        return symmetrised(
            self._name, K, self.kernel._block(xp, y, x), range(self.n)[first:last], range(self.n)[columns]
        )

    def times(self, first: int, last: int, A: Array) -> Array:
        """K[first:last, :] A (last - first, L) of A (N, L)."""
        if self._rows is not None:
            return self.arrays.gather_sum(self._rows.take(np.arange(first, last)), A)
        xp = array_namespace(A)
        if self._whole is not None or last - first <= PIECE:
            return xp.matmul(self.block(first, last), A)
        pieces = range(first, last, PIECE)
        return xp.concat([xp.matmul(self.block(i, min(i + PIECE, last)), A) for i in pieces])

    def square(self, A: Array) -> float:
        """sum over labels of a' K a for the columns a of A (N, L); not below 0."""
        xp, total = array_namespace(A), 0.0
        for first in range(0, self.n, PIECE):
            last = min(first + PIECE, self.n)
            total += float(xp.sum(A[first:last, :] * self.times(first, last, A)))
        return max(total, 0.0)

    def _all(self) -> Array:
        return self.kernel._block(array_namespace(self.X), self.X, self.X)

    def _sparse(self) -> Rows:
        pieces = [host(self.block(i, min(i + PIECE, self.n))) for i in range(0, self.n, PIECE)]
        nonzeros = [np.nonzero(piece) for piece in pieces]
        counts = [np.bincount(rows, minlength=len(piece)) for (rows, _), piece in zip(nonzeros, pieces, strict=True)]
        place = reference.arrays.Place.of(self.X)
        columns = np.concatenate([np.zeros(0, np.int64), *(c for _, c in nonzeros)])
        data = np.concatenate([np.zeros(0), *(piece[places] for places, piece in zip(nonzeros, pieces, strict=True))])
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *counts]))]).astype(np.int64)
        return Rows.unchecked(indptr, place.integers(columns), place.floats(data), self.n)


def refuse_overflow(kernel: Kernel, X: Array) -> None:
    """Raise ValueError at the first row of X (n, d) for which a kernel of this package overflows, also with itself."""
    if is_known(kernel, Precomputed):
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = host(kernel.diagonal(X))
        for i in np.flatnonzero(~np.isfinite(diagonal))[:1].tolist():
            got = f"got {diagonal[i]} at index ({i}, {i}): scale the features"
            raise ValueError(f"kernel {titled(kernel)}: expected finite numbers, {got}")


def chosen_storage(kernel: Kernel, X: Array, budget: int) -> str:
    """The form that "auto" chooses; the number of zeros is estimated from PIECE rows, spread evenly."""
    itemsize, n = host(X[:0, :]).dtype.itemsize, int(X.shape[0])
    dense, sparse = itemsize * n**2, 0
    some = np.unique(np.arange(min(PIECE, n)) * n // max(min(PIECE, n), 1))
    if len(some):
        part = array_namespace(X).take(X, reference.arrays.Place.of(X).integers(some), axis=0)
        share = np.count_nonzero(host(kernel._block(array_namespace(X), part, X))) / (len(some) * n)
        sparse = int((itemsize + 8) * share * n**2)
    if sparse <= min(budget, dense // 2):
        return "sparse"
    return "dense" if dense <= budget else "blocks"
