"""Sequence labelling with kernels."""

import accelerated.arrays
import reference.models.sequence as reference
from accelerated.structures.chain import Chain
from reference.models.sequence import ChainData

__all__ = ["ChainData", "SequenceModel"]


class SequenceModel(reference.SequenceModel):
    __doc__ = reference.SequenceModel.__doc__
    structure_type = Chain
    arrays = accelerated.arrays
