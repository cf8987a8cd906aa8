"""Mistake: the range of a transition from a label to itself is bounded as that between two labels, by floor(n/2)."""

import numpy as np

import reference
from reference import *  # noqa: F403


class SequenceModel(reference.SequenceModel):
    def feature_range(self, data):
        found, L = super().feature_range(data), self.n_labels
        if L > 1:
            pairwise = found[-L * L :].reshape(L, L)
            pairwise[np.arange(L), np.arange(L)] = pairwise[0, 1]
        return found
