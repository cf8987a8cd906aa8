"""Matchings: the reference's functions as kernels, on the host; SciPy's and networkx's solvers beside them, as checks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import reference.structures.matching as reference
from accelerated.arrays import like, view
from accelerated.compiled.assignment import are_scores, assign, matched_sum
from accelerated.compiled.matchings import best_with_each_pair
from accelerated.mirror import mirrors
from reference.arrays import Array
from reference.structures.base import feasible
from reference.structures.matching import MatchingScores

__all__ = ["Matching", "MatchingScores", "assignment", "max_marginals"]


@mirrors(reference.assignment)
def assignment(scores: MatchingScores) -> tuple[Array, Array]:
    return _answer(scores, _columns)


@mirrors(reference.max_marginals)
def max_marginals(scores: MatchingScores) -> MatchingScores:
    values = view("values", scores.values)
    if values.shape[0] <= values.shape[1]:
        return MatchingScores(like(best_with_each_pair(values), scores.values))
    return MatchingScores(like(best_with_each_pair(np.ascontiguousarray(values.T)).T.copy(), scores.values))


def _columns(values: np.ndarray) -> np.ndarray | None:
    """The columns (p,) of the rows of a best matching, p <= q, by our kernel; None if there is none."""
    possible, column, _, _ = assign(values)
    return column if possible else None


def _scipy_columns(values: np.ndarray) -> np.ndarray | None:
    """The same by scipy.optimize.linear_sum_assignment."""
    from scipy.optimize import linear_sum_assignment

    try:
        return linear_sum_assignment(values, maximize=True)[1]
    except ValueError:
        return None


def _networkx_columns(values: np.ndarray) -> np.ndarray | None:
    """The same by networkx.max_weight_matching (Edmonds' blossoms; minutes beyond some hundred rows)."""
    import networkx

    p, graph = len(values), networkx.Graph()
    graph.add_weighted_edges_from((int(i), int(p + j), values[i, j]) for i, j in np.argwhere(values > -np.inf))
    found = [sorted(pair) for pair in networkx.max_weight_matching(graph, maxcardinality=True)]
    columns = np.array([j - p for _, j in sorted(found)], np.int64)
    return columns if len(columns) == p else None


def _answer(scores: MatchingScores, solve: Callable[[np.ndarray], np.ndarray | None]) -> tuple[Array, Array]:
    """Value and columns (p,) of all rows from a solver of wide matrices."""
    values = view("values", scores.values)
    p, q = values.shape
    if not are_scores(values):
        return like(np.asarray(np.nan), scores.values), like(np.full(p, -1), scores.values)
    found = solve(values if p <= q else np.ascontiguousarray(values.T))
    if found is not None and p <= q:
        columns = found
    else:
        columns = np.full(p, -1)
        if found is not None:
            columns[found] = np.arange(q)
    value = np.asarray(-np.inf if found is None else matched_sum(values, columns))
    return like(value, scores.values), like(columns, scores.values)


class Matching(reference.Matching):
    __doc__ = reference.Matching.__doc__
    ops = sys.modules[__name__]
    solvers = ("auto", "scipy", "networkx")

    def best(self) -> tuple[Array, Array]:
        value, columns = _answer(self.scores, _SOLVERS[self.solver])
        return value if value > -np.inf else feasible(value, "best"), columns


_SOLVERS = {"auto": _columns, "scipy": _scipy_columns, "networkx": _networkx_columns}
