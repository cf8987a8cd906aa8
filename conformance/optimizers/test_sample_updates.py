"""Updates of one dual block against their optimality conditions; what is printed of them, and is wrong. Updates from a
sampler of the user's own: what is promised of any, and what of one that lists everything.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.golden.problems import Problems
from conformance.listed_svm import hinge, labelling, listed
from conformance.tolerances import close
from reference.optimizers.sample_updates import exact_update, expand_and_swap, multiclass_update
from reference.optimizers.simplex import _pair, maximize_on_simplex


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


@given(seed=st.integers(0, 2**31))
def test_a_pair_moves_to_the_best_point_of_its_edge(seed):
    """Of all moves from one variable to the other that leave no weight below 0."""
    rng = np.random.default_rng(seed)
    V, b, alpha = rng.normal(size=(5, 2)), 3 * rng.normal(size=5), rng.dirichlet(np.ones(5)) * (rng.random(5) < 0.7)
    alpha[0] += 1 - alpha.sum()
    V[1] = V[2]  # no curvature between these two
    Q = V @ V.T
    move = _pair(Q, b - Q @ alpha, alpha)
    i, j = np.argmax(b - Q @ alpha), np.argmin(np.where(alpha > 0, b - Q @ alpha, np.inf))
    edge = (np.eye(5)[i] - np.eye(5)[j]) * alpha[j]
    best = max(value(Q, b, alpha + t * edge) for t in np.linspace(0, 1, 101))
    assert np.all(alpha + move >= 0) and value(Q, b, alpha + move) >= best - 1e-12 * (1 + abs(best))
    close(move, move[i] * (np.eye(5)[i] - np.eye(5)[j]))


def everything(i, space, size, rng):
    """Every output."""
    return list(space.enumerate())


def anything(i, space, size, rng):
    """Some of the outputs, none now and then, one of them twice."""
    outputs = list(space.enumerate())
    return [outputs[j] for j in rng.integers(0, len(outputs), rng.integers(0, size + 1))]


def worst(i, space, size, rng):
    """The outputs of lowest score: no help at all."""
    return sorted(space.enumerate(), key=lambda y: float(space.score(np.array(y, int))))[:size]


def models(backend):
    """Chains, trees, classes, lists and dependency trees: an objective each."""
    return [Problems(backend).objective(f"{name}/hinge") for name in ("chain", "trees", "classes", "listed", "parsing")]


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("sampler", [anything, worst])
@pytest.mark.parametrize("update", ["moves", "exact"])
def test_with_any_sampler_the_dual_rises_and_the_gap_holds(backend, rng, sampler, update):
    for objective in models(backend):
        run = backend.multisample(objective, lam=0.1, k=4, sampler=sampler, update=update, epochs=12, tol=None, rng=0)
        best = backend.bcfw(objective, lam=0.1, epochs=400, tol=1e-3, rng=0)
        duals = [row.dual for row in run.history]
        assert np.all(np.diff(duals) >= -1e-12) and duals[-1] > duals[0]
        close(run.fun, objective.value_and_gradient(run.x)[0] + 0.05 * run.x @ run.x)
        assert duals[-1] <= best.fun + 1e-9 and run.fun - run.certificate <= best.fun + 1e-9
        assert best.fun - best.certificate <= run.fun + 1e-9


def test_a_sampler_of_everything_makes_the_exact_step(backend, rng):
    """One example, all its outputs: after one exact step the weights are those of the maximum of its dual, by
    enumeration."""
    X, Y = labelling(rng, (3,))
    problem = listed(X, Y, 3, 0.2)
    options = {"k": 28, "sampler": everything, "update": "exact", "epochs": 1, "tol": None}
    result = backend.multisample(hinge(backend, X, Y), lam=0.2, **options)
    assert result.oracle_calls == 1 and abs(result.certificate) <= 1e-8  # the optimum, in one step
    close(result.fun, problem.primal(result.x))


def best(i, space, size, rng):
    """The best outputs but the first, which a visit has already."""
    found = space.topk(size + 1)
    return found.labels[1 : int(found.count)]


def draws(i, space, size, rng):
    return space.sample(size, 0.7, rng)


@pytest.mark.parametrize("update", ["moves", "exact"])
@pytest.mark.parametrize(("sampler", "name", "scale"), [(best, "topk", 1.0), (draws, "gibbs", 100.0)])
def test_samplers_that_do_what_a_named_one_does(backend, sampler, name, scale, update):
    for objective in models(backend)[: 1 if name == "topk" else 4]:
        options = {"lam": 0.1, "k": 4, "mu": 0.7, "update": update, "epochs": 3, "tol": None, "rng": 0}
        ours, theirs = (backend.multisample(objective, sampler=each, **options) for each in (sampler, name))
        close(ours.x, theirs.x, scale=scale)
        close([row.dual for row in ours.history], [row.dual for row in theirs.history], scale=scale)


def test_the_space_has_the_loss_in_it(backend, rng):
    """score(y) is loss_i(y) + <w, phi(x_i, y)>, for the weights of the call; k - 1 outputs are asked for."""
    X, Y = labelling(rng, (2, 3))
    objective, seen = hinge(backend, X, Y), []
    problem, w = listed(X, Y, 3, 0.1), rng.normal(size=objective.model.size)

    def check(i, space, size, rng):
        seen.append((i, size))
        outputs = list(itertools.product(range(3), repeat=len(Y[i])))
        scores = np.array([float(space.score(np.array(y))) for y in outputs])
        true = scores[outputs.index(tuple(int(label) for label in Y[i]))]
        close(np.sort(scores - true), np.sort(problem.loss[i] + problem.V[i] @ w))
        return outputs[:1]

    assert np.all(objective.sampled_corners(w, None, 2, sampler=check).count <= 2) and seen == [(0, 1), (1, 1)]
    drawn = objective.sampled_corners(w, None, 6, 0.5, rng=2)
    for V, losses, count, every in zip(drawn.directions, drawn.losses, drawn.count, problem.V, strict=True):
        assert 1 <= count <= 6 and np.all(losses[count:] == -np.inf) and not np.any(V[count:])
        places = [int(np.argmin(np.sum(np.abs(every - v), axis=1))) for v in V[:count]]
        close(V[:count], every[places])
        assert len(set(places)) == count  # each output once


@pytest.mark.parametrize("mu", [0.3, 2.0])
def test_samples_have_the_probabilities_of_the_model(backend, rng, mu):
    """Beside the best output, each is drawn with probability exp((loss + score)/mu)/Z, by enumeration."""
    X, Y = labelling(rng, (2,))
    objective, draws = hinge(backend, X, Y), 700
    (V,), (loss,), w = *(listed(X, Y, 3, 0.1).V, listed(X, Y, 3, 0.1).loss), rng.normal(size=objective.model.size)
    scores = loss + V @ w
    P = np.exp((scores - scores.max()) / mu)
    P /= P.sum()
    drawn = objective.sampled_corners(w, [0] * draws, 2, mu, rng=0)
    best = np.argmax(scores)
    close(drawn.directions[:, 0], np.tile(V[best], (draws, 1)))  # the subgradient is the first
    second = drawn.directions[drawn.count == 2, 1]
    places = np.argmin(np.sum(np.abs(second[:, None] - V), axis=2), axis=1)
    found = np.bincount(places, minlength=len(V)) / draws
    found[best] = np.mean(drawn.count == 1)  # drawn again, it is there once
    assert np.all(np.abs(found - P) <= 4 * np.sqrt(P * (1 - P) / draws) + 1 / draws)


def test_samplers_in_every_namespace(backend, space, rng):
    X, Y = labelling(rng, (2, 3), F=2, L=2)
    model = backend.SequenceModel(2, 2)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    result = backend.multisample(objective, lam=0.3, k=9, sampler=everything, update="exact", epochs=30, tol=1e-2)
    assert space.get(result.x).dtype == space.dtype and result.success


@pytest.mark.parametrize(
    ("proposed", "error", "message"),
    [
        (lambda y: 3, TypeError, "sampler: expected a list of outputs of example 0, got int"),
        (lambda y: [y] * 4, ValueError, "sampler: expected at most 3 outputs of example 0, got 4"),
        (lambda y: [y, [0, 3]], ValueError, r"sampler: output 1 of example 0: y: expected labels in 0..2"),
        (
            lambda y: [[0]],
            ValueError,
            r"sampler: output 0 of example 0: y: expected labels of shape \(2,\), got \(1,\)",
        ),
        (lambda y: [[0.0, 1.0]], TypeError, "sampler: output 0 of example 0: y: expected integers, got float64"),
        (lambda y: [[-1, -1]], ValueError, "sampler: output 0 of example 0: expected a state of each variable, got"),
    ],
)
def test_proposals_are_checked(backend, rng, proposed, error, message):
    objective = hinge(backend, *labelling(rng, (2,)))
    with pytest.raises(error, match=message):
        backend.multisample(objective, lam=0.1, k=4, sampler=lambda i, space, size, rng: proposed([0, 1]), rng=0)


def test_forbidden_proposals_are_refused(backend):
    model = backend.TaggingModel(["B", "I", "O"], None, bits=4, transitions="bio")
    objective = backend.StructuralHinge(model, model.pack([[{"a": 1.0}]], [["O"]]))
    with pytest.raises(ValueError, match=r"sampler: output 0 of example 0: expected an output that is not forbidden"):
        objective.sampled_corners(objective.zeros(), None, 2, sampler=lambda i, space, size, rng: [[1]])


def test_one_output_needs_nothing_but_the_best(backend):
    """A structure of the user's with best and parts; more outputs need topk, or sample."""

    class Two(backend.Structure):
        def best(self):
            return float(self.scores.max()), int(self.scores.argmax())

        def parts(self, y):
            return np.eye(2)[y]

    model = backend.ListModel(lambda x: np.eye(2) * x, Two, task_loss=lambda x, y: 1.0 - np.eye(2)[y], size=2)
    objective = backend.StructuralHinge(model, model.pack([1.0, 2.0], [0, 1]))
    assert backend.multisample(objective, lam=0.1, k=1, rng=0).success
    for sampler, method in (("topk", "topk"), ("gibbs", "sample")):
        with pytest.raises(backend.UnsupportedError, match=rf"Two does not implement {method}\(\)"):
            backend.multisample(objective, lam=0.1, k=2, sampler=sampler)
