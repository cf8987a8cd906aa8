"""What models, objectives and structures say of data that are not packed, and of what is out of range."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.specimens.learners import chains, loss_of


def test_what_was_not_packed_is_refused(backend, rng):
    X, Y = [rng.normal(size=(2, 3))], [[0, 1]]
    listed = backend.ListModel(lambda x: np.eye(3), backend.Table, size=3)
    for model in (backend.SequenceModel(3, 2), backend.MulticlassModel(3, 2), listed):
        for data in (X, X[0], (X, Y), None, backend.TreeModel(3, 2).pack([(X[0], [-1, 0])], Y)):
            expected = f"data: expected what model.pack returned, got {type(data).__name__}"
            for ask in (backend.LogLoss, backend.StructuralHinge, lambda model, data: model.predict(data, None, X[0])):
                with pytest.raises(TypeError, match=expected):
                    ask(model, data)
    with pytest.raises(TypeError, match="model: expected a model such as SequenceModel, got list"):
        backend.LogLoss(X, Y)
    wider = backend.ListModel(lambda x: np.eye(4), backend.Table, size=4)
    with pytest.raises(ValueError, match="data: packed by a different model, with 4 features; this one has 3"):
        backend.LogLoss(listed, wider.pack([0], [1]))


@pytest.mark.parametrize("mu", ["a", True, [1.0]])
def test_mu_is_a_number_everywhere(backend, mu):
    objective = loss_of(backend, "entropy", *chains(backend))
    chain = backend.Chain(np.zeros((2, 2)), np.zeros((2, 2)))
    log = backend.LogLoss(objective.model, objective.data)
    for ask in (
        lambda: objective.value_and_gradient(objective.zeros(), mu=mu),
        lambda: log.value_and_gradient(log.zeros(), mu=mu),
        lambda: objective.smoothness(mu),
        lambda: chain.log_partition(mu),
        lambda: backend.Table([0.0, 1.0]).marginals(mu),
    ):
        with pytest.raises(TypeError, match="mu: expected a number, got"):
            ask()


def test_labels_out_of_range_have_no_score(backend, space):
    """One wrong label anywhere is refused; past the end any is allowed, and -1 throughout stands for no labelling."""
    for lengths in ([4, 4], [3, 1]):
        given = None if lengths == [4, 4] else space.integers(np.array(lengths))
        chain = backend.Chain(space.put(np.ones((2, 4, 2))), space.put(np.zeros((2, 3, 2, 2))), given)
        good = np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
        assert space.get(chain.score(space.integers(good))).tolist() == lengths
        for (i, t), label, ask in itertools.product(np.ndindex(2, 4), (-1, -2, 2, 99), (chain.score, chain.parts)):
            bad = good.copy()
            bad[i, t] = label
            if t >= lengths[i] or (lengths[i], label) == (1, -1):
                ask(space.integers(bad))
                continue
            expected = rf"y: expected labels in 0..1 at each position of a chain, got {label} at \({i}, "
            with pytest.raises(ValueError, match=expected):
                ask(space.integers(bad))
    table = backend.Table(space.put(np.ones((2, 3))))
    for ask, y in itertools.product((table.score, table.parts), (3, -2)):
        with pytest.raises(ValueError, match=f"y: expected outputs in 0..2, got {y}"):
            ask(space.integers(np.array([0, y])))


@pytest.mark.parametrize("name", ["SequenceModel", "MulticlassModel", "TreeModel"])
def test_models_say_what_they_need(backend, name):
    """7 TiB of costs for a million labels; the weights of a model of 10^13 features are asked for by the objective."""
    expected = r"^labels: expected at most 46340, the costs of 1000000 labels take 7.45e\+03 GiB"
    with pytest.raises(ValueError, match=expected):
        getattr(backend, name)(1, 10**6)
    model = getattr(backend, name)(10**15, 2)
    data = {"SequenceModel": ([[[0]]], [[0]]), "MulticlassModel": ([[0]], [0])}
    if name in data:
        with pytest.raises(MemoryError, match=f"^model: no room for the weights of {name}"):
            backend.LogLoss(model, model.pack(*data[name]))


def test_bad_corners_are_named(backend):
    objective = backend.StructuralHinge(*chains(backend, lengths=(2, 3)))
    with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
        objective.corners(objective.zeros(), k=0)
    with pytest.raises(ValueError, match=r"batch: expected example numbers in 0..1"):
        objective.corners(objective.zeros(), [2])
    assert objective.corners(objective.zeros(), []).directions.shape == (0, 1, objective.model.size)
    model = backend.ListModel(lambda x: np.eye(2), backend.Table, task_loss=lambda x, y: np.ones(2), size=2)
    with pytest.raises(ValueError, match="task_loss: expected 0 for the true output, got 1.0 in example 0"):
        backend.bcfw(backend.StructuralHinge(model, model.pack([0], [1])), lam=0.1)
