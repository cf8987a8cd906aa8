"""Segments: the chains that they are, what their marginals sum to, their draws, and how many they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.scores import members, segments
from conformance.specimens.structures import LARGE, SMALL
from conformance.structures.test_large_structures import KINDS, NEAR, SCALES
from conformance.structures.test_laws import MU, Given, is_drawn, numbers
from conformance.tolerances import close


def expanded(scores, pairwise):
    """The chain whose states (w, j, label) say that a token is the j-th of a segment of w + 1 tokens."""
    n, W, L = scores.shape
    w, j, label = np.array([(w, j, label) for w in range(W) for j in range(w + 1) for label in range(L)]).T
    unary = np.where(j == 0, scores[:, w, label], 0.0)
    unary[(j == 0) & (np.arange(n)[:, None] + w >= n)] = -np.inf
    unary[:1, j > 0] = -np.inf
    onward = (w[:, None] == w) & (j[:, None] + 1 == j) & (label[:, None] == label)
    anew = (j == w)[:, None] & (j == 0)
    return unary, np.where(onward, 0.0, np.where(anew, pairwise[label[:, None], label], -np.inf)), (w, j, label)


@pytest.mark.parametrize("W", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_segments_are_a_chain_of_longer_states(backend, rng, W, kind):
    """Scores and marginals of each segment at its first token; for W = 1 the states are the labels, ties included."""
    scores, pairwise = KINDS[kind](rng, (9, W, 2)), KINDS[kind](rng, (2, 2))
    unary, transitions, (w, j, label) = expanded(scores, pairwise)
    ours, chain = backend.Segments(scores, pairwise), backend.Chain(unary, transitions)
    close(ours.best()[0], chain.best()[0])
    close(ours.topk(12).scores, chain.topk(12).scores)
    assert W > 1 or np.array_equal(ours.topk(12).labels[..., 2], chain.topk(12).labels)
    (value, marginals), (log_z, theirs), first = ours.expectation(0.7), chain.expectation(0.7), j == 0
    close(value, log_z)
    close(marginals.segments[:, w[first], label[first]], theirs.unary[:, first])
    close(ours.max_marginals().segments[:, w[first], label[first]], chain.max_marginals().unary[:, first])
    anew = theirs.pairwise[w == j][:, first]
    for a, b in np.ndindex(2, 2):
        close(marginals.pairwise[a, b], anew[label[w == j] == a][:, label[first] == b].sum())


@pytest.mark.parametrize("name", ["Segments", "Segments, one"])
@pytest.mark.parametrize("near", NEAR)
def test_marginals_cover_each_token_once(backend, rng, name, near):
    """At any scale; and each segment but the first follows one boundary."""
    specimen, make = LARGE[name]
    for scale in SCALES:
        instance = make(lambda shape, scale=scale: NEAR[near](rng, scale, shape).astype(np.float64))
        try:
            marginals = specimen.make(backend, instance).expectation(0.1)[1]
        except backend.InfeasibleError:
            continue
        by_length = marginals.segments.sum(axis=-1)
        covered = np.zeros(by_length.shape[:-1])
        for s, w in np.ndindex(by_length.shape[-2:]):
            covered[..., s : s + w + 1] += by_length[..., s, w, None]
        n = covered.shape[-1]
        lengths = np.array(n) if instance.lengths is None else instance.lengths
        np.testing.assert_allclose(covered, np.arange(n) < lengths[..., None], rtol=0, atol=1e-13)
        later = marginals.segments[..., 1:, :, :].reshape(-1, by_length.shape[-1], marginals.pairwise.shape[-1])
        np.testing.assert_allclose(marginals.pairwise.sum(axis=0), later.sum(axis=(0, 1)), rtol=0, atol=1e-11)
        assert np.all(marginals.segments >= 0) and np.all(marginals.pairwise >= 0)


def by_token(rows, n):
    """1 + the label and 1 + w of the segment that ends at each token, or 0: (2 n,)."""
    ends = np.zeros((n, 2), int)
    for s, w, label in rows:
        if s >= 0:
            ends[s + w] = label + 1, w + 1
    return ends.reshape(-1)


@given(data=st.data(), mu=MU)
def test_segments_are_drawn_by_their_distribution_function(backend, data, mu):
    """From the last token backwards, the label by the token's first number, then the length by its second."""
    instance = data.draw(segments())
    listings = [SMALL["Segments"][0].enumerate(each).possible() for each in members(instance)]
    if not all(listing.outputs for listing in listings):
        return
    *batch, n, _, _ = instance.segments.shape
    draws = numbers(data, *batch, 3, n, 2)
    drawn = backend.Segments(*instance).sample(3, mu, Given(draws))
    assert drawn.shape == (*batch, 3, n, 3) and drawn.dtype == np.int64
    each = drawn.reshape(len(listings), 3, n, 3), draws.reshape(len(listings), 3, 2 * n)
    order = [2 * e + i for e in range(n - 1, -1, -1) for i in range(2)]
    for (outputs, values, _), ys, us in zip(listings, *each, strict=True):
        all_of_them, (_, weights) = np.array([by_token(y, n) for y in outputs]), log_sum_exp(values, mu)
        assert all(is_drawn(all_of_them, weights, order, by_token(y, n), u[order]) for y, u in zip(ys, us, strict=True))


def test_long_sequences_are_counted_exactly(backend):
    """n tokens of segments of any length: L (L + 1)^(n - 1); a log-partition at scores of 0 is the log of the count."""
    free = backend.Segments(np.zeros((90, 90, 3)), np.zeros((3, 3)))
    assert free.count() == 3 * 4**89 and type(free.count()) is int
    for W, L in ((1, 3), (7, 2)):
        space = backend.Segments(np.zeros((700, W, L)), np.zeros((L, L)))
        close(space.log_partition(), math.log(space.count()))
