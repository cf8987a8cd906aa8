"""Segments: what their marginals sum to, their draws, and how many they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.scores import members, segments
from conformance.specimens.structures import LARGE, SMALL
from conformance.structures.test_large_structures import NEAR, SCALES
from conformance.structures.test_laws import MU, Given, is_drawn, numbers
from conformance.tolerances import close


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


def test_what_underflows_in_the_middle_may_be_all_there_is(backend):
    """No label changes: one is all but impossible at first, and the other at the end."""
    segments, pairwise = np.zeros((3, 1, 2)), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    segments[0, 0, 1], segments[2, 0, 0] = -600.0, -1200.0
    value, marginals = backend.Segments(segments, pairwise).expectation()
    close(value, -600.0)
    close(marginals.segments[:, 0], [[0.0, 1.0]] * 3)
    close(marginals.pairwise, [[0.0, 0.0], [0.0, 2.0]])
