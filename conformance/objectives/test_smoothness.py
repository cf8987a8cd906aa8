"""Smoothness: step sizes of SVRG by that of each component; constants that two tied outputs attain."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.finite_sums import UNEVEN, Parabolas, random_logistic
from conformance.tolerances import close
from reference.linearized import linearized
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking, Guess

LAM = 1e-3
BEST = float((UNEVEN.curvature * UNEVEN.centre).mean() / (UNEVEN.curvature.mean() + LAM))


def test_the_smoothness_of_the_average_is_not_enough(backend):
    with_average = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (UNEVEN.curvature.mean() + LAM), epochs=60, rng=0)
    assert not with_average.success and "shorter steps" in with_average.message
    over_components = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (50 + LAM), epochs=60, rng=0)
    assert over_components.success
    close(over_components.x, BEST)


def test_a_guess_that_is_too_small_is_taken_back(backend):
    """The rare component is seldom among the examples that L is tried on: passes that go wrong are repeated."""
    result = backend.svrg(UNEVEN, lam=LAM, epochs=100, rng=3)
    objectives = [row.objective for row in result.history]
    assert np.all(np.diff(objectives) <= 1e-12) and "taken back" in result.message
    np.testing.assert_allclose(result.x, BEST, rtol=1e-3)


def test_a_known_smoothness_bounds_the_guess(backend):
    Known = type("Known", (Parabolas,), {"smoothness": lambda self, mu: 50.0})
    known = Known(UNEVEN.curvature, UNEVEN.centre)
    steps, asked = Backtracking(), (np.zeros(1), np.arange(known.n), None, LAM)
    step, guess = steps.propose(known, Guess(), *asked)
    assert step == 1 / (50 + LAM) and not guess.guessed
    assert steps.propose(known, steps.judge(guess._replace(guessed=True), 1.0, 0.0, np.zeros(1))[1], *asked)[0] == 1 / (
        50 + LAM
    )
    close(backend.svrg(known, lam=LAM, epochs=100, rng=0).x, BEST, scale=1e3)


def test_component_smoothness_is_the_least_power_of_two_that_is_enough(rng):
    logistic = random_logistic(rng)
    w, batch = rng.normal(size=4), np.arange(10)
    steps = Backtracking()
    below, asked = steps.least(logistic, w, None, batch)
    assert 0 < below <= 0.25 * (logistic.A[batch] ** 2).sum(axis=1).max() and asked == 20

    def enough(L, i):
        value, g = logistic.value_and_gradient(w, [i])
        return logistic.value_and_gradient(w - g / L, [i])[0] <= value - g @ g / (2 * L) + 1e-13

    for start in (1e-3, 0.3, below):
        L, calls = steps.find(logistic, w, None, batch, start)
        doublings = np.log2(L / start)
        assert doublings == round(doublings) >= 0 and calls == 20 + doublings
        assert all(enough(L, i) for i in batch)
        assert start == L or not all(enough(L / 2, i) for i in batch)
    L, _ = steps.find(logistic, w, None, batch, 1e-12)
    assert 0.5 * (logistic.A[batch] ** 2).sum(axis=1).max() >= L
    parabolas, order = Parabolas([3.0, 0.5, 0.0], [1.0, 2.0, 0.0]), np.arange(3)
    close(steps.least(parabolas, np.zeros(1), None, order)[0], 3.0)
    for start in (3.0, 0.75):
        assert steps.find(parabolas, np.zeros(1), None, order, start)[0] == 3.0
    assert steps.find(parabolas, np.zeros(1), None, order[:0], 0.75) == (0.75, 0)


def test_a_loss_that_rounding_hides_asks_for_no_smoothness(backend):
    """log(1 + exp(-190)) is 0 beside the scores that it is the difference of, its gradient is not."""
    model = backend.MulticlassModel(n_features=1, labels=["a", "b"])
    hinge = backend.StructuralHinge(model, model.pack([[0]], ["a"]), smoothing=backend.smoothings.Entropy())
    w = np.array([20.0, 0.0])
    value, g = hinge.value_and_gradient(w, mu=0.1)
    assert value == 0 < g @ g
    assert counterpart(Backtracking(), hinge).find(hinge, w, 0.1, np.array([0]), 1e-3, np.inf) == (1e-3, 2)


def test_no_curvature_and_no_regulariser_give_no_step(backend):
    flat = Parabolas([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="step_size: no curvature was found at the start and lam = 0"):
        backend.svrg(flat, lam=0.0)
    result = backend.svrg(flat, [1.0], lam=0.5, epochs=60, rng=0)
    assert result.nit == 60 and abs(result.x[0]) < 1e-5  # the optimum is 0: no gap is small beside it


# constants are attained by two tied outputs as far apart as outputs can be --------------------------------------------

FAR = 60.0  # so many levels of smoothing below the tied outputs, all others weigh nothing
BOXES = [[10 * j, 0, 10 * j + 4, 4] for j in range(3)]  # they do not meet: the loss of each for another is 1
TWO = np.array([[3.0, 4.0], [-1.0, 1.0]])


def attains(objective, w, i, mu, L):
    """The norm of the Hessian of example i's loss at w, by central differences of its gradient, is L."""
    step = 1e-3 * np.sqrt((mu or 1.0) / L)
    change = [
        objective.value_and_gradient(w + e, [i], mu)[1] - objective.value_and_gradient(w - e, [i], mu)[1]
        for e in step * np.eye(len(w))
    ]
    np.testing.assert_allclose(np.linalg.norm(np.array(change), 2) / (2 * step), L, rtol=1e-5)


SMOOTHINGS = [(reference.smoothings.Entropy(), "smoothness"), (reference.smoothings.SquaredL2(), "smoothness")]
SMOOTHINGS += [(reference.smoothings.TopK(2), "local_smoothness")]  # no third output can come between
SMOOTHINGS += [(reference.smoothings.SquaredL2(2), "local_smoothness")]


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("smoothing", "constant"), SMOOTHINGS, ids=str)
def test_two_tied_classes_attain_the_smoothness(backend, smoothing, constant, mu):
    """Of the longer of two examples; weights of examples multiply it."""
    model = backend.MulticlassModel(2, 2)
    data = model.pack(np.array([[0.5, 0.0], [3.0, 4.0]]), [0, 0])
    objective = backend.StructuralHinge(model, data, smoothing=smoothing)
    w = np.array([1.0 / 3.0, 0.0, 0.0, 0.0])  # the true class of example 1 gains what the other has by its task loss
    for each in (objective, backend.Weighted(objective, [2.0, 3.0])):
        attains(each, w, 1, mu, getattr(each, constant)(mu))


ONE, STAY = [[1.0, -2.0]], [0, -FAR, -FAR, 0]  # the features of each position; no change of label
MODELS = {  # the model, one example, its true output, and the last weights: two outputs have a probability of 1/2 each
    "classes": (lambda b: b.MulticlassModel(2, 3), np.array([[3.0, 4.0]]), 0, [-FAR, 0, 0, 0]),
    "a chain of one label": (lambda b: b.SequenceModel(2, 2, start_stop=False), [np.array(ONE * 3)], [0] * 3, STAY),
    "a tree of one label": (lambda b: b.TreeModel(2, 2), [(np.array(ONE * 4), np.array([-1, 0, 0, 1]))], [0] * 4, STAY),
    "candidates": (lambda b: b.CandidateModel((2,)), [(BOXES[:2], TWO)], BOXES[0], [0]),
    "a list": (
        lambda b: b.ListModel(np.asarray, b.Table, lambda x, y: 1.0 * (np.arange(2) != y), size=2),
        [TWO],
        0,
        [0],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_outputs_at_its_diameter(backend, name):
    """diam^2/4 of the log loss, where two outputs that far apart have a probability of 1/2 each."""
    make, X, y, last = MODELS[name]
    model = make(backend)
    data, w = model.pack(X, [y]), np.zeros(model.size)
    w[-len(last) :] = last
    objective = backend.LogLoss(model, data)
    L = objective.smoothness()
    np.testing.assert_allclose(4 * L, model.squared_diameters(data)[0], rtol=1e-12)
    attains(objective, w, 0, None, L)


CROSSED = np.array([[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
LOCAL = {  # the model, an example, its true output, weights that make up for the loss, and mu
    # both rows move the features by the same
    "straight or crossed": (lambda b: b.AlignmentModel(2), CROSSED, [0, 1], [0.5, 0], 0.5),
    # a pair of features 0 and no pair, a unit vector
    "with null": (lambda b: b.AlignmentModel(1, null=True), np.zeros((1, 1, 1)), [0], [0, -1.0], 0.5),
    # one pixel has features: a box with it and a box without; the box of both pixels has a loss of 1/2
    "windows": (lambda b: b.SubwindowModel(2), np.array([[[0, 0], [3.0, 4.0]]]), [0, 0, 1, 1], [-0.2, -0.1], 0.05),
}


@pytest.mark.parametrize("name", LOCAL)
def test_two_best_outputs_are_at_their_diameter(backend, name):
    make, x, y, w, mu = LOCAL[name]
    model = make(backend)
    objective = backend.StructuralHinge(model, model.pack([x], [y]), smoothing=backend.smoothings.TopK(2))
    attains(objective, np.array(w), 0, mu, objective.local_smoothness(mu))


def test_jacobians_written_out_have_their_diameter(backend):
    """Two wrong candidates at opposite sides of the true one, twice as far from each other as from it, and tied."""
    a = np.array([3.0, 4.0])
    model = backend.TwoLayerModel((1, 2), hidden=1)
    data = model.pack([(BOXES, np.array([[0.0 * a], [a], [-a]]))], [BOXES[0]])
    w, mu = np.array([4.0, -3.0, 2.0]), 1.0 / FAR
    for smoothing, constant in SMOOTHINGS[0], SMOOTHINGS[2]:
        objective = linearized(backend.StructuralHinge(model, data, smoothing=smoothing), w, w)
        attains(objective, np.zeros(3), 0, mu, getattr(objective, constant)(mu))
