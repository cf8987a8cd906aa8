"""Regularizers against optimality, Fenchel's inequality and numerical minimisation (Martins et al., section 3.1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.specimens import regularizers
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
    """phi(u) >= phi(p) + <(x - p)/s, u - p> for all u: the certificate of optimality."""
    p, make = data.draw(regularizers.instances(kind))
    phi = make(backend)
    for x in (data.draw(regularizers.extreme_points(p)), data.draw(regularizers.points(p))):
        u0 = phi.prox(x, step)
        value, g = float(phi.value(u0)), (x - u0) / step
        assert np.isfinite(value)
        u = trials(phi, u0, x)
        size = 1.0 + abs(value) + np.abs(x).max() ** 2 + np.abs(u).max(axis=-1) ** 2
        assert np.all(phi.value(u) >= value + (u - u0) @ g - 1e-11 * size)


@every_kind
def test_a_direct_search_finds_nothing_better(backend, kind):
    minimize = pytest.importorskip("scipy.optimize").minimize

    @settings(max_examples=6)
    @given(data=st.data(), step=regularizers.STEPS)
    def search(data, step):
        p, make = data.draw(regularizers.instances(kind).filter(lambda instance: instance.p <= 3))
        phi, x = make(backend), data.draw(regularizers.points(p))
        best = phi.prox(x, step)

        def cost(u):
            return min(objective(phi, u, x, step), 1e9)

        found = minimize(cost, best + 0.1, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
        assert found.fun >= cost(best) - 1e-10 * (1 + cost(best))

    search()


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
@given(data=st.data(), step=regularizers.STEPS)
def test_the_envelope_is_the_least_value(backend, kind, data, step):
    p, make = data.draw(regularizers.instances(kind))
    phi, x = make(backend), data.draw(regularizers.points(p))
    least = objective(phi, phi.prox(x, step), x, step)
    np.testing.assert_allclose(float(phi.envelope(x, step)) * step, least, atol=1e-10, rtol=1e-12)


@every_kind
@settings(max_examples=8)
@given(data=st.data(), step=regularizers.STEPS)
def test_a_batch_is_its_rows_in_every_namespace(backend, space, kind, data, step):
    p, make = data.draw(regularizers.instances(kind))
    phi, x = make(backend), data.draw(regularizers.points(p, 2, 2)).astype(space.dtype)
    for method, arguments in (
        ("value", ()),
        ("prox", (step,)),
        ("conjugate", ()),
        ("prox_conjugate", (step,)),
        ("envelope", (step,)),
    ):
        got = space.get(getattr(phi, method)(space.put(x), *arguments))
        rows = [getattr(phi, method)(row, *arguments) for row in x.reshape(4, p)]
        assert got.dtype == space.dtype and got.shape[:2] == (2, 2)
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


@pytest.mark.parametrize("crossing", [False, True])
def test_outer_groups_first_are_no_prox_of_the_sum(backend, crossing):
    """The other order, and groups that cross, miss the minimum by a clear margin."""
    parts = [backend.L21(1.0, [[0, 1]]), backend.L21(1.0, [[1, 2]]) if crossing else backend.L1(1.0)]
    x = np.array([2.0, 1.5, 1.5])
    phi = backend.Sequential(parts)
    minimize = pytest.importorskip("scipy.optimize").minimize
    best = minimize(lambda u: objective(phi, u, x, 1.0), phi.prox(x), method="Nelder-Mead").fun
    assert not phi.exact and objective(phi, phi.prox(x), x, 1.0) > best + 1e-2


@given(data=st.data(), step=regularizers.STEPS)
def test_a_tree_is_the_sequence_of_its_levels(backend, data, step):
    x = data.draw(regularizers.points(4))
    tree = backend.TreeGroupLasso([[0, 1, 2, 3], [2, 3], [2], [0], [1], [3]], [0.5, 2.0, 1.0, 1.0, 1.0, 1.0])
    parts = [backend.L1(1.0), backend.L21(2.0, [[2, 3]]), backend.L21(0.5, [[0, 1, 2, 3]])]
    close(tree.prox(x, step), backend.Sequential(parts).prox(x, step))
    assert tree.exact and tree.conjugate(x) == backend.Sequential(parts).conjugate(x)


def test_bad_input_names_the_argument(backend):
    x = np.ones(3)
    for make, error, words in (
        (lambda: backend.L1(-1.0), ValueError, "tau: expected a finite number >= 0, got -1.0"),
        (lambda: backend.L1("a"), TypeError, "tau: expected a number, got str"),
        (lambda: backend.HalfSquaredL2(np.inf), ValueError, "lam: expected a finite number >= 0, got inf"),
        (lambda: backend.Simplex(0.0), ValueError, "radius: expected a finite number > 0, got 0.0"),
        (lambda: backend.NonSparseMKL(1.0, 0.5, [[0]]), ValueError, "q: expected a finite number >= 1, got 0.5"),
        (lambda: backend.L2Ball(np.nan), ValueError, "radius: expected a finite number >= 0, got nan"),
        (lambda: backend.WeightedSquaredL1(1.0, [-1.0]), ValueError, "weights: expected a vector of finite numbers"),
        (lambda: backend.WeightedSquaredL1(1.0, [1.0]).prox(x), ValueError, "x: expected 1 coordinates"),
        (lambda: backend.L21(1.0, [[0]], weights=[1.0, 2.0]), ValueError, "weights: expected 1 numbers, one a group"),
        (lambda: backend.L21(1.0, [[0, 1], [1, 2]]), ValueError, "coordinate 1 in group 0 and in group 1"),
        (lambda: backend.L21(1.0, [[0, 0]]), ValueError, "coordinate 0 in group 0 and in group 0"),
        (lambda: backend.L21(1.0, [[-1]]), ValueError, "groups: expected coordinates >= 0, got -1"),
        (lambda: backend.L21(1.0, [[0.5]]), TypeError, "groups: expected index arrays, got float64"),
        (lambda: backend.L21(1.0, np.array([0.0])), TypeError, "groups: expected integer group numbers, got float64"),
        (lambda: backend.L21(1.0, np.array([-2])), ValueError, "groups: expected group numbers >= 0, or -1"),
        (lambda: backend.L21(1.0, 3), TypeError, "groups: expected a sequence of index arrays"),
        (lambda: backend.L21(1.0, [[3]]).prox(x), ValueError, "x: expected at least 4 coordinates .* got 3"),
        (lambda: backend.L21(1.0, np.zeros(4, int)).value(x), ValueError, "x: expected 4 coordinates .* got 3"),
        (lambda: backend.TreeGroupLasso([[0, 1], [1, 2]]), ValueError, "groups 0 and 1 cross"),
        (lambda: backend.TreeGroupLasso([[0]], [1.0, 1.0]), ValueError, "weights: expected 1 numbers, one a group"),
        (lambda: backend.Sequential([]), ValueError, "parts: expected at least one regularizer"),
        (
            lambda: backend.Sequential([backend.L1(1.0), 2.0]),
            TypeError,
            r"parts\[1\]: expected a Regularizer .* got 2.0",
        ),
        (lambda: backend.Sequential([backend.L1]), TypeError, r"parts\[0\]: expected a Regularizer"),
        (lambda: backend.Sequential(backend.L1(1.0)), TypeError, "parts: expected a sequence of regularizers, got L1"),
        (lambda: backend.Sequential(None), TypeError, "parts: expected a sequence of regularizers, got None"),
        (lambda: backend.ElasticNet(1.0, 1.0), TypeError, "part: expected a Regularizer .* got 1.0"),
        (lambda: backend.ElasticNet(backend.L1, 1.0), TypeError, "part: expected a Regularizer"),
        (lambda: backend.L1(1.0).prox(x, 0.0), ValueError, "step_size: expected a finite number > 0, got 0.0"),
        (lambda: backend.L1(1.0).value([np.nan]), ValueError, "x: expected finite numbers, got nan at index .0,."),
        (lambda: backend.L1(1.0).conjugate([np.inf]), ValueError, "y: expected finite numbers, got inf"),
        (lambda: backend.L1(1.0).value(2.0), ValueError, r"x: expected shape \(..., p\), got \(\)"),
        (lambda: backend.L1(1.0).prox(x, out=np.zeros(2)), ValueError, r"out: expected ndarray of float64 and shape"),
        (lambda: backend.L1(1.0).prox(x, out=np.zeros(3, np.float32)), ValueError, "out: expected ndarray of float64"),
        (lambda: backend.L1(1.0).prox(x, out=[0.0] * 3), ValueError, "out: expected ndarray .* got list"),
        (lambda: backend.L1(1.0).prox(x, out=np.broadcast_to(0.0, 3)), TypeError, "out: .* cannot be written in place"),
        (lambda: backend.Simplex().value(np.zeros((2, 0))), ValueError, "x: expected at least one number along"),
        (lambda: backend.Simplex().conjugate([]), ValueError, "y: expected at least one number along"),
    ):
        with pytest.raises(error, match=words):
            make()
