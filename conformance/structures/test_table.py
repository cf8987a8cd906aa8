"""Listed outputs: max, top-K and log-partition by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import brute, strategies
from conformance.tolerances import close


@given(data=st.data())
def test_best_is_the_first_maximum(backend, space, data):
    values = data.draw(strategies.tables())
    table = backend.Table(space.put(values))
    if np.any(values.max(axis=-1) == -np.inf):
        with pytest.raises(backend.InfeasibleError):
            table.best()
        return
    value, y = table.best()
    stored = values.astype(space.dtype)
    assert np.array_equal(space.get(y), stored.argmax(axis=-1))
    assert np.array_equal(space.get(value), stored.max(axis=-1))
    assert np.array_equal(space.get(table.score(y)), stored.max(axis=-1))


@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_expectation_is_the_definition(backend, space, data, mu):
    values = data.draw(strategies.tables())
    table = backend.Table(space.put(values))
    if np.any(values.max(axis=-1) == -np.inf):
        with pytest.raises(backend.InfeasibleError):
            table.expectation(mu)
        return
    value, probabilities = table.expectation(mu)
    stored = np.atleast_2d(values.astype(space.dtype).astype(np.float64))
    expected = [brute.log_sum_exp(row, mu) for row in stored]
    close(np.atleast_1d(space.get(value)), [v for v, _ in expected], space.dtype)
    close(
        np.atleast_2d(space.get(probabilities.values)),
        [p for _, p in expected],
        space.dtype,
        1e4 / mu if space.dtype == "float32" else 1e2,
    )


@given(data=st.data(), k=st.integers(1, 7))
def test_top_k_is_a_sorted_prefix(backend, space, data, k):
    values = data.draw(strategies.tables())
    best = backend.Table(space.put(values)).topk(k)
    scores, labels, count = (np.atleast_2d(space.get(x)) for x in best)
    for row, s, y, c in zip(np.atleast_2d(values.astype(space.dtype)), scores, labels, count.ravel(), strict=True):
        allowed = sorted((-v, i) for i, v in enumerate(row) if v > -np.inf)
        assert c == min(k, len(allowed))
        assert [(-v, i) for v, i in zip(s[:c], y[:c], strict=True)] == allowed[:k]
        assert np.all(s[c:] == -np.inf) and np.all(y[c:] == -1) and len(s) == k


@given(values=strategies.tables().filter(lambda v: v.ndim == 1))
def test_count_and_enumerate(backend, values):
    table = backend.Table(values)
    assert list(table.enumerate()) == [i for i, v in enumerate(values) if v > -np.inf]
    assert table.count() == np.sum(values > -np.inf)


def test_bad_input_names_the_argument(backend):
    with pytest.raises(ValueError, match=r"values: expected shape \(..., m\)"):
        backend.Table(np.zeros((2, 0)))
    with pytest.raises(ValueError, match="values: .* got nan"):
        backend.Table([0.0, np.nan])
    with pytest.raises(ValueError, match="k: expected an integer >= 1"):
        backend.Table([0.0]).topk(0)
    with pytest.raises(ValueError, match="y: expected outputs of shape"):
        backend.Table([0.0]).parts([0, 0])
