"""Propositions 5 and 6 of Martins et al. on runs: regret against the best model in hindsight, found by a solver, and
gaps of averaged models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from conformance.finite_sums import Logistic
from conformance.optimizers.optima import lasso
from conformance.tolerances import close
from reference import bounds

TAU, SIGMA = 0.05, 0.3


class Hinge:
    """mean_i max(0, 1 - y_i <x_i, w>)."""

    def __init__(self, X, y):
        self.A, self.n = np.asarray(y)[:, None] * np.asarray(X), len(y)

    def value_and_gradient(self, w, batch=None, mu=None):
        A = self.A if batch is None else self.A[batch]
        margin = 1 - A @ w
        return float(np.maximum(margin, 0).mean()), -A.T @ (margin > 0) / len(A)


class Recorded:
    """An objective that keeps the points, values and subgradients that the rounds of a run ask for."""

    def __init__(self, objective, sigma=0.0):
        self.objective, self.n, self.sigma, self.rounds = objective, objective.n, sigma, []

    def value_and_gradient(self, w, batch=None, mu=None):
        value, g = self.objective.value_and_gradient(w, batch, mu)
        if batch is not None:
            self.rounds.append((w, value + 0.5 * self.sigma * w @ w, g + self.sigma * w))
        return value, g


def drawn(rng, kind, n, d=4):
    X = rng.normal(size=(n, d))
    return kind(X, np.sign(X[:, 0] + 0.7 * rng.normal(size=n)))


def best(objective, sigma, d=4):
    """argmin of the mean loss + TAU ||w||_1 + sigma/2 ||w||^2: a linear program for the hinge, a quasi-Newton method
    for the log loss."""
    if isinstance(objective, Hinge):
        n, A = objective.n, objective.A
        cost = np.concatenate([np.full(2 * d, TAU), np.full(n, 1 / n)])
        found = linprog(cost, A_ub=np.hstack([-A, A, -np.eye(n)]), b_ub=-np.ones(n), bounds=(0, None)).x
        return found[:d] - found[d : 2 * d]

    return lasso(objective, TAU, d, sigma)


@pytest.mark.parametrize("T", [1, 10, 100, 400])
@pytest.mark.parametrize(
    ("regime", "kind"),
    [
        ("constant", Hinge),
        ("constant", Logistic),
        ("decaying", Hinge),
        ("decaying", Logistic),
        ("strongly convex", Logistic),
    ],
)
def test_regret_against_the_best_model_in_hindsight(backend, rng, regime, kind, T):
    """With the steps that the proposition calls best: ||w*|| G sqrt(T), F G sqrt(2 T), and G^2 (1 + log T)/(2
    sigma)."""
    sigma = SIGMA if regime == "strongly convex" else 0.0
    objective = drawn(rng, kind, T)
    optimum, phi = best(objective, sigma), backend.L1(TAU)
    norm, radius = np.linalg.norm(optimum), 1.2 * max(np.linalg.norm(optimum), 0.1)
    G = np.max(np.linalg.norm(objective.A, axis=1)) + sigma * radius
    step = {
        "constant": max(norm, 1e-3) / (G * np.sqrt(T)),
        "decaying": backend.steps.InverseSqrt(2 * radius / (np.sqrt(2) * G)),
        "strongly convex": backend.steps.Pegasos(),
    }[regime]
    run = Recorded(objective, sigma)
    options = {"sigma": sigma, "project": backend.L2Ball(radius), "epochs": 1, "rng": 0}
    backend.online_proximal(run, phi, np.zeros(4), step_size=step, **options)
    assert len(run.rounds) == T and max(np.linalg.norm(g) for _, _, g in run.rounds) <= G * (1 + 1e-12)
    paid = sum(value + TAU * np.abs(w).sum() for w, value, _ in run.rounds)
    hindsight = objective.value_and_gradient(optimum)[0] + 0.5 * sigma * optimum @ optimum + TAU * np.abs(optimum).sum()
    bound = {
        "constant": lambda: bounds.regret_constant_step(T, step, G, norm),
        "decaying": lambda: bounds.regret_decaying_step(T, 2 * radius / (np.sqrt(2) * G), G, 2 * radius),
        "strongly convex": lambda: bounds.regret_strongly_convex(T, SIGMA, G),
    }[regime]()
    assert paid - T * hindsight <= bound + 1e-9
    if regime == "decaying":
        close(bound, 2 * radius * G * np.sqrt(2 * T))
    if regime == "constant" and norm > 1e-3:
        close(bound, norm * G * np.sqrt(T))


@pytest.mark.parametrize("T", [1, 7, 50])
def test_the_regret_of_constant_steps_is_attained(backend, T):
    """Losses -G w in the interval up to gamma G T, which the run reaches with its last step: regret gamma G^2 (T^2 +
    T)/2, the bound itself."""
    G, gamma = 1.5, 0.2

    class Falling:
        n = T

        def value_and_gradient(self, w, batch=None, mu=None):
            return float(-G * w[0]), np.array([-G])

    end, run = gamma * G * T, Recorded(Falling())
    backend.online_proximal(
        run, backend.L1(0.0), np.zeros(1), step_size=gamma, project=backend.L2Ball(end), epochs=1, rng=0
    )
    regret = sum(value for _, value, _ in run.rounds) + T * G * end
    close(regret, bounds.regret_constant_step(T, gamma, G, end))


@pytest.mark.parametrize("sigma", [0.0, SIGMA])
def test_averages_over_random_examples_come_near_the_optimum(backend, rng, sigma):
    """Proposition 6 in the mean: regret's bound over T, for steps like 1/sqrt(t), and like 1/(sigma t) with the
    averaged model.

    From 30 to 480 examples, drawn with replacement, the gap halves at least, and falls by five where losses are
    strongly convex.
    """
    whole, phi, gaps = drawn(rng, Logistic, 40), backend.L1(TAU), []
    optimum = best(whole, sigma)
    total = lambda w: whole.value_and_gradient(w)[0] + 0.5 * sigma * w @ w + phi.value(w)  # noqa: E731
    radius = 1.5 * np.linalg.norm(optimum)
    G = np.max(np.linalg.norm(whole.A, axis=1)) + sigma * radius
    for T in (30, 480):
        found = []
        for seed in range(12):
            sample = Logistic(*_of(whole, np.random.default_rng(seed).integers(whole.n, size=T)))
            options = {"sigma": sigma, "project": backend.L2Ball(radius), "epochs": 1, "average": "uniform", "rng": 0}
            step = backend.steps.Pegasos() if sigma else backend.steps.InverseSqrt(0.5)
            found.append(
                total(backend.online_proximal(sample, phi, np.zeros(4), step_size=step, **options).x) - total(optimum)
            )
        gaps.append(np.mean(found))
        bound = (
            bounds.regret_strongly_convex(T, sigma, G) if sigma else bounds.regret_decaying_step(T, 0.5, G, 2 * radius)
        )
        assert -1e-9 <= gaps[-1] <= bound / T
    assert gaps[1] <= gaps[0] / (5 if sigma else 2)


def _of(objective, examples):
    """Features and labels that give ``Logistic`` the same margins."""
    return -objective.A[examples], np.ones(len(examples))
