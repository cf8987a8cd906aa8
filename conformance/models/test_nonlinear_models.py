"""Nonlinear models: Jacobians against finite differences, what is remembered about a point, networks of the user's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.models.test_models import check_adjoint
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference.arrays import Place, host
from reference.linearized import LinearizedObjective, linearized
from reference.models.two_layer import elu
from reference.optimizers.sgd import SGD
from reference.training.counterparts import counterpart


def scenes(rng, shape=(2, 2, 3), counts=(3, 1, 4, 3)):
    """Candidates of a few images with features, and their true boxes."""
    X, Y = [], []
    for m in counts:
        boxes = np.array([[k, k, k + 3, k + 4] for k in range(m)])
        X.append((boxes, rng.normal(size=(m, *shape))))
        Y.append(boxes[rng.integers(m)])
    return X, Y


def two_layer(backend, rng, like=None, counts=(3, 1, 4, 3), **options):
    model = backend.TwoLayerModel(options.pop("shape", (2, 2, 3)), hidden=3, **options)
    return model, model.pack(*scenes(rng, model.shape, counts), like=like)


def check_model(model, data, w, rng, dtype="float64"):
    """Pushforward against finite differences, pullback against pushforward, both against what comes with values."""
    check_adjoint(model, data, w, Place.of(w).floats(rng.normal(size=model.size)), rng, dtype)


@given(seed=st.integers(0, 2**32 - 1))
def test_two_layers_have_the_jacobian_that_they_say(backend, space, seed):
    rng = np.random.default_rng(seed)
    shape = [(2, 2, 3), (1, 4), (5,)][rng.integers(3)]
    model, data = two_layer(backend, rng, space.put(0.0), shape=shape)
    w = model.initial(data, rng)
    check_model(model, data, w, rng, space.dtype)


def test_two_layers_are_their_formula(backend, rng):
    """Candidate by candidate, place by place."""
    model, data = two_layer(backend, rng)
    assert backend.TwoLayerModel(**model.settings()).size == model.size
    w = model.initial(data, 0)
    W1, W2 = w[: 3 * 3].reshape(3, 3), w[9:].reshape(3, 2, 2)
    for i in range(data.n):
        features = data.features[data.offsets[i] : data.offsets[i + 1]]
        for k, phi in enumerate(features):
            hidden = np.einsum("hwc,cm->mhw", phi, W1)
            score = np.sum(np.where(hidden >= 0, hidden, np.exp(hidden) - 1) * W2)
            close(model.scores(data, np.array([i]), w).values[0, k], score)
    close(model.gold_scores(data, np.array([0]), w), model.scores(data, np.array([0]), w).values[0, data.best[0]])


def test_elu_is_smooth():
    """Value, slope and a 1-Lipschitz slope at 0; no overflow far from it."""
    x = np.array([-1e300, -800.0, -1.0, -1e-9, -0.0, 0.0, 1e-9, 1.0, 1e300])
    close(elu(x)[2:7], [np.exp(-1) - 1, -1e-9, 0, 0, 1e-9])
    assert elu(x)[0] == elu(x)[1] == -1 and elu(x)[-1] == 1e300
    t = np.linspace(-3, 3, 6001)
    slope = np.diff(elu(t)) / np.diff(t)
    assert np.all(np.abs(np.diff(slope)) <= 1.001e-3) and np.all(slope > 0)


def test_what_is_remembered_is_what_is_computed(backend, rng):
    model, data = two_layer(backend, rng)
    w, dw = model.initial(data, 0), model.initial(data, 1)
    here = model.cached_at(data, w)
    assert here is not model
    for batch in (np.array([2]), np.array([0, 3]), np.array([3]), np.array([0, 3])):
        a, b = (m.pushforward(data, batch, w, dw).values for m in (here, model))
        assert np.array_equal(a, b)
        for g in (rng.normal(size=a.shape), np.eye(a.shape[1])[[1] * len(a)], np.zeros(a.shape)):
            g = backend.TableScores(g)
            close(here.pullback(data, batch, w, g), model.pullback(data, batch, w, g))


def test_a_subclass_keeps_its_own_losses(backend, rng):
    """What is written out about a point is of TwoLayerModel itself; linearised, another model is what it says it is."""

    class Harsh(backend.TwoLayerModel):
        def task_loss(self, data, batch):
            found = super().task_loss(data, batch)
            return type(found)(5.0 * (found.values > 0))

    X, Y = scenes(rng)
    hinge = backend.StructuralHinge(model := Harsh((2, 2, 3), hidden=3), model.pack(X, Y))
    plain = backend.StructuralHinge(backend.TwoLayerModel((2, 2, 3), hidden=3), hinge.data)
    w = model.initial(hinge.data, 0)
    value = hinge.value_and_gradient(w, None, 0.0)[0]
    assert abs(value - plain.value_and_gradient(w, None, 0.0)[0]) > 0.01
    close(linearized(hinge, w, w).value_and_gradient(np.zeros_like(w), None, 0.0)[0], value)


def test_forbidden_outputs_have_no_slope(backend):
    """Scores of -inf that do not depend on the weights: the linearised model keeps them."""
    torch = pytest.importorskip("torch")

    def score(w, x):
        return torch.tensor([-torch.inf, 0.0, 1.0], dtype=w.dtype) if x == 0 else torch.stack([w[0], w[1] * w[0]])

    model = backend.DifferentiableModel(score, backend.Table, lambda x, y: np.arange(3 - x) != y, size=2)
    hinge, w = backend.StructuralHinge(model, model.pack([0, 1], [1, 0])), np.array([0.5, 2.0])
    value = hinge.value_and_gradient(w, None, 0.0)[0]
    assert np.isfinite(value)
    close(linearized(hinge, w, w).value_and_gradient(np.zeros(2), None, 0.0)[0], value)


# networks of the user's -----------------------------------------------------------------------------------------------


def network(backend, dtype="float32"):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1), torch.nn.Flatten(0))
    net = net.to(getattr(torch, dtype))
    model = backend.DifferentiableModel.of_module(net, backend.Table, lambda x, y: np.arange(len(x)) != y)
    rng = np.random.default_rng(2)
    X = [torch.asarray(rng.normal(size=(m, 3)), dtype=getattr(torch, dtype)) for m in (3, 2, 4, 3)]
    return torch, net, model, X, [1, 0, 3, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("where", ["numpy", "torch"])
def test_networks_have_the_jacobian_that_they_say(backend, dtype, where):
    torch, net, model, X, Y = network(backend, dtype)
    data = model.pack(X, Y, like=torch.zeros(1, dtype=getattr(torch, dtype)) if where == "torch" else None)
    w = model.initial(data)
    assert str(w.dtype).endswith(dtype) and isinstance(w, np.ndarray) == (where == "numpy")
    for i, x in enumerate(X):
        close(host(model.scores(data, np.array([i]), w).values), net(x).detach().numpy(), dtype)
    check_model(model, data, w, np.random.default_rng(0), dtype)
    model.write(2 * w)
    close(host(model.initial(data)), 2 * host(w), dtype)


def test_a_function_is_a_model(backend, rng):
    """Chains of a function of the weights; an operation without forward mode; one that does not look at the weights."""
    torch = pytest.importorskip("torch")

    class Backward(torch.autograd.Function):
        """x^2 with a backward pass and no forward mode."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    def score(w, x):
        unary = torch.outer(torch.as_tensor(x), torch.sin(w[:2])).reshape(-1)
        return torch.cat([unary, Backward.apply(w[2:])])

    def shape(x, values):
        return backend.ChainScores(values[: 2 * len(x)].reshape(len(x), 2), values[2 * len(x) :].reshape(2, 2))

    model = backend.DifferentiableModel(score, backend.Chain, size=6, shape=shape)
    data = model.pack([np.array([1.0, -2.0]), np.array([0.5])], [[0, 1], [1]])
    check_model(model, data, rng.normal(size=6), rng)
    constant = backend.DifferentiableModel(lambda w, x: torch.ones(2, dtype=torch.float64), backend.Table, size=3)
    data = constant.pack([0], [1])
    back = constant.pullback(data, np.array([0]), np.ones(3), backend.TableScores(np.ones(2)))
    assert np.array_equal(back, np.zeros(3))


def taggers(backend, rng, lengths=(3, 1, 4, 2, 0), wide=0):
    """Chains of a small network, one by one and in minibatches (padded to ``wide``), and what they are trained on."""
    torch = pytest.importorskip("torch")
    X, Y = [rng.normal(size=(n, 2)) for n in lengths], [rng.integers(0, 3, n) for n in lengths]

    def unary(w, x):
        return torch.tanh(x.to(w) @ w[:4].reshape(2, 2)) @ w[4:10].reshape(2, 3)

    def score(w, x):
        return torch.cat([unary(w, torch.as_tensor(x)).reshape(-1), w[10:] ** 2])

    def shape(x, values):
        xp, cut = array_namespace(values), 3 * len(x)
        return backend.ChainScores(xp.reshape(values[:cut], (len(x), 3)), xp.reshape(values[cut:], (3, 3)))

    def scores(w, inputs):
        lengths = torch.tensor([len(x) for x in inputs], device=w.device)
        inside = torch.arange(max(wide, *lengths, 0), device=w.device) < lengths[:, None]
        x = torch.zeros((*inside.shape, 2), dtype=torch.float64, device=w.device)
        x[inside] = torch.as_tensor(np.concatenate(inputs), device=w.device)
        padded = torch.where(inside[..., None], unary(w, x), 7.0)  # of padding: anything
        return backend.ChainScores(padded, w[10:].reshape(3, 3) ** 2, lengths)

    def hamming(x, y):
        return np.concatenate([(np.arange(3) != y[:, None]).reshape(-1), np.zeros(9)])

    one = backend.DifferentiableModel(score, backend.Chain, hamming, size=19, shape=shape)
    many = backend.MinibatchModel(scores, backend.Chain, lambda x, y: np.arange(3) != y[..., None], size=19)
    many.batch_size = 3
    return one, many, X, Y


@given(seed=st.integers(0, 2**32 - 1), wide=st.sampled_from([0, 6]))
def test_minibatches_are_their_examples(backend, space, seed, wide):
    """The same losses, gradients, planes, dual points and outputs, at a point and linearised about one."""
    one, many, X, Y = taggers(backend, np.random.default_rng(seed), wide=wide)
    (w, v), put = np.random.default_rng(seed).normal(size=(2, 19)), space.put
    data = [model.pack(X, Y, like=put(np.zeros(1))) for model in (one, many)]
    w, v = put(w), put(v)
    smoothing = backend.smoothings.Entropy()
    losses = [backend.StructuralHinge(m, d, smoothing=smoothing) for m, d in zip((one, many), data, strict=True)]
    for mine, theirs in (losses, [linearized(each, w, 0.5 * w) for each in losses]):
        for batch in (None, np.array([4]), np.array([2, 0, 2, 3])):
            for a, b in zip(*(f.linearize(v, batch, 0.7) for f in (mine, theirs)), strict=True):
                close(host(a), host(b), space.dtype)
            close(*(f.value(v, batch, 0.0) if f in losses else 0.0 for f in (mine, theirs)), space.dtype)
        for a, b in zip(*(f.corners(v, None, 2) for f in (mine, theirs)), strict=True):
            close(host(a), host(b), space.dtype)
    assert losses[0].width() == losses[1].width()
    for a, b in zip(*(m.predict(d, None, v) for m, d in zip((one, many), data, strict=True)), strict=True):
        assert np.array_equal(host(a), host(b))
    check_model(many, data[1], w, np.random.default_rng(seed), space.dtype)


def test_minibatches_of_lists_take_one_call_a_piece(backend, rng):
    """A module; outputs that an input does not have are forbidden; its scores of three inputs are one call."""
    torch = pytest.importorskip("torch")
    calls = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 1).double()

        def forward(self, inputs):
            calls.append(len(inputs))
            each = [torch.tanh(self.first(torch.as_tensor(x))).squeeze(-1) for x in inputs]
            return torch.nn.utils.rnn.pad_sequence(each, batch_first=True, padding_value=-torch.inf)

    def cost(inputs, y):
        return np.arange(max(map(len, inputs))) != y[:, None]

    X, Y = [rng.normal(size=(m, 2)) for m in (3, 1, 4)], [2, 0, 1]
    net = Net()
    model = backend.MinibatchModel.of_module(net, backend.Table, cost, batch_size=3)
    hinge = backend.StructuralHinge(model, model.pack(X, Y))
    calls.clear()
    w = model.initial(hinge.data)
    value, _ = hinge.value_and_gradient(w)
    assert calls == [3, 3]  # scores, and again for their gradient
    values = [net([x])[0].detach().numpy() for x in X]
    close(value, np.mean([np.max(v + (np.arange(len(v)) != y)) - v[y] for v, y in zip(values, Y, strict=True)]))
    assert [int(y) for y in model.predict(hinge.data, None, w)] == [int(np.argmax(v)) for v in values]


def test_prox_linear_takes_minibatches(backend, rng):
    """By an inner optimiser of batches: the steps of both models are the same, and the objective falls."""
    one, many, X, Y = taggers(backend, rng)

    def inner(problem):
        return backend.lbfgs(problem.objective, problem.start, lam=problem.lam, iterations=20)

    losses = [backend.LogLoss(model, model.pack(X, Y)) for model in (one, many)]
    a, b = (backend.prox_linear(f, lam=0.1, eta=1.0, iterations=4, inner=inner, rng=0) for f in losses)
    close(a.x, b.x)
    assert b.nit > 0 and b.fun < b.history[0].objective


def test_networks_say_what_is_wrong(backend):
    torch, _, model, X, Y = network(backend)
    short = backend.DifferentiableModel(model.score, backend.Table, lambda x, y: [1.0], size=model.size)
    names = {"np": np, "b": backend, "torch": torch, "model": model, "short": short, "X": X, "Y": Y}
    _, names["many"], names["A"], names["B"] = taggers(backend, np.random.default_rng(0))
    names["plain"] = backend.MinibatchModel(lambda w, x: (w, w), backend.Chain, size=2)

    def of(layer):
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), layer, torch.nn.Linear(4, 1), torch.nn.Flatten(0))
        backend.DifferentiableModel.of_module(net.eval(), backend.Table)
        return backend.DifferentiableModel.of_module(net.train(), backend.Table)

    check_refusals("wrong_networks.txt", {**names, "of": of})
    still = torch.nn.Sequential(torch.nn.LSTM(4, 4, 2), torch.nn.MultiheadAttention(4, 2))
    assert still.training and backend.DifferentiableModel.of_module(still, backend.Table).size > 0


def test_frozen_parameters_stay_as_they_are(backend):
    torch, net, _, X, Y = network(backend, "float64")
    net[0].weight.requires_grad_(False)
    before = net[0].weight.clone()
    model = backend.DifferentiableModel.of_module(net, backend.Table, lambda x, y: np.arange(len(x)) != y)
    assert model.size == sum(p.numel() for p in net.parameters()) - before.numel()
    data = model.pack(X, Y)
    w = model.initial(data) + 1.0
    moved = model.scores(data, np.array([0]), w).values
    model.write(w)
    assert torch.equal(net[0].weight, before)
    close(moved, net(X[0]).detach().numpy())
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="module: expected parameters to train"):
        backend.DifferentiableModel.of_module(net, backend.Table)


def test_a_start_is_drawn_for_a_function_and_no_optimiser_begins_at_zero(backend, rng):
    """At w = 0 neither layer has a slope."""
    torch = pytest.importorskip("torch")

    def score(w, x):
        return torch.tanh(x @ w[:6].reshape(2, 3)) @ w[6:]

    model = backend.DifferentiableModel(score, backend.Table, lambda x, y: np.arange(len(x)) != y, size=9)
    data = model.pack([torch.as_tensor(rng.normal(size=(3, 2))) for _ in range(6)], [0, 1, 2, 0, 1, 2])
    starts = [model.initial(data, seed) for seed in (0, 0, 1)]
    assert np.array_equal(starts[0], starts[1]) and not np.array_equal(starts[0], starts[2])
    result = backend.lbfgs(backend.LogLoss(model, data), lam=1e-3, iterations=30)
    assert result.nit > 0 and result.fun < np.log(3)


def test_without_torch_it_says_so(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="DifferentiableModel needs PyTorch"):
        backend.DifferentiableModel(lambda w, x: w, backend.Table, size=1)


@pytest.mark.parametrize("smoothing", [reference.smoothings.Entropy(), reference.smoothings.TopK(2)], ids=repr)
def test_jacobians_written_out_are_the_linearized_objective(backend, rng, smoothing):
    """Values, gradients, dual points and planes of both forms."""
    model, data = two_layer(backend, rng)
    objective = backend.StructuralHinge(model, data, smoothing=smoothing)
    w, c, v = (model.initial(data, seed) for seed in range(3))
    written, implied = linearized(objective, w, c), LinearizedObjective(objective, w, c)
    assert isinstance(written, backend.StructuralHinge) and written.model.size == model.size
    for mu in (0.0, 0.4):
        for batch in (None, np.array([3, 1])):
            for mine, theirs in zip(*(o.value_and_gradient(v, batch, mu) for o in (written, implied)), strict=True):
                close(mine, theirs)
            a, b = written.linearize(v, batch, mu), implied.linearize(v, batch, mu)
            close([a.value, a.task_loss, a.exact], [b.value, b.task_loss, b.exact])
    a, b = written.corners(v, None, 2), implied.corners(v, None, 2)
    close(a.directions, b.directions)
    close(a.losses, b.losses)
    assert isinstance(linearized(backend.LogLoss(model, data), w, c), LinearizedObjective)


@pytest.mark.parametrize("average", ["last", "uniform", "weighted"])
def test_epochs_of_sgd_are_steps(backend, rng, average):
    """A sweep of ours ends where the loop does; ties, and images whose best output is the true one, among them."""
    model, data = two_layer(backend, rng, counts=(3, 1, 4, 3, 3))
    for objective, mu in (
        (backend.StructuralHinge(model, data), None),
        (backend.StructuralHinge(model, data, smoothing=backend.smoothings.TopK(2)), 0.3),
        (backend.LogLoss(model, data), None),
    ):
        box = SGD(0.1, lambda t, lam: np.linspace(0.5, 0.1, 7), mu, average=average)
        order, start = np.array([4, 2, 0, 1, 3, 2, 0]), box.init(objective, model.initial(data, 0))
        a, b = (each.sweep(objective, start, order) for each in (counterpart(box, objective), box))
        close(a.x, b.x)
        close(a.mean, b.mean)
        assert a.t == b.t == 7
