"""Multi-sample dual updates against their equations with every output listed, and what Branson et al. promise: of each
step (Lemmas 2.2, 2.3, 2.5), on the training set (2.1.1, 2.1.3) and beyond it (Theorem 2.1.2).
"""

from __future__ import annotations

import itertools
from math import log, sqrt

import numpy as np
import pytest

from conformance.finite_sums import bracket, total
from conformance.listed_svm import hinge, labelling, listed
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.bounds import dual_increase, online_regret, subgradient_norm
from reference.optimizers import multisample as own

COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])


def run_steps(backend, objective, lam, passes, seed=0, **options):
    """The states of a run, each with the example of its step and the samples it had."""
    box = own.Multisample(lam, **{"k": 3, **options})
    rng, state, states = np.random.default_rng(seed), box.init(objective), []
    for _ in range(passes):
        for i in rng.permutation(objective.n):
            corners = box.samples(objective, state.x, i, rng)
            after = box.visit(objective, state, i, corners)
            states.append((state, after, i, corners))
            state = after
    return states


@pytest.mark.parametrize("options", options_of_box("multisample"), ids=lambda each: "-".join(map(str, each.values())))
def test_runs_are_their_equations(backend, rng, options):
    """Of the steps that are checked below: the weights, or the mean of those before each step, the objective of these
    with every output listed, and the best dual so far."""
    X, Y = labelling(rng, (2, 3, 1, 3))
    problem, objective = listed(X, Y, 3, 0.07), hinge(backend, X, Y)
    steps = run_steps(backend, objective, 0.07, 4, 4, **options)
    ends = [after for _, after, *_ in steps[objective.n - 1 :: objective.n]]
    bests = np.maximum.accumulate([state.dual(0.07) for state in ends])
    result = backend.multisample(objective, lam=0.07, epochs=4, tol=0.0, rng=4, **options)
    averaged = options.get("average") == "uniform"
    for row, best, state in zip(result.history, bests, ends, strict=True):
        w = state.mean if averaged else state.x
        close(row.objective, problem.primal(w), scale=100.0)
        close(row.dual, best, scale=100.0)
        close(row.gap, row.objective - row.dual)
    close(result.x, w, scale=100.0)
    assert result.certificate == result.history[-1].gap and result.oracle_calls == 16
    assert result.iterate == ("uniform average" if averaged else "last")


def classes(backend, X, Y):
    """The hinge of a multiclass problem with costs up to 3."""
    model = backend.MulticlassModel(2, 3, cost=COST)
    return backend.StructuralHinge(model, model.pack(X, Y))


def objectives(backend, rng):
    """Chains, trees and classes."""
    X, Y = labelling(rng, (2, 3, 1, 3))
    yield hinge(backend, X, Y)
    model = backend.TreeModel(3, 3, cost=COST)
    yield backend.StructuralHinge(model, model.pack([(x, np.arange(len(x)) - 1) for x in X], Y))
    yield classes(backend, rng.normal(size=(8, 2)), rng.integers(0, 3, 8))


@pytest.mark.parametrize("options", options_of_box("multisample"))
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_each_step_raises_the_dual(backend, rng, options, lam):
    """By what Lemma 2.2 promises where the block is new, never below; the norm stays within Lemma 2.5's radius."""
    for objective in objectives(backend, rng):
        losses = objective.corners(objective.zeros()).losses[:, 0]  # the largest task loss of each example
        for before, after, i, corners in run_steps(backend, objective, lam, 3, **options):
            w = before.x
            gained = after.blocks * after.dual(lam) - before.blocks * before.dual(lam)
            assert gained >= -1e-10 * (1 + abs(after.blocks * after.dual(lam)))
            assert lam * after.x @ after.x <= losses.max() * (1 + 1e-9)
            if after.blocks > before.blocks:
                value = objective.value_and_gradient(w, [i])[0] + 0.5 * lam * w @ w
                g = lam * w + corners.directions[0, 0, :]
                assert gained >= dual_increase(value, g @ g, lam, after.blocks) - 1e-9 * (1 + abs(value))


@pytest.mark.parametrize("options", [each for each in options_of_box("multisample") if "online" not in each])
def test_the_dual_is_that_of_feasible_weights(backend, rng, options):
    """w = -1/(lam T) sum of the blocks, weights >= 0 of sum <= 1; coming back to a block gives the state its whole
    dual.
    """
    lam = 0.05
    for objective in objectives(backend, rng):
        *_, (_, state, _, _) = run_steps(backend, objective, lam, 3, **options)
        assert np.all(state.weights >= 0) and np.all(state.weights <= 1 + 1e-12) and state.blocks == objective.n
        u = sum(state.weights[i] * mixture.direction for i, mixture in state.mixtures.items())
        close(state.x, -u / (lam * objective.n), scale=100.0)
        close(state.loss, sum(state.weights[i] * mixture.loss for i, mixture in state.mixtures.items()))


@pytest.mark.parametrize("sampler", ["topk", "gibbs"])
@pytest.mark.parametrize("update", ["moves", "exact"])
@pytest.mark.parametrize("lam", [0.01, 0.3, 3.0])
def test_regret_and_empirical_error(backend, rng, lam, update, sampler):
    """Theorem 2.1.1 and 2.1.3, Lemma 2.4, 2.5 and 2.6, with losses up to 3."""
    X, Y = rng.normal(size=(6, 2)), rng.integers(0, 3, 6)
    objective = classes(backend, X, Y)
    high = bracket(objective, lam)[1]
    G = subgradient_norm(lam, np.max(np.linalg.norm(X, axis=1)), 3.0)
    values, task_losses = [], []
    for before, after, i, corners in run_steps(backend, objective, lam, 8, update=update, sampler=sampler, online=True):
        w = before.x
        hinge_of = objective.value_and_gradient(w, [i])[0]
        values.append(hinge_of + 0.5 * lam * w @ w)
        task_losses.append(COST[Y[i], objective.model.predict(objective.data, [i], w)[0]])
        assert task_losses[-1] <= hinge_of + 1e-12  # Lemma 2.6
        assert np.linalg.norm(lam * w + corners.directions[0, 0, :]) <= G * (1 + 1e-12)  # Lemma 2.5
        steps = len(values)
        if steps % 6 == 0:
            promised = high + online_regret(lam, G, steps)
            assert np.mean(values) <= promised and np.mean(task_losses) <= promised  # Lemma 2.4, Theorem 2.1.1
            assert total(objective, after.mean, lam) <= promised  # Theorem 2.1.3


def test_the_radius_of_the_print_needs_losses_up_to_one():
    """||w|| <= 1/sqrt(lam) by projection: with a loss of 3 it lowers the dual, sqrt(3/lam) does not."""
    lam, w, loss = 1.0, np.array([sqrt(3.0)]), 3.0  # the dual's best point along its ray: loss = lam ||w||^2

    def dual(s):
        return s * loss - 0.5 * lam * s * s * float(w @ w)

    assert dual(1.0 / np.linalg.norm(w)) < dual(1.0) - 0.2
    close(dual(min(1.0, sqrt(3.0 / lam) / np.linalg.norm(w))), dual(1.0))
    assert own.best_scale(loss, lam * float(w @ w)) == 1.0
    close(own.best_scale(1.0, 4.0), 0.25)


def test_the_third_line_of_lemma_2_2(rng):
    """D_t - D_{t-1} for a new block with all weight on one output: lam (t-1)/(2t) ||w||^2, not (lam t - 2 lam)/(2t)
    ||w||^2.
    """
    t, lam, loss = 3, 0.7, 0.4
    w, v = rng.normal(size=3), rng.normal(size=3)
    after = (t - 1) / t * w - v / (lam * t)
    gained = -0.5 * lam * t * after @ after + 0.5 * lam * (t - 1) * w @ w + loss
    rest = (t - 1) / t * w @ v - v @ v / (2 * lam * t) + loss
    close(gained, lam * (t - 1) / (2 * t) * w @ w + rest)
    assert abs(gained - ((lam * t - 2 * lam) / (2 * t) * w @ w + rest)) > 0.01
    g = lam * w + v
    close(gained, dual_increase(0.5 * lam * w @ w + w @ v + loss, g @ g, lam, t))


def test_weights_before_the_step_are_scaled_first(rng):
    """Equation (11): c_j with w^{t,0} = (t-1)/t w^{t-1}; the print has w^{t-1}."""
    t, lam = 4, 0.6
    U, V, losses = rng.normal(size=3), rng.normal(size=(2, 3)), rng.uniform(size=2)
    alpha = np.array([0.3, 0.5])

    def dual(alpha):
        w = -(U + alpha @ V) / (lam * t)
        return alpha @ losses - 0.5 * lam * t * w @ w

    for factor, right in (((t - 1) / t, True), (1.0, False)):
        w = factor * -U / (lam * (t - 1))
        model = alpha @ (losses + V @ w) - 0.5 * alpha @ V @ V.T @ alpha / (lam * t)
        assert bool(abs(dual(alpha) - dual(0 * alpha) - model) <= 1e-12) is right


ATOMS, CLASSES = np.array([[1.0, 0.2], [-0.5, 0.8], [0.3, -1.0]]), np.arange(3)


def mean_model(backend, sample, lam):
    """The mean of the weights of one pass of Algorithm 3 over the atoms of these numbers, a block for each visit."""
    options = {"k": 2, "online": True, "average": "uniform", "epochs": 1, "tol": 0.0, "rng": 0}
    return backend.multisample(classes(backend, ATOMS[sample], CLASSES[sample]), lam=lam, **options).x


def expected(backend, lam):
    """The expectation of f over a uniform draw of an atom, its minimum, and the longest subgradient."""
    objective = classes(backend, ATOMS, CLASSES)
    return objective, bracket(objective, lam)[1], subgradient_norm(lam, np.max(np.linalg.norm(ATOMS, axis=1)), 3.0)


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_generalisation_of_the_mean_model(backend, lam):
    """Theorem 2.1.2, over every sample of n draws: E loss <= E f <= min E f + G^2 (log n + 1)/(2 lam n) at the mean of
    w^0, ..., w^(n-1)."""
    objective, best, G = expected(backend, lam)
    for n in (1, 2, 4):
        means = [mean_model(backend, list(sample), lam) for sample in itertools.product(range(3), repeat=n)]
        predicted = [np.argmax(ATOMS @ w.reshape(2, 3), axis=1) for w in means]
        risk = np.mean([total(objective, w, lam) for w in means])
        assert np.mean(COST[CLASSES, predicted]) <= risk <= best + online_regret(lam, G, n) + 1e-12


@pytest.mark.parametrize("lam", [0.02, 0.3])
def test_generalisation_of_long_samples(backend, lam):
    """The same over 192 draws, where the bound is small; the excess falls from 12 draws on as the bound does, by four
    at least."""
    (objective, best, G), rng, excess = expected(backend, lam), np.random.default_rng(0), []
    for n in (12, 192):
        means = [mean_model(backend, rng.integers(3, size=n), lam) for _ in range(3)]
        excess.append(np.mean([total(objective, w, lam) for w in means]) - best)
        assert excess[-1] <= online_regret(lam, G, n)
    assert excess[1] <= excess[0] / 4


@pytest.mark.parametrize("lam", [0.01, 0.7, 4.0])
@pytest.mark.parametrize("largest", [1.0, 3.0])
def test_the_norm_of_lemma_2_5_is_attained(backend, largest, lam):
    """Opposite features of norm R, 2 R = sqrt(lam loss): a step from 0 ends on the ball's surface, and the opposite
    label's subgradient has norm G there, to the last digit.

    With losses of 3 that is more than the printed sqrt(lam) + 2 R.
    """
    R = sqrt(lam * largest) / 2
    model = backend.MulticlassModel(1, 2, cost=largest * (1 - np.eye(2)))
    x = R / sqrt(2) * np.array([[2.0]])  # ||phi(x, 1) - phi(x, 0)|| = sqrt(2) ||x|| = 2 R, as opposite features have
    first = backend.StructuralHinge(model, model.pack(x, [0]))
    w = backend.multisample(first, lam=lam, k=1, online=True, epochs=1, tol=0.0, rng=0).x
    close(lam * w @ w, largest)
    second = backend.StructuralHinge(model, model.pack(x, [1]))
    norm = np.linalg.norm(lam * w + second.value_and_gradient(w, [0])[1])
    close(norm, subgradient_norm(lam, R, largest))
    assert (norm > 1.2 * (sqrt(lam) + 2 * R)) == (largest > 1)


@pytest.mark.parametrize(
    ("seed", "k", "lengths", "lam"), [(1, 2, (2, 1, 2), 1.0), (2, 1, (2,), 1.0), (0, 1, (1, 2), 3.0)]
)
def test_the_dual_is_the_best_so_far(backend, seed, k, lengths, lam):
    """Where every visit makes a block of its own D_T/T may fall: what has been proved stays proved."""
    objective = hinge(backend, *labelling(np.random.default_rng(seed), lengths, F=2, L=2), 2, 2)
    steps = run_steps(backend, objective, lam, 6, seed, k=k, online=True)
    duals = np.array([after.dual(lam) for _, after, *_ in steps[objective.n - 1 :: objective.n]])
    best = np.maximum.accumulate(duals)
    assert np.max(best - duals) > 1e-4 * best[-1]
    result = backend.multisample(objective, lam=lam, k=k, online=True, tol=0.0, rng=seed, epochs=6)
    np.testing.assert_allclose([row.dual for row in result.history], best, rtol=1e-9)


@pytest.mark.parametrize("T", [1, 2, 40])
def test_steps_and_regret_are_what_is_promised(backend, T):
    """Lemma 2.2 and 2.4 with equality, but for 1 + log T in the place of sum_t 1/t: examples so short that each block
    takes its wrong output whole."""
    lam, G, rng, order = 1.0, 0.01, np.random.default_rng(0), np.random.default_rng(5).permutation(T)
    V = np.zeros((T, 3))
    for t, i in enumerate(order):  # v_t so that lam w + v_t has norm G
        w, e = -V.sum(axis=0) / (lam * max(t, 1)), rng.normal(size=3)
        V[i] = G * e / np.linalg.norm(e) - lam * w
    model = backend.ListModel(  # two outputs with opposite features, the first one true
        lambda x: np.stack([x, -x]), backend.Table, lambda x, y: 1.0 * (np.arange(2) != y), size=3
    )
    objective, values, least = backend.StructuralHinge(model, model.pack(list(-V / 2), [0] * T)), [], 0.0
    steps = run_steps(backend, objective, lam, 1, seed=5, k=2, update="exact", online=True)
    for t, (before, after, i, _) in enumerate(steps, start=1):
        value, g = objective.value_and_gradient(before.x, [i])
        values.append(value + 0.5 * lam * before.x @ before.x)
        np.testing.assert_allclose(np.linalg.norm(g + lam * before.x), G, rtol=1e-9)
        least += dual_increase(values[-1], G * G, lam, t)
        np.testing.assert_allclose(after.dual(lam), least / t, rtol=1e-9)
    optimum = 1.0 - np.sum(V.sum(axis=0) ** 2) / (2 * lam * T * T)  # of F_T/T, every hinge 1 + <w, v_t> > 0
    np.testing.assert_allclose(after.dual(lam), optimum, rtol=1e-12)
    share = np.sum(1.0 / np.arange(1, T + 1)) / (1 + log(T))
    assert share > 0.88
    np.testing.assert_allclose(np.mean(values) - optimum, share * online_regret(lam, G, T), rtol=1e-6)
