"""Two backends on one drawn instance: values and gradients to 1e-9, trajectories where the design claims them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.models.test_models import sequence_model
from conformance.specimens.structures import chains
from conformance.tolerances import close


@given(instance=chains(), mu=st.sampled_from([0.3, 1.0]))
def test_chain_functions(other, instance, mu):
    ours, theirs = reference.Chain(*instance), other.Chain(*instance)
    value, labels = ours.ops.viterbi(ours.scores)
    v, y = theirs.ops.viterbi(theirs.scores)
    close(v, value)
    close(other.Chain(*instance).score(np.asarray(labels)), ours.score(np.asarray(y)))
    a, marginals = ours.ops.forward_backward(ours.scores, mu)
    b, m = theirs.ops.forward_backward(theirs.scores, mu)
    close(b, a)
    close(m.unary, marginals.unary, scale=1e2)
    close(m.pairwise, marginals.pairwise, scale=1e2)


@pytest.mark.parametrize("L", [1, 7, 8, 9, 26, 50])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_chain_functions_at_every_width(other, rng, L, scale, forbidden):
    """Ragged batches beyond enumeration: padded widths, underflow at large scales, forbidden parts."""

    def draw(*shape):
        return np.where(rng.random(shape) < forbidden, -np.inf, scale * rng.normal(size=shape))

    lengths = np.array([17, 0, 40, 1, 5])
    for pairwise in (draw(L, L), draw(5, 39, L, L)):
        scores = reference.ChainScores(draw(5, 40, L), pairwise, lengths)
        ours, theirs = reference.Chain(*scores).ops, other.Chain(*scores).ops
        (value, labels), (v, y) = ours.viterbi(scores), theirs.viterbi(scores)
        assert np.array_equal(v, value) and np.array_equal(y, labels)  # the same sums in the same order: equal bits
        (value, marginals), (v, m) = ours.forward_backward(scores), theirs.forward_backward(scores)
        close(v, value)
        close(m.unary, marginals.unary, scale=max(1.0, 1e-3 * scale))
        close(m.pairwise, marginals.pairwise, scale=max(1.0, 1e-3 * scale) * 5)


@given(problem=strategies.sequence_problems())
def test_objectives(other, problem):
    answers = []
    for b in (reference, other):
        model, data = sequence_model(b, problem)
        w = np.random.default_rng(9).normal(size=model.size)
        smooth = b.StructuralHinge(model, data, smoothing=b.smoothings.Entropy())
        answers.append((b.LogLoss(model, data).value_and_gradient(w), smooth.value_and_gradient(w, mu=0.3)))
    for (value, g), (v, h) in zip(*answers, strict=True):
        close(v, value)
        close(h, g)


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


def test_letters_trajectories(other):
    """Both losses from a random start on real words; steps short enough not to magnify rounding."""
    words = reference.load_letters().take(np.arange(60))
    for loss in ("LogLoss", "StructuralHinge"):
        runs = []
        for b in (reference, other):
            model = b.SequenceModel(128, words.labels)
            w0 = 1e-6 * np.random.default_rng(0).normal(size=model.size)
            objective = getattr(b, loss)(model, model.pack(words.X, words.Y))
            runs.append(b.sgd(objective, w0, lam=0.01, step_size=0.01, epochs=2, rng=0))
        assert abs(runs[0].fun - runs[1].fun) <= 1e-10 * runs[0].fun
        close(runs[1].x, runs[0].x)


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


def test_lbfgs_reaches_the_same_optimum(other, rng):
    X, Y = [rng.normal(size=(4, 3)) for _ in range(6)], [rng.integers(0, 3, 4) for _ in range(6)]
    optima = []
    for b in (reference, other):
        model = b.SequenceModel(3, 3)
        optima.append(b.lbfgs(b.LogLoss(model, model.pack(X, Y)), lam=0.1, tol=1e-9).fun)
    close(optima[1], optima[0])
