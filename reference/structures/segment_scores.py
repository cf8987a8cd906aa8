"""The scores of segments, and functions that all oracles of segments use.

The oracles go from token to token. A segment of w + 1 tokens that ends at token e began at e - w: beside the scores by
last token (..., n, L, W) they keep a window (..., L, W) of numbers of the last W starts, that of start e - w at w.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from reference.arrays import Array, one_hot
from reference.structures.chain_scores import frozen, transitions

__all__ = ["SegmentScores", "by_first", "fits", "forward", "indicators", "walked"]

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


def fits(xp: Any, scores: SegmentScores) -> Array:
    """Booleans (..., n, W, 1): True for the segments that end within their sequence."""
    *_, n, W, _ = scores.segments.shape
    count = xp.arange(n + W, dtype=xp.int64, device=device(scores.segments))
    last = count[:n, None, None] + count[:W, None]
    return last < (n if scores.lengths is None else scores.lengths[..., None, None, None])


def forward(
    xp: Any, scores: SegmentScores, plus: Callable[[Array], tuple[Array, Any]], ranks: int = 1
) -> tuple[Array, list[Array], tuple[Any, list[Any], list[Any]]]:
    """The recursion of :func:`reference.structures.segments.best_segments`, of lists of numbers from high to low.

    ``plus`` is the max, the log-sum-exp or the k best: of terms (..., m, ranks) the numbers (..., ranks) of all, and
    what is kept of them. Returns the numbers (..., ranks) of whole sequences; alpha_e (..., L, ranks) of each token e;
    and what is kept: of the last labels, of the lengths of each alpha_e, of the labels before each beta_{e + 1}.
    """
    within, lengths = xp.where(fits(xp, scores), scores.segments, -xp.inf), scores.lengths
    ending = xp.matrix_transpose(_sheared(xp, within, -1, -xp.inf))  # by last token
    *batch, n, L, W = ending.shape
    rank = xp.arange(ranks, dtype=xp.int64, device=device(ending))
    zero = xp.zeros((*batch, L, 1), dtype=ending.dtype, device=device(ending))
    nothing = final = beta = xp.where(rank == 0, zero, -xp.inf)  # (..., L, ranks)
    window = xp.full((*batch, L, W * ranks), -xp.inf, dtype=ending.dtype, device=device(ending))
    ends, of_ends, of_starts = [], [], []
    for e in range(n):
        window = xp.concat([beta, window[..., :-ranks]], axis=-1)
        alpha, kept = plus(ending[..., e, :, :, None] + xp.reshape(window, (*batch, L, W, ranks)))
        ends.append(alpha)
        of_ends.append(kept)
        final = frozen(xp, lengths, e, alpha, final)
        if e + 1 < n:
            pair = xp.matrix_transpose(transitions(scores, e + 1))[..., None] + alpha[..., None, :, :]
            beta, kept = plus(pair)
            of_starts.append(kept)
    value, last = plus(final)
    empty = nothing[..., 0, :]
    return frozen(xp, lengths, 0, value, empty) if n else empty, ends, (last, of_ends, of_starts)


def by_first(xp: Any, scores: SegmentScores, x: list[Array], outside: float) -> Array:
    """Numbers (..., L, W) of each last token, shaped like the segments; ``outside`` where they reach past the end."""
    return _sheared(xp, xp.matrix_transpose(xp.stack(x, axis=-3)), 1, outside) if x else scores.segments


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


def walked(scores: SegmentScores, state: Array, step: Step) -> Array:
    """Outputs (..., size, n, 3) found from the last token backwards: rows (start, w, label), then rows of -1.

    ``step(e, state)``: w, label and state of the segment that ends at token e, given the state (..., size) of the one
    that begins at e + 1; of the last segment it is given any.
    """
    xp, n = array_namespace(state), scores.segments.shape[-3]
    last = xp.zeros_like(state) + (n if scores.lengths is None else scores.lengths[..., None]) - 1
    rows = [xp.zeros((*state.shape, 0, 3), dtype=xp.int64, device=device(state))]
    for e in range(n - 1, -1, -1):
        w, label, own = step(e, state)
        ends = last == e
        row = xp.where(ends[..., None], xp.stack([e - w, w, label], axis=-1), -1)
        rows.append(row[..., None, :])
        state, last = xp.where(ends, own, state), xp.where(ends, e - w - 1, last)
    by_token = xp.concat(rows[::-1], axis=-2)
    order = xp.argsort(xp.where(by_token[..., 0] < 0, n, by_token[..., 0]), axis=-1)
    return xp.take_along_axis(by_token, xp.broadcast_to(order[..., None], by_token.shape), axis=-2)


def indicators(scores: SegmentScores, rows: Array) -> tuple[Array, Array]:
    """Booleans: which segments (..., n, W, L) and which boundaries (..., n-1, L, L) outputs (..., n, 3) have."""
    xp = array_namespace(rows)
    *_, n, W, L = scores.segments.shape
    token, start = xp.arange(n, dtype=xp.int64, device=device(rows)), rows[..., None, :, 0]
    begun = xp.sum(xp.astype((start >= 0) & (start <= token[:, None]), xp.int64), axis=-1)
    index = xp.broadcast_to(xp.where(begun > 0, begun - 1, 0)[..., None], rows.shape)
    own = xp.take_along_axis(rows, index, axis=-2)  # the row of the segment over each token
    begins, label = own[..., 0] == token, one_hot(xp, own[..., 2], L, xp.bool)
    segments = one_hot(xp, xp.where(begins, own[..., 1] * L + own[..., 2], -1), W * L, xp.bool)
    before, after = label[..., : max(n - 1, 0), :, None], label[..., min(n, 1) :, None, :]
    pairs = begins[..., min(n, 1) :, None, None] & before & after
    return xp.reshape(segments, (*rows.shape[:-1], W, L)), pairs
