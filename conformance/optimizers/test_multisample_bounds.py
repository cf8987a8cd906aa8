"""Multi-sample dual updates: the dual that is reported is the best so far; Branson's bounds are attained."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from conformance.listed_svm import hinge, labelling, listed
from conformance.optimizers.optima import bracket
from conformance.optimizers.test_multisample import by_hand
from reference.bounds import dual_increase, online_regret, subgradient_norm


@pytest.mark.parametrize(
    ("seed", "k", "lengths", "lam"), [(1, 2, (2, 1, 2), 1.0), (2, 1, (2,), 1.0), (0, 1, (1, 2), 3.0)]
)
def test_the_dual_is_the_best_so_far(backend, tmp_path, seed, k, lengths, lam):
    """Where every visit makes a block of its own D_T/T may fall: what has been proved stays proved, also in a run that
    goes on."""
    X, Y = labelling(np.random.default_rng(seed), lengths, F=2, L=2)
    problem = listed(X, Y, 2, lam)
    duals = np.array([dual for _, _, dual in by_hand(problem, 6, seed, k, True)])
    best = np.maximum.accumulate(duals)
    assert np.max(best - duals) > 1e-4 * best[-1]
    options = {"lam": lam, "k": k, "online": True, "tol": 0.0, "rng": seed}
    objective, file = hinge(backend, X, Y, 2, 2), tmp_path / "run.npz"
    whole = backend.multisample(objective, epochs=6, **options)
    before = int(np.argmax(best > duals))  # interrupted before the first pass that falls
    backend.multisample(objective, epochs=before, checkpoint=file, **options)
    resumed = backend.multisample(objective, epochs=6, resume=file, **options)
    for result in (whole, resumed):
        np.testing.assert_allclose([row.dual for row in result.history], best, rtol=1e-9)
        for row in result.history:
            assert 0 < row.gap - (row.objective - row.dual) < 1e-12 and row.dual <= bracket(objective, lam)[1] + 1e-12
        assert result.certificate == result.history[-1].gap


def opposites(backend, F, loss=1.0):
    """Two outputs with features F[i] and -F[i], the first one true."""
    model = backend.ListModel(
        lambda x: np.stack([x, -x]), backend.Table, lambda x, y: loss * (np.arange(2) != y), size=F.shape[1]
    )
    return backend.StructuralHinge(model, model.pack(list(F), [0] * len(F)))


@pytest.mark.parametrize("lam", [0.01, 4.0])
@pytest.mark.parametrize("loss", [1.0, 3.0])
def test_a_subgradient_of_the_largest_norm(backend, lam, loss):
    """Lemma 2.5: the wrong output's features opposite to the true ones, and w as long as it can be, away from the true
    ones."""
    f = np.array([3.0, -4.0])
    objective = opposites(backend, f[None, :], loss)
    w = -sqrt(loss / lam) * f / 5.0
    _, v = objective.value_and_gradient(w)
    np.testing.assert_allclose(np.linalg.norm(lam * w + v), subgradient_norm(lam, 5.0, loss), rtol=1e-12)


class Watched:
    """An objective, and the weights at which it was asked for outputs."""

    def __init__(self, objective):
        self.objective, self.asked = objective, []

    def corners(self, w, batch=None, k=1):
        self.asked.append(w)
        return self.objective.corners(w, batch, k)

    def __getattr__(self, name):
        return getattr(self.objective, name)


@pytest.mark.parametrize("T", [1, 2, 40])
def test_steps_and_regret_are_what_is_promised(backend, T):
    """Lemma 2.2 and 2.4 with equality, but for 1 + log T in the place of sum_t 1/t: examples so short that each block
    takes its wrong output whole."""
    lam, G, rng = 1.0, 0.01, np.random.default_rng(0)
    V = np.zeros((T, 3))
    for t, i in enumerate(
        np.random.default_rng(5).permutation(T)
    ):  # the order of the run: v_t so that lam w + v_t has norm G
        w = -V.sum(axis=0) / (lam * max(t, 1))
        e = rng.normal(size=3)
        V[i] = G * e / np.linalg.norm(e) - lam * w
    watched = Watched(opposites(backend, -V / 2))
    result = backend.multisample(watched, lam=lam, k=2, update="exact", online=True, epochs=1, tol=None, rng=5)
    assert len(watched.asked) == T
    total, values, least = V.sum(axis=0), [], 0.0
    for t, (i, w) in enumerate(zip(np.random.default_rng(5).permutation(T), watched.asked, strict=True), start=1):
        value, g = watched.value_and_gradient(w, [i])
        values.append(value + 0.5 * lam * w @ w)
        np.testing.assert_allclose(np.linalg.norm(g + lam * w), G, rtol=1e-9)
        least += dual_increase(values[-1], G * G, lam, t)
    np.testing.assert_allclose(result.history[-1].dual, least / T, rtol=1e-9)
    optimum = 1.0 - total @ total / (2 * lam * T * T)  # of F_T/T, every hinge 1 + <w, v_t> > 0
    np.testing.assert_allclose(result.history[-1].dual, optimum, rtol=1e-12)
    share = np.sum(1.0 / np.arange(1, T + 1)) / (1 + log(T))
    assert share > 0.88
    np.testing.assert_allclose(np.mean(values) - optimum, share * online_regret(lam, G, T), rtol=1e-6)
