"""Laws of Zhang and Qiu: the dual of the elastic-net CRF, the sets that hold its optimum, and screening by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.identities import Law
from conformance.listed_crf import ListedCRF, as_list_model
from reference.screening.half_space import dual_ball, smallest_on_ball_and_half_space

__all__ = ["LAWS"]


def _listed(rng: np.random.Generator) -> ListedCRF:
    """Four examples with two to four outputs and five features; beta between the extremes."""
    A = [rng.normal(size=(5, m)) * (np.arange(m) > 0) for m in (2, 3, 4, 3)]
    uniform = [np.full(a.shape[1], 1 / a.shape[1]) for a in A]
    listed = ListedCRF(A, [0] * 4, rng.uniform(0.2, 1.0), 1.0)
    listed.beta = rng.uniform(0.3, 0.9) * float(np.max(np.abs(listed.moment(uniform))))
    return listed


def _problem(sp: Any, listed: ListedCRF) -> Any:
    return sp.ElasticNetCRF(as_list_model(sp, listed), alpha=listed.alpha, beta=listed.beta)


def _any_theta(listed: ListedCRF, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.dirichlet(np.ones(a.shape[1])) for a in listed.A]


def _flat(theta: list[np.ndarray]) -> np.ndarray:
    """The paper's coordinates, without each example's last output."""
    return np.concatenate([t[:-1] for t in theta])


def _gap(sp: Any, rng: np.random.Generator) -> float:
    listed, w = _listed(rng), rng.normal(size=5)
    return float(_problem(sp, listed).evaluate(w).gap - listed.primal(w) - listed.dual(listed.theta(w)))


def _weak_duality(sp: Any, rng: np.random.Generator) -> float:
    listed = _listed(rng)
    state = _problem(sp, listed).evaluate(rng.normal(size=5))
    least = min(listed.dual(_any_theta(listed, rng)) for _ in range(20))
    return float(state.fun - -least)


def _lemma_2(sp: Any, rng: np.random.Generator) -> float:
    listed = _listed(rng)
    one, two = _any_theta(listed, rng), _any_theta(listed, rng)
    moved = _flat(two) - _flat(one)
    slope = float(np.concatenate(listed.dual_gradient(one)) @ moved)
    return float(listed.dual(two) - listed.dual(one) - slope - moved @ moved / listed.n)


def _lemma_3(sp: Any, rng: np.random.Generator) -> float:
    listed = _listed(rng)
    best, one, two = listed.theta(listed.solve()), _any_theta(listed, rng), _any_theta(listed, rng)
    n, g, least = listed.n, np.concatenate(listed.dual_gradient(one)), listed.dual(best)
    first, second = n * g @ g - 2 * (listed.dual(one) - least), listed.dual(two) - least
    off = _flat(best) - (_flat(one) - n * g)
    return float(min(first, second, n * first + 2 * n * second - off @ off))


def _theorem_3(sp: Any, rng: np.random.Generator) -> float:
    listed, modulus = _listed(rng), int(rng.integers(1, 3))
    best = listed.solve()

    def inside(w: np.ndarray) -> float:
        theta, ball = listed.theta(w), dual_ball(_problem(sp, listed).evaluate(w), modulus)
        centre = _flat(theta) - listed.n / modulus * np.concatenate(listed.dual_gradient(theta))
        return float(ball.radius - np.linalg.norm(_flat(listed.theta(best)) - centre))

    return min(inside(best + 0.1 * rng.normal(size=5)), inside(rng.normal(size=5)))


def _theorem_4(sp: Any, rng: np.random.Generator) -> float:
    """No drawn point of the ball's surface that lies in the half-space, or is moved into it, is lower."""
    b, p, centre = rng.normal(size=(3, 3))
    r, over = rng.uniform(0.5, 2.0), rng.uniform(-1.2, 0.9)
    c = float(p @ centre - over * r * np.linalg.norm(p))
    value = smallest_on_ball_and_half_space(b, p, c, centre, r)
    points = centre + r * (lambda u: u / np.linalg.norm(u, axis=1, keepdims=True))(rng.normal(size=(400, 3)))
    deepest = centre - r * p / np.linalg.norm(p)
    beyond = np.maximum(points @ p - c, 0.0)
    share = beyond / (beyond + c - deepest @ p)  # the way to the deepest point, until the half-space begins
    return float(np.min((points + share[:, None] * (deepest - points)) @ b) - value)


def _screened(sp: Any, rng: np.random.Generator) -> float:
    """beta less the largest |G_j(theta*)| of what is screened at points near the optimum."""
    listed, best = (found := _listed(rng)), found.solve()
    G, screened = np.abs(listed.moment(listed.theta(best))), [0.0]
    for distance in (1e-4, 1e-2, 0.1):
        state = _problem(sp, listed).evaluate(best + distance * rng.normal(size=5))
        for rule in (sp.L1GapRule(), sp.L2GapRule(), sp.HalfSpaceRule(2, "all")):
            screened += list(G[rule.screen(state)])
    return float(listed.beta - max(screened))


LAWS = (
    Law("Theorem 1 (i)", "the gap is P + D", "z-theorem-1-i-d", "residual", _gap),
    Law("Theorem 1 (i)", "weak duality", "z-theorem-1-i-d", "slack", _weak_duality),
    Law("Lemma 2", "strong convexity of D, by 2/n", "z-lemma-2", "slack", _lemma_2, False),
    Law("Lemma 3", "a ball around theta*", "z-lemma-3", "slack", _lemma_3, False),
    Law("Theorem 3", "the ball of one point", "z-theorem-3", "slack", _theorem_3),
    Law("(4), Theorem 4", "least on a ball and a half-space", "z-4-theorem-4", "slack", _theorem_4, False),
    Law("(R), Theorem 5", "what is screened is 0 at the optimum", "z-r-r z-theorem-5", "slack", _screened),
)
