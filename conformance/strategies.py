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


class SegmentationProblem(NamedTuple):
    """Small images: X[i] = (features (p, F), edges (e, 2), edge features (e, G) >= 0), Y[i] (p,) of 0 and 1."""

    X: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    Y: list[np.ndarray]
    n_features: int
    n_edge_features: int


@st.composite
def segmentation_problems(draw: Any) -> SegmentationProblem:
    """1 to 3 graphs of 0 to 4 nodes, disconnected ones and double edges among them; features tie and vanish."""
    F, G = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    entry = st.one_of(st.integers(-1, 1).map(float), st.floats(-2, 2, width=32))
    strength = st.one_of(st.sampled_from([0.0, -0.0, 1.0]), st.floats(0, 2, width=32))
    X, Y = [], []
    for _ in range(draw(st.integers(1, 3))):
        p = draw(st.integers(0, 4))
        pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
        edges = draw(st.lists(st.sampled_from(pairs), max_size=5)) if pairs else []
        x = draw(st.lists(entry, min_size=p * F, max_size=p * F))
        g = draw(st.lists(strength, min_size=len(edges) * G, max_size=len(edges) * G))
        X.append(
            (
                np.array(x, dtype=np.float64).reshape(p, F),
                np.array(edges, dtype=np.int64).reshape(-1, 2),
                np.array(g, dtype=np.float64).reshape(len(edges), G),
            )
        )
        Y.append(np.array(draw(st.lists(st.integers(0, 1), min_size=p, max_size=p)), dtype=np.int64))
    return SegmentationProblem(X, Y, F, G)


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


class TreeProblem(NamedTuple):
    """A small problem of labelled trees: X[i] a pair of features (p_i, F) and parents (p_i,), Y[i] (p_i,), and the
    model's options.
    """

    X: list[tuple[np.ndarray, np.ndarray]]
    Y: list[np.ndarray]
    n_features: int
    n_labels: int
    options: dict[str, Any]


@st.composite
def tree_problems(draw: Any) -> TreeProblem:
    """1 to 4 forests of 0 to 5 nodes."""
    F, L = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    entry = st.one_of(st.just(0.0), st.floats(-2, 2, width=32))
    X = [
        (np.array(draw(st.lists(entry, min_size=p * F, max_size=p * F))).reshape(p, F), draw(forests(p))) for p in sizes
    ]
    Y = [np.array(draw(st.lists(st.integers(0, L - 1), min_size=p, max_size=p)), dtype=np.int64) for p in sizes]
    options = {"cost": np.arange(L * L).reshape(L, L) * (1.0 - np.eye(L))} if draw(st.booleans()) else {}
    return TreeProblem(X, Y, F, L, options)
