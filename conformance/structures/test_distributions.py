"""Marginals are a distribution at every size of the scores, ties and near ties included; the value lies where all
outputs put it."""

from __future__ import annotations

import math

import numpy as np
import pytest

SCALES = [1.0, 1e5, 1e8, 1e13, 1e16, 1e17, 1e100, 1e300]


def tied(rng, scale, *shape):
    return scale * rng.integers(-2, 3, shape)


def nearly_tied(rng, scale, *shape):
    return tied(rng, scale, *shape) + rng.normal(size=shape)


def some_forbidden(rng, scale, *shape):
    return np.where(rng.random(shape) < 0.1, -np.inf, nearly_tied(rng, scale, *shape))


def structures(backend, draw):
    """One of each kind that answers the exp oracle, beside the sums that are 1 or equal in a distribution."""
    n, L = 5, 3
    table = backend.Table(draw(7))
    yield table, lambda m: [(m.values.sum(), 1.0)]

    def along(m):
        return [
            (m.unary.sum(axis=-1), 1.0),
            (m.pairwise.sum(axis=-1), m.unary[:-1]),
            (m.pairwise.sum(axis=-2), m.unary[1:]),
        ]

    yield backend.Chain(draw(n, L), draw(n - 1, L, L)), along
    shared = backend.Chain(draw(n, L), draw(L, L))
    yield shared, lambda m: [(m.unary.sum(axis=-1), 1.0), (m.pairwise.sum(), n - 1.0)]
    parents = np.array([-1, 0, 0, 1, 1])

    def upwards(m):
        return [
            (m.unary.sum(axis=-1), 1.0),
            (m.pairwise[1:].sum(axis=-1), m.unary[parents[1:]]),
            (m.pairwise[1:].sum(axis=-2), m.unary[1:]),
        ]

    yield backend.Tree(draw(n, L), draw(n, L, L), parents), upwards
    edges = [[0, 1], [1, 2], [2, 3], [3, 0]]
    ring = backend.Graph(draw(4, 2), draw(4, 2, 2), edges)
    yield ring, lambda m: [(m.unary.sum(axis=-1), 1.0), (m.pairwise.sum(axis=(-1, -2)), 1.0)]


@pytest.mark.parametrize("draw", [tied, nearly_tied, some_forbidden], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scale", SCALES)
def test_marginals_are_a_distribution(backend, rng, scale, draw):
    for mu in (1e-3, 1.0, 1e4):
        for structure, sums in structures(backend, lambda *shape: draw(rng, scale, *shape)):
            try:
                value, marginals = structure.expectation(mu)
            except backend.InfeasibleError:
                assert structure.count() == 0
                continue
            for got, expected in sums(marginals):
                np.testing.assert_allclose(got, np.broadcast_to(expected, np.shape(got)), rtol=0, atol=1e-13)
            for field in marginals[:2]:
                if field is not None and field.size:
                    assert np.all(field >= 0)
            best, slack = float(structure.best()[0]), 1e-13 * (20 * scale + mu)
            assert best - slack <= float(value) <= best + mu * math.log(structure.count()) + slack


@pytest.mark.parametrize("scale", SCALES)
def test_equal_scores_of_listed_outputs_are_equally_likely(backend, scale):
    values = scale * np.array([1.0, -2.0, 1.0, 0.0, 1.0])
    value, marginals = backend.Table(values).expectation(scale * 1e-3)
    np.testing.assert_allclose(marginals.values, [1 / 3, 0, 1 / 3, 0, 1 / 3], rtol=0, atol=1e-15)
    np.testing.assert_allclose(value, scale * (1.0 + 1e-3 * math.log(3)), rtol=1e-15)


@pytest.mark.parametrize("scale", SCALES)
def test_a_batch_of_lengths_at_every_scale(backend, rng, scale):
    """Padding stays out of it, as small as it may be beside the scores."""
    lengths = np.array([0, 1, 3, 6])
    unary, pairwise = nearly_tied(rng, scale, 4, 6, 3), nearly_tied(rng, scale, 3, 3)
    value, marginals = backend.Chain(unary, pairwise, lengths).expectation()
    np.testing.assert_allclose(
        np.asarray(marginals.unary).sum(axis=-1), 1.0 * (np.arange(6) < lengths[:, None]), rtol=0, atol=1e-13
    )
    for i, n in enumerate(lengths):
        alone, each = backend.Chain(unary[i, :n], pairwise).expectation()
        np.testing.assert_allclose(value[i], alone, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(marginals.unary[i, :n], each.unary, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e3, 3e7, 1e15])
def test_no_log_probability_is_above_zero(backend, rng, scale, dtype):
    """The best output's share is at most 1, so its score is at most the log-partition, as floats too."""
    for _ in range(20):
        for structure, _ in structures(backend, lambda *shape: nearly_tied(rng, scale, *shape).astype(dtype)):
            best, y = structure.best()
            for mu in (1e-3, 1.0):
                value = structure.log_partition(mu)
                assert value.dtype == dtype and best <= value and structure.score(y) - value <= 0
                assert structure.marginals(mu)[0].max() <= 1 + 4 * np.finfo(dtype).eps
