"""Kernels from the features of segments to gradients take the steps of the loops over structures."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from accelerated.problems import problem_of
from conformance.models.test_models import seeds
from conformance.specimens.models import MODELS
from conformance.tolerances import close

NAMES = [name for name in MODELS if name.split()[0] in ("segments", "chunks")]


@pytest.mark.beyond("compiles")
@pytest.mark.parametrize("name", NAMES)
@seeds
def test_the_same_losses_gradients_and_steps(other, name, seed):
    found = []
    for b in (reference, other):
        model, data = MODELS[name].draw(seed).packed(b)
        hinge, log = b.StructuralHinge(model, data), b.LogLoss(model, data)
        smooth = b.StructuralHinge(model, data, smoothing=b.smoothings.Entropy())
        w = np.random.default_rng(seed).normal(size=model.size)
        every = np.arange(data.n)
        answers = [x for each, mu in ((hinge, 0.0), (smooth, 0.3), (log, 1.0)) for x in each._linearized(w, every, mu)]
        steps = [b.sgd(each, w, lam=0.1, epochs=2, rng=0) for each in (hinge, log)]
        steps += [b.svrg(each, w, lam=0.1, epochs=2, rng=0, **mu) for each, mu in ((log, {}), (smooth, {"mu": 0.3}))]
        steps += [b.bcfw(hinge, lam=0.1, epochs=2, rng=0)] if name == "segments" else []  # words tie
        found.append([*answers, *(run.x for run in steps)])
        assert b is reference or all(problem_of(each, 1.0) for each in (smooth, log))
    for a, c in zip(*found, strict=True):
        close(a, c)
