"""Localisation with kernels that read the candidates' features in the dtype in which they are stored."""

from __future__ import annotations

import math

import numpy as np

import reference.models.localization as reference
from accelerated.arrays import like, view
from accelerated.compiled.problems.candidates import add_weighted, score_range
from accelerated.models.dense import DenseWeights
from reference.arrays import Array
from reference.models.base import sound
from reference.models.localization import CandidateData, Candidates
from reference.structures.table import TableScores

__all__ = ["CandidateData", "CandidateModel", "Candidates"]


def table_of(data: CandidateData) -> np.ndarray:
    """The features (N, d) of all candidates, without a copy; a memory map becomes a plain array."""
    return np.asarray(data.features).reshape(len(data.features), math.prod(data.shape))


class CandidateModel(reference.CandidateModel, DenseWeights):
    def scores(self, data: CandidateData, batch: np.ndarray, w: Array) -> TableScores:
        weights, table = view("w", w), table_of(data)
        scores = np.empty(data.candidates(batch).shape)
        for row, i in enumerate(batch.tolist()):
            score_range(table, data.offsets[i], data.offsets[i + 1], weights, scores[row])
        return sound(TableScores(like(scores, w)), w)

    def pullback(self, data: CandidateData, batch: np.ndarray, w: Array, g: TableScores) -> Array:
        factors, gradient = view("g", g.values).ravel(), np.zeros(self.size)
        some = np.flatnonzero(factors)
        add_weighted(table_of(data), data.candidates(batch).ravel()[some], factors[some], gradient)
        return like(gradient, w)
