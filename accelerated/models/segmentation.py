"""Segmentation with the fast panel's minimum cuts and sparse primitives, and dense weights for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

import accelerated.arrays
import reference.models.segmentation as reference
from accelerated.compiled.problems.weights import ALL, Weights
from accelerated.models.dense import DenseWeights
from accelerated.structures.cut import Cut
from reference.models.segmentation import SegmentationData, check_edge_weights, grid_edges

__all__ = ["SegmentationData", "SegmentationModel", "grid_edges"]


class SegmentationModel(reference.SegmentationModel, DenseWeights):
    structure_type = Cut
    arrays = accelerated.arrays

    def padded(self, w: np.ndarray, rows: Any = ALL) -> Weights:
        """Weights (d,) as the kernels take them, copied: no rows, A (1, 1, d). Raises ValueError if an edge weight is <
        0.
        """
        check_edge_weights(self.split(w)[1])
        return super().padded(w, rows)
