"""Localisation over all boxes of an image, with the fast panel's search and sparse primitives."""

import accelerated.arrays
import reference.models.subwindows as reference
from accelerated.structures.boxes import Boxes
from reference.models.subwindows import SubwindowData

__all__ = ["SubwindowData", "SubwindowModel"]


class SubwindowModel(reference.SubwindowModel):
    structure_type = Boxes
    arrays = accelerated.arrays
