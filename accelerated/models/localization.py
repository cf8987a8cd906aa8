"""Localisation with the features of candidates read by kernels, in the dtype in which they are kept."""

import reference.models.localization as reference
from reference.models.localization import CandidateData, Candidates

__all__ = ["CandidateData", "CandidateModel", "Candidates"]


class CandidateModel(reference.CandidateModel):
    __doc__ = reference.CandidateModel.__doc__
