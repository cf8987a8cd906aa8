"""The scores of segments, and functions that all oracles of segments use.

The oracles go from token to token. A segment of w + 1 tokens that ends at token e began at e - w: beside the scores by
last token (..., n, L, W) they keep a window (..., L, W) of numbers of the last W starts, that of start e - w at w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from reference.arrays import Array, index_add

__all__ = [
    "SegmentScores",
    "by_first",
    "by_last",
    "cells",
    "counted",
    "fits",
    "inner_or_last",
    "nothing",
    "shifted",
    "walked",
]

Step = Callable[[int, Array], tuple[Array, Array, Array]]


class SegmentScores(NamedTuple):
    """The scores of a batch of sequences in segments, or a gradient with respect to them: the shapes are the same.

    segments (..., n, W, L): segments[s, w, l] is the score of label l on the w + 1 tokens s..s+w, ignored where they
    reach past the end; pairwise (L, L) shared by all boundaries and sequences, or (..., n-1, L, L), one for each place
    where a segment may begin after another; lengths (...,) int64, or None if every sequence has length n.
    """

    segments: Array
    pairwise: Array
    lengths: Array | None = None


SegmentScores.layout = ("lengths",)  # type: ignore[attr-defined]  # no scores: every oracle returns them unchanged


def nothing(xp: Any, scores: SegmentScores) -> tuple[Array, Array]:
    """Value 0 (...,) and the empty output (..., 0, 3), for sequences with n = 0."""
    batch, place = tuple(scores.segments.shape[:-3]), device(scores.segments)
    value = xp.zeros(batch, dtype=scores.segments.dtype, device=place)
    return value, xp.zeros((*batch, 0, 3), dtype=xp.int64, device=place)


def fits(xp: Any, scores: SegmentScores) -> Array:
    """Booleans (..., n, W, 1): True for the segments that end within their sequence."""
    *_, n, W, _ = scores.segments.shape
    count = xp.arange(n + W, dtype=xp.int64, device=device(scores.segments))
    last = count[:n, None, None] + count[:W, None]
    return last < (n if scores.lengths is None else scores.lengths[..., None, None, None])


def by_last(xp: Any, scores: SegmentScores) -> Array:
    """Scores (..., n, L, W) by last token, label and w; -inf where there is no such segment."""
    within = xp.where(fits(xp, scores), scores.segments, -xp.inf)
    return xp.matrix_transpose(_sheared(xp, within, -1, -xp.inf))


def by_first(xp: Any, x: Array) -> Array:
    """Numbers (..., n, L, W) by last token as (..., n, W, L) by first; 0 for segments that reach past the end."""
    return _sheared(xp, xp.matrix_transpose(x), 1, 0.0)


def _sheared(xp: Any, x: Array, sign: int, outside: float) -> Array:
    """[..., t, w, :] = x[..., t + sign w, w, :], or ``outside`` where there is no such entry."""
    *batch, n, W, L = x.shape
    count = xp.arange(n + W, dtype=xp.int64, device=device(x))
    w = count[:W]
    t = count[:n, None] + sign * w
    inside = (t >= 0) & (t < n)
    index = xp.reshape(xp.where(inside, t, 0) * W + w, (n * W,))
    moved = xp.take(xp.reshape(x, (*batch, n * W, L)), index, axis=-2)
    return xp.where(inside[..., None], xp.reshape(moved, (*batch, n, W, L)), outside)


def shifted(xp: Any, window: Array | None, newest: Array, size: int) -> Array:
    """A window (..., L, size) one token on: ``newest`` (..., L, k) come in front, the oldest leave; None: of -inf."""
    if window is None:
        window = xp.full((*newest.shape[:-1], size), -xp.inf, dtype=newest.dtype, device=device(newest))
    return xp.concat([newest, window[..., : size - newest.shape[-1]]], axis=-1)


def inner_or_last(xp: Any, lengths: Array | None, e: int, inner: Array, last: Array) -> Array:
    """``last`` for the sequences of which token e is the last, ``inner`` for others; None: it is the last of none."""
    if lengths is None:
        return inner
    ends = xp.reshape(lengths == e + 1, tuple(lengths.shape) + (1,) * (last.ndim - lengths.ndim))
    return xp.where(ends, last, inner)


def walked(scores: SegmentScores, state: Array, step: Step) -> Array:
    """Outputs (..., size, n, 3) found from the last token backwards: rows (start, w, label), then rows of -1.

    ``step(e, state)``: w, label and state of the segment that ends at token e, given the state (..., size) of the one
    that begins at e + 1; of the last segment it is given any.
    """
    xp, n = array_namespace(state), scores.segments.shape[-3]
    last = xp.zeros_like(state) + (n if scores.lengths is None else scores.lengths[..., None]) - 1
    rows = []
    for e in range(n - 1, -1, -1):
        w, label, own = step(e, state)
        ends = last == e
        rows.append(xp.where(ends[..., None], xp.stack([e - w, w, label], axis=-1), -1))
        state, last = xp.where(ends, own, state), xp.where(ends, e - w - 1, last)
    by_token = xp.stack(rows[::-1], axis=-2)
    order = xp.argsort(xp.where(by_token[..., 0] < 0, n, by_token[..., 0]), axis=-1)
    return xp.take_along_axis(by_token, xp.broadcast_to(order[..., None], by_token.shape), axis=-2)


def cells(scores: SegmentScores, rows: Array) -> tuple[Array, Array, Array, Array]:
    """Of rows (..., n, 3): the index (..., n) of each in the flat segments and whether it exists; the index (..., n-1)
    of each boundary in the flat pairwise scores and whether it does.
    """
    xp = array_namespace(rows)
    *_, n, W, L = scores.segments.shape
    start, w, label = rows[..., 0], rows[..., 1], rows[..., 2]
    exists = start >= 0
    later = slice(min(n, 1), n)
    pair = label[..., : max(n - 1, 0)] * L + label[..., later]
    if scores.pairwise.ndim > 2:
        pair = pair + (start[..., later] - 1) * L**2
    index = xp.where(exists, (start * W + w) * L + label, 0)
    return index, exists, xp.where(exists[..., later], pair, 0), exists[..., later]


def counted(field: Array, index: Array, weights: Array) -> Array:
    """Weights (*batch, m) added up at the flat index (*batch, m): shaped like the field, of each member or shared."""
    xp, size = array_namespace(weights), math.prod(field.shape)
    batch = index.shape[:-1]
    if field.ndim > 2:
        members = math.prod(batch)
        first = xp.arange(members, dtype=xp.int64, device=device(index)) * (size // max(members, 1))
        index = index + xp.reshape(first, (*batch, 1))
    total = math.prod(index.shape)
    sums = index_add(xp, size, xp.reshape(index, (total,)), xp.reshape(weights, (total, 1)))
    return xp.reshape(sums, field.shape)
