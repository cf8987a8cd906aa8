"""Screening rules are safe: the optimum lies in their sets, no weight that it needs is removed; and they are the
paper's, corrected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from conformance.specimens.models import classes, labellings
from conformance.specimens.rules import ALPHAS, LISTED, drawn, every_problem, optimum, places, rules, two_outputs
from reference.screening.registry import known_of, register


def check_safe(backend, objective, listed, found, known, w, unsure):
    """At w: bounds hold |G_j(theta*)|, no weight that is not 0 at the optimum is screened, and the ball in l2 is never
    better: 2 R_ij^2 <= sum_y (phi_ij(y) - mean)^2. unsure: of |G(theta*)| and of the weights of the optimum."""
    best, point = found
    at_best, (unsure_of_gradient, unsure_of_weights) = np.abs(listed.moment(point)), unsure
    problem = backend.ElasticNetCRF(objective, alpha=listed.alpha, beta=listed.beta)
    state, screened, bounds = problem.evaluate(w), [], {}
    for rule in known:
        screened.append(rule.screen(state))
        bounds[type(rule).__name__] = rule.bounds(state)
        assert screened[-1].shape == (problem.size,) and screened[-1].dtype == bool
        assert np.all(rule.bounds(state) >= at_best - unsure_of_gradient), rule
        assert not np.any(screened[-1] & (at_best > listed.beta + unsure_of_gradient)), rule
        assert not np.any(screened[-1] & (np.abs(best) > unsure_of_weights)), rule
    if "L2GapRule" in bounds:
        assert np.all(bounds["L1GapRule"] <= bounds["L2GapRule"] * (1 + 1e-12))
    if "CountRule" in bounds:
        assert np.all(np.abs(state.gradient) <= bounds["CountRule"])
    fixed = [rule for rule in known if getattr(rule, "half_spaces", None) != "random"]
    together = np.any([each for rule, each in zip(known, screened, strict=True) if rule in fixed], axis=0)
    assert np.array_equal(backend.UnionRule(*fixed).screen(state), together)


@every_problem
@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_rule_is_safe(backend, rng, make, alpha):
    """From far off and near the optimum, which enumeration certifies."""
    objective, listed_at = make(backend, rng)
    for share in (0.8, 0.2):
        listed = listed_at(alpha, share * backend.beta_max(objective))
        *found, gap = optimum(listed)
        assert gap <= 1e-10 * listed.primal(found[0])
        unsure = 1e-7 * listed.beta, 1e-5 * np.max(np.abs(found[0]))
        for w in places(found[0], rng):
            check_safe(backend, objective, listed, found, rules(backend, make in LISTED, alpha), w, unsure)


FORBIDDING = "tags {'transitions': 'bio'}"  # labels that may not follow each other


@pytest.mark.parametrize("name", ["lists", "classes", "candidates", "sequences", "trees", FORBIDDING])
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([1.0, 0.9, 0.3, 0.05]), alpha=st.sampled_from(ALPHAS))
def test_every_rule_is_safe_on_drawn_problems(backend, name, seed, share, alpha):
    """From anywhere, also where features repeat and values tie; the tolerance is what enumeration leaves open about
    the optimum. With ``--examples 60`` this file screens 30,000 times."""
    objective, crf = drawn(backend, name, seed)
    assume((most := backend.beta_max(objective)) > 0)
    listed = crf(alpha, share * most)
    *found, gap = optimum(listed, 2000)
    assume(gap <= 1e-9)
    gap = max(gap, 1e-15)
    reach = np.array([np.linalg.norm([np.ptp(a[j]) / 2 for a in listed.A]) for j in range(listed.d)])
    weights = np.sqrt(2 * gap / (alpha * listed.beta)) if alpha > 0 else np.inf
    known = rules(backend, name in ("lists", "classes", "candidates"), alpha)
    if name == "candidates":  # sums of its features are not known
        known = [rule for rule in known if not isinstance(rule, backend.CountRule)]
    far, best = np.random.default_rng(seed).normal(size=listed.d), found[0]
    for w in (far, best, 0.9 * best, best + 1e-3 * far):
        check_safe(backend, objective, listed, found, known, w, (np.sqrt(2 * gap / listed.n) * reach + 1e-9, weights))


def test_the_radius_is_no_smaller_than_it_must_be(backend, rng):
    """One example, two outputs, beta = beta_max: the gap at small w > 0 is (2w)^2/4, and |G| falls short of that at
    the optimum by w."""
    objective, _ = two_outputs(backend, rng)
    beta = backend.beta_max(objective)
    assert beta == 1.0
    problem = backend.ElasticNetCRF(objective, alpha=1e-6, beta=beta)
    for w in (1e-1, 1e-2, 1e-3):
        state = problem.evaluate([w])
        np.testing.assert_allclose(state.gap, w**2, rtol=0.02)
        for rule in rules(backend, True, 1e-6):
            assert rule.bounds(state)[0] >= 1.0 and not rule.screen(state)[0]
        # by Pinsker the bound is 1 - w + sqrt(2) w: with half the radius it would lie below 1
        np.testing.assert_allclose(backend.L1GapRule().bounds(state)[0], 1 + (np.sqrt(2) - 1) * w, atol=0.02 * w)


def test_a_weight_that_is_needed_stays(backend, rng):
    """As above with beta just below beta_max: w* > 0 is small, and from further out |G| is well below beta."""
    objective, listed_at = two_outputs(backend, rng)
    for beta in (0.99, 0.999):
        best = listed_at(1e-6, beta).solve()[0]
        np.testing.assert_allclose(best, 1 - beta, rtol=0.01)  # G = 1 - tanh(w), nearly
        problem = backend.ElasticNetCRF(objective, alpha=1e-6, beta=beta)
        for w in best * np.array([2.0, 5.0, 10.0, 20.0]):
            state = problem.evaluate([w])
            assert abs(state.gradient[0]) < beta
            assert not any(rule.screen(state)[0] for rule in rules(backend, True, 1e-6))


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("chains", [False, True])
def test_ties_at_beta_are_not_screened(backend, rng, alpha, chains):
    """A feature scaled until |G_j(theta*)| is beta, w*_j = 0: no rule removes it, at the optimum or on the way, and
    all agree on the rest."""
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
    known = rules(backend, not chains, alpha)
    for rule in (*known, backend.UnionRule(*known)):
        for w in (best, 0.99 * best, (1 - 1e-7) * best, np.zeros(len(best))):
            assert not rule.screen(problem.evaluate(w))[tied], rule
        result = backend.solve_sparse(objective, alpha=alpha, beta=beta, tol=1e-12, rule=rule)
        assert result.success and abs(result.fun - state.fun) <= result.certificate + state.gap + 1e-13


def test_float32_has_more_slack(backend, space, rng):
    """Safe in every namespace and dtype: the union of rules at the optimum of the plain problem."""
    problem = classes(rng.normal(size=(6, 3)), rng.integers(0, 3, 6), 3)
    plain, objective = (backend.LogLoss(*problem.packed(backend, like)) for like in (None, space.put(np.zeros(1))))
    beta = 0.3 * backend.beta_max(plain)
    best = np.asarray(backend.solve_sparse(plain, beta=beta, tol=1e-13, rule=None).x)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=beta)
    union = backend.UnionRule(backend.L1GapRule(), backend.L2GapRule(), backend.HalfSpaceRule(half_spaces="all"))
    screened = union.screen(problem.evaluate(space.put(best)))
    assert not np.any(screened & (np.abs(best) > 1e-5))
    assert np.any(screened) or space.dtype == "float32"
    exact = backend.ElasticNetCRF(plain, alpha=1.0, beta=beta).evaluate(best)
    assert not np.any(screened & ~union.screen(exact))


@every_problem
def test_counts_bound_what_any_weights_can_do(backend, rng, make):
    """The bound is reached by outputs that are chosen for it, whatever the weights at which it is asked."""
    objective, listed_at = make(backend, rng)
    listed = listed_at(1.0, 1.0)
    each = np.stack(
        [np.sum([A.max(axis=1) for A in listed.A], axis=0), -np.sum([A.min(axis=1) for A in listed.A], axis=0)]
    )
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=1e-3 * backend.beta_max(objective))
    for w in (np.zeros(problem.size), rng.normal(size=problem.size)):
        found = backend.CountRule().bounds(problem.evaluate(w))
        assert np.all(found >= each.max(axis=0) / listed.n)
        np.testing.assert_allclose(found, each.max(axis=0) / listed.n, rtol=1e-9, atol=1e-9 * np.max(found))
        middle = 0.5 * (np.min(found) + np.max(found))
        screened = backend.CountRule().screen(problem.with_beta(middle).evaluate(w))
        assert np.all(screened[found < 0.99 * middle]) and not np.any(screened[found > middle])


# rounding -------------------------------------------------------------------------------------------------------------

EPS = np.finfo(np.float64).eps
A, B = 4.0, 40.0


def pairs(backend, copies, error):
    """Features (0, 0) and (A, B), features (0, 0) and (0, -B), the true output first, so often: at w = 0 the gradient
    is (A/4, 0), and comes out as (A/4 - error, 0)."""

    class Rounding(backend.ListModel):
        def pullback(self, data, batch, w, g):
            return super().pullback(data, batch, w, g) - error * len(batch) * np.array([1.0, 0.0])

    register(Rounding, known_of(backend.ListModel))  # what is known of the features, which nobody assumes of a subclass
    model = Rounding(lambda x: x, backend.Table, size=2)
    X = copies * [np.array([[0.0, 0.0], [A, B]]), np.array([[0.0, 0.0], [0.0, -B]])]
    return backend.LogLoss(model, model.pack(X, [0] * len(X)))


def allowed(beta, gradient):
    """delta: 4096 eps (beta + |G_j| + range_j / sqrt(n)), the ranges being A/2 for half of the examples and B/2 for
    all."""
    return 4096 * EPS * (beta + np.abs(gradient) + np.array([A / 2 / np.sqrt(2), B / 2]))


@pytest.mark.parametrize(("alpha", "copies"), [(1e-6, 1), (0.01, 1), (0.1, 1), (1e4, 256)])
def test_gradients_that_are_wrong_by_what_is_allowed(backend, alpha, copies):
    """Weight 0 leaves 0 by a hair, but its gradient is taken for beta, so that w = 0 seems to be the optimum. Bounds
    hold the optimum still.

    For small alpha that is about weight 1, whose gradient moves with the other's; for large alpha, about weight 0's
    own.
    """
    error = 0.95 * allowed(A / 4, np.array([A / 4, 0.0]))[0]
    error -= error % 2.0**-42  # so that sums over the copies are exact
    beta = A / 4 - error
    problem = backend.ElasticNetCRF(pairs(backend, copies, error), alpha=alpha, beta=beta)
    state = problem.evaluate(np.zeros(2))
    np.testing.assert_array_equal(state.gradient, [beta, 0.0])

    def residual(u):  # of A/4 (1 - tanh(A u/2)) = beta (1 + alpha u), for w_0 = -u
        return error - beta * alpha * u - A / 4 * np.tanh(A * u / 2)

    u = brentq(residual, 0.0, 1e-6, xtol=1e-30, rtol=1e-14)
    at_best = np.array([beta * (1 + alpha * u), B / 4 * np.tanh(A * u / 2)])
    assert at_best[1] > allowed(beta, np.array([beta, 0.0]))[1] if alpha < 1 else at_best[0] > beta + 0.99 * error
    for rule in rules(backend, True, alpha):
        assert np.all(rule.bounds(state) >= at_best), rule
        assert not rule.screen(state)[0], rule
