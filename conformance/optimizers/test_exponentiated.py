"""Exponentiated gradient against its equations with every output listed, against L-BFGS and Frank-Wolfe, over every
kind of structure.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from conformance.listed_svm import labelling, listed
from conformance.specimens.learners import loss_of
from conformance.tolerances import close

TEMPERATURES = {"log loss": 1.0, "entropy": 0.4, "hinge": 0.0}


def run(backend, kind, model, data, **options):
    mu = {"mu": 0.4} if kind == "entropy" else {}
    return backend.exponentiated_gradient(loss_of(backend, kind, model, data), **{"rng": 0, **mu, **options})


class EveryOutput:
    """The dual over probabilities of every output, by its definition. V, loss: of each example's outputs, the truth
    first.
    """

    def __init__(self, V, cost, lam, mu, augmented):
        self.V, self.cost, self.lam, self.mu = V, cost, lam, mu
        self.loss = [c if augmented else 0.0 * c for c in cost]

    def w(self, alpha):
        return -sum(a @ V for a, V in zip(alpha, self.V, strict=True)) / (self.lam * len(self.V))

    def dual(self, alpha):
        w = self.w(alpha)
        entropy = sum(-np.sum(a[a > 0] * np.log(a[a > 0])) for a in alpha)
        task = sum(a @ loss for a, loss in zip(alpha, self.loss, strict=True))
        return (self.mu * entropy + task) / len(alpha) - 0.5 * self.lam * w @ w

    def primal(self, w):
        scores = [loss + V @ w for V, loss in zip(self.V, self.loss, strict=True)]
        losses = [self.mu * logsumexp(s / self.mu) if self.mu else np.max(s) for s in scores]
        return np.mean(losses) + 0.5 * self.lam * w @ w

    def train(self, epochs, seed, eta):
        """(w, dual) after each epoch: probabilities are multiplied, and everything is computed afresh at each visit."""
        n, rng = len(self.V), np.random.default_rng(seed)
        alpha = [np.eye(len(c))[0] for c in self.cost]
        logs, eta, returned = [None] * n, np.full(n, eta), []
        for _ in range(epochs):
            for i in rng.permutation(n):
                first, before, target = logs[i] is None, self.dual(alpha), self.loss[i] + self.V[i] @ self.w(alpha)
                for attempt in range(12 if first else 1):
                    old = -5 * 1.5**attempt * self.cost[i] if first else logs[i]
                    new = (1 - eta[i]) * old + eta[i] * target / self.mu if self.mu else old + eta[i] * target
                    new = new - logsumexp(new)
                    tried = [*alpha[:i], np.exp(new), *alpha[i + 1 :]]
                    if taken := self.dual(tried) >= before - 1e-15:
                        alpha, logs[i] = tried, new
                        break
                eta[i] = (min(1.1 * eta[i], 1.0) if self.mu else 1.1 * eta[i]) if taken else 0.5 * eta[i]
            returned.append((self.w(alpha), self.dual(alpha)))
        return returned


@pytest.mark.parametrize("kind", TEMPERATURES)
@pytest.mark.parametrize("lam", [0.02, 0.5])
def test_it_is_its_equations(backend, rng, kind, lam):
    """Local scores and marginals stand for probabilities of all labellings: the same weights, duals and objectives."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    model = backend.SequenceModel(3, 3)
    problem = listed(X, Y, 3, lam)
    every = EveryOutput(problem.V, problem.loss, lam, TEMPERATURES[kind], kind != "log loss")
    expected = every.train(6, 4, 0.3)
    options = {"lam": lam, "epochs": 6, "tol": 0.0, "rng": 4, "sampling": "permutation", "step_size": 0.3}
    result = run(backend, kind, model, model.pack(X, Y), **options)
    close(result.x, expected[-1][0], scale=10.0)
    for row, (w, dual) in zip(result.history, expected, strict=True):
        close(row.dual, dual)
        close(row.objective, every.primal(w))
        close(row.gap, every.primal(w) - dual)
    assert result.fun == result.history[-1].objective and result.certificate == result.history[-1].gap
    assert result.oracle_calls == result.history[-1].oracle_calls >= 30 and result.iterate == "last"


def test_what_has_no_dual_here_is_named(backend, rng):
    X, Y = labelling(rng, (2, 3))
    model = backend.SequenceModel(3, 3)
    hinge = backend.StructuralHinge(model, model.pack(X, Y), smoothing=backend.smoothings.TopK(3))
    run = backend.exponentiated_gradient
    assert run(hinge, lam=0.1, epochs=1, tol=None).nit == 1  # at mu = 0 it is the hinge
    with pytest.raises(TypeError, match="objective: .* has no model"):
        run(type("Sum", (), {"n": 1, "value_and_gradient": None, "zeros": None})(), lam=0.1)
    cuts = backend.SegmentationModel(1, 1)
    edges = backend.grid_edges(1, 2)
    image = (np.ones((2, 1)), edges, np.ones((len(edges), 1)))
    with pytest.raises((backend.IntractableError, backend.UnsupportedError), match="needs expectation"):
        run(backend.StructuralHinge(cuts, cuts.pack([image], [np.array([0, 1])])), lam=0.1)
