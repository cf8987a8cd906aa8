"""Kernels of segments where products of probabilities underflow, at sizes beyond the laws', and on several threads."""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from accelerated.compiled.structures.segments import FLOOR
from accelerated.threads import set_num_threads
from conformance.tolerances import close

LENGTHS = np.array([70, 0, 1, 33, 9])


def apart(rng):
    return 1e3 * rng.normal(size=(5, 70, 9, 11)), 1e3 * rng.normal(size=(11, 11))


def unlikely_labels(rng):
    """The products of every column are below FLOOR where the label before is not of the same half."""
    segments, pairwise = rng.normal(size=(5, 70, 9, 11)), rng.normal(size=(11, 11))
    pairwise[:5, 5:] += 3 * np.log(FLOOR)
    pairwise[5:, :5] += 3 * np.log(FLOOR)
    segments[:, 20:25, :, :5] += 4 * np.log(FLOOR)
    segments[:, 30, :, 5:] += 9 * np.log(FLOOR)
    return segments, pairwise


def forbidden(rng):
    segments, pairwise = rng.normal(size=(5, 70, 9, 11)), rng.normal(size=(11, 11))
    segments[rng.random(segments.shape) < 0.5], pairwise[rng.random(pairwise.shape) < 0.7] = -np.inf, -np.inf
    pairwise[:, 3] = -np.inf
    return segments - 50.0 * np.arange(9)[:, None], pairwise


def tied(rng):
    return 1.0 * rng.integers(-1, 2, (5, 70, 9, 11)), 1.0 * rng.integers(-1, 2, (11, 11))


def chosen(segments, mu):
    """Arrays that are the same bits in both panels."""
    return [*segments.best(), *segments.topk(7), segments.sample(5, mu, 0)]


def summed(segments, mu):
    value, marginals = segments.expectation(mu)
    return [value, *marginals[:2], *segments.max_marginals()[:2]]


@pytest.mark.parametrize("draw", [apart, unlikely_labels, forbidden, tied])
@pytest.mark.parametrize("mu", [1e-2, 1.0, 100.0])
def test_kernels_answer_as_the_reference(rng, draw, mu):
    scores = draw(rng)
    ours, theirs = (panel.Segments(*scores, LENGTHS) for panel in (accelerated, reference))
    for a, b in zip(chosen(ours, mu), chosen(theirs, mu), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(summed(ours, mu), summed(theirs, mu), strict=True):
        close(a, b)


def test_what_underflows_in_the_middle_may_be_all_there_is():
    """No label changes: one is all but impossible at first, and the other at the end."""
    far, pairwise = 4 * np.log(FLOOR), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    segments = np.zeros((3, 1, 2))
    segments[0, 0, 1], segments[2, 0, 0] = far, 2 * far
    value, marginals = accelerated.Segments(segments, pairwise).expectation()
    close(value, far)
    close(marginals.segments[:, 0], [[0.0, 1.0]] * 3)
    close(marginals.pairwise, [[0.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize("draw", [unlikely_labels, tied])
def test_any_number_of_threads_gives_the_same_bits(rng, draw):
    segments = accelerated.Segments(*draw(rng), LENGTHS)
    found = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        found.append(chosen(segments, 1.0) + summed(segments, 1.0))
    set_num_threads(None)
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
