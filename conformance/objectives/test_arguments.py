"""What models, objectives and structures say of data that are not packed, and of what is out of range."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.recipes.structure import Subset
from conformance.specimens.learners import chains, loss_of
from conformance.specimens.models import MODELS
from reference.models.costs import WeightedPositions
from reference.models.nonlinear import Delegating
from reference.structures.scores import inner


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


# the task loss of the truth is 0 --------------------------------------------------------------------------------------


def lists_with(backend, task_loss, n=4):
    """A model of two outputs with this task loss (x, y), and n examples x of the true output 1."""
    model = backend.ListModel(lambda x: np.eye(2), backend.Table, task_loss, size=2)
    return model, model.pack(range(n), [1] * n)


@pytest.mark.parametrize("own", [1.0, -0.25, 1e-9, np.nan, np.inf])
def test_a_loss_of_the_truth_is_refused_before_any_learner(backend, own):
    """Here of example 2 alone; without a cost it has no part in the log loss."""
    model, data = lists_with(backend, lambda x, y: np.where(np.arange(2) == y, own if x == 2 else 0.0, 1.0))
    for loss in (backend.StructuralHinge, partial(backend.LogLoss, cost=True)):
        with pytest.raises(ValueError, match=f"^task_loss: expected 0 for the true output, got {own} in example 2$"):
            loss(model, data)
    for smoothing in (backend.smoothings.Entropy(), backend.smoothings.SquaredL2(), backend.smoothings.TopK(2)):
        with pytest.raises(ValueError, match=f"^task_loss: expected 0 for the true output, got {own} in example 2$"):
            backend.StructuralHinge(model, data, smoothing=smoothing)
    assert backend.LogLoss(model, data).value(np.zeros(2)) == pytest.approx(np.log(2.0))


def test_models_of_yours_are_asked_for_the_loss_of_the_truth(backend, rng):
    """Whoever defines ``task_loss``: a subclass of a model of the package, or one around another model."""
    X, Y, one = rng.normal(size=(3, 2)), [0, 1, 1], np.ones((1, 2))

    class Shifted(backend.MulticlassModel):
        def task_loss(self, data, batch):
            return backend.TableScores(super().task_loss(data, batch).values + 0.5)

    shifted = Shifted(2, 2)
    for model in (shifted, Delegating(shifted)):
        with pytest.raises(ValueError, match="task_loss: expected 0 for the true output, got 0.5 in example 0"):
            backend.StructuralHinge(model, shifted.pack(X, Y))
    chain = backend.SequenceModel(2, 2)
    data = chain.pack([one, one], [[0], [1]])
    weighted = WeightedPositions(chain, data, [[2.0], [0.0]])  # times 2 or 0, the loss of the truth is 0
    assert backend.StructuralHinge(weighted, data).value(chain.zeros(data)) == pytest.approx(1.0)


def test_a_loss_of_the_truth_may_be_0_up_to_rounding(backend, rng):
    """Costs 0.1, 0.2 and 0.3 of labels, less 0.6; the hinge is at least the task loss of what is predicted."""
    costs = np.array([0.1, 0.2, 0.3])
    assert float(costs @ np.ones(3)) != 0.6
    model = backend.ListModel(
        lambda x: np.eye(4), Subset, lambda x, y: np.append(costs * (1 - 2 * np.array(y)), 0.6), size=4
    )
    hinge = backend.StructuralHinge(model, data := model.pack([0], [(1, 1, 1)]))
    for w in rng.normal(size=(8, 4)):
        (y,) = model.predict(data, None, w)
        assert hinge.value(w) >= costs @ (1 - np.array(y)) - 1e-12
    assert backend.bcfw(hinge, lam=0.1, epochs=50, rng=0).certificate < 1e-6


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1))
def test_losses_of_the_package_are_0_for_the_truth(backend, name, seed):
    """Those that objectives do not ask for it, too."""
    model, data = MODELS[name].draw(seed).packed(backend)
    for i in range(data.n):
        for piece in model.chunks(data, np.array([i])):
            assert inner(model.task_loss(data, piece), model.gold(data, piece)) == 0.0
