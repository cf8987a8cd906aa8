"""Long chains (Pillutla et al., Algo. 1 and 3): exact counts, closed forms, and messages that are normalised at every
position, so that rounding does not grow with the length.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.tolerances import close

EPS = np.finfo(np.float64).eps


def test_count_is_exact_beyond_int64(backend):
    assert backend.Chain(np.zeros((100, 26)), np.zeros((26, 26))).count() == 26**100
    cycle = np.full((3, 3), -np.inf)
    cycle[[0, 1, 2], [1, 2, 0]] = 0.0
    assert backend.Chain(np.zeros((1000, 3)), cycle).count() == 3


def test_forbidden_transitions_in_a_left_to_right_chain(backend):
    """Only 0..01..1 is allowed: n + 1 labellings, all of score 0."""
    n = 300
    chain = backend.Chain(np.zeros((n, 2)), [[0.0, 0.0], [-np.inf, 0.0]])
    close(chain.log_partition(), math.log(n + 1))
    expected = np.arange(n, 0, -1) / (n + 1)
    close(np.asarray(chain.marginals().unary)[:, 0], expected)


def test_integers_become_float64(backend):
    value, _ = backend.Chain(np.array([[1, 2]]), np.zeros((2, 2), np.int32)).best()
    assert np.asarray(value).dtype == np.float64


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
