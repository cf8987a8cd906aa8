"""Regret bounds of online learning are attained, or nearly: by adversaries that ask what the proofs give away least on.
Constant steps and the optimum's radius are in test_online_proximal and test_online_mkl_runs.
"""

from __future__ import annotations

import numpy as np
import pytest

from reference import bounds

G = 3.0


class Adversary:
    """T linear losses <a_t, w>, each a_t = choose(t, w_t) when its round comes; ``slopes`` and ``models`` of the rounds
    so far."""

    def __init__(self, T, choose):
        self.n, self.choose, self.slopes, self.models = T, choose, [], []

    def value_and_gradient(self, w, batch=None, mu=None):
        if batch is None:  # the whole sum, when all is over
            return float(np.mean(self.slopes, axis=0) @ w), np.mean(self.slopes, axis=0)
        self.models.append(w)
        self.slopes.append(self.choose(len(self.models), w))
        return float(self.slopes[-1] @ w), self.slopes[-1]


def play(backend, T, d, choose, step_size, radius, sigma=0.0):
    """The regret, the largest norm of a subgradient and the adversary, after T rounds within a ball."""
    adversary = Adversary(T, choose)
    options = {"step_size": step_size, "sigma": sigma, "project": backend.L2Ball(radius), "epochs": 1, "rng": 0}
    backend.online_proximal(adversary, backend.L1(0.0), np.zeros(d), **options)
    slopes, models = np.array(adversary.slopes), np.array(adversary.models)
    assert len(models) == T
    total = slopes.sum(axis=0)
    length = np.linalg.norm(total)
    # the best model in hindsight is along -total, to where sigma or the ball ends it
    best = -total / max(length, 1e-9) * min(radius, length / (sigma * T) if sigma > 0 else np.inf)
    paid = np.sum(slopes * models) + 0.5 * sigma * np.sum(models**2)
    owed = total @ best + 0.5 * sigma * T * best @ best
    return paid - owed, np.max(np.linalg.norm(slopes + sigma * models, axis=1)), adversary


def anyhow(t, w):
    """Slopes of length G in no particular direction."""
    a = np.random.default_rng(t).normal(size=len(w))
    return G * a / np.linalg.norm(a)


def stay_then_fall(T, gamma, radius):
    """To one end of the ball, to and fro there, and in the last rounds down to the other end."""
    step = gamma * G / np.sqrt(np.arange(1, T + 1))
    last = T - int(np.argmax(np.cumsum(step[::-1]) >= 2 * radius))  # from here on steps add up to the diameter

    def choose(t, w):
        if t >= last:
            return np.array([G])
        return np.array([G if w[0] > radius - 0.5 * step[t - 1] else -G])

    return choose


@pytest.mark.parametrize("ratio", [0.3, 1.4, 6.0])
@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_decaying_steps(backend, gamma, ratio):
    """Proposition 5.2: most of the bound, where its part in G is the larger, where its part in F is, and between."""
    T, diameter = 1000, ratio * gamma * G
    choose = stay_then_fall(T, gamma, diameter / 2)
    regret, largest, _ = play(backend, T, 1, choose, backend.steps.InverseSqrt(gamma), diameter / 2)
    bound = bounds.regret_decaying_step(T, gamma, largest, diameter)
    assert largest == pytest.approx(G) and 0.85 * bound <= regret <= bound


@pytest.mark.parametrize("T", [1, 2, 300])
@pytest.mark.parametrize("sigma", [0.05, 2.0])
def test_strong_convexity(backend, sigma, T):
    """Proposition 5.3: G^2/(2 sigma) sum_t 1/t where all subgradients, with their sigma w, are of length G; the bound
    has 1 + log T for the sum."""
    choose = lambda t, w: anyhow(t, w) - sigma * w  # noqa: E731
    regret, largest, _ = play(backend, T, 2, choose, backend.steps.Pegasos(), 10 * G / sigma, sigma)
    bound = bounds.regret_strongly_convex(T, sigma, largest)
    share = np.sum(1.0 / np.arange(1, T + 1)) / (1.0 + np.log(T))
    assert largest == pytest.approx(G) and share >= 0.88
    np.testing.assert_allclose(regret, share * bound, rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_rounds_over_lines_and_parabolas(backend, sigma):
    """Lemma 4 with equality: L_t a line and sigma/2 ||w||^2, no regularizer, and the step well within the ball."""
    gamma = 0.1
    _, _, adversary = play(backend, 20, 2, anyhow, gamma, 100.0, sigma)
    u = np.array([0.7, -1.1])
    for a, w, after in zip(adversary.slopes, adversary.models, adversary.models[1:], strict=False):
        there, g = a @ u + 0.5 * sigma * u @ u, a + sigma * w
        bound = bounds.round_bound(there, g @ g, gamma, np.sum((u - w) ** 2), np.sum((u - after) ** 2), sigma)
        np.testing.assert_allclose(a @ w + 0.5 * sigma * w @ w, bound, atol=1e-12)
