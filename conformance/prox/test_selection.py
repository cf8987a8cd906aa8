"""The five selections against exact rational arithmetic (Martins et al., Algorithms 2 and 4; Duchi et al.); at ties.

A panel that promises exact selections is held to the digits of the result, to its zeros and to every scale; every other
one to a rounding of max|x| for |x| in 1e-150..1e150 and lam in 1e-8..1e8, as the printed sums give it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
from conformance.export.proxes import l1_ball, simplex, soft
from conformance.tolerances import close

F = Fraction
SCALES = st.sampled_from([1.0, 1.0, 2.0**-1000, 2.0**900, 2.0**-60])
LAMS = st.sampled_from([0.25, 1.0, 3.0, 0.1, 0.3, 1 / 3, 1 / 7, 100.0, 1e10])
NEAR = st.sampled_from([lambda v: v, lambda v: math.nextafter(v, 0.0), lambda v: math.nextafter(v, math.inf)])


def rows(top: int = 6) -> st.SearchStrategy[np.ndarray]:
    """Integers: ties and zeros everywhere."""
    return st.lists(st.integers(-top, top).map(float), min_size=1, max_size=9).map(np.array)


def in_rationals(answer, x, level):
    """The answer of a file of instances (:mod:`conformance.export.proxes`)."""
    return answer([F(v) for v in x], F(level))


def exact_weighted(x, weights, lam):
    """Algorithm 4, corrected: coordinates of weight 0 or value 0 take no part in finding tau."""
    x, d, lam = [F(v) for v in x], [F(v) for v in weights], F(lam)
    S = A = tau = F(0)
    for m in sorted((m for m in range(len(x)) if d[m] > 0 and x[m] != 0), key=lambda m: -abs(x[m]) / d[m]):
        S, A = S + d[m] * abs(x[m]), A + d[m] ** 2
        t = lam * S / (1 + lam * A)
        tau = t if abs(x[m]) > d[m] * t else tau
    return [(1 if v > 0 else -1) * max(abs(v) - tau * w, F(0)) for v, w in zip(x, d, strict=True)]


def agrees(got, exact, size=None, support=True):
    """Within 1e-14 of the largest number (and a unit at the very bottom), and 0 exactly where the exact result is."""
    near = max(F(1e-14) * (F(size) if size else max((abs(v) for v in exact), default=F(0))), F(5e-324))
    assert all(abs(F(float(g)) - v) <= near for g, v in zip(got, exact, strict=True)), (got, exact)
    if support:
        assert [bool(g != 0) for g in got] == [v != 0 for v in exact]


def as_promised(backend, got, exact, x, support=True):
    """``agrees``, of a panel that promises exact selections; of others within 1e-14 of max|x|."""
    if backend.promises("exact selections"):
        agrees(got, exact, support=support)
    else:
        agrees(got, exact, float(np.abs(x).max(initial=0.0)), support=False)


@given(x=rows(), tau=st.integers(0, 7), scale=SCALES)
def test_soft_threshold(backend, x, tau, scale):
    agrees(backend.soft_threshold(scale * x, scale * tau), in_rationals(soft, scale * x, scale * tau))


@given(x=rows(), radius=st.integers(1, 9), scale=SCALES, near=NEAR)
def test_project_simplex(backend, x, radius, scale, near):
    """Radii at which a coordinate has just vanished, or is about to, among them."""
    x, radius = scale * x, (near if backend.promises("exact selections") else float)(scale * radius)
    u = backend.project_simplex(x, radius)
    agrees(u, in_rationals(simplex, x, radius))
    np.testing.assert_allclose(u.sum() / radius, 1.0, rtol=1e-14)


@given(x=rows(), radius=st.integers(0, 30), scale=SCALES, near=NEAR)
def test_project_l1_ball(backend, x, radius, scale, near):
    x, radius = scale * x, (near if radius and backend.promises("exact selections") else float)(scale * radius)
    agrees(backend.project_l1_ball(x, radius), in_rationals(l1_ball, x, radius))


@given(x=rows(), lam=LAMS, scale=SCALES, near=NEAR)
def test_prox_squared_l1(backend, x, lam, scale, near):
    x, lam = scale * x, near(lam)
    as_promised(backend, backend.prox_squared_l1(x, lam), exact_weighted(x, np.ones(len(x)), lam), x)


@given(x=rows(), lam=LAMS, scale=SCALES, near=NEAR, data=st.data())
def test_prox_weighted_squared_l1(backend, x, lam, scale, near, data):
    d = np.array(data.draw(st.lists(st.integers(0, 3).map(float), min_size=len(x), max_size=len(x))))
    x, lam = scale * x, near(lam)
    as_promised(backend, backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), x)


@given(
    seed=st.integers(0, 10**6),
    p=st.integers(1, 6),
    spread=st.sampled_from([0, 3, 300]),
    weights=st.sampled_from([0, 30, 300]),
)
def test_any_mixture_of_scales(backend, seed, p, spread, weights):
    rng, exactly = np.random.default_rng(seed), backend.promises("exact selections")
    of_x, of_d, of_lam = (spread, weights, spread) if exactly else (min(spread, 150), min(weights, 140), min(spread, 8))
    x = rng.normal(size=p) * 10.0 ** rng.uniform(-of_x, of_x, p)
    d = 10.0 ** rng.uniform(-of_d, of_d, p) * (rng.random(p) > 0.2)
    lam = 10.0 ** rng.uniform(-of_lam, of_lam)
    all_agree(backend, x, lam, lam, d)


def all_agree(backend, x, radius, lam, d):
    """Projections and proxes, within 1e-14 of the largest number."""
    top = float(np.abs(x).max())
    agrees(backend.project_simplex(x, radius), in_rationals(simplex, x, radius), max(top, radius), support=False)
    agrees(backend.project_l1_ball(x, radius), in_rationals(l1_ball, x, radius), top, support=False)
    agrees(backend.prox_squared_l1(x, lam), exact_weighted(x, np.ones(len(x)), lam), top, support=False)
    agrees(backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), top, support=False)


@pytest.mark.parametrize("offset", [1e9, 1e16, 1e300, -1e16])
def test_an_offset_does_no_harm(backend, offset):
    """u(x + c) = u(x) as far as x + c tells x's differences; radius 1 is below one unit of the largest."""
    x = offset + np.array([3.0, 0.0, 4.0, 4.0, -9.0])
    agrees(backend.project_simplex(x, 1.0), in_rationals(simplex, x, 1.0), 1.0)
    agrees(backend.project_l1_ball(x, 1.0), in_rationals(l1_ball, x, 1.0), 1.0)


def test_hard_rows(backend):
    """Constant, ascending, geometric, one spike, subnormal, opposite extremes: sums that would overflow or vanish."""
    exactly = backend.promises("exact selections")
    for x in hard_rows(5e-324, 1.7e308) if exactly else hard_rows(1e-150, 1e150):
        for radius, lam in zip(
            (1.0, 1e-300, 1e300), (1.0, 1e-300, 1e300) if exactly else (1.0, 1e-8, 1e8), strict=True
        ):
            all_agree(backend, x, radius, lam, np.linspace(0, 1, len(x)))


def hard_rows(tiny, huge):
    return (
        np.full(50, 0.1),
        np.arange(50.0),
        2.0 ** -np.arange(50.0),
        np.eye(50)[7],
        np.full(5, tiny),
        np.array([huge, -huge, huge]),
        np.array([huge, tiny, -0.0, 1.0]),
        np.zeros(4),
        np.array([-0.0]),
    )


@given(data=st.data())
def test_batches_in_every_namespace(backend, space, data):
    x = np.array(data.draw(st.lists(st.floats(-5, 5, width=32), min_size=12, max_size=12))).reshape(2, 2, 3)
    x, d = x.astype(space.dtype), np.array([0.5, 0.0, 2.0]).astype(space.dtype)
    for name, arguments in (
        ("soft_threshold", (0.7,)),
        ("project_simplex", (2.0,)),
        ("project_l1_ball", (2.0,)),
        ("prox_squared_l1", (0.7,)),
        ("prox_weighted_squared_l1", (d, 0.7)),
    ):
        function = getattr(backend, name)
        sent = [space.put(a) if isinstance(a, np.ndarray) else a for a in arguments]
        got = function(space.put(x), *sent)
        assert space.get(got).dtype == space.dtype
        close(space.get(got), [[function(row, *arguments) for row in pair] for pair in x], space.dtype)
        out = space.put(np.zeros_like(x))
        if space.name.startswith("jax"):
            with pytest.raises(TypeError, match="out: this jax.* array cannot be written in place; omit out"):
                function(space.put(x), *sent, out=out)
            continue
        assert function(space.put(x), *sent, out=out) is out
        assert np.array_equal(space.get(out), space.get(got))
    each = np.abs(x)
    got = backend.prox_weighted_squared_l1(space.put(x), space.put(each), 0.7)
    rows = zip(x.reshape(4, 3), each.reshape(4, 3), strict=True)
    close(space.get(got).reshape(4, 3), [backend.prox_weighted_squared_l1(*row, 0.7) for row in rows], space.dtype)


# integers at a threshold: whether a coordinate becomes 0 is decided by the numbers, not by their rounding -------------

# With p = 2 the second coordinate survives iff lam E < y. For lam the float nearest to a/b or its neighbours, E = b k
# and y = a k, the two differ by less than a machine epsilon, or not at all.
RATIOS = [(1, 1), (1, 10), (3, 10), (7, 10), (1, 3), (2, 3), (1, 7), (22, 7), (355, 113), (10**6, 1)]


@pytest.mark.parametrize("gap", [-52, -50, -45, -40, -35, -30, -27, -20, -10])
def test_a_heavy_weight_at_its_threshold_does_not_hide_the_others(backend, gap):
    """x_2 / d_2 lies below the threshold of x_1 by a share of 2^gap: less than an equation with both can tell."""
    for light in (2.0**-4, 2.0**-9, 2.0**-14, 2.0**-18):
        for lam in (2.0**40, 2.0**60):
            tau = lam * light / (1.0 + lam * light**2)
            x, d = np.array([1.0, tau * (1.0 - 2.0**gap)]), np.array([light, 1.0])
            got, exact = backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam)
            agrees(got, exact, float(x.max()), support=False)


def neighbours(a, b):
    lam = a / b
    return math.nextafter(lam, 0.0), lam, math.nextafter(lam, math.inf)


def holds(backend, got, exact, x):
    """The promise: the support, up to coordinates of the exact result so small that they count as rounding."""
    share = 0 if backend.promises("exact selections") else F(1, 10**14)
    rounding = share * F(float(np.abs(x).max(initial=0.0)))
    for g, e in zip(got, exact, strict=True):
        assert (g != 0) == (e != 0) or (abs(e) <= rounding and abs(F(float(g))) <= rounding), (x, got, exact)


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
    survive = F(lam) * F(E) < 49
    found = np.asarray(backend.prox_squared_l1(x, lam))
    if not backend.promises("exact selections"):
        at_the_tie = np.abs(x) == 49.0
        assert np.abs(found[at_the_tie]).max() <= 1e-11
        found = np.where(at_the_tie, survive, found)
    assert np.array_equal(found != 0, np.abs(x) > (48.0 if survive else 49.0))
