"""The smoothed max: between its bounds, its own maximisation problem solved, gradients checked, exactness certified."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.specimens.outputs import listing
from conformance.specimens.structures import chains
from reference.identities import pillutla
from reference.smoothings import certified, top_k_weights

MUS = st.sampled_from([1e-3, 0.3, 1.0, 10.0, 1e6])


def projection(v):
    """Onto the simplex: the size of support that satisfies the optimality conditions. Exact for fractions."""
    order = sorted(v, reverse=True)
    for m in range(1, len(v) + 1):
        tau = (sum(order[:m]) - 1) / m
        if order[m - 1] > tau and (m == len(v) or order[m] <= tau):
            return np.array([max(x - tau, 0) for x in v])
    raise AssertionError("no support fits")


def smoothed_max(psi, mu):
    """max_u <psi, u> + mu/2 (1 - ||u||^2) by projection, from the definition."""
    finite = psi[psi > -np.inf]
    u = projection(finite / mu)
    return float(finite @ u + 0.5 * mu * (1 - u @ u)), u


@given(values=strategies.tables(), mu=MUS)
def test_squared_l2_is_its_definition(backend, space, values, mu):
    stored = np.atleast_2d(values.astype(space.dtype).astype(np.float64))
    table = backend.Table(space.put(values))
    if np.any(stored.max(axis=-1) == -np.inf):
        with pytest.raises(backend.InfeasibleError):
            table.smooth_max(backend.smoothings.SquaredL2(), mu)
        return
    value, gradient = table.smooth_max(backend.smoothings.SquaredL2(), mu)
    u = np.atleast_2d(space.get(gradient.values))
    tolerance = 1e-9 if space.dtype == "float64" else 1e-3
    for row, v, weights in zip(stored, np.atleast_1d(space.get(value)), u, strict=True):
        expected, support = smoothed_max(row, mu)
        scale = max(1.0, mu, float(np.abs(row[row > -np.inf]).max()))
        assert abs(v - expected) <= tolerance * scale
        assert np.all(weights[row == -np.inf] == 0) and abs(weights.sum() - 1) <= 1e-5
        np.testing.assert_allclose(weights[row > -np.inf], support, atol=tolerance * scale / min(1.0, mu))


@given(values=strategies.tables(), mu=MUS, k=st.integers(1, 7))
def test_top_k_smooths_the_k_best(backend, values, mu, k):
    """Lemma 7 (iii) and Algorithm 6 on the K largest numbers; between max and max + mu/2 (1 - 1/K). It is called exact
    only where it is that of all outputs, and where Proposition 4 holds with room to spare.
    """
    for row in np.atleast_2d(values):
        if row.max() == -np.inf:
            continue
        psi = np.sort(row[row > -np.inf])[::-1]
        best, size = psi[:k], max(mu, np.abs(psi).max())
        answer = backend.smoothings.TopK(k).smoothed(backend.Table(row), mu)
        value, u, scale = float(answer.value), answer.gradient.values, 1e-12 * max(mu, 1.0, np.abs(best).max())
        assert abs(value - smoothed_max(best, mu)[0]) <= scale
        assert -scale <= value - best[0] <= 0.5 * mu * (1 - 1 / len(best)) + scale
        assert np.all(u >= 0) and abs(u.sum() - 1) < 1e-12 and np.sum(u > 0) <= k
        outputs = np.argsort(-row, kind="stable")[: len(best)]
        off, gradient_off = pillutla.top_k_residuals(value, u, row[outputs], np.eye(len(row))[outputs], mu)
        assert abs(off) <= scale and np.all(np.abs(gradient_off) <= 1e-12 * max(1.0, size / mu))
        room = np.inf if len(psi) <= k else np.sum(psi[:k] - psi[k]) - mu
        assert bool(answer.exact) or room <= 1e-9 * size
        assert not bool(answer.exact) or abs(value - smoothed_max(row, mu)[0]) <= 1e-12 * size
        assert not bool(answer.exact) or room >= -1e-9 * size


def test_certificates_do_not_round_up():
    """Sums that reach mu only by rounding are not taken: integers where the exact answer is known."""
    psi = np.array([2.0**53, 2.0**53 - 1, 0.0])
    mu = float(psi[0] + psi[1])  # rounds to 2**54, the exact sum is 2**54 - 1
    assert int(psi[0]) + int(psi[1]) < int(mu)
    assert not bool(certified(psi, 2, mu))
    assert bool(certified(psi, 2, mu * (1 - 1e-14)))
    assert bool(certified(psi, 3, mu)) and bool(certified(np.array([1.0, -np.inf]), 1, 1e9))


def test_fixed_k_has_a_kink_where_ranks_tie(backend):
    """The left and right slopes of the top-1 smoothing differ at a tie: there is no gradient to be found."""
    value = lambda x: float(backend.smoothings.TopK(1).smoothed(backend.Table([x, 0.0]), 1.0).value)  # noqa: E731
    h = 1e-6
    assert (value(h) - value(0.0)) / h > 0.99 and abs(value(0.0) - value(-h)) / h < 0.01


@given(instance=chains(batched=False), mu=MUS, max_k=st.sampled_from([1, 3, 200]))
def test_growing_k_on_chains(backend, instance, mu, max_k):
    """Certified answers are the projection over all labellings; otherwise the answer is that of TopK(max_k)."""
    scores = listing("Chain", instance._asdict()).scores
    if scores.max() == -np.inf:
        return
    chain = backend.Chain(*instance)
    answer = backend.smoothings.SquaredL2(max_k).smoothed(chain, mu)
    size = max(1.0, mu, np.abs(scores[scores > -np.inf]).max())
    if bool(answer.exact):
        expected, _ = smoothed_max(scores, mu)
        assert abs(float(answer.value) - expected) <= 1e-9 * size
    else:
        fixed = backend.smoothings.TopK(max_k).smoothed(chain, mu)
        assert not bool(fixed.exact) and np.sum(scores > -np.inf) > max_k
        assert abs(float(answer.value) - float(fixed.value)) <= 1e-9 * size
    if max_k == 200:
        assert bool(answer.exact)


@pytest.mark.parametrize("max_k", range(1, 11))
def test_growing_k_stops_at_the_most(backend, max_k):
    """Eight tied labellings: K of them give mu/2 (1 - 1/K), certified only if K is all."""
    chain, mu, K = backend.Chain(np.zeros((3, 2)), np.zeros((2, 2))), 3.0, min(max_k, 8)
    answer = backend.smoothings.SquaredL2(max_k).smoothed(chain, mu)
    assert float(answer.value) == pytest.approx(mu / 2 * (1 - 1 / K), rel=1e-12)
    assert bool(answer.exact) == (max_k >= 8)


def test_weights_where_no_output_is_possible():
    """All 0, beside a row where one is: it has all the weight."""
    value, u = top_k_weights(np.array([[-np.inf, -np.inf], [2.0, -np.inf]]), 0.5)
    assert value.tolist() == [-np.inf, 2.0] and u.tolist() == [[0.0, 0.0], [1.0, 0.0]]


class Two(reference.Structure):
    """Two outputs of a user's structure, whose values are plain floats."""

    def best(self):
        return float(max(self.scores)), int(np.argmax(self.scores))

    def expectation(self, mu=1.0):
        value = float(mu * np.logaddexp(*self.scores / mu))
        return value, np.exp((self.scores - value) / mu)

    def parts(self, y):
        return np.eye(2)[y]


def test_the_max_and_the_entropy_are_certified_for_plain_numbers(backend):
    two = Two(np.array([1.0, 3.0]))
    assert backend.smoothings.Max().smoothed(two, 0).exact is True
    assert backend.smoothings.Entropy().smoothed(two, 0.5).exact is True
