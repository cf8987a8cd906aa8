"""What the papers promise as numbers: sequences, rates and iteration counts against their definitions and each other."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from math import inf, log, sqrt

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
    """Lemma 53 prints alpha_{k+1} as the root; read so, alpha_1 is the root at k = 0, which is 0, and A_1 = A_0 > 1/3."""
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


# Theorem 16 and its corollaries -----------------------------------------------------------------------------------------

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
    """Theorem 16 gives exactly (2 - sqrt q)/(1 - sqrt q) mu D for every k; the printed 3 - sqrt q is valid, and looser."""
    choice, s = bounds.Corollary17(q, 1 - q, 0.3), sqrt(q)
    for rate in itertools.islice(bounds.casimir_rates(choice), 100):
        np.testing.assert_allclose(rate.width, (2 - s) / (1 - s) * 0.3, rtol=1e-10)
        assert rate.width < (3 - s) / (1 - s) * 0.3
    close(choice.bound(5, 0.0, 0.0, 1.0), (2 - s) / (1 - s) * 0.3)
    np.testing.assert_allclose(choice.bound(5, 1.0, 0.0, 0.0), 2 * (1 - s / 2) ** 5, rtol=1e-12)


def test_corollary_18_is_its_formula():
    choice, q, k = bounds.Corollary18(0.2, 0.8, 0.3), 0.2, 7
    s, eta = sqrt(q), 1 - sqrt(q) / 2
    expected = eta ** (k / 2) * (2 * 0.7 + 0.3 * 2.0 / (1 - s) * (2 - s + s / (1 - sqrt(eta))))
    np.testing.assert_allclose(choice.bound(k, 0.7, 0.0, 2.0), expected, rtol=1e-12)


def test_corollary_19_is_its_formula():
    """At k = 3, kappa = 0.8, mu = 0.3, gap 0.7, distance 3, D = 2: 8/25 (0.7 + 3.6) + 0.6 (1 + 12/5 + 30/25)."""
    np.testing.assert_allclose(bounds.Corollary19(0.8, 0.3).bound(3, 0.7, 3.0, 2.0), 1.376 + 2.76, rtol=1e-12)


def test_corollary_20_at_the_first_iteration():
    """At k = 1 the logarithm is below 1; the bound is larger there by the factor 1/log 2 of the paper."""
    choice = bounds.Corollary20(1.0, 0.3)
    printed = log(2) / 2 * (2 * 0.7 + 9.0 + 27 * 0.3 * 2.0)
    np.testing.assert_allclose(choice.bound(1, 0.7, 3.0, 2.0), printed / log(2), rtol=1e-12)
    np.testing.assert_allclose(
        choice.bound(2, 0.7, 3.0, 2.0), log(3) / 3 * (2 * 0.7 + 9.0 + 27 * 0.3 * 2.0), rtol=1e-12
    )


def test_the_tables_print_an_accuracy_that_is_not_allowed():
    """Tables 3 and 4 print delta_k = k^-2, which is 1 at k = 1, where (30) divides by 1 - delta."""

    class Printed(bounds.Corollary19):
        def delta_k(self, k):
            return 1 / k**2

    with pytest.raises(ValueError, match=r"k = 1: expected delta in \[0, 1\).*got 1.0"):
        next(bounds.casimir_rates(Printed(1.0, 1.0)))


def test_start_gap_is_gamma_0():
    """gamma_0 = lam for Corollaries 17 and 18, kappa for 19 and 20."""
    for choice, gamma in ((bounds.Corollary17(0.2, 0.7, 1.0), 0.2), (bounds.Corollary18(0.2, 0.7, 1.0), 0.2)):
        close(bounds.start_gap(choice, 1.0, 3.0), 1.0 + gamma / 2 * 9)
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


# the inner loop ---------------------------------------------------------------------------------------------------------


@given(tau=st.floats(1e-4, 0.999), C=st.floats(1, 1e6), ratio=st.floats(1e-3, 1e12))
def test_no_method_takes_longer_than_the_lemma_says(tau, C, ratio):
    """Lemma 49, and its constant less 1/2; the sum of Markov's inequalities term by term."""
    assert law.markov_slack(tau, C, ratio) >= -1e-9 * bounds.accuracy_iterations(tau, C, ratio)
    if ratio > 1:
        t = np.arange(int(60 / tau + log(C * ratio) / tau))
        total = np.minimum(1.0, C * ratio * np.exp(t * np.log1p(-tau))).sum() if len(t) < 10**5 else None
        if total is not None:
            np.testing.assert_allclose(law.markov_iterations(tau, C, ratio), total, rtol=1e-8)


def test_the_lemma_is_close_to_what_a_method_can_take(rng):
    """A method that succeeds at a random time, as late as its rate allows, takes that long on average."""
    tau, C, ratio = 0.2, 2.0, 50.0
    first = 1 - rng.random(200000)  # T > t exactly where C (1 - tau)^t ratio >= a uniform number
    T = np.maximum(0, np.floor(np.log(C * ratio / first) / -np.log1p(-tau)) + 1)
    taken, error = T.mean(), T.std() / sqrt(len(T))
    assert abs(taken - law.markov_iterations(tau, C, ratio)) < 5 * error
    bound = bounds.accuracy_iterations(tau, C, ratio)
    assert taken <= bound and taken > 0.5 * bound


def test_relative_accuracy_needs_the_constant_8():
    """Proposition 27 is Lemma 49 at gap_0 <= (L + kappa)/2 r^2 and accuracy delta kappa/8 r^2."""
    tau, C, L, kappa, delta, r = 0.1, 3.0, 5.0, 0.7, 0.3, 2.0
    expected = bounds.accuracy_iterations(tau, C, ((L + kappa) / 2 * r**2) / (delta * kappa / 8 * r**2))
    close(bounds.inner_iterations(tau, C, L=L, kappa=kappa, delta=delta), expected)
    close(expected, log(8 * C * (L + kappa) / (tau * kappa * delta)) / tau + 1)
    assert bounds.inner_iterations(tau, C, L=L, kappa=kappa, delta=0.0) == inf


def test_svrg_rate_is_its_formula():
    L, lam, n = 6.0, 0.5, 40
    tau, C = bounds.svrg_rate(L, lam, n)
    close(tau, 1 / (8 * L / lam + n))
    close(C, L / lam * (1 + n * (L / lam) / (8 * L / lam + n)))
    assert bounds.svrg_rate(1.0, 1.0, 1)[1] >= 1


@given(
    lam=st.floats(1e-6, 1.0),
    n=st.integers(1, 10**6),
    A=st.floats(1e-2, 1e3),
    D=st.floats(0.1, 20),
    accuracy=st.floats(1e-8, 1),
)
def test_kappa_minimises_the_work(lam, n, A, D, accuracy):
    """Proposition 29: over kappa >= lam, exactly but for A/(mu n) in (2 lam, 4 lam], there within 3/sqrt(8)."""
    choice = bounds.Corollary17.for_svrg(accuracy, lam=lam, A=A, D=D, n=n)
    close(choice.mu * D, accuracy / 10)
    cost = bounds.svrg_cost(choice.kappa, lam=lam, A=A, mu=choice.mu, n=n)
    others = lam * np.geomspace(1, 1e3, 301)
    others = np.concatenate([others, np.maximum(lam, choice.kappa * np.geomspace(0.1, 10, 301))])
    least = min(bounds.svrg_cost(float(kappa), lam=lam, A=A, mu=choice.mu, n=n) for kappa in others)
    ratio = A / (choice.mu * n * lam)
    factor = 3 / sqrt(8) if 2 < ratio <= 4 else 1.0
    assert cost <= factor * least * (1 + 1e-12)
    s = choice.alpha_0
    assert (3 - s) / (1 - s) < (5 if ratio > 4 else 8) * (1 + 1e-9)  # c_q as the proof says, with the printed constant
    assert choice.bound(10**18, 1.0, 0.0, D) <= 0.8 * accuracy * (1 + 1e-9)


def test_corollary_19_for_svrg():
    choice = bounds.Corollary19.for_svrg(1e-3, A=4.0, D=2.0, n=9)
    close(choice.mu, 1e-3 / 40)
    close(choice.kappa, 4.0 / choice.mu / 10)
    assert choice.bound(10**6, 1e-6, 0.0, 2.0) <= 1e-3


def outer_iterations(choice, accuracy, gap, distance, D):
    """The first k whose bound is at most the accuracy."""
    high = 1
    while choice.bound(high, gap, distance, D) > accuracy:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if choice.bound(middle, gap, distance, D) <= accuracy else (middle, high)
    return high


def total_work(choice, K, A, n):
    """sum_{k <= K} 1/tau_k: the SVRG steps of all subproblems, without the logarithm of Proposition 27."""
    work = 0.0
    for k in range(1, K + 1):
        kappa = choice.kappa_k(k)
        work += 1 / bounds.svrg_rate(choice.lam + kappa + A / choice.mu_k(k), choice.lam + kappa, n)[0]
    return work


work_instances = given(
    n=st.sampled_from([1, 10, 1000]),
    A=st.floats(0.1, 10),
    D=st.floats(0.1, 5),
    gap=st.floats(0.1, 10),
    distance=st.floats(0, 3),
    accuracy=st.floats(0.02, 1),
)


@work_instances
def test_total_work_with_constant_smoothing(n, A, D, gap, distance, accuracy):
    """Propositions 29 and 31: Casimir with SVRG takes O~ of what is printed; one outer iteration at least."""
    for lam in (1e-3, 1.0):
        choice = bounds.Corollary17.for_svrg(accuracy, lam=lam, A=A, D=D, n=n)
        K = outer_iterations(choice, accuracy, gap, distance, D)
        order = (n + sqrt(A * D * n / (lam * accuracy))) * (1 + log(1 + 10 * gap / accuracy))
        assert total_work(choice, K, A, n) <= 110 * order
    choice = bounds.Corollary19.for_svrg(accuracy, A=A, D=D, n=n)
    K = outer_iterations(choice, accuracy, gap, distance, D)
    order = n * sqrt(gap / accuracy) + sqrt(A * D * n) * distance / accuracy + n
    assert total_work(choice, K, A, n) <= 300 * order


@work_instances
def test_total_work_with_decreasing_smoothing(n, A, D, gap, distance, accuracy):
    """Propositions 30 and 32; the hidden constant of 30 grows like 1/sqrt(q) with kappa/lam."""
    mu, kappa = 0.5, 1.0
    for lam in (1e-3, 1.0):
        choice = bounds.Corollary18(lam, kappa, mu)
        K = outer_iterations(choice, accuracy, gap, distance, D)
        start = gap + mu * D / (1 - choice.alpha_0)
        order = n * (1 + log(1 + 6 * start / accuracy)) + A / (mu * (lam + kappa) * accuracy) * start
        assert total_work(choice, K, A, n) <= 300 / choice.alpha_0 * order
    choice = bounds.Corollary20(kappa, mu)
    K = outer_iterations(choice, accuracy, gap, distance, D)
    start = gap + kappa * distance**2 + mu * D
    assert total_work(choice, K, A, n) <= 500 * (1 + start / accuracy * log(2 + 54 * start / accuracy)) * (
        n + A / (mu * kappa)
    )


def test_the_constant_of_proposition_30_is_not_universal():
    """Table 4 calls its constants universal: with lam = 1e-8 kappa the same order takes 1000 times what it takes with lam = kappa."""
    ratios = []
    for lam in (1.0, 1e-8):
        choice = bounds.Corollary18(lam, 1.0, 0.5)
        K = outer_iterations(choice, 0.01, 1.0, 0.0, 1.0)
        geometric = choice.eta**-0.5  # sum_{k <= K} A/mu_k in closed form
        work = K * 18 + 8 * 2 / (lam + 1) * geometric * (geometric**K - 1) / (geometric - 1)
        ratios.append(work / (10 + 2 / (lam + 1) / 0.01 * (1 + 0.5 / (1 - choice.alpha_0))))
    assert ratios[1] > 1000 * ratios[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: bounds.next_alpha(1.0, 0.0, 1.0, 1.0),
            "alpha: expected a number between 0 and 1, both excluded, got 1.0",
        ),
        (lambda: bounds.next_alpha(0.5, -1.0, 1.0, 1.0), "lam: expected a number >= 0, got -1.0"),
        (lambda: bounds.next_alpha(0.5, 0.0, 2.0, 1.0), "0 < kappa <= kappa_next, got 2.0 and 1.0"),
        (lambda: bounds.momentum(0.5, 0.4, 0.0, 0.0, 1.0), "0 < kappa <= kappa_next, got 0.0 and 1.0"),
        (lambda: bounds.entropy_width(0), "m: expected a number of outputs >= 1, got 0"),
        (lambda: bounds.smoothness(1.0, 0.0), "mu: expected a number > 0, got 0.0"),
        (lambda: bounds.entropy_smoothness(-1.0, 1.0), "diameter: expected a number >= 0, got -1.0"),
        (lambda: bounds.Corollary17(0.0, 1.0, 1.0), "lam: expected a number > 0 .*got 0.0"),
        (lambda: bounds.Corollary19(0.0, 1.0), "kappa: expected a finite number > 0, got 0.0"),
        (lambda: bounds.Corollary20(1.0, -1.0), "mu: expected a finite number >= 0, got -1.0"),
        (lambda: bounds.accuracy_iterations(1.0, 1.0, 2.0), "tau: expected a rate between 0 and 1"),
        (lambda: bounds.accuracy_iterations(0.5, 0.5, 2.0), "C: expected a number >= 1"),
        (lambda: bounds.accuracy_iterations(0.5, 1.0, 0.0), "ratio: expected a number > 0, got 0.0"),
        (lambda: bounds.inner_iterations(0.5, 1.0, L=1.0, kappa=1.0, delta=1.0), "delta in"),
        (lambda: bounds.svrg_rate(1.0, 2.0, 3), "0 < lam <= L"),
        (lambda: bounds.log_rate_iterations(0.0), "accuracy: expected a number > 0, got 0.0"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_start_below_the_condition_is_refused():
    class Low(bounds.Corollary17):
        alpha_0 = 0.1

    with pytest.raises(ValueError, match=r"alpha_0: expected alpha_0\^2 >= lam/\(lam \+ kappa_1\), got 0.1"):
        next(bounds.casimir_rates(Low(1.0, 1.0, 1.0)))


def test_widths_of_huge_output_sets():
    close(bounds.entropy_width(26**1000), 1000 * log(26))
    assert bounds.squared_l2_width(26**1000) == 0.5 and bounds.squared_l2_width(1) == bounds.entropy_width(1) == 0.0
