"""Gram matrices, a block of rows at a time in place."""

from __future__ import annotations

import numpy as np

import accelerated.arrays
import reference.gram as reference
from accelerated.arrays import view
from reference.arrays import Array
from reference.gram import PIECE

__all__ = ["Gram"]


class Gram(reference.Gram):
    __doc__ = reference.Gram.__doc__
    arrays = accelerated.arrays

    def _all(self) -> Array:
        """The matrix, block by block: what is in between fits the caches."""
        if not isinstance(self.X, np.ndarray):
            return super()._all()
        whole = np.empty((self.n, self.n), self.X.dtype)
        for first in range(0, self.n, PIECE):
            whole[first : first + PIECE] = self.kernel(self.X[first : first + PIECE], self.X)
        return whole


def entries(gram: reference.Gram) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What is held: the whole matrix (N, N), or a sparse one's starts (N + 1,), columns and values; what is not there is empty."""
    none = np.zeros(0, np.int64)
    if gram._whole is not None:
        return np.asarray(gram._whole), none, none, np.zeros(0)
    rows = gram._rows
    return np.zeros((0, 0)), rows.indptr, view("columns", rows.indices, np.int64), view("values", rows.data)
