"""Updates of one dual block against generic solvers and optimality conditions; what is printed of them, and is
wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.optimizers.optima import on_simplex
from conformance.tolerances import close
from reference.optimizers.sample_updates import exact_update, expand_and_swap, multiclass_update
from reference.optimizers.simplex import maximize_on_simplex


def value(Q, b, alpha):
    return b @ alpha - 0.5 * alpha @ Q @ alpha


def distance(Q, b, alpha):
    """How far below the maximum over alpha >= 0, sum alpha <= 1 the value may be, by concavity."""
    g = b - Q @ alpha
    return max(0.0, g.max(initial=0.0)) - alpha @ g


def feasible(alpha):
    return np.all(alpha >= 0) and np.sum(alpha) <= 1 + 1e-12


@st.composite
def blocks(draw):
    """Directions and scores of up to 5 outputs: ties, duplicates, zeros, dependent directions; scales apart."""
    m, d = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    entry = st.one_of(st.integers(-1, 1).map(float), st.floats(-2, 2, width=32))
    V = np.array(draw(st.lists(entry, min_size=m * d, max_size=m * d))).reshape(m, d)
    b = np.array(draw(st.lists(entry, min_size=m, max_size=m))) * draw(st.sampled_from([1e-6, 1.0, 1e6]))
    V = V * draw(st.sampled_from([1e-3, 1.0, 1e3]))
    if m > 1 and draw(st.booleans()):
        V[1], b[1] = V[0], b[0]
    start = np.array(draw(st.lists(st.integers(0, 3), min_size=m, max_size=m)), dtype=np.float64)
    return V @ V.T, b, start / max(start.sum(), draw(st.sampled_from([1.0, 10.0, 20.0])))


def magnitude(Q, b):
    return np.max(np.abs(b)) + np.max(np.abs(Q)) + 1e-300


@given(blocks())
def test_moves_never_lower_the_dual(block):
    Q, b, start = block
    alpha = expand_and_swap(Q, b, start)
    assert feasible(alpha) and value(Q, b, alpha) >= value(Q, b, start) - 1e-12 * magnitude(Q, b)


@given(blocks(), st.integers(0, 4))
def test_one_move_beats_every_length_of_both_moves(block, j):
    """The last sample of a set whose others have moved: every length of its two moves, from where they ended."""
    Q, b, start = block
    if not np.any(start):
        j = 0
    j = min(j, len(b) - 1)
    u, mixed = start @ Q @ start, Q @ start
    total = start.sum()
    if total > 0:  # the block so far as one output, and sample j: a problem of two
        Q2 = np.array([[u / total**2, mixed[j] / total], [mixed[j] / total, Q[j, j]]])
        b2, first = np.array([b @ start / total, b[j]]), np.array([total, 0.0])
    else:
        Q2, b2, first = Q[j : j + 1, j : j + 1], b[j : j + 1], np.zeros(1)
    got, size = expand_and_swap(Q2, b2, first), magnitude(Q, b)
    first = np.append(expand_and_swap(Q2[:-1, :-1], b2[:-1], first[:-1]), 0.0)
    one = np.eye(len(b2))[-1]
    for a in np.linspace(0.0, 1.0, 201):
        for other in (first + a * max(0.0, 1.0 - first.sum()) * one, (1 - a) * first + a * one):
            assert value(Q2, b2, got) >= value(Q2, b2, other) - 1e-12 * size


def test_the_printed_swap_may_lower_the_dual():
    """lam = t = 1, w = 0, u = 1 with loss 0, v = -1 with loss 0.1: the print goes all the way, and loses 1.9."""
    Q = np.array([[1.0, -1.0], [-1.0, 1.0]])
    b = np.array([0.0, 0.1]) + Q @ [1.0, 0.0]  # w is 0 at alpha = (1, 0)
    start = np.array([1.0, 0.0])
    g = b - Q @ start
    slope = g[1] - start @ g
    printed = 1.0 if Q[0, 0] + 2 * Q[0, 1] + Q[1, 1] == 0 and slope > 0 else np.nan
    close(value(Q, b, (1 - printed) * start + [0.0, printed]) - value(Q, b, start), -1.9)
    alpha = expand_and_swap(Q, b, start)
    close(alpha, [0.975, 0.025])
    close(value(Q, b, alpha) - value(Q, b, start), 0.00125)


def test_the_swap_as_printed_is_measured_from_the_wrong_point(rng):
    """The printed gain of a swap, + a^2/2 ||u + v||^2, is not the difference of two duals; - a^2/2 ||u - v||^2 is."""
    V, b = rng.normal(size=(2, 3)), rng.normal(size=2)
    Q, start, a = V @ V.T, np.array([1.0, 0.0]), 0.3
    gained = value(Q, b, np.array([1 - a, a])) - value(Q, b, start)
    g = b - Q @ start
    linear = a * (g[1] - start @ g)
    close(gained, linear - 0.5 * a**2 * (V[1] - V[0]) @ (V[1] - V[0]))
    assert abs(gained - (linear + 0.5 * a**2 * (V[1] + V[0]) @ (V[1] + V[0]))) > 0.01


def test_repeating_the_moves_does_not_reach_the_maximum(rng):
    worst = 0.0
    for _ in range(60):
        V, b = rng.normal(size=(4, 3)), rng.normal(size=4)
        Q, alpha = V @ V.T, np.zeros(4)
        for _ in range(100):
            alpha = expand_and_swap(Q, b, alpha)
        worst = max(worst, distance(Q, b, alpha))
        assert distance(Q, b, exact_update(Q, b, np.zeros(4))) <= 1e-9
    assert worst > 1e-3


@given(blocks())
def test_the_exact_update_satisfies_the_optimality_conditions(block):
    Q, b, start = block
    alpha = exact_update(Q, b, start)
    assert feasible(alpha) and distance(Q, b, alpha) <= 1e-9 * magnitude(Q, b)


def test_exact_updates_against_a_generic_solver(rng):
    for _ in range(40):
        m = rng.integers(1, 7)
        V, b = rng.normal(size=(m, 4)), rng.normal(size=m)
        theirs = value(V @ V.T, b, on_simplex(V @ V.T, b, at_most=True))
        close(value(V @ V.T, b, exact_update(V @ V.T, b, np.zeros(m))), theirs, scale=100.0)


def classes(P, K):
    return P * (np.eye(K) + np.ones((K, K)))


@given(
    st.lists(st.one_of(st.integers(-2, 1).map(float), st.floats(-3, 3, width=32)), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e-12, 1e-2, 1.0, 3.5, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_the_multiclass_update_satisfies_the_optimality_conditions(c, P, scale):
    c = scale * np.array(c)
    alpha = multiclass_update(c, P)
    assert feasible(alpha) and distance(classes(P, len(c)), -c, alpha) <= 1e-9 * (np.max(np.abs(c)) + P)


def test_the_multiclass_update_against_a_generic_solver(rng):
    for K in (1, 2, 5, 9):
        for P in (0.3, 1.0, 20.0):
            c = rng.normal(size=K) * 3.0
            Q = classes(P, K)
            close(value(Q, -c, multiclass_update(c, P)), value(Q, -c, on_simplex(Q, -c, at_most=True)), scale=100.0)


def test_no_classes_no_weights():
    assert multiclass_update(np.zeros(0), 1.0).shape == (0,)


def printed_multiclass_update(c):
    """Algorithm 2 to the letter."""
    order = np.argsort(c)
    s, n, alpha = 0.0, 1, np.zeros(len(c))
    while n <= len(c) and c[order[n - 1]] <= min(s / (n + 1), (1 + s) / n):
        s += c[order[n - 1]]
        n += 1
    for i in range(min(n, len(c))):
        alpha[order[i]] = -(c[order[i]] - min(s / (n + 1), (1 + s) / n))
    return alpha


def test_the_printed_multiclass_update_takes_one_class_too_many():
    c = np.array([-1.0])
    close(printed_multiclass_update(c), [2 / 3])
    close(multiclass_update(c, 1.0), [0.5])
    assert value(classes(1.0, 1), -c, np.array([0.5])) > value(classes(1.0, 1), -c, np.array([2 / 3])) + 0.01


def test_the_inverse_of_the_classes_matrix():
    K, P = 4, 2.3
    close(np.linalg.inv(classes(P, K)), (np.eye(K) - np.ones((K, K)) / (K + 1)) / P)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**31), st.sampled_from([1e-6, 1.0, 1e5]))
def test_quadratics_on_the_simplex(m, d, seed, scale):
    """More variables than dimensions among them: the gap is the tolerance's, whatever the start."""
    rng = np.random.default_rng(seed)
    V, b = rng.normal(size=(m, d)), scale * rng.normal(size=m)
    if seed % 3 == 0:
        V, b = np.round(V), np.round(b)
    Q, start = V @ V.T, np.eye(m)[seed % m]
    alpha = maximize_on_simplex(Q, b, start, 1e-10 * (1 + scale))
    g = b - Q @ alpha
    assert np.all(alpha >= 0) and abs(alpha.sum() - 1) <= 1e-12
    assert np.max(g) - alpha @ g <= 1e-9 * (1 + scale) and value(Q, b, alpha) >= value(Q, b, start) - 1e-12 * (
        1 + scale
    )


@pytest.mark.parametrize("m", [60, 200])
def test_many_variables(rng, m):
    V, b = rng.normal(size=(m, 30)), rng.normal(size=m)
    Q = V @ V.T
    alpha = maximize_on_simplex(Q, b, np.eye(m)[0], 1e-10)
    g = b - Q @ alpha
    assert np.max(g) - alpha @ g <= 1e-10
