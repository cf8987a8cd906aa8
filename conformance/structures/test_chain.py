"""Chains against enumeration (Pillutla et al., Algo. 1 and 3), in every namespace."""

from __future__ import annotations

import math

import numpy as np

from conformance.specimens.outputs import listing
from conformance.tolerances import close


def test_count_is_exact_beyond_int64(backend):
    assert backend.Chain(np.zeros((100, 26)), np.zeros((26, 26))).count() == 26**100
    cycle = np.full((3, 3), -np.inf)
    cycle[[0, 1, 2], [1, 2, 0]] = 0.0
    assert backend.Chain(np.zeros((1000, 3)), cycle).count() == 3


def test_twenty_thousand_positions(backend, rng):
    """Values that can be computed in closed form: no transition scores, so positions are independent."""
    unary = rng.normal(scale=10.0, size=(20_000, 3))
    chain = backend.Chain(unary, np.zeros((3, 3)))
    value, labels = chain.best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))
    value, marginals = chain.expectation()
    weights = np.exp(unary - unary.max(axis=1, keepdims=True))
    close(value, (np.log(weights.sum(axis=1)) + unary.max(axis=1)).sum())
    close(marginals.unary, weights / weights.sum(axis=1, keepdims=True))
    close(np.asarray(marginals.pairwise).sum(), 19_999)


def test_scores_of_ten_thousand_leave_one_labelling(backend, rng):
    """At such scores probability 1 goes to the best labelling: the log-partition is its score, the marginals its
    parts.
    """
    unary, pairwise = 1e4 * rng.normal(size=(50, 12, 5)), 1e4 * rng.normal(size=(5, 5))
    chain = backend.Chain(unary, pairwise)
    value, labels = chain.best()
    log_partition, marginals = chain.expectation()
    close(log_partition, value)
    close(marginals.unary, chain.parts(labels).unary)
    close(marginals.pairwise, chain.parts(labels).pairwise)


def test_forbidden_transitions_in_a_left_to_right_chain(backend):
    """Only 0..01..1 is allowed: n + 1 labellings, all of score 0."""
    n = 300
    chain = backend.Chain(np.zeros((n, 2)), [[0.0, 0.0], [-np.inf, 0.0]])
    close(chain.log_partition(), math.log(n + 1))
    expected = np.arange(n, 0, -1) / (n + 1)
    close(np.asarray(chain.marginals().unary)[:, 0], expected)


def test_a_path_that_messages_from_both_sides_lose(backend):
    """Label 0 loses 640 nats at each of four positions, changing to label 1 and back loses 760 twice: the best
    labellings change.

    In scaled probabilities exp(-760) is 0 on the way out and on the way back, with no tiny normaliser to show it.
    """
    unary, pairwise = np.zeros((6, 2)), np.array([[0.0, -760.0], [-760.0, 0.0]])
    unary[1:5, 0] = -640.0
    unary[[0, 5], 1] = -np.inf
    value, marginals = backend.Chain(unary, pairwise).expectation()
    expected, means = listing("Chain", {"unary": unary, "pairwise": pairwise}).expectation(1.0)
    assert expected == -1520.0
    close(value, expected)
    close(marginals.unary, means["unary"])
    close(marginals.pairwise, means["pairwise"].sum(axis=0))


def test_integers_become_float64(backend):
    value, _ = backend.Chain(np.array([[1, 2]]), np.zeros((2, 2), np.int32)).best()
    assert np.asarray(value).dtype == np.float64
