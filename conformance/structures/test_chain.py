"""Chains against enumeration (Pillutla et al., Algo. 1 and 3), in every namespace."""

from __future__ import annotations

import math

import numpy as np

from conformance.tolerances import close


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
