"""The elastic-net CRF: primal, dual, gap and optimality against listed outputs."""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from conformance.listed_crf import as_list_model, soft_threshold
from conformance.specimens.rules import ALPHAS, WRONG, every_problem, feasible, random_classes, random_list, words
from conformance.tolerances import close
from reference.screening.newton import limited_memory
from reference.screening.scored import Pieces, Whole, scored_of


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


# by way of scores: one product each way, Hessians, coordinate descent, certificates from another point's gradient -----


def weights(rng, listed):
    return rng.normal(size=listed.d) / np.max(np.abs(listed.A[0]))


@every_problem
def test_losses_and_gradients_by_scores(backend, make, rng):
    """At the scores of weights, and between and beyond those of two."""
    objective, listed_at = make(backend, rng)
    scored, listed = scored_of(objective), listed_at(1.0, 1.0)
    v, w = weights(rng, listed), weights(rng, listed)
    w[::2] = 0.0
    Z, before = scored.forward(w), scored.forward(v)
    close(scored.loss(Z), listed.loss(w))
    close(np.mean(scored.losses(w)), listed.loss(w))
    for skip_zeros in (True, False):
        close(scored.loss(scored.forward(w, skip_zeros)), listed.loss(w))
    for c in (0.0, -0.5, 0.7):
        y = w + c * (w - v)
        answer = scored.loss_and_gradient(Z, before, c)
        close(answer.loss, listed.loss(y))
        close(answer.gradient, -listed.moment(listed.theta(y)))
        if answer.losses is not None:
            close(np.mean(answer.losses), listed.loss(y))
        if answer.moment is not None:
            close(scored.back(answer.moment) / objective.n, answer.gradient)
    close(scored.loss_and_gradient(Z).gradient, -listed.moment(listed.theta(w)))


@every_problem
def test_hessians_are_covariances(backend, make, rng, monkeypatch):
    """Of listed outputs: the mean covariance of the features, also in blocks of one example, but not beyond a bound; of
    others none."""
    objective, listed_at = make(backend, rng)
    listed, scored = listed_at(1.0, 1.0), scored_of(objective)
    w = weights(rng, listed)
    columns, Z = np.flatnonzero(rng.random(listed.d) < 0.7), scored.forward(w)
    H = scored.hessian(Z, columns)
    if objective.model.structure_type is backend.SequenceModel.structure_type:
        assert H is None
        return
    expected = np.zeros((listed.d, listed.d))
    for A, t in zip(listed.A, listed.theta(w), strict=True):
        mean = A @ t
        expected += ((A * t) @ A.T - np.outer(mean, mean)) / listed.n
    expected = expected[np.ix_(columns, columns)]
    close(H, expected, scale=np.max(np.abs(expected), initial=1e-300))
    if backend.module is reference:
        monkeypatch.setattr(reference.screening.scored, "BLOCK", 1)
        close(scored.hessian(Z, columns), H)
        monkeypatch.setattr(reference.screening.scored, "MOST_FEATURES", 1)
        assert len(columns) < 2 or scored.hessian(Z, columns) is None


def test_many_examples_have_their_hessian_in_turns(backend):
    """Four samples that are the whole together, each with one example more on the diagonal, in single precision; a
    last block that is not full."""
    rng = np.random.default_rng(0)
    n, F, L = 16 * 1024 + 300, 3, 3
    X, Y = rng.normal(size=(n, F)), rng.integers(0, L, n)
    model = backend.MulticlassModel(F, L)
    scored = scored_of(backend.LogLoss(model, model.pack(X, Y)))
    W, columns = 0.5 * rng.normal(size=(F, L)), np.array([0, 1, 4, 5, 8])
    p = np.exp(X @ W)
    p /= p.sum(axis=1, keepdims=True)
    f, k = columns // L, columns % L
    M = X[:, f] * p[:, k]
    H = (k[:, None] == k) * (M.T @ X[:, f]) / n - M.T @ M / n
    turns = [scored.hessian(scored.forward(W.reshape(-1)), columns, turn) for turn in range(4)]
    for found in turns:
        assert np.max(np.abs(found - H)) < 0.05 * np.max(H)
    extra = np.mean(turns, axis=0) - H
    more = np.diagonal(extra) / np.max(np.abs(X), axis=0)[f] ** 2
    assert np.all(more > -1e-12) and np.all(more < 0.3 / 4096)
    assert np.max(np.abs(extra - np.diag(np.diagonal(extra)))) < 1e-3 * np.max(H)
    X[:, 0] = 0.0
    X[2000, 0] = 1.0  # in one sample of four only
    scored = scored_of(backend.LogLoss(model, model.pack(X, Y)))
    assert all(scored.hessian(scored.forward(W.reshape(-1)), columns, turn)[0, 0] > 1e-6 for turn in range(4))


@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_coordinate_descent_ends_at_the_minimum(backend, rng, alpha):
    """0 lies in q + H (x - w) + beta (alpha x + sign x); some weights end at 0 and some do not; nothing to do is
    nothing done."""
    scored = scored_of(random_classes(backend, rng)[0])
    A = rng.normal(size=(12, 8))
    H, q, w = A.T @ A / 12, rng.normal(size=8), rng.normal(size=8) * (rng.random(8) < 0.5)
    beta = 0.5
    x = scored.descend(H, q, w, alpha, beta)
    slope = q + H @ (x - w) + alpha * beta * x
    assert np.any(x == 0) and np.any(x != 0)
    np.testing.assert_allclose(slope[x != 0], -beta * np.sign(x[x != 0]), atol=1e-4)
    assert np.all(np.abs(slope[x == 0]) <= beta + 1e-12)
    assert scored.descend(np.zeros((0, 0)), q[:0], w[:0], alpha, beta).shape == (0,)
    still = scored.descend(H, slope - alpha * beta * x, x, alpha, beta)
    np.testing.assert_allclose(still, x, atol=1e-4)


def test_bfgs_in_limited_memory_is_bfgs(rng):
    """The matrix by its rank-two updates, one pair after another, and B s = y for the last."""
    A = rng.normal(size=(6, 6))
    hessian = A @ A.T + 0.1 * np.eye(6)
    moves = rng.normal(size=(4, 6))
    changes = moves @ hessian
    B = 1.7 * np.eye(6)
    for s, y in zip(moves, changes, strict=True):
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    found = limited_memory(moves, changes, 1.7, np.arange(6))
    close(found, B)
    close(found @ moves[-1], changes[-1])
    close(limited_memory(moves, changes, 1.7, np.array([1, 4])), B[np.ix_([1, 4], [1, 4])])
    assert np.array_equal(limited_memory(np.zeros((0, 6)), np.zeros((0, 6)), 2.0, np.arange(3)), 2.0 * np.eye(3))


@pytest.mark.parametrize("alpha", [1.0, 0.03, 0.0])
@every_problem
def test_a_gap_from_the_gradient_at_another_point(backend, make, rng, alpha):
    """P(x) + D(theta(y)) is what it says, for y near and far, and stays so for what is left of the weights."""
    objective, listed_at = make(backend, rng)
    beta = 0.3 * backend.beta_max(objective)
    problem, listed = backend.ElasticNetCRF(objective, alpha=alpha, beta=beta), listed_at(alpha, beta)
    scored = problem.scored
    kept = np.flatnonzero(rng.random(listed.d) < 0.6)
    x = np.zeros(listed.d)
    x[kept] = weights(rng, listed)[kept]
    for distance in (1.0, 1e-2, 1e-4):
        y = x.copy()
        y[kept] += distance * weights(rng, listed)[kept]
        answer, scores = scored.loss_and_gradient(scored.forward(y)), scored.forward(x)
        state = problem.state(x, scored.loss(scores), y, answer, scores)
        theta = listed.theta(y) if alpha > 0 else listed.shrunken(listed.theta(y))
        gap = listed.primal(x) + listed.dual(theta)
        assert abs(state.gap - gap) <= 1e-13 * (1 + abs(gap))
        close(state.entropy, listed.entropy(listed.theta(y)))
        close(state.dual, -listed.dual(theta))
        if len(kept):
            fewer, (part, calls) = listed.reduced(kept), problem.narrowed(state, kept)
            assert calls == 0
            reduced = [
                state.s * t + (1 - state.s) * np.eye(len(t))[g]
                for t, g in zip(listed.theta(y), listed.gold, strict=True)
            ]
            gap = fewer.primal(x[kept]) + fewer.dual(reduced)
            assert abs(part.gap - gap) <= 1e-13 * (1 + abs(gap))
            assert part.y is not part.w and np.array_equal(part.y, y[kept])
    if len(gone := np.setdiff1d(np.arange(listed.d), kept)):  # theta(y) is not that of fewer weights if y was not 0
        y[gone[0]] = 0.5
        answer = scored.loss_and_gradient(scored.forward(y))
        part, calls = problem.narrowed(problem.state(x, scored.loss(scores), y, answer, scores), kept)
        assert calls == problem.n + part.more_calls and part.y is part.w
        assert part.gap == problem.reduced(kept).evaluate(x[kept]).gap


SMALLEST = {"int8": (1.0, -127.0), "float32": (128.0, 0.5), "float64": (2.0**24 + 1, 0.1, 1e-46, 1e300)}


@pytest.mark.parametrize(("number", "kind"), [(x, kind) for kind, each in SMALLEST.items() for x in each])
def test_products_over_pairs_go_by_the_smallest_exact_type(rng, number, kind):
    """Whatever type holds the features: the same scores and gradients from few pairs as from all."""
    X = rng.integers(-1, 2, (40, 6)).astype(np.float64)
    X[3, 2] = number
    model = accelerated.MulticlassModel(6, 5)
    problem = accelerated.ElasticNetCRF(
        accelerated.LogLoss(model, model.pack(X, rng.integers(0, 5, 40))), alpha=1.0, beta=1.0
    )
    assert problem.scored.exact.dtype == kind and np.array_equal(problem.scored.exact, X.T)
    columns = np.array([3, 9, 10, 14, 27])  # number's feature is 2: weights 10 to 14
    w = rng.normal(size=5) / abs(number)
    whole = np.zeros(30)
    whole[columns] = w
    few = problem.reduced(columns).scored
    scores = problem.scored.forward(whole, skip_zeros=False)
    close(few.forward(w), scores)
    all_pairs, pairs = problem.scored.loss_and_gradient(scores), few.loss_and_gradient(few.forward(w))
    close(pairs.gradient, all_pairs.gradient[columns])


def test_scores_that_are_too_many_or_of_an_unknown_loss_are_not_kept(backend, monkeypatch, rng):
    class Mine(backend.LogLoss):
        def value_and_gradient(self, w, batch=None, mu=None):
            return super().value_and_gradient(w, batch, mu)

    objective, _ = random_list(backend, rng)
    assert isinstance(scored_of(objective), Pieces)
    for each in (objective, words(backend, rng)[0]):
        found = scored_of(Mine(each.model, each.data))
        assert isinstance(found, Whole)
        assert found.ops.__name__.split(".")[0] == type(each).__module__.split(".")[0]  # it stays in its panel
    monkeypatch.setattr(reference.screening.scored, "MOST_SCORES", 3)
    assert isinstance(scored_of(random_list(backend, rng)[0]), Whole)
