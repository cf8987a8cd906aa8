"""Selections on rows too long for exact arithmetic, where kernels sample: against a sort in extended precision."""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from conformance.panels.test_mirror import arm

LONG = np.longdouble
ROWS = {
    "gaussian": lambda rng, p: rng.normal(size=p),
    "constant": lambda rng, p: np.full(p, 0.3),
    "one spike": lambda rng, p: np.where(np.arange(p) == p // 3, 1e3, 0.0),
    "few spikes": lambda rng, p: np.where(rng.random(p) < 2e-4, 1e6, rng.normal(size=p)),  # missed by most samples
    "descending": lambda rng, p: -np.arange(p, dtype=np.float64),
    "mixed scales": lambda rng, p: np.exp(20 * rng.normal(size=p)),
    "few values": lambda rng, p: rng.integers(-2, 3, p).astype(np.float64),
    "two clusters": lambda rng, p: np.where(rng.random(p) < 0.5, 1.0, -1.0) + 1e-9 * rng.normal(size=p),
    "offset": lambda rng, p: 1e9 + rng.normal(size=p),
    "huge": lambda rng, p: 1e300 * rng.normal(size=p),
    "tiny": lambda rng, p: 1e-300 * rng.normal(size=p),
}


def simplex(x, radius):
    """max(x - theta, 0) by the sort; x less its largest first."""
    v = x.astype(LONG) - LONG(x.max())
    y = np.sort(v)[::-1]
    theta = (np.cumsum(y) - LONG(radius)) / np.arange(1, len(x) + 1)
    return np.maximum(v - theta[np.flatnonzero(y > theta)[-1]], 0)


def squared(x, d, lam):
    """Algorithm 4, corrected, in extended precision."""
    u, d = np.abs(x).astype(LONG), d.astype(LONG)
    used = (u > 0) & (d > 0)
    order = np.argsort(-(u[used] / d[used]), kind="stable")
    a, b = u[used][order], d[used][order]
    tau = LONG(lam) * np.cumsum(a * b) / (1 + LONG(lam) * np.cumsum(b * b))
    tau = tau[np.flatnonzero(a > b * tau)[-1]] if len(a) else LONG(0)
    return np.sign(x) * np.maximum(u - d * tau, 0)


def near(got, expected, top, share=1e-14):
    """Within this share of the largest number: compared in extended precision, so that 1e300 is nothing special."""
    assert np.all(np.isfinite(got))
    assert float(np.max(np.abs(got.astype(LONG) - expected)) / LONG(top)) <= share


@pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="no extended precision here")
@pytest.mark.parametrize("p", [1000, 16384, 100_003])
@pytest.mark.parametrize("kind", ROWS)
def test_long_rows(backend, rng, kind, p):
    """Exact selections are within 1e-14; printed sums lose a rounding a number, and must be in range."""
    exactly = backend.promises("exact selections")
    if kind == "huge" and not exactly:
        pytest.skip("lam sum |x| is out of range")
    x, share = ROWS[kind](rng, p), 1e-14 if exactly else max(1e-14, p * np.finfo(np.float64).eps)
    top = np.abs(x).max()
    total = float(np.sum(np.abs(x).astype(LONG)))
    for radius in (top * 1e-17, top, total / 100 if np.isfinite(total) else 1e300):
        u = backend.project_simplex(x, radius)
        near(u, simplex(x, radius), max(top, radius), share)
        assert np.all(u >= 0) and float(u.astype(LONG).sum() / LONG(radius)) == pytest.approx(1.0, rel=1e-11)
        if radius < total:
            near(backend.project_l1_ball(x, radius), np.sign(x) * simplex(np.abs(x), radius), top, share)
    for lam in (1.0, 1 / p, 1e-9, 1e6):
        near(backend.prox_squared_l1(x, lam), squared(x, np.ones(p), lam), top, share)
        d = np.where(rng.random(p) < 0.1, 0.0, rng.random(p))
        near(backend.prox_weighted_squared_l1(x, d, lam), squared(x, d, lam), top, share)


def calls(panel, p):
    d = np.linspace(0.0, 2.0, p)
    return {
        "soft_threshold": lambda x, **o: panel.soft_threshold(x, 0.4, **o),
        "project_simplex": lambda x, **o: panel.project_simplex(x, 2.0, **o),
        "project_l1_ball": lambda x, **o: panel.project_l1_ball(x, 2.0, **o),
        "prox_squared_l1": lambda x, **o: panel.prox_squared_l1(x, 0.1, **o),
        "prox_weighted_squared_l1": lambda x, **o: panel.prox_weighted_squared_l1(x, d, 0.1, **o),
    }


@pytest.mark.parametrize("name", calls(reference, 2))
@pytest.mark.parametrize("shape", [(0, 3), (2, 3, 5), (3000, 40), (2, 50_000)])
def test_batches_agree(other, rng, name, shape):
    x = rng.normal(size=shape)
    got, expected = (calls(panel, shape[-1])[name](x) for panel in (other, reference))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * np.abs(x).max(initial=1.0))
    if len(x) > 2:  # many threads take part: a row has the bits that it has alone
        assert all(np.array_equal(got[i], calls(other, shape[-1])[name](x[i])) for i in (0, 1500, 2999))
    single = calls(other, shape[-1])[name](x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", calls(reference, 2))
def test_any_out(other, rng, name):
    """Strided, in Fortran order, of overlapping memory: whatever ``out`` is, it receives the same numbers."""
    function, x = calls(other, 40)[name], rng.normal(size=(6, 40))
    expected = function(x)
    room = np.zeros((6, 80))
    for out in (np.empty_like(x), room[:, ::2], np.empty_like(x, order="F")):
        assert function(x, out=out) is out and np.array_equal(out, expected)
    shifted = np.empty(6 * 40 + 3)
    source, target = shifted[:240].reshape(6, 40), shifted[3:].reshape(6, 40)
    source[...] = x
    assert function(source, out=target) is target and np.array_equal(target, expected)
    assert np.array_equal(function(x[::-1, ::-1][::-1, ::-1].copy(order="F")), expected)
    if name != "soft_threshold":  # what is refused leaves it alone
        with pytest.raises(ValueError, match=r"x: expected finite numbers, got inf at index \(5, 39\)"):
            function(np.where(np.arange(240).reshape(6, 40) == 239, np.inf, x), out=out)
        assert np.array_equal(out, expected)
    if name == "prox_weighted_squared_l1":  # out may be the weights
        d = np.broadcast_to(np.linspace(0.0, 2.0, 40), x.shape).copy()
        assert np.array_equal(other.prox_weighted_squared_l1(x, d, 0.1, out=d), expected)


def test_regularizers_reach_the_kernels(monkeypatch, rng):
    """Every regularizer of the fast panel, and parts inside others, without one call of a replaced selection."""
    armed, P = arm(monkeypatch), accelerated
    assert set(calls(reference, 2)) <= armed
    x, groups = rng.normal(size=(3, 4)), [[0, 1], [2, 3]]
    of_groups = [P.L21Ball(2.0, groups), P.SquaredL21(0.3, groups), P.SparseGroupLasso(0.3, groups, 0.2)]
    others = [P.L1(0.3), P.Simplex(2.0), P.L1Ball(2.0), P.SquaredL1(0.3), P.WeightedSquaredL1(0.3, np.arange(4.0))]
    for regularizer in of_groups + others:
        for answer in (regularizer.prox(x), regularizer.prox_conjugate(x, 0.5), regularizer.envelope(x)):
            assert np.all(np.isfinite(answer))
