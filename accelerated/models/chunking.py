"""Chunking with kernels: the sparse primitives, the oracles, weights padded for loops."""

from __future__ import annotations

import reference.models.chunking as reference
from accelerated.models.segments import SegmentModel
from accelerated.models.sequence import LabelWeights

__all__ = ["ChunkingModel"]


class ChunkingModel(reference.ChunkingModel, LabelWeights):
    structure_type, arrays = SegmentModel.structure_type, SegmentModel.arrays
