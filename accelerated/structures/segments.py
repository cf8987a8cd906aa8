"""Segments: the reference's functions as kernels, over padded batches, in parallel over sequences; where each boundary
has scores of its own there are none, and the reference answers.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import reference.structures.segments as reference
from accelerated.arrays import are_sound, like, view
from accelerated.compiled.structures.segments import SegmentBatch, best_range, max_marginals_range, top_k_range
from accelerated.compiled.structures.segments_sum import sample_range, sum_range
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.threads import in_parallel, ranges, summed_in_parallel
from reference.arrays import Array
from reference.structures.base import KBest
from reference.structures.segment_oracles import number_of_outputs
from reference.structures.segments import SegmentScores

__all__ = [
    "SegmentScores",
    "Segments",
    "best_segments",
    "sample_segments",
    "segment_max_marginals",
    "segment_sums",
    "top_k_segments",
]

FIRST = np.zeros(1, np.int64)  # where the only sequence begins


def _flat(scores: SegmentScores) -> SegmentBatch:
    """A padded batch in the kernels' layout."""
    *batch, n, W, L = scores.segments.shape
    if (shape := tuple(scores.pairwise.shape)) != (L, L):
        raise ValueError(f"pairwise: shape {shape} does not fit segments {tuple(scores.segments.shape)}")
    segments, pairwise = view("segments", scores.segments), view("pairwise", scores.pairwise)
    if not batch and scores.lengths is None:
        return SegmentBatch(segments, pairwise, FIRST, np.array([n]))
    B = math.prod(batch)
    length = np.full(B, n) if scores.lengths is None else view("lengths", scores.lengths, np.int64).reshape(-1)
    if length.shape != (B,) or (B and not 0 <= length.min() <= length.max() <= n):
        raise ValueError(f"lengths: expected {B} numbers in 0..{n}, got {length.tolist()[:9]}")
    return SegmentBatch(segments.reshape(B * n, W, L), pairwise, np.arange(B) * n, length)


def _pieces(flat: SegmentBatch) -> list[tuple[int, int]]:
    """Ranges of sequences for threads, by their numbers of segments of one label."""
    if len(flat.length) == 1:
        return [(0, 1)]
    return ranges(np.concatenate([[0], np.cumsum(flat.length * flat.segments.shape[1])]))


@mirrors(reference.best_segments)
def best_segments(scores: SegmentScores) -> tuple[Array, Array]:
    if scores.pairwise.ndim > 2:
        return reference.best_segments(scores)
    flat, (*batch, n, _, _) = _flat(scores), scores.segments.shape
    value, rows = np.empty(len(flat.start)), np.full((len(flat.start), n, 3), -1)
    in_parallel(lambda lo, hi: best_range(lo, hi, flat, value, rows), _pieces(flat))
    return like(value.reshape(batch), scores.segments), like(rows.reshape(*batch, n, 3), scores.segments)


@mirrors(reference.segment_sums)
def segment_sums(scores: SegmentScores, mu: float = 1.0) -> tuple[Array, SegmentScores]:
    if scores.pairwise.ndim > 2:
        return reference.segment_sums(scores, mu)
    flat, (*batch, _, _, _) = _flat(scores), scores.segments.shape
    value, marginals = np.empty(len(flat.start)), np.zeros(flat.segments.shape)

    def run(lo: int, hi: int, sums: tuple[np.ndarray]) -> None:
        sum_range(lo, hi, flat, float(mu), value, marginals, *sums)

    _, (pairs,) = summed_in_parallel(run, _pieces(flat), lambda: (np.zeros(flat.pairwise.shape),))
    shares, pairs = (like(x, scores.segments) for x in (marginals.reshape(scores.segments.shape), pairs))
    return like(value.reshape(batch), scores.segments), scores._replace(segments=shares, pairwise=pairs)


@mirrors(reference.top_k_segments)
def top_k_segments(scores: SegmentScores, k: int) -> KBest:
    if scores.pairwise.ndim > 2:
        return reference.top_k_segments(scores, k)
    flat, (*batch, n, W, L) = _flat(scores), scores.segments.shape
    kept = number_of_outputs(n, W, L, k)
    value, rows = np.full((len(flat.start), kept), -np.inf), np.full((len(flat.start), kept, n, 3), -1)
    in_parallel(lambda lo, hi: top_k_range(lo, hi, flat, value, rows), _pieces(flat))
    shape = (*batch, kept)
    return k_best(like(value.reshape(shape), scores.segments), like(rows.reshape(*shape, n, 3), scores.segments), k)


@mirrors(reference.sample_segments)
def sample_segments(scores: SegmentScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    if scores.pairwise.ndim > 2:
        return reference.sample_segments(scores, uniforms, mu)
    flat, (*batch, n, _, _) = _flat(scores), scores.segments.shape
    *leading, size, _, _ = shape = tuple(uniforms.shape)
    if (*leading, *shape[-2:]) != (*batch, n, 2):
        raise ValueError(f"uniforms: shape {shape} does not fit segments {tuple(scores.segments.shape)}")
    numbers = view("uniforms", uniforms).reshape(len(flat.start), size, n, 2)
    value, rows = np.empty(len(flat.start)), np.full((len(flat.start), size, n, 3), -1)
    in_parallel(lambda lo, hi: sample_range(lo, hi, flat, float(mu), numbers, value, rows), _pieces(flat))
    return like(value.reshape(batch), scores.segments), like(rows.reshape(*batch, size, n, 3), scores.segments)


@mirrors(reference.segment_max_marginals)
def segment_max_marginals(scores: SegmentScores) -> SegmentScores:
    if scores.pairwise.ndim > 2:
        return reference.segment_max_marginals(scores)
    flat, (*batch, n, _, L) = _flat(scores), scores.segments.shape
    values = np.full(flat.segments.shape, -np.inf)
    pairs = np.full((len(flat.start), max(n - 1, 0), L, L), -np.inf)
    in_parallel(lambda lo, hi: max_marginals_range(lo, hi, flat, values, pairs), _pieces(flat))
    each, pairs = values.reshape(scores.segments.shape), pairs.reshape(*batch, *pairs.shape[1:])
    return scores._replace(segments=like(each, scores.segments), pairwise=like(pairs, scores.segments))


class Segments(reference.Segments):
    ops = sys.modules[__name__]

    def __init__(self, segments: Any, pairwise: Any, lengths: Any = None) -> None:
        sound = lengths is None and are_sound(segments, pairwise) and segments.ndim >= 3
        if sound and min(segments.shape[-2:]) >= 1 and pairwise.shape == (segments.shape[-1],) * 2:
            self.scores = SegmentScores(segments, pairwise)
            return
        super().__init__(segments, pairwise, lengths)
