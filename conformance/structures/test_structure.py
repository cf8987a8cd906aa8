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


@pytest.mark.parametrize("ask", ["topk", "expectation", "log_partition", "marginals"])
def test_what_is_missing_is_said(backend, ask):
    structure = pick_one(backend)(np.zeros(3))
    with pytest.raises(backend.UnsupportedError, match="PickOne does not implement (topk|expectation)"):
        getattr(structure, ask)(1)
    with pytest.raises(backend.UnsupportedError, match="PickOne does not implement max_marginals"):
        structure.max_marginals()


def test_an_objective_says_at_once_what_the_structure_lacks(backend):
    model = backend.ListModel(lambda x: np.eye(3), pick_one(backend), size=3)
    data = model.pack([0], [1])
    with pytest.raises(
        backend.UnsupportedError, match=r"LogLoss with Entropy\(\) needs expectation\(\), which PickOne lacks"
    ):
        backend.LogLoss(model, data)


def test_a_user_structure_trains_an_svm(backend, rng):
    """Three prototypes; the score of output y is <w, x> on coordinate block y: separable, so the hinge loss goes to
    0.
    """
    X = [np.eye(3)[i] + 0.1 * rng.normal(size=3) for i in (0, 1, 2) * 4]
    Y = [0, 1, 2] * 4

    def features(x):
        return np.kron(np.eye(3), x)

    def loss(x, y):
        return 1.0 - np.eye(3)[y]

    model = backend.ListModel(features, pick_one(backend), loss, size=9)
    objective = backend.StructuralHinge(model, model.pack(X, Y))
    result = backend.sgd(objective, lam=1e-3, step_size=0.5, epochs=30, rng=0)
    assert objective.value_and_gradient(result.x)[0] < 0.05
    assert model.predict(objective.data, None, result.x) == Y


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


def test_an_intractable_question_is_named(backend):
    class Hard(pick_one(backend)):
        intractable = {"expectation": "#P-complete"}

    with pytest.raises(backend.IntractableError, match=r"Hard has no expectation\(\): #P-complete"):
        Hard(np.zeros(3)).log_partition()
    model = backend.ListModel(lambda x: np.eye(3), Hard, size=3)
    with pytest.raises(backend.IntractableError, match=r"LogLoss .* needs expectation\(\): #P-complete"):
        backend.LogLoss(model, model.pack([0], [1]))


def test_constraints_limit_the_states_of_variables(backend):
    chain = backend.Chain(np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[0.0, -1.0], [0.0, 0.0]]))
    limited = chain.constrained(np.array([[False, True], [True, True]]))
    value, labels = limited.best()
    assert (float(value), labels.tolist()) == (0.5, [1, 1])
    assert limited.node_max_marginals().tolist() == [[-np.inf, 0.5], [0.0, 0.5]]
    with pytest.raises(backend.UnsupportedError, match="PickOne does not implement constrained"):
        pick_one(backend)(np.zeros(3)).constrained(np.ones((1, 3), bool))


@pytest.mark.parametrize("kind", ["tree", "cut", "wide", "tall", "graph"])
def test_constraints_of_another_shape_or_type_are_refused(backend, kind):
    structure = {
        "tree": lambda: backend.Tree(np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0, 0]),
        "cut": lambda: backend.Cut(np.zeros((3, 2)), np.zeros((0, 2, 2)), []),
        "wide": lambda: backend.Matching(np.zeros((3, 4))),
        "tall": lambda: backend.Matching(np.zeros((4, 3))),
        "graph": lambda: backend.Graph(np.zeros((3, 2)), np.zeros((0, 2, 2)), np.zeros((0, 2), np.int64)),
    }[kind]()
    states = {"wide": 4, "tall": 4}.get(kind, 2)
    assert structure.constrained([[True] * states] * 3).best()[0] == 0.0
    for allowed in ([[True] * states], True, [[True] * (states + 1)] * 3):
        with pytest.raises(ValueError, match=rf"allowed: expected shape \(3, {states}\), got"):
            structure.constrained(allowed)
    with pytest.raises(TypeError, match="allowed: expected booleans, got int64"):
        structure.constrained([[1] * states] * 3)


def test_edges_are_the_structures_own(backend):
    """An array that its owner changes later must not lead a kernel astray."""
    edges = np.array([[0, 1]])
    structures = [f(np.zeros((2, 2)), np.zeros((1, 2, 2)), edges) for f in (backend.Cut, backend.Graph)]
    edges[0, 1] = 70
    assert all(structure.best()[1].tolist() == [0, 0] for structure in structures)
