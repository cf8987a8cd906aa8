"""The k best outputs of segments, and max-marginals: the best score with each part."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from reference.arrays import Array
from reference.structures.base import KBest, k_best
from reference.structures.chain_k_best import largest
from reference.structures.chain_scores import frozen, transitions
from reference.structures.segment_scores import SegmentScores, by_first, by_last, fits, forward, shifted, walked

__all__ = ["number_of_outputs", "segment_max_marginals", "top_k_segments"]


def number_of_outputs(n: int, W: int, L: int, most: int) -> int:
    """How many outputs n tokens have if none is forbidden, or ``most`` if that is less."""
    counts = [1]
    while len(counts) <= n and counts[-1] < most:
        counts.append(L * sum(counts[-W:]))
    return min(counts[-1], most)


def top_k_segments(scores: SegmentScores, k: int) -> KBest:
    """The k highest-scoring distinct outputs of each sequence (the top-K oracle).

    Parameters
    ----------
    scores : SegmentScores
    k : int >= 1
        May exceed the number of outputs.

    Returns
    -------
    KBest
        scores (..., k) from high to low, then -inf; labels (..., k, n, 3), the rows start, w and label of each segment,
        -1 after the last and beyond ``count``; count (...,), the number of outputs found. The empty sequence has one
        output, of score 0.

    Notes
    -----
    Time O(n (W L + L^2) k log(k W L)) by sorting, memory O(n L k), with (W + L) L k more within a step. Ties: at each
    rank as in :func:`reference.structures.segments.best_segments`.

    Source
    ------
    Sarawagi and Cohen (2004), the recursion of V, over lists of the k best as in Pillutla et al., Algorithm 2,
    *corrected*: entries of score -inf are dropped.
    """
    xp = array_namespace(scores.segments)
    ending, lengths = by_last(xp, scores), scores.lengths
    *batch, n, L, W = ending.shape
    kept = number_of_outputs(n, W, L, k)
    first = xp.arange(kept, dtype=xp.int64, device=device(ending)) == 0
    of_nothing = xp.where(first, xp.zeros((*batch, L, kept), dtype=ending.dtype, device=device(ending)), -xp.inf)
    final = beta = of_nothing  # (..., L, kept), from high to low
    window = None
    into, before = [], []  # indices w kept + rank of the window; states label kept + rank of the end before
    for e in range(n):
        window = shifted(xp, window, beta, W * kept)
        total = ending[..., e, :, :, None] + xp.reshape(window, (*batch, L, W, kept))
        alpha, index = largest(xp.reshape(total, (*batch, L, W * kept)), kept)
        into.append(xp.reshape(index, (*batch, L * kept)))
        final = frozen(xp, lengths, e, alpha, final)
        if e + 1 < n:
            pair = xp.matrix_transpose(transitions(scores, e + 1))[..., None] + alpha[..., None, :, :]
            beta, states = largest(xp.reshape(pair, (*batch, L, L * kept)), kept)
            before.append(xp.reshape(states, (*batch, L * kept)))
    value, last = largest(xp.reshape(final, (*batch, L * kept)), kept)

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        state = last
        if e + 1 < n:
            state = frozen(xp, lengths, e + 1, xp.take_along_axis(before[e], following, axis=-1), last)
        chosen, label = xp.take_along_axis(into[e], state, axis=-1), state // kept
        return chosen // kept, label, label * kept + chosen % kept

    if lengths is not None:
        value = xp.where((lengths > 0)[..., None], value, of_nothing[..., 0, :])
    return k_best(value, walked(scores, xp.zeros_like(last), step), k)


def segment_max_marginals(scores: SegmentScores) -> SegmentScores:
    """The highest score of an output that has each part.

    Parameters
    ----------
    scores : SegmentScores

    Returns
    -------
    SegmentScores
        segments (..., n, W, L); pairwise (..., n-1, L, L) **even if the scores share one matrix**: these are values,
        one for each part of an output, not a gradient. -inf past a sequence's end and for parts that no possible output
        has.

    Notes
    -----
    Time O(n W L + n L^2), memory O(n W L + n L^2). The sums run from both ends.

    Source
    ------
    Pillutla et al., Definition 13, by the recursion of Sarawagi and Cohen (2004) from both ends.
    """
    xp = array_namespace(scores.segments)
    segments, lengths = xp.where(fits(xp, scores), scores.segments, -xp.inf), scores.lengths
    *batch, n, W, L = segments.shape
    _, alpha, total = forward(xp, scores, xp.max)
    window, each, pairs = None, [], []
    after = end = xp.zeros((*batch, L), dtype=segments.dtype, device=device(segments))  # the best score after a token
    for e in range(n - 1, -1, -1):
        each.append(total[e] + after[..., None])
        window = shifted(xp, window, after[..., None], W)  # after the last tokens e + w of segments from e
        if e > 0:
            rest = xp.max(xp.matrix_transpose(segments[..., e, :, :]) + window, axis=-1)
            pair = transitions(scores, e) + rest[..., None, :]
            pairs.append(alpha[e - 1][..., None] + pair)
            after = frozen(xp, lengths, e, xp.max(pair, axis=-1), end)
    no_pairs = xp.zeros((*batch, 0, L, L), dtype=segments.dtype, device=device(segments))
    pairwise = xp.stack(pairs[::-1], axis=-3) if pairs else no_pairs
    return SegmentScores(by_first(xp, scores, each[::-1], -xp.inf), pairwise, lengths)
