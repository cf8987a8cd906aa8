"""Two-layer scores of candidates. Linearised, they are linear scores of Jacobians, which kernels read."""

import reference.models.two_layer as reference
from accelerated.models.localization import CandidateModel
from reference.models.two_layer import elu

__all__ = ["TwoLayerModel", "elu"]


class TwoLayerModel(reference.TwoLayerModel):
    linear = CandidateModel
