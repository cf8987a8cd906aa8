"""Updates of one dual block against their optimality conditions; what is printed of them, and is wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
    total = start.sum()
    outputs = np.eye(len(b))[[min(j, len(b) - 1)]]
    if total > 0:  # the block so far as one output, and sample j: a problem of two
        outputs = np.concatenate([start[None] / total, outputs])
    Q2, b2, first = outputs @ Q @ outputs.T, outputs @ b, np.append(np.full(len(outputs) - 1, total), 0.0)
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


def classes(P, K):
    return P * (np.eye(K) + np.ones((K, K)))


@given(
    st.lists(st.one_of(st.integers(-2, 1).map(float), st.floats(-3, 3, width=32)), max_size=6),
    st.sampled_from([0.0, 1e-12, 1e-2, 1.0, 3.5, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_the_multiclass_update_satisfies_the_optimality_conditions(c, P, scale):
    c = scale * np.array(c)
    alpha = multiclass_update(c, P)
    assert feasible(alpha) and distance(classes(P, len(c)), -c, alpha) <= 1e-9 * (np.max(np.abs(c), initial=0.0) + P)


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


@given(
    st.one_of(st.integers(1, 12), st.sampled_from([60, 200])),
    st.integers(1, 30),
    st.integers(0, 2**31),
    st.sampled_from([1e-6, 1.0, 1e5]),
)
def test_quadratics_on_the_simplex(m, d, seed, scale):
    """More variables than dimensions among them: the gap is the tolerance's, whatever the start."""
    rng = np.random.default_rng(seed)
    V, b = rng.normal(size=(m, d)), scale * rng.normal(size=m)
    if seed % 3 == 0:
        V, b = np.round(V), np.round(b)
    Q, start = V @ V.T, np.eye(m)[seed % m]
    alpha = maximize_on_simplex(Q, b, start, 1e-10 * (1 + scale))
    g = b - Q @ alpha
    assert np.all(alpha >= 0) and abs(alpha.sum() - 1) <= 1e-12 and np.max(g) - alpha @ g <= 1e-9 * (1 + scale)
    assert value(Q, b, alpha) >= value(Q, b, start) - 1e-12 * (1 + scale)
