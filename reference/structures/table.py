"""Listed outputs with one score each: the simplest structure, and the one that tests compare the others with.

Source: Pillutla et al., Definition 6 for a finite list of outputs; section 2.3.1 for the smoothed max.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host, integer, logsumexp, one_hot, seen
from reference.structures.base import KBest, Structure, at_most, feasible, k_best, positive_k, positive_mu
from reference.structures.sampling import choose, uniforms

__all__ = ["Table", "TableScores", "argmax", "sample", "softmax", "top_k"]


class TableScores(NamedTuple):
    """The scores (..., m) of m listed outputs, for any number of leading batch axes."""

    values: Array


def argmax(scores: TableScores) -> tuple[Array, Array]:
    """Highest score (...,) and the first output (...,) int64 with this score.

    max_y psi(y); value -inf and output -1 if every output is forbidden. Source: Pillutla et al., Definition 6.
    """
    xp = array_namespace(scores.values)
    value = xp.max(scores.values, axis=-1)
    first = xp.argmax(scores.values, axis=-1)
    return value, xp.where(value > -xp.inf, first, -1)


def softmax(scores: TableScores, mu: float = 1.0) -> tuple[Array, TableScores]:
    """mu log sum_y exp(psi(y)/mu) (...,) and its gradient, the probabilities (..., m); 0 for forbidden outputs.

    Source: Pillutla et al., Lemma 7 (ii) and section 2.3.1.
    """
    xp = array_namespace(scores.values)
    scaled = scores.values / mu
    return mu * logsumexp(xp, scaled, axis=-1), TableScores(arrays.softmax(xp, scaled))


def sample(scores: TableScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """mu log Z (...,), and outputs (..., size) drawn with probability exp(psi(y) / mu) / Z.

    Each of the numbers ``uniforms`` (..., size) in [0, 1) determines one output. If every output is forbidden, the
    value is -inf and the outputs are -1.
    """
    xp = array_namespace(scores.values)
    scaled = scores.values / mu
    value = mu * logsumexp(xp, scaled, axis=-1)
    outputs = choose(scaled, None, uniforms)
    return value, xp.where((value > -xp.inf)[..., None], outputs, -1)


def top_k(scores: TableScores, k: int) -> KBest:
    """The k best outputs that are not forbidden; ties go to the smaller index.

    Parameters
    ----------
    scores : TableScores (..., m)
    k : int >= 1
        May exceed m.

    Returns
    -------
    KBest

    Notes
    -----
    Time O(m log m), by a stable sort.
    """
    xp = array_namespace(scores.values)
    kept = min(k, scores.values.shape[-1])
    order = xp.argsort(scores.values, axis=-1, descending=True, stable=True)[..., :kept]
    return k_best(xp.take_along_axis(scores.values, order, axis=-1), order, k)


class Table(Structure):
    """Listed outputs, or a batch of such lists.

    Parameters
    ----------
    values : array (..., m)
        Score of each output; -inf forbids it.

    Raises
    ------
    ValueError, TypeError
        No outputs, nan or +inf, a dtype that is not real.

    Examples
    --------
    >>> value, y = Table([0.0, 2.0, 1.0]).best()
    >>> float(value), int(y)
    (2.0, 1)
    """

    ops = sys.modules[__name__]
    scores: TableScores
    axes = ("outputs",)

    def __init__(self, values: Any) -> None:
        (values,) = arrays.floats(values=values)
        if values.ndim < 1 or values.shape[-1] < 1:
            raise ValueError(f"values: expected shape (..., m) with m >= 1, got {tuple(values.shape)}")
        arrays.refuse_nan_and_inf("values", values)
        super().__init__(TableScores(values))

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and the first output with it (...,). Raises InfeasibleError."""
        value, y = self.ops.argmax(self.scores)
        return feasible(value, "best"), y

    def topk(self, k: int) -> KBest:
        """The k best outputs, padded (:class:`KBest`) if fewer are possible; see :func:`top_k`.

        Does not raise InfeasibleError: the count is 0 if every output is forbidden.
        """
        result: KBest = self.ops.top_k(self.scores, positive_k(k, math.prod(self.scores.values.shape[:-1])))
        return result

    def sample(self, size: int, mu: float = 1.0, rng: int | np.random.Generator | None = None) -> Array:
        """Outputs (..., size) drawn with probability proportional to exp(score / mu); see :func:`sample`.

        Raises InfeasibleError.
        """
        batch = self.scores.values.shape[:-1]
        size = at_most("size", integer("size", size, 1), math.prod(batch))
        numbers = uniforms(rng, (*batch, size), self.scores.values)
        value, outputs = self.ops.sample(self.scores, numbers, positive_mu(mu))
        feasible(value, "sample")
        return outputs

    def max_marginals(self) -> TableScores:
        """The scores themselves: each part is one output."""
        return self.scores

    def expectation(self, mu: float = 1.0) -> tuple[Array, TableScores]:
        """Log-partition (...,) and probabilities (..., m); see :func:`softmax`. Raises InfeasibleError."""
        value, probabilities = self.ops.softmax(self.scores, positive_mu(mu))
        return feasible(value, "expectation"), probabilities

    def parts(self, y: Any) -> TableScores:
        """Indicator (..., m) of outputs y (...,) in 0..m-1; all 0 for -1, no output. Raises ValueError."""
        values = self.scores.values
        y = arrays.integers("y", y, Place.of(values))
        if tuple(y.shape) != tuple(values.shape[:-1]):
            raise ValueError(f"y: expected outputs of shape {tuple(values.shape[:-1])}, got {tuple(y.shape)}")
        xp, m = array_namespace(values), values.shape[-1]
        outside = (y < -1) | (y >= m)
        if seen(xp.any(outside)):
            raise ValueError(f"y: expected outputs in 0..{m - 1}, got {host(y)[host(outside)][0]}")
        return TableScores(one_hot(xp, y, values.shape[-1], values.dtype))

    @property
    def listed(self) -> int:  # type: ignore[override]
        """Number of outputs, including forbidden ones."""
        count: int = self.scores.values.shape[-1]
        return count

    def expected_parts(self, outputs: Array, weights: Array) -> TableScores:
        """sum_k weights[..., k] parts(outputs[..., k]), shape (..., m); an output of -1 has no parts."""
        values = self.scores.values
        chosen = one_hot(array_namespace(values), outputs, values.shape[-1], values.dtype)
        return TableScores(array_namespace(values).sum(chosen * weights[..., None], axis=-2))

    def score(self, y: Any) -> Array:
        """Score (...,) of outputs y (...,) in 0..m-1; 0 for -1, no output. Raises ValueError."""
        values = self.scores.values
        xp = array_namespace(values)
        return xp.sum(xp.where(self.parts(y).values > 0, values, 0.0), axis=-1)

    def first(self) -> Table:
        """The first list of a batch along one axis; a single list itself."""
        values = self.scores.values
        return self if values.ndim == 1 else type(self).unchecked(TableScores(values[0, ...]))

    def count(self) -> int:
        """Number of outputs of a single list that are not forbidden."""
        return len(list(self.enumerate()))

    def enumerate(self) -> Iterator[int]:
        """Every output of a single list that is not forbidden, in order."""
        if self.scores.values.ndim != 1:
            raise ValueError(
                f"expected a single list of outputs, got a batch of shape {tuple(self.scores.values.shape[:-1])}"
            )
        return (int(y) for y in np.flatnonzero(host(self.scores.values) > -np.inf))
