"""Chunking with kernels: the sparse primitives, the oracles."""

from __future__ import annotations

import reference.models.chunking as reference
from accelerated.models.segments import SegmentModel

__all__ = ["ChunkingModel"]


class ChunkingModel(reference.ChunkingModel):
    structure_type, arrays = SegmentModel.structure_type, SegmentModel.arrays
