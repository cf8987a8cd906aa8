"""Multi-sample dual updates against their equations with every output listed, against a generic solver, against what
is promised.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import reference
from conformance.listed_svm import Listed, hinge, labelling, listed
from conformance.optimizers.optima import bracket
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.bounds import dual_increase, online_regret, subgradient_norm
from reference.optimizers import multisample as own

COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])


def best_of(dual, paths):
    """The highest dual on several segments from 0 to 1 along which it is quadratic, found from three values each."""
    found = [(dual(paths[0](0.0)), paths[0](0.0))]
    for path in paths:
        zero, half, one = (dual(path(a)) for a in (0.0, 0.5, 1.0))
        curvature, slope = 4 * (half - 0.5 * zero - 0.5 * one), 4 * half - 3 * zero - one
        a = np.clip(slope / (2 * curvature), 0, 1) if curvature > 1e-13 else float(one > zero)
        found.append((dual(path(a)), path(a)))
    return max(found, key=lambda pair: pair[0])[1]


def by_hand(problem, epochs, seed, k, online):
    """(w, mean of the w before each step, dual) after each epoch: weights over every output of every block, w afresh
    each time.
    """
    n, lam, rng = len(problem.V), problem.lam, np.random.default_rng(seed)
    blocks, returned, passed = [], [], []

    def w_of(blocks):
        u = [alpha @ problem.V[i] for i, alpha in blocks]
        return -sum(u) / (lam * len(blocks)) if blocks else np.zeros(problem.V[0].shape[1])

    def dual(blocks):
        w = w_of(blocks)
        return sum(alpha @ problem.loss[i] for i, alpha in blocks) - 0.5 * lam * len(blocks) * w @ w

    for _ in range(epochs):
        for i in rng.permutation(n):
            w = w_of(blocks)
            passed.append(w)
            order = np.argsort(-(problem.loss[i] + problem.V[i] @ w), kind="stable")[:k]
            at = next((b for b, (j, _) in enumerate(blocks) if j == i), None)
            if online or at is None:
                blocks.append((i, np.zeros(len(problem.loss[i]))))
                at = len(blocks) - 1

            def with_block(alpha, at=at, i=i):
                return [*blocks[:at], (i, alpha), *blocks[at + 1 :]]

            alpha = blocks[at][1]
            for s in [None, *order]:
                before, room = alpha, 1.0 - alpha.sum()
                if s is None:  # all that the block had, as one output
                    if before.sum() == 0:
                        continue
                    paths = [lambda a, x=before, r=room: x * (1 + a * r / x.sum())]
                else:
                    one = np.eye(len(before))[s]
                    paths = [
                        lambda a, x=before, r=room, e=one: x + a * r * e,
                        lambda a, x=before, e=one: (1 - a) * x + a * e,
                    ]
                alpha = best_of(lambda x: dual(with_block(x)), paths)
            blocks[:] = with_block(alpha)
            kept = best_of(lambda s: dual([(j, s[0] * x) for j, x in blocks]), [lambda a: np.array([1.0 - a])])
            blocks[:] = [(j, kept[0] * x) for j, x in blocks]
        returned.append((w_of(blocks), np.mean(passed, axis=0), dual(blocks) / len(blocks)))
    return returned


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_runs_are_their_equations(backend, rng, k, online):
    X, Y = labelling(rng, (2, 3, 1, 3))
    problem = listed(X, Y, 3, 0.07)
    expected = by_hand(problem, 4, 4, k, online)
    for average in ("last", "uniform"):
        options = {"lam": 0.07, "k": k, "online": online, "average": average, "epochs": 4, "tol": 0.0, "rng": 4}
        result = backend.multisample(hinge(backend, X, Y), **options)
        best = -np.inf
        for row, (last, mean, dual) in zip(result.history, expected, strict=True):
            w, best = last if average == "last" else mean, max(best, dual)
            close(row.objective, problem.primal(w), scale=100.0)
            close(row.dual, best, scale=100.0)
            close(row.gap, row.objective - row.dual)
        close(result.x, w, scale=100.0)
        assert result.certificate == result.history[-1].gap and result.oracle_calls == 16
        assert result.iterate == {"last": "last", "uniform": "uniform average"}[average]


def run_steps(backend, objective, lam, passes, seed=0, **options):
    """The states of a run, each with the example of its step and the samples it had."""
    box = own.Multisample(lam, **{"k": 3, "mu": 0.7, **options})
    rng, state, states = np.random.default_rng(seed), box.init(objective), []
    for _ in range(passes):
        for i in rng.permutation(objective.n):
            corners = box.samples(objective, state.x, i, rng)
            after = box.visit(objective, state, i, corners)
            states.append((state, after, i, corners))
            state = after
    return states


def objectives(backend, rng):
    """Chains, trees, classes with costs up to 3 and lists, with the radius R >= ||phi||."""
    X, Y = labelling(rng, (2, 3, 1, 3))
    yield hinge(backend, X, Y)
    model = backend.TreeModel(3, 3, cost=COST)
    yield backend.StructuralHinge(model, model.pack([(x, np.arange(len(x)) - 1) for x in X], Y))
    model = backend.MulticlassModel(2, 3, cost=COST)
    yield backend.StructuralHinge(model, model.pack(rng.normal(size=(8, 2)), rng.integers(0, 3, 8)))


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
    problem = Listed(lam)
    for x, y in zip(X, Y, strict=True):
        order = [y, *(c for c in range(3) if c != y)]
        problem.add([np.outer(x, np.eye(3)[c]).ravel() for c in order], COST[y, order])
    model = backend.MulticlassModel(2, 3, cost=COST)
    objective = backend.StructuralHinge(model, model.pack(X, Y))
    high = bracket(objective, lam)[1]
    G = subgradient_norm(lam, np.max(np.linalg.norm(X, axis=1)), 3.0)
    values, task_losses = [], []
    for before, after, i, corners in run_steps(backend, objective, lam, 8, update=update, sampler=sampler, online=True):
        w = before.x
        hinge_of = objective.value_and_gradient(w, [i])[0]
        values.append(hinge_of + 0.5 * lam * w @ w)
        task_losses.append(COST[Y[i], model.predict(objective.data, [i], w)[0]])
        assert task_losses[-1] <= hinge_of + 1e-12  # Lemma 2.6
        assert np.linalg.norm(lam * w + corners.directions[0, 0, :]) <= G * (1 + 1e-12)  # Lemma 2.5
        steps = len(values)
        if steps % 6 == 0:
            promised = high + online_regret(lam, G, steps)
            assert np.mean(values) <= promised and np.mean(task_losses) <= promised  # Lemma 2.4, Theorem 2.1.1
            assert problem.primal(after.mean) <= promised  # Theorem 2.1.3


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


def test_more_samples_cost_no_more_oracle_calls_and_raise_the_dual_further(backend, rng):
    X, Y = labelling(rng, (4, 3, 2, 4, 1, 4))
    one, five = (backend.multisample(hinge(backend, X, Y), lam=0.02, k=k, epochs=10, tol=0.0, rng=0) for k in (1, 5))
    assert one.oracle_calls == five.oracle_calls == 60 and five.history[-1].dual > one.history[-1].dual


def test_sampled_corners_are_planes_of_the_best_and_of_draws(backend, rng):
    X, Y = labelling(rng, (3, 2))
    objective = hinge(backend, X, Y)
    problem, w = listed(X, Y, 3, 0.1), rng.normal(size=objective.model.size)
    found = objective.sampled_corners(w, None, 6, 0.5, rng=2)
    best = objective.corners(w)
    close(found.directions[:, 0, :], best.directions[:, 0, :])
    for i in range(2):
        count = int(found.count[i])
        assert (
            1 <= count <= 6 and np.all(found.losses[i, count:] == -np.inf) and not np.any(found.directions[i, count:])
        )
        known = [np.flatnonzero(np.all(np.abs(problem.V[i] - v) < 1e-12, axis=1)) for v in found.directions[i, :count]]
        known = [
            next(y for y in ys if problem.loss[i][y] == loss) for ys, loss in zip(known, found.losses[i], strict=False)
        ]
        assert len(set(known)) == count  # each output once
    with pytest.raises(backend.UnsupportedError, match="LogLoss has no corners"):
        backend.LogLoss(objective.model, objective.data).sampled_corners(w, None, 2)


def test_planes_of_classes_and_of_sequences(other, rng):
    """Columns that occur twice, rows of nothing, forbidden classes: the panels' planes are the same."""
    X, Y = [[0, 2, 2], [], [1], [3, 3, 0]], [0, 1, 2, 1]
    for draw in (rng.normal(size=12), np.where(np.arange(12) == 3, -np.inf, rng.normal(size=12))):
        runs = []
        for b in (reference, other):
            model = b.MulticlassModel(4, 3, cost=COST)
            objective = b.StructuralHinge(model, model.pack(X, Y))
            runs += [objective.corners(draw, None, k) for k in (1, 2, 5)] if np.all(np.isfinite(draw)) else []
            runs += [objective.corners(draw, [0, 2], 1)]
        for ours, theirs in zip(runs[: len(runs) // 2], runs[len(runs) // 2 :], strict=True):
            close(theirs.directions, ours.directions)
            assert np.array_equal(theirs.losses, ours.losses) and np.array_equal(theirs.count, ours.count)
    X, Y = labelling(rng, (3, 0, 4))
    w = rng.normal(size=hinge(reference, X, Y).model.size)
    ours, theirs = (hinge(b, X, Y, cost=COST).corners(w, None, 7) for b in (reference, other))
    close(theirs.directions, ours.directions)
    assert np.array_equal(theirs.losses, ours.losses) and np.array_equal(theirs.count, ours.count)
