"""Corners of the structural hinge: the planes whose maximum it is, with every output listed."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from conformance import strategies
from conformance.listed_svm import listed_problem
from conformance.models.test_models import sequence_model
from conformance.tolerances import close


@given(problem=strategies.sequence_problems())
def test_corners_are_the_planes_of_the_hinge(backend, space, problem):
    model, data = sequence_model(backend, problem, space.put(0.0))
    objective = backend.StructuralHinge(model, data)
    w = np.random.default_rng(5).normal(size=model.size).astype(space.dtype)
    everything = listed_problem(problem, 1.0)
    batch = [len(problem.X) - 1, 0]
    corners = objective.corners(space.put(w), batch)
    directions, losses = space.get(corners.directions), space.get(corners.losses)
    assert directions.shape == (2, 1, model.size) and losses.shape == (2, 1)
    assert directions.dtype == losses.dtype == space.dtype and space.get(corners.count).tolist() == [1, 1]
    for b, i in enumerate(batch):
        V, loss = everything.V[i].astype(np.float64), everything.loss[i]
        close(losses[b, 0] + directions[b, 0] @ w, np.max(loss + V @ w), space.dtype, 10.0)
        same = np.all(np.abs(V - directions[b, 0]) <= 1e-5, axis=1) & (loss == losses[b, 0])
        assert np.any(same)


def test_corners_by_rank(backend, space, rng):
    X, Y = rng.normal(size=(3, 2)), np.array([0, 2, 1])
    model = backend.MulticlassModel(2, 3)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    w = rng.normal(size=6).astype(space.dtype)
    corners = objective.corners(space.put(w), k=5)
    assert isinstance(corners, backend.Corners) and isinstance(objective.linearize(space.put(w)), backend.Linearization)
    assert space.get(corners.count).tolist() == [3, 3, 3]
    for x, y, directions, losses in zip(X, Y, space.get(corners.directions), space.get(corners.losses), strict=True):
        planes = [np.outer(x, np.eye(3)[c] - np.eye(3)[y]).ravel() for c in range(3)]
        values = [(c != y) + planes[c] @ w for c in range(3)]
        close(losses[:3] + directions[:3] @ w, np.sort(values)[::-1], space.dtype, 10.0)
        assert np.all(losses[3:] == -np.inf) and not np.any(directions[3:])
        for loss, direction in zip(losses[:3], directions[:3], strict=True):
            assert any(loss == (c != y) and np.allclose(direction, planes[c], atol=1e-5) for c in range(3))
