"""Gram matrices: several from one matrix of inner products, computed in place, a few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace

import accelerated.arrays
import reference.gram as reference
from accelerated.arrays import numbers, view
from accelerated.compiled.rows import nonzero
from reference.arrays import Array, Rows
from reference.gram import BUDGET, STORAGES, chosen_storage, refuse_overflow
from reference.kernels import Kernel, Products, checked_rows

__all__ = ["STORAGES", "Gram"]

ROWS = 256  # computed at a time


class Gram(reference.Gram):
    arrays = accelerated.arrays

    @classmethod
    def several(
        cls, kernels: Sequence[Kernel], X: Array, storage: str = "auto", budget: int = BUDGET
    ) -> list[reference.Gram]:
        """The matrices of several kernels under one budget for all; dense matrices are one array (D, N, N)."""
        X, _ = checked_rows(X, X)
        if not isinstance(X, np.ndarray) or storage not in ("auto", "dense"):
            return super().several(kernels, X, storage, budget)
        bytes_of_one, grams, dense = X.itemsize * len(X) ** 2, [], []
        for one in kernels:
            refuse_overflow(one, X)
            gram = None
            if storage == "auto" and (storage_of := chosen_storage(one, X, max(budget, 0))) != "dense":
                gram = cls(one, X, storage_of)
            budget -= bytes_of_one if gram is None else gram.nbytes
            dense += [one] if gram is None else []
            grams.append(gram)
        whole = iter(_filled(dense, X))
        return [
            cls(one, X, whole=next(whole)) if gram is None else gram for one, gram in zip(kernels, grams, strict=True)
        ]

    def _sparse(self) -> Rows:
        if not isinstance(self.X, np.ndarray):
            return super()._sparse()
        counts, columns, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, self.X.dtype)]
        for first in range(0, self.n, ROWS):
            block = np.ascontiguousarray(self.block(first, min(first + ROWS, self.n)))
            counts.append(np.count_nonzero(block, axis=1))
            total = int(counts[-1].sum())
            columns.append(np.empty(total, np.int64))
            values.append(np.empty(total, self.X.dtype))
            nonzero(block, columns[-1], values[-1])
        indptr = np.cumsum(np.concatenate(counts), dtype=np.int64)
        return Rows.unchecked(indptr, np.concatenate(columns), np.concatenate(values), self.n)

    def _all(self) -> Array:
        return _filled([self.kernel], self.X)[0] if isinstance(self.X, np.ndarray) else super()._all()


def _filled(kernels: Sequence[Kernel], X: np.ndarray) -> np.ndarray:
    """The dense matrices of the kernels (D, N, N)."""
    whole, squares = np.empty((len(kernels), len(X), len(X)), X.dtype), np.sum(X * X, axis=1)
    for first in range(0, len(X), ROWS):
        x = X[first : first + ROWS]
        products = Products(x, X)
        products.computed = x @ X.T, squares[first : first + ROWS, None], squares[None, :]
        for number, one in enumerate(kernels):
            whole[number, first : first + ROWS] = one._shared(np, x, X, products)
    return whole


def stacked(grams: Sequence[reference.Gram]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stored matrices in the layout of the compiled rounds: place, whole, starts, columns and values.

    place (K,): index of a dense matrix in whole (D, N, N), or -1 - index of a sparse matrix in starts (S, N + 1), which
    points into columns and values.
    """
    dense = [view("whole", gram._whole, None) for gram in grams if gram._whole is not None]
    sparse = [gram._rows for gram in grams if gram._rows is not None]
    next_of = iter(range(len(dense))), iter(range(len(sparse)))
    place = [next(next_of[0]) if gram._rows is None else -1 - next(next_of[1]) for gram in grams]
    shift, N = np.cumsum([0, *(len(rows.data) for rows in sparse)]), grams[0].n if grams else 0
    return (
        np.array(place, np.int64),
        _one_upon_the_other(dense) if dense else np.zeros((0, N, N), _single_or_double(grams)),
        np.array([rows.indptr + s for rows, s in zip(sparse, shift, strict=False)], np.int64).reshape(-1, N + 1),
        np.concatenate([np.zeros(0, np.int64), *(numbers("columns", rows.indices, rows.width) for rows in sparse)]),
        np.concatenate([np.zeros(0), *(view("values", rows.data) for rows in sparse)]),
    )


def _single_or_double(grams: Sequence[reference.Gram]) -> type:
    """The dtype that dense matrices of the same data have; the rounds are compiled once for each dtype."""
    return np.float32 if grams and grams[0].X.dtype == array_namespace(grams[0].X).float32 else np.float64


def _one_upon_the_other(matrices: list[np.ndarray]) -> np.ndarray:
    """The matrices as one array (D, N, N), without a copy if they are its slices already."""
    base = matrices[0].base
    if isinstance(base, np.ndarray) and base.ndim == 3 and len(base) == len(matrices):
        starts = [matrix.__array_interface__["data"][0] for matrix in matrices]
        if starts == [x.__array_interface__["data"][0] for x in base]:
            return base
    return np.stack(matrices)
