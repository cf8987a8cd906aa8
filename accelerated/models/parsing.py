"""Dependency parsing with kernels: features are made from keys while arcs are scored, and never stored."""

from __future__ import annotations

from functools import cached_property

import numpy as np

import accelerated.arrays
import reference.models.parsing as reference
from accelerated.arrays import like, view
from accelerated.compiled.problems.arc_features import ArcFeatures, add_arcs, arc_scores, table_of
from accelerated.compiled.problems.weights import Weights
from accelerated.structures.arborescence import Arborescence
from accelerated.structures.projective import Projective
from reference.arrays import Array
from reference.models.base import all_of, sound
from reference.models.parsing import ParsingData
from reference.models.templates import DISTANCES
from reference.structures.arborescence import ArborescenceScores

__all__ = ["ParsingData", "ParsingModel"]


class ParsingModel(reference.ParsingModel):
    structure_type = Arborescence
    projective_type = Projective
    arrays = accelerated.arrays

    def arc_features(self, data: ParsingData) -> ArcFeatures:
        """The packed data as the kernels take them: views, and the vocabulary's hash table."""
        slots, numbers = self._table
        keys = (data.head_keys, data.modifier_keys, data.between_keys, self._reach)
        head, modifier, between, reach = (view("keys", k.view(np.int64), np.int64) for k in keys)
        mask, block = 2**self.bits - 1, 2**self.bits if self.blocks else 0
        return ArcFeatures(
            head,
            modifier,
            view("tags", data.tags, np.int64),
            between,
            reach,
            np.array(DISTANCES),
            mask,
            block,
            slots,
            numbers,
        )

    def sentences(self, data: ParsingData) -> tuple[np.ndarray, np.ndarray, tuple[bool, bool]]:
        """The offsets of the sentences, their true heads, and their trees, as :class:`ArcProblem` has them."""
        offsets, heads = view("offsets", data.offsets, np.int64), view("heads", self.true_heads(data), np.int64)
        return offsets, heads, (self.single_root, self.projective)

    def padded(self, w: np.ndarray) -> Weights:
        """Weights (d,) as the kernels take them, copied: eight to a row of W, no A."""
        W = np.zeros((-(-len(w) // 8), 8))
        W.reshape(-1)[: len(w)] = w
        return Weights(W, np.zeros((1, 0, 0)))

    def flat(self, W: np.ndarray, A: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`padded`: one vector (d,)."""
        return W.reshape(-1)[: self.size]

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """The vocabulary as a hash table, at most half full; empty without a vocabulary."""
        if self.keys is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        room = 2 ** (2 * len(self.keys) + 1).bit_length()
        table = np.zeros(room, np.int64), np.full(room, -1)
        table_of(self.keys.view(np.int64), *table)
        return table

    def scores(self, data: ParsingData, batch: np.ndarray, w: Array) -> ArborescenceScores:
        (i,) = all_of(data.n, batch)
        n = int(data.lengths[i])
        values = np.zeros((n, n + 1))
        arc_scores(self.arc_features(data), int(data.offsets[i]), n, view("w", w), values)
        return sound(ArborescenceScores(like(values, w)), w)

    def pullback(self, data: ParsingData, batch: np.ndarray, w: Array, g: ArborescenceScores) -> Array:
        (i,) = all_of(data.n, batch)
        n = int(data.lengths[i])
        gradient = np.zeros(self.size)
        add_arcs(self.arc_features(data), int(data.offsets[i]), n, view("g", g.values), gradient)
        return like(gradient, w)
