"""Models of functions and modules in PyTorch are copied and pickled, and threads share them."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from conformance.models.test_nonlinear_models import network


def scores_of_two(w, inputs):
    """Values of two outputs of each input: w_0 tanh(w_1 x), and 0."""
    torch = sys.modules["torch"]
    return torch.stack([torch.stack([w[0] * torch.tanh(w[1] * x), 0.0 * w[0]]) for x in inputs])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_are_models_of_their_own(backend, copied):
    torch, net, _, X, Y = network(backend)
    model = backend.DifferentiableModel.of_module(net, backend.Table)
    many = backend.MinibatchModel(scores_of_two, backend.Table, size=2)
    for one, data in ((model, model.pack(X, Y)), (many, many.pack([1.0, -2.0, 0.5], [0, 1, 1]))):
        w = one.initial(data, 0)
        value, gradient = backend.LogLoss(one, data).value_and_gradient(w)
        other = copied(one)
        for mine, theirs in zip(backend.LogLoss(other, data).value_and_gradient(w), (value, gradient), strict=True):
            assert np.array_equal(mine, theirs)
    other = copied(model)
    other.write(2 * other.initial(data))
    assert all(map(torch.equal, other.module.parameters(), [2 * x for x in net.parameters()]))


def test_threads_share_a_model_of_minibatches(backend):
    """Each knows the form of the piece that it scored itself, while another scores one of another form."""
    pytest.importorskip("torch")
    calls = []
    model = backend.MinibatchModel(lambda w, x: calls.append(len(x)) or scores_of_two(w, x), backend.Table, size=2)
    data, w = model.pack(np.linspace(-1.0, 1.0, 5).tolist(), [0, 1, 0, 1, 1]), np.array([1.0, 2.0])
    few, many = np.arange(2), np.arange(5)
    calls.clear()
    with ThreadPoolExecutor(1) as pool:
        assert model.scores(data, few, w).values.shape == (2, 2)
        assert pool.submit(model.scores, data, many, w).result().values.shape == (5, 2)
        assert model.task_loss(data, few).values.shape == (2, 2)
        assert pool.submit(model.task_loss, data, many).result().values.shape == (5, 2)
    assert calls == [2, 5]
