"""Dependency trees without crossing arcs (projective trees), by Eisner's chart.

score(y) = sum_m values[m, y_m] over the tokens m + 1 = 1..n, with heads y_m in 0..n, as of an
:class:`~reference.structures.arborescence.Arborescence`. The root stands left of token 1, and its arcs are not crossed
either. Equivalently, the tokens under each token are a stretch of the sentence. Source: Eisner (1996), "Three new
probabilistic models for dependency parsing: an exploration".

``projective_chart`` has the chart, and the proof that each tree has one derivation. Conventions and names of functions
are those of ``arborescence``.
"""

from __future__ import annotations

import math
import sys
from operator import add

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array, Place, host, logsumexp, softmax
from reference.structures.arborescence import Arborescence
from reference.structures.arborescence_max import ArborescenceScores, sentences
from reference.structures.base import KBest, at_most, k_best, positive_k
from reference.structures.base import feasible as feasible  # of ops
from reference.structures.chain_k_best import largest
from reference.structures.chain_scores import frozen
from reference.structures.projective_chart import Chart, crossing, drawn, inside, outside, splits, used, whole
from reference.structures.scores import finite

__all__ = ["Projective", "max_marginals", "maximum_arborescence", "sample", "top_k_arborescences", "tree_partition"]


class Projective(Arborescence):
    """Projective dependency trees over n tokens, of one sentence or of a batch: no two arcs cross.

    Parameters
    ----------
    values, single_root, lengths
        As of :class:`~reference.structures.arborescence.Arborescence`, with the same errors: scores (..., n, n + 1) of
        heads, in whose column 0 is the root; whether it has one token only; the numbers (...,) of tokens.

    Source
    ------
    Eisner (1996). Without the condition on arcs: :class:`~reference.structures.arborescence.Arborescence`.

    Examples
    --------
    >>> values = [[1.0, 0.0, 0.0, 5.0], [9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]]
    >>> value, heads = Projective(values).best()  # the arc from 3 to 1 would cross that from the root to 2
    >>> float(value), heads.tolist()
    (13.0, [0, 0, 2])
    """

    ops = sys.modules[__name__]

    def topk(self, k: int) -> KBest:
        """As :meth:`Arborescence.topk`. Raises ValueError if the lists of the chart take more than 2^28 numbers."""
        *batch, n, _ = self.scores.values.shape
        members = math.prod(batch)
        kept = min(positive_k(k, members * n), trees_in_all(n))
        at_most("k", kept, 3 * members * (n + 1) ** 2, "whose lists take")
        return super().topk(k)

    def count(self) -> int:
        """The number of projective trees of a single sentence without a forbidden arc, exactly."""
        allowed = self._allowed("count").astype(object) * 1
        integers = np.multiply, lambda x: (np.sum(x, -1, keepdims=True), None), 0, np.ones((1, 1), object)
        return int(whole(inside(allowed, self.single_root, *integers)[0], None)[0])

    def _numbers(self, n: int) -> int:
        return 2 * n

    def _may_begin(self, heads: tuple[int, ...]) -> bool:
        return super()._may_begin(heads) and not len(crossing(np.array(heads)))

    def _require_tree(self, heads: np.ndarray) -> None:
        super()._require_tree(heads)
        if two := crossing(heads).tolist():
            raise ValueError(f"y: expected arcs that do not cross, got those of tokens {two} in {heads.tolist()}")


def trees_in_all(n: int, single_root: bool = False) -> int:
    """The number of projective trees of n tokens: binom(3 n, n) / (2 n + 1), or binom(3 n - 2, n - 1) / n."""
    if single_root and n:
        return math.comb(3 * n - 2, n - 1) // n
    return math.comb(3 * n, n) // (2 * n + 1)


def maximum_arborescence(scores: ArborescenceScores, single_root: bool = False) -> tuple[Array, Array]:
    """Highest score and a best projective tree of each sentence (the max oracle).

    Arguments and answers are those of :func:`reference.structures.arborescence_max.maximum_arborescence`: value (...,),
    -inf if every tree has a forbidden arc, nan if a score is nan or +inf; heads (..., n) int64.

    Time O(n^3), memory O(n^3). Scores may be up to 1e300 in absolute value. Ties: from the whole sentence down, the
    leftmost split of each span. Splits are compared by rounded sums.

    Source: Eisner (1996).
    """
    xp, best = array_namespace(scores.values), top_k_arborescences(scores, 1, single_root)
    return xp.where(used(scores)[1], best.scores[..., 0], xp.nan), best.labels[..., 0, :]


def top_k_arborescences(scores: ArborescenceScores, k: int, single_root: bool = False) -> KBest:
    """The k best distinct projective trees of each sentence (the top-K oracle).

    Arguments and answers are those of :func:`reference.structures.arborescence_max.top_k_arborescences`: scores
    (..., k) from high to low, then -inf; labels (..., k, n) int64, padded with -1; count (...,).

    Each span has the list of its k best parts of trees. It is merged from the lists of its halves, of which only pairs
    of ranks i, j = 1, 2, ... with i j <= k can be among the k best. Trees are distinct because each has one derivation.
    Time O(n^3 k log k) by sorting. Ties: the leftmost split, then the better left half, so that the first tree is that
    of :func:`maximum_arborescence`.

    Source: Huang and Chiang (2005), "Better k-best parsing", Algorithm 1, over the chart of Eisner (1996).
    """
    values, (*batch, n, _) = used(scores)[0], scores.values.shape
    xp, where, kept = array_namespace(values), device(values), min(k, trees_in_all(n))
    places = [(i, j) for i in range(kept) for j in range(kept // (i + 1))]
    first, second = (xp.asarray(ranks, device=where) for ranks in np.array(places).T)

    def times(left: Array, right: Array) -> Array:
        return left + right if right.shape[-1] == 1 else xp.take(left, first, axis=-1) + xp.take(right, second, axis=-1)

    def given(kind: str, w: int, mine: Array) -> list[tuple[Array, Array]]:
        """1 + the ranks of both halves, where a tree has the span with this split; else 0."""
        way = xp.take_along_axis(orders[kind][w], xp.clip(mine - 1, 0), axis=-1)
        split, pair = way // len(places), xp.reshape(way % len(places), (-1,))
        ranks = [xp.reshape(xp.take(each, pair), way.shape) + 1 for each in (first, second)]
        return [tuple(xp.where((mine > 0) & (split == r), x, 0) for x in ranks) for r in range(len(splits(kind, w)))]

    rank = xp.arange(kept, device=where)
    one = xp.where(rank == 0, xp.zeros((*batch, 1, 1), dtype=values.dtype, device=where), -xp.inf)
    chart, orders = inside(values, single_root, times, lambda x: largest(x, kept), -xp.inf, one)
    value = whole(chart, scores.lengths)
    start = xp.where(value > -xp.inf, 1 + rank, 0)
    of_trees = outside(n, scores.lengths, start, given)
    taken = xp.moveaxis(of_trees, -1, -3) > 0  # (..., k, n, n + 1)
    heads = xp.argmax(xp.astype(taken, xp.int64), axis=-1)
    return k_best(value, xp.where(xp.any(taken, axis=-1), heads, -1), k)


def tree_partition(
    scores: ArborescenceScores, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, ArborescenceScores]:
    """mu times the log-partition function of each sentence's projective trees, and its gradient, the arc marginals (the
    exp oracle).

    Arguments and answers are those of :func:`reference.structures.arborescence_sum.tree_partition`: value (...,), -inf
    if every tree has a forbidden arc, nan if a score is nan or +inf; marginals (..., n, n + 1), whose rows sum to 1.

    A span's sum is the log-sum-exp over its splits; then each span, from the whole sentence down, divides its
    probability among its splits. This is the derivative of the sums by back-propagation: the outside algorithm (Baker
    1979) without outside scores, so that marginals do not lose the digits that large scores round away. The best score
    of each token is taken from its row first. Time O(n^3) with an exponential per term, memory O(n^3). Scores may be up
    to 1e300 mu in absolute value.

    Source: Eisner (1996); Pillutla et al., Lemma 7 (ii).
    """
    xp, (values, sound) = array_namespace(scores.values), used(scores)
    tops = finite(xp, xp.max(values, axis=-1, keepdims=True))
    chart, terms = _sums((values - tops) / mu, single_root)
    log_z = whole(chart, scores.lengths)

    def given(kind: str, w: int, mine: Array) -> list[tuple[Array, Array]]:
        shares = softmax(xp, terms[kind][w]) * mine
        return [(shares[..., r : r + 1],) * 2 for r in range(len(splits(kind, w)))]

    start = xp.astype(log_z > -xp.inf, log_z.dtype)
    marginals = outside(values.shape[-2], scores.lengths, start, given)[..., 0]
    value = xp.where(sound, mu * log_z[..., 0] + xp.sum(tops, axis=(-2, -1)), xp.nan)
    return value, scores._replace(values=xp.where(sound[..., None, None], xp.clip(marginals, 0.0, 1.0), xp.nan))


def _sums(logs: Array, single_root: bool) -> tuple[Chart, Chart]:
    """The chart of log sums of log weights (..., n, n + 1), and the terms of each."""
    xp = array_namespace(logs)
    one = xp.zeros((*logs.shape[:-2], 1, 1), dtype=logs.dtype, device=device(logs))
    return inside(logs, single_root, add, lambda x: (logsumexp(xp, x, axis=-1)[..., None], x), -xp.inf, one)


def max_marginals(scores: ArborescenceScores, single_root: bool = False) -> ArborescenceScores:
    """For each arc the highest score of a projective tree with this arc; -inf if there is none, for a token as its own
    head, and past a sentence's length.

    Time O(n^5): the best score for each head of each token. A sentence with a score of nan or +inf has nan throughout.

    Source: Pillutla et al., Definition 13.
    """
    values, sound = used(scores)
    xp, (n, h), lengths = array_namespace(values), values.shape[-2:], scores.lengths
    token, head = xp.arange(n, device=device(values))[:, None], xp.arange(h, device=device(values))
    rows = []
    for m in range(n):
        allowed = (token != m) | (head == head[:, None, None])  # (head of m, n, n + 1)
        limited = xp.where(allowed, values[..., None, :, :], -xp.inf)
        each = None if lengths is None else xp.broadcast_to(lengths[..., None], limited.shape[:-2])
        row = top_k_arborescences(ArborescenceScores(limited, each), 1, single_root).scores[..., 0]
        rows.append(frozen(xp, lengths, m, row, -xp.inf))
    best = xp.stack(rows, axis=-2) if n else values
    return scores._replace(values=xp.where(sound[..., None, None], best, xp.nan))


def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    """Independent projective trees of each sentence, drawn exactly with probability exp(score(y) / mu) / Z.

    Arguments and answers are those of :func:`reference.structures.arborescence_samples.sample`, but for ``uniforms``
    (..., size, 2 n). From the whole sentence down, left halves first, each complete span of several places and each arc
    draws its split by the next of these numbers. A shorter sentence takes the first of them.

    Time O(n^3) once, and O(n^2) per sample, on the host. The probabilities are those of :func:`tree_partition`.

    Source: Eisner (1996). Branson et al., section 1.2, use such samples in an update.
    """
    place, numbers = Place.of(scores.values), host(uniforms).astype(np.float64)
    value, heads = np.zeros(numbers.shape[:-2]), np.full((*numbers.shape[:-1], numbers.shape[-1] // 2), -1)
    for b, values in sentences(scores):
        n, tops = len(values), finite(np, values.max(axis=-1, keepdims=True))
        chart, terms = _sums((values - tops) / mu, single_root)
        value[b] = mu * whole(chart, None)[0] + tops.sum()
        for s in range(len(numbers[b]) if value[b] > -np.inf else 0):
            heads[b][s, :n] = drawn(terms, n, numbers[b][s])
    return place.floats(value), place.integers(heads)
