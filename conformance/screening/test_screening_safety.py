"""Screening end to end is safe: what leaves while training is 0 at the optimum, also at ties and on chains; with and
without, the solution is one.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.models import classes, labellings
from conformance.specimens.rules import LISTED, collinear, random_classes, rules, words

ALPHA = 0.3


def together(backend, listed, alpha):
    """Every rule, alone and together."""
    found = rules(backend, listed, alpha)
    return [*found, backend.UnionRule(*found)]


@pytest.mark.parametrize("make", [random_classes, collinear, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("tol", [1e-2, 1e-7])
def test_with_and_without_screening(backend, rng, make, tol):
    """Along a path: objectives within the gaps; weights within 2 sqrt(2 gap/(alpha beta)), and within 2
    r/(alpha beta), r the KKT residual.
    """
    objective, _ = make(backend, rng)
    options = {"alpha": ALPHA, "count": 3, "ratio": 0.2, "tol": tol, "solver": backend.AcceleratedProximalGradient()}
    plain = backend.sparse_path(objective, rule=None, **options)
    for rule in together(backend, make in LISTED, ALPHA):
        path = backend.sparse_path(objective, rule=rule, **options)
        for k, (one, other) in enumerate(zip(path.points, plain.points, strict=True)):
            gap, slack = max(one.gap, other.gap), 1e-13 * (1 + other.fun)
            assert one.success and abs(one.fun - other.fun) <= gap + slack
            far = float(np.linalg.norm(np.asarray(path.weights(k)) - np.asarray(plain.weights(k))))
            assert far <= 2 * np.sqrt(2 * (gap + slack) / (ALPHA * one.beta))
            problem = backend.ElasticNetCRF(objective, alpha=ALPHA, beta=one.beta)
            states = [problem.evaluate(p.weights(k)) for p in (path, plain)]
            r = max(float(np.linalg.norm(problem.residual(s.w, s.gradient))) for s in states)
            assert far <= 2 * (r + 1e-13) / (ALPHA * one.beta)


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("chains", [False, True])
def test_ties_at_beta_with_others_in_the_support(backend, rng, alpha, chains):
    """A feature scaled until |G_j(theta*)| is beta, w*_j = 0: no rule removes it, at the optimum or on the way, and
    all agree on the rest.
    """
    L, lengths = 2 if chains else 3, (2, 3, 3, 1)
    Y = [rng.integers(0, L, n) for n in lengths] if chains else rng.integers(0, L, 9)
    X = [rng.normal(size=(n, 3)) for n in lengths] if chains else rng.normal(size=(9, 3))

    def made(scale):
        scaled = [x * [1.0, 1.0, scale] for x in X]
        problem = labellings(scaled, Y, 3, L, start_stop=False) if chains else classes(np.array(scaled), Y, L)
        return backend.LogLoss(*problem.packed(backend))

    without = made(0.0)
    beta = 0.3 * backend.beta_max(without)
    best = np.asarray(backend.solve_sparse(without, alpha=alpha, beta=beta, tol=1e-14, rule=None).x)
    assert np.any(best) and not np.any(best[2 * L : 3 * L])
    _, gradient = made(1.0).value_and_gradient(best)
    tied = 2 * L + int(np.argmax(np.abs(gradient[2 * L : 3 * L])))
    objective = made(beta / abs(gradient[tied]))
    problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=beta)
    state = problem.evaluate(best)
    np.testing.assert_allclose(abs(state.gradient[tied]), beta, rtol=1e-13)
    for rule in together(backend, not chains, alpha):
        for w in (best, 0.99 * best, (1 - 1e-7) * best, np.zeros(len(best))):
            assert not rule.screen(problem.evaluate(w))[tied], rule
        result = backend.solve_sparse(objective, alpha=alpha, beta=beta, tol=1e-12, rule=rule)
        assert result.success and abs(result.fun - state.fun) <= result.certificate + state.gap + 1e-13
        if alpha > 0:
            reach = np.sqrt(2 * result.certificate / (alpha * beta)) + np.sqrt(2 * state.gap / (alpha * beta))
            assert np.linalg.norm(np.asarray(result.x) - best) <= reach + 1e-7
