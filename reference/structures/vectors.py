"""Outputs of a structure, and their parts, as vectors: what projections onto the hull of outputs compute with."""

from __future__ import annotations

import math
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Place, host
from reference.structures.chain_scores import ChainScores
from reference.structures.scores import Scores, flatten, mapped, score_fields
from reference.structures.segment_oracles import SegmentScores
from reference.structures.tree import TreeScores

__all__ = ["Vectors", "flat"]

SHARING = (ChainScores, TreeScores, SegmentScores)  # where edges may share scores


class Vectors:
    """Outputs and their parts as vectors (d,), of one space at scores in any direction.

    Each edge of a chain or tree, and each boundary of segments, has a score of its own. ``scores``: those given, 0
    where forbidden.
    """

    def __init__(self, structure: Any) -> None:
        self.given, self.space = structure.scores, structure
        if self._shares():
            n = self.given[0].shape[-len(structure.axes)]
            edges, table = n if isinstance(self.given, TreeScores) else max(n - 1, 0), self.given.pairwise
            each = array_namespace(table).broadcast_to(table, (edges, *table.shape))
            self.space = type(structure).unchecked(self.given._replace(pairwise=each))
        fields = score_fields(self.space.scores)
        cuts = np.cumsum([0, *(math.prod(x.shape) for x in fields)]).tolist()
        self.form = [(Place.of(x), slice(*ab), tuple(x.shape)) for x, ab in zip(fields, pairwise(cuts), strict=True)]
        given = flat(self.space.scores)
        self.possible = given > -np.inf
        self.scores = np.where(self.possible, given, 0.0)

    def norm(self, parts: str) -> np.ndarray:
        """1 for the possible parts that the norm is of, 0 for others."""
        if parts == "all":
            return self.possible.astype(np.float64)
        name, scores = self.space.variables, self.space.scores
        if name is None:
            kind = type(self.space).__name__
            raise ValueError(f"parts: expected 'all', as a {kind} has no variables, got 'variables'")
        of_variables = getattr(scores, name) if isinstance(scores, tuple) else scores
        each = [np.full(math.prod(x.shape), x is of_variables) for x in score_fields(scores)]
        counts: np.ndarray = self.possible & np.concatenate(each)
        return counts.astype(np.float64)

    def allows(self, vertex: np.ndarray) -> bool:
        """Whether an output of these parts is possible."""
        return bool(np.all(self.possible[vertex != 0]))

    def best(self, direction: np.ndarray) -> tuple[Any, np.ndarray]:
        """A best output at other scores, which are not checked, and its parts."""
        space = copy(self.space)
        space.scores = self._like(np.where(self.possible, direction, -np.inf))
        value, y = space.best()
        if getattr(value, "ndim", 0):
            raise ValueError(f"structure: expected one space, got a batch of shape {tuple(value.shape)}")
        return y, self.parts(y)

    def parts(self, y: Any) -> np.ndarray:
        """The parts of an output."""
        return flat(self.space.parts(y))

    def as_given(self, vector: np.ndarray) -> Scores:
        """Numbers of the parts in the form of the structure's scores: those of edges that share scores are summed."""
        numbers = self._like(vector)
        if not self._shares():
            return numbers
        return numbers._replace(pairwise=array_namespace(numbers.pairwise).sum(numbers.pairwise, axis=0))

    def _shares(self) -> bool:
        """Whether edges share scores as they are given."""
        return isinstance(self.given, SHARING) and self.given.pairwise.ndim == 2

    def _like(self, vector: np.ndarray) -> Scores:
        """In the form and the place of the scores."""
        pieces = (place.floats(vector[where].reshape(shape)) for place, where, shape in self.form)
        return mapped(lambda _: next(pieces), self.space.scores)


def flat(scores: Scores) -> np.ndarray:
    """All score fields as one float64 vector on the host."""
    return host(flatten(scores)).astype(np.float64)
