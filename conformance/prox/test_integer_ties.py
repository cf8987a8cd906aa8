"""Integers at a threshold: whether a coordinate becomes 0 is decided by the numbers, not by their rounding.

With p = 2 the second coordinate survives iff lam E < y. For lam the float nearest to a/b or its neighbours, E = b k and
y = a k, the two differ by less than a machine epsilon, or not at all. (Martins et al., Algorithms 2 and 4; Duchi et
al.) A panel that promises exact selections is 0 exactly where the exact result is; another up to a rounding of max|x|.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import accelerated
from conformance.prox.test_selection import exact_l1_ball, exact_simplex, exact_weighted

RATIOS = [(1, 1), (1, 10), (3, 10), (7, 10), (1, 3), (2, 3), (1, 7), (22, 7), (355, 113), (10**6, 1)]


def neighbours(a, b):
    lam = a / b
    return math.nextafter(lam, 0.0), lam, math.nextafter(lam, math.inf)


def holds(backend, got, exact, x):
    """The promise: the support, up to coordinates of the exact result so small that they count as rounding."""
    share = 0 if backend.promises("exact selections") else Fraction(1, 10**14)
    rounding = share * Fraction(float(np.abs(x).max(initial=0.0)))
    for g, e in zip(got, exact, strict=True):
        assert (g != 0) == (e != 0) or (abs(e) <= rounding and abs(Fraction(float(g))) <= rounding), (x, got, exact)


def test_the_fast_panel_promises_exact_selections():
    assert "exact selections" in accelerated.__conformance_promises__


@pytest.mark.parametrize(("a", "b"), RATIOS)
def test_ties_of_the_squared_l1_prox(backend, a, b):
    """y - lam E of integers E up to 2^26 is below, at or above 0, for any lam."""
    outcomes = set()
    for k in (1, 3, 1000, 2**26 // max(a, b)):
        for lam in neighbours(a, b):
            for x in (np.array([a * k + b * k, a * k]), np.array([-a * k, 0, a * k + b * k])):
                x = x.astype(np.float64)
                exact = exact_weighted(x, np.ones(len(x)), lam)
                outcomes.add(sum(v != 0 for v in exact))
                holds(backend, backend.prox_squared_l1(x, lam), exact, x)
    assert outcomes == {1, 2}  # this very prox decides on both sides of a tie


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (2, 3), (30, 31), (1000, 1001), (1000, 7), (7, 1000)])
@pytest.mark.parametrize(("a", "b"), RATIOS[:-1])
def test_ties_of_the_weighted_prox(backend, a, b, weights):
    """The second survives iff lam d_1 (d_2 x_1 - d_1 x_2) < x_2; among them ratios x / d that hardly differ."""
    first, second = weights
    for k in (1, 7):
        below = a * first * second * k
        above = (b * second * k + first * below) // second
        assert first * (second * above - first * below) == b * first * second * k
        for lam in neighbours(a, b):
            for order in (slice(None), slice(None, None, -1)):
                x, d = np.array([above, below], np.float64)[order], np.array(weights, np.float64)[order]
                holds(backend, backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), x)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("top", [3, 2**10, 2**26])
def test_ties_of_projections(backend, seed, top):
    """Radii at which a coordinate has just vanished, E_j = radius, or is about to."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-top, top + 1, 7).astype(np.float64)
    x[rng.integers(0, 7, 2)] = x[rng.integers(0, 7, 2)]
    for y, project, exact in (
        (x, backend.project_simplex, exact_simplex),
        (np.abs(x), backend.project_l1_ball, exact_l1_ball),
    ):
        ranked = np.sort(y)[::-1]
        for radius in {float(np.sum(ranked[:j] - ranked[j - 1])) for j in range(2, 8)} - {0.0}:
            for r in (math.nextafter(radius, 0.0), radius, math.nextafter(radius, math.inf)):
                holds(backend, project(x, r), exact(x, r), x)


@pytest.mark.parametrize("seed", range(4))
def test_a_long_row_has_the_ties_of_a_short_one(backend, seed):
    """Selection looks at a sample first: 2^15 numbers of which a dozen lie above the threshold, and many at it."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-50, 50, 2**15).astype(np.float64)
    x[rng.integers(0, len(x), 12)] += 1000.0
    ranked = np.sort(np.abs(x))[::-1]
    E = float(np.sum(ranked - 49.0, where=ranked > 49.0, initial=0.0))
    for r, ones in ((E, False), (E + 1.0, True)):
        assert np.array_equal(np.asarray(backend.project_l1_ball(x, r)) != 0, np.abs(x) > (48.0 if ones else 49.0))
    lam = 49.0 / E  # the float may be above or below
    survive = Fraction(lam) * Fraction(E) < 49
    found = np.asarray(backend.prox_squared_l1(x, lam))
    if not backend.promises("exact selections"):
        at_the_tie = np.abs(x) == 49.0
        assert np.abs(found[at_the_tie]).max() <= 1e-11
        found = np.where(at_the_tie, survive, found)
    assert np.array_equal(found != 0, np.abs(x) > (48.0 if survive else 49.0))
