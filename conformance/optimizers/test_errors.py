"""What is wrong with an argument is said in its own name; options and data at the ends of their ranges have the same
clear answer in both panels.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.learners import LEARNERS, chains, loss_of, objective_of, run, short, takes
from conformance.tolerances import close


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


def test_lbfgs_without_a_tolerance_does_its_iterations(backend):
    objective = objective_of(backend, "lbfgs", None, "log loss")
    result, usual = (backend.lbfgs(objective, lam=0.1, iterations=200, **tol) for tol in ({"tol": None}, {}))
    assert result.success and result.certificate <= 1e-10 * result.fun
    close(result.fun, usual.fun, scale=1e3)


@pytest.mark.parametrize("name", [name for name in LEARNERS if "lam" in takes(name) and name != "mkl"])
def test_a_lam_without_an_inverse_is_rejected(backend, name):
    expected = "^lam: expected 0, or a number >= 5.56e-309 whose inverse is finite, got 5e-324"
    with pytest.raises(ValueError, match=expected):
        short(backend, name, objective_of(backend, name), 3, lam=5e-324)


@pytest.mark.parametrize("name", ["svrg", "casimir"])
def test_features_whose_gradients_overflow_are_said(backend, name):
    model, _ = chains(backend)
    huge = model.pack([1e300 * np.ones((n, 3)) for n in (2, 3)], [[0, 1], [2, 0, 1]])
    objective = backend.LogLoss(model, huge)
    with pytest.raises(ValueError, match="^objective: .* is smooth for no constant"):
        run(backend, name, objective, epochs=3)
    if name == "svrg":
        result = run(backend, name, objective, epochs=3, step_size=1e-300)
        assert not result.success and result.nit == 1
        assert result.message.startswith("stopped after 1 of 3 epochs: the gap overflows")


@pytest.mark.parametrize("name", ["SequenceModel", "MulticlassModel", "TreeModel"])
def test_models_say_what_they_need(backend, name):
    """7 TiB of costs for a million labels; the weights of a model of 10^13 features are asked for by the objective."""
    with pytest.raises(
        ValueError, match=r"^labels: expected at most 46340, the costs of 1000000 labels take 7.45e\+03 GiB"
    ):
        getattr(backend, name)(1, 10**6)
    model = getattr(backend, name)(10**15, 2)
    data = {"SequenceModel": ([[[0]]], [[0]]), "MulticlassModel": ([[0]], [0])}
    if name in data:
        with pytest.raises(MemoryError, match=f"^model: no room for the weights of {name}"):
            backend.LogLoss(model, model.pack(*data[name]))
