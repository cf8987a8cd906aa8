"""Alignment over this panel's matchings."""

import reference.models.alignment as reference
from accelerated.structures.matching import Matching
from reference.models.alignment import AlignmentData

__all__ = ["AlignmentData", "AlignmentModel"]


class AlignmentModel(reference.AlignmentModel):
    structure_type = Matching
