"""Runs of online multiple kernel learning, and Martins et al., section 3.4 and Proposition 8."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from conformance.mkl.test_online_mkl import box_of, labellings, model_of, states, theta, words  # noqa: F401 (a fixture)
from conformance.mkl.test_online_mkl import features as explicit
from conformance.specimens.models import chain_features
from conformance.tolerances import close
from reference import bounds, kernels
from reference.identities import martins
from reference.models.kernel_sequence import KernelWeights
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.training.counterparts import counterpart


def test_the_mean_loss_is_that_of_each_sequence(backend, words):
    """Enumeration of all labellings, for both losses, with a cost that is not 0 or 1."""
    X, Y = words
    model = backend.KernelSequenceModel([backend.kernels.Gaussian(1.0)], 3, cost=[[0, 2, 1], [1, 0, 0.5], [3, 1, 0]])
    data = model.pack(X, Y)
    weights = backend.mkl(model, data, lam=0.02, step_size=0.3, epochs=2, rng=0).x
    unary, T = backend.kernels.Gaussian(1.0)(np.concatenate(X)) @ weights.coefficients[0], weights.transitions[0]
    for loss in ("hinge", "crf"):
        losses = []
        for y, a, b in zip(Y, data.offsets[:-1], data.offsets[1:], strict=True):
            outputs, scores = labellings(unary[a:b], T)
            cost = [sum(model.cost[t, p] for t, p in zip(y, ys, strict=True)) for ys in outputs]
            best = np.max(scores + cost) if loss == "hinge" else np.logaddexp.reduce(scores)
            losses.append(best - scores[outputs.index(tuple(y))])
        close(model.mean_loss(data, weights, loss), np.mean(losses))


def test_the_objective_is_the_sum_of_its_terms(backend, words):
    """Mean loss, penalty of the norms, sigma/2 of their squares: of vectors whose products are the kernels."""
    (X, Y), model, psi = words, model_of(backend), reference.SquaredL1(0.3)
    data = model.pack(X, Y)
    run = backend.mkl(model, data, penalty=psi, sigma=0.7, step_size=0.3, loss="hinge", epochs=2, rng=0)
    norms = np.array([np.linalg.norm(w) for w in theta(model, data, run.x, explicit(model, data, X))])
    close(run.fun, model.mean_loss(data, run.x, "hinge") + psi.value(norms) + 0.35 * norms @ norms)


def test_single_precision_follows_double(backend, words):
    """Gram matrices in float32: norms and the objective of a run without near ties within 1e-4, relative."""
    (X, Y), runs, k = words, [], backend.kernels
    model = backend.KernelSequenceModel([k.Linear(True), k.Polynomial(2), k.Gaussian(1.0)], 3)
    for dtype in (np.float32, np.float64):
        data, steps = model.pack(X, Y, like=np.zeros(0, dtype)), backend.steps.InverseSqrt(0.37)
        runs.append(backend.mkl(model, data, lam=0.05, step_size=steps, loss="crf", epochs=6, rng=0))
    assert runs[0].x.transitions.dtype == np.float32 and runs[0].x.coefficients[1].dtype == np.float32
    np.testing.assert_allclose(runs[0].norms, runs[1].norms, rtol=1e-4)
    np.testing.assert_allclose(runs[0].fun, runs[1].fun, rtol=1e-4)


def test_a_run_of_other_kernels_does_not_go_on(backend, words, tmp_path):
    (X, Y), path, options = words, tmp_path / "c.npz", {"lam": 0.1, "step_size": 0.4, "rng": 3}
    model, k = model_of(backend), backend.kernels
    backend.mkl(model, model.pack(X, Y), epochs=3, checkpoint=path, **options)
    other = backend.KernelSequenceModel([k.Linear(), k.Explicit(), k.Gaussian(2.0)], 3)
    with pytest.raises(ValueError, match=r"resume: .* groups = Linear"):
        backend.mkl(other, other.pack(X, Y), epochs=7, resume=path, **options)


def test_beta_minimises_the_variational_form(backend, rng):
    """(5)-(7): (sum_k n_k)^2 = min over the simplex of sum_k n_k^2 / beta_k, met at beta = n / sum n."""
    for _ in range(20):
        norms = np.abs(rng.normal(size=4)) + 0.01
        weights = KernelWeights((), np.zeros((1, 2, 2)), norms**2, np.zeros((0, 1)))
        close(np.sum(norms**2 / weights.beta), norms.sum() ** 2)
        for other in rng.dirichlet(np.ones(4), size=50):
            assert np.sum(norms**2 / np.maximum(other, 1e-300)) >= norms.sum() ** 2 * (1 - 1e-12)
    assert KernelWeights((), np.zeros((1, 2, 2)), np.zeros(3), np.zeros((0, 1))).beta.tolist() == [0, 0, 0]


def test_which_penalties_have_a_kernel(words):
    """Those of either panel, but no subclass, and no model of yours: their loop hears what they override."""
    X, Y = words
    mine, my_model = (type("Mine", (kind,), {}) for kind in (accelerated.SquaredL1, accelerated.KernelSequenceModel))
    groups = [accelerated.kernels.Gaussian(1.0)]
    for kind in (accelerated.KernelSequenceModel, my_model):
        model = kind(groups, 3)
        problem = KernelProblem(model, model.pack(X, Y))
        for panel in (accelerated, reference):
            for penalty, fused in (
                *((make(0.1), kind is not my_model) for make in (panel.SquaredL1, panel.L1, panel.HalfSquaredL2)),
                (mine(0.1), False),
                (panel.ElasticNet(panel.L1(0.1), 0.1), False),
            ):
                box = counterpart(box_of("hinge", penalty, 0.0, None, "last"), problem)
                assert (type(box) is not MKL) == fused
    model = accelerated.KernelSequenceModel(groups, 3)
    runs = [
        accelerated.mkl(model, model.pack(X, Y), penalty=penalty, step_size=0.4, epochs=3, rng=0)
        for penalty in (accelerated.SquaredL1(0.1), mine(0.1))
    ]
    close(runs[0].norms, runs[1].norms)


def test_it_learns_which_kernel_matters(backend, rng):
    """Labels by the distance from 0, which no linear function has: the Gaussian's share grows, new words are read."""
    X = [rng.normal(size=(4, 2)) * 1.5 for _ in range(60)]
    Y = [(np.linalg.norm(x, axis=1) > 1.5).astype(int) for x in X]
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Gaussian(0.5)], 2)
    data = model.pack(X[:40], Y[:40])
    run = backend.mkl(model, data, lam=0.01, step_size=backend.steps.InverseSqrt(1.0), epochs=8, rng=0)
    assert run.beta[1] > 0.6 and abs(run.beta.sum() - 1) < 1e-12
    guess = np.concatenate(model.predict(run.x, X[40:]))
    assert np.mean(guess == np.concatenate(Y[40:])) > 0.8
    assert run.history[-1].objective < run.history[0].objective


seeds = given(seed=st.integers(0, 2**32 - 1))


@seeds
def test_norms_after_a_gradient_step(seed):
    """(17), corrected, for three groups of explicit features; printed lines are off by twice a step times a score."""
    rng = np.random.default_rng(seed)
    theta, u, v = rng.normal(size=(3, 3, 4))
    gamma = 10 ** rng.uniform(-2, 1)
    before, after = np.sum(theta**2, axis=1), np.sum((theta - gamma * (v - u)) ** 2, axis=1)
    right, wrong = np.sum(theta * u, axis=1), np.sum(theta * v, axis=1)
    kernels = tuple(np.sum(a * b, axis=1) for a, b in ((u, u), (v, v), (u, v)))
    close(martins.equation_17(before, after, right, wrong, kernels, gamma), np.zeros(3), scale=1 + after.max())
    first = martins.equation_17(before, after, 0.0, right, kernels, gamma)
    second = martins.equation_17(before, after, 0.0, wrong, kernels, gamma)
    close(first, 2 * gamma * (2 * right - wrong), scale=1 + after.max())
    close(second, 2 * gamma * right, scale=1 + after.max())


@pytest.mark.parametrize("radius", [None, 0.6])
def test_coefficients_of_a_run_are_the_expansion(backend, words, radius):
    """Steps, moves and factors of a run of Algorithm 3 give its last coefficients, and the groups' norms."""
    X, Y = words
    model = model_of(backend)
    data, box = model.pack(X, Y), box_of("hinge", backend.SquaredL1(0.3), 0.0, radius, "last")
    phi, steps, factors, moves = explicit(model, data, X), [], [], []
    for i, gamma, before, after in states(backend, model, data, box):
        each = model.group_scores(data, i, before.weights)
        D = np.zeros((len(data.X), 3))
        D[data.offsets[i] : data.offsets[i + 1]] = model.difference(data, i, each, before.weights, "hinge")[0].unary
        starts, ends = (theta(model, data, state.weights, phi)[:3] for state in (before, after))
        moved = [w - gamma * (f.T @ D).ravel() for w, f in zip(starts, phi, strict=True)]
        lengths = np.array([[np.linalg.norm(w) for w in each] for each in (ends, moved)])
        factors.append(lengths[0] / np.where(lengths[1] > 0, lengths[1], 1.0))
        steps.append(gamma)
        moves.append(D)
    for k, (A, f) in enumerate(zip(after.weights.coefficients, phi, strict=True)):
        alpha = martins.kernel_expansion(np.array(steps), np.array(factors)[:, k])
        expansion = -np.einsum("s,snl->nl", alpha, np.array(moves))
        close(A, f.T @ expansion if isinstance(model.groups[k], kernels.Explicit) else expansion)
        close(after.weights.squared_norms[k], np.sum(ends[k] ** 2))
    assert np.any(after.weights.coefficients[2] != 0)


@pytest.mark.parametrize("loss", ["StructuralHinge", "LogLoss"])
@seeds
def test_subgradients_are_no_longer_than_stated(backend, loss, seed):
    """Proposition 8.2 and 8.4, at random weights of every size and on the ball's surface."""
    rng = np.random.default_rng(seed)
    X, Y = [rng.normal(size=(n, 2)) for n in (1, 3)], [rng.integers(0, 2, n) for n in (1, 3)]
    model = backend.SequenceModel(2, 2, start_stop=False)
    objective = getattr(backend, loss)(model, model.pack(X, Y))
    outputs = [(x, y) for x in X for y in itertools.product(range(2), repeat=len(x))]
    largest = max(np.linalg.norm(chain_features(x, y, 2, False)) for x, y in outputs)
    sigma, radius = 0.7, 10 ** rng.uniform(-1, 2)
    w = rng.normal(size=model.size)
    w *= radius / np.linalg.norm(w)
    for i in range(2):
        g = objective.value_and_gradient(w, [i])[1]
        assert np.linalg.norm(g) <= bounds.gradient_norm(largest) * (1 + 1e-12)
        assert np.linalg.norm(g + sigma * w) <= bounds.gradient_norm(largest, sigma, radius) * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["StructuralHinge", "LogLoss"])
def test_the_longest_subgradient_is_attained(backend, loss):
    """Opposite features of one position, w far towards the wrong label: G = 2 max ||phi||, plus sigma radius."""
    model = backend.ListModel(lambda x: np.array([[x], [-x]]), backend.Table, lambda x, y: 1.0 - np.eye(2)[y], size=1)
    objective = getattr(backend, loss)(model, model.pack([1.5], [1]))
    w, sigma = np.array([40.0]), 0.5
    g = objective.value_and_gradient(w, [0])[1]
    close(np.abs(g), bounds.gradient_norm(1.5))
    close(np.abs(g + sigma * w), bounds.gradient_norm(1.5, sigma, 40.0))


@pytest.mark.parametrize("lam", [0.1, 2.0])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_the_radius_of_the_optimum_is_attained(lam, sigma):
    """Proposition 8.1 and 8.3, sharpened: max(0, c - a w) with a^2 = c (lam + sigma) ends at sqrt(c/(lam + sigma))."""
    c, radii = 3.0, []
    for a in np.sqrt(c * (lam + sigma)) * np.array([0.5, 0.9, 1.0, 1.1, 2.0]):
        w = min(a / (lam + sigma), c / a)  # the hinge is left behind, or its corner
        nearby = w + np.linspace(-0.1, 0.1, 201)
        total = np.maximum(0, c - a * nearby) + 0.5 * (lam + sigma) * nearby**2
        assert total[100] <= total.min() + 1e-12
        radii.append(w)
    close(max(radii), bounds.optimum_radius(c, lam, sigma))
    assert radii[2] == max(radii)
