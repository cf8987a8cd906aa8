"""Laws of Algorithm 4: its sequences, and what one outer iteration does."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import minimize

from conformance.identities import Law
from reference import bounds
from reference.bounds.casimir import GOLDEN
from reference.identities import pillutla as law

__all__ = ["LAWS"]


def _next(rng: np.random.Generator) -> tuple[float, float, float, float, float]:
    """alpha_{k-1}, alpha_k, lam, kappa_k and kappa_{k+1} as Lemma 21 admits them."""
    lam, kappa, growth = rng.uniform(0.01, 2.0), rng.uniform(0.1, 10.0), rng.uniform(1.0, 3.0)
    least = np.sqrt(lam / (lam + kappa))
    alpha = float(least + rng.uniform(0.01, 0.9) * (1 - least))
    return alpha, bounds.next_alpha(alpha, lam, kappa, growth * kappa), lam, kappa, growth * kappa


def _alpha(sp: Any, rng: np.random.Generator) -> float:
    alpha, alpha_next, lam, kappa, kappa_next = _next(rng)
    slacks = law.alpha_slacks(alpha, alpha_next, lam, kappa_next)
    return min(-abs(law.alpha_residual(alpha, alpha_next, lam, kappa, kappa_next)), *slacks)


def _auxiliary(sp: Any, rng: np.random.Generator) -> float:
    return max(abs(residual) for residual in law.auxiliary_residuals(*_next(rng)).values())


def _products(sp: Any, rng: np.random.Generator) -> float:
    """lam = 0, and kappa constant or k kappa: products of 1 - alpha_j, to a drawn k."""
    least, kappa = np.inf, rng.uniform(0.1, 10.0)
    for slacks, growth in ((law.constant_kappa_slacks, 0), (law.growing_kappa_slacks, 1)):
        alpha, product = GOLDEN, 1 - GOLDEN
        for k in range(1, int(rng.integers(2, 60))):
            alpha = bounds.next_alpha(alpha, 0.0, kappa * k**growth, kappa * (k + 1) ** growth)
            product *= 1 - alpha
            *found, residual = slacks(k, alpha, product)
            least = min(least, *found, -abs(residual))
    return least


def _log_rate(sp: Any, rng: np.random.Generator) -> float:
    accuracy = rng.uniform(0.01, 0.4)
    k = ceil(bounds.log_rate_iterations(accuracy))
    return min(law.log_rate_slack(k + more, accuracy) for more in (0, 1, int(rng.integers(2, 100))))


def _markov(sp: Any, rng: np.random.Generator) -> float:
    return law.markov_slack(rng.uniform(0.01, 0.9), rng.uniform(1.0, 5.0), rng.uniform(0.5, 1e4))


def _center(sp: Any, rng: np.random.Generator) -> float:
    alpha = rng.uniform(0.1, 0.9)
    slack, residual = law.prox_center_slack(alpha, rng.uniform(0, alpha), *rng.normal(size=(3, 4)))
    return min(float(slack), -abs(float(residual)))


def _three_points(sp: Any, rng: np.random.Generator) -> float:
    slack, residual = law.three_points_slack(*rng.normal(size=(3, 4)), rng.uniform(0.1, 3.0))
    return min(float(slack), -abs(float(residual)))


class _Step:
    """One outer iteration on a smoothed hinge of 4 examples in 3 classes, its subproblem solved too coarsely.

    value(w, mu) is F_mu; exact minimises the subproblem about z, gap is what w is above its minimum.
    """

    def __init__(self, sp: Any, rng: np.random.Generator) -> None:
        model = sp.MulticlassModel(2, 3)
        data = model.pack(rng.normal(size=(4, 2)), rng.integers(0, 3, 4))
        self.objective = sp.StructuralHinge(model, data, smoothing=sp.smoothings.Entropy())
        self.lam, self.kappa, self.mu = rng.uniform(0.1, 1.0), rng.uniform(0.5, 3.0), rng.uniform(0.2, 1.0)
        self.D, self.off = bounds.entropy_width(3), 0.1 * rng.normal(size=model.size)
        self.solve(rng.normal(size=model.size))

    def solve(self, z: np.ndarray) -> None:
        """The subproblem about z."""
        self.z = z
        found = minimize(lambda w: self.at(w)[:2], z, jac=True, method="BFGS", options={"gtol": 1e-11})
        self.exact, self.least = found.x, float(found.fun)
        self.w = self.exact + self.off
        self.gap = self.at(self.w)[0] - self.least

    def value(self, w: np.ndarray, mu: float) -> float:
        return float(self.objective.value_and_gradient(w, None, mu)[0]) + self.lam / 2 * float(w @ w)

    def at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F_kappa(w; z) and its gradient."""
        value, gradient = self.objective.value_and_gradient(w, None, self.mu)
        shift = w - self.z
        value = float(value) + self.lam / 2 * float(w @ w) + self.kappa / 2 * float(shift @ shift)
        return value, gradient + self.lam * w + self.kappa * shift


def _approximate_prox(sp: Any, rng: np.random.Generator) -> float:
    step, theta = _Step(sp, rng), rng.uniform(0.05, 0.95)
    options = {"theta": theta, "lam": step.lam, "kappa": step.kappa}
    F = step.value(step.w, step.mu)
    others = (step.z, step.exact, *rng.normal(size=(3, len(step.w))))
    there = ((step.value(other, step.mu), other) for other in others)
    return min(float(law.approximate_prox_slack(F, step.gap, step.w, *each, step.z, **options)) for each in there)


def _one_step(sp: Any, rng: np.random.Generator) -> float:
    """Lemma 25 for any k, against a drawn point in the place of the optimum."""
    step, w_before, v_before, optimum = _Step(sp, rng), *rng.normal(size=(3, 6))
    lam, kappa, kappa_next = step.lam, step.kappa, step.kappa * rng.uniform(1.0, 2.0)
    least = np.sqrt(lam / (lam + kappa))
    alpha = float(least + rng.uniform(0.0, 0.9) * (1 - least))
    alpha_next = bounds.next_alpha(alpha, lam, kappa, kappa_next)
    gamma_next = (kappa + lam) * alpha * alpha
    gamma = (gamma_next - lam * alpha) / (1 - alpha)  # (38)
    eta = alpha * gamma / (gamma_next + alpha * gamma)  # (36)
    _, _, eta_next = law.auxiliary(alpha, alpha_next, lam, kappa, kappa_next)
    step.solve(eta * v_before + (1 - eta) * w_before)
    v, mu_before = w_before + (step.w - w_before) / alpha, step.mu * rng.uniform(1.0, 2.0)
    gaps = [step.value(w, mu) - step.value(optimum, mu) for w, mu in ((w_before, mu_before), (step.w, step.mu))]
    S_before = law.potential(gaps[0], v_before, optimum, alpha=alpha, eta=eta, kappa_next=kappa)
    S = law.potential(gaps[1], v, optimum, alpha=alpha_next, eta=eta_next, kappa_next=kappa_next)
    slack = law.one_step_slack(
        S_before,
        S,
        v,
        optimum,
        step.w - step.z,
        alpha=alpha_next,
        eta=eta_next,
        kappa=kappa,
        kappa_next=kappa_next,
        theta=rng.uniform(0.05, 0.95),
        accuracy=step.gap,
        smoothing=(mu_before - step.mu) * step.D,
    )
    return float(slack)


def _stopping(sp: Any, rng: np.random.Generator) -> float:
    """Where the gradient (section 5.1) or the absolute gap (Lemma 50) is small enough, so is the gap of (26)."""
    step, delta = _Step(sp, rng), rng.uniform(0.05, 0.95)
    slacks = []
    for size in np.geomspace(1e-3, 1.0, 8):
        w = step.exact + size * rng.normal(size=len(step.w)) * np.linalg.norm(step.z - step.exact)
        value, gradient = step.at(w)
        given = {"delta": delta, "kappa": step.kappa}
        short = law.gradient_accuracy_slack(gradient, w, step.z, lam=step.lam, **given)
        near = law.absolute_accuracy_slack(value - step.least, step.z, step.exact, **given)
        if max(short, near) >= 0:
            slacks.append(float(law.relative_accuracy_slack(value - step.least, w, step.z, **given)))
    return min(slacks, default=-np.inf)  # the nearest point always is


def _warm_start(sp: Any, rng: np.random.Generator) -> float:
    step = _Step(sp, rng)
    gap, L = step.at(step.z)[0] - step.least, step.objective.smoothness(step.mu) + step.lam
    return float(law.warm_start_slack(gap, step.z, step.exact, L=L, kappa=step.kappa))


LAWS = (
    Law("(27), Lemma 21", "alpha solves (27) and falls", "slack", _alpha, False),
    Law("Claim 23", "alpha, beta, gamma, eta fit together", "residual", _auxiliary, False),
    Law("Lemmas 52, 53", "products of 1 - alpha", "slack", _products, False),
    Law("Lemma 54", "log(k)/k is small from then on", "slack", _log_rate, False),
    Law("Lemma 49", "expected iterations, by Markov", "slack", _markov, False),
    Law("Claim 24", "distance from the prox center", "slack", _center, False),
    Law("Lemma 51", "three points", "slack", _three_points, False),
    Law("Lemma 22", "an approximate proximal step improves", "slack", _approximate_prox),
    Law("Lemma 25 (45)", "what a step does to the potential", "slack", _one_step),
    Law("Section 5.1, (26)", "criteria that imply (26)", "slack", _stopping),
    Law("Lemma 50", "the gap of a warm start", "slack", _warm_start),
)
