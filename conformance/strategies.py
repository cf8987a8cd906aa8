"""Drawn instances, nasty ones included: ties, zeros, -inf, one element, none, padding, huge and tiny scales."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st


def values(forbidden: bool = True) -> st.SearchStrategy[float]:
    """One score: few small integers (so that sums tie exactly), ordinary floats, huge ones, and -inf."""
    kinds = [st.integers(-2, 2).map(float), st.floats(-5, 5, width=32), st.sampled_from([0.0, -0.0, 1e4, -1e4, 1e-30])]
    return st.one_of(*kinds, st.just(-np.inf)) if forbidden else st.one_of(*kinds)


@st.composite
def arrays(draw: Any, shape: tuple[int, ...], forbidden: bool = True) -> np.ndarray:
    """Scores of a shape; one draw in three uses integers only, so that whole outputs tie."""
    size = int(np.prod(shape))
    entry = st.integers(-1, 1).map(float) if draw(st.integers(0, 2)) == 0 else values(forbidden)
    return np.array(draw(st.lists(entry, min_size=size, max_size=size)), dtype=np.float64).reshape(shape)


@st.composite
def scores(draw: Any, forbidden: bool = False, largest: int = 6) -> np.ndarray:
    """Scores (m,) of at least one output."""
    return draw(arrays((draw(st.integers(1, largest)),), forbidden))


@st.composite
def tables(draw: Any, forbidden: bool = True) -> np.ndarray:
    """Scores (..., m) of small lists of outputs."""
    batch = draw(st.sampled_from([(), (1,), (3,)]))
    return draw(arrays((*batch, draw(st.integers(1, 5))), forbidden))


class SequenceProblem(NamedTuple):
    """A small labelling problem: X[i] (n_i, F), Y[i] (n_i,), and the model's options."""

    X: list[np.ndarray]
    Y: list[np.ndarray]
    n_features: int
    n_labels: int
    options: dict[str, Any]


@st.composite
def sequence_problems(draw: Any, integer: bool = False, longest: int = 4) -> SequenceProblem:
    """1 to 5 sequences of 0 to ``longest`` positions; some rows are all zero."""
    F, L = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(0, longest), min_size=1, max_size=5))
    entry = st.integers(-1, 2).map(float) if integer else st.one_of(st.just(0.0), st.floats(-2, 2, width=32))
    X = [
        np.array(draw(st.lists(entry, min_size=n * F, max_size=n * F)), dtype=np.float64).reshape(n, F) for n in lengths
    ]
    Y = [np.array(draw(st.lists(st.integers(0, L - 1), min_size=n, max_size=n)), dtype=np.int64) for n in lengths]
    options: dict[str, Any] = {"start_stop": draw(st.booleans()), "max_cells": draw(st.sampled_from([1, 3, 8192]))}
    if draw(st.booleans()):
        cost = np.array(draw(st.lists(st.integers(0, 3), min_size=L * L, max_size=L * L)), dtype=np.float64).reshape(
            L, L
        )
        np.fill_diagonal(cost, 0.0)
        options["cost"] = cost
    return SequenceProblem(X, Y, F, L, options)


@st.composite
def forests(draw: Any, p: int) -> np.ndarray:
    """Parents (p,) of a forest whose nodes come in any order: trees, paths and stars, or single nodes."""
    order = draw(st.permutations(range(p)))
    parents = np.full(p, -1)
    shape = draw(st.sampled_from(["tree", "path", "star", "nodes"]))
    for i in range(1, p):
        if shape != "nodes" and draw(st.integers(0, 5)) > 0:
            parents[order[i]] = order[{"tree": draw(st.integers(0, i - 1)), "path": i - 1, "star": 0}[shape]]
    return parents
