"""Smoothness constants are attained: two outputs that tie, as far apart as an example's outputs can be, and the
Hessian's norm is the constant."""

from __future__ import annotations

import numpy as np
import pytest

from reference.linearized import linearized

FAR = 60.0  # so many levels of smoothing below the tied outputs, all others weigh nothing


def steepest(objective, w, i, mu, L):
    """The norm of the Hessian of example i's loss at w, by central differences of its gradient; steps suit a curvature
    of about L."""
    step = 1e-3 * np.sqrt((mu or 1.0) / L)
    change = [
        objective.value_and_gradient(w + e, [i], mu)[1] - objective.value_and_gradient(w - e, [i], mu)[1]
        for e in step * np.eye(len(w))
    ]
    return np.linalg.norm(np.array(change), 2) / (2 * step)


def attains(objective, w, i, mu, L):
    np.testing.assert_allclose(steepest(objective, w, i, mu, L), L, rtol=1e-5)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("smoothing", ["Entropy", "SquaredL2"])
def test_two_tied_classes_attain_the_smoothness(backend, smoothing, mu):
    """Of the longer of two examples; weights of examples multiply it."""
    model = backend.MulticlassModel(2, 2)
    data = model.pack(np.array([[0.5, 0.0], [3.0, 4.0]]), [0, 0])
    objective = backend.StructuralHinge(model, data, smoothing=getattr(backend.smoothings, smoothing)())
    w = np.array([1.0 / 3.0, 0.0, 0.0, 0.0])  # the true class of example 1 gains what the other has by its task loss
    attains(objective, w, 1, mu, objective.smoothness(mu))
    weighted = backend.Weighted(objective, [2.0, 3.0])
    attains(weighted, w, 1, mu, weighted.smoothness(mu))


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
def test_two_tied_classes_attain_the_local_smoothness(backend, smoothing, mu):
    """With K = 2, where no third output can come between."""
    model = backend.MulticlassModel(2, 2)
    data = model.pack(np.array([[0.5, 0.0], [3.0, 4.0]]), [0, 0])
    objective = backend.StructuralHinge(model, data, smoothing=getattr(backend.smoothings, smoothing)(2))
    w = np.array([1.0 / 3.0, 0.0, 0.0, 0.0])
    attains(objective, w, 1, mu, objective.local_smoothness(mu))
    weighted = backend.Weighted(objective, [2.0, 3.0])
    attains(weighted, w, 1, mu, weighted.local_smoothness(mu))


def boxes_apart(m):
    """Boxes that do not meet: the loss of each for another is 1."""
    return [[10 * j, 0, 10 * j + 4, 4] for j in range(m)]


def classes(backend):
    model = backend.MulticlassModel(2, 3)
    w = np.zeros((2, 3))
    w[0, 2] = -FAR
    return model, model.pack(np.array([[3.0, 4.0]]), [0]), w.ravel()


def chain(backend):
    """All labels 0, or all 1: the same features throughout, and no change of label."""
    model = backend.SequenceModel(2, 2, start_stop=False)
    w = np.zeros(model.size)
    w[-4:] = 0.0, -FAR, -FAR, 0.0
    return model, model.pack([np.array([[1.0, -2.0]] * 3)], [[0, 0, 0]]), w


def tree(backend):
    model = backend.TreeModel(2, 2)
    w = np.zeros(model.size)
    w[-4:] = 0.0, -FAR, -FAR, 0.0
    return model, model.pack([(np.array([[1.0, -2.0]] * 4), np.array([-1, 0, 0, 1]))], [[0, 0, 0, 0]]), w


def candidates(backend):
    model = backend.CandidateModel((2,))
    data = model.pack([(boxes_apart(2), np.array([[3.0, 4.0], [-1.0, 1.0]]))], [boxes_apart(2)[0]])
    return model, data, np.zeros(2)


def listed(backend):
    X = [np.array([[3.0, 4.0], [-1.0, 1.0]])]
    model = backend.ListModel(lambda x: x, backend.Table, lambda x, y: 1.0 * (np.arange(2) != y), size=2)
    return model, model.pack(X, [0]), np.zeros(2)


@pytest.mark.parametrize("make", [classes, chain, tree, candidates, listed], ids=lambda make: make.__name__)
def test_each_model_has_outputs_at_its_diameter(backend, make):
    """diam^2/4 of the log loss, where two outputs that far apart have a probability of 1/2 each."""
    model, data, w = make(backend)
    objective = backend.LogLoss(model, data)
    L = objective.smoothness()
    np.testing.assert_allclose(4 * L, model.squared_diameters(data)[0], rtol=1e-12)
    attains(objective, w, 0, None, L)


@pytest.mark.parametrize("null", [False, True])
def test_alignments_at_their_diameter(backend, null):
    """Straight or crossed, where both rows move the features by the same; with null, a pair of features 0 and no pair,
    a unit vector."""
    if null:
        model, x = backend.AlignmentModel(1, null=True), np.zeros((1, 1, 1))
    else:
        model, x = backend.AlignmentModel(2), np.array([[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
    data = model.pack([x], [np.arange(len(x))])
    objective = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2))
    w = np.zeros(model.size)
    w[-1 if null else 0] = -1.0 if null else 0.5  # makes up for the loss
    attains(objective, w, 0, 0.5, objective.local_smoothness(0.5))


def test_subwindows_at_their_diameter(backend):
    """One pixel has features: a box with it and a box without."""
    x = np.zeros((1, 2, 2))
    x[0, 1] = 3.0, 4.0
    model = backend.SubwindowModel(2)
    data = model.pack([x], [[0, 0, 1, 1]])
    objective = backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2))
    w = np.array([-0.2, -0.1])  # a score of -1, and a loss of 1; the box of both pixels has a loss of 1/2
    attains(objective, w, 0, 0.05, objective.local_smoothness(0.05))


def test_jacobians_written_out_have_their_diameter(backend):
    """Two wrong candidates at opposite sides of the true one, twice as far from each other as from it, and tied."""
    a, boxes = np.array([3.0, 4.0]), boxes_apart(3)
    model = backend.TwoLayerModel((1, 2), hidden=1)
    data = model.pack([(boxes, np.array([[0.0 * a], [a], [-a]]))], [boxes[0]])
    w, mu = np.array([4.0, -3.0, 2.0]), 1.0 / FAR
    for smoothing, L_of in (
        (backend.smoothings.Entropy(), "smoothness"),
        (backend.smoothings.TopK(2), "local_smoothness"),
    ):
        objective = linearized(backend.StructuralHinge(model, data, smoothing=smoothing), w, w)
        attains(objective, np.zeros(3), 0, mu, getattr(objective, L_of)(mu))
