"""The online proximal algorithm: its step is its equation, its runs keep the paper's bounds and end at generic
solvers' optima.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.finite_sums import Logistic, random_logistic
from conformance.optimizers.optima import lasso
from conformance.specimens.learners import WITH_EMPTY, chains, loss_of
from conformance.tolerances import close
from reference import bounds
from reference.identities import martins
from reference.optimizers.online_proximal import OnlineProximal
from reference.training import stochastic as module
from reference.training.counterparts import counterpart


@pytest.fixture(params=["log loss", "hinge"])
def objective(backend, request):
    """Five short sequences, one of them empty."""
    return loss_of(backend, request.param, *chains(backend, lengths=WITH_EMPTY))


def rounds_of(objective, proxes, steps, sigma=0.0, rng=0):
    """Of a run from 0, for each round: the example, w_t, w_{t+1}, a subgradient of L_t and its value at w_t
    (with sigma's part).
    """
    box, rng = OnlineProximal(proxes, lambda t, sigma: steps[t - 1], sigma), np.random.default_rng(rng)
    state = box.init(objective, objective.zeros())
    for _ in steps:
        i, w = rng.integers(objective.n, size=1), state.x
        value, g = objective.value_and_gradient(w, i, None)
        state = box.sweep(objective, state, i)
        yield i, w, state.x, g + sigma * w, value + 0.5 * sigma * w @ w


def parts_of(backend):
    """The paper's regularizers over the 24 weights of ``objective``, all of them shrinkages."""
    groups, crossing = [np.arange(12), np.arange(12, 24)], [np.arange(14), np.arange(10, 24)]
    return {
        "lasso": backend.L1(0.02),
        "ridge": backend.HalfSquaredL2(0.1),
        "elastic net": backend.ElasticNet(backend.L1(0.02), 0.1),
        "group lasso": backend.L21(0.05, groups),
        "squared mixed norm": backend.SquaredL21(0.1, groups),
        "projected": backend.L21Ball(0.7, groups),
        "sparse group lasso": backend.SparseGroupLasso(0.02, groups, 0.05),
        "hierarchical": backend.TreeGroupLasso([[0, 1], np.arange(12), np.arange(24)], weights=[0.1, 0.05, 0.02]),
        "overlapping": [backend.L21(0.05, [crossing[0]]), backend.L21(0.05, [crossing[1]])],
        "elastic net of kernels": backend.ElasticNetMKL(0.05, 0.1, groups),
        "non-sparse kernels": backend.NonSparseMKL(0.1, 1.5, groups),
        "non-sparse kernels, q > 2": backend.NonSparseMKL(0.1, 3.0, groups),
    }


KINDS = tuple(parts_of(reference))


@pytest.mark.parametrize("average", ["last", "uniform"])
def test_an_epoch_is_its_equation(backend, objective, average):
    """w' minimises gamma R(u) + ||u - (w - gamma (g + sigma w))||^2/2 within the ball, and the mean is that of w_1
    ... w_T.
    """
    groups = [np.arange(12), np.arange(12, 24)]
    phi, ball, sigma, gamma = backend.SquaredL21(0.3, groups), backend.L2Ball(0.4), 0.2, 0.5
    w, models = np.random.default_rng(1).normal(size=24), []
    order = np.array([3, 1, 1, 0, 2, 4])
    box = OnlineProximal(backend.Sequential([phi, ball]), backend.steps.Constant(gamma), sigma, None, 2, average)
    state = counterpart(box, objective).sweep(objective, box.init(objective, w), order)
    for batch in (order[:2], order[2:4], order[4:]):
        models.append(w)
        z = w - gamma * (objective.value_and_gradient(w, batch, None)[1] + sigma * w)
        w = phi.prox(z, gamma)
        for u in w + 0.05 * np.random.default_rng(2).normal(size=(50, 24)):
            assert gamma * phi.value(w) + 0.5 * np.sum((w - z) ** 2) <= gamma * phi.value(u) + 0.5 * np.sum(
                (u - z) ** 2
            )
        w = w * min(1.0, 0.4 / np.linalg.norm(w))
    close(state.x, w)
    close(state.mean, w if average == "last" else np.mean(models, axis=0))
    assert state.t == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_each_round_keeps_its_bound(backend, objective, kind, sigma):
    """Lemma 4, for comparators at random in the ball: L_t(w_t) + R(w_{t+1}) <= its bound."""
    regularizer, ball = module.as_regularizer(parts_of(backend)[kind]), backend.L2Ball(2.0)
    proxes, rng = backend.Sequential([regularizer, ball]), np.random.default_rng(3)
    steps = 0.5 / np.sqrt(np.arange(1, 16))
    for (i, w, after, g, value), gamma in zip(rounds_of(objective, proxes, steps, sigma), steps, strict=True):
        for u in (np.zeros(24), w, 0.9 * ball.prox(regularizer.prox(rng.normal(size=24)))):
            there = objective.value_and_gradient(u, i, None)[0] + 0.5 * sigma * u @ u + regularizer.value(u)
            bound = bounds.round_bound(there, g @ g, gamma, np.sum((u - w) ** 2), np.sum((u - after) ** 2), sigma)
            assert value + regularizer.value(after) <= bound + 1e-9 * (1 + abs(bound))


def test_a_part_that_a_later_prox_increases_breaks_the_bound(backend):
    """Condition (ii) of Lemma 4: R_1 = a |x|, R_2 = b/2 (x - 1)^2, whose prox moves away from 0."""

    class Away(type(backend.HalfSquaredL2(1.0))):
        def _value(self, point):
            return 0.5 * self.lam * (point.x[..., 0] - 1.0) ** 2

        def _prox(self, point, step_size):
            return (point.x + step_size * self.lam) / (1.0 + step_size * self.lam)

    first, second = backend.L1(10.0), Away(10.0)
    after = second.prox(first.prox(np.zeros(1), 1.0), 1.0)
    total = lambda x: float(first.value(x) + second.value(x))  # noqa: E731
    broken = [
        total(after) > bounds.round_bound(total(u), 0.0, 1.0, float(u @ u), float((u - after) @ (u - after)))
        for u in np.linspace(0, 1, 21)[:, None]
    ]
    assert any(broken)


@pytest.mark.parametrize("regime", ["constant", "decaying", "strongly convex"])
def test_regret_is_bounded(backend, objective, regime):
    """Proposition 5 after each number of rounds, against the best model of these rounds and others."""
    tau, sigma, radius = 0.05, 0.4 if regime == "strongly convex" else 0.0, 1.5
    phi, ball, T = backend.L1(tau), backend.L2Ball(radius), 60
    t = np.arange(1, T + 1)
    steps = {"constant": np.full(T, 0.2), "decaying": 0.4 / np.sqrt(t), "strongly convex": 1 / (sigma or 1) / t}[regime]
    rounds = list(rounds_of(objective, backend.Sequential([phi, ball]), steps, sigma))
    G = max(np.linalg.norm(g) for _, _, _, g, _ in rounds)
    w, rng = objective.zeros(), np.random.default_rng(5)
    comparators = [w, rounds[-1][1], *(ball.prox(0.3 * rng.normal(size=(5, 24))))]
    paid, theirs = 0.0, np.zeros(len(comparators))
    for at, (i, w, _, _, value) in enumerate(rounds, start=1):
        paid += value + phi.value(w)
        theirs += [
            objective.value_and_gradient(u, i, None)[0] + 0.5 * sigma * u @ u + phi.value(u) for u in comparators
        ]
        for u, total in zip(comparators, theirs, strict=True):
            bound = {
                "constant": bounds.regret_constant_step(at, 0.2, G, float(np.linalg.norm(u))),
                "decaying": bounds.regret_decaying_step(at, 0.4, G, 2 * radius),
                "strongly convex": bounds.regret_strongly_convex(at, sigma or 1.0, G),
            }[regime]
            assert paid - total <= bound + 1e-9


@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("sigma", [0.0, 0.2])
def test_the_ball_holds_the_optimum(backend, rng, loss, sigma):
    """Proposition 8: the optimum of a multiple kernel problem, found by long runs of another rate, is in the sharper
    ball.
    """
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 3, 1)], [rng.integers(0, 3, n) for n in (2, 3, 1)]
    model = backend.SequenceModel(3, 3)
    kind = backend.LogLoss if loss == "crf" else backend.StructuralHinge
    objective = kind(model, model.pack(X, Y))
    phi = backend.SquaredL21(0.1, [np.arange(12), np.arange(12, 24)])
    largest = 2.0 * (1.0 if loss == "hinge" else np.log(3))  # mean length 2: Hamming losses, labellings
    result = backend.online_proximal(
        objective,
        phi,
        step_size=backend.steps.InverseSqrt(0.5),
        sigma=sigma,
        epochs=80,
        batch_size=3,
        average="uniform",
        rng=0,
    )
    assert 0 < np.linalg.norm(result.x) <= bounds.optimum_radius(largest, 0.1, sigma)


def test_kernel_weights_are_the_least_of_their_variational_form(backend, objective):
    """(5) to (7), on a model of multiple kernel learning: no weights in the simplex give less than the shares in the
    sum of norms.
    """
    groups = [np.arange(6), np.arange(6, 12), np.arange(12, 18), np.arange(18, 24)]
    phi = backend.SquaredL21(0.5, groups)
    w = backend.online_proximal(objective, phi, step_size=backend.steps.InverseSqrt(0.5), epochs=10, rng=0).x
    norms = np.array([np.linalg.norm(w[group]) for group in groups])
    beta = norms / norms.sum()
    assert abs(martins.equation_6(norms, beta)) <= 1e-12 * norms.sum() ** 2
    close(0.25 * np.sum(norms[beta > 0] ** 2 / beta[beta > 0]), phi.value(w))
    others = np.random.default_rng(0).dirichlet(np.ones(4), 200)
    assert np.all(martins.equation_6(np.broadcast_to(norms, others.shape), others) >= 0)
    assert martins.equation_6(np.array([1.0, 1.0]), np.array([1.0, 0.0])) == np.inf
    assert martins.equation_6(np.array([2.0, 0.0]), np.array([1.0, 0.0])) == 0


def test_the_printed_radius_is_the_larger(backend):
    """Proposition 8 as printed, sqrt(2 Lambda / (lam + sigma)), holds too."""
    assert bounds.optimum_radius(3.0, 0.5, 0.25) == np.sqrt(3.0 / 0.75) < np.sqrt(2 * 3.0 / 0.75)


def test_the_entropy_of_the_labels_gives_no_radius(backend, rng):
    """Proposition 8 for the log loss: labels that are certain have entropy 0, the optimum is not 0."""
    X, Y = [rng.normal(size=(2, 3)) for _ in range(4)], [np.array([0, 1])] * 4
    model = backend.SequenceModel(3, 3)
    phi = backend.SquaredL21(0.1, [np.arange(12), np.arange(12, 24)])
    result = backend.online_proximal(
        backend.LogLoss(model, model.pack(X, Y)), phi, step_size=0.3, epochs=30, batch_size=4, rng=0
    )
    assert bounds.optimum_radius(0.0, 0.1) == 0 < np.linalg.norm(result.x) <= bounds.optimum_radius(2 * np.log(3), 0.1)


def test_the_optimum_of_a_generic_solver(backend, rng):
    """The lasso of a logistic regression: value and zeros."""
    objective, tau = random_logistic(rng), 0.1
    best = lasso(objective, tau, 4)
    fun = objective.value_and_gradient(best)[0] + tau * np.abs(best).sum()
    options = {
        "step_size": 1.0,
        "epochs": 300,
        "batch_size": 30,
        "rng": 0,
    }  # full batches: the proximal gradient method
    result = backend.online_proximal(objective, backend.L1(tau), np.zeros(4), **options)
    np.testing.assert_allclose(result.fun, fun, rtol=1e-9)
    assert np.array_equal(result.x == 0, np.abs(best) < 1e-9)
    online = backend.online_proximal(
        objective,
        backend.L1(tau),
        np.zeros(4),
        step_size=backend.steps.InverseSqrt(0.5),
        epochs=200,
        average="uniform",
        rng=0,
    )
    assert fun - 1e-12 <= online.fun <= fun * 1.01


@pytest.mark.parametrize("kind", KINDS)
def test_every_regularizer_trains(backend, objective, kind):
    """Online runs come near what full-batch runs reach, and below the start; their row's objective is F + R at the
    model.
    """
    regularizer = parts_of(backend)[kind]
    start = module.composite(objective, module.as_regularizer(regularizer), objective.zeros(), 0.0, None)
    full = backend.online_proximal(
        objective,
        regularizer,
        step_size=backend.steps.InverseSqrt(0.5),
        epochs=50,
        batch_size=5,
        average="uniform",
        rng=0,
    )
    online = backend.online_proximal(
        objective, regularizer, step_size=backend.steps.InverseSqrt(0.2), epochs=20, average="uniform", rng=0
    )
    assert full.fun < start and online.fun <= full.fun + 0.25 * (start - full.fun)
    close(
        online.fun,
        objective.value_and_gradient(online.x, None, None)[0] + module.as_regularizer(regularizer).value(online.x),
    )
    assert [row.oracle_calls for row in online.history] == [
        5 * k for k in range(1, 21)
    ] and online.certificate.startswith("none")


def test_groups_that_do_not_pay_stay_at_zero(backend, rng):
    """Features of the second half are noise: under a group lasso their weights are exactly 0, the others are not."""
    X = rng.normal(size=(60, 6))
    objective = Logistic(X, np.sign(X[:, 0] + 0.1 * rng.normal(size=60)))
    groups = [[0, 1, 2], [3, 4, 5]]
    result = backend.online_proximal(
        objective, backend.L21(0.2, groups), np.zeros(6), step_size=0.1, epochs=20, batch_size=10, rng=0
    )
    assert np.all(result.x[3:] == 0) and result.x[0] > 0
