"""Segments: log-partition function, marginals and random outputs (the exp oracle).

Source: Sarawagi and Cohen (2004), the recursion of alpha in their learning algorithm.
"""

from __future__ import annotations

from functools import partial

from array_api_compat import array_namespace, device

from reference.arrays import Array, logsumexp, normalized, softmax
from reference.structures.chain_scores import frozen, transitions
from reference.structures.chain_sum import Edges
from reference.structures.sampling import choose
from reference.structures.segment_scores import SegmentScores, by_first, forward, walked

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
    Time O(n W L + n L^2) with an exponential per term; memory O(n W L + n L). Messages are logarithms of sums from the
    first token on, rounded as the value is. Backwards, the probability that a segment ends is that of the next segment
    times that of its label given the next; it is spread over the lengths by their probabilities. Therefore the segments
    over a token have probabilities that sum to 1 at any scale up to 1e300 mu.

    Source
    ------
    Sarawagi and Cohen (2004), the recursion of alpha, which sums over lengths and pairs of labels together, n W L^2
    terms. As a pair's score does not depend on lengths, the sum over the label before is that of all segments that
    begin at a token, and is taken once.
    """
    xp = array_namespace(scores.segments)
    lengths, n = scores.lengths, scores.segments.shape[-3]
    scaled = SegmentScores(scores.segments / mu, scores.pairwise / mu, lengths)
    log_z, alpha, total = forward(xp, scaled, partial(logsumexp, xp))
    pairs, segments = Edges(xp, scores), []
    begun = None  # probabilities (..., L, W) of segments that end after e, by start e + 1 - w
    for e in range(n - 1, -1, -1):
        end = softmax(xp, alpha[e])
        if begun is not None:
            pair = softmax(xp, alpha[e][..., None] + transitions(scaled, e + 1), axis=-2) * begun[..., 0][..., None, :]
            end = frozen(xp, lengths, e + 1, xp.sum(pair, axis=-1), end)
            pairs.add(pair)
            begun = xp.concat([begun[..., 1:], xp.zeros_like(begun[..., :1])], axis=-1)
        segments.append(end[..., None] * softmax(xp, total[e]))
        begun = normalized(xp, segments[-1] if begun is None else begun + segments[-1], axis=(-2, -1))  # cover token e
    return mu * log_z, SegmentScores(by_first(xp, scores, segments[::-1], 0.0), pairs.backwards(), lengths)


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
    Forward filtering and backward sampling with the sums of Sarawagi and Cohen (2004).
    """
    xp = array_namespace(scores.segments)
    scaled = SegmentScores(scores.segments / mu, scores.pairwise / mu, scores.lengths)
    log_z, alpha, total = forward(xp, scaled, partial(logsumexp, xp))
    *batch, n, _, L = scores.segments.shape

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        by_next = alone = xp.broadcast_to(alpha[e][..., None, :], (*batch, L, L))
        if e + 1 < n:
            joined = alone + xp.matrix_transpose(transitions(scaled, e + 1))
            by_next = frozen(xp, scores.lengths, e + 1, joined, alone)
        label = choose(by_next, following, uniforms[..., e, 0])  # the row of the next label
        return choose(total[e], label, uniforms[..., e, 1]), label, label

    rows = walked(scores, xp.zeros(uniforms.shape[:-2], dtype=xp.int64, device=device(uniforms)), step)
    return mu * log_z, xp.where((log_z > -xp.inf)[..., None, None, None], rows, -1)
