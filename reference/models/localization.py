"""Localisation: finds the box of an object in an image by a linear score of candidate boxes.

    score(y; w) = <w, phi(x, y)>,   loss(y) = 1 - IoU(y, y_true)

Source: Pillutla et al., section 7.1.2, after R-CNN (Girshick et al., 2014).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host, one_hot
from reference.models.base import LinearModel, integer, sound, squared_spread
from reference.models.candidate_data import (
    CandidateData,
    Candidates,
    check_candidates,
    pack_candidates,
    pieces_of_equal_length,
)
from reference.structures.table import Table, TableScores

__all__ = ["CandidateData", "CandidateModel", "Candidates"]


class CandidateModel(LinearModel):
    """Finds the best candidate box of an image by a linear score of features.

    score(y; w) = <w, phi_y>

    Outputs are numbers of candidates within their image; ``data.boxes_of(outputs)`` gives the boxes. The task loss is
    1 - IoU with the candidate that replaces the true box. One model localises objects of one class.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of one candidate's features, such as (3, 3, 64).
    max_candidates : int
        Bound on the candidates of one piece of a batch; a single image may have more.

    Attributes
    ----------
    size : int
        Number of weights, one for each feature in C order.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import CandidateModel
    >>> model = CandidateModel(2)
    >>> boxes, features = [[0, 0, 4, 4], [2, 2, 6, 6]], np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    >>> data = model.pack([(boxes, features)], [[2, 2, 6, 5]])
    >>> data.boxes_of(model.predict(data, None, np.array([0.2, 0.7]))).tolist()
    [[2, 2, 6, 6]]

    Source
    ------
    Pillutla et al., section 7.1.2.
    """

    structure_type = Table

    def __init__(self, shape: Any, *, max_candidates: int = 2048) -> None:
        sides = (shape,) if isinstance(shape, int) else tuple(shape)
        self.shape = tuple(integer("shape", side, 1) for side in sides)
        self.max_candidates = integer("max_candidates", max_candidates, 1)
        self.size = math.prod(self.shape)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> CandidateData:
        """Images X (``Candidates``, or pairs of boxes and features) and true boxes Y (n, 4), checked.

        No features are copied from ``Candidates``. See ``pack_candidates`` for arguments and errors.
        """
        data = pack_candidates(X, Y, like=like)
        if data.n and data.shape != self.shape:
            raise ValueError(f"X: expected features of shape {self.shape} for each candidate, got {data.shape}")
        return data

    def check(self, data: CandidateData) -> None:
        """Raise ValueError if ``data`` was packed with features of another shape, TypeError if it was not packed."""
        check_candidates(data, self.shape)

    def chunks(self, data: CandidateData, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of images with equally many candidates, at most ``max_candidates`` in each."""
        return pieces_of_equal_length(data, batch, self.max_candidates)

    def scores(self, data: CandidateData, batch: np.ndarray, w: Array) -> TableScores:
        """The scores (b, m) of a piece (b,) of images of m candidates each, at weights w (d,)."""
        rows = data.candidates(batch)
        return sound(TableScores(array_namespace(w).reshape(self._matrix(data, rows.ravel()) @ w, rows.shape)), w)

    def pullback(self, data: CandidateData, batch: np.ndarray, w: Array, g: TableScores) -> Array:
        """The adjoint of :meth:`scores`: g (b, m) as a gradient (d,), from the candidates where g is not 0."""
        flat = array_namespace(g.values).reshape(g.values, (-1,))
        some = np.flatnonzero(host(flat))
        weights = array_namespace(g.values).take(flat, data.place.integers(some), axis=0)
        return weights @ self._matrix(data, data.candidates(batch).ravel()[some])

    def task_loss(self, data: CandidateData, batch: np.ndarray) -> TableScores:
        """1 - IoU (b, m) of each candidate and the one that replaces the true box."""
        return TableScores(data.place.floats(data.truth()[1][data.candidates(batch)]))

    def gold(self, data: CandidateData, batch: np.ndarray) -> TableScores:
        """Indicators (b, m) of the candidates that replace the true boxes."""
        place, best = data.place, data.truth()[0][batch]
        return TableScores(one_hot(place.xp, place.integers(best), data.candidates(batch).shape[1], place.dtype))

    def gold_scores(self, data: CandidateData, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of those candidates at weights w (d,)."""
        return self._matrix(data, data.offsets[batch] + data.truth()[0][batch]) @ w

    def counts(self, data: CandidateData) -> list[int]:
        """The number of candidates of each image."""
        counts: list[int] = data.lengths.tolist()
        return counts

    def squared_norms(self, data: CandidateData) -> np.ndarray:
        """The squared spectral norm of each image's features (m, d)."""
        return np.array([np.linalg.norm(x, 2) ** 2 for x in self.tables(data)])

    def squared_diameters(self, data: CandidateData) -> np.ndarray:
        """4 max_y ||phi_y - mean phi||^2 for each image, or 0 with a single candidate."""
        return np.array([squared_spread(x) for x in self.tables(data)])

    def _matrix(self, data: CandidateData, candidates: np.ndarray) -> Array:
        """The features (k, d) of candidates (k,) on the weights' device."""
        return data.place.xp.reshape(data.tensors(candidates), (len(candidates), self.size))

    def tables(self, data: CandidateData) -> Iterator[np.ndarray]:
        """The features (m, d) of each image, float64 on the host."""
        for start, end in itertools.pairwise(data.offsets.tolist()):
            yield data.features[start:end].reshape(-1, self.size).astype(np.float64)

    def _split(self, data: CandidateData, piece: np.ndarray, outputs: Array) -> list[int]:
        numbers: list[int] = host(outputs).tolist()
        return numbers
