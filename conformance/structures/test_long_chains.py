"""Marginals of long chains: messages are normalised at every position, so that rounding does not grow with the
length."""

from __future__ import annotations

import numpy as np
import pytest

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("level", [-1024.0, 2.0**20])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("far", [0.0, 400.0])
def test_a_common_level_of_all_scores_changes_no_marginal(backend, rng, level, shared, far):
    """Scores are multiples of 1/64, so that the sums with the level are exact; by ``far`` one transition is too rare
    for products of probabilities.

    A position rounds by a few eps of the level. Messages that are not normalised, n times the level large, would round
    by n times that.
    """
    n, L = 1000, 3
    unary = np.round(64 * rng.normal(size=(n, L))) / 64
    pairwise = np.round(64 * rng.normal(size=(L, L) if shared else (n - 1, L, L))) / 64
    pairwise[..., 0, 1] -= far
    value, marginals = backend.Chain(unary, pairwise).expectation()
    raised, same = backend.Chain(unary + level, pairwise).expectation()
    np.testing.assert_allclose(raised, value + n * level, rtol=1e-13)
    slack = 32 * EPS * abs(level)
    for other in (marginals, same):
        np.testing.assert_allclose(np.sum(other.unary, axis=1), 1.0, rtol=0, atol=slack)
        np.testing.assert_allclose(np.sum(other.pairwise), n - 1, rtol=0, atol=n * slack)
    np.testing.assert_allclose(same.unary, marginals.unary, rtol=0, atol=slack)
    np.testing.assert_allclose(same.pairwise, marginals.pairwise, rtol=0, atol=(n if shared else 1) * slack)
