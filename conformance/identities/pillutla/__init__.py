"""Laws of Pillutla et al.: smoothing, the simplex, the oracles, prox-linear steps; the algorithm's are in
``casimir``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.identities import Law
from conformance.identities.pillutla import casimir
from conformance.sines import exact_step, sines
from reference import bounds
from reference.arrays import host
from reference.identities import pillutla as law
from reference.linearized import LinearizedObjective

__all__ = ["LAWS", "casimir"]

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
    """F_eta = (c/2) ||z||^2 with c = lam + 1/eta: a gap of v'v/(2 c) where the gradient is v, and the longest v
    allowed.
    """
    lam, eta, v = rng.uniform(0, 1), rng.uniform(0.1, 2.0), rng.normal(size=3)
    gap = v @ v / (2 * (lam + 1 / eta))
    return law.inexactness_slack(v, lam=lam, eta=eta, tolerance=gap)


LAWS = (
    Law("Prop. 4 (12)", "top-K is exact exactly for mu <= bound", "residual", _top_k_exactness),
    Law("(2)", "operator norms", "slack", _norm, False),
    Law("Definition 1", "h(z) = max <u, z> - mu omega(u)", "slack", _fenchel_young),
    Law("Props. 2 and 39", "smoothings differ by their width", "slack", _widths),
    Law("Proposition 2", "gradients of h are 1/mu-Lipschitz", "slack", _lipschitz),
    Law("Lemma 40", "h of an affine map is smooth", "slack", _composition),
    Law("Proposition 3", "sparse projection in closed form", "residual", _projection),
    Law("Lemma 7 (i)", "oracles answer subgradients", "slack", _subgradient),
    Law("Lemma 7 (ii)", "exp oracle = log-sum-exp of outputs", "residual", _exp_oracle),
    Law("Lemma 7 (iii)", "top-K oracle = its K best outputs", "residual", _top_k_oracle),
    Law("Lemma 34", "the linearised hinge is near the hinge", "slack", _linearization),
    Law("Section 6.1.1", "a short subgradient proves a gap", "residual", _inexactness, False),
    Law("Theorem 35", "descent of a prox-linear step", "slack", _descent),
)
