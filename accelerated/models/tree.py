"""Labelled trees with kernels: weights padded for them, the sparse primitives, the oracles."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated.arrays
import reference.models.tree as reference
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.models.sequence import pad, unpad
from accelerated.structures.tree import Tree
from reference.models.tree import TreeData

__all__ = ["TreeData", "TreeModel"]


class TreeModel(reference.TreeModel):
    structure_type = Tree
    arrays = accelerated.arrays

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: W (F + 1, Lp) and A (1, L, L).

        rows: those of W that are needed.
        """
        return pad(*self.split(w), rows)

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return unpad(W, A)
