"""The elastic-net CRF: primal, dual, gap and optimality against listed outputs."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.listed_crf import as_list_model, soft_threshold
from conformance.specimens.rules import ALPHAS, WRONG, every_problem, feasible, random_classes, random_list, words
from conformance.tolerances import close


def problems(backend, make, rng, alpha, share):
    """The problem at this share of beta_max, and beside it the same listed."""
    objective, listed_at = make(backend, rng)
    beta = share * backend.beta_max(objective)
    return backend.ElasticNetCRF(objective, alpha=alpha, beta=beta), listed_at(alpha, beta)


@pytest.mark.parametrize("alpha", ALPHAS)
@every_problem
def test_primal_dual_and_gap_are_their_definitions(backend, make, rng, alpha):
    """And weak duality: P(w) >= -D(theta) for any w and any feasible theta."""
    problem, listed = problems(backend, make, rng, alpha, 0.3)
    scale = 1 / np.max(np.abs(listed.A[0]))
    for w in (np.zeros(listed.d), scale * rng.normal(size=listed.d), scale * rng.normal(size=listed.d) ** 3):
        state, theta = problem.evaluate(w), listed.theta(w)
        close(state.loss, listed.loss(w))
        close(state.fun, listed.primal(w))
        close(state.gradient, -listed.moment(theta))
        close(state.dual, -listed.dual(feasible(listed, theta)))
        close(state.entropy, listed.entropy(theta))
        terms = problem.fenchel_young(state.w, state.s * state.gradient)
        assert np.all(terms >= 0) and state.gap >= 0 and state.dual <= listed.primal(np.zeros(listed.d)) + 1e-12
        for _ in range(7):
            any_theta = feasible(listed, [rng.dirichlet(np.ones(A.shape[1])) for A in listed.A])
            assert state.fun >= -listed.dual(any_theta) - 1e-12 * (1 + state.fun)
        if alpha > 0:
            weights = soft_threshold(listed.moment(theta), listed.beta) / (alpha * listed.beta)
            close(problem.primal_weights(state.gradient), weights)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("make", [random_list, random_classes, words])
def test_the_gap_is_right_to_1e15(backend, rng, make, alpha):
    """Against enumeration in extended precision, from far off to where P and D agree in all digits of a float."""
    problem, exact = problems(backend, make, rng, alpha, 0.3)
    best, long = exact.solve(), np.longdouble
    exact.A, exact.alpha, exact.beta = [A.astype(long) for A in exact.A], long(alpha), long(exact.beta)
    off = rng.normal(size=len(best))
    for distance in (1.0, 1e-2, 1e-4, 1e-6, 1e-8, 0.0):
        w = best + distance * off
        state = problem.evaluate(w)
        theta = feasible(exact, exact.theta(w.astype(long)))
        error = abs(state.gap - (exact.primal(w.astype(long)) + exact.dual(theta)))
        assert error <= 1e-15 * max(1.0, state.fun, 4 * state.gap)
        if alpha > 0 and np.finfo(long).eps < 1e-18:  # an error of G costs no more than ||w(theta) - w|| times it
            assert error <= 1e-15 * np.sqrt(8 * state.gap / (alpha * problem.beta)) + 1e-18


@pytest.mark.parametrize("alpha", (1.0, 0.03))
@every_problem
def test_strong_duality_and_kkt(backend, make, rng, alpha):
    """At the optimum of a plain solver: no gap, KKT-1, KKT-2 and no residual; elsewhere the residual bounds the
    distance."""
    problem, listed = problems(backend, make, rng, alpha, 0.4)
    best = listed.solve()
    state, size = problem.evaluate(best), np.max(np.abs(best))
    assert 0 <= state.gap <= 1e-12 * state.fun
    np.testing.assert_allclose(problem.primal_weights(state.gradient), best, atol=1e-6 * size)
    theta = listed.theta(problem.primal_weights(state.gradient))
    for mine, at_best in zip(theta, listed.theta(best), strict=True):
        np.testing.assert_allclose(mine, at_best, atol=1e-6)
    assert np.max(problem.residual(state.w, state.gradient)) <= 1e-7 * problem.beta
    for scale in (1e-3, 0.1, 1.0):
        other = problem.evaluate(best + scale * size * np.cos(np.arange(listed.d)))
        r = np.linalg.norm(problem.residual(other.w, other.gradient))
        distance = np.linalg.norm(other.w - best)
        assert distance <= r / (alpha * problem.beta) + 1e-6 * size
        assert distance <= np.sqrt(2 * other.gap / (alpha * problem.beta)) + 1e-6 * size


@every_problem
def test_beta_max_is_the_threshold(backend, make, rng):
    objective, listed_at = make(backend, rng)
    beta = backend.beta_max(objective)
    listed = listed_at(1.0, beta)
    close(beta, np.max(np.abs(listed.moment([np.full(A.shape[1], 1 / A.shape[1]) for A in listed.A]))), scale=beta)
    for alpha in ALPHAS:
        zero = np.zeros(listed.d)
        for above in (1.0, 1.0 + 1e-9, 10.0):
            problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=above * beta)
            state = problem.evaluate(zero)
            assert state.gap == 0 and not np.any(problem.residual(zero, state.gradient))
        below = backend.ElasticNetCRF(objective, alpha=alpha, beta=(1 - 1e-6) * beta)
        state = below.evaluate(zero)
        assert np.any(below.residual(zero, state.gradient) > 0) and state.gap > 0
        assert np.any(listed_at(alpha, 0.999 * beta).solve(300) != 0)


def test_nothing_to_learn(backend):
    """Single outputs only, or no features: all weights are 0 whatever beta."""
    model = backend.MulticlassModel(2, 1)
    objective = backend.LogLoss(model, model.pack(np.ones((3, 2)), [0, 0, 0]))
    assert backend.beta_max(objective) == 0.0
    result = backend.solve_sparse(objective, beta=0.1)
    assert result.success and result.nit == 0 and len(result.support) == 0 and 0 <= result.certificate < 1e-12
    (screening,) = result.screenings
    assert screening.rejection(0) == 1.0
    model = backend.MulticlassModel(0, 3)
    objective = backend.LogLoss(model, model.pack(np.ones((2, 0)), [0, 1]))
    result = backend.solve_sparse(objective, beta=0.1)
    assert backend.beta_max(objective) == 0.0 and result.success and result.screenings[0].reservation == 0.0


@pytest.mark.parametrize("alpha", ALPHAS)
@every_problem
def test_lemma_1(backend, make, rng, alpha):
    """Without weights that are 0 at the optimum, the rest is optimal, at the same theta; primal and dual are those
    of fewer rows."""
    problem, listed = problems(backend, make, rng, alpha, 0.5)
    best = listed.solve()
    kept = np.flatnonzero((best != 0) | (rng.random(listed.d) < 0.3))
    problem = problem.reduced(kept)
    state = problem.evaluate(best[kept])
    assert state.gap <= 1e-9 * state.fun
    close(state.fun, listed.primal(best))
    w = rng.normal(size=len(kept)) / np.max(np.abs(listed.A[0]))
    fewer, state = listed.reduced(kept), problem.evaluate(w)
    close(state.fun, fewer.primal(w))
    close(state.dual, -fewer.dual(feasible(fewer, fewer.theta(w))))


def test_chains_and_lists_are_one_problem(backend, rng):
    """The same words with all labellings listed: same gaps, same bounds of the l1 rule."""
    objective, listed_at = words(backend, rng)
    listed = listed_at(0.5, 0.1)
    other = as_list_model(backend, listed)
    rule, w = backend.L1GapRule(), rng.normal(size=listed.d)
    for alpha in ALPHAS:
        states = [backend.ElasticNetCRF(each, alpha=alpha, beta=0.1).evaluate(w) for each in (objective, other)]
        close(states[0].gap, states[1].gap)
        close(rule.bounds(states[0]), rule.bounds(states[1]))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.message[:60])
def test_what_is_wrong_is_named(backend, wrong):
    with pytest.raises(wrong.error, match=wrong.message):
        wrong.ask(backend)


def test_what_no_rule_can_screen_is_solved_without_one(backend):
    model = backend.ParsingModel([("h.tag", "m.tag")], bits=3)
    objective = backend.LogLoss(model, model.pack([{"tag": list("DNV")}, {"tag": ["N"]}], [[2, 3, 0], [0]]))
    assert backend.solve_sparse(objective, beta=0.01, rule=None, tol=1e-4).success
