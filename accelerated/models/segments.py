"""Segments with kernels: the sparse primitives, the oracles, weights padded for loops."""

from __future__ import annotations

import accelerated.arrays
import reference.models.segments as reference
from accelerated.models.sequence import LabelWeights
from accelerated.structures.segments import Segments
from reference.models.segments import SegmentData

__all__ = ["SegmentData", "SegmentModel"]


class SegmentModel(reference.SegmentModel, LabelWeights):
    structure_type = Segments
    arrays = accelerated.arrays
