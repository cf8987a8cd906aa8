"""Weights of classes and of positions: the task loss that they make, and what they do to every loss that has one."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.models import MODELS
from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference.models.costs import WeightedPositions, with_class_weights

COST = np.array([[0.0, 1.0, 4.0], [0.5, 0.0, 2.0], [3.0, 1.0, 0.0]])
X = [np.arange(6.0).reshape(3, 2) - 2.0, np.ones((0, 2)), np.array([[1.0, -1.0]])]
Y, WEIGHTS = [[0, 2, 1], [], [2]], [[0.0, 2.5, 1.0], [], [3.0]]


def problem(backend):
    """A model of three labels, and packed data."""
    model = backend.SequenceModel(2, ["a", "b", "c"], cost=COST)
    return model, model.pack(X, Y)


@pytest.mark.parametrize("name", ["sequences", "trees", "tags {'own_rules': True}"])
def test_positions_scale_the_task_loss(backend, space, rng, name):
    """Hinge and softmax-margin with weights of positions, 0 and 1 among them, by enumeration, over batches of any
    order; their gradients are their differences."""
    drawn = MODELS[name].training(3)
    model, data = drawn.packed(backend, space.put(0.0))
    weights = [rng.choice([0.0, 1.0, 2.5], len(y)) for y in drawn.Y]
    weighted, w = WeightedPositions(model, data, weights), drawn.weights(backend).astype(space.dtype)
    hinge, margin = backend.StructuralHinge(weighted, data), backend.LogLoss(weighted, data, cost=True)
    for i in (2, 0, 1):
        outputs, phi, _, gold = drawn.listed[i]
        losses = [np.sum(weights[i] * model.cost[list(outputs[gold]), list(y)]) for y in outputs]
        values = phi @ w.astype(np.float64) + losses - phi[gold] @ w.astype(np.float64)
        close(hinge.value(space.put(w), [i]), np.max(values), space.dtype, 10.0)
        close(margin.value(space.put(w), [i]), log_sum_exp(values, 1.0)[0], space.dtype, 10.0)
    value, gradient = margin.value_and_gradient(space.put(w))
    close(value, np.mean([margin.value(space.put(w), [i]) for i in range(3)]), space.dtype, 10.0)
    if space.dtype == "float64":
        for j in range(model.size):
            step = 1e-5 * np.eye(model.size)[j]
            change = margin.value(space.put(w + step)) - margin.value(space.put(w - step))
            close(space.get(gradient)[j], change / 2e-5, "float32")


def test_class_weights_scale_the_rows_of_the_cost(backend):
    """They are weights of positions by true label; balanced, each label has the same weight in all, of N/L."""
    model, data = problem(backend)
    named = with_class_weights(model, {"c": 0.5, "a": 3.0, "b": 0.0})
    np.testing.assert_array_equal(named.cost, np.array([[3.0], [0.0], [0.5]]) * COST)
    np.testing.assert_array_equal(model.cost, COST)
    counts = np.bincount(np.asarray(data.labels), minlength=3)
    balanced = with_class_weights(model, "balanced", counts)
    scale = balanced.cost[:, 1:].sum(axis=1) / COST[:, 1:].sum(axis=1)
    np.testing.assert_allclose(scale * counts, counts.sum() / 3)
    by_label = [scale[y] for y in Y]
    w = np.linspace(-1.0, 1.0, model.size)
    close(
        backend.LogLoss(balanced, data, cost=True).value(w),
        backend.LogLoss(WeightedPositions(model, data, by_label), data, cost=True).value(w),
    )
    assert type(model)(**balanced.settings()).cost.tolist() == balanced.cost.tolist()


@pytest.mark.parametrize("name", ["lbfgs", "bcfw", "exponentiated_gradient", "svrg", "sgd"])
def test_learners_agree_with_weights_of_positions(backend, name):
    """The optimum of a model whose loss has no kernel is that of the labels' weights, which have kernels."""
    model, data = problem(backend)
    scale = [2.0, 0.5, 1.5]
    by_class = with_class_weights(model, dict(zip("abc", scale, strict=True)))
    by_position = WeightedPositions(model, data, [np.array(scale)[y] for y in Y])
    options = {"rng": 0, "epochs": 30} if name != "lbfgs" else {}
    found = []
    for each in (by_class, by_position):
        loss = backend.StructuralHinge(each, data) if name == "bcfw" else backend.LogLoss(each, data, cost=True)
        found.append(getattr(backend, name)(loss, lam=0.5, **options))
    close(found[0].fun, found[1].fun, "float32")
    if name != "sgd":
        assert all(0 <= result.certificate <= 1e-3 * result.fun for result in found)


def test_wrong_weights_are_named(backend):
    model, data = problem(backend)
    names = {"b": backend, "np": np, "model": model, "data": data, "WEIGHTS": WEIGHTS}
    check_refusals("wrong_costs.txt", {**names, "of": WeightedPositions, "with_class_weights": with_class_weights})
