"""What Theorem 16 and its corollaries promise as numbers, against each other and as printed; what bounds refuse."""

from __future__ import annotations

import itertools
from math import inf, log, sqrt

import numpy as np
import pytest

from conformance.tolerances import close
from reference import bounds

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
        (lambda: bounds.subgradient_norm(0.0, 1.0), "lam: expected a finite number > 0"),
        (lambda: bounds.online_regret(0.0, 1.0, 1), "lam: expected a finite number > 0"),
        (lambda: bounds.dual_increase(1.0, 1.0, 0.0, 1), "lam: expected a finite number > 0"),
        (lambda: bounds.online_regret(1.0, 1.0, 0), "steps: expected at least 1"),
        (lambda: bounds.subgradient_norm(1.0, -1.0), "radius, largest_loss: expected finite numbers >= 0"),
        (lambda: bounds.log_rate_iterations(0.0), "accuracy: expected a number > 0, got 0.0"),
        (lambda: bounds.stationarity(1.0, 1.0, []), "tolerances >= 0, one at least"),
        (lambda: bounds.prox_linear_steps(0.0, 1.0, 1.0, 1.0), "accuracy, eta and eps_0 > 0"),
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
