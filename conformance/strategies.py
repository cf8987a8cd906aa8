"""Drawn instances, nasty ones included: ties, zeros, -inf, one element, none, padding, huge and tiny scales."""

from __future__ import annotations

from typing import Any

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
