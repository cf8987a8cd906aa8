"""The prox of powers of norms solves its equation to the last digits: roots in fifty digits to compare with."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest


def root(n, half, q):
    """u > 0 with u + half q u^(q - 1) = n, by bisection in fifty digits; the left side increases in u."""
    with localcontext() as context:
        context.prec = 50
        n, c, power = Decimal(float(n)), Decimal(float(half)) * Decimal(float(q)), Decimal(float(q)) - 1
        low, high = (n.ln() - 3000), n.ln()  # of log u
        for _ in range(120):
            middle = (low + high) / 2
            above = middle.exp() + c * (power * middle).exp() > n
            low, high = (low, middle) if above else (middle, high)
        return float(low.exp())


@pytest.mark.parametrize("q", [1.1, 1.2, 1.5, 1.9, 2.0, 2.5, 3.0, 8.0])
def test_the_prox_is_the_root(backend, q):
    """One group at a time, so that no other keeps its iteration going; to within a few eps of the norm and of its
    logarithm."""
    rng = np.random.default_rng(int(10 * q))
    for _ in range(12):
        x, lam, s = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-3, 3), rng.uniform(0.5, 2)
        (u,) = backend.NonSparseMKL(lam, q, [[0]]).prox(np.array([x]), s)
        expected = root(x, 0.5 * lam * s, q)
        np.testing.assert_allclose(u, expected, rtol=2e-15 * (4 + abs(np.log(expected / x))), err_msg=f"{x} {lam} {s}")


@pytest.mark.parametrize("loss", ["crf", "hinge"])
def test_rounds_take_the_prox_as_well(backend, loss):
    """The first round of the online proximal algorithm over one sequence: group by group the root for the gradient's
    norm."""
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(4, 3))], [rng.integers(0, 3, 4)]
    model = backend.SequenceModel(3, 3, cost=rng.uniform(0.5, 1.5, (3, 3)) * (1 - np.eye(3)))
    kind = backend.LogLoss if loss == "crf" else backend.StructuralHinge
    objective = kind(model, model.pack(X, Y))
    g = np.asarray(objective.value_and_gradient(objective.zeros())[1])
    halves = [np.arange(0, model.size, 2), np.arange(1, model.size, 2)]
    for group in halves:  # the other one is left alone
        for _ in range(10):
            q, lam, gamma = rng.uniform(1.2, 4), 10.0 ** rng.uniform(-3, 3), rng.uniform(0.1, 2)
            part = backend.NonSparseMKL(lam, q, [group])
            w = np.asarray(backend.online_proximal(objective, part, step_size=gamma, epochs=1, rng=0).x)
            n = gamma * np.linalg.norm(g[group])
            expected = root(n, 0.5 * lam * gamma, q)
            slack = 1e-14 * (4 + abs(np.log(expected / n)))
            np.testing.assert_allclose(w[group], -gamma * g[group] * (expected / n), rtol=slack, atol=slack * expected)
            rest = np.setdiff1d(np.arange(model.size), group)
            np.testing.assert_allclose(w[rest], -gamma * g[rest], rtol=1e-14, atol=1e-15)
