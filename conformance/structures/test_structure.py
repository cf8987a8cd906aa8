"""The structure protocol: what a user's own structure gets from two methods, and what it is told it lacks."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerances import close


def pick_one(backend):
    """A structure over a bare array of scores, with ``best`` and ``parts`` alone."""

    class PickOne(backend.Structure):
        def best(self):
            y = int(np.argmax(self.scores))
            return float(self.scores[y]), y

        def parts(self, y):
            return np.eye(len(self.scores))[y]

    return PickOne


def test_two_methods_derive_the_rest(backend):
    structure = pick_one(backend)(np.array([0.0, 2.0, -np.inf]))
    assert structure.score(1) == 2.0
    assert structure.augment(np.array([5.0, 0.0, 0.0])).best() == (5.0, 0)
    value, gradient = structure.smooth_max(backend.smoothings.Max(), 0.0)
    assert value == 2.0 and np.array_equal(gradient, [0.0, 1.0, 0.0])
    assert structure.supports("best") and not structure.supports("expectation")


def test_what_is_missing_is_said(backend):
    """By the structure, and at once by an objective that needs it."""
    lacking = pick_one(backend)

    class Hard(lacking):
        intractable = {"expectation": "#P-complete"}

    for ask, needed in (("topk", "topk"), ("log_partition", "expectation"), ("marginals", "expectation")):
        with pytest.raises(backend.UnsupportedError, match=f"PickOne does not implement {needed}"):
            getattr(lacking(np.zeros(3)), ask)(1)
    for ask, given in (("max_marginals", ()), ("constrained", (np.ones((1, 3), bool),))):
        with pytest.raises(backend.UnsupportedError, match=f"PickOne does not implement {ask}"):
            getattr(lacking(np.zeros(3)), ask)(*given)
    with pytest.raises(backend.IntractableError, match=r"Hard has no expectation\(\): #P-complete"):
        Hard(np.zeros(3)).log_partition()
    for kind, error, message in (
        (lacking, backend.UnsupportedError, r"LogLoss with Entropy\(\) needs expectation\(\), which PickOne lacks"),
        (Hard, backend.IntractableError, r"LogLoss .* needs expectation\(\): #P-complete"),
    ):
        model = backend.ListModel(lambda x: np.eye(3), kind, size=3)
        with pytest.raises(error, match=message):
            backend.LogLoss(model, model.pack([0], [1]))


def test_chain_scores_in_a_list_model_are_the_sequence_model(backend, rng):
    """The same scores through plain callables: flattened parts are unary scores, then pairwise ones."""
    n, F, L = 4, 2, 3
    x, y = rng.normal(size=(n, F)), rng.integers(0, L, n)
    sequence = backend.SequenceModel(F, L, start_stop=False)
    ours = backend.StructuralHinge(sequence, sequence.pack([x], [y]), smoothing=backend.smoothings.Entropy())

    def features(x):
        unary = np.kron(x, np.eye(L)).reshape(n * L, F * L)
        return np.block([[unary, np.zeros((n * L, L * L))], [np.zeros((L * L, F * L)), np.eye(L * L)]])

    def shape(x, values):
        return backend.ChainScores(values[: n * L].reshape(n, L), values[n * L :].reshape(L, L))

    def loss(x, y):
        return np.concatenate([(1.0 - np.eye(L)[y]).ravel(), np.zeros(L * L)])

    listed = backend.ListModel(features, backend.Chain, loss, size=sequence.size, shape=shape)
    theirs = backend.StructuralHinge(listed, listed.pack([x], [y]), smoothing=backend.smoothings.Entropy())
    w = rng.normal(size=sequence.size)
    for mu in (0.0, 0.7):
        for a, b in zip(ours.value_and_gradient(w, mu=mu), theirs.value_and_gradient(w, mu=mu), strict=True):
            close(a, b)


def test_edges_are_the_structures_own(backend):
    """An array that its owner changes later must not lead a kernel astray."""
    edges = np.array([[0, 1]])
    structures = [f(np.zeros((2, 2)), np.zeros((1, 2, 2)), edges) for f in (backend.Cut, backend.Graph)]
    edges[0, 1] = 70
    assert all(structure.best()[1].tolist() == [0, 0] for structure in structures)


ODD = 2**53 + 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_floats_do_not_hold_are_refused(backend, dtype):
    """Wherever integers become floats; those that are multiples of large enough powers of two stay."""
    zero, model = np.zeros((2, 2)), backend.SequenceModel(2, 2)
    data = model.pack([np.eye(2)], [[0, 1]])
    for name, ask in (
        ("values", backend.Table),
        ("values", backend.Matching),
        ("values", lambda x: backend.Arborescence(np.concatenate([x, x], 1)[:, :3])),
        ("unary", lambda x: backend.Chain(x, zero)),
        ("pairwise", lambda x: backend.Chain(zero, x)),
        ("unary", lambda x: backend.Tree(x, zero, [-1, 0])),
        ("unary", lambda x: backend.Graph(x, np.zeros((1, 2, 2)), [[0, 1]])),
        ("unary", lambda x: backend.Cut(x, np.zeros((1, 2, 2)), [[0, 1]])),
        ("cost", lambda x: backend.SequenceModel(2, 2, cost=x)),
        ("X", lambda x: backend.MulticlassModel(2, 2).pack(x, [0, 1])),
        ("w0", lambda x: backend.sgd(backend.LogLoss(model, data), np.resize(x, 12), lam=0.1, epochs=1)),
        ("x", backend.L1(0.1).prox),
        ("x", lambda x: backend.L1(0.1).prox(x.tolist())),
        ("x", lambda x: backend.L1(0.1).prox([*x[0].tolist(), 0.5])),
        ("tau", lambda x: backend.L1(x[0, 1])),
        ("tau", lambda x: backend.L1(int(x[0, 1]))),
    ):
        with pytest.raises(ValueError, match=rf"^{name}.*: expected numbers that float64 holds, got {ODD}: it becomes"):
            ask(np.array([[0, ODD], [1, 0]], dtype))
        ask(np.array([[0, 2**60], [1, 0]], dtype))
