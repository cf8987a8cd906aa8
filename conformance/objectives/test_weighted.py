"""Weights of examples: an example of weight 2 is one that occurs twice, for every optimiser."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerances import close

WEIGHTS = [2.0, 0.0, 1.0, 3.0]


def problem(panel, loss="hinge", weights=WEIGHTS):
    """The weighted objective, and the same with examples repeated."""
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 3, 1, 4)], [rng.integers(0, 3, n) for n in (2, 3, 1, 4)]
    times = [i for i, s in enumerate(weights) for _ in range(int(s))]
    model = panel.SequenceModel(3, 3)

    def objective(some):
        data = model.pack([X[i] for i in some], [Y[i] for i in some])
        if loss == "crf":
            return panel.LogLoss(model, data)
        smoothing = {"hinge": None, "smooth": panel.smoothings.Entropy()}[loss]
        return panel.StructuralHinge(model, data, smoothing=smoothing)

    return panel.Weighted(objective(range(4)), weights), objective(times)


@pytest.mark.parametrize("loss", ["hinge", "smooth", "crf"])
def test_value_and_gradient_are_those_of_repeated_examples(backend, loss):
    weighted, repeated = problem(backend.module, loss)
    w = np.random.default_rng(1).normal(size=weighted.zeros().shape)
    mu = 0.5 if loss == "smooth" else None
    value, gradient = weighted.value_and_gradient(w, None, mu)
    expected, slope = repeated.value_and_gradient(w, None, mu)
    close(value, expected), close(gradient, slope)
    found, same = weighted.linearize(w, None, mu), repeated.linearize(w, None, mu)
    close(found.task_loss, same.task_loss), close(found.gradient, same.gradient)
    assert found.exact == same.exact == 1.0
    total = sum(weighted.value_and_gradient(w, [i], mu)[0] for i in range(4))  # the mean over batches is the sum
    close(total / 4, expected)


@pytest.mark.beyond("long runs")
def test_every_optimiser_finds_the_same_optimum(backend):
    panel, lam = backend.module, 0.3
    weighted, repeated = problem(panel)
    best = panel.bcfw(repeated, lam=lam, tol=1e-4, epochs=1000, rng=0)
    for result in (
        panel.bcfw(weighted, lam=lam, tol=1e-4, epochs=1000, rng=0),
        panel.cutting_planes(weighted, lam=lam, tol=1e-4),
        panel.multisample(weighted, lam=lam, k=3, tol=1e-2, epochs=1000, rng=0),
        panel.casimir(problem(panel, "smooth")[0], lam=lam, tol=5e-2, epochs=500, rng=0),
    ):
        assert result.certificate <= 5e-2 * result.fun
        assert abs(result.fun - best.fun) <= result.certificate + best.certificate
    loss, twice = problem(panel, "crf")
    expected = panel.lbfgs(twice, lam=lam, iterations=500)
    for result in (panel.lbfgs(loss, lam=lam, iterations=500), panel.svrg(loss, lam=lam, epochs=200, tol=1e-6, rng=0)):
        assert abs(result.fun - expected.fun) <= 1e-5 * expected.fun
    with pytest.raises(TypeError, match="does not support weights of examples"):
        panel.exponentiated_gradient(loss, lam=lam)


def test_sampled_corners_lie_below(backend):
    weighted, _ = problem(backend.module)
    w = np.random.default_rng(2).normal(size=weighted.zeros().shape)
    for i in range(4):
        value, _ = weighted.value_and_gradient(w, [i])
        for found in (weighted.corners(w, [i], 4), weighted.sampled_corners(w, [i], 4, 1.0, 0)):
            planes = found.losses[0] + found.directions[0] @ w
            assert abs(planes[0] - value) <= 1e-9 * max(1.0, abs(value))
            assert np.all(planes[: int(found.count[0])] <= value + 1e-9)


def test_scales_do_not_matter(backend):
    (weighted, _), w = problem(backend.module), np.random.default_rng(1).normal(size=24)
    for scale in (1e-300, 3e299):
        scaled = backend.Weighted(weighted.objective, scale * np.array(WEIGHTS))
        close(scaled.value_and_gradient(w)[0], weighted.value_and_gradient(w)[0])
