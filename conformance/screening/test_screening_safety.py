"""Screening end to end is safe: what leaves while training is 0 at the optimum, also at ties and on chains; with and
without, the solution is one.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.listed_crf import classes, sequences
from conformance.specimens.rules import LISTED, collinear, random_classes, rules, words, words_without_a_label

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
    if chains:
        lengths, L = (2, 3, 3, 1), 2
        X, Y = [rng.normal(size=(n, 3)) for n in lengths], [rng.integers(0, L, n) for n in lengths]
        columns = [x[:, 2] for x in X]
    else:
        L, Y = 3, rng.integers(0, 3, 9)
        X = rng.normal(size=(9, 3))
        columns = [X[:, 2]]

    def made(scale):
        for column, x in zip(columns, (x[:, 2] for x in X) if chains else (X[:, 2],), strict=True):
            x[:] = scale * column
        model = backend.SequenceModel(3, L, start_stop=False) if chains else backend.MulticlassModel(3, L)
        return backend.LogLoss(model, model.pack(X, Y))

    columns = [column.copy() for column in columns]
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


@pytest.mark.parametrize("make", [words, words_without_a_label], ids=lambda make: make.__name__)
def test_counts_on_chains_leave_the_solution(backend, rng, make):
    """A path with a feature that never fires and one that fires once: both leave at once, and the solution is that
    of the rest.
    """
    base, _ = make(backend, rng)
    lengths = base.data.lengths
    X = [np.concatenate([rng.normal(size=(n, 1)), np.zeros((n, 2))], axis=1) for n in lengths]
    next(x for x in X if len(x) > 1)[1, 1] = 0.01
    L = base.model.n_labels
    Y = [rng.integers(0, L, n) for n in lengths]
    model = backend.SequenceModel(3, L)
    objective = backend.LogLoss(model, model.pack(X, Y))
    beta = 0.2 * backend.beta_max(objective)
    state = backend.ElasticNetCRF(objective, alpha=1.0, beta=beta).evaluate(np.zeros(model.size))
    assert np.all(backend.CountRule().screen(state)[L : 3 * L])
    best = sequences(X, Y, L, 1.0, beta).solve()
    result = backend.solve_sparse(objective, beta=beta, tol=1e-10, rule=backend.CountRule())
    assert result.screenings[0].iteration == 0 and result.screenings[0].kept <= model.size - 2 * L
    assert np.linalg.norm(np.asarray(result.x) - best) <= 2 * np.sqrt(2 * result.certificate / beta) + 1e-7


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_same_example_many_times(backend, rng, share):
    """n copies are one example: the optimum is that of n = 1, and rules remove no weight of it."""
    x, L = rng.normal(size=(1, 4)), 3
    best = None
    for n in (1, 7):
        model = backend.MulticlassModel(4, L)
        objective = backend.LogLoss(model, model.pack(np.repeat(x, n, axis=0), [1] * n))
        beta = share * backend.beta_max(objective) * (1 - 1e-12)
        for rule in together(backend, True, 1.0):
            result = backend.solve_sparse(objective, beta=beta, tol=1e-12, rule=rule)
            best = classes(x, [1], L, 1.0, beta).solve() if best is None else best
            reach = 2 * np.sqrt(2 * result.certificate / beta)
            assert result.success and np.linalg.norm(np.asarray(result.x) - best) <= reach + 1e-7
