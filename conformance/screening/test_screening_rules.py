"""Screening rules are safe: the optimum lies in their sets, no weight that it needs is removed; and they are the
paper's, corrected.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from conformance.listed_crf import ListedCRF, as_list_model
from conformance.listed_problems import (
    CHAINS,
    LISTED,
    collinear,
    large_scale,
    random_classes,
    random_list,
    two_outputs,
    words,
)
from conformance.tolerances import close
from reference.screening.half_space import dual_ball, smallest_on_ball_and_half_space

ALPHAS = (1.0, 0.03, 0.0)


@st.composite
def listed_instances(draw):
    """A_i (d, m_i) of small integers, the truth's column of zeros first, and weights (d,)."""
    d, entry = draw(st.integers(1, 4)), st.integers(-2, 2)
    A = []
    for _ in range(draw(st.integers(1, 4))):
        m = draw(st.integers(1, 4))
        columns = draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=m - 1, max_size=m - 1))
        A.append(np.array([[0] * d, *columns], dtype=float).T)
    w = np.array(draw(st.lists(entry, min_size=d, max_size=d))) / 4
    return A, [0] * len(A), w


def rules(backend, listed, alpha):
    """Every rule that has an answer."""
    found = [backend.L1GapRule(), backend.CountRule()]
    if listed:
        found.append(backend.L2GapRule())
        if alpha > 0:
            options = ((1, "none"), (2, "random"), (1, "all"), (2, "all"))
            found += [backend.HalfSpaceRule(modulus, half_spaces, 0) for modulus, half_spaces in options]
    return found


def places(best, rng):
    """Weights from far off to the optimum, and 0."""
    size = np.max(np.abs(best), initial=0.0) or 1.0
    off = rng.normal(size=len(best))
    yield np.zeros(len(best))
    yield 0.5 * best
    for distance in (3.0, 0.3, 1e-2, 1e-4, 0.0):
        yield best + distance * size * off
    for distance in (1.0, 1e-3):
        yield best * (1 + distance * off)


@pytest.mark.parametrize("make", LISTED + CHAINS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_rule_is_safe(backend, rng, make, alpha):
    """At the optimum, which enumeration certifies: bounds hold |G_j(theta*)|, and no weight that is not 0 is
    screened.
    """
    objective, listed_at = make(backend, rng)
    for share in (0.8, 0.2):
        beta = share * backend.beta_max(objective)
        listed = listed_at(alpha, beta)
        best = listed.solve()
        theta = listed.theta(best)
        point = theta if alpha > 0 else listed.shrunken(theta)
        assert listed.primal(best) + listed.dual(point) <= 1e-10 * listed.primal(best)
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


@given(instance=listed_instances(), share=st.sampled_from([1.0, 0.5, 0.1]), alpha=st.sampled_from(ALPHAS))
def test_every_rule_is_safe_on_drawn_problems(backend, instance, share, alpha):
    """Small integers, so that features repeat and values tie; the tolerance is what enumeration leaves open about
    the optimum.
    """
    A, gold, w = instance
    objective = as_list_model(backend, ListedCRF(A, gold, 1.0, 1.0))
    assume((most := backend.beta_max(objective)) > 0)
    listed = ListedCRF(A, gold, alpha, share * most)
    best = listed.solve(2000)
    theta = listed.theta(best)
    point = theta if alpha > 0 else listed.shrunken(theta)
    gap = max(listed.primal(best) + listed.dual(point), 1e-15)
    assume(gap <= 1e-9)
    reach = np.array([np.linalg.norm([np.ptp(a[j]) / 2 for a in A]) for j in range(listed.d)])
    unsure = np.sqrt(2 * gap / listed.n) * reach + 1e-9
    at_best = np.abs(listed.moment(point))
    problem = backend.ElasticNetCRF(objective, alpha=alpha, beta=listed.beta)
    for state in (problem.evaluate(w), problem.evaluate(best), problem.evaluate(0.9 * best)):
        for rule in rules(backend, True, alpha):
            assert np.all(rule.bounds(state) >= at_best - unsure), rule
            assert not np.any(rule.screen(state) & (at_best > listed.beta + unsure)), rule
            if alpha > 0:
                assert not np.any(rule.screen(state) & (np.abs(best) > np.sqrt(2 * gap / (alpha * listed.beta)))), rule


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


@pytest.mark.parametrize("make", LISTED + CHAINS, ids=lambda make: make.__name__)
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
    assert not np.any(backend.CountRule().screen(state._replace(problem=state.problem.at(0.1)))[:2])
    result = backend.solve_sparse(
        objective, beta=0.11, rule=backend.UnionRule(backend.CountRule(), backend.L1GapRule())
    )
    assert result.success and result.screenings[0].iteration == 0 and result.screenings[0].kept <= 4


def test_counts_of_models_that_know_none(backend):
    model = backend.ParsingModel([("h.tag", "m.tag")], bits=3)
    objective = backend.LogLoss(model, model.pack([{"tag": list("DNV")}], [[2, 3, 0]]))
    with pytest.raises(
        backend.UnsupportedError, match="CountRule: ParsingModel does not bound the sums of its features"
    ):
        backend.solve_sparse(objective, beta=0.1, rule=backend.CountRule())


# the paper's rule -----------------------------------------------------------------------------------------------------


def without_last(theta):
    return np.concatenate([t[:-1] for t in theta])


def rows(listed):
    """B (d, N) and the constant (d,) with (1/n) sum_i A_i o theta_i = constant + B theta, and the block of each
    coordinate.
    """
    B = np.concatenate([A[:, :-1] - A[:, -1:] for A in listed.A], axis=1) / listed.n
    block = np.concatenate([np.full(A.shape[1] - 1, i) for i, A in enumerate(listed.A)])
    return B, np.mean([A[:, -1] for A in listed.A], axis=0), block


@pytest.mark.parametrize("modulus", [1, 2])
@pytest.mark.parametrize("make", [random_list, random_classes, collinear, large_scale], ids=lambda make: make.__name__)
def test_the_ball_is_its_definition(backend, rng, make, modulus):
    """Centre theta - (n/m) grad D and radius (n/m) ||grad D||, in the paper's coordinates; theta* lies in it."""
    objective, listed_at = make(backend, rng)
    beta = 0.3 * backend.beta_max(objective)
    listed = listed_at(0.5, beta)
    problem = backend.ElasticNetCRF(objective, alpha=0.5, beta=beta)
    best = listed.solve()
    at_best = without_last(listed.theta(best))
    for w in places(best, rng):
        theta = listed.theta(w)
        g = np.concatenate(listed.dual_gradient(theta))
        centre, radius = without_last(theta) - listed.n / modulus * g, listed.n / modulus * np.linalg.norm(g)
        ball = dual_ball(problem.evaluate(w), modulus)
        B, constant, block = rows(listed)
        close(ball.radius, radius, scale=1 + radius)
        close(ball.at_centre, -(constant + B @ centre), scale=np.max(np.abs(listed.A[0])) * (1 + radius))
        close(ball.sums, np.bincount(block, centre, listed.n), scale=1 + radius)
        assert ball.sizes.tolist() == [A.shape[1] for A in listed.A]
        assert np.linalg.norm(at_best - centre) <= radius + 1e-7


@pytest.mark.parametrize("make", [random_list, random_classes], ids=lambda make: make.__name__)
@pytest.mark.parametrize("half_spaces", ["all", "random"])
def test_theorem_5_is_problem_4_for_every_row(backend, rng, make, half_spaces):
    """(1)-(3) with the constant: s_j = min_k max(const_j - min <-B_j, a>, -const_j - min <B_j, a>)."""
    objective, listed_at = make(backend, rng)
    beta = 0.2 * backend.beta_max(objective)
    listed = listed_at(0.3, beta)
    problem = backend.ElasticNetCRF(objective, alpha=0.3, beta=beta)
    cuts = 0
    for w in places(listed.solve(), rng):
        theta = listed.theta(w)
        g = np.concatenate(listed.dual_gradient(theta))
        centre, radius = without_last(theta) - listed.n / 2 * g, listed.n / 2 * np.linalg.norm(g)
        B, constant, block = rows(listed)
        drawn = int(np.random.default_rng(3).integers(listed.n))
        bound = np.abs(constant + B @ centre) + radius * np.linalg.norm(B, axis=1)
        for k in range(listed.n) if half_spaces == "all" else [drawn]:
            p = (block == k).astype(float)
            if not np.any(p):
                continue
            s = []
            for b, c in zip(B, constant, strict=True):
                up, down = (smallest_on_ball_and_half_space(sign * b, p, 1.0, centre, radius) for sign in (-1.0, 1.0))
                s.append(max(c - up, -c - down) if np.isfinite(up) else np.inf)
            cuts += np.sum(np.array(s) < bound - 1e-9)
            bound = np.minimum(bound, s)
        found = backend.HalfSpaceRule(2, half_spaces, 3).bounds(problem.evaluate(w))
        assert np.all(found >= bound)  # by the slack
        np.testing.assert_allclose(found, bound, atol=1e-6 * (1 + radius))
    assert cuts > 0 or half_spaces == "random"


def random_problem_4(rng):
    N = int(rng.integers(1, 5))
    b, p, a0 = rng.normal(size=(3, N)).round(1)
    return b, p, float(rng.normal()), a0, float(abs(rng.normal()))


def test_problem_4_against_a_solver(rng):
    """SLSQP from a feasible start is never below, and often at, the closed form, which a feasible point attains."""
    reached = 0
    for _ in range(150):
        b, p, c, a0, r = random_problem_4(rng)
        value = smallest_on_ball_and_half_space(b, p, c, a0, r)
        nearest = a0 - p * max(p @ a0 - c, 0.0) / max(p @ p, 1e-300)
        if not np.isfinite(value):
            assert c < 0 if not np.any(p) else np.linalg.norm(nearest - a0) > r
            continue
        constraints = [
            {"type": "ineq", "fun": lambda a: c - p @ a, "jac": lambda a: -p},  # noqa: B023
            {"type": "ineq", "fun": lambda a: r**2 - (a - a0) @ (a - a0), "jac": lambda a: -2 * (a - a0)},  # noqa: B023
        ]
        found = minimize(
            lambda a: b @ a,  # noqa: B023
            nearest,
            jac=lambda a: b,  # noqa: B023
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-13, "maxiter": 200},
        )
        over = max(p @ found.x - c, 0.0) + max(np.linalg.norm(found.x - a0) - r, 0.0)
        if over < 1e-9:
            assert found.fun >= value - 1e-6
            reached += abs(found.fun - value) < 1e-5
    assert reached > 60


def test_problem_4_is_attained(rng):
    """A feasible point with the value, and a dual point that proves it: weak duality of the Lagrangian in the
    half-space.
    """
    for _ in range(300):
        b, p, c, a0, r = random_problem_4(rng)
        value = smallest_on_ball_and_half_space(b, p, c, a0, r)
        if not np.isfinite(value) or not np.any(p):
            continue
        # max over lambda >= 0 of <b + lambda p, a0> - r ||b + lambda p|| - lambda c is concave in one variable
        lam = np.concatenate([[0.0], np.logspace(-4, 4, 2000)])
        q = b + lam[:, None] * p
        lower = np.max(q @ a0 - r * np.linalg.norm(q, axis=1) - lam * c)
        assert lower <= value + 1e-9 * (1 + abs(value))
        margin = np.linalg.norm(p) * r - (p @ a0 - c)
        if margin > 0.1:  # Slater's condition with room: the grid is near the maximum
            assert value - lower <= 0.02 * (1 + abs(value))


@pytest.mark.parametrize(
    ("b", "p", "c", "a0", "r", "value"),
    [
        ([-1.0], [1.0], 1.0, [1.0], 1.0, -1.0),  # case iii: printed +1
        ([-0.8, 0.6], [1.0, 0.0], 0.5, [0.0, 0.0], 1.0, -0.4 - 0.6 * np.sqrt(0.75)),  # the root's sign: printed -1.266
        ([0.0, 0.0], [1.0, 0.0], 0.0, [0.0, 0.0], 1.0, 0.0),  # b = 0
        ([1.0], [0.0], 0.0, [2.0], 1.0, 1.0),  # p = 0
        ([1.0], [0.0], -1.0, [2.0], 1.0, np.inf),  # p = 0, nothing feasible
        ([1.0, 0.0], [1.0, 0.0], -2.0, [0.0, 0.0], 1.0, np.inf),  # the ball lies outside
        ([1.0, 0.0], [1.0, 0.0], 2.0, [0.0, 0.0], 1.0, -1.0),  # the ball lies inside
        ([1.0, 1.0], [0.0, 2.0], 0.0, [1.0, 0.0], 0.0, 1.0),  # radius 0
        ([1.0, 1.0], [1.0, 0.0], -1.0, [0.0, 0.0], 1.0, -1.0),  # they touch in one point
    ],
)
def test_problem_4_in_corners(b, p, c, a0, r, value):
    close(smallest_on_ball_and_half_space(np.array(b), np.array(p), c, np.array(a0), r), value)


def printed_theorem_4(b, p, c, a0, r):
    """The paper's closed form with d for b in its conditions."""
    P, Bn, pb = np.linalg.norm(p), np.linalg.norm(b), p @ b
    d = (p @ a0 - c) / (r * P)
    if d <= -1:
        return b @ a0 - r * Bn
    if np.isclose(pb, -P * Bn):
        return c * Bn / P
    if np.isclose(pb, P * Bn) or pb >= d * P * Bn:
        return b @ a0 - r * Bn
    delta = 4 * (1 - d**2) * P**4 * d**2 * (P**2 * Bn**2 - pb**2)
    second = (-2 * (1 - d**2) * P**2 * pb + np.sqrt(delta)) / (2 * P**4 * (1 - d**2))
    first = np.linalg.norm(b + second * p) / (2 * r)
    q = b + second * p
    return -(q @ q) / (4 * first) + q @ a0 - (first * r**2 + second * c)


def test_the_printed_theorem_4_is_wrong():
    """Its case iii has the wrong sign; its root is the wrong one where the centre lies inside the half-space."""
    one = np.ones(1)
    assert printed_theorem_4(-one, one, 1.0, one, 1.0) == 1.0
    close(smallest_on_ball_and_half_space(-one, one, 1.0, one, 1.0), -1.0)
    b, p, a0 = np.array([-0.8, 0.6]), np.array([1.0, 0.0]), np.zeros(2)
    a = np.array([0.5, -np.sqrt(0.75)])  # feasible, and attains the closed form
    assert abs(printed_theorem_4(b, p, 0.5, a0, 1.0) - b @ a) > 0.3
    close(smallest_on_ball_and_half_space(b, p, 0.5, a0, 1.0), b @ a)


def test_the_printed_theorem_4_removes_a_weight_that_is_needed(backend):
    """n = 1, A = [1 0], alpha = 1, beta = 0.2, theta = 0.1: w* = 0.68, the printed bound is -0.1."""
    listed = ListedCRF([np.array([[1.0, 0.0]])], [1], 1.0, 0.2)
    best = listed.solve()[0]
    close(best, 0.6806, scale=1e5)
    w = np.log(9.0)
    theta = listed.theta(np.array([w]))
    close(theta[0][0], 0.1)
    g = listed.dual_gradient(theta)[0]
    centre, radius = theta[0][:1] - g, np.linalg.norm(g)
    printed = max(-printed_theorem_4(sign * np.ones(1), np.ones(1), 1.0, centre, radius) for sign in (-1.0, 1.0))
    close(printed, -0.1)
    assert printed <= 0.2
    problem = backend.ElasticNetCRF(as_list_model(backend, listed), alpha=1.0, beta=0.2)
    state = problem.evaluate([w])
    close(backend.HalfSpaceRule(1, "all").bounds(state), [1.0])
    assert not backend.HalfSpaceRule(1, "all").screen(state)[0]


@pytest.mark.parametrize("alpha", [1.0, 0.03])
def test_lemma_2_with_the_sharper_modulus(rng, alpha):
    """D(t2) >= D(t1) + <grad D(t1), t2 - t1> + (m/2n) ||t1 - t2||^2 with m = 2, in the paper's coordinates; no more
    than 2 in general.
    """
    tightest = np.inf
    for _ in range(200):
        sizes = rng.integers(2, 5, 3)
        listed = ListedCRF([rng.normal(size=(4, m)) for m in sizes], [0] * 3, alpha, 0.3)
        one, two = ([rng.dirichlet(np.full(m, c)) + 1e-12 for m in sizes] for c in (1.0, 0.5))
        one, two = ([t / t.sum() for t in each] for each in (one, two))
        move = without_last(two) - without_last(one)
        g = np.concatenate(listed.dual_gradient(one))
        above = listed.dual(two) - listed.dual(one) - g @ move
        assert above >= move @ move / listed.n - 1e-9
    flat = ListedCRF([np.zeros((1, 3))], [0], alpha, 0.3)  # D is -H: two halves and nearly nothing
    for step in (1e-2, 1e-3):
        one, two = np.array([0.5, 0.5 - 1e-9, 1e-9]), np.array([0.5 + step, 0.5 - step - 1e-9, 1e-9])
        move = (two - one)[:-1]
        above = flat.dual([two]) - flat.dual([one]) - flat.dual_gradient([one])[0] @ move
        tightest = min(tightest, 2 * above / (move @ move))
    assert 2 <= tightest + 1e-4 <= 2.01


def test_lemma_3(backend, rng):
    """I_1, I_2 >= 0, both vanish at theta*; n I_1 + 2n I_2 is the ball's squared radius at one point, and at two bounds
    its centre's distance to theta*."""
    objective, listed_at = random_list(backend, rng)
    listed = listed_at(0.5, 0.1)
    problem, best, n = backend.ElasticNetCRF(objective, alpha=0.5, beta=0.1), listed.solve(), listed.n
    (B, constant, block), at_best, least = (
        rows(listed),
        without_last(listed.theta(best)),
        listed.dual(listed.theta(best)),
    )
    lengths = np.linalg.norm(B, axis=1)

    def of(w):
        theta = listed.theta(w)
        g = np.concatenate(listed.dual_gradient(theta))
        dual = listed.dual(theta)
        return n * g @ g - 2 * dual + 2 * least, dual - least, dual_ball(problem.evaluate(w), 1)

    for distance in (3.0, 0.3, 1e-2, 1e-5):
        points = [of(best + distance * rng.normal(size=len(best))) for _ in range(8)]
        for (i1, i2, ball), (_, other, _) in zip(points, points[::-1], strict=True):
            assert i1 >= -1e-9 and i2 >= -1e-9
            if distance == 1e-5:
                assert i1 <= 1e-5 and i2 <= 1e-5
            close(ball.radius**2, n * i1 + 2 * n * i2)
            reach = np.sqrt(max(n * i1 + 2 * n * other, 0.0)) + 1e-7
            assert np.all(np.abs(ball.at_centre + constant + B @ at_best) <= reach * lengths)
            of_best = np.bincount(block, at_best, n)
            assert np.all(np.abs(ball.sums - of_best) <= reach * np.sqrt(ball.sizes - 1.0))


def test_the_printed_ball_loses_the_optimum():
    """Theorem 3 with grad D of the whole problem and the rest of the reduced one: n = 1, A = [[2 0], [1 0]], second
    weight gone.
    """
    whole = ListedCRF([np.array([[2.0, 0.0], [1.0, 0.0]])], [1], 1.0, 0.5)
    reduced = whole.reduced([0])
    best = reduced.theta(reduced.solve())[0][0]
    close(best, 0.33545, scale=1e5)
    assert abs(whole.moment(reduced.theta(reduced.solve()))[1]) <= whole.beta  # the weight is 0 at the optimum
    theta = [np.array([0.9, 0.1])]
    printed, g = whole.dual_gradient(theta)[0], reduced.dual_gradient(theta)[0]
    i1 = g @ g - 2 * reduced.dual(theta) + 2 * reduced.dual(reduced.theta(reduced.solve()))
    i2 = reduced.dual(theta) - reduced.dual(reduced.theta(reduced.solve()))
    radius = np.sqrt(i1 + 2 * i2)
    assert abs(best - (0.9 - printed[0])) > radius + 0.2
    assert abs(best - (0.9 - g[0])) <= radius


def test_bad_rules_are_named(backend):
    for options, message in (
        ({"modulus": 3}, "modulus: expected 1 or 2, got 3"),
        ({"half_spaces": "some"}, "half_spaces: expected random, all or none, got 'some'"),
    ):
        with pytest.raises(ValueError, match=message):
            backend.HalfSpaceRule(**options)
    for wrong in (backend.L1GapRule, 3, None):
        with pytest.raises(TypeError, match="rule: expected an object with screen"):
            backend.UnionRule(backend.L1GapRule(), wrong)


def test_the_half_space_rule_needs_a_gradient_of_the_dual(backend, rng):
    objective, _ = random_list(backend, rng)
    with pytest.raises(ValueError, match="alpha: HalfSpaceRule needs alpha > 0"):
        backend.solve_sparse(objective, alpha=0.0, beta=0.1, rule=backend.HalfSpaceRule())
