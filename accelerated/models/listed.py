"""Models from plain callables, with the sparse primitives as kernels."""

import accelerated.arrays
import reference.models.listed as reference
from reference.models.listed import ListData

__all__ = ["ListData", "ListModel"]


class ListModel(reference.ListModel):
    arrays = accelerated.arrays
