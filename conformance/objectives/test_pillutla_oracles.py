"""Sparse projections and the oracles of a smoothed max against what Pillutla et al. prove of them: sections 2.3.2
and 3.2.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from conformance.specimens.structures import chains
from conformance.tolerances import close
from reference.arrays import host
from reference.identities import pillutla as law


def supports(m):
    return (list(s) for r in range(1, m + 1) for s in itertools.combinations(range(m), r))


def projection(x):
    """The projection onto the simplex by trying every support; exact for fractions, which need no tolerance."""
    best = None
    for s in supports(len(x)):
        u = [0 * x[0]] * len(x)
        for i in s:
            u[i] = x[i] + (1 - sum(x[j] for j in s)) / len(s)
        if min(u) >= 0:
            distance = sum((a - b) ** 2 for a, b in zip(u, x, strict=True))
            best = min(best, (distance, u)) if best else (distance, u)
    return best[1]


# section 2.3.2: Propositions 3 and 4 ----------------------------------------------------------------------------------


@given(data=st.data(), factor=st.sampled_from([0.125, 1.0, 8.0]), scale=st.sampled_from([1.0, 1e-300, 1e300]))
def test_the_projection_has_the_closed_form(space, data, factor, scale):
    z, stored, scale = space.scaled(data.draw(strategies.scores(forbidden=True)), scale)
    if stored.max() == -np.inf:
        return
    mu = factor * scale
    k = law.sparsity(z, mu)
    u = space.get(law.sparse_projection(z, mu, k))
    allowed = stored > -np.inf
    expected = np.zeros(len(stored))
    expected[allowed] = projection(list(stored[allowed] / mu))
    close(u, expected, space.dtype, max(1.0, np.abs(stored[allowed]).max() / mu))
    left, right = law.sparsity_slacks(z, mu, int(k))
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


def test_sparsity_in_batches(space, rng):
    z = rng.normal(size=(2, 3, 4)).astype(space.dtype)
    k = law.sparsity(space.put(z), 0.7)
    u = space.get(law.sparse_projection(space.put(z), 0.7, k))
    close(u, [[projection(list(row.astype(np.float64) / 0.7)) for row in rows] for rows in z], space.dtype)


def test_scores_in_non_decreasing_order_have_another_sparsity():
    """Proposition 3 prints non-decreasing order: then (8) holds at k = 2 for z = (0, 1), mu = 1/2, whose projection
    is (0, 1).
    """
    z, mu = np.array([0.0, 1.0]), 0.5
    as_printed = [k for k in (1, 2) if sum(z[:k] - z[k - 1]) < mu <= sum(z[:k] - [*z, -np.inf][k])]
    assert as_printed == [2]
    assert int(law.sparsity(z, mu)) == 1 and projection(list(z / mu)) == [0.0, 1.0]


@given(z=st.lists(st.integers(-3, 3), min_size=1, max_size=5), mu=st.integers(1, 6), K=st.integers(1, 6))
def test_top_k_is_exact_exactly_where_the_slack_allows(backend, z, mu, K):
    """Proposition 4, both ways: value and gradient in fractions, and the library's; and its second part."""
    u = projection([Fraction(x, mu) for x in z])
    best = sorted(range(len(z)), key=lambda i: -z[i])[:K]
    kept = projection([Fraction(z[i], mu) for i in best])

    def value(scores, v):
        return sum(a * b for a, b in zip(scores, v, strict=True)) - Fraction(mu, 2) * (sum(a * a for a in v) - 1)

    same_value = value(z, u) == value([z[i] for i in best], kept)
    same_gradient = u == [kept[best.index(i)] if i in best else 0 for i in range(len(z))]
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


def listed(structure):
    """Scores and parts of every output, as arrays (m,) and (m, d)."""
    outputs = list(structure.enumerate())
    psi = np.array([float(structure.score(y)) for y in outputs])
    return psi, np.array([flat(structure.parts(y)) for y in outputs])


def flat(parts):
    return np.concatenate([np.asarray(x).ravel() for x in (parts.unary, parts.pairwise)])


@given(data=st.data(), mu=st.sampled_from([0.2, 1.0, 5.0]))
def test_max_and_exp_oracles_of_a_chain(backend, data, mu):
    """Lemma 7 (i) and (ii), Proposition 9: the weights are the scores themselves."""
    instance = data.draw(chains(forbidden=False, batched=False))
    chain = backend.Chain(instance.unary, instance.pairwise)
    moved = instance._replace(
        unary=instance.unary + data.draw(strategies.arrays(instance.unary.shape, False)),
        pairwise=instance.pairwise - data.draw(strategies.arrays(instance.pairwise.shape, False)),
    )
    other = backend.Chain(moved.unary, moved.pairwise)
    w, other_w = flat(chain.scores), flat(other.scores)
    size = max(1.0, np.abs(w).max(initial=0.0), np.abs(other_w).max(initial=0.0))
    for smoothing, level in ((backend.smoothings.Max(), 0.0), (backend.smoothings.Entropy(), mu)):
        value, v = smoothing(chain, level)
        other_value, _ = smoothing(other, level)
        assert law.subgradient_slack(value, flat(v), w, other_value, other_w) >= -1e-8 * size
    psi, parts = listed(chain)
    value_residual, gradient_residual = law.exp_oracle_residuals(value, flat(v), psi, parts, mu)
    close(value_residual, 0.0, scale=size)
    close(gradient_residual, np.zeros(len(w)), scale=10 * size)
    wrong = law.exp_oracle_residuals(float(value) + 0.1 * size, flat(v), psi, parts, mu)
    assert wrong[0] > 0.05 * size


def top_k_oracle(backend, A, b, w, mu, K):
    """The library's value and gradient of listed outputs with scores A w + b; the K best scores and their gradients."""
    psi = A @ w + b
    value, parts = backend.smoothings.TopK(K)(backend.Table(psi), mu)
    best = np.argsort(-psi, kind="stable")[:K]
    return float(value), np.asarray(parts.values) @ A, psi[best], A[best]


@pytest.mark.parametrize("K", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("mu", [0.3, 3.0])
def test_the_top_k_oracle_is_its_definition(backend, rng, K, mu):
    for _ in range(10):
        A, b, w = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3)
        value, v, psi, gradients = top_k_oracle(backend, A, b, w, mu, K)
        value_residual, gradient_residual = law.top_k_residuals(value, v, psi, gradients, mu)
        close(value_residual, 0.0)
        close(gradient_residual, np.zeros(3))
        assert np.abs(law.top_k_residuals(value, v + 1e-3, psi, gradients, mu)[1]).min() > 9e-4
        u = np.array(projection(list(psi / mu)))
        close(value, u @ psi + mu / 2 * (1 - u @ u))
        if np.diff(np.sort(A @ w + b)).min() > 1e-3:  # the K best do not change within h
            h = 1e-6
            ahead, behind = ([top_k_oracle(backend, A, b, w + s * e, mu, K)[0] for e in np.eye(3)] for s in (h, -h))
            np.testing.assert_allclose(v, np.subtract(ahead, behind) / (2 * h), atol=1e-5)


def test_the_projection_of_the_scores_themselves_is_not_the_gradient(backend):
    """Lemma 7 (iii) prints the projection of psi: psi = (1, 0), mu = 10 gives (1, 0), the gradient is (.55, .45)."""
    value, v, psi, gradients = top_k_oracle(backend, np.eye(2), np.zeros(2), np.array([1.0, 0.0]), 10.0, 2)
    close(v, [0.55, 0.45])
    close(law.top_k_residuals(value, v, psi, gradients, 10.0)[1], np.zeros(2))
    as_printed = np.array(projection(list(psi)))
    assert as_printed.tolist() == [1.0, 0.0]
    assert np.abs(law.top_k_residuals(value, as_printed @ gradients, psi, gradients, 10.0)[1]).max() > 0.4


def test_the_weighted_score_is_not_the_value_of_the_top_k_oracle(backend):
    """Algorithm 6, line 4, prints sum_k u_k psi(y_k): .55 for psi = (1, 0), mu = 10, whose smoothed max is 3.025."""
    value, v, psi, gradients = top_k_oracle(backend, np.eye(2), np.zeros(2), np.array([1.0, 0.0]), 10.0, 2)
    close(value, 3.025)
    close(law.top_k_residuals(value, v, psi, gradients, 10.0)[0], 0.0)
    as_printed = float(v @ psi)
    close(as_printed, 0.55)
    assert abs(float(law.top_k_residuals(as_printed, v, psi, gradients, 10.0)[0])) > 2.4


def test_oracle_laws_hold_in_every_namespace(space, rng):
    """The residuals are computed where the arrays live, with forbidden outputs."""
    put, mu = space.put, 0.5
    psi = np.array([1.0, -np.inf, 0.5, 0.5]).astype(space.dtype)
    gradients = rng.normal(size=(4, 3)).astype(space.dtype)
    p = np.exp((psi.astype(np.float64) - 1.0) / mu)
    value = 1.0 + mu * np.log(p.sum())
    zero = law.exp_oracle_residuals(put(value), put(p / p.sum() @ gradients), put(psi), put(gradients), mu)
    u, finite = np.array(projection([2.0, 1.0, 1.0])), [0, 2, 3]
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: law.sparsity_slacks([1.0, 2.0], 1.0, 3), "k: expected a number of non-zeros in 1..2, got 3"),
        (lambda: law.exactness_slack([1.0], 1.0, 0), "K: expected an integer >= 1, got 0"),
        (
            lambda: law.width_slacks(1.0, 1.0, 1.0, 2.0, lowest=-1.0),
            "mu_1, mu_2: expected mu_1 >= mu_2 >= 0, got 1.0 and 2.0",
        ),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
