"""The paper's rule: the ball, the half-space, problem (4) against solvers, and what is printed of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from conformance.listed_crf import ListedCRF, as_list_model
from conformance.specimens.rules import collinear, large_scale, places, random_classes, random_list
from conformance.tolerances import close
from reference.screening import half_space
from reference.screening.half_space import dual_ball, smallest_on_ball_and_half_space
from reference.screening.rules import rounding


def without_last(theta):
    return np.concatenate([t[:-1] for t in theta])


def rows(listed):
    """B (d, N) and the constant (d,) with (1/n) sum_i A_i o theta_i = constant + B theta, and the block of each
    coordinate."""
    B = np.concatenate([A[:, :-1] - A[:, -1:] for A in listed.A], axis=1) / listed.n
    block = np.concatenate([np.full(A.shape[1] - 1, i) for i, A in enumerate(listed.A)])
    return B, np.mean([A[:, -1] for A in listed.A], axis=0), block


def ball_of(listed, w, modulus):
    """The centre (N,) and the radius at w by definition: theta - (n/m) grad D and (n/m) ||grad D||."""
    theta = listed.theta(w)
    g = np.concatenate(listed.dual_gradient(theta))
    return without_last(theta) - listed.n / modulus * g, listed.n / modulus * np.linalg.norm(g)


@pytest.mark.parametrize("modulus", [1, 2])
@pytest.mark.parametrize("make", [random_list, random_classes, collinear, large_scale], ids=lambda make: make.__name__)
def test_the_ball_is_its_definition(backend, rng, make, modulus):
    """In the paper's coordinates; theta* lies in it."""
    objective, listed_at = make(backend, rng)
    beta = 0.3 * backend.beta_max(objective)
    listed = listed_at(0.5, beta)
    problem = backend.ElasticNetCRF(objective, alpha=0.5, beta=beta)
    best = listed.solve()
    at_best = without_last(listed.theta(best))
    for w in places(best, rng):
        centre, radius = ball_of(listed, w, modulus)
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
        centre, radius = ball_of(listed, w, 2)
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


def test_problem_4_against_a_solver(rng):
    """Its dual by a generic solver: max over lambda >= 0 of <b + lambda p, a0> - r ||b + lambda p|| - lambda c, concave
    in one variable, has the same value where a point lies strictly in both (Slater), and else no larger one."""
    for _ in range(300):
        N = int(rng.integers(1, 5))
        b, p, a0 = rng.normal(size=(3, N)).round(1)
        c, r = float(rng.normal()), float(abs(rng.normal()))
        value = smallest_on_ball_and_half_space(b, p, c, a0, r)
        margin = np.linalg.norm(p) * r - (p @ a0 - c)
        assert np.isfinite(value) == (margin >= 0)

        def minus_dual(lam, b=b, p=p, c=c, a0=a0, r=r):
            q = b + lam * p
            return r * np.linalg.norm(q) + lam * c - q @ a0

        found = minimize_scalar(minus_dual, bounds=(0.0, 1e3), method="bounded", options={"xatol": 1e-9})
        largest = -min(found.fun, minus_dual(0.0))
        assert largest <= value + 1e-7 * (1 + abs(value))
        if margin > 0.1:  # so that lambda is below the bound
            assert value - largest <= 1e-6 * (1 + abs(value))


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
    if d > -1 and np.isclose(pb, -P * Bn):
        return c * Bn / P
    if d <= -1 or np.isclose(pb, P * Bn) or pb >= d * P * Bn:
        return b @ a0 - r * Bn
    delta = 4 * (1 - d**2) * P**4 * d**2 * (P**2 * Bn**2 - pb**2)
    second = (-2 * (1 - d**2) * P**2 * pb + np.sqrt(delta)) / (2 * P**4 * (1 - d**2))
    q = b + second * p
    first = np.linalg.norm(q) / (2 * r)
    return -(q @ q) / (4 * first) + q @ a0 - (first * r**2 + second * c)


def test_the_printed_theorem_4_is_wrong():
    """Its case iii has the wrong sign; its root is the wrong one where the centre lies inside the half-space: it is not
    the value of the corners above, which a feasible point attains."""
    one, b, p = np.ones(1), np.array([-0.8, 0.6]), np.array([1.0, 0.0])
    assert printed_theorem_4(-one, one, 1.0, one, 1.0) == 1.0
    assert abs(printed_theorem_4(b, p, 0.5, np.zeros(2), 1.0) - b @ [0.5, -np.sqrt(0.75)]) > 0.3


def test_the_printed_theorem_4_removes_a_weight_that_is_needed(backend):
    """n = 1, A = [1 0], alpha = 1, beta = 0.2, theta = 0.1: w* = 0.68, the printed bound is -0.1."""
    listed = ListedCRF([np.array([[1.0, 0.0]])], [1], 1.0, 0.2)
    close(listed.solve()[0], 0.6806, scale=1e5)
    w, one = np.array([np.log(9.0)]), np.ones(1)
    close(listed.theta(w)[0][0], 0.1)
    printed = max(-printed_theorem_4(sign * one, one, 1.0, *ball_of(listed, w, 1)) for sign in (-1.0, 1.0))
    close(printed, -0.1)
    state = backend.ElasticNetCRF(as_list_model(backend, listed), alpha=1.0, beta=0.2).evaluate(w)
    close(backend.HalfSpaceRule(1, "all").bounds(state), [1.0])
    assert printed <= 0.2 and not backend.HalfSpaceRule(1, "all").screen(state)[0]


def test_lemma_2_with_the_sharper_modulus(rng):
    """D(t2) >= D(t1) + <grad D(t1), t2 - t1> + (m/2n) ||t1 - t2||^2 with m = 2, in the paper's coordinates; no more
    than 2 in general."""

    def above(listed, one, two):
        """By how much D(t2) is above its tangent at t1, and ||t2 - t1||^2."""
        move = without_last(two) - without_last(one)
        g = np.concatenate(listed.dual_gradient(one))
        return listed.dual(two) - listed.dual(one) - g @ move, move @ move

    for alpha in (1.0, 0.03):
        for _ in range(200):
            sizes = rng.integers(2, 5, 3)
            listed = ListedCRF([rng.normal(size=(4, m)) for m in sizes], [0] * 3, alpha, 0.3)
            one, two = ([rng.dirichlet(np.full(m, c)) + 1e-12 for m in sizes] for c in (1.0, 0.5))
            rise, square = above(listed, *([t / t.sum() for t in each] for each in (one, two)))
            assert rise >= square / listed.n - 1e-9
    flat = ListedCRF([np.zeros((1, 3))], [0], 1.0, 0.3)  # D is -H: two halves and nearly nothing
    for step in (1e-2, 1e-3):
        rise, square = above(flat, *([np.array([0.5 + s, 0.5 - s - 1e-9, 1e-9])] for s in (0.0, step)))
    assert 2 <= 2 * rise / square + 1e-4 <= 2.01


def test_lemma_3(backend, rng):
    """I_1, I_2 >= 0, both vanish at theta*; n I_1 + 2n I_2 is the ball's squared radius at one point, and at two bounds
    its centre's distance to theta*."""
    objective, listed_at = random_list(backend, rng)
    listed = listed_at(0.5, 0.1)
    problem, best, n = backend.ElasticNetCRF(objective, alpha=0.5, beta=0.1), listed.solve(), listed.n
    at_best, least = without_last(listed.theta(best)), listed.dual(listed.theta(best))
    for distance in (3.0, 0.3, 1e-2, 1e-5):
        points = [best + distance * rng.normal(size=len(best)) for _ in range(8)]
        second = [listed.dual(listed.theta(w)) - least for w in points]
        for w, i2, other in zip(points, second, second[::-1], strict=True):
            g = np.concatenate(listed.dual_gradient(listed.theta(w)))
            i1 = n * g @ g - 2 * (i2 + least) + 2 * least
            assert i1 >= -1e-9 and i2 >= -1e-9
            assert distance > 1e-5 or max(i1, i2) <= 1e-5
            close(dual_ball(problem.evaluate(w), 1).radius ** 2, n * i1 + 2 * n * i2)
            centre, _ = ball_of(listed, w, 1)
            assert np.linalg.norm(at_best - centre) <= np.sqrt(max(n * i1 + 2 * n * other, 0.0)) + 1e-7


def test_the_printed_ball_loses_the_optimum():
    """Theorem 3 with grad D of the whole problem and the rest of the reduced one: n = 1, A = [[2 0], [1 0]], second
    weight gone."""
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


def test_the_bounds_cover_the_assumed_error_of_the_half_space(backend, rng, monkeypatch):
    """One example, two outputs: theta of the wrong one is at most 1, and |G| there is the bound. If delta were large,
    and the centre's sum off by as much as that allows, no bound falls below it."""
    objective = as_list_model(backend, ListedCRF([np.array([[0.0, 2.0]])], [1], 0.3, 0.2))
    problem, rule, cut = backend.ElasticNetCRF(objective, alpha=0.3, beta=0.2), backend.HalfSpaceRule(2, "all"), 0
    for w in (-3.0, -1.0, -0.3, 0.3, 1.0, 3.0):
        state = problem.evaluate([w])
        ball, exact = dual_ball(state, 2), rule.bounds(state)
        cut += exact < backend.HalfSpaceRule(2, "none").bounds(state) - 1e-6
        delta = 1e-3 + rounding(state)
        error = 2.0 * delta[0] / (2 * 0.3 * 0.2)  # ||n B||_F = 2
        for sign in (-1.0, 1.0):
            off = ball._replace(sums=ball.sums + sign * error)
            with monkeypatch.context() as patched:
                patched.setattr(half_space, "rounding", lambda state, delta=delta: delta)
                patched.setattr(half_space, "dual_ball", lambda state, modulus, off=off: off)
                assert rule.bounds(state) >= exact, (w, sign)
    assert cut > 0
