"""Weights of examples: an example of weight 2 is one that occurs twice, for every optimiser."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.objectives.test_objectives import losses_of
from conformance.specimens.models import MODELS
from conformance.tolerances import close

WEIGHTS, TIMES = [2.0, 0.0, 1.0, 3.0], [0, 0, 2, 3, 3, 3]


@pytest.mark.parametrize("name", MODELS)
def test_value_and_gradient_are_those_of_repeated_examples(backend, name):
    """Planes, of which the corners and the sampled ones are, lie below; scales of weights do not matter."""
    problem = MODELS[name].training(4, 4)
    (model, data), w = problem.packed(backend), problem.weights(backend, 1)
    for loss, (objective, mu) in losses_of(backend, name, model, data).items():
        weighted, expected = backend.Weighted(objective, WEIGHTS), objective.value_and_gradient(w, TIMES, mu)
        for found, same in zip(weighted.value_and_gradient(w, None, mu), expected, strict=True):
            close(found, same)
        found, same = weighted.linearize(w, None, mu), objective.linearize(w, TIMES, mu)
        close(found.task_loss, same.task_loss)
        close(found.gradient, same.gradient)
        each = [weighted.value_and_gradient(w, [i], mu)[0] for i in range(4)]
        close(np.mean(each), expected[0])  # the mean over batches is the sum
        if loss == "hinge":
            for scale in (1e-300, 3e299):
                scaled = backend.Weighted(objective, scale * np.array(WEIGHTS))
                close(scaled.value_and_gradient(w)[0], expected[0])
            for i, value in enumerate(each):
                corners = [weighted.corners(w, [i], 50)]
                if MODELS[name].sums:
                    corners.append(weighted.sampled_corners(w, [i], 4, 1.0, 0))
                for found in corners:
                    planes = found.losses[0] + found.directions[0] @ w
                    close(planes[0], value)
                    count = int(found.count[0])
                    assert np.all(planes[:count] <= value + 1e-9) and np.all(found.losses[0, count:] == -np.inf)


def test_smoothing_changes_no_weighted_loss_by_more_than_the_width(backend):
    """The width is that of the largest weight: at scores of 0 and a large mu its loss changes by almost so much."""
    panel = backend.module
    model = panel.MulticlassModel(2, 3)
    hinge = panel.StructuralHinge(model, model.pack(np.eye(2), [0, 1]), smoothing=panel.smoothings.Entropy())
    weighted, mu = panel.Weighted(hinge, [1.0, 9.0]), 1e3
    w = np.zeros(model.size)
    at = lambda i, level: weighted.value_and_gradient(w, [i], level)[0]  # noqa: E731
    changes = [at(i, mu) - at(i, 0.0) for i in range(2)]
    assert 0.99 * mu * weighted.width() <= max(changes) <= mu * weighted.width()


@pytest.mark.beyond("long runs")
def test_every_optimiser_finds_the_same_optimum(backend):
    panel, lam, problem = backend.module, 0.3, MODELS["sequences"].training(4)
    model, data = problem.packed(panel)
    again = model.pack([problem.X[i] for i in TIMES], [problem.Y[i] for i in TIMES])
    weighted, repeated = (
        panel.Weighted(panel.StructuralHinge(model, data), WEIGHTS),
        panel.StructuralHinge(model, again),
    )
    smooth = panel.Weighted(panel.StructuralHinge(model, data, smoothing=panel.smoothings.Entropy()), WEIGHTS)
    loss, twice = panel.Weighted(panel.LogLoss(model, data), WEIGHTS), panel.LogLoss(model, again)
    best = panel.bcfw(repeated, lam=lam, tol=1e-4, epochs=1000, rng=0)
    for result in (
        panel.bcfw(weighted, lam=lam, tol=1e-4, epochs=1000, rng=0),
        panel.cutting_planes(weighted, lam=lam, tol=1e-4),
        panel.multisample(weighted, lam=lam, k=3, tol=1e-2, epochs=1000, rng=0),
        panel.casimir(smooth, lam=lam, tol=5e-2, epochs=500, rng=0),
    ):
        assert result.certificate <= 5e-2 * result.fun
        assert abs(result.fun - best.fun) <= result.certificate + best.certificate
    expected = panel.lbfgs(twice, lam=lam, iterations=500)
    for result in (panel.lbfgs(loss, lam=lam, iterations=500), panel.svrg(loss, lam=lam, epochs=200, tol=1e-6, rng=0)):
        assert abs(result.fun - expected.fun) <= 1e-5 * expected.fun
