"""Segmentation: scores that stay submodular, grids, weights below 0, and planted truth learned to a certified gap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.specimens.models import MODELS
from conformance.tolerances import close
from reference.structures.scores import add


@given(seed=st.integers(0, 2**32 - 1))
def test_scores_are_submodular_with_the_loss_too(backend, seed):
    """(72) on every edge, of the scores alone and with the task loss; one weight below 0 breaks it and is refused."""
    problem = MODELS["images"].draw(seed)
    model, data = problem.packed(backend)
    w, free = problem.weights(backend), model.nonnegative.start
    for i, (_, _, g) in enumerate(problem.X):
        scores = model.scores(data, np.array([i]), w)
        for pairwise in (scores.pairwise, add(scores, model.task_loss(data, np.array([i]))).pairwise):
            excess = pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0]
            assert np.all(excess >= 0)
            close(excess, 2 * g @ w[free:])
        for k in range(free, model.size):
            with pytest.raises(ValueError, match="weights of edge features must be >= 0"):
                model.scores(data, np.array([i]), np.where(np.arange(model.size) == k, -1e-3, w))


@pytest.mark.parametrize(("height", "width"), [(0, 0), (1, 1), (1, 4), (3, 1), (3, 4)])
def test_grids_join_neighbours_once(backend, height, width):
    for connectivity, far in ((4, 1), (8, 2)):
        edges = backend.grid_edges(height, width, connectivity)
        cells = list(itertools.product(range(height), range(width)))
        expected = {
            (a, b)
            for (a, (i, j)), (b, (k, m)) in itertools.combinations(enumerate(cells), 2)
            if max(abs(i - k), abs(j - m)) == 1 and abs(i - k) + abs(j - m) <= far
        }
        assert edges.dtype == np.int64 and edges.shape == (len(expected), 2)
        assert {tuple(e) for e in edges.tolist()} == expected


def planted(rng, n, edges, w):
    """Grids of 20 nodes whose labels are best for the weights w; then noise is added to the features of the nodes."""
    truth, X = reference.SegmentationModel(3, 2), []
    for _ in range(n):
        g = np.stack([np.ones(len(edges)), rng.random(len(edges))], axis=1)
        X.append((np.concatenate([np.ones((20, 1)), rng.normal(size=(20, 2))], axis=1), edges, g))
    Y = truth.predict(truth.pack(X), None, w)
    return [(x + 0.3 * rng.normal(size=x.shape) * [0.0, 1.0, 1.0], edges, g) for x, edges, g in X], Y


@pytest.mark.parametrize(("connectivity", "strength"), [(4, (0.4, 0.5)), (8, (0.25, 0.25))])
def test_planted_weights_are_learned_with_a_certificate(backend, connectivity, strength):
    """To a gap of 2 %; what is learned reads new images nearly as well as the truth, and better than without edges."""
    rng = np.random.default_rng(7)
    w = np.array([0.1, 1.0, -0.7, *strength])
    X, Y = planted(rng, 80, reference.grid_edges(4, 5, connectivity), w)
    model = backend.SegmentationModel(3, 2)
    hinge = backend.StructuralHinge(model, model.pack(X[:40], Y[:40]))
    result = backend.bcfw(hinge, lam=0.2, tol=0.02, epochs=60, rng=0)
    assert result.success and 0 <= result.certificate <= 0.02 * result.fun and np.all(result.x[3:] >= 0)
    new, three = model.pack(X[40:]), (result.x, w, np.where(np.arange(5) < 3, w, 0.0))
    error, best, alone = (np.mean(np.concatenate(model.predict(new, None, v)) != np.concatenate(Y[40:])) for v in three)
    assert error <= best + 0.05 and error <= 0.75 * alone
    sgd = backend.sgd(hinge, lam=0.2, epochs=3, rng=0)
    assert np.all(sgd.x[3:] >= 0) and sgd.fun >= result.history[-1].dual


def test_weights_below_zero_are_refused(backend):
    model, data = MODELS["images"].training().packed(backend)
    hinge = backend.StructuralHinge(model, data)
    for question in (hinge.value_and_gradient, hinge.linearize, lambda w: model.predict(data, None, w)):
        with pytest.raises(ValueError, match="w: weights of edge features must be >= 0, got -1.0 for edge feature 1"):
            question(np.array([1.0, 0.0, 0.0, 0.0, -1.0]))
    for refused in (backend.LogLoss, lambda *of: backend.StructuralHinge(*of, smoothing=backend.smoothings.Entropy())):
        with pytest.raises(backend.IntractableError, match="Proposition 14"):
            refused(model, data)
