"""Dense weights, any of which an example may touch, as kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.compiled.problems.weights import ALL, Weights

__all__ = ["DenseWeights"]


class DenseWeights:
    """The layout of a model whose weights are all dense."""

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: no rows, A (1, 1, d)."""
        return Weights(np.zeros((0, 8)), w.reshape(1, 1, -1).copy())

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return A.reshape(-1)
