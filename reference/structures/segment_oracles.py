"""The oracles of segments beside the best output: the k best, max-marginals, the log-partition and marginals, draws.

Source: Sarawagi and Cohen (2004), the recursions of V and of alpha.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from reference.arrays import Array, logsumexp, normalized, softmax
from reference.structures.base import KBest, k_best
from reference.structures.chain_k_best import largest
from reference.structures.chain_scores import frozen, transitions
from reference.structures.chain_sum import Edges
from reference.structures.sampling import choose
from reference.structures.segment_scores import SegmentScores, by_first, fits, forward, walked

__all__ = ["number_of_outputs", "sample_segments", "segment_max_marginals", "segment_sums", "top_k_segments"]


def number_of_outputs(n: int, W: int, L: int, most: int) -> int:
    """How many outputs n tokens have if none is forbidden, or ``most`` if that is less."""
    counts = [1]
    while len(counts) <= n and counts[-1] < most:
        counts.append(L * sum(counts[-W:]))
    return min(counts[-1], most)


def top_k_segments(scores: SegmentScores, k: int) -> KBest:
    """The k highest-scoring distinct outputs of each sequence (the top-K oracle).

    k >= 1 may exceed the number of outputs. Scores (..., k) are from high to low, then -inf; labels are int64 rows
    (..., k, n, 3), -1 after an output's last and beyond ``count`` (...,), the number of outputs found. The empty
    sequence has one output, of score 0.

    Notes
    -----
    Time O(n (W L + L^2) k log(k W L)) by sorting, memory O(n L k), with (W + L) L k more within a step. Ties: at each
    rank as in :func:`reference.structures.segments.best_segments`.

    Source
    ------
    Sarawagi and Cohen (2004), the recursion of V, over lists of the k best as in Pillutla et al., Algorithm 2,
    *corrected*: entries of score -inf are dropped.
    """
    xp, lengths = array_namespace(scores.segments), scores.lengths
    *_, n, W, L = scores.segments.shape
    kept = number_of_outputs(n, W, L, k)

    def plus(terms: Array) -> tuple[Array, Array]:
        return largest(xp.reshape(terms, (*terms.shape[:-2], terms.shape[-2] * kept)), kept)

    value, _, (last, of_ends, of_starts) = forward(xp, scores, plus, kept)

    def kept_of(back: Array, state: Array) -> Array:
        """Of each state, label kept + rank: w kept + rank of its start, or the state of the end before."""
        return xp.take_along_axis(xp.reshape(back, (*last.shape[:-1], L * kept)), state, axis=-1)

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        state = last if e + 1 == n else frozen(xp, lengths, e + 1, kept_of(of_starts[e], following), last)
        chosen, label = kept_of(of_ends[e], state), state // kept
        return chosen // kept, label, label * kept + chosen % kept

    return k_best(value, walked(scores, xp.zeros_like(last), step), k)


def segment_max_marginals(scores: SegmentScores) -> SegmentScores:
    """The highest score of an output that has each part: of segments (..., n, W, L); of neighbours (..., n-1, L, L)
    **even if the scores share one matrix**, because these are values, one for each part of an output, not a gradient.

    -inf past a sequence's end and for parts that no possible output has.

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
    _, alpha, (_, total, _) = forward(xp, scores, lambda x: (xp.max(x, axis=-2), x))
    window = xp.full((*batch, L, W), -xp.inf, dtype=segments.dtype, device=device(segments))
    each, pairs = [], []
    after = end = xp.zeros((*batch, L), dtype=segments.dtype, device=device(segments))  # the best score after a token
    for e in range(n - 1, -1, -1):
        each.append(total[e][..., 0] + after[..., None])
        window = xp.concat([after[..., None], window[..., :-1]], axis=-1)  # after the ends e + w from e
        if e > 0:
            rest = xp.max(xp.matrix_transpose(segments[..., e, :, :]) + window, axis=-1)
            pair = transitions(scores, e) + rest[..., None, :]
            pairs.append(alpha[e - 1] + pair)
            after = frozen(xp, lengths, e, xp.max(pair, axis=-1), end)
    no_pairs = xp.zeros((*batch, 0, L, L), dtype=segments.dtype, device=device(segments))
    pairwise = xp.stack(pairs[::-1], axis=-3) if pairs else no_pairs
    return SegmentScores(by_first(xp, scores, each[::-1], -xp.inf), pairwise, lengths)


def segment_sums(scores: SegmentScores, mu: float = 1.0) -> tuple[Array, SegmentScores]:
    """Log-partition function (...,) of each sequence at temperature mu > 0, and its gradient (the exp oracle).

    A = mu log sum_y exp(score(y) / mu), with gradient the probabilities of segments, 0 past a sequence's end, and of
    neighbours, **which are summed if scores are shared: the expected numbers of neighbours in the batch**. Where every
    output is forbidden, A is -inf and the gradient 0.

    Notes
    -----
    Time and memory O(n W L + n L^2), with an exponential per term. Messages are logarithms of sums from the first token
    on, rounded as the value is. Backwards, the probability that a segment ends is that of the next segment times that
    of its label given the next; it is spread over the lengths by their probabilities. Therefore the segments over a
    token have probabilities that sum to 1 at any scale up to 1e300 mu.

    Source
    ------
    Sarawagi and Cohen (2004), the recursion of alpha, which sums over lengths and pairs of labels together, n W L^2
    terms. As a pair's score does not depend on lengths, the sum over the label before is that of all segments that
    begin at a token, and is taken once.
    """
    xp = array_namespace(scores.segments)
    lengths, n = scores.lengths, scores.segments.shape[-3]
    log_z, alpha, total, before = _log_sums(xp, scores, mu)
    pairs, segments = Edges(xp, scores), []
    begun: Any = 0.0  # then probabilities (..., L, W) of segments that end after e, by start e + 1 - w
    for e in range(n - 1, -1, -1):
        end = softmax(xp, alpha[e])
        if e + 1 < n:
            pair = softmax(xp, before[e]) * begun[..., 0][..., None]  # (..., label, label before)
            end = frozen(xp, lengths, e + 1, xp.sum(pair, axis=-2), end)
            pairs.add(xp.matrix_transpose(pair))
            begun = xp.concat([begun[..., 1:], xp.zeros_like(begun[..., :1])], axis=-1)
        segments.append(end[..., None] * softmax(xp, total[e]))
        begun = normalized(xp, begun + segments[-1], axis=(-2, -1))  # they cover token e
    return mu * log_z, SegmentScores(by_first(xp, scores, segments[::-1], 0.0), pairs.backwards(), lengths)


def sample_segments(scores: SegmentScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """Independent outputs of each sequence, drawn exactly with probability exp(score(y) / mu) / Z: mu log Z (...,), and
    int64 rows (..., size, n, 3).

    The label of the last segment, then its length, then the label before it given its own, and so on backwards. Of
    independent random numbers ``uniforms`` (..., size, n, 2) in [0, 1), [..., k, e, 0] determines the label and [...,
    k, e, 1] the length of the segment of sample k that ends at token e. Where every output is forbidden, log Z is -inf
    and the rows are -1.

    Notes
    -----
    Time O(n (L^2 + W L + size log(W L))), memory O(n (L^2 + W L + size)).

    Source
    ------
    Forward filtering and backward sampling with the sums of Sarawagi and Cohen (2004).
    """
    xp = array_namespace(scores.segments)
    log_z, alpha, total, before = _log_sums(xp, scores, mu)
    *batch, n, _, L = scores.segments.shape

    def step(e: int, following: Array) -> tuple[Array, Array, Array]:
        by_next = alone = xp.broadcast_to(alpha[e][..., None, :], (*batch, L, L))
        if e + 1 < n:
            by_next = frozen(xp, scores.lengths, e + 1, before[e], alone)
        label = choose(by_next, following, uniforms[..., e, 0])  # the row of the next label
        return choose(total[e], label, uniforms[..., e, 1]), label, label

    rows = walked(scores, xp.zeros(uniforms.shape[:-2], dtype=xp.int64, device=device(uniforms)), step)
    return mu * log_z, xp.where((log_z > -xp.inf)[..., None, None, None], rows, -1)


def _log_sums(xp: Any, scores: SegmentScores, mu: float) -> tuple[Array, list[Array], list[Array], list[Array]]:
    """The log sums (...,) of all; of each token those (..., L) of what ends there, their terms (..., L, W), and the
    terms (..., L, L) of the labels before each label that begins after it.
    """
    scaled = SegmentScores(scores.segments / mu, scores.pairwise / mu, scores.lengths)
    log_z, ends, (_, *terms) = forward(xp, scaled, lambda x: (logsumexp(xp, x, axis=-2), x))
    alpha, total, before = ([x[..., 0] for x in each] for each in (ends, *terms))
    return log_z[..., 0], alpha, total, before
