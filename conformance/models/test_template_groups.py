"""Templates as groups of weights: blocks by hand, and online proximal rounds against their equation and the loop."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.specimens.models import MODELS
from conformance.tolerances import close
from reference.optimizers.online_proximal import OnlineProximal, OnlineProximalState
from reference.training.counterparts import counterpart

TEMPLATES = [("h.tag", "m.tag"), ("h.tag", "direction"), ("m.tag", "distance"), ("direction",)]
TEMPLATES += [("h.tag", "b.tag", "m.tag")]


def parser(panel, weights, n=6):
    """A model of blocks of 8 weights, in which features collide, of vocabularies, or of shared weights; and data."""
    problem = MODELS["arcs"].training(n, 7)
    X, Y = problem.X, problem.Y
    model = panel.ParsingModel(TEMPLATES, bits=3, blocks=weights != "shared")
    if weights == "listed":
        keys = model.vocabulary(model.pack(X, Y))
        keys[1] = keys[1][:0]  # a template without weights
        model = panel.ParsingModel(TEMPLATES, vocabulary=keys, blocks=True)
    return model, model.pack(X, Y)


@pytest.mark.parametrize("weights", ["hashed", "listed"])
def test_groups_and_norms_are_those_of_blocks(backend, rng, weights):
    model, _ = parser(backend, weights)
    for scale in (1.0, 0.0, 1e300, 1e-300):
        w = scale * rng.normal(size=model.size)
        norms = model.template_norms(w)
        assert norms.shape == (len(TEMPLATES),)
        for t, norm in enumerate(norms):
            mine = w[model.groups == t]
            assert np.array_equal(mine, w[model.bounds[t] : model.bounds[t + 1]])
            np.testing.assert_allclose(norm, scale * np.linalg.norm(mine / (scale or 1.0)), rtol=1e-12)
    squared = backend.SquaredL21(0.5, model.groups)
    w = rng.normal(size=model.size)
    close(squared.value(w), 0.25 * model.template_norms(w).sum() ** 2)


def penalties(panel, model):
    """Regularizers over templates, some of which share a group or have none."""
    every = model.groups if model.blocks else np.zeros(model.size, np.int64)
    some = np.array([1, 0, 1, -1, 0])[every] if model.blocks else every
    return {
        "squared": panel.SquaredL21(0.3, every),
        "squared, strong": panel.SquaredL21(30.0, every),
        "squared, few groups": panel.SquaredL21(0.5, some),
        "group lasso": panel.L21(0.3, every),
        "group lasso, weighted": panel.L21(0.5, some, weights=np.arange(1.0, some.max() + 2)),
        "ridge": panel.HalfSquaredL2(0.4),
        "in a ball": panel.Sequential([panel.SquaredL21(0.2, every), panel.L2Ball(0.7)]),
        "ridge in a ball": panel.Sequential([panel.Sequential([panel.HalfSquaredL2(0.1)]), panel.L2Ball(0.9)]),
    }


@pytest.mark.parametrize("average", ["last", "uniform"])
@pytest.mark.parametrize("loss", ["StructuralHinge", "LogLoss"])
@pytest.mark.parametrize("weights", ["hashed", "listed", "shared"])
@pytest.mark.parametrize("kind", penalties(reference, reference.ParsingModel(TEMPLATES, bits=3, blocks=True)))
def test_epochs_are_those_of_the_plain_loop(backend, rng, kind, weights, loss, average):
    """From random weights: of the plain loop, of the reference's for the log loss, where trees may tie. One step takes
    all weights to 0 first: of the hinge, for that reason, the last.
    """
    runs, sigma = [], 0.5
    w0, orders = rng.normal(size=10_000), [rng.integers(0, 6, 20) for _ in range(3)]
    for plain, panel in ((True, backend if loss == "StructuralHinge" else reference), (False, backend)):
        model, data = parser(panel, weights)
        objective, proxes = getattr(panel, loss)(model, data), penalties(panel, model)[kind]
        state, seen = OnlineProximalState(w0[: model.size], w0[: model.size], 0), []
        for number, order in enumerate(orders):
            steps = 0.4 / np.sqrt(np.arange(1, 21) + 20 * number)
            if number == (1 if loss == "LogLoss" else 2):
                steps[3 if loss == "LogLoss" else -1] = 1 / sigma  # 1 - gamma sigma = 0
            box = OnlineProximal(proxes, lambda t, s, steps=steps: steps, sigma if number else 0.0, average=average)
            state = (box if plain else counterpart(box, objective)).sweep(objective, state, order)
            seen.append((state.x, state.mean))
        assert state.t == 60
        runs.append(seen)
    close(runs[1], runs[0])
    if model.blocks:
        alive = [model.template_norms(seen[-1][0]) > 0 for seen in runs]
        assert np.array_equal(*alive)


def test_groups_fall_to_zero_and_come_back(backend, rng):
    """One round at a time: the norms of the equation, groups whose step is shorter than the threshold at exactly 0."""
    model, data = parser(backend, "hashed", 12)
    objective, phi = backend.StructuralHinge(model, data), backend.SquaredL21(1.5, model.groups)
    state = OnlineProximalState(objective.zeros(), objective.zeros(), 0)
    alive = []
    for t in range(1, 80):
        i, gamma = np.array([rng.integers(data.n)]), 0.3 / np.sqrt(t)
        z = state.x - gamma * objective.value_and_gradient(state.x, i)[1]
        expected = phi.prox(z, gamma)
        state = counterpart(OnlineProximal(phi, backend.steps.Constant(gamma)), objective).sweep(objective, state, i)
        close(state.x, expected)
        norms = model.template_norms(state.x)
        assert np.array_equal(norms > 0, model.template_norms(expected) > 0)
        assert np.array_equal(state.x != 0, (norms > 0)[model.groups] & (expected != 0))
        alive.append(norms > 0)
    changes = np.diff(np.array(alive).astype(int), axis=0)
    falls, rises = (changes == -1).any(axis=0), (changes == 1).sum(axis=0) > 1
    assert (falls & rises).any()


def test_kernels_take_over_where_they_say(other, rng, monkeypatch):
    """The plain loop is for groups within templates, batches, other regularizers and huge weights alone."""
    model, data = parser(other, "hashed")
    hinge, plain, calls = other.StructuralHinge(model, data), OnlineProximal.sweep, []
    monkeypatch.setattr(OnlineProximal, "sweep", lambda *a: calls.append(1) or plain(*a))
    fused = list(penalties(other, model).values())
    slow = [other.L1(0.1), other.SquaredL21(0.1, np.arange(model.size) % 2), other.L21Ball(1.0, model.groups)]
    slow.append(other.SparseGroupLasso(0.1, model.groups, 0.1))
    cases = [(phi, 1, 1.0, 0) for phi in fused] + [(phi, 1, 1.0, 1) for phi in slow]
    for phi, size, w0, expected in [*cases, (fused[0], 2, 1.0, 1), (fused[0], 1, 1e200, 1)]:
        calls.clear()
        start = w0 * rng.normal(size=model.size)
        other.online_proximal(hinge, phi, start, step_size=0.1, epochs=1, batch_size=size, rng=0)
        box = OnlineProximal(phi, other.steps.Constant(0.1))
        assert len(calls) == (1 if counterpart(box, hinge) is box else expected)
