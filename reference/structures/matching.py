"""Matchings: the rows of a (p, q) score matrix are matched with different columns, min(p, q) pairs in all.

score(y) = sum_v values[v, y_v] over the matched rows. The max oracle is an assignment problem, solved by shortest
augmenting paths with potentials (Kuhn 1955; Edmonds and Karp 1972). The max-marginals follow from one optimum and
all-pairs longest paths in its residual graph. Source: Pillutla et al., section 4.2, appendix C.3, Algorithm 12
(*corrected*) and Theorem 48.

Conventions. Outputs are int64 (p,): the column of each row, -1 for a row without one, which occurs only if p > q.
With p = 0 or q = 0 there is one output, of score 0. Ties: which of several best matchings is returned is not specified.
Leading axes are a batch of matrices. Rows and columns past a matrix's lengths are padding: their scores are ignored,
such rows have the column -1, as a matrix of its own would not have them.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host
from reference.structures.base import KBest, Structure, limited, positive_k
from reference.structures.base import feasible as feasible  # of ops
from reference.structures.base import k_best as padded
from reference.structures.batches import Choices, checked_lengths, places, refuse_batch
from reference.structures.bmmf import bmmf

__all__ = ["Matching", "MatchingScores", "assignment", "max_marginals"]


class MatchingScores(NamedTuple):
    """values (..., p, q): the score of pairing row v with column z; -inf forbids the pair. lengths (..., 2) int64: the
    numbers of rows and of columns of each matrix, or None if all have p and q.
    """

    values: Array
    lengths: Array | None = None


MatchingScores.layout = ("lengths",)  # type: ignore[attr-defined]


class Optimum(NamedTuple):
    """A best matching of p <= q rows, with potentials that prove its optimality.

    column (p,) of each row; u (p,), v (q,) with u_i + v_j >= values_ij, equal on the matching; v >= 0, and v = 0 on
    unmatched columns.
    """

    column: np.ndarray
    u: np.ndarray
    v: np.ndarray


def assignment(scores: MatchingScores) -> tuple[Array, Array]:
    """Highest score and a best matching of each matrix (the max oracle).

    max_y sum_v values[v, y_v] over matchings of min(p, q) pairs

    Parameters
    ----------
    scores : MatchingScores

    Returns
    -------
    value : array (...,)
        The sum of the matched scores in the order of the rows; -inf if every matching has a forbidden pair, nan if a
        score is nan or +inf.
    columns : int64 array (..., p)
        -1 for rows without a column and past a matrix's rows; all -1 if there is no matching.

    Notes
    -----
    Time O(min(p, q)^2 max(p, q)). Scores may be up to 1e300 in absolute value. Ties: not specified.

    Source
    ------
    Pillutla et al., appendix C.3 (the max oracle), *corrected*: every row or every column is matched, for scores
    of any sign.
    """
    (*batch, p, _), place = scores.values.shape, Place.of(scores.values)
    value, columns = np.zeros(batch), np.full((*batch, p), -1)
    for b, values in matrices(scores):
        value[b], columns[b][: len(values)] = best_matching(values)
    return place.floats(value), place.integers(columns)


def best_matching(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and columns (p,) of a best matching of one matrix, -1 if there is none."""
    p, q = values.shape
    columns = np.full(p, -1)
    if not np.all(values < np.inf):
        return np.nan, columns
    best = optimum(values) if p <= q else optimum(values.T)
    if best is None:
        return -np.inf, columns
    if p <= q:
        columns = best.column
    else:
        columns[best.column] = np.arange(q)
    return matched_sum(values, columns), columns


def max_marginals(scores: MatchingScores) -> MatchingScores:
    """For each pair the highest score of a matching with this pair; -inf if there is none, and past a matrix's lengths.

    psi_{v;z} = max {score(y): y_v = z} = psi* + phi(v, z) + Delta(z, v)  unless y*_v = z

    Parameters
    ----------
    scores : MatchingScores

    Returns
    -------
    MatchingScores
        values (..., p, q); nan throughout a matrix with a score of nan or +inf.

    Notes
    -----
    Time O(min(p, q)^3 + p q), memory O(p q). Delta(z, v) is the weight of the heaviest path from column z to row v in
    the residual graph of the best matching y*. This graph has an arc from row to column of weight +phi for each allowed
    pair outside y*, and an arc from column to row of weight -phi for each pair of y*. Here a row and its column are one
    node, and weights are reduced by the potentials. The potentials cancel along a path and make all losses >= 0, so
    shortest paths exist. If p < q, the q - p unmatched columns are one more node, as if rows of score 0 had them. A
    path may end there (the column of row v stays free) or start there (column z is unmatched).

    Source
    ------
    Pillutla et al., Algorithm 12, line 3 *corrected*, and Theorem 48. The case p != q is an extension of the paper.
    """
    marginals = np.full(scores.values.shape, -np.inf)
    for b, values in matrices(scores):
        p, q = values.shape
        if np.all(values < np.inf):
            marginals[b][:p, :q] = best_with_each_pair(values) if p <= q else best_with_each_pair(values.T).T
        else:
            marginals[b][:p, :q] = np.nan
    return scores._replace(values=Place.of(scores.values).floats(marginals))


def matrices(scores: MatchingScores) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The place of each matrix in its batch, and its own rows and columns: float64 on the host."""
    values = host(scores.values).astype(np.float64)
    *batch, p, q = values.shape
    lengths = np.full((*batch, 2), (p, q)) if scores.lengths is None else host(scores.lengths)
    for b in places(batch):
        rows, columns = lengths[b]
        yield b, values[b][:rows, :columns]


def optimum(values: np.ndarray) -> Optimum | None:
    """A best matching of all rows of a host matrix (p, q), p <= q, or None if there is none.

    Rows are matched one by one, each along a path of least loss, which Dijkstra's algorithm finds.
    """
    p, q = values.shape
    u, v = np.zeros(p), np.zeros(q)
    column, row = np.full(p, -1), np.full(q, -1)
    for start in range(p):
        loss = np.full(q, np.inf)  # least loss of a path from the start to each column so far
        previous = np.full(q, -1)  # the row before each column on this path
        settled = np.zeros(q, dtype=bool)
        i, least = start, 0.0
        while i >= 0:
            through = least + (u[i] + v - values[i])
            shorter = ~settled & (through < loss)
            loss[shorter], previous[shorter] = through[shorter], i
            j = int(np.argmin(np.where(settled, np.inf, loss)))
            if settled[j] or loss[j] == np.inf:
                return None
            least, settled[j] = loss[j], True
            i = row[j]  # -1: an unmatched column, which ends the path
        rise = least - loss[settled]  # >= 0, and 0 for the last column
        v[settled] += rise
        inner = settled & (row >= 0)
        u[row[inner]] -= least - loss[inner]
        u[start] -= least
        while i != start:  # along the path, each row takes the next column
            i = previous[j]
            row[j], column[i], j = i, j, column[i]
    return Optimum(column, u, v)


def best_with_each_pair(values: np.ndarray) -> np.ndarray:
    """The max-marginals (p, q) of a host matrix with p <= q."""
    p, q = values.shape
    best = optimum(values)
    if best is None:
        return np.full((p, q), -np.inf)
    column, u, v = best
    row = np.full(q, p)  # node of each column: its row, or p if it is unmatched
    row[column] = np.arange(p)
    reduced = np.maximum(u[:, None] + v - values, 0.0)
    loss = np.full((p + 1, p + 1), np.inf)  # [a, b]: the row of node a takes a column of node b
    loss[:p, :p] = reduced[:, column]
    if p < q:
        loss[:p, p] = reduced[:, row == p].min(axis=1)
        loss[p, :p] = v[column]  # a row of score 0 and potential 0
    np.fill_diagonal(loss, 0.0)
    for k in range(p + 1):
        loss = np.minimum(loss, loss[:, k, None] + loss[k])
    marginals: np.ndarray = matched_sum(values, column) - (reduced + loss[row, :p].T)
    marginals[np.arange(p), column] = matched_sum(values, column)
    return marginals


def matched_sum(values: np.ndarray, columns: np.ndarray) -> float:
    """The score of a matching: the sum of its scores in the order of the rows."""
    return float(sum(values[i, j] for i, j in enumerate(columns) if j >= 0))


class Matching(Choices):
    """Matchings of the rows with the columns of a score matrix, or of each matrix of a batch.

    Parameters
    ----------
    values : array (..., p, q)
        Score of pairing each row with each column; -inf forbids the pair. If p <= q, all rows are matched, otherwise
        all columns. Leading axes are a batch.
    lengths : int array (..., 2), optional
        Numbers of rows, 0..p, and of columns, 0..q, of each matrix of a padded batch; default: all p and q.

    Raises
    ------
    ValueError, TypeError
        A wrong number of axes, nan or +inf, a dtype that is not real, lengths outside their ranges.

    Examples
    --------
    >>> value, columns = Matching([[3.0, 2.0], [2.0, 0.0]]).best()
    >>> float(value), columns.tolist()
    (4.0, [1, 0])
    """

    ops = sys.modules[__name__]
    scores: MatchingScores
    axes = ("rows", "columns")
    chosen = "columns"
    variables = "values"
    intractable = {
        "expectation": "the partition function of matchings is a permanent, #P-complete (Pillutla et al., "
        "Proposition 14)",
        "count": "the number of matchings is the permanent of a 0-1 matrix, #P-complete (Valiant 1979)",
    }

    def __init__(self, values: Any, lengths: Any = None) -> None:
        (values,) = arrays.floats(values=values)
        if values.ndim < 2:
            raise ValueError(f"values: expected shape (..., p, q), got {tuple(values.shape)}")
        arrays.refuse_nan_and_inf("values", values)
        *batch, p, q = values.shape
        super().__init__(MatchingScores(values, checked_lengths(lengths, (*batch, 2), (p, q), values)))

    def best(self) -> tuple[Array, Array]:
        """Highest score (...,) and the column (..., p) of each row; see :func:`assignment`. Raises InfeasibleError."""
        value, columns = self.ops.assignment(self.scores)
        return self.ops.feasible(value, "best"), columns

    def topk(self, k: int) -> KBest:
        """The k best matchings, padded (:class:`KBest`) if fewer are possible; see :func:`bmmf`.

        Does not raise InfeasibleError: the count is 0 if every matching has a forbidden pair.
        """
        (values, lengths), (*batch, p, _) = self.scores, self.scores.values.shape
        if not batch and lengths is None:
            return bmmf(self, k)
        k, place = positive_k(k, math.prod(batch) * p), Place.of(values)
        highest, labels = np.full((*batch, k), -np.inf), np.full((*batch, k, p), -1)
        for b, own in matrices(self.scores):
            rows, columns = own.shape
            best = bmmf(type(self).unchecked(MatchingScores(values[(*b, slice(rows), slice(columns))])), k)
            highest[b], labels[b][:, :rows] = host(best.scores), host(best.labels)
        return padded(place.floats(highest), place.integers(labels), k)

    def max_marginals(self) -> MatchingScores:
        """The highest score of a matching with each pair; see :func:`max_marginals`. -inf if there is none."""
        values: MatchingScores = self.ops.max_marginals(self.scores)
        return values

    def enumerate(self) -> Iterator[tuple[int, ...]]:
        """Every matching of a single matrix without a forbidden pair, as tuples of columns."""
        refuse_batch("enumerate", self.scores.values, "matrix")
        ((_, values),) = matrices(self.scores)
        allowed = values > -np.inf
        p, q = allowed.shape
        for chosen in itertools.permutations(range(max(p, q)), min(p, q)):
            y = list(chosen)
            if p > q:
                y = [-1] * p
                for column, row in enumerate(chosen):
                    y[row] = column
            if all(j < 0 or allowed[i, j] for i, j in enumerate(y)):
                yield tuple(y)

    # the variables of constrained searches: the rows or columns of the smaller side, each with one state -------------

    def states(self, y: Any) -> np.ndarray:
        """The state of each variable in a matching y (..., p): the column of each row; if p > q, the row of each
        column.
        """
        columns = np.asarray(host(y), np.int64)
        if not self._by_columns:
            return columns
        rows = np.full((*columns.shape[:-1], self.scores.values.shape[-1]), -1)
        *b, row = matched = np.nonzero(columns >= 0)
        rows[(*b, columns[matched])] = row
        return rows

    def node_max_marginals(self) -> Array:
        """The max-marginals with a row for each variable: (..., p, q), or (..., q, p) if p > q."""
        values = self.max_marginals().values
        return array_namespace(values).matrix_transpose(values) if self._by_columns else values

    def constrained(self, allowed: Any) -> Structure:
        """The matchings in which each variable has an allowed state: booleans (p, q), or (q, p) if p > q; or one such
        matrix for each of a batch.
        """
        values = self.scores.values
        if not self._by_columns:
            return type(self).unchecked(self.scores._replace(values=limited(values, allowed)))
        transpose = array_namespace(values).matrix_transpose
        return type(self).unchecked(self.scores._replace(values=transpose(limited(transpose(values), allowed))))

    @property
    def _by_columns(self) -> bool:
        values, lengths = self.scores
        rows, columns = values.shape[-2:] if lengths is None or values.ndim > 2 else host(lengths).tolist()
        return bool(rows > columns)

    @property
    def _rows(self) -> Array | None:
        return None if self.scores.lengths is None else self.scores.lengths[..., 0]

    def _require(self, y: np.ndarray, lengths: Any) -> None:
        p, q = self.scores.values.shape[-2:] if lengths is None else lengths.tolist()
        taken = y[y != -1]
        if taken.size and not 0 <= taken.min() <= taken.max() < q:
            raise ValueError(f"y: expected columns in 0..{q - 1}, or -1 for none, got {y.tolist()}")
        if len(np.unique(taken)) < len(taken) or len(taken) not in (0, min(p, q)):
            raise ValueError(f"y: expected {min(p, q)} pairs, each column once at most, got {y.tolist()}")
