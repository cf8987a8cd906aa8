"""How much work the papers promise: iterations of an inner method, and of Casimir with SVRG in all, against what is
taken.
"""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conformance.tolerances import close
from reference import bounds
from reference.identities import pillutla as law


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
