"""Multiclass classification with kernels: packed data as problems, weights padded for them, sparse primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated.arrays
import reference.models.multiclass as reference
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.compiled.sweeps import padded
from reference.models.multiclass import MulticlassData

__all__ = ["MulticlassData", "MulticlassModel"]


class MulticlassModel(reference.MulticlassModel):
    arrays = accelerated.arrays

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: W (F, Lp), no A. rows: those of W that are needed."""
        W = np.zeros((self.n_features, padded(self.n_labels)))
        W[rows, : self.n_labels] = w.reshape(self.n_features, self.n_labels)[rows]
        return Weights(W, np.zeros((1, 0, 0)))

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return W[:, : self.n_labels].ravel()
