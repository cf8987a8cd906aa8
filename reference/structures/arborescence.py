"""Dependency trees: the head of each token of a sentence is another token or the root.

score(y) = sum_m values[m, y_m] over the tokens m + 1 = 1..n, with heads y_m in 0..n, where 0 is the root. The arcs form
a spanning arborescence of the root and the tokens, so every path of heads ends at the root. Arcs may cross. Source:
Martins et al., section 4 (dependency parsing).

``arborescence_max`` has the best tree, the k best trees and max-marginals; ``arborescence_sum`` has sums over all
trees; ``arborescence_samples`` has random trees.

Conventions. Outputs are int64 heads (n,). A token is never its own head: values[m, m + 1] is ignored, with gradient 0.
With n = 0 there is one output, of score 0. A tree has exactly one root arc if ``single_root``, otherwise one or more.
Leading axes are a batch of sentences. Tokens past a sentence's length are padding, as rows and as columns: their scores
are ignored, their marginals are 0, their heads are -1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from reference import arrays
from reference.arrays import Array, integer
from reference.structures.arborescence_max import (
    ArborescenceScores,
    find_cycle,
    max_marginals,
    maximum_arborescence,
    sentences,
    top_k_arborescences,
)
from reference.structures.arborescence_samples import sample
from reference.structures.arborescence_sum import number_of_trees, tree_partition
from reference.structures.base import KBest, at_most, feasible, positive_k, positive_mu
from reference.structures.batches import Choices, checked_lengths, refuse_batch
from reference.structures.sampling import uniforms

__all__ = [
    "Arborescence",
    "ArborescenceScores",
    "max_marginals",
    "maximum_arborescence",
    "sample",
    "top_k_arborescences",
    "tree_partition",
]


class Arborescence(Choices):
    """Dependency trees over n tokens, including non-projective trees, of one sentence or of a batch.

    Parameters
    ----------
    values : array (..., n, n + 1)
        values[..., m, h]: score of head h (0: the root) for token m + 1; -inf forbids the arc. values[..., m, m + 1] is
        ignored. Leading axes are a batch.
    single_root : bool
        Whether exactly one token has the root as its head.
    lengths : int array (...,), optional
        Number of tokens of each sentence of a padded batch, 0..n; default: all n.

    Raises
    ------
    ValueError, TypeError
        A wrong shape, nan or +inf, a dtype that is not real, lengths outside 0..n.

    Examples
    --------
    >>> value, heads = Arborescence([[1.0, 0.0, 5.0], [2.0, 4.0, 0.0]]).best()  # the best heads, 2 and 1, form a cycle
    >>> float(value), heads.tolist()
    (7.0, [2, 0])
    """

    ops = sys.modules[__name__]
    scores: ArborescenceScores
    axes = ("tokens", "heads")
    chosen = "heads"
    variables = "values"
    single_root = False

    def __init__(self, values: Any, single_root: bool = False, lengths: Any = None) -> None:
        (values,) = arrays.floats(values=values)
        if values.ndim < 2 or values.shape[-1] != values.shape[-2] + 1:
            raise ValueError(f"values: expected shape (..., n, n + 1), got {tuple(values.shape)}")
        arrays.refuse_nan_and_inf("values", values)
        if not isinstance(single_root, (bool, np.bool_)):
            raise TypeError(f"single_root: expected True or False, got {single_root!r}")
        lengths = checked_lengths(lengths, tuple(values.shape[:-2]), values.shape[-2], values)
        super().__init__(ArborescenceScores(values, lengths))
        self.single_root = bool(single_root)

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and heads (..., n) of a best tree; see :func:`maximum_arborescence`.

        Raises InfeasibleError.
        """
        value, heads = self.ops.maximum_arborescence(self.scores, self.single_root)
        return self.ops.feasible(value, "best"), heads

    def topk(self, k: int) -> KBest:
        """The k best trees, padded (:class:`KBest`) if fewer are possible; see :func:`top_k_arborescences`.

        Does not raise InfeasibleError: the count is 0 if every tree has a forbidden arc.
        """
        k = positive_k(k, math.prod(self.scores.values.shape[:-1]))
        result: KBest = self.ops.top_k_arborescences(self.scores, k, self.single_root)
        return result

    def max_marginals(self) -> ArborescenceScores:
        """The highest score of a tree with each arc; see :func:`max_marginals`. -inf if there is none."""
        values: ArborescenceScores = self.ops.max_marginals(self.scores, self.single_root)
        return values

    def expectation(self, mu: float = 1.0) -> tuple[Array, ArborescenceScores]:
        """Log-partition (...,) and arc marginals (..., n, n + 1); see :func:`tree_partition`.

        Raises InfeasibleError.
        """
        value, marginals = self.ops.tree_partition(self.scores, positive_mu(mu), self.single_root)
        return self.ops.feasible(value, "expectation"), marginals

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Heads (..., size, n) of trees drawn with probability proportional to exp(score / mu); see :func:`sample`.

        Raises InfeasibleError.
        """
        *batch, n, _ = self.scores.values.shape
        size = at_most("size", integer("size", size, 1), math.prod(batch) * n)
        numbers = uniforms(rng, (*batch, size, self._numbers(n)), self.scores.values)
        value, heads = self.ops.sample(self.scores, numbers, positive_mu(mu), self.single_root)
        feasible(value, "sample")
        return heads

    def count(self) -> int:
        """The number of trees of a single sentence without a forbidden arc, exactly."""
        return number_of_trees(self._allowed("count"), self.single_root)

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every tree of a single sentence without a forbidden arc, as a tuple of heads, in lexicographic order."""
        allowed = self._allowed("enumerate")

        def extend(heads: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(heads) == len(allowed):
                if not self.single_root or heads.count(0) <= 1:
                    yield heads
                return
            for h in np.flatnonzero(allowed[len(heads)]).tolist():
                if self._may_begin((*heads, h)):
                    yield from extend((*heads, h))

        return extend(())

    def _with(self, scores: ArborescenceScores) -> Self:
        other = super()._with(scores)
        other.single_root = self.single_root
        return other

    def _numbers(self, n: int) -> int:
        """How many random numbers a tree is drawn by."""
        return n + 1

    def _may_begin(self, heads: tuple[int, ...]) -> bool:
        """Whether a tree may have these heads of its first tokens, if it may have all of them but the last."""
        return not _closes_cycle(heads)

    def _allowed(self, question: str) -> np.ndarray:
        """Whether each arc (n, n + 1) of a single sentence of n tokens is possible."""
        refuse_batch(question, self.scores.values, "sentence")
        ((_, values),) = sentences(self.scores)
        return values > -np.inf

    def _require(self, y: np.ndarray, lengths: Any) -> None:
        if np.any(y != -1):
            self._require_tree(y[:lengths])

    def _require_tree(self, heads: np.ndarray) -> None:
        n = len(heads)
        if not 0 <= heads.min() <= heads.max() <= n:
            raise ValueError(f"y: expected heads in 0..{n}, got {heads.tolist()}")
        if len(cycle := find_cycle(heads)):
            raise ValueError(f"y: expected a tree, got the cycle of tokens {(cycle + 1).tolist()} in {heads.tolist()}")
        if self.single_root and np.sum(heads == 0) != 1:
            raise ValueError(f"y: expected a single token of head 0, got {heads.tolist()}")


def _closes_cycle(heads: tuple[int, ...]) -> bool:
    """Whether the heads of the first tokens contain a cycle through the last of them."""
    last = h = len(heads)
    while 0 < (h := heads[h - 1]) < last:
        pass
    return h == last
