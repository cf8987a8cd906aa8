"""Casimir: Algorithm 4 by hand, its promised rate with its own constants, bounds that are bounds, every way to run
it, ends and options.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.finite_sums import Counting, Logistic
from conformance.optimizers.optima import bracket
from reference import algorithms
from reference.bounds import Corollary17, Corollary18, Corollary20
from reference.training.result import evaluate


def hinge(backend, rng, smoothing=None, words=5):
    """A few words of up to three letters from three: small enough to know its optimum."""
    model = backend.SequenceModel(2, 3)
    X = [rng.normal(size=(n, 2)) for n in rng.integers(1, 4, words)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    return backend.StructuralHinge(model, model.pack(X, Y), smoothing=smoothing or backend.smoothings.Entropy())


def test_an_outer_step_is_its_equations(rng):
    """(27), (28), (29) solved and multiplied out by hand, for kappa and mu that change."""
    choice = Corollary20(0.7, 1.0)  # kappa_k = 0.7 k, lam = 0
    w = rng.normal(size=(5, 3))
    z, alpha, given = w[0], choice.alpha_0, []

    class Told:
        """No solver: the k-th subproblem's point is w_k."""

        def minimize(self, problem, start, delta, memory, rng):
            given.append((*problem[1:4], *problem.center, delta))
            return w[len(given)], None

    box = algorithms.Casimir(choice, Told())
    state = box.init(None, w[0])
    for k in range(1, 5):
        before, now, following = alpha, choice.kappa_k(k), choice.kappa_k(k + 1)
        roots = np.roots([following, before**2 * now, -(before**2) * now])  # alpha^2 k' = (1 - alpha) before^2 k
        alpha = float(roots[(roots > 0) & (roots < 1)][0])
        beta = before * (1 - before) * now / (before**2 * now + alpha * following)
        center, z = z, w[k] + beta * (w[k] - w[k - 1])
        state = box.epoch(None, state, None)
        np.testing.assert_allclose(given[-1], (0.0, now, choice.mu_k(k), *center, choice.delta_k(k)), rtol=1e-12)
        assert state.k == k and np.array_equal(state.w, w[k]) and np.allclose(state.center, center, rtol=1e-12)
        np.testing.assert_allclose([state.alpha, *state.z], [alpha, *z], rtol=1e-12)


@pytest.mark.parametrize("corollary", [Corollary17, Corollary18])
@pytest.mark.parametrize(
    "inner", [algorithms.SVRG(), algorithms.SAGA(), algorithms.GradientStep()], ids=["svrg", "saga", "gradient"]
)
def test_the_box_stepped_by_hand_walks_as_the_run_does(rng, inner, corollary):
    """Bit for bit, where the schedule, with what is handed to the objective as mu, and the step size are given."""
    objective, schedule, gamma, walked = hinge(reference, rng), corollary(0.1, 0.3, 0.5), 0.05, []
    w0, name = rng.normal(size=objective.zeros().shape), type(inner).__name__.lower().removesuffix("step")
    options = {"lam": 0.1, "schedule": schedule, "inner": name, "step_size": gamma, "epochs": 7, "rng": 3}
    reference.casimir(objective, w0, callback=lambda row, w: walked.append(w), **options)
    box, draw = algorithms.Casimir(schedule, algorithms.OnePass(inner, gamma)), np.random.default_rng(3)
    state = box.init(objective, w0)
    for w in walked:
        state = box.epoch(objective, state, draw)
        np.testing.assert_array_equal(state.w, w)
    assert len(walked) == state.k == 7 and not np.array_equal(state.w, w0)


def test_runs_are_algorithm_4(backend, rng):
    """Gradient descent inside, one step a subproblem, with given constants: the loop written out."""
    objective, lam, mu, kappa, gamma = hinge(backend, rng), 0.1, 0.5, 0.3, 0.05
    result = backend.casimir(objective, lam=lam, mu=mu, kappa=kappa, inner="gradient", step_size=gamma, epochs=6)
    q = lam / (lam + kappa)
    w = z = np.zeros(objective.zeros().shape)
    for _ in range(6):
        g = objective.value_and_gradient(z, None, mu)[1] + lam * z
        following = z - gamma * g  # started at z, where kappa (w - z) = 0
        w, z = following, following + (1 - np.sqrt(q)) / (1 + np.sqrt(q)) * (following - w)
    np.testing.assert_allclose(result.x, w, rtol=1e-9, atol=1e-12)
    assert result.oracle_calls == 6 * objective.n and result.nit == 6


@pytest.mark.parametrize("inner", ["svrg", "gradient"])
@pytest.mark.parametrize("smoothing", ["Entropy", "SquaredL2"])
def test_theory_keeps_its_promise(backend, rng, smoothing, inner):
    """Proposition 29 on listed outputs: every w_k within Corollary 17's bound, and the accuracy reached when it says
    so.
    """
    X, Y = 3 * rng.normal(size=(6, 2)), rng.integers(0, 3, 6)
    model = backend.MulticlassModel(2, 3)
    objective = backend.StructuralHinge(model, model.pack(X, Y), smoothing=getattr(backend.smoothings, smoothing)())
    lam, accuracy = 0.05, 0.3
    best = bracket(objective, lam)[0]
    rows = []
    result = backend.casimir(
        objective,
        lam=lam,
        schedule="theory",
        accuracy=accuracy,
        inner=inner,
        epochs=4000,
        rng=0,
        callback=lambda row, w: rows.append(row) or row.objective - best <= accuracy / 3,
    )
    choice = Corollary17.for_svrg(accuracy, lam=lam, A=objective.smoothness(1.0), D=objective.width(), n=6)
    start = evaluate(objective, objective.zeros(), lam, 0.1).objective - best
    for k, row in enumerate(rows, 1):
        assert -1e-9 <= row.objective - best <= choice.bound(k, start, 0.0, objective.width()) + 1e-9
        assert row.dual <= best + 1e-9 and row.exact == 1
    assert result.fun - best <= accuracy / 3, "it should stop by the callback long before the passes run out"
    assert len(rows) <= choice.iterations(accuracy, start, objective.width())


@pytest.mark.beyond("long runs")
def test_default_settings_reach_a_small_gap(backend, rng):
    """Stages of smoothing: no tuning, no scale given."""
    for scale in (0.1, 10.0):
        model = backend.SequenceModel(2, 3)
        X = [scale * rng.normal(size=(n, 2)) for n in (3, 1, 2, 3, 3, 2)]
        objective = backend.StructuralHinge(
            model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X]), smoothing=backend.smoothings.Entropy()
        )
        result = backend.casimir(objective, lam=0.1, epochs=150, rng=0)
        start = objective.value_and_gradient(objective.zeros(), None, 0.0)[0]
        assert result.certificate <= 0.1 * start, (scale, result.certificate)


@pytest.mark.parametrize("inner", ["svrg", "gradient"])
def test_without_strong_convexity_nothing_is_certified(backend, rng, inner):
    plain = Logistic(rng.normal(size=(20, 3)), np.sign(rng.normal(size=20)))
    free = backend.casimir(plain, np.zeros(3), lam=0.0, inner=inner, epochs=30, rng=0)
    assert "lam = 0" in free.certificate and free.fun < plain.value_and_gradient(np.zeros(3))[0]
    assert free.history[-1].gap is None and free.history[-1].dual is None


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
def test_a_start_where_all_ranks_tie_does_not_stall(backend, rng, smoothing):
    """At w = 0 the top-K strategy has a kink that no smoothness passes: such examples say nothing about the step
    size.
    """
    made = backend.smoothings.TopK(3) if smoothing == "TopK" else backend.smoothings.SquaredL2(3)
    objective = hinge(backend, rng, made, words=12)
    at_zero = objective.value_and_gradient(objective.zeros(), None, 0.0)[0]
    result = backend.casimir(objective, lam=0.05, epochs=12, rng=0)
    best = bracket(objective, 0.05)[0]
    assert result.fun - best <= 0.5 * (at_zero - best)


def test_schedules_of_the_corollaries(backend, rng):
    """Decreasing smoothing closes the gap that constant smoothing leaves."""
    objective, lam = hinge(backend, rng), 0.2
    constant = backend.casimir(objective, lam=lam, schedule=Corollary17(lam, 0.2, 1.0), epochs=60, rng=0)
    falling = backend.casimir(objective, lam=lam, schedule=Corollary18(lam, 0.2, 1.0), epochs=60, rng=0)
    assert falling.certificate < constant.certificate


def test_the_share_of_exact_calls_is_reported(backend, rng):
    """At w = 0 the scores tie and two outputs certify nothing; Entropy is always exact."""
    objective = hinge(backend, rng, backend.smoothings.TopK(2))
    rows = backend.casimir(objective, lam=0.1, mu=0.01, epochs=30, rng=0).history
    assert all(0 <= row.exact <= 1 for row in rows) and rows[-1].exact > 0
    line = objective.linearize(objective.zeros(), None, 50.0)
    assert line.exact < 1
    assert all(row.exact == 1 for row in backend.casimir(hinge(backend, rng), lam=0.1, epochs=3, rng=0).history)


@pytest.mark.parametrize(
    "options", [{}, {"kappa": 0.1, "step_size": 0.1}, {"stop": "gradient"}, {"inner": "gradient"}], ids=str
)
def test_calls_are_counted(backend, rng, options):
    """All that is asked for, less what evaluates (one full gradient at the start and after each iteration) and the
    second gradient at a snapshot.
    """
    counting = Counting(Logistic(rng.normal(size=(20, 3)), np.sign(rng.normal(size=20))))
    run = backend.casimir(counting, np.zeros(3), lam=0.1, epochs=4, rng=0, **options)
    snapshots = 20 * run.history[-1].epoch if options.get("inner") != "gradient" else 0
    assert run.oracle_calls == sum(counting.asked) - 20 * (1 + len(run.history)) - snapshots
    if "step_size" in options:
        assert [row.oracle_calls for row in run.history] == [40, 80, 120, 160]


class Hyperbola:
    """mu log(2 cosh((w - 1)/mu)): its smoothing is part of it, so its dual at one mu is no bound at another."""

    n, mu = 1, 1.0

    def zeros(self):
        return np.zeros(1)

    def value_and_gradient(self, w, batch=None, mu=None):
        d = (w - 1) / mu
        return float(mu * np.logaddexp(d, -d)[0]), np.tanh(d)


def test_the_dual_of_another_smoothing_is_no_bound(backend):
    run = backend.casimir(Hyperbola(), lam=0.1, schedule=Corollary18(0.1, 1.0, 1.0), epochs=30, rng=0)
    assert all(row.gap >= -1e-12 for row in run.history)


def test_nothing_to_learn_ends_well(backend):
    """No features and no losses: the gradient is 0 from the start, for as many passes as you like."""
    model = backend.SequenceModel(0, 2, start_stop=False)
    objective = backend.StructuralHinge(
        model, model.pack([np.zeros((0, 0))] * 2, [[], []]), smoothing=backend.smoothings.Entropy()
    )
    run = backend.casimir(objective, lam=0.1, epochs=30, rng=0)
    assert run.success and run.fun == 0 and run.certificate == 0
    with pytest.raises(ValueError, match="schedule: 'theory' has nothing to smooth"):
        backend.casimir(objective, lam=0.1, schedule="theory", accuracy=0.1)
    with pytest.raises(ValueError, match="schedule: 'theory' needs a hinge"):
        backend.casimir(backend.LogLoss(model, objective.data), lam=0.1, schedule="theory", accuracy=0.1)


def test_too_long_steps(backend, rng):
    """Given steps are the user's: where they do harm it is said. Guessed ones are taken back."""
    objective = hinge(backend, rng)
    result = backend.casimir(
        objective, lam=10.0, mu=0.01, kappa=10.0, step_size=1e3, epochs=10, rng=0, warm_start="last"
    )
    assert result.success == (result.fun <= objective.value_and_gradient(objective.zeros(), None, 0.0)[0])
    plain = Logistic(1e6 * rng.normal(size=(20, 3)), np.sign(rng.normal(size=20)))
    assert (
        backend.casimir(plain, np.zeros(3), lam=0.1, epochs=40, rng=0).fun <= plain.value_and_gradient(np.zeros(3))[0]
    )
