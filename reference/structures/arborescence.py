"""Dependency trees: every token of a sentence has a head, another token or the root, and following heads leads to the
root.

score(y) = sum_m values[m, y_m] over the tokens m + 1 = 1..n, with heads y_m in 0..n, 0 being the root; the arcs may
cross. Trees are spanning arborescences of the tokens and the root. Source: Martins et al., section 4
(dependency parsing).

The best tree, K best trees and max-marginals are in ``arborescence_max``; sums over all trees in ``arborescence_sum``.

Conventions. Outputs are int64 heads (n,). A token is never its own head: values[m, m + 1] is ignored, with gradient 0.
With n = 0 there is one output, of score 0. Exactly one root arc if ``single_root``, one or more if not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host, integer, one_hot
from reference.structures.arborescence_max import (
    ArborescenceScores,
    find_cycle,
    host_values,
    max_marginals,
    maximum_arborescence,
    top_k_arborescences,
)
from reference.structures.arborescence_samples import sample
from reference.structures.arborescence_sum import number_of_trees, tree_partition
from reference.structures.base import KBest, Structure, feasible, positive_k, positive_mu
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


class Arborescence(Structure):
    """Dependency trees over n tokens, non-projective ones included.

    Parameters
    ----------
    values : array (n, n + 1)
        values[m, h]: score of head h (0: the root) for token m + 1; -inf forbids the arc. values[m, m + 1] is ignored.
    single_root : bool
        Whether exactly one token has the root as its head.

    Raises
    ------
    ValueError, TypeError
        Another shape, nan or +inf, a dtype that is not real.

    Examples
    --------
    >>> value, heads = Arborescence([[1.0, 0.0, 5.0], [2.0, 4.0, 0.0]]).best()  # the best heads, 2 and 1, form a cycle
    >>> float(value), heads.tolist()
    (7.0, [2, 0])
    """

    ops = sys.modules[__name__]
    scores: ArborescenceScores
    axes = ("tokens", "heads")
    variables = "values"
    single_root = False

    def __init__(self, values: Any, single_root: bool = False) -> None:
        (values,) = arrays.floats(values=values)
        if values.ndim != 2 or values.shape[1] != values.shape[0] + 1:
            raise ValueError(f"values: expected shape (n, n + 1), got {tuple(values.shape)}")
        arrays.refuse_nan_and_inf("values", values)
        if not isinstance(single_root, (bool, np.bool_)):
            raise TypeError(f"single_root: expected True or False, got {single_root!r}")
        super().__init__(ArborescenceScores(values))
        self.single_root = bool(single_root)

    def best(self) -> tuple[Array, Array]:
        """Highest score and heads (n,) of a tree that has it; see :func:`maximum_arborescence`. Raises
        InfeasibleError.
        """
        value, heads = self.ops.maximum_arborescence(self.scores, self.single_root)
        return feasible(value, "best"), heads

    def topk(self, k: int) -> KBest:
        """The k best trees, labels (k, n); see :func:`top_k_arborescences`. Fewer, or none, where fewer are
        possible: never InfeasibleError.
        """
        k = positive_k(k, self.scores.values.shape[0])
        found: KBest = self.ops.top_k_arborescences(self.scores, k, self.single_root)
        return found

    def max_marginals(self) -> ArborescenceScores:
        """The highest score of a tree with each arc; see :func:`max_marginals`. All -inf where there is none."""
        found: ArborescenceScores = self.ops.max_marginals(self.scores, self.single_root)
        return found

    def expectation(self, mu: float = 1.0) -> tuple[Array, ArborescenceScores]:
        """Log-partition function and arc marginals (n, n + 1); see :func:`tree_partition`. Raises InfeasibleError."""
        value, marginals = self.ops.tree_partition(self.scores, positive_mu(mu), self.single_root)
        return feasible(value, "expectation"), marginals

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Heads (size, n) of trees drawn with probability proportional to exp(score / mu); see :func:`sample`. Raises
        InfeasibleError."""
        numbers = uniforms(rng, (integer("size", size, 1), self.scores.values.shape[0] + 1), self.scores.values)
        value, heads = self.ops.sample(self.scores, numbers, positive_mu(mu), self.single_root)
        feasible(value, "sample")
        return heads

    def count(self) -> int:
        """The number of trees without a forbidden arc, exactly."""
        return number_of_trees(host_values(self.scores) > -np.inf, self.single_root)

    def parts(self, y: Any) -> ArborescenceScores:
        """Indicator (n, n + 1) of the arcs of a tree y (n,); -1 throughout: no tree, no arcs. Raises ValueError."""
        values = self.scores.values
        y, n = arrays.integers("y", y, Place.of(values)), values.shape[0]
        if tuple(y.shape) != (n,):
            raise ValueError(f"y: expected a head for each of {n} tokens, got shape {tuple(y.shape)}")
        heads = host(y)
        if np.any(heads != -1):
            self._refuse_other_than_trees(heads)
        return ArborescenceScores(one_hot(array_namespace(values), y, n + 1, values.dtype))

    def expected_parts(self, outputs: Array, weights: Array) -> ArborescenceScores:
        """sum_k weights[k] parts(outputs[k]) of heads (k, n)."""
        values = self.scores.values
        xp = array_namespace(values)
        arcs = one_hot(xp, outputs, values.shape[1], values.dtype)
        return ArborescenceScores(xp.sum(arcs * weights[:, None, None], axis=0))

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every tree without a forbidden arc, as a tuple of heads, in lexicographic order."""
        allowed = host_values(self.scores) > -np.inf

        def extend(heads: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(heads) == len(allowed):
                if not self.single_root or heads.count(0) <= 1:
                    yield heads
                return
            for h in np.flatnonzero(allowed[len(heads)]).tolist():
                if not _comes_back((*heads, h)):
                    yield from extend((*heads, h))

        return extend(())

    def constrained(self, allowed: Any) -> Arborescence:
        """The trees in which each token has an allowed head: booleans (n, n + 1)."""
        return self._with(super().constrained(allowed).scores)

    def augment(self, loss: ArborescenceScores) -> Arborescence:
        """The same space with ``loss`` (finite, shaped like the scores) added to the scores. Raises ValueError for
        another shape.
        """
        return self._with(super().augment(loss).scores)

    def _with(self, scores: ArborescenceScores) -> Arborescence:
        """The trees under other scores, as many roots."""
        other = type(self).unchecked(scores)
        other.single_root = self.single_root
        return other

    def _refuse_other_than_trees(self, heads: np.ndarray) -> None:
        n = len(heads)
        if not 0 <= heads.min() <= heads.max() <= n:
            raise ValueError(f"y: expected heads in 0..{n}, got {heads.tolist()}")
        if len(cycle := find_cycle(heads)):
            raise ValueError(f"y: expected a tree, got the cycle of tokens {(cycle + 1).tolist()} in {heads.tolist()}")
        if self.single_root and np.sum(heads == 0) != 1:
            raise ValueError(f"y: expected a single token of head 0, got {heads.tolist()}")


def _comes_back(heads: tuple[int, ...]) -> bool:
    """Whether following heads from the last token, as far as they are known, comes back to it."""
    last = h = len(heads)
    while 0 < (h := heads[h - 1]) < last:
        pass
    return h == last
