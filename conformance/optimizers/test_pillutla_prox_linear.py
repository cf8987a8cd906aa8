"""The prox-linear algorithm against its lemma, its theorem and what follows, on sines of linear maps, whose
smoothness is known.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

import reference
from conformance.sines import exact_step, exactly, hinge, sines
from reference import bounds
from reference.identities import pillutla as law
from reference.linearized import LinearizedObjective
from reference.optimizers.prox_linear import regularised

STEPS = 10
seeds = given(seed=st.integers(0, 2**32 - 1))


def problem(backend, rng, smoothing="Max", amplitude=1.0):
    objective = hinge(backend, rng, smoothing, n=3, m=3, d=2, amplitude=amplitude)
    return objective, objective.model.smoothness(objective.data)


def one_example(maps, losses):
    """One example of two outputs, the first one true: the hinge, and the model's smoothness."""
    model, data = sines(reference, np.random.default_rng(0), n=1, m=2, d=1)
    data = data._replace(maps=np.array([[[maps[0]], [maps[1]]]]), best=np.array([0]), losses=np.array([losses]))
    return reference.StructuralHinge(model, data), model.smoothness(data)


@seeds
def test_lemma_34(backend, seed):
    """How far the linearised hinge, smoothed or not, is from the hinge, both ways."""
    rng = np.random.default_rng(seed)
    objective, L = problem(backend, rng, "Entropy", amplitude=float(rng.choice([1.0, -3.0])))
    w, z = rng.normal(size=2), rng.normal(size=2) * 10 ** rng.uniform(-3, 1)
    convex = LinearizedObjective(objective, w)
    for mu in (0.0, 0.5):
        value = objective.value_and_gradient(w + z, None, mu)[0]
        near = convex.value_and_gradient(z, None, mu)[0]
        assert law.linearization_slack(value, near, z, L) >= -1e-12 * max(1, abs(value), abs(near))


def test_lemma_34_has_the_true_output_in_it():
    """score_y = sin(w + y): each is 1-smooth, but the augmented score of another output with L = 1 is not; with
    L = 2 it is.
    """
    objective, L = one_example([1.0, -1.0], [0.0, 1.0])
    assert L == 2
    slacks = {1: [], 2: []}
    for w in np.linspace(-3, 3, 61):
        convex = LinearizedObjective(objective, np.array([w]))
        for z in (-0.2, 0.2):
            z = np.array([z])
            value, near = objective.value_and_gradient(w + z)[0], convex.value_and_gradient(z)[0]
            for L, found in slacks.items():
                found.append(law.linearization_slack(value, near, z, L))
    assert min(slacks[2]) >= -1e-12 and min(slacks[1]) < -1e-3


def run_with_tolerances(backend, accept, seed):
    """Steps whose subproblems are solved to exactly their tolerances eps_k: the objective, lam, eta, points, eps."""
    rng = np.random.default_rng(seed)
    objective, L = problem(backend, rng)
    lam, eps, points = (
        [0.0, 0.2][seed % 2],
        10 ** rng.uniform(-3, 0) / np.arange(1, STEPS + 1),
        [2 * rng.normal(size=2)],
    )

    def as_bad_as_allowed(p):
        """The optimum, moved until its gap is eps_k."""
        exact, u = exactly(p), rng.normal(size=2)

        def gap(t):
            v = exact.x + t * u
            return p.objective.value_and_gradient(v)[0] + p.lam / 2 * v @ v - exact.fun

        t = brentq(lambda t: gap(t) - eps[len(points) - 1], 0.0, 10.0)
        return reference.Result(exact.x + t * u, exact.fun, 1, True, "", "last", objective.n, float(gap(t)), ())

    options = {"lam": lam, "eta": 1 / L, "inner": as_bad_as_allowed, "accept": accept, "fixed_eta": True}
    backend.prox_linear(objective, points[0], iterations=STEPS, callback=lambda row, x: points.append(x), **options)
    return objective, lam, 1 / L, np.array(points), eps


@pytest.mark.parametrize("accept", ["decrease", "always"])
def test_theorem_35(backend, accept):
    """With tolerances used up: every step's descent, and the bound after each K. F never grows where steps are accepted
    by its decrease; where they always are it can, by Remark 36."""
    grown = 0
    for seed in range(2):
        objective, lam, eta, points, eps = run_with_tolerances(backend, accept, seed)
        F = lambda x, objective=objective, lam=lam: regularised(objective, x, lam)  # noqa: E731
        values, exact = [F(x) for x in points], [exact_step(objective, x, lam, eta)[0] for x in points[:-1]]
        for j, (x, z) in enumerate(zip(points[:-1], exact, strict=True)):
            slack = law.prox_linear_descent_slack(values[j], values[j + 1], x, z, eta=eta, tolerance=eps[j])
            assert slack >= -1e-6
        starts = [points[-1], *np.random.default_rng(seed).normal(size=(4, 2)) * 3]
        least = min(minimize(F, x0, method="Nelder-Mead", options={"xatol": 1e-8}).fun for x0 in starts)
        squares = np.sum((points[:-1] - exact) ** 2, axis=1) / eta**2
        for K in range(1, STEPS + 1):
            bound = bounds.stationarity(eta, values[0] - min(least, *values), eps[:K].tolist())
            assert np.min(squares[:K]) <= bound + 1e-6
        grown += np.sum(np.diff(values) > 0)
    assert (grown > 0) == (accept == "always")


def test_theorem_35_needs_short_steps():
    """F(w) = max(0, 5 + sin(w + 1)), L = 1: at w = -1 the tangent falls for ever, and eta = 100 follows it by 5, to
    where F is larger.
    """
    (objective, L), w, slacks = one_example([0.0, 1.0], [0.0, 5.0]), np.array([-1.0]), []
    assert L == 1
    for eta in (1.0, 100.0):
        exact, _ = exact_step(objective, w, 0.0, eta)
        before, after = (regularised(objective, x, 0.0) for x in (w, exact))
        slacks.append(law.prox_linear_descent_slack(before, after, w, exact, eta=eta, tolerance=0.0))
    assert slacks[0] >= -1e-9 and slacks[1] < -0.9


@given(lam=st.floats(0, 2), log_eta=st.floats(-2, 2), log_eps=st.floats(-3, 0), more=st.floats(1, 10))
def test_the_corrected_inexactness_test(lam, log_eta, log_eps, more):
    """A function as flat as strong convexity allows, c/2 w^2 with c >= lam + 1/eta: the test's subgradients have
    gaps within the tolerance.
    """
    eta, eps = 10.0**log_eta, 10.0**log_eps
    c, norm = more * (lam + 1 / eta), sqrt(2 * (lam + 1 / eta) * eps)
    assert abs(law.inexactness_slack(np.array([norm]), lam=lam, eta=eta, tolerance=eps)) <= 1e-9 * norm**2
    assert norm**2 / (2 * c) <= eps * (1 + 1e-9)


def test_the_printed_inexactness_test_allows_a_gap_of_50():
    """lam = 0, eta = 10, eps = 1: (lam + 1/eta) ||v||^2 <= eps lets v = sqrt(10) through; for F_eta = w^2/20 its gap
    is 50.
    """
    lam, eta, eps = 0.0, 10.0, 1.0
    v = np.array([sqrt(eps / (lam + 1 / eta))])
    w = v * eta  # where the gradient of w^2/(2 eta) is v
    assert (lam + 1 / eta) * float(v @ v) <= eps * (1 + 1e-12) and float(w @ w) / (2 * eta) == pytest.approx(50)
    assert law.inexactness_slack(v, lam=lam, eta=eta, tolerance=eps) < 0


@given(
    accuracy=st.floats(0.05, 2),
    eta=st.floats(0.01, 10),
    gap=st.floats(0, 10),
    eps_0=st.floats(0.01, 5),
    more=st.integers(0, 50),
)
def test_steps_of_proposition_37(accuracy, eta, gap, eps_0, more):
    """From the number of steps on, Theorem 35 with eps_k = eps_0/k is at most accuracy^2: sum 1/k <= 4 log K,
    K >= 2.
    """
    K = bounds.prox_linear_steps(accuracy, eta, gap, eps_0) + more
    harmonic = log(K) + 0.5772157 + 1 / (2 * K) if K > 1000 else sum(1 / k for k in range(1, K + 1))
    assert harmonic <= 4 * log(K)
    assert 2 / (eta * K) * (gap + eps_0 * harmonic) <= accuracy**2 * (1 + 1e-9)


def test_a_bound_of_accuracy_is_not_enough():
    """The proof asks for (2/(eta K)) (...) <= accuracy. F(w) = max(0, 1 - s w): rho = s until 1/(eta s^2) steps, s
    just above the accuracy.
    """
    accuracy, eta = 0.1, 1.0
    s = 1.01 * accuracy
    K = int(np.ceil(2 * 1.0 / (eta * accuracy)))  # enough by the printed inequality, subproblems being exact
    assert 2 / (eta * K) * 1.0 <= accuracy
    w, least = 0.0, np.inf
    for _ in range(K):
        following = min(w + eta * s, 1 / s)  # the proximal step
        w, least = following, min(least, abs(following - w) / eta)
    assert least > accuracy and least**2 <= bounds.stationarity(eta, 1.0, [0.0] * K)


def test_remark_38(backend, rng):
    """Task losses >= 0 make F >= 0 (the true output is one of the outputs), so that F(w_0) bounds F(w_0) - F*."""
    for _ in range(20):
        objective, _ = problem(backend, rng, amplitude=4.0)
        assert objective.value_and_gradient(3 * rng.normal(size=2))[0] >= 0
    model, data = objective.model, objective.data
    signed = backend.StructuralHinge(model, data._replace(losses=-1.0 - data.losses))
    assert any(signed.value_and_gradient(3 * x)[0] < 0 for x in rng.normal(size=(50, 2)))


def test_bounds_say_what_is_wrong():
    with pytest.raises(ValueError, match="tolerances >= 0, one at least"):
        bounds.stationarity(1.0, 1.0, [])
    with pytest.raises(ValueError, match="accuracy, eta and eps_0 > 0"):
        bounds.prox_linear_steps(0.0, 1.0, 1.0, 1.0)
