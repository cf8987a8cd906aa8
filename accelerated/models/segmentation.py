"""Segmentation with the fast panel's minimum cuts and sparse primitives."""

import accelerated.arrays
import reference.models.segmentation as reference
from accelerated.structures.cut import Cut
from reference.models.segmentation import SegmentationData, grid_edges

__all__ = ["SegmentationData", "SegmentationModel", "grid_edges"]


class SegmentationModel(reference.SegmentationModel):
    structure_type = Cut
    arrays = accelerated.arrays
