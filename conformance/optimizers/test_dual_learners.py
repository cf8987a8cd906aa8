"""Exponentiated gradient against its equations with every output listed; one-slack cutting planes against theirs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from conformance.listed_svm import Listed, hinge, labelling, listed
from conformance.specimens.learners import loss_of
from conformance.tolerances import close
from reference.optimizers.cutting_planes import CuttingPlanes

TEMPERATURES = {"log loss": 1.0, "entropy": 0.4, "hinge": 0.0}


def run(backend, kind, model, data, **options):
    mu = {"mu": 0.4} if kind == "entropy" else {}
    return backend.exponentiated_gradient(loss_of(backend, kind, model, data), **{"rng": 0, **mu, **options})


class EveryOutput(Listed):
    """The dual over probabilities of every output, by its definition, smoothed by mu times their entropy."""

    def __init__(self, problem, mu, augmented):
        super().__init__(problem.lam)
        self.V, self.cost, self.mu = problem.V, problem.loss, mu
        self.loss = [c if augmented else 0.0 * c for c in self.cost]

    def dual(self, alpha):
        entropy = sum(-np.sum(a[a > 0] * np.log(a[a > 0])) for a in alpha)
        return super().dual(alpha) + self.mu * entropy / len(alpha)

    def primal(self, w):
        if not self.mu:
            return super().primal(w)
        scores = (loss + V @ w for V, loss in zip(self.V, self.loss, strict=True))
        return np.mean([self.mu * logsumexp(s / self.mu) for s in scores]) + 0.5 * self.lam * w @ w

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
            returned.append(self.ended(alpha))
        return returned

    def ended(self, alpha):
        """The weights and the dual after an epoch."""
        return self.w(alpha), self.dual(alpha)


@pytest.mark.parametrize("kind", TEMPERATURES)
@pytest.mark.parametrize("lam", [0.02, 0.5])
def test_it_is_its_equations(backend, rng, kind, lam):
    """Local scores and marginals stand for probabilities of all labellings: the same weights, duals and objectives."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    model = backend.SequenceModel(3, 3)
    every = EveryOutput(listed(X, Y, 3, lam), TEMPERATURES[kind], kind != "log loss")
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
    model = type("Own", (backend.SequenceModel,), {})(3, 3)  # without a loop of kernels
    hinge = loss_of(backend, "top-k", model, model.pack(*labelling(rng, (2, 3))))
    assert backend.exponentiated_gradient(hinge, lam=0.1, epochs=1, tol=None).nit == 1  # at mu = 0 it is the hinge
    cuts, edges = backend.SegmentationModel(1, 1), backend.grid_edges(1, 2)
    image = (np.ones((2, 1)), edges, np.ones((len(edges), 1)))
    with pytest.raises((backend.IntractableError, backend.UnsupportedError), match="needs expectation"):
        run(backend, "hinge", cuts, cuts.pack([image], [np.array([0, 1])]), lam=0.1)


@pytest.mark.parametrize("lam", [0.02, 1.0])
def test_epochs_are_their_equations(backend, rng, lam):
    """A plane touches the hinge where it is taken, and lies below it elsewhere; w is the maximum of the planes' dual to
    a share of the gap. Rows of a run have the best weights and the dual."""
    X, Y = labelling(rng, (2, 3, 1))
    problem, objective = listed(X, Y, 3, lam), hinge(backend, X, Y)
    result = backend.cutting_planes(objective, lam=lam, epochs=12, tol=0.0)
    box, best = CuttingPlanes(lam, 12), np.inf
    state = box.init(objective)
    for row in result.history:
        best, before = min(best, problem.primal(state.x)), state.x
        state = box.epoch(objective, state)
        close(state.b[-1] + state.planes[-1] @ before, objective.value_and_gradient(before)[0])
        for w in rng.normal(size=(3, len(before))):
            assert np.all(state.b + state.planes @ w <= objective.value_and_gradient(w)[0] + 1e-12)
        assert np.all(state.alpha >= 0) and abs(state.alpha.sum() - 1) <= 1e-12
        close(state.x, -state.alpha @ state.planes / lam)
        slopes = state.b + state.planes @ state.x
        assert slopes.max() - state.alpha @ slopes <= 1e-3 * (row.gap + 1e-6)
        assert abs(row.dual - (state.b @ state.alpha - 0.5 * lam * state.x @ state.x)) <= 1e-3 * (row.gap + 1e-6)
        close(row.gap, row.objective - row.dual)
        if row.epoch <= 2:  # then w and planes part by what the small problem leaves open
            close(row.objective, best)
    assert result.certificate == result.history[-1].gap and result.iterate == "best"
    assert [row.oracle_calls for row in result.history] == [3 * k for k in range(1, 13)]
    close(result.fun, problem.primal(result.x))


def test_planes_of_weight_zero_make_room(backend, rng):
    X, Y = labelling(rng, (2, 3, 1))
    objective = hinge(backend, X, Y)
    narrow, wide = CuttingPlanes(0.5, 4), CuttingPlanes(0.5, 100)
    few, many = narrow.init(objective), wide.init(objective)
    for _ in range(20):
        few = narrow.epoch(objective, few)
        many = wide.epoch(objective, many)
    assert len(many.b) == 21 and len(few.b) <= max(4, np.sum(few.alpha > 0) + 1) + 1 < 21
    close(few.dual, many.dual, scale=1e3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_ends_when_planes_change_the_dual_no_more(backend, seed):
    """Features of very different scales: rounding keeps the dual from its maximum. The bounds hold all the same."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 3)) * np.array([1e-4, 1, 1e4]) for _ in range(5)]
    model = backend.SequenceModel(3, 3)
    objective = backend.StructuralHinge(model, model.pack(X, [rng.integers(3, size=3) for _ in X]))
    result = backend.cutting_planes(objective, lam=1e-4, tol=1e-10)
    duals = [row.dual for row in result.history]
    assert not result.success and "the last 10 have not changed the dual" in result.message
    assert duals[-11:] == [duals[-1]] * 11 and duals[-12] < duals[-1] <= result.fun and len(duals) < 200
    assert backend.cutting_planes(objective, lam=1e-4, tol=None, epochs=20).nit == 20
