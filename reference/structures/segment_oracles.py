"""The scores of segments, and the oracles beside the best output: the k best, max-marginals, sums, draws.

They go from token to token. A segment of w + 1 tokens that ends at token e began at e - w: beside the scores by last
token (..., n, L, W) they keep a window (..., L, W) of numbers of the last W starts, that of start e - w at w. Source:
Sarawagi and Cohen (2004), the recursions of V and of alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from reference.arrays import Array, logsumexp, normalized, one_hot, softmax
from reference.structures.base import KBest, k_best
from reference.structures.chain_k_best import largest
from reference.structures.chain_scores import frozen, transitions
from reference.structures.chain_sum import Edges
from reference.structures.sampling import choose

__all__ = ["SegmentScores", "indicators", "number_of_outputs", "sample_segments", "segment_max_marginals"]
__all__ += ["segment_sums", "sheared", "top_k_segments"]

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

    Time O(n (W L + L^2) k log(k W L)) by sorting, memory O(n L k), with (W + L) L k more within a step. Ties: at each
    rank as in :func:`reference.structures.segments.best_segments`.

    Source: Sarawagi and Cohen (2004), the recursion of V, over lists of the k best as in Pillutla et al., Algorithm 2,
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

    Time O(n W L + n L^2), memory O(n W L + n L^2). The sums run from both ends.

    Source: Pillutla et al., Definition 13, by the recursion of Sarawagi and Cohen (2004) from both ends.
    """
    xp = array_namespace(scores.segments)
    segments, lengths = within(xp, scores), scores.lengths
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

    Time and memory O(n W L + n L^2), with an exponential per term. Messages are logarithms of sums from the first token
    on, rounded as the value is. Backwards, the probability that a segment ends is that of the next segment times that
    of its label given the next; it is spread over the lengths by their probabilities. Therefore the segments over a
    token have probabilities that sum to 1 at any scale up to 1e300 mu.

    Source: Sarawagi and Cohen (2004), the recursion of alpha, which sums over lengths and pairs of labels together, n W
    L^2 terms. As a pair's score does not depend on lengths, the sum over the label before is that of all segments that
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

    Time O(n (L^2 + W L + size log(W L))), memory O(n (L^2 + W L + size)).

    Source: Forward filtering and backward sampling with the sums of Sarawagi and Cohen (2004).
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


def within(xp: Any, scores: SegmentScores) -> Array:
    """The scores of segments, -inf for those that reach past the end of their sequence."""
    *_, n, W, _ = scores.segments.shape
    count = xp.arange(n + W, dtype=xp.int64, device=device(scores.segments))
    last = count[:n, None, None] + count[:W, None]
    length = n if scores.lengths is None else scores.lengths[..., None, None, None]
    return xp.where(last < length, scores.segments, -xp.inf)


def forward(
    xp: Any, scores: SegmentScores, plus: Callable[[Array], tuple[Array, Any]], ranks: int = 1
) -> tuple[Array, list[Array], tuple[Any, list[Any], list[Any]]]:
    """The recursion of :func:`reference.structures.segments.best_segments`, of lists of numbers from high to low.

    ``plus`` is the max, the log-sum-exp or the k best: of terms (..., m, ranks) the numbers (..., ranks) of all, and
    what is kept of them. Returns the numbers (..., ranks) of whole sequences; alpha_e (..., L, ranks) of each token e;
    and what is kept: of the last labels, of the lengths of each alpha_e, of the labels before each beta_{e + 1}.
    """
    ending, lengths = xp.matrix_transpose(sheared(xp, within(xp, scores), -1, -xp.inf)), scores.lengths  # by last token
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
    return sheared(xp, xp.matrix_transpose(xp.stack(x, axis=-3)), 1, outside) if x else scores.segments


def sheared(xp: Any, x: Array, sign: int, outside: float) -> Array:
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
