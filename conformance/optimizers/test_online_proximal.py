"""The online proximal algorithm: its step is its equation, its rounds and runs keep the paper's bounds (Lemma 4,
Propositions 5, 6 and 8) and end at generic solvers' optima.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from conformance.finite_sums import Logistic, lasso, random_logistic
from conformance.listed_svm import labelling
from conformance.optimizers.test_proximal_epochs import EVEN, REGULARIZERS, D, chains
from conformance.specimens.learners import loss_of
from conformance.tolerances import close
from reference import bounds
from reference.identities import martins
from reference.optimizers.online_proximal import OnlineProximal, OnlineProximalState
from reference.prox.composite import as_regularizer
from reference.training.counterparts import counterpart


@pytest.fixture(params=["log loss", "hinge"])
def objective(backend, request):
    """Five sequences, some of them empty, and D weights."""
    return chains(backend, request.param, n=5)


def rounds_of(objective, proxes, steps, sigma=0.0, order=None, size=D):
    """Of a run from 0, for each round: the example, w_t, w_{t+1}, a subgradient of L_t and its value at w_t
    (with sigma's part).
    """
    box = OnlineProximal(proxes, lambda t, sigma: steps[t - 1], sigma)
    state = OnlineProximalState(np.zeros(size), np.zeros(size), 0)
    for i in np.random.default_rng(0).integers(objective.n, size=len(steps)) if order is None else order:
        w, i = state.x, np.array([i])
        value, g = objective.value_and_gradient(w, i, None)
        state = box.sweep(objective, state, i)
        yield i, w, state.x, g + sigma * w, value + 0.5 * sigma * w @ w


KINDS = ("l1", "ridge", "elastic net", "group lasso", "squared mixed norm", "projected", "elastic net of kernels")

KINDS += ("non-sparse kernels", "non-sparse kernels, q > 2", "groups that cross", "a tree", "sparse group lasso")


@pytest.mark.parametrize("average", ["last", "uniform"])
def test_an_epoch_is_its_equation(backend, objective, average):
    """w' minimises gamma R(u) + ||u - (w - gamma (g + sigma w))||^2/2 within the ball, and the mean is that of w_1
    ... w_T.
    """
    phi, ball, sigma, gamma = backend.SquaredL21(0.3, EVEN), backend.L2Ball(0.4), 0.2, 0.5
    w, models = np.random.default_rng(1).normal(size=D), []
    order = np.array([3, 1, 1, 0, 2, 4])
    box = OnlineProximal(backend.Sequential([phi, ball]), backend.steps.Constant(gamma), sigma, None, 2, average)
    state = counterpart(box, objective).sweep(objective, box.init(objective, w), order)
    for batch in (order[:2], order[2:4], order[4:]):
        models.append(w)
        z = w - gamma * (objective.value_and_gradient(w, batch, None)[1] + sigma * w)
        w = phi.prox(z, gamma)
        least = gamma * phi.value(w) + 0.5 * np.sum((w - z) ** 2)
        for u in w + 0.05 * np.random.default_rng(2).normal(size=(50, D)):
            assert least <= gamma * phi.value(u) + 0.5 * np.sum((u - z) ** 2)
        w = w * min(1.0, 0.4 / np.linalg.norm(w))
    close(state.x, w)
    close(state.mean, w if average == "last" else np.mean(models, axis=0))
    assert state.t == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_each_round_keeps_its_bound(backend, objective, kind, sigma):
    """Lemma 4, for comparators at random in the ball: L_t(w_t) + R(w_{t+1}) <= its bound."""
    regularizer, ball = as_regularizer(REGULARIZERS[kind](backend)), backend.L2Ball(2.0)
    proxes, rng = backend.Sequential([regularizer, ball]), np.random.default_rng(3)
    steps = 0.5 / np.sqrt(np.arange(1, 16))
    for (i, w, after, g, value), gamma in zip(rounds_of(objective, proxes, steps, sigma), steps, strict=True):
        for u in (np.zeros(D), w, 0.9 * ball.prox(regularizer.prox(rng.normal(size=D)))):
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


@pytest.mark.parametrize("loss", ["hinge", "log loss"])
@pytest.mark.parametrize("sigma", [0.0, 0.2])
def test_the_ball_holds_the_optimum(backend, rng, loss, sigma):
    """Proposition 8: the optimum of a multiple kernel problem, found by long runs of another rate, is in the sharper
    ball; the printed one, sqrt(2 Lambda / (lam + sigma)), is larger.
    """
    X, Y = labelling(rng, (2, 3, 1))
    model = backend.SequenceModel(3, 3)
    objective = loss_of(backend, loss, model, model.pack(X, Y))
    phi = backend.SquaredL21(0.1, [np.arange(12), np.arange(12, 24)])
    largest = 2.0 * (1.0 if loss == "hinge" else np.log(3))  # mean length 2: Hamming losses, labellings
    options = {"step_size": backend.steps.InverseSqrt(0.5), "batch_size": 3, "average": "uniform"}
    x = backend.online_proximal(objective, phi, sigma=sigma, epochs=80, rng=0, **options).x
    radius = bounds.optimum_radius(largest, 0.1, sigma)
    assert 0 < np.linalg.norm(x) <= radius < np.sqrt(2 * largest / (0.1 + sigma))  # the printed radius


def test_kernel_weights_are_the_least_of_their_variational_form(backend, objective):
    """(5) to (7), on a model of multiple kernel learning: no weights in the simplex give less than the shares in the
    sum of norms.
    """
    groups = np.array_split(np.arange(D), 4)
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


def test_the_entropy_of_the_labels_gives_no_radius(backend, rng):
    """Proposition 8 for the log loss: labels that are certain have entropy 0, the optimum is not 0."""
    X, Y = [rng.normal(size=(2, 3)) for _ in range(4)], [np.array([0, 1])] * 4
    model = backend.SequenceModel(3, 3)
    phi = backend.SquaredL21(0.1, [np.arange(12), np.arange(12, 24)])
    loss, options = backend.LogLoss(model, model.pack(X, Y)), {"step_size": 0.3, "batch_size": 4}
    result = backend.online_proximal(loss, phi, epochs=30, rng=0, **options)
    assert bounds.optimum_radius(0.0, 0.1) == 0 < np.linalg.norm(result.x) <= bounds.optimum_radius(2 * np.log(3), 0.1)


def test_the_optimum_of_a_generic_solver(backend, rng):
    """The lasso of a logistic regression: value and zeros."""
    objective, tau = random_logistic(rng), 0.1
    best = lasso(objective, tau, 4)
    fun = objective.value_and_gradient(best)[0] + tau * np.abs(best).sum()
    learn = partial(backend.online_proximal, objective, backend.L1(tau), np.zeros(4), rng=0)
    whole = learn(step_size=1.0, epochs=300, batch_size=30)  # full batches: the proximal gradient method
    np.testing.assert_allclose(whole.fun, fun, rtol=1e-9)
    assert np.array_equal(whole.x == 0, np.abs(best) < 1e-9)
    online = learn(step_size=backend.steps.InverseSqrt(0.5), epochs=60, average="uniform")
    assert fun - 1e-12 <= online.fun <= fun * 1.01


@pytest.mark.parametrize("kind", KINDS)
def test_every_regularizer_trains(backend, objective, kind):
    """Online runs come near what full-batch runs reach, and below the start; rows have F + R at the model."""
    regularizer = REGULARIZERS[kind](backend)
    learn = partial(backend.online_proximal, objective, regularizer, average="uniform", rng=0)
    start, full = (learn(step_size=backend.steps.InverseSqrt(0.5), epochs=k, batch_size=5).fun for k in (0, 50))
    online = learn(step_size=backend.steps.InverseSqrt(0.2), epochs=20)
    assert full < start and online.fun <= full + 0.25 * (start - full)
    close(online.fun, objective.value_and_gradient(online.x)[0] + as_regularizer(regularizer).value(online.x))
    assert [row.oracle_calls for row in online.history] == [5 * k for k in range(1, 21)]
    assert online.certificate.startswith("none")


TAU, SIGMA = 0.05, 0.3


class Hinge:
    """mean_i max(0, 1 - y_i <x_i, w>)."""

    def __init__(self, X, y):
        self.A, self.n = np.asarray(y)[:, None] * np.asarray(X), len(y)

    def value_and_gradient(self, w, batch=None, mu=None):
        A = self.A if batch is None else self.A[batch]
        margin = 1 - A @ w
        return float(np.maximum(margin, 0).mean()), -A.T @ (margin > 0) / len(A)


def drawn(rng, kind, n, d=4):
    X = rng.normal(size=(n, d))
    return kind(X, np.sign(X[:, 0] + 0.7 * rng.normal(size=n)))


def best(objective, sigma, d=4):
    """argmin of the mean loss + TAU ||w||_1 + sigma/2 ||w||^2: a linear program for the hinge, a quasi-Newton method
    for the log loss."""
    if isinstance(objective, Hinge):
        n, A = objective.n, objective.A
        cost = np.concatenate([np.full(2 * d, TAU), np.full(n, 1 / n)])
        found = linprog(cost, A_ub=np.hstack([-A, A, -np.eye(n)]), b_ub=-np.ones(n), bounds=(0, None)).x
        return found[:d] - found[d : 2 * d]

    return lasso(objective, TAU, d, sigma)


REGIMES = [(regime, kind) for regime in ("constant", "decaying") for kind in (Hinge, Logistic)]


@pytest.mark.parametrize("T", [1, 10, 100, 400])
@pytest.mark.parametrize(("regime", "kind"), [*REGIMES, ("strongly convex", Logistic)])
def test_regret_against_the_best_model_in_hindsight(backend, rng, regime, kind, T):
    """With the steps that the proposition calls best: ||w*|| G sqrt(T), F G sqrt(2 T), and G^2 (1 + log T)/(2
    sigma)."""
    sigma = SIGMA if regime == "strongly convex" else 0.0
    objective = drawn(rng, kind, T)
    optimum, phi = best(objective, sigma), backend.L1(TAU)
    norm, radius = np.linalg.norm(optimum), 1.2 * max(np.linalg.norm(optimum), 0.1)
    G = np.max(np.linalg.norm(objective.A, axis=1)) + sigma * radius
    t = np.arange(1, T + 1)
    steps = {
        "constant": np.full(T, max(norm, 1e-3) / (G * np.sqrt(T))),
        "decaying": 2 * radius / (np.sqrt(2) * G) / np.sqrt(t),
        "strongly convex": 1 / (SIGMA * t),
    }[regime]
    proxes = backend.Sequential([phi, backend.L2Ball(radius)])
    rounds = list(rounds_of(objective, proxes, steps, sigma, rng.permutation(T), 4))
    assert max(np.linalg.norm(g) for *_, g, _ in rounds) <= G * (1 + 1e-12)
    paid = sum(value + TAU * np.abs(w).sum() for _, w, _, _, value in rounds)
    hindsight = objective.value_and_gradient(optimum)[0] + 0.5 * sigma * optimum @ optimum + TAU * np.abs(optimum).sum()
    bound = {
        "constant": lambda: bounds.regret_constant_step(T, steps[0], G, norm),
        "decaying": lambda: bounds.regret_decaying_step(T, 2 * radius / (np.sqrt(2) * G), G, 2 * radius),
        "strongly convex": lambda: bounds.regret_strongly_convex(T, SIGMA, G),
    }[regime]()
    assert paid - T * hindsight <= bound + 1e-9
    if regime == "decaying":
        close(bound, 2 * radius * G * np.sqrt(2 * T))
    if regime == "constant" and norm > 1e-3:
        close(bound, norm * G * np.sqrt(T))


@pytest.mark.parametrize("T", [1, 7, 50])
def test_the_regret_of_constant_steps_is_attained(backend, T):
    """Losses -G w in the interval up to gamma G T, which the run reaches with its last step: regret gamma G^2 (T^2 +
    T)/2, the bound itself."""
    G, gamma = 1.5, 0.2

    class Falling:
        n = T

        def value_and_gradient(self, w, batch=None, mu=None):
            return float(-G * w[0]), np.array([-G])

    end = gamma * G * T
    rounds = rounds_of(Falling(), backend.L2Ball(end), np.full(T, gamma), order=range(T), size=1)
    regret = sum(value for *_, value in rounds) + T * G * end
    close(regret, bounds.regret_constant_step(T, gamma, G, end))


@pytest.mark.parametrize("sigma", [0.0, SIGMA])
def test_averages_over_random_examples_come_near_the_optimum(backend, rng, sigma):
    """Proposition 6 in the mean: regret's bound over T, for steps like 1/sqrt(t), and like 1/(sigma t) with the
    averaged model.

    From 15 to 240 examples, drawn with replacement, the gap halves at least, and falls by five where losses are
    strongly convex.
    """
    whole, phi, gaps = drawn(rng, Logistic, 40), backend.L1(TAU), []
    optimum = best(whole, sigma)
    total = lambda w: whole.value_and_gradient(w)[0] + 0.5 * sigma * w @ w + phi.value(w)  # noqa: E731
    radius = 1.5 * np.linalg.norm(optimum)
    G = np.max(np.linalg.norm(whole.A, axis=1)) + sigma * radius
    for T in (15, 240):
        found = []
        for seed in range(6):
            examples = np.random.default_rng(seed).integers(whole.n, size=T)
            sample = Logistic(-whole.A[examples], np.ones(T))  # the same margins
            options = {"sigma": sigma, "project": backend.L2Ball(radius), "epochs": 1, "average": "uniform", "rng": 0}
            step = backend.steps.Pegasos() if sigma else backend.steps.InverseSqrt(0.5)
            x = backend.online_proximal(sample, phi, np.zeros(4), step_size=step, **options).x
            found.append(total(x) - total(optimum))
        gaps.append(np.mean(found))
        regret = bounds.regret_decaying_step(T, 0.5, G, 2 * radius)
        assert -1e-9 <= gaps[-1] <= (bounds.regret_strongly_convex(T, sigma, G) if sigma else regret) / T
    assert gaps[1] <= gaps[0] / (5 if sigma else 2)
