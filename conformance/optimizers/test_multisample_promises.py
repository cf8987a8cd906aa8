"""What Branson et al. promise of online multi-sample updates beyond the training set (Theorem 2.1.2), and a bound that
is attained (Lemma 2.5)."""

from __future__ import annotations

import itertools
from math import sqrt

import numpy as np
import pytest

from conformance.finite_sums import total
from conformance.optimizers.optima import bracket
from conformance.tolerances import close
from reference.bounds import online_regret, subgradient_norm

COST = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 1.0], [0.5, 1.0, 0.0]])
ATOMS, CLASSES = np.array([[1.0, 0.2], [-0.5, 0.8], [0.3, -1.0]]), [0, 1, 2]


def hinge(backend, sample=range(3)):
    """The mean hinge over the atoms of these numbers; over all three, the expectation over a uniform draw."""
    model = backend.MulticlassModel(2, 3, cost=COST)
    return backend.StructuralHinge(model, model.pack(ATOMS[list(sample)], [CLASSES[i] for i in sample]))


def trained(backend, sample, lam, average):
    """The weights after one pass of Algorithm 3 over the atoms of these numbers, each visit with a block of its own."""
    options = {"k": 2, "online": True, "average": average, "epochs": 1, "tol": 0.0, "rng": 0}
    return backend.multisample(hinge(backend, sample), lam=lam, **options).x


def expected_loss(w):
    """E loss(prediction, truth) over a uniform draw of an atom."""
    predicted = np.argmax(ATOMS @ w.reshape(2, 3), axis=1)
    return np.mean(COST[CLASSES, predicted])


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_generalisation_of_the_mean_model(backend, lam):
    """Theorem 2.1.2, over every sample of n draws: E loss <= E f <= min E f + G^2 (log n + 1)/(2 lam n) at the mean of
    w^0, ..., w^(n-1)."""
    objective = hinge(backend)
    best = bracket(objective, lam)[1]
    G = subgradient_norm(lam, np.max(np.linalg.norm(ATOMS, axis=1)), 1.0)
    for n in (1, 2, 4):
        means = [trained(backend, sample, lam, "uniform") for sample in itertools.product(range(3), repeat=n)]
        risk, loss = np.mean([total(objective, w, lam) for w in means]), np.mean([expected_loss(w) for w in means])
        assert loss <= risk <= best + online_regret(lam, G, n) + 1e-12


@pytest.mark.parametrize("lam", [0.02, 0.3])
def test_generalisation_of_long_samples(backend, lam):
    """The same over 400 draws, where the bound is small; the excess falls from 25 draws on as the bound does, by four
    at least."""
    objective, rng = hinge(backend), np.random.default_rng(0)
    best, excess = bracket(objective, lam)[1], []
    G = subgradient_norm(lam, np.max(np.linalg.norm(ATOMS, axis=1)), 1.0)
    for n in (25, 400):
        means = [trained(backend, rng.integers(3, size=n), lam, "uniform") for _ in range(5)]
        excess.append(np.mean([total(objective, w, lam) for w in means]) - best)
        assert excess[-1] <= online_regret(lam, G, n)
    assert excess[1] <= excess[0] / 4


@pytest.mark.parametrize("largest", [1.0, 3.0])
def test_the_norm_of_lemma_2_5_is_attained(backend, largest):
    """Opposite features of norm R, 2 R = sqrt(lam loss): a step from 0 ends on the ball's surface, and the opposite
    label's subgradient has norm G there, to the last digit.

    With losses of 3 that is more than the printed sqrt(lam) + 2 R.
    """
    lam = 0.7
    R = sqrt(lam * largest) / 2
    model = backend.MulticlassModel(1, 2, cost=largest * (1 - np.eye(2)))
    x = R / sqrt(2) * np.array([[2.0]])  # ||phi(x, 1) - phi(x, 0)|| = sqrt(2) ||x|| = 2 R, as opposite features have
    first = backend.StructuralHinge(model, model.pack(x, [0]))
    w = backend.multisample(first, lam=lam, k=1, online=True, epochs=1, tol=0.0, rng=0).x
    close(lam * w @ w, largest)
    second = backend.StructuralHinge(model, model.pack(x, [1]))
    norm = np.linalg.norm(lam * w + second.value_and_gradient(w, [0])[1])
    close(norm, subgradient_norm(lam, R, largest))
    assert (norm > sqrt(lam) + 2 * R + 0.1) == (largest > 1)
