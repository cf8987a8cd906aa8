"""Alignment over this panel's matchings, with dense weights for kernels."""

import reference.models.alignment as reference
from accelerated.models.dense import DenseWeights
from accelerated.structures.matching import Matching
from reference.models.alignment import AlignmentData

__all__ = ["AlignmentData", "AlignmentModel"]


class AlignmentModel(reference.AlignmentModel, DenseWeights):
    structure_type = Matching
