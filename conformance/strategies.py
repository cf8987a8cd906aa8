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


class ChainInstance(NamedTuple):
    """Host arrays: unary (..., n, L), pairwise (L, L) or (..., n-1, L, L), lengths (...,) or None."""

    unary: np.ndarray
    pairwise: np.ndarray
    lengths: np.ndarray | None

    def each(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Every chain of the batch alone, cut to its length: unary (n, L), pairwise (n-1, L, L)."""
        *batch, n, L = self.unary.shape
        chains = int(np.prod(batch))
        unary = self.unary.reshape(chains, n, L)
        shared = self.pairwise.ndim == 2
        pairwise = None if shared else self.pairwise.reshape(chains, max(n - 1, 0), L, L)
        lengths = np.full(len(unary), n) if self.lengths is None else self.lengths.reshape(-1)
        return [
            (
                unary[i, :m],
                np.broadcast_to(self.pairwise, (max(m - 1, 0), L, L)) if shared else pairwise[i, : max(m - 1, 0)],
            )
            for i, m in enumerate(lengths)
        ]


@st.composite
def chains(draw: Any, forbidden: bool = True, batched: bool = True) -> ChainInstance:
    """Small chains, or batches of them, that can be enumerated."""
    n, L = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)])) if batched else ()
    unary = draw(arrays((*batch, n, L), forbidden))
    shared = draw(st.booleans())
    pairwise = draw(arrays((L, L) if shared else (*batch, max(n - 1, 0), L, L), forbidden))
    lengths = None
    if batch and draw(st.booleans()):
        size = int(np.prod(batch))
        lengths = np.array(draw(st.lists(st.integers(0, n), min_size=size, max_size=size)), np.int64).reshape(batch)
    return ChainInstance(unary, pairwise, lengths)


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


class GraphInstance(NamedTuple):
    """Host arrays: unary (p, L), pairwise (e, L, L), edges (e, 2), counts (p,) or None."""

    unary: np.ndarray
    pairwise: np.ndarray
    edges: np.ndarray
    counts: np.ndarray | None


@st.composite
def graphs(draw: Any, forbidden: bool = True) -> GraphInstance:
    """Small graphs: no variables, no edges, disconnected ones, edges twice and in either order, fewer states here
    and there.
    """
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    unary, pairwise = draw(arrays((p, L), forbidden)), draw(arrays((len(edges), L, L), forbidden))
    counts = (
        np.array(draw(st.lists(st.integers(1, L), min_size=p, max_size=p)), np.int64) if draw(st.booleans()) else None
    )
    return GraphInstance(unary, pairwise, np.array(edges, np.int64).reshape(-1, 2), counts)


@st.composite
def matchings(draw: Any, forbidden: bool = True) -> np.ndarray:
    """Scores (p, q) of pairs, with few enough matchings to enumerate; rows or columns may be none."""
    return draw(arrays((draw(st.integers(0, 4)), draw(st.integers(0, 4))), forbidden))


class TreeInstance(NamedTuple):
    """Host arrays: unary (..., p, L), pairwise (L, L) or (..., p, L, L), parents (p,), counts (p,) or None."""

    unary: np.ndarray
    pairwise: np.ndarray
    parents: np.ndarray
    counts: np.ndarray | None

    def each(self) -> list[TreeInstance]:
        """Every tree of the batch alone, with a pairwise matrix for each node."""
        *batch, p, L = self.unary.shape
        trees = int(np.prod(batch))
        unary = self.unary.reshape(trees, p, L)
        pairwise = np.broadcast_to(self.pairwise, (*batch, p, L, L)).reshape(trees, p, L, L)
        return [TreeInstance(unary[b], pairwise[b], self.parents, self.counts) for b in range(trees)]


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


@st.composite
def trees(draw: Any, forbidden: bool = True, batched: bool = True) -> TreeInstance:
    """Small trees and forests, or batches of them, that can be enumerated."""
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)])) if batched else ()
    counts = np.array(draw(st.lists(st.integers(1, L), min_size=p, max_size=p)), np.int64)
    return TreeInstance(
        draw(arrays((*batch, p, L), forbidden)),
        draw(arrays((L, L) if draw(st.booleans()) else (*batch, p, L, L), forbidden)),
        draw(forests(p)),
        counts if draw(st.booleans()) else None,
    )


class CutInstance(NamedTuple):
    """Host arrays: unary (p, 2), supermodular pairwise (e, 2, 2), edges (e, 2)."""

    unary: np.ndarray
    pairwise: np.ndarray
    edges: np.ndarray


def magnitude(instance: Any) -> float:
    """The sum of the finite magnitudes of an instance's scores, at least 1: what rounding is relative to."""
    return float(sum(np.abs(x[np.isfinite(x)]).sum() for x in instance[:2])) or 1.0


@st.composite
def cuts(draw: Any, integer: bool = False, huge: bool = True) -> CutInstance:
    """Up to 5 binary variables and 7 edges, repeated ones too; scales mixed within an instance, forbidden labels and
    pairs.
    """
    p = draw(st.integers(0, 5))
    ends = (
        st.tuples(st.integers(0, p - 1), st.integers(0, p - 1)).filter(lambda e: e[0] != e[1])
        if p > 1
        else st.nothing()
    )
    edges = draw(st.lists(ends, max_size=7)) if p > 1 else []
    e = len(edges)
    unary, pairwise = draw(arrays((p, 2), forbidden=False)), draw(arrays((e, 2, 2), forbidden=False))
    if integer:
        unary, pairwise = np.round(np.clip(unary, -3, 3)), np.round(np.clip(pairwise, -3, 3))
    elif draw(st.booleans()):
        powers = [-6.0, 0.0, 6.0] + ([300.0] if huge else [])
        unary = unary * 10.0 ** np.array(draw(st.lists(st.sampled_from(powers), min_size=p, max_size=p))).reshape(p, 1)
        pairwise = pairwise * 10.0 ** draw(st.sampled_from(powers))
        unary, pairwise = np.clip(unary, -1e300, 1e300), np.clip(pairwise, -1e300, 1e300)
    pairwise[:, 0, 0] = np.maximum(pairwise[:, 0, 0], pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 1, 1])
    if draw(st.booleans()):
        bans = np.array(draw(st.lists(st.integers(0, 4), min_size=2 * p + 2 * e, max_size=2 * p + 2 * e))) == 0
        unary[bans[: 2 * p].reshape(p, 2)] = -np.inf
        pairwise[:, [0, 1], [1, 0]] = np.where(bans[2 * p :].reshape(e, 2), -np.inf, pairwise[:, [0, 1], [1, 0]])
    return CutInstance(unary, pairwise, np.array(edges, np.int64).reshape(e, 2))


@st.composite
def dependencies(draw: Any, forbidden: bool = True, largest: int = 4) -> np.ndarray:
    """Scores (n, n + 1) of the heads of up to ``largest`` tokens, some of them hundreds of thousands apart."""
    n = draw(st.integers(0, largest))
    scores = draw(arrays((n, n + 1), forbidden))
    return scores * draw(st.sampled_from([1.0, 1.0, 30.0]))
