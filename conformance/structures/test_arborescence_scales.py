"""Sums over dependency trees at every size of the scores: against enumeration in 60 digits, where floats cannot tell
trees apart."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from conformance.structures.test_arborescence import roots, trees
from conformance.tolerances import close

EPS = np.finfo(np.float64).eps
SCALES = [1.0, 1e5, 1e10, 1e13, 1e16, 1e20, 1e100, 1e300]


def tied(rng, n, scale):
    return scale * rng.integers(-2, 3, (n, n + 1))


def nearly_tied(rng, n, scale):
    return tied(rng, n, scale) + rng.normal(size=(n, n + 1))


def some_forbidden(rng, n, scale):
    return np.where(rng.random((n, n + 1)) < 0.3, -np.inf, nearly_tied(rng, n, scale))


def hard_to_leave(rng, n, scale):
    """Cycles of two tokens whose ways out are far below, and differ by little."""
    values = rng.integers(-2, 3, (n, n + 1)).astype(np.float64)
    for m in range(0, n - 1, 2):
        values[m, m + 2] = values[m + 1, m + 1] = scale
    return values


def root_far_below(rng, n, scale):
    """At 1e20 numbers are 16384 apart: of differences to the root's arcs, rounding takes all that counts, to either
    side."""
    values = rng.normal(size=(n, n + 1)) + 8191.3
    values[:, 0] -= scale
    return values


KINDS = {f.__name__: f for f in (tied, nearly_tied, some_forbidden, hard_to_leave, root_far_below)}


def enumerated(values, mu, single_root):
    """mu log sum exp(score / mu) as a Fraction and the marginals, from exact scores; None if there is no tree."""
    outputs = [y for y, s in zip(*trees(values, single_root), strict=True) if s > -np.inf]
    if not outputs:
        return None
    scores = [sum((Fraction(float(values[m, h])) for m, h in enumerate(y)), Fraction(0)) for y in outputs]
    top, marginals = max(scores), np.zeros(values.shape)
    with localcontext() as context:
        context.prec = 60
        away = [max((s - top) / Fraction(mu), Fraction(-10000)) for s in scores]
        weights = [(Decimal(x.numerator) / Decimal(x.denominator)).exp() for x in away]
        total = sum(weights)
        for m, h in np.ndindex(values.shape):
            marginals[m, h] = sum((w for w, y in zip(weights, outputs, strict=True) if y[m] == h), Decimal(0)) / total
        return top + Fraction(mu) * Fraction(total.ln()), marginals


def agrees(backend, values, mu, single_root):
    """Value and marginals are those of the enumeration, to some units of the last place."""
    value, marginals = backend.Arborescence(values, single_root).expectation(mu)
    expected, means = enumerated(values, mu, single_root)
    np.testing.assert_allclose(marginals.values, means, rtol=0, atol=64 * EPS)
    assert abs(Fraction(float(value)) - expected) <= 16 * Fraction(EPS) * max(abs(expected), Fraction(mu))
    is_distribution(np.asarray(marginals.values))


def is_distribution(marginals):
    assert np.all((marginals >= 0) & (marginals <= 1))
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=0, atol=8 * len(marginals) * EPS)


@roots
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", KINDS)
def test_trees_that_floats_cannot_tell_apart(backend, rng, kind, scale, single_root):
    """Value and marginals to some units of the last place, whatever is added up on the way."""
    for n, mu in ((1, 1.0), (2, 1.0), (3, 1e-3), (4, 1.0), (4, 30.0), (4, 0.3)):
        values = KINDS[kind](rng, n, scale)
        if enumerated(values, mu, single_root) is not None:
            agrees(backend, values, mu, single_root)
            continue
        with pytest.raises(backend.InfeasibleError):
            backend.Arborescence(values, single_root).expectation(mu)


@roots
@pytest.mark.parametrize("mu", [1e-300, 1e-10, 1.0, 1e10, 1e300])
@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e8, 1e300])
def test_every_temperature_at_every_scale(backend, rng, scale, mu, single_root):
    agrees(backend, nearly_tied(rng, 3, 1.0) * scale, mu, single_root)


@roots
@pytest.mark.parametrize("depth", [1e2, 3e2, 4.4e2, 7e2, 1e3])
def test_weights_that_underflow_on_the_way(backend, single_root, depth):
    """Small pivots of which each alone is representable: two tokens in a cycle, the way out twice as deep, and a
    detour that counts.
    """
    inf = -np.inf
    values = np.array(
        [
            [-3.0 * depth, inf, 0.0, inf, -depth],
            [-3.0 * depth, 0.0, inf, -2.0 * depth, inf],
            [-depth, inf, -1.5 * depth, inf, 0.0],
            [-2.0 * depth, -depth, inf, 0.0, inf],
        ]
    )
    agrees(backend, values, 1.0, single_root)


@roots
@pytest.mark.parametrize("depth", [100.0, 340.0, 357.0, 365.0, 375.0, 381.0, 385.0, 391.0, 399.0])
def test_the_way_out_of_a_cycle_is_hardly_heavier_than_what_is_lost(backend, depth, single_root):
    """Two tokens head each other; leaving by the first costs depth, by the second a little more, or more than 400."""
    for other in (400.5, depth + 1.0):
        agrees(backend, np.array([[-depth, -np.inf, 0.0], [-other, 0.0, -np.inf]]), 1.0, single_root)


@roots
@pytest.mark.parametrize("c", [-1e300, -1e16, 0.0, 1e10, 1e16, 1e300])
@pytest.mark.parametrize("n", [2, 7, 30])
def test_cayleys_trees_are_equally_likely_at_every_height(backend, c, n, single_root):
    values = np.full((n, n + 1), c)
    value, marginals = backend.Arborescence(values, single_root).expectation()
    marginals = np.asarray(marginals.values)
    from_root = 1 / n if single_root else 2 / (n + 1)
    expected = np.full((n, n + 1), (1 - from_root) / (n - 1))
    expected[:, 0], expected[np.arange(n), np.arange(1, n + 1)] = from_root, 0.0
    np.testing.assert_allclose(marginals, expected, rtol=0, atol=64 * EPS)
    close(value, n * c + (n - 1) * math.log(n if single_root else n + 1))


@roots
@pytest.mark.parametrize("apart", [0.0, 2.0**20, 2.0**48])
@pytest.mark.parametrize("n", [12, 40])
def test_constants_on_tokens_change_no_marginal(backend, rng, n, apart, single_root):
    """Scores and constants of which floats hold the sums exactly; the roots' arcs far below the others, as they are
    under a hard constraint."""
    values = rng.integers(-8, 9, (n, n + 1)) / 4.0
    values[:, 0] -= apart
    raised = values + 2.0**48 * rng.integers(-3, 4, n)[:, None]
    plain, other = (np.asarray(backend.Arborescence(v, single_root).marginals().values) for v in (values, raised))
    np.testing.assert_allclose(other, plain, rtol=0, atol=8 * n * EPS)
    is_distribution(plain)
    if apart > 0:  # one root arc in both: more would cost more than all else can gain
        one = np.asarray(backend.Arborescence(values + apart * (np.arange(n + 1) == 0), True).marginals().values)
        np.testing.assert_allclose(plain, one, rtol=0, atol=8 * n * EPS)


@roots
@pytest.mark.parametrize("scale", [1e6, 1e12, 1e30, 1e300])
def test_panels_agree_about_sums_at_every_scale(other, rng, scale, single_root):
    import reference

    for kind in KINDS.values():
        values = kind(rng, 9, scale)
        ours, theirs = (panel.Arborescence(values, single_root) for panel in (other, reference))
        if theirs.count() == 0:
            continue
        (value, marginals), (expected, probabilities) = ours.expectation(0.7), theirs.expectation(0.7)
        close(value, expected)
        np.testing.assert_allclose(marginals.values, probabilities.values, rtol=0, atol=64 * EPS)
