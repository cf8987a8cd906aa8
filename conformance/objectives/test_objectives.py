"""Objectives against enumeration and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from conformance.models.test_models import sequence_model
from conformance.specimens.outputs import listing, log_sum_exp
from conformance.tolerances import close


def by_enumeration(backend, problem, w, mu, augmented):
    """The mean loss with every labelling of every sequence listed."""
    model, data = sequence_model(backend, problem)
    cost = problem.options.get("cost", 1.0 - np.eye(problem.n_labels))
    total = 0.0
    for i, y in enumerate(problem.Y):
        scores = model.scores(data, np.array([i]), w)
        unary, pairwise = (
            np.asarray(scores.unary)[0],
            np.broadcast_to(scores.pairwise, (max(len(y) - 1, 0), *scores.pairwise.shape)),
        )
        outputs, values, _ = listing("Chain", {"unary": unary, "pairwise": pairwise})
        gold = values[outputs.index(tuple(y))]
        if augmented:
            values = values + [sum(cost[a, b] for a, b in zip(y, z, strict=True)) for z in outputs]
        total += (values.max() if mu == 0 else log_sum_exp(values, mu)[0]) - gold
    return total / len(problem.Y)


@given(problem=strategies.sequence_problems())
def test_losses_are_their_definitions(backend, space, problem):
    model, data = sequence_model(backend, problem, space.put(0.0))
    w = np.random.default_rng(5).normal(size=model.size).astype(space.dtype)
    hinge, smooth, log = (
        backend.StructuralHinge(model, data),
        backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()),
        backend.LogLoss(model, data),
    )
    w_there, w = space.put(w), w.astype(np.float64)
    close(hinge.value_and_gradient(w_there)[0], by_enumeration(backend, problem, w, 0.0, True), space.dtype, 10.0)
    close(smooth.value_and_gradient(w_there)[0], by_enumeration(backend, problem, w, 0.0, True), space.dtype, 10.0)
    close(
        smooth.value_and_gradient(w_there, mu=0.7)[0], by_enumeration(backend, problem, w, 0.7, True), space.dtype, 10.0
    )
    close(log.value_and_gradient(w_there)[0], by_enumeration(backend, problem, w, 1.0, False), space.dtype, 10.0)
    assert space.get(log.value_and_gradient(w_there)[1]).dtype == space.dtype


@given(problem=strategies.sequence_problems())
def test_smooth_gradients_are_finite_differences(backend, problem):
    model, data = sequence_model(backend, problem)
    rng = np.random.default_rng(6)
    w, direction = rng.normal(size=model.size), rng.normal(size=model.size)
    h = 1e-5
    for objective, mu in (
        (backend.LogLoss(model, data), None),
        (backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()), 0.5),
    ):
        ahead, behind = (objective.value_and_gradient(w + s * h * direction, mu=mu)[0] for s in (1, -1))
        slope = float(objective.value_and_gradient(w, mu=mu)[1] @ direction)
        np.testing.assert_allclose((ahead - behind) / (2 * h), slope, rtol=1e-6, atol=1e-6)


@given(problem=strategies.sequence_problems())
def test_the_hinge_lies_above_its_tangents(backend, problem):
    """The subgradient inequality at random pairs of points; ties included (w = 0)."""
    model, data = sequence_model(backend, problem)
    hinge = backend.StructuralHinge(model, data)
    rng = np.random.default_rng(7)
    for w in (np.zeros(model.size), rng.normal(size=model.size)):
        value, g = hinge.value_and_gradient(w)
        for other in rng.normal(size=(5, model.size)):
            assert hinge.value_and_gradient(other)[0] >= value + g @ (other - w) - 1e-9 * (1 + abs(value))
        assert value >= -1e-12


@given(problem=strategies.sequence_problems(), data=st.data())
def test_a_batch_is_the_mean_of_its_examples(backend, problem, data):
    model, packed = sequence_model(backend, problem)
    objective = backend.LogLoss(model, packed)
    batch = data.draw(st.lists(st.integers(0, packed.n - 1), min_size=1, max_size=6))
    w = np.random.default_rng(8).normal(size=model.size)
    value, g = objective.value_and_gradient(w, batch)
    each = [objective.value_and_gradient(w, [i]) for i in batch]
    close(value, np.mean([v for v, _ in each]))
    close(g, np.mean([g for _, g in each], axis=0))


def test_multiclass_log_loss_is_softmax_regression(backend, rng):
    X, Y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    model = backend.MulticlassModel(4, 3)
    w = rng.normal(size=model.size)
    value, g = backend.LogLoss(model, model.pack(X, Y)).value_and_gradient(w)
    scores = X @ w.reshape(4, 3)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    close(value, -np.log(probabilities[np.arange(30), Y]).mean())
    close(g, (X.T @ (probabilities - np.eye(3)[Y]) / 30).ravel())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_give_no_number(backend, bad):
    """A diverged run must be seen: nan, not some finite loss."""
    model = backend.SequenceModel(2, 3)
    data = model.pack([np.ones((3, 2))], [[0, 1, 2]])
    for at in (0, model.size - 1):
        w = np.zeros(model.size)
        w[at] = bad
        for loss in (backend.LogLoss, backend.StructuralHinge):
            with np.errstate(invalid="ignore"):
                value, _g = loss(model, data).value_and_gradient(w)
            assert np.isnan(value) or value == np.inf, (at, loss)


def test_bad_input_names_the_argument(backend):
    model = backend.SequenceModel(1, 2)
    objective = backend.LogLoss(model, model.pack([np.zeros((2, 1))], [[0, 1]]))
    w = objective.zeros()
    with pytest.raises(ValueError, match=r"w: expected 10 weights, got shape \(3,\)"):
        objective.value_and_gradient(np.zeros(3))
    for wrong in (w * 1j, w.astype(np.float32), w.astype(int)):
        with pytest.raises(TypeError, match="w: expected float64 in .*numpy.ndarray.*, as the packed data, got"):
            objective.value_and_gradient(wrong)
    with pytest.raises(ValueError, match="w: expected 10 weights, got list"):
        objective.value_and_gradient([0.0] * 10)
    with pytest.raises(ValueError, match="mu: the max itself has no smoothing"):
        backend.sgd(backend.StructuralHinge(model, objective.data), lam=0.1, mu=0.5)
    with pytest.raises(ValueError, match="batch: expected at least one example"):
        objective.value_and_gradient(w, [])
    with pytest.raises(ValueError, match=r"batch: expected example numbers in 0..0, got 0..1"):
        objective.value_and_gradient(w, [0, 1])
    with pytest.raises(ValueError, match="mu: the log loss is defined at mu = 1"):
        objective.value_and_gradient(w, mu=0.5)
    with pytest.raises(ValueError, match="mu: expected a finite number >= 0"):
        backend.StructuralHinge(model, objective.data).value_and_gradient(w, mu=-1.0)
    with pytest.raises(ValueError, match="data: expected at least one example"):
        backend.LogLoss(model, model.pack([], []))
