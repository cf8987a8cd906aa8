"""Compiled passes of SVRG and SAGA against the plain loops, to rounding: rows of weights that wait and catch up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import strategies
from conformance.models.test_models import sequence_model
from conformance.specimens.learners import loss_of
from conformance.strategies import SequenceProblem
from reference.algorithms import SAGA, SVRG
from reference.optimizers.subproblem import Subproblem
from reference.training.counterparts import counterpart

boxes = pytest.mark.parametrize("box", [SVRG(average="last"), SVRG(average="uniform"), SAGA()], ids=str)
MU = {"log loss": None, "entropy": 0.5}


def passes(objective, box, mu, lam=0.01, kappa=0.0, gamma=0.2, scale=1.0):
    """The iterates after each of three passes of the backend's own, as Casimir makes them; some examples may be left
    out of an order, others come twice.
    """
    rng, ours, memory = np.random.default_rng(12), counterpart(box, objective), None
    x, z = scale * rng.normal(size=(2, objective.model.size))
    subproblem = Subproblem(objective, lam, kappa, mu, z if kappa else None)
    for _ in range(3):
        order = rng.permutation(objective.n) if kappa else rng.integers(0, objective.n, objective.n)
        start = ours.snapshot(objective, x, mu)
        x, _, memory = ours.one_pass(subproblem, start, order, gamma, memory)
        yield x


def agree(other, make, rtol=1e-10, **options):
    """Both panels' passes; ``make(panel)`` gives the objective."""
    for ours, theirs in zip(*(passes(make(panel), **options) for panel in (reference, other)), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=rtol, atol=rtol * max(1.0, np.abs(ours).max()))


def of_problem(problem, loss):
    return lambda panel: loss_of(panel, loss, *sequence_model(panel, problem))


@boxes
@pytest.mark.parametrize("loss", ["log loss", "entropy"])
@pytest.mark.parametrize(("lam", "kappa"), [(0.0, 0.0), (0.1, 0.03), (1e7, 0.0), (0.0, 30.0)])
@given(problem=strategies.sequence_problems())
def test_passes_agree(other, box, loss, lam, kappa, problem):
    """Also where a step shrinks the weights to a millionth."""
    agree(other, of_problem(problem, loss), box=box, mu=MU[loss], lam=lam, kappa=kappa)


@boxes
@pytest.mark.parametrize("kappa", [0.0, 0.03])
def test_passes_agree_where_features_are_rare(other, box, kappa, rng):
    """Most rows wait for many steps, some for all of them."""
    X = [[rng.integers(0, 300, 4).tolist() for _ in range(n)] for n in rng.integers(0, 6, 60)]
    problem = SequenceProblem(X, [rng.integers(0, 3, len(x)) for x in X], 310, 3, {})
    agree(other, of_problem(problem, "entropy"), box=box, mu=0.5, kappa=kappa)


@boxes
@pytest.mark.parametrize("kappa", [0.0, 0.03])
@pytest.mark.parametrize("scale", [0.1, 1e3])
@pytest.mark.parametrize("loss", ["entropy", "top-k", "l2"])
def test_passes_agree_at_every_scale(other, box, rng, loss, scale, kappa):
    """Real features, so that no two scores tie and the panels find the same best outputs. At the
    large scale transitions are too far apart for probabilities: the answers come from the log domain."""
    X = [rng.normal(size=(n, 4)) for n in rng.integers(0, 6, 12)]
    problem = SequenceProblem(X, [rng.integers(0, 3, len(x)) for x in X], 4, 3, {})
    options = {"mu": 0.5, "lam": 0.1, "kappa": kappa, "gamma": 0.1 * min(scale, 1.0), "scale": scale}
    agree(other, of_problem(problem, loss), 1e-9, box=box, **options)


@pytest.mark.parametrize("scale", [0.1, 1e3])
@pytest.mark.parametrize("loss", ["entropy", "top-k", "l2"])
def test_answers_kept_with_the_snapshot_are_those_asked_again(backend, rng, loss, scale):
    """The value and gradient of a compiled snapshot, and a pass from it, are those of the plain one."""
    lengths = rng.integers(0, 6, 12)
    model = backend.SequenceModel(4, 3)
    data = model.pack([rng.normal(size=(n, 4)) for n in lengths], [rng.integers(0, 3, n) for n in lengths])
    objective = loss_of(backend, loss, model, data)
    x, order = scale * rng.normal(size=model.size), rng.integers(0, 12, 20)
    box, subproblem = counterpart(SVRG(), objective), Subproblem(objective, 0.1, 0.0, 0.5, None)
    kept, asked = box.snapshot(objective, x, 0.5), SVRG().snapshot(objective, x, 0.5)
    np.testing.assert_allclose(kept.value, asked.value, rtol=1e-13)
    np.testing.assert_allclose(kept.gradient, asked.gradient, rtol=1e-12, atol=1e-13)
    ours, theirs = (box.sweep(subproblem, start, start.x, order, 0.1) for start in (kept, asked))
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
