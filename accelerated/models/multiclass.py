"""Multiclass classification with the sparse primitives as kernels."""

import accelerated.arrays
import reference.models.multiclass as reference
from reference.models.multiclass import MulticlassData

__all__ = ["MulticlassData", "MulticlassModel"]


class MulticlassModel(reference.MulticlassModel):
    __doc__ = reference.MulticlassModel.__doc__
    arrays = accelerated.arrays
