"""The search of the first step of stochastic gradients: trials agree, and cost what their examples do."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import accelerated
import reference
from conformance.specimens.models import MODELS, TAGGERS
from conformance.tolerances import close
from reference.optimizers.sgd import SGD, SGDState
from reference.steps import Pegasos
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking, OffsetSearch

KINDS = ["sequences", "classes", "trees", *(f"tags {options}" for options in TAGGERS)]


def sequences(panel, rng, width=5):
    """Only the first five of ``width`` features occur."""
    model = panel.SequenceModel(width, 3, start_stop=False)
    X = [[sorted({*rng.integers(0, 5, 3).tolist()}) for _ in range(n)] for n in (2, 4, 1, 3)]
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X])


@pytest.mark.parametrize("of_loss", [True, False])
@pytest.mark.parametrize("kind", ["rare features", *KINDS])
def test_trials_agree(other, rng, kind, of_loss):
    """From weights that are not 0, so that those that no example of a trial touches count: they shrink."""
    seed, found = rng.integers(2**32), []
    some = np.array([0, 2])
    for panel in (reference, other):
        drawn = np.random.default_rng(seed)
        rare = kind == "rare features"
        model, data = sequences(panel, drawn) if rare else MODELS[kind].training(4, seed=seed).packed(panel)
        objective = panel.LogLoss(model, data) if of_loss else panel.StructuralHinge(model, data)
        box = counterpart(SGD(0.3, Pegasos(1.0)), objective)
        search, w = counterpart(OffsetSearch(), objective), drawn.normal(size=model.size)
        state = SGDState(w, w, 3)
        trial = search.trial(objective, box, state, some)
        found.append([trial(offset) for offset in (4.0, 64.0, 4.0)])
        assert found[-1][0] == found[-1][2]  # no trial changes the next one
        found[-1] += search.find(objective, box, state)
    close(found[1], found[0])


def test_a_trial_costs_its_examples():
    """Its bytes do not depend on the number of weights."""

    def peak(width):
        model, data = sequences(accelerated, np.random.default_rng(0), width)
        loss = accelerated.LogLoss(model, data)
        box, state = counterpart(SGD(0.3, Pegasos(1.0)), loss), SGDState(loss.zeros(), loss.zeros(), 0)
        trial = counterpart(OffsetSearch(), loss).trial(loss, box, state, np.array([0, 2]))
        trial(4.0)  # what is compiled or imported on first use
        tracemalloc.start()
        try:
            trial(8.0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert abs(peak(2**20) - peak(5)) < 2**12


def test_a_search_lays_out_the_rows_of_its_examples(rng, monkeypatch):
    """Once for all trials, and no other rows."""
    laid_out = []

    def recording(model, w, *rows):
        laid_out.append(rows)
        return padded(model, w, *rows)

    padded = accelerated.SequenceModel.padded
    monkeypatch.setattr(accelerated.SequenceModel, "padded", recording)
    model, data = sequences(accelerated, rng, 1000)
    loss = accelerated.LogLoss(model, data)
    w, order, box = loss.zeros(), np.arange(4), counterpart(SGD(0.3, Pegasos(1.0)), loss)
    offsets, steps = counterpart(OffsetSearch(), loss), counterpart(Backtracking(), loss)
    for search in (
        lambda: offsets.find(loss, box, SGDState(w, w, 0)),
        lambda: steps.least(loss, w, None, order),
        lambda: steps.find(loss, w, None, order, 1e-3, np.inf),
    ):
        search()
        ((rows,),) = laid_out
        assert max(rows) < 5
        laid_out.clear()
