"""Two backends on one instance: trajectories at their limits, and many examples on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from accelerated.threads import get_num_threads, set_num_threads
from conformance.models.test_models import seeds
from conformance.specimens.models import MODELS
from conformance.tolerances import close


@pytest.mark.parametrize("average", ["last", "uniform", "weighted"])
@seeds
def test_sgd_takes_the_same_steps_where_weights_vanish(other, average, seed):
    """To 0 in the first step of Pegasos; by 1e-5 in each of other steps."""
    for lam, steps in ((1.0, reference.steps.Pegasos()), (100.0, reference.steps.Constant(0.0099999))):
        runs = []
        for b in (reference, other):
            loss = b.LogLoss(*MODELS["sequences"].draw(seed).packed(b))
            w0 = np.random.default_rng(10).normal(size=loss.model.size)
            runs.append(b.sgd(loss, w0, lam=lam, step_size=steps, epochs=2, rng=3, average=average))
        for field in ("x", "fun"):
            np.testing.assert_allclose(*(getattr(run, field) for run in runs), rtol=1e-11, atol=1e-11)


@seeds
def test_hinge_trajectories_are_bit_equal_in_exact_arithmetic(other, seed):
    """Integer features and costs, dyadic steps, lam = 0: every sum is exact, so ties break alike and weights are
    equal bits."""
    runs = []
    for b in (reference, other):
        model, data = MODELS["sequences"].draw(seed, ties=True).packed(b)
        w0 = np.random.default_rng(11).integers(-2, 3, model.size).astype(np.float64)
        runs.append(b.sgd(b.StructuralHinge(model, data), w0, lam=0.0, step_size=0.25, epochs=3, rng=5, average="last"))
    assert np.array_equal(runs[0].x, runs[1].x)
    assert runs[0].fun == pytest.approx(runs[1].fun, rel=1e-12)


def answers(panel):
    """Of 300 words, which are more than one range of examples: losses, predictions, ragged batches of chains and of
    segments.
    """
    words = reference.load_letters().take(np.arange(0, 6000, 20))
    model = panel.SequenceModel(128, words.labels)
    data = model.pack(words.X, words.Y)
    w = 0.1 * np.random.default_rng(0).normal(size=model.size)
    batch = np.random.default_rng(1).permutation(data.n)
    chain = panel.Chain(*model.scores(data, np.arange(data.n), w))
    smooth = panel.StructuralHinge(model, data, smoothing=panel.smoothings.Entropy())
    segments = panel.Segments(np.random.default_rng(2).normal(size=(5, 70, 9, 11)), np.eye(11), [70, 0, 1, 33, 9])
    return (
        *panel.LogLoss(model, data).value_and_gradient(w),
        *panel.StructuralHinge(model, data).value_and_gradient(w),
        *smooth.value_and_gradient(w, batch, mu=0.5),
        np.concatenate(model.predict(data, batch, w)),
        *chain.best(),
        chain.expectation()[0],
        *chain.marginals()[:2],
        *segments.best(),
        *segments.topk(7),
        segments.sample(5, rng=0),
        segments.expectation()[0],
        *segments.marginals()[:2],
        *segments.max_marginals()[:2],
    )


def test_many_examples_have_the_same_bits_on_any_number_of_threads(other):
    """They are those of the reference to rounding."""
    found = []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            assert get_num_threads() == threads
            found.append(answers(other))
    finally:
        set_num_threads(None)
    for one, three, expected in zip(*found, answers(reference), strict=True):
        assert np.array_equal(one, three)
        close(one, expected)


def test_sparse_weights_have_the_same_bits_on_any_number_of_threads(other):
    """Duals of the elastic net, whose rows evaluate the objective in ranges of examples."""
    words, found = reference.load_letters().take(np.arange(0, 6000, 20)), []
    model = other.SequenceModel(128, words.labels)
    data = model.pack(words.X, words.Y)
    options = {"lam": 1e-3, "l1": 1e-3, "tol": 0.0, "epochs": 2, "rng": 0}
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            found.append(other.exponentiated_gradient(other.LogLoss(model, data), **options))
            found.append(other.bcfw(other.StructuralHinge(model, data), **options))
    finally:
        set_num_threads(None)
    for one, three in zip(found[:2], found[2:], strict=True):
        assert 0 < np.count_nonzero(one.x) < model.size and np.array_equal(one.x, three.x)
        bounds = [[(row.objective, row.dual) for row in run.history] for run in (one, three)]
        assert bounds[0] == bounds[1]
