"""Runs of online multiple kernel learning: prediction, precision, cuts, bounds, options."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import accelerated
import reference
from conformance.mkl.test_online_mkl import (
    box_of,
    model_of,
    states,
    words,  # noqa: F401 (fixtures)
)
from conformance.tolerances import close
from reference import bounds
from reference.models.kernel_sequence import KernelWeights
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.training.counterparts import counterpart


def test_prediction_has_the_same_bits_on_any_number_of_threads(rng):
    from accelerated.threads import set_num_threads

    model = accelerated.KernelSequenceModel([accelerated.kernels.Gaussian(1.0), accelerated.kernels.Explicit()], 3)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(0, 9, 200)]
    data = model.pack(X[:20], [rng.integers(0, 3, len(x)) for x in X[:20]])
    weights, seen = accelerated.mkl(model, data, lam=0.01, step_size=0.3, epochs=2, rng=0).x, []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            seen.append(np.concatenate(model.predict(weights, X)).tolist())
    finally:
        set_num_threads(None)
    assert seen[0] == seen[1]


def test_the_mean_loss_is_that_of_each_sequence(backend, words):
    """Enumeration of all labellings, for both losses, with a cost that is not 0 or 1."""
    X, Y = words
    model = backend.KernelSequenceModel([backend.kernels.Gaussian(1.0)], 3, cost=[[0, 2, 1], [1, 0, 0.5], [3, 1, 0]])
    data = model.pack(X, Y)
    weights = backend.mkl(model, data, lam=0.02, step_size=0.3, epochs=2, rng=0).x
    unary, T = backend.kernels.Gaussian(1.0)(np.concatenate(X)) @ weights.coefficients[0], weights.transitions[0]
    for loss in ("hinge", "crf"):
        losses = []
        for y, a, b in zip(Y, data.offsets[:-1], data.offsets[1:], strict=True):

            def score(ys, u=unary[a:b]):
                return sum(u[t, l] for t, l in enumerate(ys)) + sum(T[p, q] for p, q in itertools.pairwise(ys))

            cost = lambda ys, y=y: sum(model.cost[t, p] for t, p in zip(y, ys, strict=True))  # noqa: E731
            outputs = list(itertools.product(range(3), repeat=len(y)))
            if loss == "hinge":
                best = max(score(ys) + cost(ys) for ys in outputs)
            else:
                best = np.logaddexp.reduce([score(ys) for ys in outputs])
            losses.append(best - score(y))
        close(model.mean_loss(data, weights, loss), np.mean(losses))


def test_single_precision_follows_double(backend, words):
    """Gram matrices in float32: norms and the objective of a run without near ties within 1e-4, relative."""
    (X, Y), runs = words, []
    for dtype in (np.float32, np.float64):
        model = backend.KernelSequenceModel(
            [backend.kernels.Linear(True), backend.kernels.Polynomial(2), backend.kernels.Gaussian(1.0)], 3
        )
        data = model.pack(X, Y, like=np.zeros(0, dtype))
        runs.append(
            backend.mkl(model, data, lam=0.05, step_size=backend.steps.InverseSqrt(0.37), loss="crf", epochs=6, rng=0)
        )
    assert runs[0].x.transitions.dtype == np.float32 and runs[0].x.coefficients[1].dtype == np.float32
    np.testing.assert_allclose(runs[0].norms, runs[1].norms, rtol=1e-4)
    np.testing.assert_allclose(runs[0].fun, runs[1].fun, rtol=1e-4)


def test_a_run_of_other_kernels_does_not_go_on(backend, words, tmp_path):
    (X, Y), path = words, tmp_path / "c.npz"
    model = model_of(backend)
    data = model.pack(X, Y)
    options = {"lam": 0.1, "step_size": backend.steps.InverseSqrt(0.4), "rng": 3}
    backend.mkl(model, data, epochs=3, checkpoint=path, **options)
    with pytest.raises(ValueError, match=r"resume: .*c.npz is of a run with lam = 0.1, this one has 0.2"):
        backend.mkl(model, data, epochs=7, resume=path, **{**options, "lam": 0.2})
    other = backend.KernelSequenceModel(
        [backend.kernels.Linear(), backend.kernels.Explicit(), backend.kernels.Gaussian(2.0)], 3
    )
    with pytest.raises(ValueError, match=r"resume: .* groups = Linear"):
        backend.mkl(other, other.pack(X, Y), epochs=7, resume=path, **options)


def test_one_kernel_with_its_transitions_is_a_plain_svm(backend, words):
    """transitions="each" and the ridge: online steps on lam/2 ||w||^2 + hinge, as ``online_proximal`` takes them on
    all features.
    """
    X, Y = words
    model = backend.KernelSequenceModel([backend.kernels.Explicit()], 3, transitions="each")
    run = backend.mkl(
        model, model.pack(X, Y), lam=0.0, penalty=backend.HalfSquaredL2(0.1), step_size=0.3, epochs=3, rng=4
    )
    plain = backend.SequenceModel(3, 3, start_stop=False)
    hinge = backend.StructuralHinge(plain, plain.pack(X, Y))
    same = backend.online_proximal(hinge, backend.HalfSquaredL2(0.1), step_size=0.3, epochs=3, rng=4)
    close(np.concatenate([run.x.coefficients[0].ravel(), run.x.transitions.ravel()]), same.x)
    close(run.fun, same.fun)


def test_beta_minimises_the_variational_form(backend, rng):
    """(5)-(7): (sum_k n_k)^2 = min over the simplex of sum_k n_k^2 / beta_k, met at beta = n / sum n."""
    for _ in range(20):
        norms = np.abs(rng.normal(size=4)) + 0.01
        weights = KernelWeights((), np.zeros((1, 2, 2)), norms**2, np.zeros((0, 1)))
        close(np.sum(norms**2 / weights.beta), norms.sum() ** 2)
        for other in rng.dirichlet(np.ones(4), size=50):
            assert np.sum(norms**2 / np.maximum(other, 1e-300)) >= norms.sum() ** 2 * (1 - 1e-12)
    assert KernelWeights((), np.zeros((1, 2, 2)), np.zeros(3), np.zeros((0, 1))).beta.tolist() == [0, 0, 0]


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_rounds_keep_the_bounds(backend, words, loss):
    """Lemma 4 with the comparator 0, and Proposition 5.2's regret against it, in a ball that Proposition 8 gives."""
    X, Y = words
    model, lam = model_of(backend), 0.2
    data, psi = model.pack(X, Y), backend.SquaredL1(0.2)
    radius = bounds.optimum_radius(2.0 * (1.0 if loss == "hinge" else np.log(3)), lam)  # mean length 2
    rules, paid, G, T = box_of(loss, psi, 0.0, radius, "last"), 0.0, 0.0, 0
    for i, gamma, before, after in states(backend, model, data, rules, rounds=30):
        each = model.group_scores(data, i, before.weights)
        D, value = model.difference(data, i, each, before.weights, loss)
        squared = float(np.sum(model.squared_lengths(data, i, D)))
        zero = model.difference(data, i, model.group_scores(data, i, model.zeros(data)), model.zeros(data), loss)[1]
        now, then = (float(np.sum(w.squared_norms)) for w in (before.weights, after.weights))
        bound = bounds.round_bound(zero, squared, gamma, now, then)
        assert value + float(psi.value(np.sqrt(after.weights.squared_norms))) <= bound + 1e-9
        paid += value + float(psi.value(np.sqrt(before.weights.squared_norms))) - zero
        G, T = max(G, np.sqrt(squared)), T + 1
        assert paid <= bounds.regret_decaying_step(T, 0.6, G, 2 * radius) + 1e-9


def test_which_penalties_have_a_kernel(words):
    """Those of either panel, but no subclass, and no model of yours: their loop hears what they override."""

    class Mine(accelerated.SquaredL1):
        """A trivial subclass."""

    class Model(accelerated.KernelSequenceModel):
        """As trivial."""

    X, Y = words
    for kind in (accelerated.KernelSequenceModel, Model):
        model = kind([accelerated.kernels.Gaussian(1.0)], 3)
        data = model.pack(X, Y)
        fused = [
            type(counterpart(box_of("hinge", penalty, 0.0, None, "last"), KernelProblem(model, data))) is not MKL
            for panel in (accelerated, reference)
            for penalty in (
                panel.SquaredL1(0.1),
                panel.L1(0.1),
                panel.HalfSquaredL2(0.1),
                Mine(0.1),
                panel.ElasticNet(panel.L1(0.1), 0.1),
            )
        ]
        assert fused == ([True, True, True, False, False] if kind is not Model else [False] * 5) * 2
    model = accelerated.KernelSequenceModel([accelerated.kernels.Gaussian(1.0)], 3)
    options = {"step_size": 0.4, "epochs": 3, "rng": 0}
    a = accelerated.mkl(model, model.pack(X, Y), lam=0.1, **options)
    b = accelerated.mkl(model, model.pack(X, Y), penalty=Mine(0.1), **options)
    close(a.norms, b.norms)


def test_it_learns_which_kernel_matters(backend, rng):
    """Labels by the distance from 0: no linear function has them; the Gaussian's share grows, and words held out are
    read.
    """
    X = [rng.normal(size=(4, 2)) * 1.5 for _ in range(60)]
    Y = [(np.linalg.norm(x, axis=1) > 1.5).astype(int) for x in X]
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Gaussian(0.5)], 2)
    data = model.pack(X[:40], Y[:40])
    run = backend.mkl(model, data, lam=0.01, step_size=backend.steps.InverseSqrt(1.0), epochs=8, rng=0)
    assert run.beta[1] > 0.6 and abs(run.beta.sum() - 1) < 1e-12
    guess = np.concatenate(model.predict(run.x, X[40:]))
    assert np.mean(guess == np.concatenate(Y[40:])) > 0.8
    assert run.history[-1].objective < run.history[0].objective


def test_bad_data_are_named(backend, words):
    (X, Y), model = words, model_of(backend)
    with pytest.raises(TypeError, match="data: expected what model.pack returned"):
        backend.mkl(model, 3, lam=0.1, step_size=0.1)
    with pytest.raises(ValueError, match="Y: this data was packed without labels"):
        backend.mkl(model, model.pack(X), lam=0.1, step_size=0.1)
    with pytest.raises(ValueError, match=r"X\[1\]"):
        model.pack([X[0], X[1][:, :2]], Y[:2])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected 2 labels"):
        model.pack(X, [Y[0][:1], *Y[1:]])
    with pytest.raises(ValueError, match="Y: expected 5 label sequences"):
        model.pack(X, Y[:2])
    with pytest.raises(ValueError, match="X: expected at least one"):
        model.pack([], [])
    with pytest.raises(TypeError, match="groups: expected kernels"):
        backend.KernelSequenceModel(["linear"], 3)
    with pytest.raises(ValueError, match="transitions: expected one of own, each, free"):
        backend.KernelSequenceModel([backend.kernels.Linear()], 3, transitions="none")
    with pytest.raises(ValueError, match="groups: expected explicit groups with one unit_diagonal"):
        backend.KernelSequenceModel([backend.kernels.Explicit(), backend.kernels.Explicit(True)], 3)
    data = model.pack(X, Y)
    with pytest.raises(TypeError, match="weights: expected KernelWeights"):
        model.predict(np.zeros(3), X)
    with pytest.raises(ValueError, match="weights: expected coefficients of shapes"):
        model_of(backend, "each").predict(model.zeros(data), X)
    with pytest.raises(ValueError, match=r"X\[0\]: expected finite numbers of shape \(n, 3\)"):
        model.predict(model.zeros(data), [np.ones((2, 2))])
