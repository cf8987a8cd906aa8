"""SegmentBatch of sequences: the reference's functions as kernels, over padded batches, in parallel over sequences."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import reference.structures.segments as reference
from accelerated.arrays import are_sound, like, view
from accelerated.compiled.structures.segments import SegmentBatch, best_range, max_marginals_range, top_k_range
from accelerated.compiled.structures.segments_sum import sample_range, sum_range
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best, of_batch
from accelerated.threads import ranges, summed_in_parallel
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


def _flat(scores: SegmentScores) -> tuple[SegmentBatch, list[tuple[int, int]]]:
    """A padded batch in the kernels' layout, and its pieces for threads, by their numbers of segments of one label."""
    *batch, n, W, L = scores.segments.shape
    if tuple(scores.pairwise.shape) != (L, L):
        raise ValueError(
            f"pairwise: shape {tuple(scores.pairwise.shape)} does not fit segments {tuple(scores.segments.shape)}"
        )
    segments, pairwise = view("segments", scores.segments), view("pairwise", scores.pairwise)
    B = math.prod(batch)
    length = np.full(B, n)
    if scores.lengths is not None:
        length = view("lengths", scores.lengths, np.int64).reshape(-1)
        if length.shape != (B,) or (B and not 0 <= length.min() <= length.max() <= n):
            raise ValueError(f"lengths: expected {B} numbers in 0..{n}, got {length.tolist()[:9]}")
    pieces = [(0, 1)] if B == 1 else ranges(np.concatenate([[0], np.cumsum(length * W)]))
    return SegmentBatch(segments.reshape(B * n, W, L), pairwise, np.arange(B) * n, length), pieces


def _shared(original: Callable[..., Any]) -> Callable[..., Any]:
    """Mirrors a function of the reference, which answers itself where each boundary has scores of its own: there are no
    kernels for these.
    """

    def of_kernels(function: Callable[..., Any]) -> Callable[..., Any]:
        @mirrors(original)
        @wraps(function)
        def chosen(scores: SegmentScores, *given: Any, **named: Any) -> Any:
            return (original if scores.pairwise.ndim > 2 else function)(scores, *given, **named)

        return chosen

    return of_kernels


def _of_batch(kernel: Callable[..., Any], scores: SegmentScores, given: tuple[Any, ...], *rooms: Any) -> Any:
    """What a kernel of ranges of sequences answers beside what it is given; rooms as for :func:`of_batch`."""
    flat, pieces = _flat(scores)
    batch, place = scores.segments.shape[:-3], scores.segments
    return of_batch(lambda lo, hi, *arrays: kernel(lo, hi, flat, *given, *arrays), pieces, batch, place, *rooms)


@_shared(reference.best_segments)
def best_segments(scores: SegmentScores) -> tuple[Array, Array]:
    return _of_batch(best_range, scores, (), (0.0,), (-1, scores.segments.shape[-3], 3))


@_shared(reference.segment_sums)
def segment_sums(scores: SegmentScores, mu: float = 1.0) -> tuple[Array, SegmentScores]:
    (flat, pieces), batch = _flat(scores), scores.segments.shape[:-3]
    value, marginals = np.empty(len(flat.start)), np.zeros(flat.segments.shape)

    def run(lo: int, hi: int, sums: tuple[np.ndarray]) -> None:
        sum_range(lo, hi, flat, float(mu), value, marginals, *sums)

    _, (pairs,) = summed_in_parallel(run, pieces, lambda: (np.zeros(flat.pairwise.shape),))
    return like(value.reshape(batch), scores.segments), scores._replace(
        segments=like(marginals.reshape(scores.segments.shape), scores.segments),
        pairwise=like(pairs, scores.segments),
    )


@_shared(reference.top_k_segments)
def top_k_segments(scores: SegmentScores, k: int) -> KBest:
    *_, n, W, L = scores.segments.shape
    kept = number_of_outputs(n, W, L, k)
    values, labels = _of_batch(top_k_range, scores, (), (-np.inf, kept), (-1, kept, n, 3))
    return k_best(values, labels, k)


@_shared(reference.sample_segments)
def sample_segments(scores: SegmentScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    *batch, n, _, _ = scores.segments.shape
    *leading, size, _, _ = shape = tuple(uniforms.shape)
    if (*leading, *shape[-2:]) != (*batch, n, 2):
        raise ValueError(f"uniforms: shape {shape} does not fit segments {tuple(scores.segments.shape)}")
    numbers = view("uniforms", uniforms).reshape(math.prod(batch), size, n, 2)
    return _of_batch(sample_range, scores, (float(mu), numbers), (0.0,), (-1, size, n, 3))


@_shared(reference.segment_max_marginals)
def segment_max_marginals(scores: SegmentScores) -> SegmentScores:
    *_, n, W, L = scores.segments.shape
    rooms = (-np.inf, n, W, L), (-np.inf, max(n - 1, 0), L, L)
    values, pairs = _of_batch(max_marginals_range, scores, (), *rooms)
    return SegmentScores(values, pairs, scores.lengths)


class Segments(reference.Segments):
    ops = sys.modules[__name__]

    def __init__(self, segments: Any, pairwise: Any, lengths: Any = None) -> None:
        sound = lengths is None and are_sound(segments, pairwise) and segments.ndim >= 3
        if sound and min(segments.shape[-2:]) >= 1 and pairwise.shape == (segments.shape[-1],) * 2:
            self.scores = SegmentScores(segments, pairwise)
            return
        super().__init__(segments, pairwise, lengths)
