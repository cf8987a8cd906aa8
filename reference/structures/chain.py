"""Linear chains: one label per position, with scores of labels and of neighbouring pairs.

score(y) = sum_t unary[t, y_t] + sum_{t>=1} pairwise[t-1, y_{t-1}, y_t]. The paper's algorithms are functions of arrays
with any number of leading batch axes; :class:`Chain` wraps them and validates its arguments. ``chain_sum`` has the
log-partition and marginals, ``chain_k_best`` the k best labellings and max-marginals, ``chain_samples`` random
labellings. Source: Pillutla et al., Algorithm 1 (max-product) and Algorithm 3 (sum-product; here in log space, see the
ledger).

Conventions. A chain of length 0 has exactly one output, the empty one, of score 0. Positions at and past a chain's
length are padding: their scores are ignored, their marginals are 0, their labels are -1. In the functions a label
outside 0..L-1 has no parts. :class:`Chain` rejects such a label; only -1 at every position is allowed and means no
labelling. Ties go to the smallest label at the last position, then backwards (the first index in every argmax).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import (
    Array,
    Place,
    concrete,
    host,
    integer,
    one_hot,
    seen,
    take_last,
)
from reference.structures.base import KBest, Structure, at_most, checked_loss, feasible, positive_k, positive_mu
from reference.structures.chain_hessian import hessian_product
from reference.structures.chain_k_best import max_marginals, top_k_viterbi
from reference.structures.chain_masks import front, labels_back, labels_front, parts_back, with_end
from reference.structures.chain_samples import sample
from reference.structures.chain_scores import (
    ChainScores,
    exists,
    first_of,
    frozen,
    no_positions,
    on_host,
    transitions,
)
from reference.structures.chain_sum import forward_backward
from reference.structures.sampling import uniforms
from reference.structures.scores import score_fields

__all__ = [
    "Chain",
    "ChainScores",
    "forward_backward",
    "hessian_product",
    "max_marginals",
    "parts",
    "sample",
    "score",
    "top_k_viterbi",
    "viterbi",
]


def viterbi(scores: ChainScores) -> tuple[Array, Array]:
    """Highest score and best labelling of each chain (the max oracle).

    max_y sum_t unary[t, y_t] + sum_{t>=1} pairwise[t-1, y_{t-1}, y_t]

    Parameters
    ----------
    scores : ChainScores

    Returns
    -------
    value : array (...,)
        -inf where every labelling is forbidden.
    labels : int64 array (..., n)
        -1 past a chain's length, and at every position of a chain without a feasible labelling.

    Notes
    -----
    Time O(n L^2), memory O(n L). Ties: the smallest label at the last position, then backwards.

    Source
    ------
    Pillutla et al., Algorithm 1.
    """
    xp = array_namespace(scores.unary)
    unary, lengths = scores.unary, scores.lengths
    n = unary.shape[-2]
    if n == 0:
        return no_positions(xp, unary)
    best = unary[..., 0, :]
    back = []
    for t in range(1, n):
        total = best[..., None] + transitions(scores, t)  # (..., label at t-1, label at t)
        back.append(xp.argmax(total, axis=-2))
        best = frozen(xp, lengths, t, unary[..., t, :] + xp.max(total, axis=-2), best)
    value, last = xp.max(best, axis=-1), xp.argmax(best, axis=-1)
    labels = [last]
    for t in range(n - 1, 0, -1):
        labels.append(frozen(xp, lengths, t, take_last(xp, back[t - 1], labels[-1]), labels[-1]))
    path = xp.stack(labels[::-1], axis=-1)
    keep = exists(xp, scores) & (value > -xp.inf)[..., None]
    if lengths is not None:
        value = xp.where(lengths > 0, value, 0.0)
    return value, xp.where(keep, path, -1)


def score(scores: ChainScores, labels: Array) -> Array:
    """The score (...,) of one labelling (..., n) of each chain; labels past a chain's length are ignored."""
    xp = array_namespace(scores.unary)
    labels = xp.where(exists(xp, scores), labels, -1)
    n = labels.shape[-1]
    indicator = one_hot(xp, labels, scores.unary.shape[-1], xp.bool)
    total = xp.sum(xp.where(indicator, scores.unary, 0.0), axis=(-2, -1))
    for t in range(1, n):
        pair = indicator[..., t - 1, :, None] & indicator[..., t, None, :]
        table = xp.broadcast_to(transitions(scores, t), pair.shape)
        total = total + xp.sum(xp.where(pair, table, 0.0), axis=(-2, -1))
    return total


def parts(scores: ChainScores, labels: Array) -> ChainScores:
    """The indicator of the parts of one labelling (..., n) of each chain, shaped like ``scores``.

    A shared pairwise matrix gets the number of times each transition occurs, summed over the batch. Labels past a
    chain's length and labels outside 0..L-1 (such as -1) have no parts.
    """
    xp = array_namespace(scores.unary)
    labels = xp.where(exists(xp, scores), labels, -1)
    unary = one_hot(xp, labels, scores.unary.shape[-1], scores.unary.dtype)
    n = labels.shape[-1]
    before, after = unary[..., : max(n - 1, 0), :], unary[..., min(n, 1) :, :]
    if scores.pairwise.ndim > 2:
        return ChainScores(unary, before[..., :, None] * after[..., None, :], scores.lengths)
    counts = xp.matmul(xp.matrix_transpose(before), after)
    return ChainScores(unary, xp.sum(counts, axis=tuple(range(counts.ndim - 2))), scores.lengths)


class Chain(Structure):
    """A linear chain or a batch of chains.

    Parameters
    ----------
    unary : array (..., n, L)
        Score of each label at each position; -inf forbids it. Leading axes are a batch.
    pairwise : array (L, L) or (..., n-1, L, L)
        Score of (label at t-1, label at t): one matrix for all pairs of neighbours, or one for each pair.
    lengths : int array (...,), optional
        Length of each chain of a padded batch, 0..n; default: all n.
    mask : bool array (..., n), optional
        Which positions belong to a chain; others are left out, and their neighbours adjoin. The score of an edge
        belongs to its later position. Answers have -1, 0 or -inf at other positions, as past a chain's length.
    starts, ends : array (L,), optional
        Scores of the labels at the first and at the last position of each chain, added to ``unary``; -inf forbids.

    Raises
    ------
    ValueError, TypeError
        Inconsistent shapes, lengths outside 0..n, nan or +inf, dtypes other than float32 and float64 (integers and
        booleans become float64), arrays of different namespaces or devices, a mask that is not boolean.

    Examples
    --------
    >>> chain = Chain([[1.0, 0.0], [0.0, 0.5]], [[0.0, -1.0], [0.0, 0.0]])
    >>> value, labels = chain.best()
    >>> float(value), labels.tolist()
    (1.0, [0, 0])
    """

    ops = sys.modules[__name__]  # the module with the functions; the accelerated panel replaces it by its own
    scores: ChainScores
    axes = ("n", "labels")
    variables = "unary"

    def __init__(
        self, unary: Any, pairwise: Any, lengths: Any = None, mask: Any = None, *, starts: Any = None, ends: Any = None
    ) -> None:
        given = {name: x for name, x in (("starts", starts), ("ends", ends)) if x is not None}
        unary, pairwise, *rest = arrays.floats(unary=unary, pairwise=pairwise, **given)
        if unary.ndim < 2 or unary.shape[-1] < 1:
            raise ValueError(f"unary: expected shape (..., n, L) with L >= 1, got {tuple(unary.shape)}")
        *batch, n, n_labels = unary.shape
        shared, each = (n_labels, n_labels), (*batch, max(n - 1, 0), n_labels, n_labels)
        if tuple(pairwise.shape) not in (shared, each):
            raise ValueError(f"pairwise: expected shape {shared} or {each}, got {tuple(pairwise.shape)}")
        arrays.refuse_nan_and_inf("unary", unary)
        arrays.refuse_nan_and_inf("pairwise", pairwise)
        if lengths is not None:
            lengths = arrays.integers("lengths", lengths, Place.of(unary))
            if tuple(lengths.shape) != tuple(batch):
                raise ValueError(f"lengths: expected shape {tuple(batch)}, got {tuple(lengths.shape)}")
            on_host = host(lengths) if concrete(lengths) else np.zeros(0)
            if on_host.size and not 0 <= on_host.min() <= on_host.max() <= n:
                raise ValueError(f"lengths: expected 0..{n}, got {on_host.min()}..{on_host.max()}")
        if mask is not None:
            mask = arrays.booleans("mask", mask, (*batch, n), Place.of(unary))
        scores = ChainScores(unary, pairwise, lengths, mask)
        for (name, _), end in zip(given.items(), rest, strict=True):
            if tuple(end.shape) != (n_labels,):
                raise ValueError(f"{name}: expected shape {(n_labels,)}, got {tuple(end.shape)}")
            arrays.refuse_nan_and_inf(name, end)
            scores = with_end(scores, end, last=name == "ends")
        super().__init__(scores)

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and best labels (..., n); see :func:`viterbi`. Raises InfeasibleError."""
        value, labels = self.ops.viterbi(front(self.scores))
        return self.ops.feasible(value, "best"), labels_back(self.scores, labels)

    def expectation(self, mu: float = 1.0, weights: Any = None) -> tuple[Array, ChainScores]:
        """Log-partition (...,) and marginals at temperature mu; see :func:`forward_backward`.

        weights (...,): numbers by which the chains' marginals are multiplied. Raises InfeasibleError, ValueError.
        """
        value, marginals = self.ops.forward_backward(front(self.scores), positive_mu(mu), self._weights(weights))
        return self.ops.feasible(value, "expectation"), parts_back(self.scores, marginals)

    def hessian_product(
        self, direction: ChainScores, mu: float = 1.0, weights: Any = None
    ) -> tuple[Array, ChainScores]:
        """Derivatives of the log-partition (...,) and of the marginals along a direction, shaped like the scores; see
        :func:`hessian_product`. weights (...,) as in :meth:`expectation`. Raises ValueError, TypeError.
        """
        direction = checked_loss(self.scores, direction)
        for name, field in zip(("unary", "pairwise"), score_fields(direction), strict=True):
            arrays.refuse_nan_and_inf(f"direction.{name}", field, forbidden=False)
        along = front(self.scores._replace(unary=direction.unary, pairwise=direction.pairwise))
        inner, tangents = self.ops.hessian_product(front(self.scores), along, positive_mu(mu), self._weights(weights))
        return inner, parts_back(self.scores, tangents)

    def topk(self, k: int) -> KBest:
        """The k best labellings, padded (:class:`KBest`) if fewer are possible; see :func:`top_k_viterbi`.

        Does not raise InfeasibleError: the count is 0 if every labelling is forbidden.
        """
        *batch, n, n_labels = self.scores.unary.shape
        k = positive_k(k, math.prod(batch) * n)
        # the k best are kept for each label at each position
        at_most("k", min(k, n_labels**n), math.prod(batch) * n * n_labels, "for which the search keeps")
        result: KBest = self.ops.top_k_viterbi(front(self.scores), k)
        return result._replace(labels=labels_back(self.scores, result.labels))

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Labels (..., size, n) drawn with probability proportional to exp(score / mu); see :func:`sample`.

        Raises InfeasibleError.
        """
        *batch, n, _ = self.scores.unary.shape
        size = at_most("size", integer("size", size, 1), math.prod(batch) * n)
        numbers = uniforms(rng, (*batch, size, n), self.scores.unary)
        value, labels = self.ops.sample(front(self.scores), numbers, positive_mu(mu))
        feasible(value, "sample")
        return labels_back(self.scores, labels)

    def max_marginals(self) -> ChainScores:
        """The highest score of a labelling with each part; see :func:`max_marginals`. -inf if there is none."""
        values: ChainScores = self.ops.max_marginals(front(self.scores))
        return parts_back(self.scores, values, -np.inf)

    def score(self, y: Any) -> Array:
        """Score (...,) of labels (..., n) in 0..L-1. Labels past a chain's length are ignored.

        -1 at every position means no labelling and has score 0. Raises ValueError.
        """
        return self.ops.score(front(self.scores), labels_front(self.scores, self._labels(y)))

    def parts(self, y: Any) -> ChainScores:
        """Indicator of the parts of labels (..., n) as in :meth:`score`; see :func:`parts`.

        Raises ValueError.
        """
        parts: ChainScores = self.ops.parts(front(self.scores), labels_front(self.scores, self._labels(y)))
        return parts_back(self.scores, parts)

    def expected_parts(self, outputs: Array, weights: Array) -> ChainScores:
        """sum_k weights[..., k] parts(outputs[..., k, :]) of labels (..., k, n); see :func:`parts`."""
        scores = self.scores
        xp = array_namespace(scores.unary)
        labels = xp.where(exists(xp, scores)[..., None, :], outputs, -1)
        labels = labels_front(scores, labels)
        indicator = one_hot(xp, labels, scores.unary.shape[-1], scores.unary.dtype)  # (..., k, n, L)
        weighted = indicator * weights[..., None, None]
        n = labels.shape[-1]
        before, after = weighted[..., : max(n - 1, 0), :], indicator[..., min(n, 1) :, :]
        unary = xp.sum(weighted, axis=-3)
        if scores.pairwise.ndim > 2:
            pairs = xp.sum(before[..., :, None] * after[..., None, :], axis=-4)
        else:
            counts = xp.matmul(xp.matrix_transpose(before), after)
            pairs = xp.sum(counts, axis=tuple(range(counts.ndim - 2)))
        return parts_back(scores, ChainScores(unary, pairs, scores.lengths))

    def first(self) -> Chain:
        """The first chain of a batch along one axis; a single chain itself."""
        return type(self).unchecked(first_of(self.scores, len(self.axes)))

    def count(self) -> int:
        """Number of labellings of a single chain that are not forbidden; exact, a Python int."""
        unary, pairwise = self._one_chain("count")
        if len(unary) == 0:
            return 1
        if np.all(unary > -np.inf) and np.all(pairwise > -np.inf):
            count: int = unary.shape[1] ** len(unary)
            return count
        ways = [int(allowed) for allowed in unary[0] > -np.inf]
        for t in range(1, len(unary)):
            allowed = (pairwise[t - 1] > -np.inf) & (unary[t] > -np.inf)
            ways = [sum(ways[i] for i in np.flatnonzero(column)) for column in allowed.T]
        return sum(ways)

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every labelling of a single chain that is not forbidden, in lexicographic order, as tuples; -1 where a mask
        leaves a position out.
        """
        unary, pairwise = self._one_chain("enumerate")
        for y in itertools.product(range(unary.shape[1]), repeat=len(unary)):
            nodes = all(unary[t, label] > -np.inf for t, label in enumerate(y))
            if nodes and all(pairwise[t - 1, y[t - 1], y[t]] > -np.inf for t in range(1, len(y))):
                if self.scores.mask is None:
                    yield y
                else:
                    rest = iter(y)
                    yield tuple(next(rest) if kept else -1 for kept in host(exists(np, self.scores)).tolist())

    def _weights(self, weights: Any) -> Array | None:
        if weights is None:
            return None
        batch = tuple(self.scores.unary.shape[:-2])
        _, weights = arrays.floats(unary=self.scores.unary, weights=weights)
        if tuple(weights.shape) != batch:
            raise ValueError(f"weights: expected shape {batch}, got {tuple(weights.shape)}")
        arrays.refuse_nan_and_inf("weights", weights, forbidden=False)
        return array_namespace(weights).astype(weights, self.scores.unary.dtype)

    def _labels(self, y: Any) -> Array:
        shape = tuple(self.scores.unary.shape[:-1])
        y = arrays.integers("y", y, Place.of(self.scores.unary))
        if tuple(y.shape) != shape:
            raise ValueError(f"y: expected labels of shape {shape}, got {tuple(y.shape)}")
        xp, L = array_namespace(y), self.scores.unary.shape[-1]
        in_chain = exists(xp, self.scores)
        # the oracles return -1 at every position if every labelling is forbidden
        no_labelling = xp.all(xp.where(in_chain, y, -1) == -1, axis=-1)
        outside = in_chain & ((y < 0) | (y >= L)) & ~no_labelling[..., None]
        if seen(xp.any(outside)):
            index = tuple(int(i) for i in np.argwhere(host(outside))[0])
            raise ValueError(
                f"y: expected labels in 0..{L - 1} at each position of a chain, got {int(y[index])} at {index}"
            )
        return y

    def _one_chain(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """unary (n, L) and pairwise (n-1, L, L) on the host, n the chain's length."""
        return on_host(question, front(self.scores), 2, "chain")
