"""SVRG's compiled passes against the dense loop, to rounding: from one snapshot to the next, and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.models.test_models import sequence_model
from conformance.strategies import SequenceProblem
from reference.optimizers.subproblem import Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart


def passes_of(backend, problem, lam, kappa, average, mu, gamma=0.2):
    """Three passes of the backend's own, as Casimir makes them; the iterates after each."""
    model, data = sequence_model(backend, problem)
    loss = (
        backend.LogLoss(model, data)
        if mu is None
        else backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    )
    rng = np.random.default_rng(12)
    x, z = rng.normal(size=(2, model.size))
    box, subproblem = counterpart(SVRG(average=average), loss), Subproblem(loss, lam, kappa, mu, z if kappa else None)
    for _ in range(3):
        x = box.sweep(subproblem, box.snapshot(loss, x, mu), x, rng.permutation(loss.n), gamma)
        yield x


@pytest.mark.parametrize("mu", [None, 0.5])
@pytest.mark.parametrize("average", ["last", "uniform"])
@pytest.mark.parametrize(("lam", "kappa"), [(0.0, 0.0), (0.1, 0.03), (1e7, 0.0), (0.0, 30.0)])
@given(problem=strategies.sequence_problems())
def test_fused_passes_agree(other, mu, average, lam, kappa, problem):
    """Rows that wait and catch up, against the dense loop, to rounding; also where a step shrinks the weights to a
    millionth.
    """
    for ours, theirs in zip(
        passes_of(reference, problem, lam, kappa, average, mu),
        passes_of(other, problem, lam, kappa, average, mu),
        strict=True,
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("average", ["last", "uniform"])
@pytest.mark.parametrize("kappa", [0.0, 0.03])
def test_fused_passes_agree_where_features_are_rare(other, average, kappa, rng):
    """Most rows wait for many steps, some for all of them."""
    X = [[rng.integers(0, 300, 4).tolist() for _ in range(n)] for n in rng.integers(0, 6, 60)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    problem = SequenceProblem(X, Y, 310, 3, {})
    for ours, theirs in zip(
        passes_of(reference, problem, 0.01, kappa, average, 0.5),
        passes_of(other, problem, 0.01, kappa, average, 0.5),
        strict=True,
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-11, atol=1e-11 * np.abs(ours).max())


@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
@pytest.mark.parametrize("kappa", [0.0, 0.03])
def test_fused_passes_over_the_best_outputs_agree(other, kappa, smoothing):
    """From random weights with real features no two scores tie, so the panels find the same outputs."""
    words = reference.load_letters().take(np.arange(20))
    found = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        kind = b.smoothings.TopK(5) if smoothing == "TopK" else b.smoothings.SquaredL2(16)
        loss = b.StructuralHinge(model, model.pack(words.X, words.Y), smoothing=kind)
        x, z = 0.1 * np.random.default_rng(0).normal(size=(2, model.size))
        subproblem = Subproblem(loss, 0.01, kappa, 1.0, z if kappa else None)
        for average in ("uniform", "last"):
            box = counterpart(SVRG(average=average), loss)
            x = box.sweep(subproblem, box.snapshot(loss, x, 1.0), x, np.arange(20), 0.02)
        found.append(x)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 1e3])
@pytest.mark.parametrize("smoothing", ["Entropy", "TopK", "SquaredL2"])
def test_answers_kept_with_the_snapshot_are_those_asked_again(backend, rng, smoothing, scale):
    """Some sequences twice, some not at all, some empty; at the large scale transitions are too far apart for
    probabilities.
    """
    lengths = rng.integers(0, 6, 12)
    model = backend.SequenceModel(4, 3)
    data = model.pack([rng.normal(size=(n, 4)) for n in lengths], [rng.integers(0, 3, n) for n in lengths])
    kind = backend.smoothings.Entropy() if smoothing == "Entropy" else getattr(backend.smoothings, smoothing)(4)
    loss = backend.StructuralHinge(model, data, smoothing=kind)
    x, order = scale * rng.normal(size=model.size), rng.integers(0, 12, 20)
    box, subproblem = counterpart(SVRG(), loss), Subproblem(loss, 0.1, 0.0, 0.5, None)
    kept, asked = box.snapshot(loss, x, 0.5), SVRG().snapshot(loss, x, 0.5)
    np.testing.assert_allclose(kept.value, asked.value, rtol=1e-13)
    np.testing.assert_allclose(kept.gradient, asked.gradient, rtol=1e-12, atol=1e-13)
    ours, theirs = (box.sweep(subproblem, start, start.x, order, 0.1) for start in (kept, asked))
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_runs_agree_with_their_steps_found(other):
    """Both panels find the same step sizes, take back the same passes, and arrive at the same weights: real words."""
    words = reference.load_letters().take(np.arange(40))
    runs = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        loss = b.LogLoss(model, model.pack(words.X, words.Y))
        runs.append(b.svrg(loss, lam=0.01, epochs=3, rng=0))
    ours, theirs = runs
    np.testing.assert_allclose(theirs.x, ours.x, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(theirs.certificate, ours.certificate, rtol=1e-9)
    assert theirs.oracle_calls == ours.oracle_calls and theirs.message == ours.message
