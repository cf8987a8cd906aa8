"""What is wrong with an argument is said in its own name, by every model and objective."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.learners import chains, loss_of


def test_what_was_not_packed_is_refused(backend, rng):
    X, Y = [rng.normal(size=(2, 3))], [[0, 1]]
    listed = backend.ListModel(lambda x: np.eye(3), backend.Table, size=3)
    for model in (backend.SequenceModel(3, 2), backend.MulticlassModel(3, 2), listed):
        for data in (X, X[0], (X, Y), None):
            expected = f"data: expected what model.pack returned, got {type(data).__name__}"
            for make in (backend.LogLoss, backend.StructuralHinge):
                with pytest.raises(TypeError, match=expected):
                    make(model, data)
            with pytest.raises(TypeError, match=expected):
                model.predict(data, None, np.zeros(model.size))
    other = backend.MulticlassModel(3, 2).pack(X[0], [0, 1])
    with pytest.raises(TypeError, match="data: expected what model.pack returned, got MulticlassData"):
        backend.LogLoss(backend.SequenceModel(3, 2, start_stop=False), other)
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
    for lengths in (None, space.integers(np.array([3, 1]))):
        pairwise = np.zeros((2, 2) if lengths is None else (2, 3, 2, 2))
        chain = backend.Chain(space.put(np.ones((2, 4, 2))), space.put(pairwise), lengths)
        good = np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
        assert space.get(chain.score(space.integers(good))).tolist() == ([4, 4] if lengths is None else [3, 1])
        for position in np.ndindex(2, 4):
            for label in (-1, -2, 2, 99):
                bad = good.copy()
                bad[position] = label
                padding = lengths is not None and position[1] >= (3, 1)[position[0]]
                nobody = lengths is not None and position == (1, 0) and label == -1  # a chain of one position
                for ask in (chain.score, chain.parts):
                    if padding or nobody:
                        ask(space.integers(bad))
                        continue
                    expected = (
                        rf"y: expected labels in 0..1 at each position of a chain, got {label} at \({position[0]}, "
                    )
                    with pytest.raises(ValueError, match=expected):
                        ask(space.integers(bad))
        with pytest.raises(ValueError, match=r"y: expected labels of shape \(2, 4\), got \(4,\)"):
            chain.parts(space.integers(good[0]))
    table = backend.Table(space.put(np.ones((2, 3))))
    for ask in (table.score, table.parts):
        with pytest.raises(ValueError, match="y: expected outputs in 0..2, got 3"):
            ask(space.integers(np.array([0, 3])))
        with pytest.raises(ValueError, match="y: expected outputs in 0..2, got -2"):
            ask(space.integers(np.array([-2, 0])))
        with pytest.raises(ValueError, match=r"y: expected outputs of shape \(2,\), got \(\)"):
            ask(0)
