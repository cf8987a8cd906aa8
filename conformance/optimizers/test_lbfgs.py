"""L-BFGS: its direction against the updated matrix, its steps against the Wolfe conditions, gradients 0 to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.finite_sums import Counting, Logistic, One, Quadratic
from conformance.tolerances import close
from reference.optimizers.lbfgs import C1, C2, LBFGS, Pair, Trial, between, direction


def pairs_of(rng, m, d):
    """Steps, with the changes of the gradient of a convex quadratic over them."""
    root = rng.normal(size=(d, d))
    A = root @ root.T + 0.1 * np.eye(d)
    steps = [10.0 ** rng.integers(-3, 4) * rng.normal(size=d) for _ in range(m)]
    return tuple(Pair(s, A @ s, float(s @ A @ s)) for s in steps)


@given(st.integers(0, 6), st.integers(1, 5), st.integers(0, 10**6))
def test_the_two_loops_are_the_updated_matrix(m, d, seed):
    rng = np.random.default_rng(seed)
    pairs, g, eye = pairs_of(rng, m, d), rng.normal(size=d), np.eye(d)
    H = eye * (pairs[-1].product / (pairs[-1].y @ pairs[-1].y) if pairs else 1.0)
    for s, y, product in pairs:
        left = eye - np.outer(s, y) / product
        H = left @ H @ left.T + np.outer(s, s) / product
    p = direction(g, pairs)
    close(p, -H @ g, scale=1e3 * np.abs(p).max())
    assert p @ g < 0
    if pairs:  # the secant equation
        close(-direction(pairs[-1].y, pairs), pairs[-1].s, scale=1e3 * np.abs(p).max())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_steps_satisfy_the_wolfe_conditions(rng, scale):
    objective = Logistic(scale * rng.normal(size=(20, 4)), rng.choice([-1.0, 1.0], size=20))
    box = LBFGS(lam=0.01, memory=3)
    state = box.init(objective, rng.normal(size=4))
    for _ in range(8):
        if np.abs(state.gradient).max() <= 1e-8:
            break
        after = box.epoch(objective, state)
        assert not after.stuck
        step = after.w - state.w
        before, then = step @ state.gradient, step @ after.gradient
        assert before < 0 and abs(then) <= C2 * abs(before) * (1 + 1e-9)
        assert after.fun <= state.fun + C1 * before + 1e-12 * abs(state.fun)
        fun, gradient = objective.value_and_gradient(after.w)
        close(after.fun, fun + 0.005 * after.w @ after.w)
        close(after.gradient, gradient + 0.01 * after.w)
        assert len(after.pairs) <= 3 and all(pair.product > 0 for pair in after.pairs)
        close(after.pairs[-1].s, step)
        state = after


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
def test_the_gradient_is_small_to_rounding(backend, rng, scale, lam):
    """Where tol = 0, and without one, no run stops before this; it may go on between neighbouring floats."""
    objective = Logistic(scale * rng.normal(size=(20, 4)), rng.choice([-1.0, 1.0], size=20))
    start = rng.normal(size=4)
    result, free = (backend.lbfgs(objective, start, lam=lam, tol=tol, iterations=2000) for tol in (0.0, None))
    assert free.success and free.fun <= result.fun * (1 + 1e-12)
    gradient = objective.value_and_gradient(result.x)[1] + lam * result.x
    size = np.abs(objective.A).max() + lam * np.abs(result.x).max()  # of what the gradient is a sum of
    assert np.abs(gradient).max() <= 1e-13 * size
    assert result.success == (np.abs(gradient).max() == 0)


def absolute(w):
    """||w - 1||_1 and a subgradient."""
    return float(np.abs(w - 1.0).sum()), np.where(w >= 1.0, 1.0, -1.0)


@pytest.mark.parametrize("iterations", [3, 5000])
def test_a_kink_ends_a_run_with_its_reason(backend, iterations):
    """Each evaluation is counted where a search along -H g is followed by one along -g."""
    counting = Counting(One(absolute, 7))
    result = backend.lbfgs(counting, np.array([0.3, -2.0]), lam=0.0, tol=0.0, iterations=iterations)
    assert result.oracle_calls == sum(counting.asked) and result.fun < 3.7
    assert iterations == 3 or (not result.success and "kinks" in result.message)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_start_without_a_finite_value_is_kept(backend, value):
    result = backend.lbfgs(One(lambda w: (value, w)), np.ones(2), lam=0.1)
    assert not result.success and not np.isfinite(result.fun) and result.x.tolist() == [1.0, 1.0]


def test_steps_shorten_where_the_objective_is_not_finite(backend):
    """-log x + x from a start whose first steps leave the domain."""

    def barrier(w):
        return (float(w[0] - np.log(w[0])), 1.0 - 1.0 / w) if w[0] > 0 else (np.inf, np.full(1, np.nan))

    result = backend.lbfgs(One(barrier), np.array([40.0]), lam=0.0, tol=1e-9)
    assert result.success
    assert abs(result.x[0] - 1.0) <= 1e-8


@given(st.integers(0, 10**6))
def test_the_next_length_is_where_the_cubic_is_least(seed):
    """At least a tenth of the interval from either end; the middle where there is no cubic; beyond low without high."""
    rng = np.random.default_rng(seed)
    cubic = np.polynomial.Polynomial(rng.normal(size=4))
    slope, curvature = cubic.deriv(), cubic.deriv(2)
    a, b = np.sort(rng.uniform(0.0, 3.0, size=2))
    low, high = (Trial(x, cubic(x), slope(x), None, None) for x in (a, b))
    assert between(low, None) == 4.0 * a
    for broken in (high._replace(fun=np.inf), high._replace(slope=np.nan)):
        assert abs(between(low, broken) - 0.5 * (a + b)) <= 1e-12
    chosen, (least, most) = between(low, high), (a + 0.1 * (b - a), a + 0.9 * (b - a))
    assert least - 1e-9 <= chosen <= most + 1e-9
    lowest = [x.real for x in slope.roots() if x.imag == 0 and curvature(x.real) > 0]
    if lowest and lowest[0] > a and b - a > 1e-2 and curvature(lowest[0]) > 1e-2:
        assert abs(chosen - np.clip(lowest[0], least, most)) <= 1e-6


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_a_long_step_that_decreases_little_is_refused(backend, rate):
    """-(1 - exp(-rate w)): at once flat, so that long steps decrease it, but by less than c1 a |phi'(0)|."""

    def flat(w):
        decay = np.exp(-rate * w)
        return float(np.sum(decay) - 1.0) * 10 / rate, -10.0 * decay

    state = LBFGS(lam=0.0).init(One(flat), np.zeros(1))
    after = LBFGS(lam=0.0).epoch(One(flat), state)
    assert after.fun <= state.fun + C1 * float(after.w[0]) * -10.0 < state.fun
    assert abs(after.gradient[0]) <= C2 * 10.0 and not after.stuck


@pytest.mark.parametrize("distance", [1.5, -1.5])
def test_first_steps_have_length_one_and_later_ones_the_factor_one(distance):
    """On a parabola: the pair of the first step gives the inverse curvature, and the second ends at the minimum."""
    objective, box = Quadratic([[distance]]), LBFGS(lam=0.0)
    once = box.epoch(objective, box.init(objective, np.zeros(1)))
    assert once.evaluations == 2 and abs(once.w[0] - np.sign(distance)) <= 1e-15
    twice = box.epoch(objective, once)
    assert twice.evaluations == 3 and abs(twice.w[0] - distance) <= 1e-15
    third = box.epoch(objective, twice)
    assert third.stuck and third.evaluations == 3 and third.w[0] == twice.w[0]


def test_slopes_decide_where_differences_are_rounding(backend, rng):
    """A constant hides the last nine digits of the objective, and none of its gradient."""
    smooth = Logistic(rng.normal(size=(20, 4)), rng.choice([-1.0, 1.0], size=20))

    def raised(w):
        value, gradient = smooth.value_and_gradient(w)
        return value + 1e9, gradient

    result = backend.lbfgs(One(raised, 20), rng.normal(size=4), lam=1e-2, tol=1e-9, iterations=200)
    assert result.success and np.abs(smooth.value_and_gradient(result.x)[1] + 1e-2 * result.x).max() <= 1e-9
