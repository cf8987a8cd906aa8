"""Epochs of multi-sample dual updates, and of Frank-Wolfe with weights kept >= 0, however a panel makes them, against
the reference's visits from one state.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import reference
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.optimizers.bcfw import BCFW
from reference.optimizers.multisample import Multisample
from reference.training.counterparts import counterpart

LENGTHS = (5, 1, 6, 0, 4, 3, 2, 7)
SIDES = (3, 1, 0, 4, 2, 3)


def sequences(panel, rng, integer=False, tags=False):
    """Labelled sequences, one of them empty; integer features tie."""
    X = [rng.integers(-1, 2, (n, 3)).astype(float) if integer else rng.normal(size=(n, 3)) for n in LENGTHS]
    Y = [rng.integers(0, 4, n) for n in LENGTHS]
    if not tags:
        model = panel.SequenceModel(3, 4)
        return panel.StructuralHinge(model, model.pack(X, Y))
    X = [[{f"a{f}": value for f, value in enumerate(position)} for position in x.tolist()] for x in X]
    model = panel.TaggingModel(list("abcd"), None, bits=6)
    return panel.StructuralHinge(model, model.pack(X, [["abcd"[label] for label in y] for y in Y]))


def grids(panel, rng, edge_features):
    """Grids of drawn features, one of them without nodes, and labels of which a planted model and noise decide."""
    model, X = panel.SegmentationModel(3, edge_features), []
    for side in SIDES:
        edges = panel.grid_edges(side, side)
        X.append((rng.normal(size=(side * side, 3)), edges, rng.random((len(edges), edge_features))))
    w = np.concatenate([rng.normal(size=3), rng.random(edge_features)])
    Y = [np.where(rng.random(len(y)) < 0.2, 1 - y, y) for y in model.predict(model.pack(X), None, w)]
    return panel.StructuralHinge(model, model.pack(X, Y))


def same_state(found, expected):
    """Weights, not clipped, their mean, losses, and what is kept of each block."""
    blocks = hasattr(expected, "mixtures")
    for name in ("x", "mean", "loss", *(("weights", "best") if blocks else ("mean_loss",))):
        close(getattr(found, name), getattr(expected, name), scale=100.0 if blocks else 1e3)
    assert found.t == expected.t
    if blocks:
        assert (found.blocks, len(found.mixtures)) == (expected.blocks, len(expected.mixtures))
        assert len(expected.mixtures) in (0, len(LENGTHS)) and -1 not in found.mixtures
        for i in expected.mixtures:
            close(found.mixtures[i].direction, expected.mixtures[i].direction, scale=100.0)
            close(found.mixtures[i].loss, expected.mixtures[i].loss, scale=100.0)


BOXES = {  # epochs: ties are exact in the first; later, rounding decides which of two tied outputs moves first
    Multisample: [(lam, partial(sequences, integer=integer), 1 if integer else 4)
                  for lam in (0.02, 0.5) for integer in (False, True)],
    BCFW: [(lam, partial(grids, edge_features=edges), 4) for lam in (0.001, 0.1) for edges in (0, 1, 4)],
}  # fmt: skip
CASES = [
    (box, options) for box, name in ((Multisample, "multisample"), (BCFW, "bcfw")) for options in options_of_box(name)
]


@pytest.mark.parametrize(
    ("box", "options"), CASES, ids=[f"{b.__name__}-{'-'.join(map(str, o.values()))}" for b, o in CASES]
)
def test_an_epoch_is_its_visits(other, rng, box, options):
    """The same state and draws; also where integer features tie, and where weights are clipped."""
    negative = False
    for lam, make, epochs in BOXES[box]:
        seed, plain = int(rng.integers(2**31)), box(lam, **options)
        ours, theirs = (make(panel, np.random.default_rng(seed)) for panel in (reference, other))
        fast, one, two = counterpart(plain, theirs), np.random.default_rng(5), np.random.default_rng(5)
        expected, found = plain.init(ours), fast.init(theirs)
        for _ in range(epochs):
            expected, found = plain.epoch(ours, expected, one), fast.epoch(theirs, found, two)
            same_state(found, expected)
            assert one.random() == two.random()
        if box is Multisample:
            assert len(expected.mixtures) == (0 if plain.online else len(LENGTHS))
        negative = negative or np.any(np.asarray(expected.x) < 0)
    assert negative


@pytest.mark.parametrize("tags", [False, True])
def test_either_form_of_the_blocks_goes_on(other, rng, tags):
    """The reference's visits go on from a panel's state, its epochs from the reference's: the same weights."""
    seed, box = int(rng.integers(2**31)), Multisample(0.05, 3)
    ours, theirs = (sequences(panel, np.random.default_rng(seed), tags=tags) for panel in (reference, other))
    steps, ends = [(box, ours), (counterpart(box, theirs), theirs)], []
    for turns in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 1, 1)):
        random, state = np.random.default_rng(2), box.init(ours)
        for turn in turns:
            which, over = steps[turn]
            state = which.epoch(over, state, random)
        ends.append(state)
    for end in ends[1:]:
        same_state(end, ends[0])


def test_a_state_is_not_changed(other, rng):
    """Two epochs from one state by the same numbers are equal bit for bit, and so is one from what a mapping says of
    it.
    """
    theirs = sequences(other, rng)
    fast = counterpart(Multisample(0.05, 3), theirs)
    state = fast.epoch(theirs, fast.init(theirs), np.random.default_rng(0))
    first, again, listed = (
        fast.epoch(theirs, start, np.random.default_rng(1))
        for start in (state, state, state._replace(mixtures=dict(state.mixtures)))
    )
    for one in (again, listed):
        assert np.array_equal(first.x, one.x) and np.array_equal(first.mean, one.mean)
        assert np.array_equal(first.weights, one.weights) and first.loss == one.loss
        for i in first.mixtures:
            assert np.array_equal(first.mixtures[i].direction, one.mixtures[i].direction)
