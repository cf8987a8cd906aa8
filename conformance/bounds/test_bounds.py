"""What Theorem 16 and its corollaries promise as numbers, against each other and as printed; the sequences of the
Casimir algorithm against their definitions in hundreds of digits; what bounds refuse; regret.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.identities import measure, papers
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference import bounds
from reference.bounds.casimir import GOLDEN
from reference.identities import pillutla as law

LAWS = [law for laws in papers().values() for law in laws]
CHOICES = [bounds.Corollary17(q, 1 - q, 0.3) for q in (1e-8, 1e-2, 0.25, 0.5, 0.9, 0.999)]
CHOICES += [bounds.Corollary18(q, 1 - q, 0.3) for q in (1e-8, 1e-2, 0.25, 0.5, 0.9, 0.999)]
CHOICES += [bounds.Corollary19(kappa, 0.3) for kappa in (1e-3, 1.0, 1e3)]
CHOICES += [bounds.Corollary20(kappa, 0.3) for kappa in (1e-3, 1.0, 1e3)]
CHOICES += [
    bounds.Corollary17(1e-6, 1.0, 0.0),
    bounds.Corollary18(1e290, 1e295, 1e-300),
    bounds.Corollary20(1e-290, 1e290),
]


def as_printed(choice, k):
    """(30) with its products and sums: the factors of Delta_0 and of D."""
    alphas = [choice.alpha_0]
    for j in range(1, k + 1):
        alphas.append(bounds.next_alpha(alphas[-1], choice.lam, choice.kappa_k(j), choice.kappa_k(j + 1)))
    delta = [0.0] + [choice.delta_k(j) for j in range(1, k + 1)]
    mu = [2 * choice.mu_k(1)] + [choice.mu_k(j) for j in range(1, k + 1)]

    def A(i, j):
        return np.prod([1 - alphas[r] for r in range(i, j + 1)])

    def B(i, j):
        return np.prod([1 - delta[r] for r in range(i, j + 1)])

    terms = (A(j, k - 1) / B(j, k) * (mu[j - 1] - (1 - delta[j]) * mu[j]) for j in range(1, k + 1))
    return A(0, k - 1) / B(1, k), mu[k] + sum(terms)


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_the_recursion_is_the_theorem(choice):
    for k, rate in enumerate(itertools.islice(bounds.casimir_rates(choice), 12), 1):
        np.testing.assert_allclose(rate, as_printed(choice, k), rtol=1e-11)
        assert rate.bound(2.0, 3.0) == 2 * rate.start + 3 * rate.width


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_the_corollaries_follow_from_the_theorem(choice):
    """Coefficient by coefficient; with lam > 0 the distance is at most sqrt(2 gap/lam) by strong convexity."""
    gap, D = 0.7, 2.0
    far = sqrt(2 * gap / choice.lam) if choice.lam else 3.0
    for k, rate in enumerate(itertools.islice(bounds.casimir_rates(choice), 400), 1):
        for distance in (0.0, far):
            delta_0 = bounds.start_gap(choice, gap, distance)
            assert rate.bound(delta_0, 0.0) <= choice.bound(k, gap, distance, 0.0) * (1 + 1e-10)
            assert rate.bound(delta_0, D) <= choice.bound(k, gap, distance, D) * (1 + 1e-10)
        assert rate.bound(0.0, D) <= choice.bound(k, 0.0, 0.0, D) * (1 + 1e-10)


@pytest.mark.parametrize("q", [1e-8, 0.01, 0.25, 0.5, 0.9, 0.999])
def test_the_constant_of_corollary_17_is_2_less_sqrt_q(q):
    """Theorem 16 gives exactly (2 - sqrt q)/(1 - sqrt q) mu D for every k; the printed 3 - sqrt q is valid, and
    looser.
    """
    choice, s = bounds.Corollary17(q, 1 - q, 0.3), sqrt(q)
    for rate in itertools.islice(bounds.casimir_rates(choice), 100):
        np.testing.assert_allclose(rate.width, (2 - s) / (1 - s) * 0.3, rtol=1e-10)
        assert rate.width < (3 - s) / (1 - s) * 0.3
    close(choice.bound(5, 0.0, 0.0, 1.0), (2 - s) / (1 - s) * 0.3)
    np.testing.assert_allclose(choice.bound(5, 1.0, 0.0, 0.0), 2 * (1 - s / 2) ** 5, rtol=1e-12)


def test_corollaries_18_to_20_are_their_formulas():
    """Corollary 20 is larger at k = 1, where its logarithm is below 1, by the factor 1/log 2 of the paper."""
    s, eta = sqrt(0.2), 1 - sqrt(0.2) / 2
    expected = eta**3.5 * (2 * 0.7 + 0.3 * 2.0 / (1 - s) * (2 - s + s / (1 - sqrt(eta))))
    np.testing.assert_allclose(bounds.Corollary18(0.2, 0.8, 0.3).bound(7, 0.7, 0.0, 2.0), expected, rtol=1e-12)
    expected = 8 / 25 * (0.7 + 3.6) + 0.6 * (1 + 12 / 5 + 30 / 25)
    np.testing.assert_allclose(bounds.Corollary19(0.8, 0.3).bound(3, 0.7, 3.0, 2.0), expected, rtol=1e-12)
    for k, factor in ((1, 1 / 2), (2, log(3) / 3)):
        expected = factor * (2 * 0.7 + 9.0 + 27 * 0.3 * 2.0)
        np.testing.assert_allclose(bounds.Corollary20(1.0, 0.3).bound(k, 0.7, 3.0, 2.0), expected, rtol=1e-12)


def test_the_tables_print_an_accuracy_that_is_not_allowed():
    """Tables 3 and 4 print delta_k = k^-2, which is 1 at k = 1, where (30) divides by 1 - delta."""

    class Printed(bounds.Corollary19):
        def delta_k(self, k):
            return 1 / k**2

    with pytest.raises(ValueError, match=r"k = 1: expected delta in \[0, 1\).*got 1.0"):
        next(bounds.casimir_rates(Printed(1.0, 1.0)))

    class Low(bounds.Corollary17):
        alpha_0 = 0.1

    with pytest.raises(ValueError, match=r"alpha_0: expected alpha_0\^2 >= lam/\(lam \+ kappa_1\), got 0.1"):
        next(bounds.casimir_rates(Low(1.0, 1.0, 1.0)))


def test_start_gap_is_gamma_0():
    """gamma_0 = lam for Corollaries 17 and 18, kappa for 19 and 20."""
    for choice in (bounds.Corollary17(0.2, 0.7, 1.0), bounds.Corollary18(0.2, 0.7, 1.0)):
        close(bounds.start_gap(choice, 1.0, 3.0), 1.0 + 0.2 / 2 * 9)
    for choice in (bounds.Corollary19(0.7, 1.0), bounds.Corollary20(0.7, 1.0)):
        close(bounds.start_gap(choice, 1.0, 3.0), 1.0 + 0.7 / 2 * 9)


def test_iterations_reach_the_accuracy():
    choice, gap, D = bounds.Corollary17(0.01, 1.0, 1e-3), 5.0, 2.0
    floor = choice.bound(10**9, gap, 0.0, D)
    for accuracy in (1.01 * floor, 2 * floor, 1.0, 20.0):
        k = int(np.ceil(choice.iterations(accuracy, gap, D)))
        assert choice.bound(k, gap, 0.0, D) <= accuracy * (1 + 1e-12)
    assert choice.iterations(0.99 * floor, gap, D) == inf
    assert choice.iterations(100.0, gap, D) == choice.iterations(1.0, 0.0, D) == 0.0


def test_errors_name_the_argument():
    check_refusals("wrong_bounds.txt", {"bounds": bounds})


def test_widths_of_huge_output_sets():
    close(bounds.entropy_width(26**1000), 1000 * log(26))
    assert bounds.squared_l2_width(26**1000) == 0.5 and bounds.squared_l2_width(1) == bounds.entropy_width(1) == 0.0


# alpha_k, beta_k and their products -----------------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("kappa_k", "slacks_of"),
    [(lambda k: 2.5, law.constant_kappa_slacks), (lambda k: 2.5 * k, law.growing_kappa_slacks)],
    ids=["constant", "growing"],
)
def test_the_sequences_without_strong_convexity(kappa_k, slacks_of):
    alphas, products = sequence(kappa_k, 5000)
    for k, (alpha, product) in enumerate(zip(alphas, products, strict=True)):
        *slacks, residual = slacks_of(k, alpha, product)
        assert min(slacks) >= -1e-15 and abs(residual) <= 1e-13 * product * (k + 1)
    for product in (products[40], 0.2 * products[50]):
        assert min(slacks_of(50, alphas[50], product)) < 0
    assert slacks_of is law.growing_kappa_slacks or min(slacks_of(50, alphas[40], products[50])) < 0


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


def test_bounds_of_regret_are_their_formulas():
    """Martins et al., Lemma 4 and Proposition 5; that runs keep and attain them is in test_online_proximal."""
    T, G, diameter, sigma, gamma = 7, 3.0, 1.7, 0.3, 0.4
    close(bounds.regret_constant_step(T, gamma, G, diameter), gamma * T / 2 * G**2 + diameter**2 / (2 * gamma))
    close(bounds.regret_decaying_step(T, gamma, G, diameter), (diameter**2 / (2 * gamma) + G**2 * gamma) * sqrt(T))
    close(bounds.regret_strongly_convex(T, sigma, G), G**2 * (1 + log(T)) / (2 * sigma))
    before, after = 2.0, 1.2
    expected = 5.0 + gamma / 2 * G**2 + (before - after) / (2 * gamma) - sigma / 2 * before
    close(bounds.round_bound(5.0, G**2, gamma, before, after, sigma), expected)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.number} {law.says}")
@given(seed=st.integers(0, 2**32))
def test_each_law_holds(backend, law, seed):
    """Every law of ``reference.identities`` on drawn instances."""
    found = measure(law, backend, seed, 0)
    assert found.holds, found
