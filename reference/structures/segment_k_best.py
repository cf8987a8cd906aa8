"""The k best outputs of segments, and max-marginals: the best score with each part."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from reference.arrays import Array
from reference.structures.base import KBest, k_best
from reference.structures.chain_k_best import largest
from reference.structures.chain_scores import frozen, transitions
from reference.structures.segment_scores import SegmentScores, by_last, fits, inner_or_last, nothing, shifted, walked

__all__ = ["number_of_outputs", "segment_max_marginals", "top_k_segments"]


def number_of_outputs(n: int, W: int, L: int, most: int) -> int:
    """How many outputs n tokens have if none is forbidden, or ``most`` if that is less."""
    counts = [1]
    while len(counts) <= n and counts[-1] < most:
        counts.append(L * sum(counts[-W:]))
    return min(counts[-1], most)


def top_k_segments(scores: SegmentScores, k: int) -> KBest:
    """The k highest-scoring distinct outputs of each sequence (the top-K oracle).

    alpha_e^(k)(l) = max^(k)_{w, j} (segments[e - w, w, l] + beta_{e-w}^(j)(l))
    beta_s^(k)(l) = max^(k)_{i, j} (alpha_{s-1}^(j)(i) + pairwise[i, l]),  beta_0 = 0

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
    Time O(n (W L + L^2) k log(k W L)) by sorting, memory O(n L k), with (W + L) L k more within a step. Ties: as
    :func:`reference.structures.segments.best_segments` breaks them, at each rank.

    Source
    ------
    Sarawagi and Cohen (2004), section 3.1, over lists of the k best as in Pillutla et al., Algorithm 2, *corrected*:
    entries of score -inf are dropped.
    """
    xp = array_namespace(scores.segments)
    lengths = scores.lengths
    *batch, n, W, L = scores.segments.shape
    kept = number_of_outputs(n, W, L, k)
    zero, rows = nothing(xp, scores)
    if n == 0:
        return k_best(zero[..., None], rows[..., None, :, :], k)
    first = xp.arange(kept, dtype=xp.int64, device=device(zero)) == 0
    one = xp.where(first, zero[..., None], -xp.inf)  # the list of the empty output
    ending = by_last(xp, scores)
    final = xp.broadcast_to(one[..., None, :], (*batch, L, kept))
    window = shifted(xp, None, final, W * kept)
    into, before = [], []  # indices w kept + rank of the window; states label kept + rank at the end before
    for e in range(n):
        total = ending[..., e, :, :, None] + xp.reshape(window, (*batch, L, W, kept))
        best, index = largest(xp.reshape(total, (*batch, L, W * kept)), kept)
        into.append(xp.reshape(index, (*batch, L * kept)))
        final = frozen(xp, lengths, e, best, final)
        if e + 1 < n:
            pair = xp.matrix_transpose(transitions(scores, e + 1))[..., None] + best[..., None, :, :]
            newest, states = largest(xp.reshape(pair, (*batch, L, L * kept)), kept)
            before.append(xp.reshape(states, (*batch, L * kept)))
            window = shifted(xp, window, newest, W * kept)
    value, final_state = largest(xp.reshape(final, (*batch, L * kept)), kept)

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        state = final_state
        if e < n - 1:
            state = inner_or_last(xp, lengths, e, xp.take_along_axis(before[e], following, axis=-1), final_state)
        chosen, label = xp.take_along_axis(into[e], state, axis=-1), state // kept
        return chosen // kept, label, label * kept + chosen % kept

    rows = walked(scores, xp.zeros_like(final_state), step)
    if lengths is not None:
        value = xp.where((lengths > 0)[..., None], value, one)
    return k_best(value, rows, k)


def segment_max_marginals(scores: SegmentScores) -> SegmentScores:
    """The highest score of an output that has each part.

    segments[s, w, l] = beta_s(l) + segments[s, w, l] + gamma_{s+w}(l), with the best scores before s and after s + w

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
    Time O(n W L + n L^2), memory O(n W L + n L^2).

    Source
    ------
    Pillutla et al., Definition 13, by the recursions of Sarawagi and Cohen (2004) from both ends.
    """
    xp = array_namespace(scores.segments)
    lengths, within = scores.lengths, fits(xp, scores)
    segments = xp.where(within, scores.segments, -xp.inf)
    *batch, n, W, L = segments.shape
    no_pairs = xp.zeros((*batch, 0, L, L), dtype=segments.dtype, device=device(segments))
    if n == 0:
        return SegmentScores(segments, no_pairs, lengths)
    ending = by_last(xp, scores)
    zero = xp.zeros_like(segments[..., 0, 0, :])
    window, ends, before = shifted(xp, None, zero[..., None], W), [], [zero]
    for e in range(n):
        ends.append(xp.max(ending[..., e, :, :] + window, axis=-1))
        if e + 1 < n:
            before.append(xp.max(ends[-1][..., None] + transitions(scores, e + 1), axis=-2))
            window = shifted(xp, window, before[-1][..., None], W)
    after = zero  # best score after token s + w, by the label there
    window, found_segments, pairs = None, [], []
    for s in range(n - 1, -1, -1):
        window = shifted(xp, window, after[..., None], W)
        rest = segments[..., s, :, :] + xp.matrix_transpose(window)  # (..., w, label)
        found_segments.append(before[s][..., None, :] + rest)
        if s > 0:
            total = transitions(scores, s) + xp.max(rest, axis=-2)[..., None, :]
            pairs.append(ends[s - 1][..., None] + total)
            after = inner_or_last(xp, lengths, s - 1, xp.max(total, axis=-1), zero)
    pairwise = xp.stack(pairs[::-1], axis=-3) if pairs else no_pairs
    return SegmentScores(xp.stack(found_segments[::-1], axis=-3), pairwise, lengths)
