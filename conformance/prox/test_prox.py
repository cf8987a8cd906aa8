"""Regularizers against optimality, Fenchel's inequality and numerical minimisation (Martins et al., section 3.1)."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.specimens import regularizers
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close

every_kind = pytest.mark.parametrize("kind", regularizers.KINDS)


def objective(phi, u, x, step):
    """step phi(u) + ||u - x||^2 / 2."""
    return step * float(phi.value(u)) + 0.5 * float(np.sum((u - x) ** 2))


def trials(phi, p, x):
    """Steps from p along axes, towards x and 0 and anywhere; far points; and all of them moved into the domain."""
    rng = np.random.default_rng(0)
    axes = [*np.eye(len(p)), p, x, x - p, np.where(rng.random(p.shape) < 0.5, p, 0.0), *rng.normal(size=(2, len(p)))]
    points = [p + t * d for d in axes for t in (1e-4, -1e-4, 1e-2, -1e-2, 0.3, -0.3)]
    points += [3.0 * rng.normal(size=p.shape), np.zeros_like(p)]
    points = np.array(points)
    return np.concatenate([points, phi.prox(points), phi.prox(points, 1e-2)])


@every_kind
@given(data=st.data(), step=regularizers.STEPS)
def test_the_prox_is_a_minimiser(backend, kind, data, step):
    """phi(u) >= phi(p) + <(x - p)/s, u - p> for all u: the certificate of optimality; and the envelope."""
    p, make = data.draw(regularizers.instances(kind))
    phi = make(backend)
    for x in (data.draw(regularizers.extreme_points(p)), data.draw(regularizers.points(p))):
        u0 = phi.prox(x, step)
        value, g = float(phi.value(u0)), (x - u0) / step
        assert np.isfinite(value)
        least = objective(phi, u0, x, step)
        np.testing.assert_allclose(float(phi.envelope(x, step)) * step, least, atol=1e-10, rtol=1e-12)
        u = trials(phi, u0, x)
        size = 1.0 + abs(value) + np.abs(x).max() ** 2 + np.abs(u).max(axis=-1) ** 2
        assert np.all(phi.value(u) >= value + (u - u0) @ g - 1e-11 * size)


@every_kind
@given(data=st.data(), step=regularizers.STEPS)
def test_fenchel_and_young(backend, kind, data, step):
    """phi(x) + phi*(y) >= <x, y>, with equality at (p, (x - p)/s)."""
    p, make = data.draw(regularizers.instances(kind))
    phi, x, y = make(backend), data.draw(regularizers.points(p)), data.draw(regularizers.points(p))
    u = phi.prox(x, step)
    g = (x - u) / step
    for a, b in ((x, y), (u, y), (x, g), (phi.prox(y), g)):
        assert float(phi.value(a)) + float(phi.conjugate(b)) >= a @ b - 1e-10 * (1 + abs(a @ b))
    total = float(phi.value(u)) + float(phi.conjugate(g))
    np.testing.assert_allclose(total, u @ g, atol=1e-9 * (1 + abs(total) + np.abs(x).max() ** 2))


@every_kind
@given(data=st.data())
def test_the_conjugate_is_the_supremum(backend, kind, data):
    """Approached from below where it is finite, and exceeded along a ray where it is not."""
    p, make = data.draw(regularizers.instances(kind))
    phi, y = make(backend), np.round(8 * data.draw(regularizers.points(p))) / 8
    conjugate = float(phi.conjugate(y))
    if conjugate < np.inf:  # prox of y/s with step 1/s tends to a maximiser as s falls
        reached = [
            (phi.prox(y / s, 1 / s)) for s in (1e-30 if conjugate > 1e9 else 1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)
        ]
        best = max(y @ u - float(phi.value(u)) for u in reached)
        np.testing.assert_allclose(best, conjugate, rtol=1e-6, atol=1e-5)
    else:
        rays = [d / np.linalg.norm(d) for d in (phi.prox(y), phi.prox(y, 1e9), phi.prox(1e40 * y, 1e9)) if np.any(d)]
        gains = [(y @ d - float(phi.value(t * d)) / t, t) for d in rays for t in (1e3, 1e9, 1e40)]
        assert max(gain * t for gain, t in gains if gain > 1e-10 * np.abs(y).max()) > 1.0


@every_kind
@given(data=st.data(), step=regularizers.STEPS)
def test_the_conjugates_prox_is_a_minimiser(backend, kind, data, step):
    """The subgradient inequality of phi*, by its own closed form."""
    p, make = data.draw(regularizers.instances(kind))
    phi, y = make(backend), data.draw(regularizers.points(p))
    v = phi.prox_conjugate(y, step)
    value, g = float(phi.conjugate(v)), (y - v) / step
    assert np.isfinite(value)
    points = np.concatenate([trials(phi, v, y), np.zeros((1, p))])
    w = np.concatenate([points, phi.prox_conjugate(points), phi.prox_conjugate(points, 1e-2)])
    size = 1.0 + abs(value) + np.abs(y).max() ** 2 + np.abs(w).max(axis=-1) ** 2
    assert np.all(phi.conjugate(w) >= value + (w - v) @ g - 1e-10 * size)


@every_kind
@settings(max_examples=8)
@given(data=st.data(), step=regularizers.STEPS, batch=st.sampled_from([(2, 2), (2, 2), (0,)]))
def test_a_batch_is_its_rows_in_every_namespace(backend, space, kind, data, step, batch):
    p, make = data.draw(regularizers.instances(kind))
    phi, x = make(backend), data.draw(regularizers.points(p, *batch)).astype(space.dtype)
    steps = {"value": (), "conjugate": ()}  # the others take one
    for method in ("value", "prox", "conjugate", "prox_conjugate", "envelope"):
        arguments = steps.get(method, (step,))
        got = space.get(getattr(phi, method)(space.put(x), *arguments))
        rows = [getattr(phi, method)(row, *arguments) for row in x.reshape(-1, p)]
        assert got.dtype == space.dtype and got.shape[: len(batch)] == batch
        close(got, np.array(rows).reshape(got.shape), space.dtype)


@every_kind
@given(data=st.data(), c=st.sampled_from([1e300, 1e-300, 2.0**600, 2.0**-600]), step=regularizers.STEPS)
def test_scales(backend, kind, data, c, step):
    """The prox of c^2 phi(x/c) at c x is c times the prox of phi at x; nothing is nan, however large."""
    p, make = data.draw(regularizers.instances(kind))
    phi, scaled, x = make(backend), make(backend, c), data.draw(regularizers.points(p))
    close(scaled.prox(c * x, step) / c, phi.prox(x, step))
    close(scaled.prox_conjugate(c * x, step) / c, phi.prox_conjugate(x, step))
    for number in (scaled.value(c * x), scaled.conjugate(c * x), scaled.envelope(c * x, step)):
        assert not np.isnan(number)


@every_kind
@given(data=st.data(), step=regularizers.STEPS)
def test_results_go_into_out(backend, kind, data, step):
    """Which may be x; without it, x is left as it was."""
    p, make = data.draw(regularizers.instances(kind))
    phi, x = make(backend), data.draw(regularizers.points(p, 3))
    before, expected, other = x.copy(), phi.prox(x, step), phi.prox_conjugate(x)
    assert np.array_equal(x, before) and not np.shares_memory(expected, x) and not np.shares_memory(other, x)
    out = np.full_like(x, np.nan)
    assert phi.prox(x, step, out=out) is out and np.array_equal(out, expected)
    assert phi.prox(x, step, out=x) is x and np.array_equal(x, expected)


@pytest.mark.parametrize("kind", [k for k in regularizers.KINDS if k not in ("Simplex", "ElasticNet")])
@given(data=st.data())
def test_no_coordinates(backend, kind, data):
    """Everything is 0 of nothing."""
    phi, x = data.draw(regularizers.instances(kind, 0)).make(backend), np.zeros((2, 0))
    assert phi.prox(x).shape == phi.prox_conjugate(x).shape == (2, 0)
    for values in (phi.value(x), phi.conjugate(x), phi.envelope(x)):
        assert np.array_equal(values, [0.0, 0.0])


def test_values_by_hand(backend):
    x, groups = [3.0, 4.0, -2.0], [[0, 1]]
    for phi, value in (
        (backend.L1(2.0), 18.0),
        (backend.HalfSquaredL2(2.0), 29.0),
        (backend.SquaredL1(2.0), 81.0),
        (backend.WeightedSquaredL1(2.0, [1.0, 0.0, 2.0]), 49.0),
        (backend.L21(2.0, groups, weights=[3.0]), 30.0),
        (backend.SquaredL21(2.0, groups), 25.0),
        (backend.SquaredL21(2.0, [[0, 1], [2]]), 49.0),
        (backend.SparseGroupLasso(1.0, groups, 2.0), 19.0),
        (backend.TreeGroupLasso([[0, 1, 2], [0, 1], [2]], [0.0, 1.0, 3.0]), 11.0),
        (backend.ElasticNetMKL(1.0, 2.0, groups), 34.0),
        (backend.NonSparseMKL(2.0, 3.0, groups), 125.0),
        (backend.Simplex(5.0), np.inf),
        (backend.L1Ball(9.0), 0.0),
        (backend.L2Ball(5.0), np.inf),
        (backend.L21Ball(5.0, groups), 0.0),
    ):
        np.testing.assert_allclose(phi.value(x), value, rtol=1e-15, err_msg=str(phi))


# sequences of proxes --------------------------------------------------------------------------------------------------


def test_inner_groups_come_first(backend):
    inner, outer = backend.L21(1.0, [[0, 1], [3]]), backend.L21(1.0, [[0, 1, 2], [3, 4]])
    l1 = backend.L1(0.5)
    for parts in ([l1, inner, outer], [inner, outer], [l1, l1], [inner, inner], [backend.L21(1.0, [[0], [2]]), l1]):
        assert backend.Sequential(parts).exact
    for parts, words in (
        ([outer, inner], r"group 0 of part 0 \(L21\) is neither inside nor outside group 0 of part 1 \(L21\)"),
        ([inner, l1], "group 0 of part 0 .* outside coordinate 0 of part 1 .L1."),
        ([l1, inner, backend.L21(1.0, [[1, 2]])], "group 0 of part 1 .* outside group 0 of part 2"),
        ([backend.L21(1.0, [[0, 7]]), inner], "group 0 of part 0 .* outside group 0 of part 1"),
        ([l1, backend.HalfSquaredL2(1.0)], r"part 1 \(HalfSquaredL2\) is not a norm of groups"),
        ([l1, backend.Sequential([outer, inner])], "part 1 .Sequential. is not a norm of groups"),
    ):
        phi = backend.Sequential(parts)
        assert not phi.exact
        for call in (phi.conjugate, phi.prox_conjugate, phi.envelope):
            with pytest.raises(ValueError, match=f"{call.__name__}: the sequence of proxes is not the prox .* {words}"):
                call(np.zeros(8))
        assert phi.value(np.ones(8)) == sum(part.value(np.ones(8)) for part in parts)


@given(data=st.data(), step=regularizers.STEPS)
def test_a_tree_is_the_sequence_of_its_levels(backend, data, step):
    x = data.draw(regularizers.points(4))
    tree = backend.TreeGroupLasso([[0, 1, 2, 3], [2, 3], [2], [0], [1], [3]], [0.5, 2.0, 1.0, 1.0, 1.0, 1.0])
    parts = [backend.L1(1.0), backend.L21(2.0, [[2, 3]]), backend.L21(0.5, [[0, 1, 2, 3]])]
    close(tree.prox(x, step), backend.Sequential(parts).prox(x, step))
    assert tree.exact and tree.conjugate(x) == backend.Sequential(parts).conjugate(x)


# powers of norms: roots in fifty digits to compare with ---------------------------------------------------------------


def root(n, half, q):
    """u > 0 with u + half q u^(q - 1) = n, by bisection in fifty digits; the left side increases in u."""
    with localcontext() as context:
        context.prec = 50
        n, c, power = Decimal(float(n)), Decimal(float(half)) * Decimal(float(q)), Decimal(float(q)) - 1
        low, high = (n.ln() - 3000), n.ln()  # of log u
        for _ in range(120):
            middle = (low + high) / 2
            above = middle.exp() + c * (power * middle).exp() > n
            low, high = (low, middle) if above else (middle, high)
        return float(low.exp())


@pytest.mark.parametrize("q", [1.1, 1.2, 1.5, 1.9, 2.0, 2.5, 3.0, 8.0])
def test_the_prox_is_the_root(backend, q):
    """One group at a time, so that no other keeps its iteration going; to a few eps of norm and logarithm."""
    rng = np.random.default_rng(int(10 * q))
    for _ in range(12):
        x, lam, s = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-3, 3), rng.uniform(0.5, 2)
        (u,) = backend.NonSparseMKL(lam, q, [[0]]).prox(np.array([x]), s)
        expected = root(x, 0.5 * lam * s, q)
        np.testing.assert_allclose(u, expected, rtol=2e-15 * (4 + abs(np.log(expected / x))), err_msg=f"{x} {lam} {s}")


def test_what_is_wrong_is_named(backend):
    check_refusals("wrong_regularizers.txt", {"np": np, "b": backend, "x": np.ones(3)})
