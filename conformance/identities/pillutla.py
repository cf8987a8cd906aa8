"""Laws of Pillutla et al.: smoothing, the simplex, the oracles, prox-linear steps; then those of Algorithm 4: its
sequences, and what one outer iteration does.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import minimize

from conformance.identities import Law
from conformance.sines import exact_step, sines
from reference import bounds
from reference.arrays import host
from reference.bounds.casimir import GOLDEN
from reference.identities import pillutla as law
from reference.linearized import LinearizedObjective

__all__ = ["LAWS"]

KINDS = ((1, law.negative_entropy, bounds.entropy_width), (2, law.centred_squared_l2, bounds.squared_l2_width))


def _smooth(sp: Any, alpha: int, z: np.ndarray, mu: float) -> tuple[float, np.ndarray]:
    """Value and gradient of the smoothed max of m scores; alpha 1: entropy, 2: squared l2."""
    value, gradient = (sp.smoothings.Entropy() if alpha == 1 else sp.smoothings.SquaredL2())(sp.Table(z), mu)
    return float(value), np.asarray(gradient.values)


def _norm(sp: Any, rng: np.random.Generator) -> float:
    A, x, y = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=4)
    return min(float(law.operator_norm_slack(A, x, y, alpha)) for alpha in (1, 2))


def _fenchel_young(sp: Any, rng: np.random.Generator) -> float:
    z, mu, slacks = rng.normal(size=5), rng.uniform(0.1, 2.0), []
    for alpha, omega, _ in KINDS:
        value, u = _smooth(sp, alpha, z, mu)
        slacks.append(-abs(float(law.fenchel_young_slack(value, z, u, mu, omega))))  # 0 at its gradient
        slacks += [float(law.fenchel_young_slack(value, z, v, mu, omega)) for v in rng.dirichlet(np.ones(5), 5)]
    return min(slacks)


def _widths(sp: Any, rng: np.random.Generator) -> float:
    z, (low, high), slacks = rng.normal(size=5), np.sort(rng.uniform(0.1, 2.0, 2)), []
    for alpha, _, width in KINDS:
        values = (_smooth(sp, alpha, z, mu)[0] for mu in (high, low))
        slacks += law.width_slacks(*values, high, low, lowest=-width(5))
    return float(min(slacks))


def _lipschitz(sp: Any, rng: np.random.Generator) -> float:
    z, other, mu = rng.normal(size=5), rng.normal(size=5), rng.uniform(0.1, 2.0)
    gradients = ((alpha, *(_smooth(sp, alpha, x, mu)[1] for x in (z, other))) for alpha, _, _ in KINDS)
    return min(float(law.lipschitz_slack(z, other, u, v, mu, alpha)) for alpha, u, v in gradients)


def _composition(sp: Any, rng: np.random.Generator) -> float:
    A, b, (w, other), mu = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(2, 3)), rng.uniform(0.1, 2.0)
    gradients = ((alpha, *(_smooth(sp, alpha, A @ x + b, mu)[1] for x in (w, other))) for alpha, _, _ in KINDS)
    return min(float(law.composition_slack(A, w, other, u, v, mu, alpha)) for alpha, u, v in gradients)


def _projection(sp: Any, rng: np.random.Generator) -> float:
    z, mu = rng.normal(size=6), rng.uniform(0.1, 3.0)
    k = law.sparsity(z, mu)
    if not all(slack >= 0 for slack in law.sparsity_slacks(z, mu, int(k))):
        return np.inf
    return np.max(np.abs(_smooth(sp, 2, z, mu)[1] - law.sparse_projection(z, mu, k)))


def _chain(sp: Any, rng: np.random.Generator) -> tuple[Any, np.ndarray, np.ndarray]:
    """A chain, the scores (m,) of its outputs and their parts (m, d)."""
    chain = sp.Chain(rng.normal(size=(3, 3)), rng.normal(size=(3, 3)))
    outputs = list(chain.enumerate())
    scores = np.array([float(chain.score(y)) for y in outputs])
    return chain, scores, np.array([_flat(chain.parts(y)) for y in outputs])


def _flat(parts: Any) -> np.ndarray:
    return np.concatenate([np.ravel(host(x)) for x in (parts.unary, parts.pairwise)])


def _top_k_exactness(sp: Any, rng: np.random.Generator) -> float:
    """Top-K smoothing of a chain against squared l2 over all its outputs: equal exactly where the slack is >= 0."""
    (chain, psi, parts), K = _chain(sp, rng), int(rng.integers(1, 9))
    largest = float(law.exactness_slack(psi, 0.0, K))
    off = []
    for mu, exact in ((0.7 * largest, True), (largest, True), (2.0 * largest, False)):
        value, gradient = sp.smoothings.TopK(K)(chain, mu)
        expected, u = _smooth(sp, 2, psi, mu)
        difference = max(abs(float(value) - expected), np.max(np.abs(_flat(gradient) - u @ parts)))
        off.append(difference if exact else float(difference < 1e-6))
    return max(off)


def _subgradient(sp: Any, rng: np.random.Generator) -> float:
    (chain, *_), (other, *_), mu = _chain(sp, rng), _chain(sp, rng), rng.uniform(0.1, 2.0)
    slacks = []
    for smoothing, level in ((sp.smoothings.Max(), 0.0), (sp.smoothings.Entropy(), mu)):
        value, v = smoothing(chain, level)
        there, _ = smoothing(other, level)
        slacks.append(law.subgradient_slack(value, _flat(v), _flat(chain.scores), there, _flat(other.scores)))
    return float(min(slacks))


def _exp_oracle(sp: Any, rng: np.random.Generator) -> float:
    (chain, psi, parts), mu = _chain(sp, rng), rng.uniform(0.1, 2.0)
    value, v = sp.smoothings.Entropy()(chain, mu)
    return max(np.max(np.abs(x)) for x in law.exp_oracle_residuals(value, _flat(v), psi, parts, mu))


def _top_k_oracle(sp: Any, rng: np.random.Generator) -> float:
    (chain, psi, parts), mu, K = _chain(sp, rng), rng.uniform(0.1, 2.0), int(rng.integers(1, 9))
    value, v = sp.smoothings.TopK(K)(chain, mu)
    best = np.argsort(-psi)[:K]
    return max(np.max(np.abs(x)) for x in law.top_k_residuals(value, _flat(v), psi[best], parts[best], mu))


def _sines(sp: Any, rng: np.random.Generator) -> tuple[Any, float]:
    """A hinge of smooth nonlinear scores, and the L of its augmented scores."""
    model, data = sines(sp, rng, n=3, m=3, d=2)
    return sp.StructuralHinge(model, data, smoothing=sp.smoothings.Entropy()), model.smoothness(data)


def _linearization(sp: Any, rng: np.random.Generator) -> float:
    (objective, L), (w, z) = _sines(sp, rng), rng.normal(size=(2, 2))
    near = LinearizedObjective(objective, w)
    pairs = (
        (objective.value_and_gradient(w + z, None, mu)[0], near.value_and_gradient(z, None, mu)[0]) for mu in (0, 0.5)
    )
    return min(law.linearization_slack(float(value), float(model), z, L) for value, model in pairs)


def _descent(sp: Any, rng: np.random.Generator) -> float:
    (objective, L), w, lam, accuracy = _sines(sp, rng), 2 * rng.normal(size=2), 0.2, 1e-6
    exact, _ = exact_step(objective, w, lam, 1 / L)  # solved to the accuracy
    before, after = (float(objective.value_and_gradient(x, None, 0.0)[0]) + lam / 2 * x @ x for x in (w, exact))
    return law.prox_linear_descent_slack(before, after, w, exact, eta=1 / L, tolerance=accuracy)


def _inexactness(sp: Any, rng: np.random.Generator) -> float:
    """F_eta = (c/2) ||z||^2 with c = lam + 1/eta: a gap of v'v/(2 c) where the gradient is v, the longest allowed."""
    lam, eta, v = rng.uniform(0, 1), rng.uniform(0.1, 2.0), rng.normal(size=3)
    gap = v @ v / (2 * (lam + 1 / eta))
    return law.inexactness_slack(v, lam=lam, eta=eta, tolerance=gap)


# Algorithm 4 ----------------------------------------------------------------------------------------------------------


def _next(rng: np.random.Generator, lam: float = 0.0, kappa: float = 0.0) -> tuple[float, float, float, float, float]:
    """alpha_{k-1}, alpha_k, lam, kappa_k and kappa_{k+1} as Lemma 21 admits them."""
    lam, kappa, growth = lam or rng.uniform(0.01, 2.0), kappa or rng.uniform(0.1, 10.0), rng.uniform(1.0, 3.0)
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
    alpha, alpha_next, lam, kappa, kappa_next = _next(rng, step.lam, step.kappa)
    gamma_next = (kappa + lam) * alpha * alpha
    gamma = (gamma_next - lam * alpha) / (1 - alpha)  # (38)
    eta = alpha * gamma / (gamma_next + alpha * gamma)  # (36)
    _, _, eta_next = law.auxiliary(alpha, alpha_next, lam, kappa, kappa_next)
    step.solve(eta * v_before + (1 - eta) * w_before)
    v, mu_before = w_before + (step.w - w_before) / alpha, step.mu * rng.uniform(1.0, 2.0)
    gaps = [step.value(w, mu) - step.value(optimum, mu) for w, mu in ((w_before, mu_before), (step.w, step.mu))]
    S_before = law.potential(gaps[0], v_before, optimum, alpha=alpha, eta=eta, kappa_next=kappa)
    S = law.potential(gaps[1], v, optimum, alpha=alpha_next, eta=eta_next, kappa_next=kappa_next)
    letters = {"alpha": alpha_next, "eta": eta_next, "kappa": kappa, "kappa_next": kappa_next}
    letters |= {"theta": rng.uniform(0.05, 0.95), "accuracy": step.gap, "smoothing": (mu_before - step.mu) * step.D}
    return float(law.one_step_slack(S_before, S, v, optimum, step.w - step.z, **letters))


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
    Law("Prop. 4 (12)", "top-K is exact exactly for mu <= bound", "p-proposition-4", "residual", _top_k_exactness),
    Law("(2)", "operator norms", "p-2-65 p-remark-28", "slack", _norm, False),
    Law("Definition 1", "h(z) = max <u, z> - mu omega(u)", "p-definition-1", "slack", _fenchel_young),
    Law("Props. 2, 39", "smoothings differ by width", "p-proposition-39 p-section-2-3-1-squared-l2", "slack", _widths),
    Law("Proposition 2", "gradients of h are 1/mu-Lipschitz", "p-proposition-2", "slack", _lipschitz),
    Law("Lemma 40", "h of an affine map is smooth", "p-lemma-40", "slack", _composition),
    Law("Proposition 3", "sparse projection in closed form", "p-proposition-3", "residual", _projection),
    Law("Lemma 7 (i)", "oracles answer subgradients", "p-lemma-7-i", "slack", _subgradient),
    Law("Lemma 7 (ii)", "exp oracle = log-sum-exp of outputs", "p-lemma-7-ii p-proposition-9", "residual", _exp_oracle),
    Law("Lemma 7 (iii)", "top-K oracle = its K best outputs", "p-lemma-7-iii", "residual", _top_k_oracle),
    Law("Lemma 34", "the linearised hinge is near the hinge", "p-lemma-34 p-assumption-33", "slack", _linearization),
    Law("Section 6.1.1", "a short subgradient proves a gap", "p-section-6-1-1", "residual", _inexactness, False),
    Law("Theorem 35", "descent of a prox-linear step", "p-theorem-35", "slack", _descent),
    Law("(27), Lemma 21", "alpha solves (27) and falls", "p-27-74 p-lemma-21", "slack", _alpha, False),
    Law("Claim 23", "alpha, beta, gamma, eta fit together", "p-claim-23 p-28-29", "residual", _auxiliary, False),
    Law("Lemmas 52, 53", "products of 1 - alpha", "p-lemma-52 p-lemma-53", "slack", _products, False),
    Law("Lemma 54", "log(k)/k is small from then on", "p-lemma-54", "slack", _log_rate, False),
    Law("Lemma 49", "expected iterations, by Markov", "p-lemma-49 p-proposition-27", "slack", _markov, False),
    Law("Claim 24", "distance from the prox center", "p-claim-24", "slack", _center, False),
    Law("Lemma 51", "three points", "p-lemma-51", "slack", _three_points, False),
    Law("Lemma 22", "an approximate proximal step improves", "p-lemma-22", "slack", _approximate_prox),
    Law("Lemma 25 (45)", "what a step does to the potential", "p-lemma-25", "slack", _one_step),
    Law("Section 5.1, (26)", "criteria that imply (26)", "p-section-5-1-26", "slack", _stopping),
    Law("Lemma 50", "the gap of a warm start", "p-lemma-50", "slack", _warm_start),
)
