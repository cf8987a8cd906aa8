"""Answers of more outputs than memory holds: refused before any is sought; what is asked beyond the number of outputs
costs no search."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from conformance.specimens.structures import SMALL

LIMIT = 2**28


BATCHES = {
    "batch of chains": lambda backend: backend.Chain(np.zeros((7, 5, 2)), np.zeros((2, 2))),
    "empty chain": lambda backend: backend.Chain(np.zeros((0, 2)), np.zeros((2, 2))),
}
NAMES = [*SMALL, *BATCHES]


def listing(backend, name):
    """A structure of scores of 0, and how many numbers its best outputs take."""
    specimen, make = SMALL.get(name, (None, None))
    structure = BATCHES[name](backend) if specimen is None else specimen.make(backend, make(np.zeros))
    return structure, max(structure.topk(1).labels.size, 1)


@pytest.mark.parametrize("name", NAMES)
def test_more_best_outputs_than_an_answer_holds(backend, name):
    structure, numbers = listing(backend, name)
    for k, shown in (
        (LIMIT // numbers + 1, str(LIMIT // numbers + 1)),
        (2**40, str(2**40)),
        (10**400, "an integer of"),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match=f"^k: expected at most {LIMIT // numbers} outputs, .* got {shown}"):
            structure.topk(k)
        assert tracemalloc.get_traced_memory()[1] < 2**22
        tracemalloc.stop()


SAMPLED = [name for name in NAMES if name in BATCHES or "expectation" in SMALL[name][0].promises]


@pytest.mark.parametrize("name", SAMPLED)
def test_more_samples_than_an_answer_holds(backend, name):
    structure, numbers = listing(backend, name)
    for size in (LIMIT // numbers + 1, 2**40, 2**62):
        with pytest.raises(ValueError, match=f"^size: expected at most {LIMIT // numbers} outputs, .* got {size}"):
            structure.sample(size)
    with pytest.raises(
        ValueError, match="^size: expected an integer in 1..9223372036854775807, got an integer of 1329"
    ):
        structure.sample(10**400)


@pytest.mark.parametrize("name", NAMES)
def test_beyond_the_number_of_outputs_only_the_answer_grows(backend, name):
    """All outputs first, then -inf and -1; no other room is taken than that of the answer."""
    structure, numbers = listing(backend, name)
    few, k = structure.topk(100), 2**16
    tracemalloc.start()
    many = structure.topk(k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(many.count, few.count) and np.max(np.asarray(few.count)) < 100
    assert np.array_equal(np.asarray(many.scores)[..., :100], few.scores)
    assert np.all(np.asarray(many.scores)[..., 100:] == -np.inf)
    labels = np.asarray(many.labels)
    assert np.all((labels[..., 100:, :] if labels.ndim > np.ndim(many.scores) else labels[..., 100:]) == -1)
    assert peak < 2**21 + 8 * 8 * k * numbers


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
        tracemalloc.start()
        drawn = structure.sample(size, rng=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert drawn.size == size * max(drawn.ndim, 1) and np.unique(drawn).size > labels // 2
        assert peak < 2**25
    assert backend.Table(np.zeros(10**6)).sample(1000, rng=0).max() < 10**6


def test_chains_of_which_so_many_labellings_cannot_be_kept(backend):
    """The answer would fit, but not what the search keeps for each label."""
    chain = backend.Chain(np.zeros((30, 50)), np.zeros((50, 50)))
    with pytest.raises(
        ValueError, match=f"^k: expected at most {LIMIT // 1500} outputs, for which the search keeps 1500"
    ):
        chain.topk(2**18)


def test_corners_of_more_weights_than_an_answer_holds(backend, rng):
    model = backend.MulticlassModel(2**12, 2)
    objective = backend.StructuralHinge(model, model.pack([[0], [1]], [0, 1]))
    w = np.zeros(model.size)
    for ask in (objective.corners, objective.sampled_corners):
        with pytest.raises(ValueError, match=f"^k: expected at most {LIMIT // 2**13} outputs, .* got {2**20}"):
            ask(w, k=2**20)


@pytest.mark.parametrize("k", [2**40, 2**15])
def test_more_outputs_of_a_visit_than_there_is_room_for(backend, k):
    """The inner products of k outputs are k^2 numbers."""
    model = backend.SequenceModel(1, 2)
    hinge = backend.StructuralHinge(model, model.pack([np.ones((2, 1))], [[0, 1]]))
    with pytest.raises(ValueError, match="^k: expected at most"):
        backend.multisample(hinge, lam=0.1, k=k)
