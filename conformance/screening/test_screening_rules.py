"""Screening rules are safe: the optimum lies in their sets, no weight that it needs is removed; and they are the
paper's, corrected.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.listed_crf import ListedCRF, as_list_model
from conformance.specimens.rules import ALPHAS, LISTED, drawn, every_problem, optimum, places, rules, two_outputs, words


@every_problem
@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_rule_is_safe(backend, rng, make, alpha):
    """At the optimum, which enumeration certifies: bounds hold |G_j(theta*)|, and no weight that is not 0 is
    screened.
    """
    objective, listed_at = make(backend, rng)
    for share in (0.8, 0.2):
        beta = share * backend.beta_max(objective)
        listed = listed_at(alpha, beta)
        best, point, gap = optimum(listed)
        assert gap <= 1e-10 * listed.primal(best)
        at_best = np.abs(listed.moment(point))
        needed = np.abs(best) > 1e-5 * np.max(np.abs(best))
        problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=beta)
        each = rules(backend, make in LISTED, alpha)
        fixed = [rule for rule in each if getattr(rule, "half_spaces", None) != "random"]
        for w in places(best, rng):
            state = problem.evaluate(w)
            for rule in each:
                screened = rule.screen(state)
                assert screened.shape == (problem.size,) and screened.dtype == bool
                assert not np.any(screened & needed), rule
                assert np.all(rule.bounds(state) >= at_best - 1e-7 * beta), rule
            together = np.any([rule.screen(state) for rule in fixed], axis=0)
            assert np.array_equal(backend.UnionRule(*fixed).screen(state), together)


@pytest.mark.parametrize("name", ["lists", "classes", "candidates", "sequences", "trees"])
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([1.0, 0.9, 0.3, 0.05]), alpha=st.sampled_from(ALPHAS))
def test_every_rule_is_safe_on_drawn_problems(backend, name, seed, share, alpha):
    """From anywhere, also where features repeat and values tie; the tolerance is what enumeration leaves open about
    the optimum.
    """
    objective, crf = drawn(backend, name, seed)
    assume((most := backend.beta_max(objective)) > 0)
    listed = crf(alpha, share * most)
    best, point, gap = optimum(listed, 2000)
    gap = max(gap, 1e-15)
    assume(gap <= 1e-9)
    reach = np.array([np.linalg.norm([np.ptp(a[j]) / 2 for a in listed.A]) for j in range(listed.d)])
    unsure, at_best = np.sqrt(2 * gap / listed.n) * reach + 1e-9, np.abs(listed.moment(point))
    problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=listed.beta)
    far = np.random.default_rng(seed).normal(size=listed.d)
    for w in (far, best, 0.9 * best, best + 1e-3 * far):
        state = problem.evaluate(w)
        for rule in rules(backend, name in ("lists", "classes", "candidates"), alpha):
            if name == "candidates" and isinstance(rule, backend.CountRule):
                continue  # sums of its features are not known
            assert np.all(rule.bounds(state) >= at_best - unsure), rule
            assert not np.any(rule.screen(state) & (at_best > listed.beta + unsure)), rule
            if alpha > 0:
                assert not np.any(rule.screen(state) & (np.abs(best) > np.sqrt(2 * gap / (alpha * listed.beta)))), rule
        if name != "candidates":
            assert np.all(np.abs(state.gradient) <= backend.CountRule().bounds(state))


def test_the_radius_is_no_smaller_than_it_must_be(backend, rng):
    """One example, two outputs, beta = beta_max: the gap at small w > 0 is (2w)^2/4, and |G| falls short of that at
    the optimum by w.
    """
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
def test_ties_at_beta_are_not_screened(backend, rng, alpha):
    """With beta = |G_j(theta*)| for several j: whatever the rounding of G, nothing there is removed, and nothing far
    below stays.
    """
    A = rng.normal(size=(3, 4))
    A -= A[:, :1]
    tied = np.concatenate([A, A[:1], -A[:1], 1e-9 * A])
    objective = as_list_model(backend, ListedCRF([tied, tied], [0, 0], 1.0, 1.0))
    _, gradient = objective.value_and_gradient(np.zeros(8))
    for j in range(3):
        beta = abs(float(gradient[j]))
        if beta < backend.beta_max(objective):
            continue
        problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=beta)
        state = problem.evaluate(np.zeros(8))
        for rule in rules(backend, True, alpha):
            screened = rule.screen(state)
            assert not np.any(screened[np.abs(gradient) == beta]) and np.all(screened[-3:])


def test_float32_has_more_slack(backend, space, rng):
    """Safe in every namespace and dtype: the union of rules on a chain and on classes, at the optimum of the plain
    one.
    """
    like = space.put(np.zeros(1))
    X, Y = rng.normal(size=(6, 3)), rng.integers(0, 3, 6)
    model = backend.MulticlassModel(3, 3)
    plain = backend.LogLoss(model, model.pack(X, Y))
    objective = backend.LogLoss(model, model.pack(X, Y, like=like))
    beta = 0.3 * backend.beta_max(plain)
    best = np.asarray(backend.solve_sparse(plain, beta=beta, tol=1e-13, rule=None).x)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=beta)
    union = backend.UnionRule(backend.L1GapRule(), backend.L2GapRule(), backend.HalfSpaceRule(half_spaces="all"))
    screened = union.screen(problem.evaluate(space.put(best)))
    assert not np.any(screened & (np.abs(best) > 1e-5))
    assert np.any(screened) or space.dtype == "float32"
    exact = backend.ElasticNetCRF(plain, alpha=1.0, beta=beta).evaluate(best)
    assert not np.any(screened & ~union.screen(exact))


@pytest.mark.parametrize("make", LISTED, ids=lambda make: make.__name__)
def test_the_ball_in_l2_is_never_better(backend, rng, make):
    """2 R_ij^2 <= sum_y (phi_ij(y) - mean)^2, so the l1 rule's bounds are no larger."""
    objective, listed_at = make(backend, rng)
    problem = backend.ElasticNetCRF(objective, alpha=0.5, beta=0.3 * backend.beta_max(objective))
    l1, l2 = backend.L1GapRule(), backend.L2GapRule()
    for w in places(listed_at(1.0, problem.beta).solve(), rng):
        state = problem.evaluate(w)
        assert np.all(l1.bounds(state) <= l2.bounds(state) * (1 + 1e-12))


def test_chains_by_counts(backend, rng):
    """On chains the l1 rule removes all zeros that are not near beta once the gap is small."""
    objective, listed_at = words(backend, rng)
    beta = 0.5 * backend.beta_max(objective)
    listed = listed_at(1.0, beta)
    best = listed.solve()
    state = backend.ElasticNetCRF(objective, alpha=1.0, beta=beta).evaluate(best)
    clear = np.abs(listed.moment(listed.theta(best))) < beta * (1 - 1e-4)
    screened = backend.L1GapRule().screen(state)
    assert np.all(screened[clear]) and np.any(clear) and not np.any(screened[best != 0])


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


def test_rare_features_leave_before_training(backend):
    """Once among ten: |G| is at most 1/10 for the class that has it and for those that do not; the same 5 times is
    not rare.
    """
    X = np.eye(3)[[0, 1, 1, 1, 1, 1, 2, 2, 2, 2]]
    model = backend.MulticlassModel(3, 2)
    objective = backend.LogLoss(model, model.pack(X, [0, 1, 0, 1, 0, 1, 1, 1, 1, 0]))
    state = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.11).evaluate(np.zeros(6))
    assert backend.CountRule().screen(state).tolist() == [True, True, False, False, False, False]
    # feature 1: 2 of 5 have label 0, 3 label 1; feature 2: 1 of 4, 3 of 4
    np.testing.assert_allclose(backend.CountRule().bounds(state), [0.1, 0.1, 0.3, 0.3, 0.3, 0.3], rtol=1e-9)
    assert not np.any(backend.CountRule().screen(state._replace(problem=state.problem.with_beta(0.1)))[:2])
    result = backend.solve_sparse(
        objective, beta=0.11, rule=backend.UnionRule(backend.CountRule(), backend.L1GapRule())
    )
    assert result.success and result.screenings[0].iteration == 0 and result.screenings[0].kept <= 4
