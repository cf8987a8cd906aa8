"""Drawn regularizers: every class of ``reference.prox``, with a point and a step to try it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from conformance import strategies


class Instance(NamedTuple):
    """A regularizer of ``p`` coordinates for a panel at a scale: ``make(panel, c)`` is c^2 phi(x / c)."""

    p: int
    make: Callable[..., Any]


FACTORS = st.sampled_from([1.0, 0.25, 3.0, 0.0])
POSITIVE = st.sampled_from([0.25, 1.0, 3.0])
STEPS = st.sampled_from([0.5, 1.0, 4.0])
POWERS = st.sampled_from([1.0, 1.05, 1.5, 2.0, 3.0, 5.0])


def _weights(draw: Any, n: int) -> np.ndarray:
    return np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n)))


def _numbers(draw: Any, p: int, least: int = 0) -> np.ndarray:
    """The group of each coordinate."""
    return np.array(draw(st.lists(st.integers(least, 2), min_size=p, max_size=p)), dtype=np.int64)


def _groups(draw: Any, p: int) -> Any:
    """Disjoint groups, some empty, some coordinates in none; as numbers or as lists."""
    number = _numbers(draw, p, -1)
    return number if draw(st.booleans()) else [np.flatnonzero(number == k) for k in range(3)]


def _weighted_groups(draw: Any, p: int) -> tuple[Any, Any]:
    groups = _groups(draw, p)
    count = int(groups.max(initial=-1)) + 1 if isinstance(groups, np.ndarray) else len(groups)
    return groups, _weights(draw, count) if draw(st.booleans()) else None


def _tree(draw: Any, p: int) -> tuple[list[list[int]], np.ndarray]:
    """Nested or disjoint groups in any order, and their weights: cut the line, then cut the pieces."""
    groups, pieces = [], [list(range(p))]
    while pieces:
        piece = pieces.pop()
        if draw(st.booleans()):
            groups.append(piece)
        if len(piece) > 1:
            cut = draw(st.integers(1, len(piece) - 1))
            pieces += [piece[:cut], piece[cut:]]
    return draw(st.permutations(groups)), _weights(draw, len(groups))


def _part(draw: Any, p: int) -> Callable[..., Any]:
    """A regularizer inside another."""
    return _made(draw, draw(st.sampled_from(["L1", "SquaredL21", "Simplex"])), p)


def _non_sparse(P, c, lam, q, groups):
    assume(abs((2.0 - q) * np.log10(c)) < 290)
    return P.NonSparseMKL(lam * c ** (2.0 - q), q, groups)


def _sequence(P, c, tau, w, v, number):
    """l1, groups, and groups that hold those: exact by construction."""
    outer = np.where(number == 2, -1, 0)
    return P.Sequential([P.L1(c * tau), P.L21(c * w, number), P.L21(c * v, outer)])


KINDS: dict[str, tuple[Any, ...]] = {  # made(panel, scale, *drawn) and what is drawn: strategies, or of (draw, p)
    "L1": (lambda P, c, tau: P.L1(c * tau), FACTORS),
    "HalfSquaredL2": (lambda P, c, lam: P.HalfSquaredL2(lam), FACTORS),
    "SquaredL1": (lambda P, c, lam: P.SquaredL1(lam), FACTORS),
    "WeightedSquaredL1": (lambda P, c, lam, d: P.WeightedSquaredL1(lam, d), FACTORS, _weights),
    "L21": (lambda P, c, tau, of: P.L21(c * tau, of[0], weights=of[1]), FACTORS, _weighted_groups),
    "SquaredL21": (lambda P, c, lam, groups: P.SquaredL21(lam, groups), FACTORS, _groups),
    "SparseGroupLasso": (lambda P, c, of, t, u: P.SparseGroupLasso(c * t, of, c * u), _groups, FACTORS, FACTORS),
    "TreeGroupLasso": (lambda P, c, tree: P.TreeGroupLasso(tree[0], c * tree[1]), _tree),
    "ElasticNet": (lambda P, c, part, sigma: P.ElasticNet(part(P, c), sigma), _part, FACTORS),
    "ElasticNetMKL": (lambda P, c, t, s, groups: P.ElasticNetMKL(c * t, s, groups), FACTORS, FACTORS, _groups),
    "NonSparseMKL": (_non_sparse, FACTORS, POWERS, _groups),
    "Simplex": (lambda P, c, radius: P.Simplex(c * radius), POSITIVE),
    "L1Ball": (lambda P, c, radius: P.L1Ball(c * radius), FACTORS),
    "L2Ball": (lambda P, c, radius: P.L2Ball(c * radius), FACTORS),
    "L21Ball": (lambda P, c, radius, groups: P.L21Ball(c * radius, groups), FACTORS, _groups),
    "Sequential": (_sequence, FACTORS, FACTORS, FACTORS, _numbers),
}


def _made(draw: Any, kind: str, p: int) -> Callable[..., Any]:
    make, *draws = KINDS[kind]
    drawn = [draw(each) if isinstance(each, st.SearchStrategy) else each(draw, p) for each in draws]
    return lambda panel, c=1.0: make(panel, c, *drawn)


@st.composite
def instances(draw: Any, kind: str, p: int | None = None) -> Instance:
    """One regularizer of a kind, of one to five coordinates or so many."""
    p = draw(st.integers(1, 5)) if p is None else p
    return Instance(p, _made(draw, kind, p))


def points(p: int, *batch: int) -> st.SearchStrategy[np.ndarray]:
    """Ordinary points, ties, zeros and -0.0 among them."""
    entries = st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, width=32), st.sampled_from([0.0, -0.0, 1e-30]))
    shape = (*batch, p)
    size = int(np.prod(shape))
    return st.lists(entries, min_size=size, max_size=size).map(lambda v: np.array(v, dtype=np.float64).reshape(shape))


def extreme_points(p: int) -> st.SearchStrategy[np.ndarray]:
    """Scores of the other strategies: up to 1e4, down to 1e-30."""
    return strategies.arrays((p,), forbidden=False)
