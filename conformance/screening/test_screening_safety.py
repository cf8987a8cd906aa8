"""Screening end to end is safe: what leaves while training is 0 at the optimum, also at ties and on chains; with and
without, the solution is one.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.listed_crf import classes, sequences
from conformance.listed_problems import (
    CHAINS,
    LISTED,
    collinear,
    random_classes,
    words,
    words_without_a_label,
)
from reference.screening.registry import feature_totals

ALPHA = 0.3


def rules(backend, listed):
    """Every rule, alone and together."""
    found = [backend.L1GapRule(), backend.CountRule()]
    if listed:
        found += [backend.L2GapRule(), backend.HalfSpaceRule(1, "random", 0), backend.HalfSpaceRule(2, "all")]
    return [*found, backend.UnionRule(*found)]


class Watched:
    """A rule, and the weights of the whole problem that it has removed."""

    def __init__(self, rule, size):
        self.rule, self.removed = rule, np.zeros(size, dtype=bool)

    def screen(self, state):
        screened = self.rule.screen(state)
        self.removed[np.asarray(state.problem.columns)[screened]] = True
        return screened


@pytest.mark.parametrize("make", LISTED + CHAINS, ids=lambda make: make.__name__)
def test_what_leaves_while_training_is_zero_at_the_optimum(backend, rng, make):
    objective, listed_at = make(backend, rng)
    for share in (0.7, 0.15):
        beta = share * backend.beta_max(objective)
        listed = listed_at(ALPHA, beta)
        best = listed.solve()
        theta = listed.theta(best)
        gap = listed.primal(best) + listed.dual(theta)
        assert gap <= 1e-10 * listed.primal(best)
        unsure = np.sqrt(2 * max(gap, 0.0) / (ALPHA * beta))  # of the listed optimum itself
        for rule in rules(backend, make in LISTED):
            watched = Watched(rule, listed.d)
            result = backend.solve_sparse(objective, alpha=ALPHA, beta=beta, tol=1e-8, rule=watched)
            assert result.success and np.sum(watched.removed) == listed.d - result.screenings[-1].kept
            assert np.all(np.abs(best[watched.removed]) <= unsure), rule
            assert not np.any(np.asarray(result.x)[watched.removed])


@pytest.mark.parametrize("make", [random_classes, collinear, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("tol", [1e-2, 1e-7])
def test_with_and_without_screening(backend, rng, make, tol):
    """Along a path: objectives within the gaps; weights within 2 sqrt(2 gap/(alpha beta)), and within 2
    r/(alpha beta), r the KKT residual.
    """
    objective, _ = make(backend, rng)
    options = {"alpha": ALPHA, "count": 3, "ratio": 0.2, "tol": tol, "solver": backend.AcceleratedProximalGradient()}
    plain = backend.sparse_path(objective, rule=None, **options)
    for rule in rules(backend, make in LISTED):
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
    for rule in rules(backend, not chains and alpha > 0) + ([] if chains else [backend.L2GapRule()]):
        for w in (best, 0.99 * best, (1 - 1e-7) * best, np.zeros(len(best))):
            assert not rule.screen(problem.evaluate(w))[tied], rule
        result = backend.solve_sparse(objective, alpha=alpha, beta=beta, tol=1e-12, rule=rule)
        assert result.success and abs(result.fun - state.fun) <= result.certificate + state.gap + 1e-13
        if alpha > 0:
            reach = np.sqrt(2 * result.certificate / (alpha * beta)) + np.sqrt(2 * state.gap / (alpha * beta))
            assert np.linalg.norm(np.asarray(result.x) - best) <= reach + 1e-7


@st.composite
def drawn_chains(draw):
    """Words of 0 to 3 positions with features of small integers, labels that may miss one of two or three, and
    whether there are boundaries.
    """
    L, F, entry = draw(st.integers(1, 3)), draw(st.integers(0, 2)), st.integers(-1, 2)
    X, Y = [], []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(0, 3))
        X.append(np.array(draw(st.lists(st.lists(entry, min_size=F, max_size=F), min_size=n, max_size=n)), float))
        X[-1] = X[-1].reshape(n, F)
        Y.append(np.array(draw(st.lists(st.integers(0, L - 1), min_size=n, max_size=n)), int))
    return X, Y, L, draw(st.booleans())


@given(
    drawn=drawn_chains(),
    share=st.sampled_from([0.9, 0.3, 0.05]),
    alpha=st.sampled_from([1.0, 0.03, 0.0]),
    seed=st.integers(0, 99),
)
def test_rules_on_drawn_chains(backend, drawn, share, alpha, seed):
    """Bounds hold |G_j(theta*)| of the listed optimum, from anywhere; what counts remove no weights at all could
    have needed.
    """
    X, Y, L, start_stop = drawn
    F = X[0].shape[1]
    model = backend.SequenceModel(F, L, start_stop=start_stop)
    objective = backend.LogLoss(model, model.pack(X, Y))
    assume((most := backend.beta_max(objective)) > 0)
    listed = sequences(X, Y, L, alpha, share * most, start_stop=start_stop)
    best = listed.solve(2000)
    theta = listed.theta(best)
    point = theta if alpha > 0 else listed.shrunken(theta)
    gap = max(listed.primal(best) + listed.dual(point), 1e-15)
    assume(gap <= 1e-9)
    reach = np.array([np.linalg.norm([np.ptp(A[j]) / 2 for A in listed.A]) for j in range(listed.d)])
    at_best, unsure = np.abs(listed.moment(point)), np.sqrt(2 * gap / listed.n) * reach + 1e-9
    problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=listed.beta)
    far = np.random.default_rng(seed).normal(size=listed.d)
    for w in (far, best, best + 1e-3 * far):
        state = problem.evaluate(w)
        for rule in (backend.L1GapRule(), backend.CountRule()):
            assert np.all(rule.bounds(state) >= at_best - unsure), rule
            assert not np.any(rule.screen(state) & (at_best > listed.beta + unsure)), rule
        assert np.all(np.abs(state.gradient) <= backend.CountRule().bounds(state))


def test_a_rule_that_forgets_half_of_its_counts_would_be_caught(backend, rng):
    """Of each half of the bound there is a problem in which the other alone is below |G_j(theta*)|."""
    for sign in (1.0, -1.0):
        X = sign * np.array([[1.0], [1.0], [1.0], [0.0]])
        for Y in ([0, 0, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1]):
            model = backend.MulticlassModel(1, 2)
            data = model.pack(X, Y)
            objective = backend.LogLoss(model, data)
            least, most = feature_totals(model, data)
            gold = np.array([np.sum(X[np.array(Y) == c]) for c in range(2)])
            bounds = backend.CountRule().bounds(
                backend.ElasticNetCRF(objective, alpha=1.0, beta=0.1).evaluate(np.zeros(2))
            )
            np.testing.assert_allclose(bounds, np.maximum(most - gold, gold - least) / 4, rtol=1e-9)
            steepest = [np.abs(objective.value_and_gradient(np.array([a, -a]))[1]) for a in (-40.0, 40.0)]
            np.testing.assert_allclose(np.max(steepest, axis=0), bounds, rtol=1e-9)  # the bound is reached


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
        for rule in rules(backend, True):
            result = backend.solve_sparse(objective, beta=beta, tol=1e-12, rule=rule)
            best = classes(x, [1], L, 1.0, beta).solve() if best is None else best
            reach = 2 * np.sqrt(2 * result.certificate / beta)
            assert result.success and np.linalg.norm(np.asarray(result.x) - best) <= reach + 1e-7
