"""The five selections against exact rational arithmetic (Martins et al., Algorithms 2 and 4; Duchi et al.).

A panel that promises exact selections is held to the digits of the result, to its zeros and to every scale; every other
one to a rounding of max|x| for |x| in 1e-150..1e150 and lam in 1e-8..1e8, as the printed sums give it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tolerances import close

F = Fraction
SCALES = st.sampled_from([1.0, 1.0, 2.0**-1000, 2.0**900, 2.0**-60])
LAMS = st.sampled_from([0.25, 1.0, 3.0, 0.1, 0.3, 1 / 3, 1 / 7, 100.0, 1e10])


def rows(top: int = 6) -> st.SearchStrategy[np.ndarray]:
    """Integers: ties and zeros everywhere."""
    return st.lists(st.integers(-top, top).map(float), min_size=1, max_size=9).map(np.array)


def exact_soft_threshold(x, tau):
    return [(1 if v > 0 else -1) * max(abs(F(v)) - F(tau), F(0)) for v in x]


def exact_simplex(x, radius):
    """max(x_i - theta, 0), with the theta of the longest prefix whose last entry stays positive."""
    total = theta = F(0)
    for j, v in enumerate(sorted(map(F, x), reverse=True), 1):
        total += v
        if v > (total - F(radius)) / j:
            theta = (total - F(radius)) / j
    return [max(F(v) - theta, F(0)) for v in x]


def exact_l1_ball(x, radius):
    if sum(abs(F(v)) for v in x) <= F(radius):
        return [F(v) for v in x]
    if radius == 0:
        return [F(0)] * len(x)
    return [(1 if v > 0 else -1) * u for v, u in zip(x, exact_simplex(np.abs(x), radius), strict=True)]


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
    agrees(backend.soft_threshold(scale * x, scale * tau), exact_soft_threshold(scale * x, scale * tau))


@given(x=rows(), radius=st.integers(1, 9), scale=SCALES)
def test_project_simplex(backend, x, radius, scale):
    u = backend.project_simplex(scale * x, scale * radius)
    agrees(u, exact_simplex(scale * x, scale * radius))
    np.testing.assert_allclose(u.sum() / (scale * radius), 1.0, rtol=1e-14)


@given(x=rows(), radius=st.integers(0, 30), scale=SCALES)
def test_project_l1_ball(backend, x, radius, scale):
    agrees(backend.project_l1_ball(scale * x, scale * radius), exact_l1_ball(scale * x, scale * radius))


@given(x=rows(), lam=LAMS, scale=SCALES)
def test_prox_squared_l1(backend, x, lam, scale):
    x = scale * x
    as_promised(backend, backend.prox_squared_l1(x, lam), exact_weighted(x, np.ones(len(x)), lam), x)


@given(x=rows(), lam=LAMS, scale=SCALES, data=st.data())
def test_prox_weighted_squared_l1(backend, x, lam, scale, data):
    d = np.array(data.draw(st.lists(st.integers(0, 3).map(float), min_size=len(x), max_size=len(x))))
    x = scale * x
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
    top = float(np.abs(x).max())
    agrees(backend.project_simplex(x, lam), exact_simplex(x, lam), max(top, lam), support=False)
    agrees(backend.project_l1_ball(x, lam), exact_l1_ball(x, lam), top, support=False)
    agrees(backend.prox_squared_l1(x, lam), exact_weighted(x, np.ones(p), lam), top, support=False)
    agrees(backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), top, support=False)


@pytest.mark.parametrize("offset", [1e9, 1e16, 1e300, -1e16])
def test_an_offset_does_no_harm(backend, offset):
    """u(x + c) = u(x) as far as x + c tells x's differences; radius 1 is below one unit of the largest."""
    x = offset + np.array([3.0, 0.0, 4.0, 4.0, -9.0])
    agrees(backend.project_simplex(x, 1.0), exact_simplex(x, 1.0), 1.0)
    agrees(backend.project_l1_ball(x, 1.0), exact_l1_ball(x, 1.0), 1.0)


def test_hard_rows(backend):
    """Constant, ascending, geometric, one spike, subnormal, opposite extremes: sums that would overflow or vanish."""
    exactly = backend.promises("exact selections")
    for x in hard_rows(5e-324, 1.7e308) if exactly else hard_rows(1e-150, 1e150):
        top, d = float(np.abs(x).max()), np.linspace(0, 1, len(x))
        for r in (1.0, 1e-300, 1e300):
            agrees(backend.project_simplex(x, r), exact_simplex(x, r), max(top, r), support=False)
            agrees(backend.project_l1_ball(x, r), exact_l1_ball(x, r), max(top, r), support=False)
        for lam in (1.0, 1e-300, 1e300) if exactly else (1.0, 1e-8, 1e8):
            agrees(backend.prox_squared_l1(x, lam), exact_weighted(x, np.ones(len(x)), lam), top, support=False)
            agrees(backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), top, support=False)


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
    close(
        space.get(backend.prox_weighted_squared_l1(space.put(x), space.put(each), 0.7)),
        [
            [backend.prox_weighted_squared_l1(row, w, 0.7) for row, w in zip(*pair, strict=True)]
            for pair in zip(x, each, strict=True)
        ],
        space.dtype,
    )


def test_bad_input_names_the_argument(backend):
    x = np.ones(3)
    for call, error, words in (
        (lambda: backend.soft_threshold(x, -1.0), ValueError, "tau: expected a finite number >= 0, got -1.0"),
        (lambda: backend.project_simplex(x, 0.0), ValueError, "radius: expected a finite number > 0, got 0.0"),
        (lambda: backend.project_simplex(np.zeros((2, 0))), ValueError, "x: expected at least one number"),
        (lambda: backend.project_l1_ball(x, np.inf), ValueError, "radius: expected a finite number >= 0, got inf"),
        (lambda: backend.prox_squared_l1(x, np.nan), ValueError, "lam: expected a finite number >= 0, got nan"),
        (lambda: backend.prox_weighted_squared_l1(x, [1.0], 1.0), ValueError, r"weights: expected shape \(3,\) or"),
        (lambda: backend.prox_weighted_squared_l1(x, -x, 1.0), ValueError, "weights: expected numbers >= 0, got -1.0"),
        (lambda: backend.prox_weighted_squared_l1(x, x * np.nan, 1.0), ValueError, "weights: .* got nan at index"),
        (lambda: backend.project_l1_ball(np.array([1.0, np.nan])), ValueError, r"x: expected finite numbers, got nan"),
        (lambda: backend.soft_threshold(3.0, 1.0), ValueError, r"x: expected shape \(..., p\), got \(\)"),
        (lambda: backend.soft_threshold(x, 1.0, out=np.ones(4)), ValueError, r"out: expected ndarray of float64"),
        (lambda: backend.soft_threshold(1j * x, 1.0), TypeError, "x: expected float32 or float64"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_integers_and_lists_become_float64(backend):
    assert backend.project_simplex([3, 1]).dtype == np.float64
    assert np.array_equal(backend.soft_threshold(np.array([3, -1]), 1), [2.0, 0.0])


@pytest.mark.parametrize("gap", [-52, -50, -45, -40, -35, -30, -27, -20, -10])
def test_a_heavy_weight_at_its_threshold_does_not_hide_the_others(backend, gap):
    """x_2 / d_2 lies below the threshold of x_1 by a share of 2^gap: less than an equation with both can tell."""
    for light in (2.0**-4, 2.0**-9, 2.0**-14, 2.0**-18):
        for lam in (2.0**40, 2.0**60):
            tau = lam * light / (1.0 + lam * light**2)
            x, d = np.array([1.0, tau * (1.0 - 2.0**gap)]), np.array([light, 1.0])
            got, exact = backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam)
            agrees(got, exact, float(x.max()), support=False)
