"""Online multiple kernel learning: rounds are their equations, whichever form holds the weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from conformance.tolerances import close
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.training.counterparts import counterpart


@pytest.fixture
def words(rng):
    """Five short sequences, one of them empty, of three features and three labels."""
    lengths = (2, 4, 1, 3, 0)
    return [rng.normal(size=(n, 3)) for n in lengths], [rng.integers(0, 3, n) for n in lengths]


def model_of(backend, transitions="own"):
    k = backend.kernels
    return backend.KernelSequenceModel([k.Linear(), k.Explicit(), k.Gaussian(1.0)], 3, transitions=transitions)


def box_of(loss, penalty, sigma, radius, average):
    return MKL(penalty, reference.steps.InverseSqrt(0.6), loss, sigma, radius, average)


def states(backend, model, data, box, rounds=12, rng=0):
    """The states of a run from 0 by the backend's own loop, one round at a time."""
    rng, problem = np.random.default_rng(rng), KernelProblem(model, data)
    box, state = counterpart(box, problem), box.init(problem, model.zeros(data))
    for t in range(1, rounds + 1):
        i, gamma = int(rng.integers(data.n)), 0.6 / np.sqrt(t)
        after = box.sweep(problem, state, np.array([i]))
        yield i, gamma, state, after
        state = after


def features(model, data, X):
    """phi_k of all outputs' parts: features whose products are the kernels, by a square root of Gram matrices."""
    found = []
    for group in model.groups:
        if isinstance(group, reference.kernels.Explicit):
            found.append(np.concatenate(X))
        else:
            values, vectors = np.linalg.eigh(group(np.concatenate(X)))
            found.append(vectors * np.sqrt(np.clip(values, 0, None)))
    return found


def theta(model, data, weights, phi):
    """The groups' weights as plain vectors: features times coefficients, and transitions with the group they are in."""
    parts = []
    for group, A, f in zip(model.groups, weights.coefficients, phi, strict=True):
        parts.append((A if isinstance(group, reference.kernels.Explicit) else f.T @ A).ravel())
    tables = weights.transitions.reshape(len(weights.transitions), -1)
    if model.transitions == "own":
        return [*parts, tables[0]]
    return [np.concatenate(pair) for pair in zip(parts, tables, strict=True)] if model.transitions == "each" else parts


def labellings(unary, T):
    """All labellings of three labels, and their scores."""
    outputs = list(itertools.product(range(3), repeat=len(unary)))
    pairs = [sum(T[p, q] for p, q in itertools.pairwise(ys)) for ys in outputs]
    return outputs, np.array([sum(unary[t, y] for t, y in enumerate(ys)) for ys in outputs]) + pairs


@pytest.mark.parametrize(("transitions", "storage"), [("own", "dense"), ("each", "sparse"), ("free", "blocks")])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("penalty", ["squared l1", "ridge", "l1"])
def test_a_round_is_its_equation(backend, words, transitions, storage, loss, penalty):
    """theta - gamma (sigma theta + gradient) of explicit features, the prox of the norms, the ball; and the average."""
    (X, Y), sigma, radius = words, 0.1, 0.8
    model = model_of(backend, transitions)
    data = model.pack(X, Y, storage=storage)
    psi = {"squared l1": backend.SquaredL1(0.2), "ridge": backend.HalfSquaredL2(0.2), "l1": backend.L1(0.05)}[penalty]
    phi, rules, seen = features(model, data, X), box_of(loss, psi, sigma, radius, "uniform"), []
    for i, gamma, before, after in states(backend, model, data, rules):
        a, b = data.offsets[i], data.offsets[i + 1]
        truth = before.weights
        unary = sum(
            f[a:b] @ (A if isinstance(g, reference.kernels.Explicit) else f.T @ A)
            for g, f, A in zip(model.groups, phi, truth.coefficients, strict=True)
        )
        outputs, score = labellings(unary, truth.transitions.sum(axis=0))
        if loss == "hinge":
            best = np.argmax(score + [sum(np.array(ys) != Y[i]) for ys in outputs])
            shares = np.eye(len(outputs))[best]
        else:
            shares = np.exp(score - np.logaddexp.reduce(score))
        D, D_T = np.zeros((b - a, 3)), np.zeros((3, 3))
        for share, ys in [*zip(shares, outputs, strict=True), (-1.0, tuple(Y[i]))]:
            for t, y in enumerate(ys):
                D[t, y] += share
            for p, q in itertools.pairwise(ys):
                D_T[p, q] += share
        gradients = [f[a:b].T @ D for f in phi]
        if transitions == "own":
            gradients.append(D_T)
        elif transitions == "each":
            gradients = [np.concatenate([g.ravel(), D_T.ravel()]) for g in gradients]
        starts = zip(theta(model, data, truth, phi), gradients, strict=True)
        moved = [(1 - gamma * sigma) * w - gamma * g.ravel() for w, g in starts]
        norms = np.array([np.linalg.norm(w) for w in moved])
        shrunk = np.asarray(psi.prox(norms, gamma))
        expected = [w * (s / n if n > 0 else 0.0) for w, s, n in zip(moved, shrunk, norms, strict=True)]
        whole = np.sqrt(np.sum(shrunk**2))
        expected = [w * min(1.0, radius / whole if whole > 0 else 1.0) for w in expected]
        for got, want in zip(theta(model, data, after.weights, phi), expected, strict=True):
            close(got, want)
        close(after.weights.squared_norms, [w @ w for w in expected])
        close(after.weights.squared_norms, model.squared_norms(data, after.weights))
        if transitions == "free":
            close(after.weights.transitions[0], truth.transitions[0] - gamma * D_T)
        seen.append(truth)
        for k, mean in enumerate(after.mean.coefficients):
            close(mean, np.mean([w.coefficients[k] for w in seen], axis=0))
        close(after.mean.transitions, np.mean([w.transitions for w in seen], axis=0))


def test_groups_fall_to_zero_and_come_back(backend, words):
    """A strong penalty takes groups to exactly 0, coefficients and all; rounds after it go on from there."""
    X, Y = words
    model = model_of(backend)
    data, zeros = model.pack(X, Y), 0
    for _, _, _, after in states(
        backend, model, data, box_of("hinge", backend.SquaredL1(3.0), 0.0, None, "uniform"), rounds=40
    ):
        for norm, A in zip(after.weights.squared_norms[:3], after.weights.coefficients, strict=True):
            zeros += norm == 0
            assert (norm == 0) == (not np.any(A))
        close(after.weights.squared_norms, model.squared_norms(data, after.weights))
    assert zeros > 0


@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("lam", [0.2, 2.0, 10.0])
def test_averages_keep_their_digits_while_groups_shrink(backend, other, words, loss, lam):
    """A ridge multiplies all groups by 1/(1 + gamma lam) in each of 100 rounds: to 1e-60 if none adds to them."""
    (X, Y), runs = words, []
    for panel in (backend, other):
        model = panel.KernelSequenceModel([panel.kernels.Gaussian(2.0), panel.kernels.Explicit()], 3)
        how = {"penalty": panel.HalfSquaredL2(lam), "step_size": 0.3, "epochs": 20, "rng": 1}
        runs.append(panel.mkl(model, model.pack(X, Y), loss=loss, average="uniform", **how))
    for got, want in zip(runs[0].x.coefficients, runs[1].x.coefficients, strict=True):
        close(got, want, scale=float(np.abs(want).max()))
    close(runs[0].x.transitions, runs[1].x.transitions)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("of_ones", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_explicit_and_implicit_groups_are_one(backend, words, loss, of_ones, unit):
    """The linear kernel and its features, rows of zeros among them: the same norms, shares and labellings.

    of_ones: features that are 0 or 1. unit: of length 1.
    """
    (X, Y), runs = words, []
    X, Y = [*((x > 0).astype(float) if of_ones else x for x in X), np.zeros((2, 3))], [*Y, np.array([0, 1])]
    for group in (backend.kernels.Linear(unit), backend.kernels.Explicit(unit)):
        model = backend.KernelSequenceModel([group, backend.kernels.Gaussian(1.0)], 3)
        data = model.pack(X, Y)
        run = backend.mkl(model, data, lam=0.05, step_size=backend.steps.InverseSqrt(0.37), loss=loss, epochs=5, rng=0)
        runs.append((run, model.predict(run.x, X), data))
    (implicit, guess, _), (explicit, same, data) = runs
    close(implicit.norms, explicit.norms)
    close(implicit.fun, explicit.fun)
    assert all(np.array_equal(a, b) for a, b in zip(guess, same, strict=True))
    if not unit:
        close(data.X.T @ implicit.x.coefficients[0], explicit.x.coefficients[0])


@pytest.mark.parametrize("transitions", ["own", "each"])
def test_prediction_in_blocks_is_one_by_one(backend, rng, transitions):
    """700 positions, more than one block, as each sequence alone, and by enumeration of its labellings."""
    X = [rng.normal(size=(n, 3)) for n in (2, 0, 5, 3)]
    model = model_of(backend, transitions)
    data = model.pack(X, [rng.integers(0, 3, len(x)) for x in X])
    weights = backend.mkl(model, data, lam=0.02, step_size=0.3, epochs=4, rng=0).x
    some = model.support(weights)
    assert some.rows.shape[0] <= data.X.shape[0] and np.all(
        np.any(np.hstack([some.coefficients[0], some.coefficients[2]]), axis=1)
    )
    many = [rng.normal(size=(n, 3)) for n in rng.integers(0, 5, 350)]
    found = model.predict(weights, many)
    assert len(found) == 350 and model.predict(weights, []) == []
    T = np.sum(weights.transitions, axis=0)
    for x, y in zip(many, found, strict=True):
        assert np.array_equal(model.predict(weights, [x])[0], y) and np.array_equal(model.predict(some, [x])[0], y)
        unary = sum(
            x @ A if isinstance(g, reference.kernels.Explicit) else g(x, data.X) @ A if len(x) else np.zeros((0, 3))
            for g, A in zip(model.groups, weights.coefficients, strict=True)
        )
        outputs, scores = labellings(unary, T)
        close(scores[outputs.index(tuple(y.tolist()))], max(scores))
