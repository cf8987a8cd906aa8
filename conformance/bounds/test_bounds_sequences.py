"""Sequences of the Casimir algorithm, alpha_k, beta_k and their products, against their definitions in hundreds of
digits and each other.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.tolerances import close
from reference import bounds
from reference.bounds.casimir import GOLDEN
from reference.identities import pillutla as law

LAMS = [0.0, 1e-300, 1e-12, 1e-3, 1.0, 1e3, 1e300]


@st.composite
def steps(draw):
    """(alpha_{k-1}, lam, kappa_k, kappa_{k+1}) that Lemma 21 admits."""
    lam = draw(st.sampled_from(LAMS))
    kappa = draw(st.floats(1e-3, 1e3)) * (lam if lam else draw(st.sampled_from([1e-300, 1.0, 1e290])))
    kappa_next = kappa * draw(st.one_of(st.just(1.0), st.floats(1.0, 1e4)))
    least = sqrt(lam / (lam + kappa))
    share = draw(st.one_of(st.sampled_from([0.0, 1e-12, 1e-3]), st.floats(0.01, 0.99)))
    alpha = least + share * (1 - least) if least > 0 else max(share, 1e-200)
    return min(alpha, 1 - 1e-9), lam, kappa, kappa_next


def exact_alpha(alpha, lam, kappa, kappa_next):
    """The root of (27) in 700 digits, as (74) prints it."""
    with localcontext() as context:
        context.prec = 700
        a, lam, kappa, kappa_next = (Decimal(x) for x in (alpha, lam, kappa, kappa_next))
        c, d = (lam + kappa) / (lam + kappa_next), lam / (lam + kappa_next)
        b = c * a * a - d
        return ((b * b + 4 * c * a * a).sqrt() - b) / 2


@given(step=steps())
def test_next_alpha_is_the_positive_root(step):
    alpha = bounds.next_alpha(*step)
    np.testing.assert_allclose(alpha, float(exact_alpha(*step)), rtol=4e-15)
    assert abs(law.alpha_residual(step[0], alpha, *step[1:])) <= 1e-15
    assert abs(law.alpha_residual(step[0], alpha * 1.01, *step[1:])) >= 1e-3 * alpha**2  # another number is no root
    decrease, excess = law.alpha_slacks(step[0], alpha, step[1], step[3])
    assert decrease >= -4e-15 * alpha and excess >= -1e-15  # Lemma 21


def test_alpha_below_the_condition_can_grow():
    """Lemma 21 needs alpha_0^2 >= lam/(lam + kappa_1): from below, the sequence rises towards sqrt(q)."""
    alpha = bounds.next_alpha(0.1, 1.0, 1.0, 1.0)
    assert 0.1 < alpha < sqrt(0.5)
    np.testing.assert_allclose(alpha, float(exact_alpha(0.1, 1.0, 1.0, 1.0)), rtol=4e-15)


@given(step=steps())
def test_momentum_is_equation_29(step):
    alpha, lam, kappa, kappa_next = step
    alpha_next = bounds.next_alpha(*step)
    with localcontext() as context:
        context.prec = 700
        a, b, lam_, k, k_next = (Decimal(x) for x in (alpha, alpha_next, lam, kappa, kappa_next))
        expected = a * (1 - a) * (k + lam_) / (a * a * (k + lam_) + b * (k_next + lam_))
    beta = bounds.momentum(alpha, alpha_next, lam, kappa, kappa_next)
    np.testing.assert_allclose(beta, float(expected), rtol=1e-14)
    assert 0 <= beta <= 1


@given(step=steps())
def test_the_auxiliary_sequences_fit_together(step):
    """Claim 23, and (48), (50) of the proof of Lemma 25; a wrong alpha is seen."""
    alpha, lam, kappa, kappa_next = step
    assume(alpha > 1e-50 and kappa > 1e-100)  # gamma is a square
    alpha_next = bounds.next_alpha(*step)
    for number, residual in law.auxiliary_residuals(alpha, alpha_next, lam, kappa, kappa_next).items():
        assert abs(residual) <= 1e-13, number
    if 0.01 < alpha < 0.9:
        wrong = law.auxiliary_residuals(alpha, 0.9 * alpha_next, lam, kappa, kappa_next)
        least = 1e-6 * min(1, alpha_next**2)
        assert abs(wrong["(38)"]) > least and abs(wrong["(39)"]) > least and abs(wrong["(48)"]) > least


@pytest.mark.parametrize("q", [0.01, 0.25, 0.9])
def test_sqrt_q_is_a_fixed_point(q):
    """alpha_0 = sqrt(q) stays, and beta = (1 - sqrt(q))/(1 + sqrt(q)), Nesterov's momentum."""
    alpha = sqrt(q)
    close(bounds.next_alpha(alpha, q, 1 - q, 1 - q), alpha)
    close(bounds.momentum(alpha, alpha, q, 1 - q, 1 - q), (1 - alpha) / (1 + alpha))


def sequence(kappa_k, n, lam=0.0, alpha=GOLDEN):
    """alpha_0..alpha_n and the products A_k = prod_{j<=k} (1 - alpha_j)."""
    alphas = [alpha]
    for k in range(1, n + 1):
        alphas.append(bounds.next_alpha(alphas[-1], lam, kappa_k(k), kappa_k(k + 1)))
    return np.array(alphas), np.cumprod(1 - np.array(alphas))


def test_the_sequence_of_constant_kappa():
    alphas, products = sequence(lambda k: 2.5, 5000)
    for k, (alpha, product) in enumerate(zip(alphas, products, strict=True)):
        *slacks, residual = law.constant_kappa_slacks(k, alpha, product)
        assert min(slacks) >= -1e-15 and abs(residual) <= 1e-13 * product * (k + 1)
    assert min(law.constant_kappa_slacks(50, alphas[40], products[50])) < 0
    assert min(law.constant_kappa_slacks(50, alphas[50], products[40])) < 0


def test_the_sequence_of_growing_kappa():
    alphas, products = sequence(lambda k: 2.5 * k, 5000)
    for k, (alpha, product) in enumerate(zip(alphas, products, strict=True)):
        *slacks, residual = law.growing_kappa_slacks(k, alpha, product)
        assert min(slacks) >= -1e-15 and abs(residual) <= 1e-13 * product * (k + 1)
    assert min(law.growing_kappa_slacks(50, alphas[50], products[40])) < 0
    assert min(law.growing_kappa_slacks(50, alphas[50], 0.2 * products[50])) < 0


def test_the_recursion_does_not_define_the_next_alpha():
    """Lemma 53 prints alpha_{k+1} as the root; read so, alpha_1 is the root at k = 0, which is 0, and A_1 = A_0 >
    1/3.
    """
    alpha_1, A_0 = 0.0, 1 - GOLDEN
    assert alpha_1**2 / (1 - alpha_1) == GOLDEN**2 * 0 / 1
    assert law.growing_kappa_slacks(1, alpha_1, A_0 * (1 - alpha_1))[1] < -0.04
    alphas, products = sequence(lambda k: 1.0 * k, 1)
    assert min(law.growing_kappa_slacks(1, alphas[1], products[1])[:2]) > 0


@given(accuracy=st.one_of(st.floats(1e-12, 50), st.sampled_from([1e-300, 1e300])), factor=st.floats(1, 100))
def test_log_rate(accuracy, factor):
    k = bounds.log_rate_iterations(accuracy) * factor
    assert k >= 1 and law.log_rate_slack(k, accuracy) >= 0


def test_log_rate_needs_its_factor_2():
    for accuracy in (1e-2, 1e-4, 1e-8):
        k = log(1 / accuracy) / accuracy
        assert log(k) / k > accuracy
        with pytest.raises(ValueError, match="k: expected k >="):
            law.log_rate_slack(k, accuracy)
