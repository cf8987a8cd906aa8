"""Printed forms of Martins et al. about proxes, each executed as printed and shown to be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.prox.test_prox import objective
from reference.identities import martins


def algorithm_2_as_printed(x, lam):
    y = np.sort(np.abs(x))[::-1]
    rho = max(j for j in range(1, len(y) + 1) if y[j - 1] - lam / (1 + j * lam) * y[:j].sum() > 0)
    tau = lam / (1 + rho * lam) * y[:rho].sum()
    return np.sign(x) * np.maximum(np.abs(x) - tau, 0)


def algorithm_4_as_printed(x, d, lam):
    with np.errstate(divide="ignore", invalid="ignore"):
        u, a = np.abs(x) / d, d**2
        order = np.argsort(-u)
        S, A = np.cumsum((a * u)[order]), np.cumsum(a[order])
        rho = np.flatnonzero(u[order] - lam / (1 + lam * A) * S > 0)[-1]
        return np.sign(x) * d * np.maximum(u - lam / (1 + lam * A[rho]) * S[rho], 0)


def test_proposition_1_needs_an_even_function(backend):
    """psi(u) = u, one group of one coordinate, x = 0.5: the reduction gives prox_psi(0.5) = -0.5; phi = |.| gives 0."""
    x = np.array([0.5])
    as_printed = (np.abs(x) - 1.0) * x / np.abs(x)
    phi = backend.L21(1.0, [[0]])
    assert phi.prox(x)[0] == 0.0 and as_printed[0] == -0.5
    assert objective(phi, phi.prox(x), x, 1.0) < objective(phi, as_printed, x, 1.0) - 0.1


def test_proposition_1_at_a_group_of_norm_zero(backend):
    x, groups = np.array([0.0, 0.0, 2.0]), [[0, 1], [2]]
    norms = np.array([0.0, 2.0])
    with np.errstate(invalid="ignore"):
        factors = backend.prox_squared_l1(norms, 1.0) / norms
    assert np.isnan(factors[0])
    np.testing.assert_allclose(backend.SquaredL21(1.0, groups).prox(x), [0.0, 0.0, 1.0])


def test_algorithm_2_is_undefined_at_zero(backend):
    with pytest.raises(ValueError, match=r"(empty|max\(\))"):
        algorithm_2_as_printed(np.zeros(3), 1.0)
    assert np.array_equal(backend.prox_squared_l1(np.zeros(3), 1.0), np.zeros(3))
    x = np.array([3.0, -1.0, 0.5, 0.0])
    np.testing.assert_allclose(backend.prox_squared_l1(x, 0.3), algorithm_2_as_printed(x, 0.3), atol=1e-15)


def test_algorithm_4_divides_by_weights_of_zero(backend):
    x, d = np.array([2.0, 5.0]), np.array([1.0, 0.0])
    with pytest.raises(IndexError):  # 5/0 comes first and 0 * inf is no number: every threshold is nan, there is no rho
        algorithm_4_as_printed(x, d, 1.0)
    np.testing.assert_allclose(backend.prox_weighted_squared_l1(x, d, 1.0), [1.0, 5.0])
    d = np.array([1.0, 2.0])
    np.testing.assert_allclose(
        backend.prox_weighted_squared_l1(x, d, 1.0), algorithm_4_as_printed(x, d, 1.0), atol=1e-15
    )


def test_algorithm_3_means_half_the_square(backend):
    """Line 8 writes prox of eta lam ||.||^2 and calls Algorithm 2 with eta lam, which is the prox of half of that."""
    x, half, whole = np.array([3.0, -1.0]), backend.SquaredL1(1.0), backend.SquaredL1(2.0)
    np.testing.assert_allclose(algorithm_2_as_printed(x, 1.0), [1.5, 0.0])
    np.testing.assert_allclose(half.prox(x), [1.5, 0.0])
    np.testing.assert_allclose(whole.prox(x), [1.0, 0.0])  # the prox of ||.||_1^2
    assert objective(whole, whole.prox(x), x, 1.0) < objective(whole, half.prox(x), x, 1.0) - 0.1


@pytest.mark.parametrize("q", [1.0, 1.5, 3.0])
def test_the_equation_of_non_sparse_mkl_has_half_the_factor(backend, q):
    """The root of the printed x - x0 + lam eta q x^(q-1) = 0 is beaten by the root with half the factor."""
    lam, x0 = 1.0, 2.0
    phi = backend.NonSparseMKL(lam, q, [[0]])
    (x,) = phi.prox([x0])
    np.testing.assert_allclose(x - x0 + 0.5 * lam * q * x ** (q - 1.0), 0.0, atol=1e-14)
    low, high = 0.0, x0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - x0 + lam * q * middle ** (q - 1.0) < 0 else (low, middle)
    there = np.array([x0])
    assert objective(phi, np.array([x]), there, 1.0) < objective(phi, np.array([low]), there, 1.0) - 1e-2


def test_non_sparse_mkl_at_q_1_is_a_soft_threshold(backend):
    """At x0 < lam eta the printed root x0 - lam eta is negative; the prox is 0."""
    x0, lam = 0.1, 1.0
    assert x0 - lam < 0
    assert np.array_equal(backend.NonSparseMKL(lam, 1.0, [[0]]).prox([x0]), [0.0])


def test_equation_34_sums_weighted_coordinates(backend):
    """One coordinate, d = 2, x0 = 1, lam = 1: sum u = 0.1, sum a u = 0.4, and the right side is 0.4."""
    d, x0, lam = np.array([2.0]), np.array([1.0]), 1.0
    x = backend.prox_weighted_squared_l1(x0, d, lam)
    a, u, u0 = d**2, np.abs(x) / d, np.abs(x0) / d
    right = np.sum(a * u0) / (1 + lam * np.sum(a))
    np.testing.assert_allclose([np.sum(u), np.sum(a * u), right], [0.1, 0.4, 0.4])
    np.testing.assert_allclose(martins.equation_34(d, x0, x, lam), 0.0, atol=1e-15)


def test_equation_37_divides_the_multiplier_by_its_weight(backend):
    """At a coordinate that vanishes, -u0 + lam sum a u = xi / a with xi the multiplier of u >= 0; printed: xi."""
    d, x0, lam = np.array([1.0, 2.0]), np.array([3.0, 0.1]), 1.0
    x = backend.prox_weighted_squared_l1(x0, d, lam)
    a, u, u0 = d**2, np.abs(x) / d, np.abs(x0) / d
    assert x[1] == 0
    xi = a * (u - u0) + lam * np.sum(a * u) * a  # equation (32)
    left = -u0[1] + lam * np.sum(a * u)
    np.testing.assert_allclose(left, xi[1] / a[1])
    assert abs(left - xi[1]) > 0.1


def test_lemma_10_needs_the_term_that_the_print_lacks():
    """Equal weights: the printed change of the objective is 0 and contradicts nothing; the true one is negative."""
    a, u0_j, u0_k, eps = 1.0, 1.0, 2.0, 0.5
    as_printed = eps**2 * (a**2 / a - a)
    true = a * (u0_j**2 - (eps - u0_j) ** 2) + a * ((eps - u0_k) ** 2 - u0_k**2)
    assert as_printed == 0 and true == -1.0
    assert martins.lemma_10_exchange(a, a, u0_j, u0_k, eps) == 0


def test_the_order_of_the_proxes_matters(backend):
    """ "Two proximal steps": l1 first is the prox of the sum; the group first is not, nor are groups that cross."""
    x, groups = np.array([2.0, 1.5, 1.5]), [[0, 1, 2]]
    l1, l21 = backend.L1(1.0), backend.L21(1.0, groups)
    right, wrong = backend.Sequential([l1, l21]), backend.Sequential([l21, l1])
    assert right.exact and not wrong.exact
    assert objective(right, right.prox(x), x, 1.0) < objective(right, wrong.prox(x), x, 1.0) - 1e-2
    crossing = backend.Sequential([backend.L21(1.0, [[0, 1]]), backend.L21(1.0, [[1, 2]])])
    better = np.array([1.09, 0.5, 0.69])
    assert objective(crossing, better, x, 1.0) < objective(crossing, crossing.prox(x), x, 1.0) - 1e-2
