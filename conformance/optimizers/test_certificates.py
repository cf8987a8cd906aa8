"""Certificates bound the distance to an exact optimum, rounding included, in both dtypes; none is negative."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from conformance.optimizers.table import run, takes, unit
from reference.training.result import padded

LOSSES = {  # of optimisers that prove a gap; what they minimise, and options
    "bcfw": ("hinge", {}),
    "multisample": ("hinge", {"k": 2}),
    "cutting_planes": ("hinge", {}),
    "casimir": ("hinge", {}),
    "exponentiated_gradient": ("log loss", {}),
    "svrg": ("log loss", {}),
    "lbfgs": ("log loss", {}),
    "solve_sparse": ("sparse", {}),
}
LAM = 1 / 64


def loss_at(kind, s, a, n):
    """The share of an example in the objective, where a = w_gold = -w_wrong is the weight of its own feature s."""
    if kind == "hinge":
        return max(Fraction(0), 1 - 2 * a * s) / n + Fraction(LAM) * a * a
    norm = 2 * LAM * np.abs(a) if kind == "sparse" else 0
    return np.logaddexp(np.longdouble(0), -2 * a * s) / n + LAM * a * a + norm


def best_weight(kind, s, n):
    if kind == "hinge":
        return min(Fraction(s) / (n * Fraction(LAM)), 1 / (2 * Fraction(s)))
    low, high = np.longdouble(0), np.longdouble(1e3)  # where the derivative changes its sign
    for _ in range(200):
        a = (low + high) / 2
        falls = 2 * LAM * a + (2 * LAM if kind == "sparse" else 0) < 2 * s / n / (1 + np.exp(2 * a * s))
        low, high = (a, high) if falls else (low, a)
    return low


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_gap_bounds_the_distance_to_an_exact_optimum(backend, name, dtype):
    """Examples that share no feature: the optimum is a sum of minima over one number, rational for the hinge."""
    (kind, options), seen = LOSSES[name], []
    for seed, n in ((0, 1), (1, 3), (2, 12)):
        scales = np.random.default_rng(seed).uniform(0.1, 3.0, n).astype(np.float32).astype(np.float64)
        model = backend.MulticlassModel(n, 2)
        data = model.pack(np.diag(scales).astype(dtype), np.zeros(n, int), like=np.zeros(1, dtype))
        smoothing = {"smoothing": backend.smoothings.Entropy()} if name == "casimir" else {}
        F = backend.StructuralHinge(model, data, **smoothing) if kind == "hinge" else backend.LogLoss(model, data)
        exact = Fraction if kind == "hinge" else np.longdouble
        shares = [exact(float(s)) for s in scales]
        optimum = sum(loss_at(kind, s, best_weight(kind, s, n), n) for s in shares)
        options = {**options, unit(name): 200, "lam": LAM, "tol": 0.0, **({"rng": 0} if "rng" in takes(name) else {})}
        if name == "solve_sparse":
            options["beta"] = options.pop("lam")
        result = run(backend, name, F, callback=lambda row, w, seen=seen: seen.append((row, w)), **options)
        assert result.certificate == result.history[-1].gap and result.x.dtype == dtype
        for row, w in seen:
            # both weights of an example: the objective by its definition, at what the callback got
            pairs = np.asarray(w, np.float64).reshape(n, 2)
            halves = [
                ((exact(float(a)) - exact(float(b))) / 2, (exact(float(a)) + exact(float(b))) / 2) for a, b in pairs
            ]
            value = sum(loss_at(kind, s, a, n) for s, (a, _) in zip(shares, halves, strict=True))
            value += sum(exact(LAM) * c * c for _, c in halves)
            if kind == "sparse":
                value += sum(LAM * (abs(a + c) + abs(c - a) - 2 * abs(a)) for a, c in halves)
            assert row.gap >= 0 and float(value - optimum) <= row.gap
            assert exact(row.objective) - optimum <= row.gap and exact(row.objective) - exact(row.gap) <= optimum
        if name not in ("casimir", "multisample"):  # these get there slowly
            assert result.certificate <= 1e3 * np.finfo(dtype).eps * max(1.0, result.fun)
            assert name == "lbfgs" or result.nit < 200
        seen.clear()


def test_padding_is_the_assumed_rounding():
    """4 eps sqrt(n + d) of the values, in the dtype of the weights; what is worse, and what is unknown, is kept."""
    for dtype in (np.float64, np.float32):
        x, eps = np.zeros(5, dtype), float(np.finfo(dtype).eps)
        assert padded(0.0, 1.0, 2.0, x, 4) == 4 * eps * 3 * 4 and padded(-eps, 1.0, 1.0, x, 4) > 0
        assert padded(-1e-2, 1.0, 1.0, x, 4) == 1e-2 and padded(0.0, 0.0, 0.0, x, 4) == 0.0
        assert padded(None, 1.0, 1.0, x, 4) is None and np.isnan(padded(np.nan, np.nan, 1.0, x, 4))
