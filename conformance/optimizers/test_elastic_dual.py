"""The elastic net's dual by exponentiated gradient with a centre: its equations with every output listed, optima of a
conic solver, what units, starts and interruptions may change.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from conformance.listed_svm import labelling, listed
from conformance.optimizers.test_dual_learners import TEMPERATURES, EveryOutput, run
from conformance.tolerances import close
from diptych.elastic_net import elastic_net
from reference.algorithms import Centred, ExponentiatedGradient, counterpart


def soft(x, t):
    return np.sign(x) * np.maximum(np.abs(x) - t, 0.0)


class Elastic(EveryOutput):
    """With l1 ||w||_1 in the objective, and kappa/2 ||w - y||^2 in the problem whose dual is maximised."""

    def __init__(self, problem, mu, augmented, l1, kappa):
        super().__init__(problem, mu, augmented)
        self.weight, self.kappa, self.y = l1, kappa, np.zeros(self.V[0].shape[1])
        self.epochs, self.highest = 0, -np.inf

    def v(self, alpha):
        return -sum(a @ V for a, V in zip(alpha, self.V, strict=True)) / len(self.V)

    def w(self, alpha):
        return soft(self.v(alpha) + self.kappa * self.y, self.weight) / (self.lam + self.kappa)

    def values(self, alpha):
        entropy = sum(-np.sum(a[a > 0] * np.log(a[a > 0])) for a in alpha)
        return (self.mu * entropy + sum(a @ c for a, c in zip(alpha, self.loss, strict=True))) / len(alpha)

    def dual(self, alpha):
        """Of the inner problem, without its constant kappa/2 ||y||^2."""
        w = self.w(alpha)
        return self.values(alpha) - 0.5 * (self.lam + self.kappa) * w @ w

    def bound(self, alpha):
        """Of the problem itself: by the conjugate of the regulariser, and with a share of the weight at the truth."""
        v = self.v(alpha)
        share = min(1.0, self.weight / np.max(np.abs(v)))
        shared = [share * a + (1 - share) * np.eye(len(a))[0] for a in alpha]
        assert self.values(shared) >= share * self.values(alpha) - 1e-12  # concave, and 0 at the truth
        assert np.max(np.abs(self.v(shared))) <= self.weight * (1 + 1e-12)
        conjugate = np.sum(soft(v, self.weight) ** 2) / (2 * self.lam) if self.lam > 0 else np.inf
        return max(share * self.values(alpha), self.values(alpha) - conjugate)

    def primal(self, w):
        return super().primal(w) + self.weight * np.sum(np.abs(w))

    def ended(self, alpha):
        """The weights and the highest bound so far; after every third epoch the centre moves."""
        w, self.epochs = self.w(alpha), self.epochs + 1
        self.highest = max(self.highest, self.bound(alpha))
        self.y = w if self.epochs % 3 == 0 else self.y
        return w, self.highest


@pytest.mark.parametrize("kind", TEMPERATURES)
@pytest.mark.parametrize(("l1", "kappa"), [(0.02, 0.3), (0.2, 0.0), (0.05, None)])
def test_it_is_its_equations(backend, rng, kind, l1, kappa):
    """Rows have the weights of lowest objective so far and the highest dual."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    model = backend.SequenceModel(3, 3)
    data = model.pack(X, Y)
    values = np.concatenate([x.ravel() for x in X])
    count = np.count_nonzero(values) + 2 * sum(
        len(y) > 0 for y in Y
    )  # the first and the last position are features, too
    square = (np.sum(values**2) + 2 * sum(len(y) > 0 for y in Y)) / count
    used = 0.5 * square**0.75 * np.sqrt(l1 / len(X)) if kappa is None else kappa
    every = Elastic(listed(X, Y, 3, 0.1), TEMPERATURES[kind], kind != "log loss", l1, used)
    expected = every.train(7, 4, 0.3)
    options = {"lam": 0.1, "l1": l1, "epochs": 7, "tol": 0.0, "rng": 4, "sampling": "permutation", "step_size": 0.3}
    result = run(backend, kind, model, data, **options, **({} if kappa is None else {"kappa": kappa}))
    best, fun = np.zeros(model.size), every.primal(np.zeros(model.size))
    for row, (w, dual) in zip(result.history, expected, strict=True):
        best, fun = min((best, fun), (w, every.primal(w)), key=lambda pair: pair[1])
        close(row.objective, fun)
        close(row.dual, dual)
    close(result.x, best, scale=10.0)
    assert np.array_equal(np.asarray(result.x) == 0, best == 0) and result.iterate == "of lowest objective"


def by_clarabel(V, l1, lam):
    """The least value of mean_i log sum_y exp(V_i w)_y + l1 ||w||_1 + lam/2 ||w||^2, by exponential cones.

    Variables w (d), its bounds b (d), t (n) and z of each output: exp(V_iy w - t_i) <= z_iy, sum_y z_iy <= 1.
    """
    clarabel = pytest.importorskip("clarabel")
    d, n, sizes = V[0].shape[1], len(V), [len(each) for each in V]
    first, total = np.cumsum([0, *sizes]), sum(sizes)
    identity, none = sparse.identity(d), sparse.coo_matrix
    columns = np.zeros((n, total))
    for i in range(n):
        columns[i, first[i] : first[i + 1]] = 1.0
    inequalities = sparse.bmat(
        [
            [identity, -identity, none((d, n)), none((d, total))],
            [-identity, -identity, none((d, n)), none((d, total))],
            [none((n, d)), none((n, d)), none((n, n)), sparse.coo_matrix(columns)],
        ]
    )
    cones, right = [clarabel.NonnegativeConeT(2 * d + n)], [np.zeros(2 * d), np.ones(n)]
    rows = []
    for i in range(n):
        for y in range(sizes[i]):
            cone = np.zeros((3, 2 * d + n + total))  # (V w - t, 1, z)
            cone[0, :d], cone[0, 2 * d + i], cone[2, 2 * d + n + first[i] + y] = -V[i][y], 1.0, -1.0
            rows.append(cone)
            right.append(np.array([0.0, 1.0, 0.0]))
            cones.append(clarabel.ExponentialConeT())
    A = sparse.csc_matrix(sparse.vstack([inequalities, np.concatenate(rows)]))
    P = sparse.diags(np.concatenate([np.full(d, lam), np.zeros(d + n + total)])).tocsc()
    q = np.concatenate([np.zeros(d), np.full(d, l1), np.full(n, 1.0 / n), np.zeros(total)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(P, q, A, np.concatenate(right), cones, settings).solve()
    assert str(solution.status) == "Solved"
    return solution.obj_val


@pytest.mark.parametrize(("l1", "lam"), [(0.05, 0.1), (0.3, 1e-3), (0.01, 0.5), (0.1, 0.0)])
def test_a_conic_solver_has_the_same_optimum(backend, rng, l1, lam):
    X, Y = labelling(rng, (2, 3, 1, 2))
    model = backend.SequenceModel(3, 3)
    optimum = by_clarabel(listed(X, Y, 3, 1.0).V, l1, lam)
    objective = backend.LogLoss(model, model.pack(X, Y))
    if lam > 0:
        result = backend.exponentiated_gradient(objective, lam=lam, l1=l1, tol=1e-7, epochs=1000, rng=0)
        assert result.success and -1e-7 <= result.fun - optimum <= result.certificate + 1e-7
    result = elastic_net(objective, l1=l1, lam=lam, tol=1e-7)
    assert result.success and -1e-7 <= result.fun - optimum <= result.certificate + 1e-7


@pytest.mark.parametrize("unit", [0.25, 16.0])
def test_the_unit_of_features_changes_nothing(backend, rng, unit):
    """With features and l1 times a power of 4, weights are divided by it, and all else has the same bits. Sequences of
    one position have no transitions, whose features are always 1."""
    X, Y = labelling(rng, (1,) * 6)
    model, runs = backend.SequenceModel(3, 3, start_stop=False), []
    for s in (1.0, unit):
        objective = backend.LogLoss(model, model.pack([s * x for x in X], Y))
        options = {"lam": 0.1 * s * s, "l1": 0.03 * s, "epochs": 9, "tol": 0.0, "rng": 0}
        runs.append(backend.exponentiated_gradient(objective, **options))
    assert [row.objective for row in runs[0].history] == [row.objective for row in runs[1].history]
    assert [row.dual for row in runs[0].history] == [row.dual for row in runs[1].history]
    assert np.array_equal(np.asarray(runs[0].x), unit * np.asarray(runs[1].x)) and np.any(np.asarray(runs[0].x))


def test_a_start_has_the_dual_of_its_weights(backend, rng):
    """Probabilities are those at w0, so that the gap at the start is that of w0; the optimum needs no epoch."""
    X, Y = labelling(rng, (2, 3, 1))
    model = backend.SequenceModel(3, 3)
    objective, w0 = backend.LogLoss(model, model.pack(X, Y)), rng.normal(size=model.size)
    box = Centred(0.1, 0.2, ExponentiatedGradient(0.1, 1.0, 0.3, l1=0.02))
    box = counterpart(box, objective)
    every = Elastic(listed(X, Y, 3, 0.1), 1.0, False, 0.02, 0.2)
    every.y = w0
    alpha = [np.exp(V @ w0) / np.sum(np.exp(V @ w0)) for V in every.V]
    state = box.init(objective, w0)
    close(state.dual.x, (every.v(alpha) + 0.2 * w0) / 0.3)
    close(box.bound(objective, state), every.bound(alpha))
    found = elastic_net(objective, l1=0.02, lam=0.1, tol=1e-10)
    again = elastic_net(objective, found.x, l1=0.02, lam=0.1, tol=1e-4)
    assert again.nit == 0 and again.certificate <= 1e-4 * again.fun and np.array_equal(again.x, found.x)


def test_an_interrupted_run_goes_on_to_the_same_bits(backend, rng, tmp_path):
    X, Y = labelling(rng, (2, 3, 1, 2))
    model = backend.SequenceModel(3, 3)
    objective = backend.LogLoss(model, model.pack(X, Y))
    options = {"lam": 0.05, "l1": 0.03, "tol": 0.0, "rng": 3, "epochs": 8}
    whole = backend.exponentiated_gradient(objective, **options)

    def stop(row, w):
        if row.epoch == 4:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    cut = backend.exponentiated_gradient(objective, **options, callback=stop, checkpoint=file)
    assert cut.interrupted
    again = backend.exponentiated_gradient(objective, **options, resume=file)
    assert np.array_equal(again.x, whole.x) and again.fun == whole.fun and again.certificate == whole.certificate


def test_what_has_no_effect_is_refused(backend, rng):
    X, Y = labelling(rng, (2, 1))
    model = backend.SequenceModel(3, 3)
    objective = backend.LogLoss(model, model.pack(X, Y))
    with pytest.raises(ValueError, match="kappa: expected 0 without l1, got 0.5"):
        backend.exponentiated_gradient(objective, lam=0.1, kappa=0.5)
    with pytest.raises(ValueError, match="l1"):
        backend.exponentiated_gradient(objective, lam=0.1, l1=-1.0)
    most = float(np.max(np.abs(np.asarray(objective.value_and_gradient(objective.zeros())[1]))))
    result = backend.exponentiated_gradient(objective, lam=0.1, l1=1.01 * most, tol=1e-9, rng=0)
    assert result.success and not np.any(np.asarray(result.x)) and result.fun == objective.value(objective.zeros())
