"""Segments: log-partition function, marginals and random outputs (the exp oracle).

Source: Sarawagi and Cohen (2004), section 3.2, with the sums over labels apart from those over lengths.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array, logsumexp, normalized, softmax
from reference.structures.chain_scores import frozen, transitions
from reference.structures.chain_sum import Edges
from reference.structures.sampling import choose
from reference.structures.scores import finite
from reference.structures.segment_scores import (
    SegmentScores,
    by_first,
    by_last,
    inner_or_last,
    nothing,
    shifted,
    walked,
)

__all__ = ["sample_segments", "segment_sums"]


def segment_sums(scores: SegmentScores, mu: float = 1.0) -> tuple[Array, SegmentScores]:
    """Log-partition function of each sequence at temperature mu, and its gradient (the exp oracle).

    A = mu log sum_y exp(score(y) / mu), with gradient the probabilities of segments and of neighbours.

    Parameters
    ----------
    scores : SegmentScores
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        -inf where every output is forbidden.
    marginals : SegmentScores
        segments (..., n, W, L), 0 past a sequence's end; pairwise shaped like the scores' pairwise: **of a shared
        matrix the expected numbers of neighbours, summed over the batch**. All 0 if no output is feasible.

    Notes
    -----
    Time O(n W L + n L^2) with an exponential per term; memory O(n W L + n L). Forward messages are normalised
    logarithms. Backwards, the probability that a segment ends is that of the next segment times that of its label given
    the next; it is spread over the lengths by their probabilities. Therefore the segments over a token have
    probabilities that sum to 1, at any length and scale.

    Source
    ------
    Sarawagi and Cohen (2004), section 3.2, equation (4). The equation sums over lengths and pairs of labels together,
    n W L^2 terms. As the score of a pair does not depend on the length, the sum over the label before is the same for
    all segments that begin at a token, and is taken once.
    """
    xp = array_namespace(scores.segments)
    lengths, n = scores.lengths, scores.segments.shape[-3]
    if n == 0:
        return nothing(xp, scores)[0], SegmentScores(scores.segments, xp.zeros_like(scores.pairwise), lengths)
    scaled = SegmentScores(scores.segments / mu, scores.pairwise / mu, lengths)
    log_z, ends, into = filtered(xp, scaled)
    pairs, segments = Edges(xp, scores), []
    begun = xp.zeros_like(into[0])  # probabilities of segments (..., L, W) that end after e, by start e + 1 - w
    for e in range(n - 1, -1, -1):
        final = softmax(xp, ends[e])
        if e == n - 1:
            end = final
        else:
            pair = softmax(xp, ends[e][..., None] + transitions(scaled, e + 1), axis=-2) * begun[..., 0][..., None, :]
            end = inner_or_last(xp, lengths, e, xp.sum(pair, axis=-1), final)
            pairs.add(pair)
            begun = xp.concat([begun[..., 1:], xp.zeros_like(begun[..., :1])], axis=-1)
        segments.append(end[..., None] * softmax(xp, into[e]))
        begun = normalized(xp, begun + segments[-1], axis=(-2, -1))  # they cover token e
    by_token = xp.stack(segments[::-1], axis=-3)
    return mu * log_z, SegmentScores(by_first(xp, by_token), pairs.backwards(), lengths)


def filtered(xp: Any, scaled: SegmentScores) -> tuple[Array, list[Array], list[Array]]:
    """For n >= 1 tokens: log sum_y exp(score(y)); and for each token e, up to a constant, the logarithms of the sums
    over what ends there, (..., L) by the last label and (..., L, W) also by the last length.
    """
    ending, lengths = by_last(xp, scaled), scaled.lengths
    W = ending.shape[-1]
    window = shifted(xp, None, xp.zeros_like(ending[..., 0, :, :1]), W)  # sums before a start, by the label there
    log_z = constant = xp.zeros_like(ending[..., 0, 0, 0])
    ends, into = [], []
    for e in range(ending.shape[-3]):
        into.append(ending[..., e, :, :] + window)
        message = logsumexp(xp, into[-1], axis=-1)
        norm = logsumexp(xp, message, axis=-1)
        log_z = frozen(xp, lengths, e, constant + norm, log_z)
        norm = finite(xp, norm)  # of 0 where nothing ends at e
        constant = constant + norm
        ends.append(message - norm[..., None])
        if e + 1 < ending.shape[-3]:
            newest = logsumexp(xp, ends[-1][..., None] + transitions(scaled, e + 1), axis=-2)
            window = shifted(xp, window - norm[..., None, None], newest[..., None], W)
    return log_z, ends, into


def sample_segments(scores: SegmentScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """Independent outputs of each sequence, drawn exactly with probability exp(score(y) / mu) / Z.

    The label of the last segment, then its length, then the label before it given its own, and so on backwards.

    Parameters
    ----------
    scores : SegmentScores
    uniforms : array (..., size, n, 2)
        Independent random numbers in [0, 1); [..., k, e, 0] determines the label and [..., k, e, 1] the length of the
        segment of sample k that ends at token e.
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf where every output is forbidden.
    rows : int64 array (..., size, n, 3)
        Start, w and label of each segment, then -1; -1 throughout where no output is feasible.

    Notes
    -----
    Time O(n (L^2 + W L + size log(W L))), memory O(n (W L + size)).

    Source
    ------
    Forward filtering and backward sampling with the sums of Sarawagi and Cohen (2004), section 3.2.
    """
    xp = array_namespace(scores.segments)
    *batch, n, _, L = scores.segments.shape
    if n == 0:
        value, rows = nothing(xp, scores)
        return value, xp.broadcast_to(rows[..., None, :, :], (*uniforms.shape[:-1], 3))
    scaled = SegmentScores(scores.segments / mu, scores.pairwise / mu, scores.lengths)
    log_z, ends, into = filtered(xp, scaled)

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        logits = alone = xp.broadcast_to(ends[e][..., None, :], (*batch, L, L))
        if e < n - 1:
            joined = alone + xp.matrix_transpose(transitions(scaled, e + 1))
            logits = inner_or_last(xp, scores.lengths, e, joined, alone)
        label = choose(logits, following, uniforms[..., e, 0])  # the row of the next label
        return choose(into[e], label, uniforms[..., e, 1]), label, label

    rows = walked(scores, xp.zeros_like(uniforms[..., 0, 0], dtype=xp.int64), step)
    return mu * log_z, xp.where((log_z > -xp.inf)[..., None, None, None], rows, -1)
