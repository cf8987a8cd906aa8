"""Segments of a sequence, each with a label: semi-Markov chains.

score(y) = sum over segments (s, w, l) of segments[s, w, l], plus pairwise[a, b] for each label b right after a label a,
a = b too. The segments of an output follow one another and cover all tokens; each has 1 to W of them. The algorithms
are functions of arrays with any number of leading batch axes; :class:`Segments` wraps them and validates its arguments.
``segment_oracles`` has the k best outputs, max-marginals, the log-partition, marginals and random outputs. Source:
Sarawagi and Cohen (2004), semi-Markov conditional random fields.

Conventions. An output is rows (start, w, label) in order of start, of the segments of w + 1 tokens start..start + w,
then rows of -1, n in all. A sequence of length 0 has one output, the empty one, of score 0. Scores of segments that
reach past the end are ignored; there marginals are 0 and max-marginals -inf. Rows of -1 throughout mean no output. Ties
go to the smallest label of the last segment, then to its shortest length, then backwards.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from reference import arrays
from reference.arrays import Array, Place, host, integer, seen
from reference.structures.base import KBest, Structure, at_most, feasible, positive_k, positive_mu
from reference.structures.batches import checked_lengths
from reference.structures.chain_scores import first_of, on_host
from reference.structures.sampling import uniforms
from reference.structures.segment_oracles import (
    SegmentScores,
    indicators,
    number_of_outputs,
    sample_segments,
    segment_max_marginals,
    segment_sums,
    top_k_segments,
)

__all__ = [
    "SegmentScores",
    "Segments",
    "best_segments",
    "sample_segments",
    "segment_max_marginals",
    "segment_sums",
    "top_k_segments",
]


def best_segments(scores: SegmentScores) -> tuple[Array, Array]:
    """Highest score (...,) and best output of each sequence, int64 rows (..., n, 3) (the max oracle).

    alpha_e(l) = max_w (segments[e - w, w, l] + beta_{e-w}(l)), the best score of what ends at token e, and
    beta_s(l) = max_i (alpha_{s-1}(i) + pairwise[i, l]) of what ends before the start s, with beta_0 = 0

    Where every output is forbidden, the score is -inf and the rows are -1.

    Time O(n W L + n L^2), memory O(n W L). Ties: the smallest label of the last segment, then its shortest length, then
    backwards.

    Source: Sarawagi and Cohen (2004), the recursion of V, n W L^2 terms; here the max over the label before, which is
    that of all segments that begin at a token, is taken once.
    """
    best = top_k_segments(scores, 1)
    return best.scores[..., 0], best.labels[..., 0, :, :]


class Segments(Structure):
    """A sequence in segments, or a batch of sequences.

    Parameters
    ----------
    segments : array (..., n, W, L)
        segments[s, w, l]: score of label l on the w + 1 tokens s..s+w; -inf forbids it. What reaches past the end is
        ignored, whatever number it is. Leading axes are a batch.
    pairwise : array (L, L) or (..., n-1, L, L)
        Score of (label, label of the segment right after), also of equal labels: one matrix for all, or one for each
        token but the first that may begin a segment.
    lengths : int array (...,), optional
        Length of each sequence of a padded batch, 0..n; default: all n.

    Raises
    ------
    ValueError, TypeError
        Inconsistent shapes, lengths outside 0..n, nan or +inf, dtypes other than float32 and float64 (integers and
        booleans become float64), arrays of different namespaces or devices.

    Examples
    --------
    >>> segments = [[[1.0, 0.0], [0.0, 3.0]], [[0.5, 0.0], [0.0, 0.0]]]  # a token alone, and with the next
    >>> value, rows = Segments(segments, [[0.0, 0.0], [0.0, 0.0]]).best()
    >>> float(value), rows.tolist()
    (3.0, [[0, 1, 1], [-1, -1, -1]])
    """

    ops = sys.modules[__name__]  # the module with the functions; the accelerated panel replaces it by its own
    scores: SegmentScores
    axes = ("n", "longest", "labels")

    def __init__(self, segments: Any, pairwise: Any, lengths: Any = None) -> None:
        segments, pairwise = arrays.floats(segments=segments, pairwise=pairwise)
        if segments.ndim < 3 or min(segments.shape[-2:]) < 1:
            shape = tuple(segments.shape)
            raise ValueError(f"segments: expected shape (..., n, W, L) with W >= 1 and L >= 1, got {shape}")
        *batch, n, _, L = segments.shape
        shared, each = (L, L), (*batch, max(n - 1, 0), L, L)
        if tuple(pairwise.shape) not in (shared, each):
            raise ValueError(f"pairwise: expected shape {shared} or {each}, got {tuple(pairwise.shape)}")
        arrays.refuse_nan_and_inf("segments", segments)
        arrays.refuse_nan_and_inf("pairwise", pairwise)
        super().__init__(SegmentScores(segments, pairwise, checked_lengths(lengths, tuple(batch), n, segments)))

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and rows (..., n, 3) of a best output; see :func:`best_segments`.

        Raises InfeasibleError.
        """
        value, rows = self.ops.best_segments(self.scores)
        return self.ops.feasible(value, "best"), rows

    def expectation(self, mu: float = 1.0) -> tuple[Array, SegmentScores]:
        """Log-partition (...,) and marginals at temperature mu; see :func:`segment_sums`.

        Raises InfeasibleError, ValueError.
        """
        value, marginals = self.ops.segment_sums(self.scores, positive_mu(mu))
        return self.ops.feasible(value, "expectation"), marginals

    def topk(self, k: int) -> KBest:
        """The k best outputs, padded (:class:`KBest`) if fewer are possible; see :func:`top_k_segments`.

        Does not raise InfeasibleError: the count is 0 if every output is forbidden.
        """
        *batch, n, W, L = self.scores.segments.shape
        k = positive_k(k, math.prod(batch) * n * 3)
        # the k best are kept for each label at each token
        at_most("k", number_of_outputs(n, W, L, k), math.prod(batch) * n * L, "for which the search keeps")
        result: KBest = self.ops.top_k_segments(self.scores, k)
        return result

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Rows (..., size, n, 3) drawn with probability proportional to exp(score / mu); see :func:`sample_segments`.

        Raises InfeasibleError.
        """
        *batch, n, _, _ = self.scores.segments.shape
        size = at_most("size", integer("size", size, 1), math.prod(batch) * n * 3)
        numbers = uniforms(rng, (*batch, size, n, 2), self.scores.segments)
        value, rows = self.ops.sample_segments(self.scores, numbers, positive_mu(mu))
        feasible(value, "sample")
        return rows

    def max_marginals(self) -> SegmentScores:
        """The highest score of an output with each part; see :func:`segment_max_marginals`. -inf if there is none."""
        values: SegmentScores = self.ops.segment_max_marginals(self.scores)
        return values

    def score(self, y: Any) -> Array:
        """Score (...,) of rows (..., n, 3); -1 throughout means no output and has score 0. Raises ValueError."""
        xp, scores = array_namespace(self.scores.segments), self.scores
        segments, pairs = indicators(scores, self._rows(y))
        of_segments = xp.sum(xp.where(segments, scores.segments, 0.0), axis=(-3, -2, -1))
        return of_segments + xp.sum(xp.where(pairs, scores.pairwise, 0.0), axis=(-3, -2, -1))

    def parts(self, y: Any) -> SegmentScores:
        """Indicator of the parts of rows (..., n, 3) as in :meth:`score`. A shared pairwise matrix gets the number of
        times each label follows each, summed over the batch. Raises ValueError.
        """
        rows, like = self._rows(y), self.scores.segments
        one = array_namespace(like).ones((*rows.shape[:-2], 1), dtype=like.dtype, device=device(like))
        return self.expected_parts(rows[..., None, :, :], one)

    def expected_parts(self, outputs: Array, weights: Array) -> SegmentScores:
        """sum_k weights[..., k] parts(outputs[..., k, :, :]) of rows (..., k, n, 3)."""
        xp, weights = array_namespace(weights), weights[..., None, None, None]
        segments, pairs = (xp.sum(xp.where(x, weights, 0.0), axis=-4) for x in indicators(self.scores, outputs))
        if self.scores.pairwise.ndim == 2:
            pairs = xp.sum(pairs, axis=tuple(range(pairs.ndim - 2)))
        return SegmentScores(segments, pairs, self.scores.lengths)

    def first(self) -> Segments:
        """The first sequence of a batch along one axis; a single sequence itself."""
        return type(self).unchecked(first_of(self.scores, len(self.axes)))

    def count(self) -> int:
        """Number of outputs of a single sequence that are not forbidden; exact, a Python int."""
        segments, pairwise = self._one("count")
        before = [np.ones(segments.shape[-1], dtype=object)]  # ways to fill what is before a start, by the label there
        ways = before[0][:1]
        for e in range(len(segments)):
            ways = sum(before[e - w] * segments[e - w, w] for w in range(min(segments.shape[1], e + 1)))
            before.append(ways @ pairwise[e] if e + 1 < len(segments) else ways)
        return int(sum(ways))

    def enumerate(self) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """Every output of a single sequence that is not forbidden, in lexicographic order, as n rows."""
        segments, pairwise = self._one("enumerate")
        n, W, L = segments.shape
        rest: list[tuple[tuple[int, int, int], ...]] = [()]
        while rest:
            y = rest.pop()
            s = y[-1][0] + y[-1][1] + 1 if y else 0
            if s == n:
                yield y + ((-1, -1, -1),) * (self.scores.segments.shape[-3] - len(y))
            for w in range(min(W, n - s) - 1, -1, -1):
                for label in range(L - 1, -1, -1):
                    if segments[s, w, label] and (not y or pairwise[s - 1, y[-1][2], label]):
                        rest.append((*y, (s, w, label)))

    def _one(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Which segments (n, W, L) and which neighbours (n-1, L, L) a single sequence of length n allows."""
        segments, pairwise = on_host(question, self.scores, 3, "sequence")
        # Python's booleans, which count in its integers
        return (segments > -np.inf).astype(object), (pairwise > -np.inf).astype(object)

    def _rows(self, y: Any) -> Array:
        *batch, n, W, L = self.scores.segments.shape
        y = arrays.integers("y", y, Place.of(self.scores.segments))
        if y.shape[-1:] == (0,):  # no rows
            y = array_namespace(y).reshape(y, (*y.shape, 3))
        if tuple(y.shape) != (*batch, n, 3):
            raise ValueError(f"y: expected rows of shape {(*batch, n, 3)}, got {tuple(y.shape)}")
        xp, lengths = array_namespace(y), self.scores.lengths
        length = n if lengths is None else lengths[..., None]
        start, w, label = y[..., 0], y[..., 1], y[..., 2]
        tokens = xp.where((w >= 0) & (w < W), w + 1, 0)
        first = xp.cumulative_sum(tokens, axis=-1) - tokens  # where each segment begins if it follows the one before
        is_segment = (start == first) & (tokens > 0) & (first + tokens <= length) & (label >= 0) & (label < L)
        is_padding = xp.all(y == -1, axis=-1)
        wrong = xp.where(first < length, ~is_segment, ~is_padding) & ~xp.all(is_padding, axis=-1, keepdims=True)
        if seen(xp.any(wrong)):
            index = tuple(int(i) for i in np.argwhere(host(wrong))[0])
            raise ValueError(
                f"y: expected rows (start, w, label) of segments that follow one another to the end, w in 0..{W - 1}, "
                f"label in 0..{L - 1}, then rows of -1; got {host(y)[index].tolist()} at {index}"
            )
        return y
