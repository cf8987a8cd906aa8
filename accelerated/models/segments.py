"""Segments with kernels: the sparse primitives, the oracles."""

from __future__ import annotations

import accelerated.arrays
import reference.models.segments as reference
from reference.models.segments import SegmentData

__all__ = ["SegmentData", "SegmentModel"]


class SegmentModel(reference.SegmentModel):
    arrays = accelerated.arrays
