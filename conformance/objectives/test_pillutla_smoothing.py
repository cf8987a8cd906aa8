"""Norms, smoothing and oracles against Pillutla et al., sections 1.2, 2.2, 2.3.2 and 3.2, appendix A."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance import strategies
from conformance.objectives.test_smoothing import projection
from conformance.tolerances import RELATIVE, close
from reference import bounds
from reference.arrays import host
from reference.identities import pillutla as law

SMOOTHERS = {"entropy": (1, law.negative_entropy), "l2": (2, law.centred_squared_l2)}
WIDTHS = {"entropy": bounds.entropy_width, "l2": bounds.squared_l2_width}


def smooth(backend, kind, z, mu):
    """Value and gradient of the smoothed max of host scores, by the library."""
    smoothing = {"entropy": backend.smoothings.Entropy, "l2": backend.smoothings.SquaredL2}[kind]()
    value, gradient = smoothing(backend.Table(z), mu)
    return float(value), np.asarray(gradient.values)


simplex_points = st.lists(st.integers(0, 4), min_size=6, max_size=6)


def simplex_point(weights, m):
    weights = np.array(weights[:m], dtype=np.float64)
    return weights / weights.sum() if weights.sum() else np.full(m, 1 / m)


# section 1.2 --------------------------------------------------------------------------------------------------------


@given(data=st.data(), alpha=st.sampled_from([1, 2]), scale=st.sampled_from([1.0, 1e-100, 1e100]))
def test_operator_norm_is_attained_and_never_exceeded(space, data, alpha, scale):
    m, d = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    A, stored, scale = space.scaled(data.draw(strategies.arrays((m, d), forbidden=False)), scale)
    x, y = data.draw(strategies.arrays((d,), False)), data.draw(strategies.arrays((m,), False))
    slack = space.get(law.operator_norm_slack(A, space.put(x), space.put(y), alpha))
    size = scale * max(1.0, np.abs(stored).max() / scale) * max(1, np.abs(x).max()) * max(1, np.abs(y).max())
    assert slack >= -20 * RELATIVE[space.dtype] * size
    norm = float(space.get(law.operator_norm(A, alpha)))
    left, singular, right = np.linalg.svd(stored)
    longest = np.argmax(np.linalg.norm(stored, axis=1))
    if alpha == 2:
        attained, x, y = singular[0], right[0], left[:, 0]
    else:
        attained, y = np.linalg.norm(stored[longest]), np.eye(m)[longest]
        x = stored[longest] / (attained if attained > 0 else 1.0)
    close(norm, attained, space.dtype, scale * 1e4)
    slack = space.get(law.operator_norm_slack(A, space.put(x), space.put(y), alpha))
    close(slack, 0.0, space.dtype, max(scale, 10 * attained))
    assert space.get(law.operator_norm(A, 2)) >= norm * (1 - RELATIVE[space.dtype])  # Remark 28


def test_the_second_quotient_divides_by_the_norm_of_x():
    """Equation (65) as printed divides ||A x|| by ||y||, which can be anything."""
    A, x, y = np.array([[3.0, 4.0]]), np.array([0.6, 0.8]), np.array([0.1])
    norm = float(law.operator_norm(A, 2))
    assert np.linalg.norm(A @ x) / np.linalg.norm(x) == pytest.approx(norm) == pytest.approx(5.0)
    assert np.linalg.norm(A @ x) / np.linalg.norm(y) > 9 * norm


# section 2.2: Definition 1, Propositions 2 and 39, Lemma 40 -----------------------------------------------------------


@given(data=st.data(), factor=st.sampled_from([0.125, 1.0, 8.0]), weights=simplex_points)
@pytest.mark.parametrize("kind", SMOOTHERS)
def test_the_smoothing_is_its_definition(backend, kind, data, factor, weights):
    """h(z) = max <u, z> - mu omega(u), at the gradient alone: elsewhere it is less by mu/2 ||u - grad||^2."""
    z = data.draw(strategies.scores()) * data.draw(st.sampled_from([1.0, 1e-300, 1e300]))
    size = max(np.abs(z).max(), 1e-300)
    mu = factor * max(size, 1e-300)
    alpha, omega = SMOOTHERS[kind]
    value, u = smooth(backend, kind, z, mu)
    close(law.fenchel_young_slack(value / mu, z / mu, u, 1.0, omega), 0.0, scale=10.0)
    close(u.sum(), 1.0)
    other = simplex_point(weights, len(z))
    slack = float(law.fenchel_young_slack(value / mu, z / mu, other, 1.0, omega))
    assert slack >= np.linalg.norm(u - other, alpha) ** 2 / 2 - 1e-8
    assert law.fenchel_young_slack(value / mu - 1e-3, z / mu, u, 1.0, omega) < -9e-4  # a value too low is seen


@given(data=st.data(), mus=st.tuples(st.sampled_from([0.0, 0.1, 1.0, 5.0]), st.sampled_from([0.0, 0.1, 1.0, 5.0])))
@pytest.mark.parametrize("kind", SMOOTHERS)
def test_smoothings_differ_by_at_most_their_width(backend, kind, data, mus):
    z = data.draw(strategies.scores())
    low, high = sorted(mus)
    values = [smooth(backend, kind, z, mu)[0] if mu > 0 else z.max() for mu in (high, low)]
    D = WIDTHS[kind](len(z))
    lower, upper = law.width_slacks(*values, high, low, lowest=-D)
    assert min(lower, upper) >= -1e-9 * max(1, np.abs(z).max())
    if low < high:
        too_low, _ = law.width_slacks(high * D + z.max() + 1e-3, z.max(), high, 0.0, lowest=-D)
        assert too_low < 0


@pytest.mark.parametrize("kind", SMOOTHERS)
@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_width_is_attained_at_ties(backend, kind, m):
    """D can be no smaller: where all scores tie, h_mu = max + mu D; it is -omega of the uniform point, none is more."""
    z, mu = np.full(m, 3.0), 2.0
    lower, _ = law.width_slacks(smooth(backend, kind, z, mu)[0], 3.0, mu, 0.0, lowest=-WIDTHS[kind](m))
    close(lower, 0.0, scale=3.0)
    omega = SMOOTHERS[kind][1]
    close(-omega(np.full(m, 1 / m)), WIDTHS[kind](m))
    others = np.random.default_rng(0).dirichlet(np.ones(m), size=50)
    assert np.all(-omega(others) <= WIDTHS[kind](m) + 1e-12) and np.all(omega(others) <= 1e-12)
    close(omega(np.eye(m)), np.zeros(m))


def test_the_uncentred_squared_norm_does_not_lie_below_zero(backend):
    """Section 7.3 prints omega = ||u||^2/2: but Theorem 16 needs omega <= 0; this smoothed max lies below the max."""
    z, mu = np.array([1.0, 0.0]), 0.5
    value, u = smooth(backend, "l2", z, mu)
    printed = float(z @ u - mu / 2 * (u @ u))
    assert (
        law.width_slacks(value, 1.0, mu, 0.0, lowest=-0.25)[1]
        >= 0
        > law.width_slacks(printed, 1.0, mu, 0.0, lowest=-0.25)[1]
    )
    close(value - printed, mu / 2)


@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]), step=st.sampled_from([1e-3, 0.3, 10.0]))
@pytest.mark.parametrize("kind", SMOOTHERS)
def test_gradients_are_lipschitz_and_values_lie_between_their_parabolas(backend, kind, data, mu, step):
    z = data.draw(strategies.scores())
    other = z + step * data.draw(strategies.arrays((len(z),), False))
    alpha, _ = SMOOTHERS[kind]
    (value, u), (other_value, other_u) = smooth(backend, kind, z, mu), smooth(backend, kind, other, mu)
    size = max(1.0, np.abs(z).max(), np.abs(other).max())
    assert law.lipschitz_slack(z, other, u, other_u, mu, alpha) >= -1e-9 * size
    above = float(law.subgradient_slack(value, u, z, other_value, other))
    dual = np.linalg.norm(other - z, 2 if alpha == 2 else np.inf)
    assert -1e-9 * size <= above <= dual**2 / (2 * mu) + 1e-9 * size


@pytest.mark.parametrize("kind", SMOOTHERS)
def test_the_lipschitz_constant_is_attained(backend, kind):
    """1/mu can be no smaller: two tied scores that part by a little."""
    mu, step = 2.0, 1e-4
    z, other = np.zeros(2), np.array([step, -step])
    u, other_u = smooth(backend, kind, z, mu)[1], smooth(backend, kind, other, mu)[1]
    alpha = SMOOTHERS[kind][0]
    assert 0 <= law.lipschitz_slack(z, other, u, other_u, mu, alpha) + 1e-15 < 1e-6 * step
    assert law.lipschitz_slack(z, other, u, other_u, 1.001 * mu, alpha) < -1e-4 * step


@given(data=st.data(), mu=st.sampled_from([0.2, 1.0, 5.0]))
@pytest.mark.parametrize("kind", SMOOTHERS)
def test_a_smoothing_of_an_affine_map_is_smooth(backend, kind, data, mu):
    """Lemma 40, and what is sharper: rows less a centre; for the entropy half the diameter of the rows."""
    m, d = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    entry = st.floats(-2, 2, width=32)
    A = np.array(data.draw(st.lists(entry, min_size=m * d, max_size=m * d))).reshape(m, d)
    b = data.draw(strategies.arrays((m,), False)) / 10
    w, other = (np.array(data.draw(st.lists(entry, min_size=d, max_size=d))) for _ in range(2))
    u, other_u = (smooth(backend, kind, A @ x + b, mu)[1] for x in (w, other))
    alpha = SMOOTHERS[kind][0]
    assert law.composition_slack(A, w, other, u, other_u, mu, alpha) >= -1e-8
    centred = A - A.mean(axis=0)
    constants = [bounds.smoothness(float(law.operator_norm(rows, alpha)), mu) for rows in (A, centred)]
    if kind == "entropy":
        constants.append(bounds.entropy_smoothness(float(law.row_diameter(A)), mu))
        assert constants[2] <= min(constants) + 1e-9
    moved = np.linalg.norm(A.T @ (u - other_u))
    assert all(moved <= L * np.linalg.norm(w - other) + 1e-8 for L in constants)


def test_the_diameter_constant_is_attained_and_the_row_norm_is_not(backend):
    """Rows a, -a at tied scores: the second derivative is ||2a||^2/(4 mu); of 0, 2a the row norm gives 4 times it."""
    mu, h = 0.5, 1e-5
    for A in (np.array([[1.0, 2.0], [-1.0, -2.0]]), np.array([[0.0, 0.0], [2.0, 4.0]])):
        direction = np.array([1.0, 2.0]) / np.sqrt(5)
        u, other_u = (smooth(backend, "entropy", A @ x, mu)[1] for x in (-h * direction, h * direction))
        moved = np.linalg.norm(A.T @ (u - other_u)) / (2 * h)
        close(moved, bounds.entropy_smoothness(float(law.row_diameter(A)), mu), scale=1e5)
    close(bounds.smoothness(float(law.operator_norm(A, 1)), mu), 4 * moved, scale=1e5)


# section 2.3.2: Propositions 3 and 4 ----------------------------------------------------------------------------------


@given(z=strategies.tables(), factor=st.sampled_from([0.125, 1.0, 8.0]), scale=st.sampled_from([1.0, 1e-300, 1e300]))
def test_the_projection_has_the_closed_form(space, z, factor, scale):
    """And the sparsity that (8) says, of each row of a batch."""
    z, stored, scale = space.scaled(z, scale)
    assume(np.all(stored.max(axis=-1) > -np.inf))
    mu = factor * scale
    k = law.sparsity(z, mu)
    found = np.atleast_2d(space.get(law.sparse_projection(z, mu, k)))
    for row, u, many in zip(np.atleast_2d(stored), found, np.atleast_1d(space.get(k)), strict=True):
        allowed = row > -np.inf
        expected = np.zeros(len(row))
        expected[allowed] = projection(row[allowed] / mu)
        close(u, expected, space.dtype, max(1.0, np.abs(row[allowed]).max() / mu))
        left, right = law.sparsity_slacks(space.put(row), mu, int(many))
        assert space.get(left) > 0 and space.get(right) >= 0


@given(z=st.lists(st.integers(-3, 3), min_size=1, max_size=5), mu=st.integers(1, 6))
def test_sparsity_is_exact(z, mu):
    """In fractions: k non-zeros if and only if (8), ties and equality included; and the closed form."""
    u = projection([Fraction(x, mu) for x in z])
    k = sum(x > 0 for x in u)
    assert int(law.sparsity(z, mu)) == k
    for j in range(1, len(z) + 1):
        left, right = law.sparsity_slacks(z, mu, j)
        assert (left > 0 and right >= 0) == (j == k)
    close(law.sparse_projection(z, mu, np.array(k)), [float(x) for x in u])
    close(projection([x / mu for x in z]), [float(x) for x in u])  # and a yardstick in floats is one


def test_scores_in_non_decreasing_order_have_another_sparsity():
    """Proposition 3 prints non-decreasing order: (8) then holds at k = 2 for (0, 1), mu = 1/2, projected to (0, 1)."""
    z, mu = np.array([0.0, 1.0]), 0.5
    as_printed = [k for k in (1, 2) if sum(z[:k] - z[k - 1]) < mu <= sum(z[:k] - [*z, -np.inf][k])]
    assert as_printed == [2]
    assert int(law.sparsity(z, mu)) == 1 and projection(z / mu).tolist() == [0.0, 1.0]


@given(z=st.lists(st.integers(-3, 3), min_size=1, max_size=5), mu=st.integers(1, 6), K=st.integers(1, 6))
def test_top_k_is_exact_exactly_where_the_slack_allows(backend, z, mu, K):
    """Proposition 4, both ways: value and gradient in fractions, and the library's; and its second part."""
    u = projection([Fraction(x, mu) for x in z])
    best = sorted(range(len(z)), key=lambda i: -z[i])[:K]
    kept = projection([Fraction(z[i], mu) for i in best])

    def value(scores, v):
        return sum(a * b for a, b in zip(scores, v, strict=True)) - Fraction(mu, 2) * (sum(a * a for a in v) - 1)

    same_value = value(z, u) == value([z[i] for i in best], kept)
    same_gradient = list(u) == [kept[best.index(i)] if i in best else 0 for i in range(len(z))]
    slack = float(law.exactness_slack(z, mu, K))
    assert (same_value and same_gradient) == (slack >= 0) == same_value
    table = backend.Table(np.array(z, dtype=np.float64))
    (value_K, _), (value_all, _) = (
        backend.smoothings.TopK(K)(table, float(mu)),
        backend.smoothings.SquaredL2()(table, float(mu)),
    )
    assert (abs(float(value_all) - float(value_K)) < 1e-9) == (slack >= 0)
    if len(z) > K:
        ordered = sorted(z, reverse=True)
        assert slack >= 0 or mu > ordered[0] - ordered[K]
    else:
        assert slack == np.inf


# section 3.2: the oracles ---------------------------------------------------------------------------------------------


def test_the_top_k_oracle_as_printed(backend):
    """At psi = (1, 0), mu = 10: Lemma 7 (iii) prints the projection of psi, (1, 0), for the gradient (.55, .45);
    Algorithm 6, line 4, prints sum_k u_k psi(y_k) = .55 for the value 3.025."""
    psi, gradients = np.array([1.0, 0.0]), np.eye(2)
    value, parts = backend.smoothings.TopK(2)(backend.Table(psi), 10.0)
    v = parts.values
    close(v, [0.55, 0.45])
    close(value, 3.025)
    for residual in law.top_k_residuals(value, v, psi, gradients, 10.0):
        close(residual, np.zeros_like(residual))
    assert projection(psi).tolist() == [1.0, 0.0]
    assert np.abs(law.top_k_residuals(value, projection(psi) @ gradients, psi, gradients, 10.0)[1]).max() > 0.4
    close(v @ psi, 0.55)
    assert abs(float(law.top_k_residuals(v @ psi, v, psi, gradients, 10.0)[0])) > 2.4


def test_oracle_laws_hold_in_every_namespace(space, rng):
    """The residuals are computed where the arrays live, with forbidden outputs."""
    put, mu = space.put, 0.5
    psi = np.array([1.0, -np.inf, 0.5, 0.5]).astype(space.dtype)
    gradients = rng.normal(size=(4, 3)).astype(space.dtype)
    p = np.exp((psi.astype(np.float64) - 1.0) / mu)
    value = 1.0 + mu * np.log(p.sum())
    zero = law.exp_oracle_residuals(put(value), put(p / p.sum() @ gradients), put(psi), put(gradients), mu)
    off, _ = law.exp_oracle_residuals(put(value + 0.1), put(p / p.sum() @ gradients), put(psi), put(gradients), mu)
    assert space.get(off) > 0.05
    u, finite = projection([2.0, 1.0, 1.0]), [0, 2, 3]
    value = u @ psi[finite] + mu / 2 * (1 - u @ u)
    zero += law.top_k_residuals(put(value), put(u @ gradients[finite]), put(psi), put(gradients), mu)
    w, other, half = put([0.0, 1.0]), put([0.0, 2.0]), put([0.5, 0.5])
    zero += (
        law.fenchel_young_slack(put(value), put(psi[finite]), put(u), mu, law.centred_squared_l2),
        law.lipschitz_slack(w, other, half, half, mu, 1) - 1,
        law.composition_slack(put(np.eye(2)), w, other, half, half, 1.0, 2) - 1,
    )
    for residual in zero:
        close(space.get(residual), np.zeros(residual.shape), space.dtype)
    assert host(law.row_diameter(space.put([[0.0, 0.0], [3.0, 4.0]]))) == pytest.approx(5.0)
