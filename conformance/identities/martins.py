"""Laws of Martins et al.: proximity operators and the norms of kernel groups. Numbers are those of the 2010 paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.identities import Law
from reference.identities import martins as law

__all__ = ["LAWS"]

GROUPS = [[0, 3], [1], [2, 4]]


def _regularizer(sp: Any, rng: np.random.Generator) -> Any:
    """One of each family: norms, squared norms, balls, groups, compositions; of 5 coordinates."""
    c, d = rng.uniform(0.2, 2.0, 2)
    kinds = (
        lambda: sp.L1(c),
        lambda: sp.SquaredL1(c),
        lambda: sp.L1Ball(c),
        lambda: sp.HalfSquaredL2(c),
        lambda: sp.Simplex(c),
        lambda: sp.L21(c, GROUPS),
        lambda: sp.SquaredL21(c, GROUPS),
        lambda: sp.ElasticNet(sp.L1(c), d),
        lambda: sp.SparseGroupLasso(c, GROUPS, d),
    )
    return kinds[rng.integers(len(kinds))]()


def _moreau(sp: Any, rng: np.random.Generator) -> float:
    x, step = 2 * rng.normal(size=(4, 5)), rng.uniform(0.3, 3.0)
    every = sp.L1(step), sp.SquaredL21(step, GROUPS), _regularizer(sp, rng)
    return max(float(np.max(np.abs(law.moreau(phi, x, step)))) for phi in every)


def _envelopes(sp: Any, rng: np.random.Generator) -> float:
    x, step = 2 * rng.normal(size=(4, 5)), rng.uniform(0.3, 3.0)
    return np.max(np.abs(law.moreau_envelopes(_regularizer(sp, rng), x, step))) / (1 + np.sum(x * x))


def _lemma_7(sp: Any, rng: np.random.Generator) -> float:
    phi, x, y = _regularizer(sp, rng), *2 * rng.normal(size=(2, 5))
    return min(float(law.lemma_7(phi, x, other)) for other in _others(phi, x, y))


def _corollary_3(sp: Any, rng: np.random.Generator) -> float:
    phi, x, y = sp.L1(rng.uniform(0.2, 2.0)), *2 * rng.normal(size=(2, 5))
    slacks = [law.corollary_3(phi, x, other) for other in _others(phi, x, y)]
    phi = _regularizer(sp, rng)
    return float(min(*slacks, *(law.corollary_3_sharper(phi, x, other) for other in _others(phi, x, y))))


def _others(phi: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Points far from prox(x) and near it, of which one is in the domain."""
    return y, phi.prox(y), phi.prox(x) + 1e-4 * y


def _proposition_1(sp: Any, rng: np.random.Generator) -> float:
    x, c = 2 * rng.normal(size=5), rng.uniform(0.2, 2.0)
    pairs = ((sp.SquaredL21(c, GROUPS), sp.SquaredL1(c)), (sp.L21(c, GROUPS), sp.L1(c)))
    off = [law.proposition_1(*pair, GROUPS, x) for pair in pairs]
    return max(
        np.max(np.abs(off)), *(abs(law.proposition_1_envelope(*pair, GROUPS, x)) / (1 + x @ x) for pair in pairs)
    )


def _equation_6(sp: Any, rng: np.random.Generator) -> float:
    norms = np.abs(rng.normal(size=4))
    return min(float(law.equation_6(norms, beta)) for beta in (*rng.dirichlet(np.ones(4), 5), norms / norms.sum()))


def _equation_17(sp: Any, rng: np.random.Generator) -> float:
    theta, u, v = rng.normal(size=(3, 3, 4))
    step = rng.uniform(0.1, 2.0)
    before, after = np.sum(theta**2, axis=1), np.sum((theta - step * (v - u)) ** 2, axis=1)
    right, wrong = np.sum(theta * u, axis=1), np.sum(theta * v, axis=1)
    kernels = (np.sum(u * u, axis=1), np.sum(v * v, axis=1), np.sum(u * v, axis=1))
    return np.max(np.abs(law.equation_17(before, after, right, wrong, kernels, step))) / after.max()


def _expansion(sp: Any, rng: np.random.Generator) -> float:
    """Rounds of Algorithm 3 on explicit features: a step for each group, then the prox of the groups' norms."""
    T, phi = 5, sp.SquaredL1(rng.uniform(0.05, 0.5))
    moves, steps = rng.normal(size=(T, 3, 4)), rng.uniform(0.2, 1.0, T)
    theta, factors = np.zeros((3, 4)), np.zeros((T, 3))
    for t in range(T):
        theta = theta - steps[t] * moves[t]
        norms = np.linalg.norm(theta, axis=1)
        factors[t] = np.asarray(phi.prox(norms, steps[t])) / norms
        theta = factors[t][:, None] * theta
    alpha = np.stack([law.kernel_expansion(steps, factors[:, k]) for k in range(3)], axis=1)
    return np.max(np.abs(theta - np.einsum("tk,tkd->kd", alpha, -moves)))


def _weighted(sp: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """d > 0, x0, lam, and the prox of (lam/2) (sum_m d_m |x_m|)^2 at x0."""
    d, x0, lam = rng.uniform(0.3, 2.0, 6), rng.normal(size=6), rng.uniform(0.2, 3.0)
    return d, x0, lam, sp.prox_weighted_squared_l1(x0, d, lam)


def _lemma_9(sp: Any, rng: np.random.Generator) -> float:
    d, x0, lam, x = _weighted(sp, rng)
    flips = law.lemma_9_flips(sp.WeightedSquaredL1(lam, d), x0, rng.choice([-1.0, 1.0], 6))
    return min(float(law.lemma_9_signs(x0, x)), -np.max(np.abs(flips)))


def _lemma_10(sp: Any, rng: np.random.Generator) -> float:
    d, x0, _, x = _weighted(sp, rng)
    return float(law.lemma_10(d, x0, x))


def _exchange(sp: Any, rng: np.random.Generator) -> float:
    a, (u_j, u_k, eps) = np.sort(rng.uniform(0.2, 2.0, 2)), rng.uniform(0.1, 1.0, 3)
    return law.lemma_10_exchange(*a, u_j, u_k, eps)


def _proposition_11(sp: Any, rng: np.random.Generator) -> float:
    d, x0, lam, x = _weighted(sp, rng)
    return max(abs(float(law.proposition_11(d, x0, x, lam))), abs(float(law.equation_34(d, x0, x, lam))))


LAWS = (
    Law("Proposition 2 (8)", "Moreau decomposition", "m-proposition-2", "residual", _moreau),
    Law("Proposition 2 (8)", "Moreau envelopes add to ||x||^2/2", "m-proposition-2", "residual", _envelopes),
    Law("Corollary 3 (9)", "the prox is nearer, in value or distance", "m-corollary-3", "slack", _corollary_3),
    Law("Lemma 7 (19)", "x - prox(x) is a subgradient at prox(x)", "m-lemma-7", "slack", _lemma_7),
    Law("Proposition 1", "prox and envelope of groups by norms", "m-proposition-1", "residual", _proposition_1),
    Law("(5) to (7)", "weights of kernels and sum of norms", "m-5-to-7", "slack", _equation_6, False),
    Law("Lemma 9", "the prox keeps signs, and flips with x", "m-lemma-9", "slack", _lemma_9),
    Law("Lemma 10", "coordinates vanish in order of |x|/d", "m-lemma-10", "slack", _lemma_10),
    Law("Lemma 10, proof", "what an exchange gains", "m-lemma-10", "residual", _exchange, False),
    Law("Prop. 11, (34)", "split point, threshold of the prox", "m-proposition-11 m-34", "residual", _proposition_11),
    Law("(17)", "norms of groups after a step", "m-17", "residual", _equation_17, False),
    Law("Section 3.4", "kernel expansion of the weights", "m-section-3-4-kernel-expansion", "residual", _expansion),
)
