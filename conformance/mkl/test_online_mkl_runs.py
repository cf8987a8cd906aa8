"""Runs of online multiple kernel learning: prediction, precision, cuts, bounds, options."""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from conformance.mkl.test_online_mkl import box_of, labellings, model_of, words  # noqa: F401 (a fixture)
from conformance.tolerances import close
from reference.models.kernel_sequence import KernelWeights
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.training.counterparts import counterpart


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
            outputs, scores = labellings(unary[a:b], T)
            cost = [sum(model.cost[t, p] for t, p in zip(y, ys, strict=True)) for ys in outputs]
            best = np.max(scores + cost) if loss == "hinge" else np.logaddexp.reduce(scores)
            losses.append(best - scores[outputs.index(tuple(y))])
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
    (X, Y), path, options = words, tmp_path / "c.npz", {"lam": 0.1, "step_size": 0.4, "rng": 3}
    model, k = model_of(backend), backend.kernels
    backend.mkl(model, model.pack(X, Y), epochs=3, checkpoint=path, **options)
    other = backend.KernelSequenceModel([k.Linear(), k.Explicit(), k.Gaussian(2.0)], 3)
    with pytest.raises(ValueError, match=r"resume: .* groups = Linear"):
        backend.mkl(other, other.pack(X, Y), epochs=7, resume=path, **options)


def test_beta_minimises_the_variational_form(backend, rng):
    """(5)-(7): (sum_k n_k)^2 = min over the simplex of sum_k n_k^2 / beta_k, met at beta = n / sum n."""
    for _ in range(20):
        norms = np.abs(rng.normal(size=4)) + 0.01
        weights = KernelWeights((), np.zeros((1, 2, 2)), norms**2, np.zeros((0, 1)))
        close(np.sum(norms**2 / weights.beta), norms.sum() ** 2)
        for other in rng.dirichlet(np.ones(4), size=50):
            assert np.sum(norms**2 / np.maximum(other, 1e-300)) >= norms.sum() ** 2 * (1 - 1e-12)
    assert KernelWeights((), np.zeros((1, 2, 2)), np.zeros(3), np.zeros((0, 1))).beta.tolist() == [0, 0, 0]


def test_which_penalties_have_a_kernel(words):
    """Those of either panel, but no subclass, and no model of yours: their loop hears what they override."""
    X, Y = words
    mine, my_model = (type("Mine", (kind,), {}) for kind in (accelerated.SquaredL1, accelerated.KernelSequenceModel))
    groups = [accelerated.kernels.Gaussian(1.0)]
    for kind in (accelerated.KernelSequenceModel, my_model):
        model = kind(groups, 3)
        problem = KernelProblem(model, model.pack(X, Y))
        for panel in (accelerated, reference):
            for penalty, fused in (
                *((make(0.1), kind is not my_model) for make in (panel.SquaredL1, panel.L1, panel.HalfSquaredL2)),
                (mine(0.1), False),
                (panel.ElasticNet(panel.L1(0.1), 0.1), False),
            ):
                box = counterpart(box_of("hinge", penalty, 0.0, None, "last"), problem)
                assert (type(box) is not MKL) == fused
    model = accelerated.KernelSequenceModel(groups, 3)
    runs = [
        accelerated.mkl(model, model.pack(X, Y), penalty=penalty, step_size=0.4, epochs=3, rng=0)
        for penalty in (accelerated.SquaredL1(0.1), mine(0.1))
    ]
    close(runs[0].norms, runs[1].norms)


def test_it_learns_which_kernel_matters(backend, rng):
    """Labels by the distance from 0, which no linear function has: the Gaussian's share grows, new words are read."""
    X = [rng.normal(size=(4, 2)) * 1.5 for _ in range(60)]
    Y = [(np.linalg.norm(x, axis=1) > 1.5).astype(int) for x in X]
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Gaussian(0.5)], 2)
    data = model.pack(X[:40], Y[:40])
    run = backend.mkl(model, data, lam=0.01, step_size=backend.steps.InverseSqrt(1.0), epochs=8, rng=0)
    assert run.beta[1] > 0.6 and abs(run.beta.sum() - 1) < 1e-12
    guess = np.concatenate(model.predict(run.x, X[40:]))
    assert np.mean(guess == np.concatenate(Y[40:])) > 0.8
    assert run.history[-1].objective < run.history[0].objective
