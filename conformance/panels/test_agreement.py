"""Two backends on one drawn instance: values and gradients to 1e-9, trajectories where the design claims them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.models.test_models import sequence_model
from conformance.tolerances import close

STEPS = {
    "constant": (0.1, reference.steps.Constant(0.2)),
    "pegasos": (1.0, reference.steps.Pegasos()),  # the first step shrinks the weights to 0
    "steps": (0.5, reference.steps.Steps(1.5, 2)),
    "vanishing": (100.0, reference.steps.Constant(0.0099999)),  # each step shrinks the weights by 1e-5
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("average", ["last", "uniform", "weighted"])
@given(problem=strategies.sequence_problems())
def test_smooth_sgd_trajectories(other, average, steps, problem):
    """Same rng, same trajectory, to rounding: log loss and smoothed hinge."""
    lam, schedule = STEPS[steps]
    runs = []
    for b in (reference, other):
        model, data = sequence_model(b, problem)
        w0 = np.random.default_rng(10).normal(size=model.size)
        options = {"lam": lam, "step_size": schedule, "epochs": 2, "rng": 3, "average": average}
        log = b.sgd(b.LogLoss(model, data), w0, **options)
        smooth = b.sgd(b.StructuralHinge(model, data, smoothing=b.smoothings.Entropy()), w0, mu=0.5, **options)
        runs.append((log, smooth))
    for ours, theirs in zip(*runs, strict=True):
        np.testing.assert_allclose(theirs.x, ours.x, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(theirs.fun, ours.fun, rtol=1e-11, atol=1e-11)
        assert theirs.oracle_calls == ours.oracle_calls and theirs.iterate == ours.iterate


@given(problem=strategies.sequence_problems(integer=True))
def test_hinge_trajectories_are_bit_equal_in_exact_arithmetic(other, problem):
    """Integer features and costs, dyadic steps, lam = 0: every sum is exact, so ties break alike and weights are
    equal bits.
    """
    runs = []
    for b in (reference, other):
        model, data = sequence_model(b, problem)
        w0 = np.random.default_rng(11).integers(-2, 3, model.size).astype(np.float64)
        runs.append(b.sgd(b.StructuralHinge(model, data), w0, lam=0.0, step_size=0.25, epochs=3, rng=5, average="last"))
    assert np.array_equal(runs[0].x, runs[1].x)
    assert runs[0].fun == pytest.approx(runs[1].fun, rel=1e-12)


def test_work_in_several_ranges_is_whole(other):
    """300 words are more than one range of examples: losses, gradients, predictions and a ragged batch of chains."""
    words = reference.load_letters().take(np.arange(0, 6000, 20))
    answers = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        data = model.pack(words.X, words.Y)
        w = 0.1 * np.random.default_rng(0).normal(size=model.size)
        batch = np.random.default_rng(1).permutation(data.n)
        scores = model.scores(data, np.arange(data.n), w)
        chain = b.Chain(*scores)
        smooth = b.StructuralHinge(model, data, smoothing=b.smoothings.Entropy())
        answers.append(
            (
                *b.LogLoss(model, data).value_and_gradient(w),
                *b.StructuralHinge(model, data).value_and_gradient(w),
                *smooth.value_and_gradient(w, batch, mu=0.5),
                np.concatenate(model.predict(data, batch, w)),
                *chain.best(),
                chain.expectation()[0],
                chain.marginals().unary,
                chain.marginals().pairwise,
            )
        )
    for ours, theirs in zip(*answers, strict=True):
        close(theirs, ours)
