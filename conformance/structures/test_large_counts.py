"""Answers of more outputs than memory holds: refused before any is sought; what is asked beyond the number of outputs
costs no search."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from conformance.specimens.structures import SMALL

LIMIT = 2**28
MADE = {name: lambda backend, each=each: each[0].make(backend, each[1](np.zeros)) for name, each in SMALL.items()}
MADE["batch of chains"] = lambda backend: backend.Chain(np.zeros((7, 5, 2)), np.zeros((2, 2)))
MADE["empty chain"] = lambda backend: backend.Chain(np.zeros((0, 2)), np.zeros((2, 2)))
everywhere = pytest.mark.parametrize("name", MADE)


def peak(run):
    """What a call returns, and the most bytes that it held."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(ask, *, match):
    with pytest.raises(ValueError, match=match):
        ask()


@everywhere
def test_more_outputs_than_an_answer_holds(backend, name):
    structure = MADE[name](backend)
    most = LIMIT // max(structure.topk(1).labels.size, 1)
    for k, shown in ((most + 1, f"{most + 1}"), (2**40, f"{2**40}"), (10**400, "an integer of")):
        message = f"^k: expected at most {most} outputs, .* got {shown}"
        assert peak(lambda k=k, message=message: refused(lambda: structure.topk(k), match=message))[1] < 2**22
    for size in (most + 1, 2**40, 2**62) if structure.supports("sample") else ():
        refused(lambda: structure.sample(size), match=f"^size: expected at most {most} outputs, .* got {size}")  # noqa: B023
    if structure.supports("sample"):
        huge = "^size: expected an integer in 1..9223372036854775807, got an integer of 1329"
        refused(lambda: structure.sample(10**400), match=huge)


@everywhere
def test_beyond_the_number_of_outputs_only_the_answer_grows(backend, name):
    """All outputs first, then -inf and -1; no other room is taken than that of the answer."""
    structure, k = MADE[name](backend), 2**16
    few, (many, room) = structure.topk(100), peak(lambda: structure.topk(k))
    assert np.array_equal(many.count, few.count) and np.max(np.asarray(few.count)) < 100
    assert np.array_equal(np.asarray(many.scores)[..., :100], few.scores)
    assert np.all(np.asarray(many.scores)[..., 100:] == -np.inf)
    labels = np.asarray(many.labels)
    assert np.all((labels[..., 100:, :] if labels.ndim > np.ndim(many.scores) else labels[..., 100:]) == -1)
    assert room < 2**21 + 8 * 8 * k * max(structure.topk(1).labels.size, 1)


def test_samples_take_the_room_of_the_answer(backend):
    """Many draws of many labels: no number for each draw and label, which would be 128 MiB."""
    labels, size = 512, 2**15
    unary, pairwise = np.linspace(-1.0, 1.0, 2 * labels).reshape(2, labels), np.zeros((labels, labels))
    for structure in (
        backend.Table(unary[0]),
        backend.Chain(unary, pairwise),
        backend.Tree(unary, pairwise, [-1, 0]),
        backend.Graph(unary, pairwise[None], [[0, 1]]),
    ):
        structure.sample(1, rng=0)  # compiles
        drawn, room = peak(lambda structure=structure: structure.sample(size, rng=0))
        assert drawn.size == size * max(drawn.ndim, 1) and np.unique(drawn).size > labels // 2
        assert room < 2**25
    assert backend.Table(np.zeros(10**6)).sample(1000, rng=0).max() < 10**6


def test_searches_and_runs_of_which_so_much_cannot_be_kept(backend):
    """Where the answer would fit: what a search keeps for each label, weights of corners, k^2 inner products."""
    chain = backend.Chain(np.zeros((30, 50)), np.zeros((50, 50)))
    kept = f"^k: expected at most {LIMIT // 1500} outputs, for which the search keeps 1500"
    refused(lambda: chain.topk(2**18), match=kept)
    classes = backend.MulticlassModel(2**12, 2)
    objective = backend.StructuralHinge(classes, classes.pack([[0], [1]], [0, 1]))
    for ask in (objective.corners, objective.sampled_corners):
        message = f"^k: expected at most {LIMIT // 2**13} outputs, .* got {2**20}"
        refused(lambda ask=ask: ask(np.zeros(classes.size), k=2**20), match=message)
    model = backend.SequenceModel(1, 2)
    hinge = backend.StructuralHinge(model, model.pack([np.ones((2, 1))], [[0, 1]]))
    for k in (2**40, 2**15):
        refused(lambda k=k: backend.multisample(hinge, lam=0.1, k=k), match="^k: expected at most")
