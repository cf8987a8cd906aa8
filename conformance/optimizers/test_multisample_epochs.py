"""Epochs of multi-sample dual updates, however a panel makes them, against the reference's visits from one state."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.optimizers.multisample import Multisample
from reference.training.counterparts import counterpart

LENGTHS = (5, 1, 6, 0, 4, 3, 2, 7)


def objective(panel, X, Y, tags):
    if not tags:
        model = panel.SequenceModel(3, 4)
        return panel.StructuralHinge(model, model.pack(X, Y))
    X = [[{f"a{f}": value for f, value in enumerate(position)} for position in x.tolist()] for x in X]
    model = panel.TaggingModel(list("abcd"), None, bits=6)
    return panel.StructuralHinge(model, model.pack(X, [["abcd"[label] for label in y] for y in Y]))


def problem(rng, integer):
    X = [rng.integers(-1, 2, (n, 3)).astype(float) if integer else rng.normal(size=(n, 3)) for n in LENGTHS]
    return X, [rng.integers(0, 4, n) for n in LENGTHS]


def same_state(found, expected, online):
    for name in ("x", "mean", "loss", "weights", "best"):
        close(getattr(found, name), getattr(expected, name), scale=100.0)
    assert (found.t, found.blocks, len(found.mixtures)) == (expected.t, expected.blocks, len(expected.mixtures))
    for i in expected.mixtures:
        close(found.mixtures[i].direction, expected.mixtures[i].direction, scale=100.0)
        close(found.mixtures[i].loss, expected.mixtures[i].loss, scale=100.0)
    assert len(expected.mixtures) == (0 if online else len(LENGTHS)) and -1 not in found.mixtures


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize(
    "options", options_of_box("multisample"), ids=lambda options: "-".join(map(str, options.values()))
)
def test_an_epoch_is_its_visits(other, rng, options, integer):
    """Weights, their mean, losses, blocks and what the random numbers have come to; also where integer features tie."""
    X, Y = problem(rng, integer)
    for lam in (0.02, 0.5):
        box = Multisample(lam, **options)
        ours, theirs = (objective(panel, X, Y, False) for panel in (reference, other))
        fast, one, two = counterpart(box, theirs), np.random.default_rng(5), np.random.default_rng(5)
        expected, found = box.init(ours), fast.init(theirs)
        for _ in range(4):
            expected, found = box.epoch(ours, expected, one), fast.epoch(theirs, found, two)
            same_state(found, expected, box.online)
            assert one.random() == two.random()


@pytest.mark.parametrize("tags", [False, True])
def test_either_form_of_the_blocks_goes_on(other, rng, tags):
    """The reference's visits go on from a panel's state, its epochs from the reference's: the same weights."""
    X, Y = problem(rng, False)
    box, (ours, theirs) = Multisample(0.05, 3), (objective(panel, X, Y, tags) for panel in (reference, other))
    fast = counterpart(box, theirs)
    steps = [(box, ours), (fast, theirs)]
    ends = []
    for turns in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 1, 1)):
        random, state = np.random.default_rng(2), box.init(ours)
        for turn in turns:
            which, over = steps[turn]
            state = which.epoch(over, state, random)
        ends.append(state)
    for end in ends[1:]:
        same_state(end, ends[0], False)


def test_a_state_is_not_changed(other, rng):
    """Two epochs from one state by the same numbers are equal bit for bit, and so is one from what a mapping says of
    it.
    """
    X, Y = problem(rng, False)
    theirs = objective(other, X, Y, False)
    fast = counterpart(Multisample(0.05, 3), theirs)
    state = fast.epoch(theirs, fast.init(theirs), np.random.default_rng(0))
    first, again, listed = (
        fast.epoch(theirs, start, np.random.default_rng(1))
        for start in (state, state, state._replace(mixtures=dict(state.mixtures)))
    )
    for other_one in (again, listed):
        assert np.array_equal(first.x, other_one.x) and np.array_equal(first.mean, other_one.mean)
        assert np.array_equal(first.weights, other_one.weights) and first.loss == other_one.loss
        for i in first.mixtures:
            assert np.array_equal(first.mixtures[i].direction, other_one.mixtures[i].direction)
