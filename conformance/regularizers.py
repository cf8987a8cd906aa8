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


FACTORS = st.sampled_from([0.0, 0.25, 1.0, 3.0])
POSITIVE = st.sampled_from([0.25, 1.0, 3.0])
STEPS = st.sampled_from([0.5, 1.0, 4.0])


def _weights(draw: Any, n: int) -> np.ndarray:
    return np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n)))


def _groups(draw: Any, p: int) -> Any:
    """Disjoint groups, some empty, some coordinates in none; as numbers or as lists."""
    number = np.array(draw(st.lists(st.integers(-1, 2), min_size=p, max_size=p)), dtype=np.int64)
    return number if draw(st.booleans()) else [np.flatnonzero(number == k) for k in range(3)]


def _count(groups: Any) -> int:
    """K, as the regularizers count it."""
    return int(groups.max(initial=-1)) + 1 if isinstance(groups, np.ndarray) else len(groups)


def _tree(draw: Any, p: int) -> list[list[int]]:
    """Nested or disjoint groups: cut the line, then cut the pieces; any order."""
    groups, pieces = [], [list(range(p))]
    while pieces:
        piece = pieces.pop()
        if draw(st.booleans()):
            groups.append(piece)
        if len(piece) > 1:
            cut = draw(st.integers(1, len(piece) - 1))
            pieces += [piece[:cut], piece[cut:]]
    return draw(st.permutations(groups))


def _l1(draw, p):
    tau = draw(FACTORS)
    return lambda panel, c=1.0: panel.L1(c * tau)


def _l2(draw, p):
    lam = draw(FACTORS)
    return lambda panel, c=1.0: panel.HalfSquaredL2(lam)


def _squared_l1(draw, p):
    lam = draw(FACTORS)
    return lambda panel, c=1.0: panel.SquaredL1(lam)


def _weighted_squared_l1(draw, p):
    lam, d = draw(FACTORS), _weights(draw, p)
    return lambda panel, c=1.0: panel.WeightedSquaredL1(lam, d)


def _l21(draw, p):
    tau, groups = draw(FACTORS), _groups(draw, p)
    w = _weights(draw, _count(groups)) if draw(st.booleans()) else None
    return lambda panel, c=1.0: panel.L21(c * tau, groups, weights=w)


def _squared_l21(draw, p):
    lam, groups = draw(FACTORS), _groups(draw, p)
    return lambda panel, c=1.0: panel.SquaredL21(lam, groups)


def _sparse_group(draw, p):
    tau, groups, group_tau = draw(FACTORS), _groups(draw, p), draw(FACTORS)
    return lambda panel, c=1.0: panel.SparseGroupLasso(c * tau, groups, c * group_tau)


def _tree_groups(draw, p):
    groups = _tree(draw, p)
    w = _weights(draw, len(groups))
    return lambda panel, c=1.0: panel.TreeGroupLasso(groups, c * w)


def _elastic(draw, p):
    part, sigma = draw(st.sampled_from([_l1, _squared_l21, _simplex]))(draw, p), draw(FACTORS)
    return lambda panel, c=1.0: panel.ElasticNet(part(panel, c), sigma)


def _elastic_mkl(draw, p):
    tau, sigma, groups = draw(FACTORS), draw(FACTORS), _groups(draw, p)
    return lambda panel, c=1.0: panel.ElasticNetMKL(c * tau, sigma, groups)


def _non_sparse(draw, p):
    lam, q, groups = draw(FACTORS), draw(st.sampled_from([1.0, 1.05, 1.5, 2.0, 3.0, 5.0])), _groups(draw, p)

    def make(panel, c=1.0):
        assume(abs((2.0 - q) * np.log10(c)) < 290)
        return panel.NonSparseMKL(lam * c ** (2.0 - q), q, groups)

    return make


def _simplex(draw, p):
    radius = draw(POSITIVE)
    return lambda panel, c=1.0: panel.Simplex(c * radius)


def _l1_ball(draw, p):
    radius = draw(FACTORS)
    return lambda panel, c=1.0: panel.L1Ball(c * radius)


def _l2_ball(draw, p):
    radius = draw(FACTORS)
    return lambda panel, c=1.0: panel.L2Ball(c * radius)


def _l21_ball(draw, p):
    radius, groups = draw(FACTORS), _groups(draw, p)
    return lambda panel, c=1.0: panel.L21Ball(c * radius, groups)


def _sequence(draw, p):
    """l1, groups, and groups that hold those: exact by construction."""
    tau, number = draw(FACTORS), np.array(draw(st.lists(st.integers(0, 2), min_size=p, max_size=p)), dtype=np.int64)
    outer = np.where(number == 2, -1, 0)
    w, v = draw(FACTORS), draw(FACTORS)
    return lambda panel, c=1.0: panel.Sequential([panel.L1(c * tau), panel.L21(c * w, number), panel.L21(c * v, outer)])


KINDS: dict[str, Callable[..., Any]] = {
    "L1": _l1,
    "HalfSquaredL2": _l2,
    "SquaredL1": _squared_l1,
    "WeightedSquaredL1": _weighted_squared_l1,
    "L21": _l21,
    "SquaredL21": _squared_l21,
    "SparseGroupLasso": _sparse_group,
    "TreeGroupLasso": _tree_groups,
    "ElasticNet": _elastic,
    "ElasticNetMKL": _elastic_mkl,
    "NonSparseMKL": _non_sparse,
    "Simplex": _simplex,
    "L1Ball": _l1_ball,
    "L2Ball": _l2_ball,
    "L21Ball": _l21_ball,
    "Sequential": _sequence,
}


@st.composite
def instances(draw: Any, kind: str) -> Instance:
    """One regularizer of a kind, of one to five coordinates."""
    p = draw(st.integers(1, 5))
    return Instance(p, KINDS[kind](draw, p))


def points(p: int, *batch: int) -> st.SearchStrategy[np.ndarray]:
    """Ordinary points, ties, zeros and -0.0 among them."""
    entries = st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, width=32), st.sampled_from([0.0, -0.0, 1e-30]))
    shape = (*batch, p)
    size = int(np.prod(shape))
    return st.lists(entries, min_size=size, max_size=size).map(lambda v: np.array(v, dtype=np.float64).reshape(shape))


def extreme_points(p: int) -> st.SearchStrategy[np.ndarray]:
    """Scores of the other strategies: up to 1e4, down to 1e-30."""
    return strategies.arrays((p,), forbidden=False)
