"""Matchings: the reference's functions as kernels, on the host; networkx and SciPy as oracles beside them.

Best matchings of a batch are one call of a kernel, over threads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import reference.structures.matching as reference
from accelerated.arrays import are_sound, like, ready, view
from accelerated.compiled.structures.assignment import are_scores, best_matching, best_range, matched_sum
from accelerated.compiled.structures.matching import best_with_each_pair
from accelerated.mirror import mirrors
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array, Place, host
from reference.structures.matching import MatchingScores

__all__ = ["Matching", "MatchingScores", "assignment", "by_networkx", "by_scipy", "max_marginals"]


@mirrors(reference.assignment)
def assignment(scores: MatchingScores) -> tuple[Array, Array]:
    values = scores.values
    if ready(values) and values.ndim == 2 and scores.lengths is None:
        highest, columns, (p, q) = np.empty(1), np.full(len(values), -1), values.shape
        if p <= q:
            return np.asarray(best_matching(values, columns)), columns
        best_range(0, 1, values[None], np.array([[p, q]]), highest, columns[None])
        return highest.reshape(()), columns
    value, columns = best(scores)
    return like(value, values), like(columns, values)


def _flat(scores: MatchingScores) -> tuple[np.ndarray, np.ndarray]:
    """values (B, p, q), float32 or float64, and lengths (B, 2) of a batch."""
    *batch, p, q = scores.values.shape
    B = math.prod(batch)
    if scores.lengths is None:
        lengths = np.full((B, 2), (p, q))
    else:
        lengths = view("lengths", scores.lengths, np.int64).reshape(-1, 2)
    if len(lengths) != B or not np.all((lengths >= 0) & (lengths <= (p, q))):
        raise ValueError(f"lengths: expected {B} pairs in 0..{p} and 0..{q}, got {lengths.tolist()[:9]}")
    return view("values", scores.values, None).reshape(B, p, q), lengths


def best(scores: MatchingScores, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The highest scores (...,), -inf without a matching, nan where a score is nan or +inf, and columns (..., p), -1
    for none.
    """
    (values, lengths), shape = _flat(scores), scores.values.shape[:-1]
    value, columns = np.empty(len(values)), np.full(values.shape[:2], -1)
    pieces = [(0, len(lengths))]
    if len(lengths) > 1:
        pieces = ranges(np.concatenate([[0], np.cumsum(lengths.prod(axis=1))]))
    in_parallel(lambda lo, hi: best_range(lo, hi, values, lengths, value, columns), pieces, threads)
    return value.reshape(shape[:-1]), columns.reshape(shape)


@mirrors(reference.max_marginals)
def max_marginals(scores: MatchingScores) -> MatchingScores:
    matrices, lengths = _flat(scores)
    marginals = np.full(matrices.shape, -np.inf)
    for values, out, (p, q) in zip(matrices, marginals, lengths, strict=True):
        wide, own = p <= q, values[:p, :q]
        marginal = best_with_each_pair(np.ascontiguousarray(own if wide else own.T, np.float64))
        out[:p, :q] = marginal if wide else marginal.T
    return scores._replace(values=like(marginals.reshape(scores.values.shape), scores.values))


def by_networkx(scores: MatchingScores) -> tuple[Array, Array]:
    """Highest score and a best matching by networkx's blossoms: an ``oracle`` for models, of either panel.

    Parameters
    ----------
    scores : MatchingScores
        Of any namespace and device; the matching is found on the host.

    Returns
    -------
    value : array ()
        The sum of the matched scores, row after row; -inf where every matching uses a forbidden pair, nan where a score
        is nan or +inf.
    columns : int64 array (p,)
        -1 for rows without a column, and everywhere if there is no matching.

    Notes
    -----
    ``networkx.max_weight_matching`` of largest cardinality, time O((p + q)^3): minutes beyond some hundred rows. Ties:
    not specified.

    Source
    ------
    Edmonds (1965), as implemented in networkx; Pillutla et al., appendix C.3, *corrected*: all rows or all columns are
    matched.

    Examples
    --------
    >>> from accelerated import AlignmentModel, StructuralHinge, bcfw
    >>> model = AlignmentModel(1, oracle=by_networkx)
    >>> data = model.pack([[[[0.0], [2.0]], [[3.0], [4.0]]]], [[1, 0]])
    >>> w = bcfw(StructuralHinge(model, data), lam=0.1, rng=0).x
    >>> model.predict(data, None, w)[0].tolist()
    [1, 0]
    """
    return _by_another(scores, _networkx_columns)


def by_scipy(scores: MatchingScores) -> tuple[Array, Array]:
    """Highest score and a best matching by SciPy's assignments: an ``oracle`` for models, of either panel.

    Parameters and returns as :func:`by_networkx`.

    Notes
    -----
    ``scipy.optimize.linear_sum_assignment``, time O(min(p, q)^2 max(p, q)). Ties: not specified.

    Source
    ------
    Crouse (2016), as implemented in SciPy.

    Examples
    --------
    >>> from accelerated import AlignmentModel, StructuralHinge, bcfw
    >>> model = AlignmentModel(1, oracle=by_scipy)
    >>> data = model.pack([[[[0.0], [2.0]], [[3.0], [4.0]]]], [[1, 0]])
    >>> w = bcfw(StructuralHinge(model, data), lam=0.1, rng=0).x
    >>> model.predict(data, None, w)[0].tolist()
    [1, 0]
    """
    return _by_another(scores, _scipy_columns)


def _by_another(scores: MatchingScores, solve: Callable[[np.ndarray], np.ndarray | None]) -> tuple[Array, Array]:
    """The answer of another library's solver of matrices with p <= q, in the namespace and on the device of the scores.

    It gives the columns (p,) of the rows of a best matching; None if there is none.
    """
    values, place = np.array(host(scores.values), np.float64, order="C"), Place.of(scores.values)
    p, q = values.shape
    value, columns = np.nan, np.full(p, -1)
    if are_scores(values):
        matched = solve(values if p <= q else np.ascontiguousarray(values.T))
        if p <= q:
            columns = columns if matched is None else matched
        elif matched is not None:
            columns[matched] = np.arange(q)
        value = -np.inf if matched is None else matched_sum(values, columns)
    return place.floats(value), place.integers(columns)


def _scipy_columns(values: np.ndarray) -> np.ndarray | None:
    """By SciPy."""
    from scipy.optimize import linear_sum_assignment

    try:
        return linear_sum_assignment(values, maximize=True)[1]
    except ValueError:
        return None


def _networkx_columns(values: np.ndarray) -> np.ndarray | None:
    """By networkx."""
    import networkx

    p, graph = len(values), networkx.Graph()
    graph.add_weighted_edges_from((int(i), int(p + j), values[i, j]) for i, j in np.argwhere(values > -np.inf))
    pairs = [sorted(pair) for pair in networkx.max_weight_matching(graph, maxcardinality=True)]
    columns = np.array([j - p for _, j in sorted(pairs)], np.int64)
    return columns if len(columns) == p else None


class Matching(reference.Matching):
    ops = sys.modules[__name__]

    def __init__(self, values: Any, lengths: Any = None) -> None:
        if lengths is None and are_sound(values) and values.ndim >= 2:
            self.scores = MatchingScores(values)
        else:
            super().__init__(values, lengths)
