"""Casimir: Algorithm 4 by hand, its promised rate with its own constants, its warm starts and its stop (26) where both
are sharp; inner solvers, each of which ends at the optimum, as a user's does; the schedules of sections 7.2 and 7.3.1.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from conformance.finite_sums import UNEVEN, Parabolas, bracket, optimum, random_logistic, total
from conformance.specimens.learners import chains, loss_of
from reference import algorithms
from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.optimizers import saga
from reference.optimizers.base import evaluate
from reference.training import casimir_schedules as module
from reference.training.smoothness import INNER


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
    objective, walked = loss_of(reference, "entropy", *chains(reference)), []
    schedule, gamma = corollary(0.1, 0.3, 0.5), 0.05
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
    objective, lam, mu, kappa, gamma = loss_of(backend, "entropy", *chains(backend)), 0.1, 0.5, 0.3, 0.05
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
    best, rows = bracket(objective, lam)[0], []
    options = {"lam": lam, "schedule": "theory", "accuracy": accuracy, "inner": inner, "epochs": 4000, "rng": 0}
    result = backend.casimir(
        objective, callback=lambda row, w: rows.append(row) or row.objective - best <= accuracy / 3, **options
    )
    choice = Corollary17.for_svrg(accuracy, lam=lam, A=objective.smoothness(1.0), D=objective.width(), n=6)
    start = evaluate(objective, objective.zeros(), lam, 0.1).objective - best
    for k, row in enumerate(rows, 1):
        assert -1e-9 <= row.objective - best <= choice.bound(k, start, 0.0, objective.width()) + 1e-9
        assert row.dual <= best + 1e-9 and row.exact == 1
    assert result.fun - best <= accuracy / 3, "it should stop by the callback long before the passes run out"
    assert len(rows) <= choice.iterations(accuracy, start, objective.width())


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
def test_a_start_where_all_ranks_tie_does_not_stall(backend, smoothing):
    """At w = 0 the top-K strategy has a kink that no smoothness passes: such examples say nothing about the step
    size.
    """
    model, data = chains(backend, lengths=(2, 3, 1, 3, 2, 1, 3, 2, 1, 2, 3, 1))
    objective = backend.StructuralHinge(model, data, smoothing=getattr(backend.smoothings, smoothing)(3))
    at_zero = objective.value_and_gradient(objective.zeros(), None, 0.0)[0]
    result = backend.casimir(objective, lam=0.05, epochs=12, rng=0)
    assert all(0 <= row.exact <= 1 for row in result.history) and result.history[0].exact < 1
    best = backend.bcfw(backend.StructuralHinge(model, data), lam=0.05, epochs=40, rng=0).history[-1].dual  # or less
    assert result.fun - best <= 0.5 * (at_zero - best)


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


LAM, KAPPA = 0.3, 0.8


class Linear:
    """<g, w>, as a sum of one function."""

    n, g = 1, np.array([1.0, -2.0, 0.5])

    def value_and_gradient(self, w, batch=None, mu=None):
        return float(self.g @ w), self.g

    def minimiser(self, problem):
        """Of <g, w> + lam/2 ||w||^2 + kappa/2 ||w - z||^2."""
        return (problem.kappa * problem.center - self.g) / (problem.lam + problem.kappa)


def subproblems(backend, step, **options):
    """(problem, points from its start to its end) of each subproblem of a run whose inner solver goes by ``step``."""
    found = []

    def towards(problem, at, order, step_size, memory):
        if memory is None:
            found.append((problem, [at.x]))
        np.testing.assert_array_equal(at.x, found[-1][1][-1])
        found[-1][1].append(step(problem, at))
        return found[-1][1][-1], 1, "begun"

    backend.casimir(Linear(), np.array([3.0, 0.0, -1.0]), lam=LAM, step_size=0.1, inner=towards, **options)
    return found


@pytest.mark.parametrize("warm_start", ["center", "last", "extrapolated"])
def test_where_subproblems_start(backend, warm_start):
    """At the center; at the last point; or so that from an exact w_{k-1} the start is w_k itself, because
    w*(z') - w*(z) = kappa/(kappa + lam) (z' - z) over a linear function."""
    linear = Linear()
    options = {"kappa": KAPPA, "warm_start": warm_start, "epochs": 6}
    found = subproblems(backend, lambda problem, at: linear.minimiser(problem), **options)
    assert len(found) == 6
    for (before, _), (problem, points) in itertools.pairwise(found):
        expected = {"center": problem.center, "last": linear.minimiser(before), "extrapolated": points[-1]}[warm_start]
        np.testing.assert_allclose(points[0], expected, atol=1e-12)
        assert warm_start == "extrapolated" or np.linalg.norm(points[0] - points[-1]) > 1e-3


@pytest.mark.parametrize("warm_start", ["center", "last"])
def test_subproblems_end_as_soon_as_26_holds(backend, warm_start):
    """gap <= delta kappa/2 ||w - z||^2 at the last point, and at none before it, in steps that shorten the way to the
    solution by a fiftieth."""
    linear, choice = Linear(), Corollary17(LAM, KAPPA, 1.0)

    def creep(problem, at):
        best = linear.minimiser(problem)
        return best + 0.98 * (at.x - best)

    options = {"schedule": choice, "stop": "gradient", "warm_start": warm_start, "epochs": 1500}
    found = subproblems(backend, creep, **options)[:-1]  # the last is cut short
    assert len(found) >= 4
    for k, (problem, points) in enumerate(found, start=1):
        away = np.array(points) - linear.minimiser(problem)
        gaps = 0.5 * (LAM + KAPPA) * np.sum(away**2, axis=1)
        moved = np.sum((np.array(points) - problem.center) ** 2, axis=1)
        holds = gaps <= 0.5 * choice.delta_k(k) * KAPPA * moved
        assert holds[-1] and not np.any(holds[1:-1])  # a pass is made whatever the start is
        assert len(points) > 10


def classes_with_entropy(backend, rng):
    """Eight examples of three classes."""
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    model = backend.MulticlassModel(2, 3)
    return backend.StructuralHinge(model, model.pack(X, Y), smoothing=backend.smoothings.Entropy())


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("stop", ["budget", "gradient"])
@pytest.mark.parametrize("warm_start", ["center", "last", "extrapolated"])
def test_every_way_to_run_reaches_the_optimum(backend, rng, inner, stop, warm_start):
    """Smooth sums to a small gap, also where one component is much more curved than their mean, whose step is that of
    the most curved; the hinge behind its smoothings to a fifth of its start.
    """
    options = {"inner": inner, "stop": stop, "warm_start": warm_start, "rng": 0, "epochs": 300}
    for plain, d, lam, tol in ((random_logistic(rng), 4, 0.2, 1e-6), (UNEVEN, 1, 0.05, 1e-4)):
        run = backend.casimir(plain, np.zeros(d), lam=lam, tol=tol, **options)
        best = total(plain, optimum(plain, d, lam), lam)
        assert run.success and run.certificate <= tol * run.fun and -1e-9 <= run.fun - best <= run.certificate + 1e-9
    run = backend.casimir(classes_with_entropy(backend, rng), lam=0.2, tol=0.2, **{**options, "epochs": 100})
    assert run.success and run.certificate <= 0.2 * run.fun


def heavy_ball(problem, at, order, step_size, memory):
    """A solver of a user's: gradient steps with momentum; memory is the point before."""
    before = at.x if memory is None else memory
    return at.x - step_size * problem.gradient(at) + 0.5 * (at.x - before), 0, at.x


@pytest.mark.parametrize("stop", ["budget", "gradient"])
def test_a_solver_of_a_user(backend, rng, stop):
    logistic, calls = random_logistic(rng), []

    def counted(problem, at, order, step_size, memory):
        value, gradient = logistic.value_and_gradient(at.x)  # at is the point with F and its gradient there
        np.testing.assert_allclose([at.value, *at.gradient], [value, *gradient], rtol=1e-12)
        assert sorted(order) == list(range(logistic.n)) and step_size > 0 and problem.lam == 0.1
        calls.append(memory)
        x, _, memory = heavy_ball(problem, at, order, step_size, memory)
        return x, 7, memory

    run = backend.casimir(logistic, np.zeros(4), lam=0.1, inner=counted, stop=stop, epochs=200, tol=1e-8, rng=0)
    assert run.success and run.fun - total(logistic, optimum(logistic, 4, 0.1), 0.1) <= run.certificate + 1e-12
    options = {"kappa": 0.1, "step_size": 0.1, "stop": "budget", "epochs": 3}
    fixed = backend.casimir(logistic, np.zeros(4), lam=0.1, inner=counted, rng=0, **options)
    assert fixed.oracle_calls == 3 * (logistic.n + 7)
    firsts = sum(memory is None for memory in calls)
    assert firsts < len(calls) if stop == "gradient" else firsts == len(calls)


def test_a_pass_that_is_taken_back_leaves_no_memory(rng):
    """The memory that a pass is handed is that of the last pass that was kept."""
    logistic, seen = random_logistic(rng), []

    def worse_first(problem, at, order, step_size, memory):
        seen.append(memory)
        bad = len(seen) == 2
        return (at.x + 10.0 if bad else at.x - step_size * problem.gradient(at)), 0, f"after {len(seen)}"

    reference.casimir(logistic, np.zeros(4), lam=0.1, inner=worse_first, stop="gradient", epochs=4, rng=0)
    assert seen == [None, "after 1", "after 1", "after 3"]


def test_a_table_beyond_the_memory_is_refused(monkeypatch, rng):
    """30 examples of 4 weights are 120 numbers."""
    logistic = random_logistic(rng)
    monkeypatch.setattr(saga, "MOST", 119)
    with pytest.raises(ValueError, match="inner: 'saga' keeps a gradient of each example, 30 of 4 numbers"):
        reference.casimir(logistic, np.zeros(4), lam=0.1, inner="saga", rng=0)
    monkeypatch.setattr(saga, "MOST", 120)
    assert reference.casimir(logistic, np.zeros(4), lam=0.1, inner="saga", rng=0).success


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_presets_are_their_schedules(backend, rng, lam):
    """With kappa, mu and the step size given, the runs of the corollaries' own objects; defaults are mu = 1 or 2,
    and kappa = lam for adapt.
    """
    objective = loss_of(backend, "entropy", *chains(backend))
    options = {"lam": lam, "step_size": 0.05, "epochs": 5, "rng": 0}
    for preset, mu, choice in (
        (backend.casimir_svrg_const, None, Corollary17(lam, 0.3, 1.0) if lam else Corollary19(0.3, 1.0)),
        (backend.casimir_svrg_const, 0.4, Corollary17(lam, 0.3, 0.4) if lam else Corollary19(0.3, 0.4)),
        (backend.casimir_svrg_adapt, None, Corollary18(lam, 0.3, 2.0) if lam else Corollary20(0.3, 2.0)),
        (backend.casimir_svrg_adapt, 0.7, Corollary18(lam, 0.3, 0.7) if lam else Corollary20(0.3, 0.7)),
    ):
        run = preset(objective, mu=mu, kappa=0.3, **options)
        same = backend.casimir(objective, schedule=choice, **options)
        assert np.array_equal(run.x, same.x) and run.oracle_calls == same.oracle_calls
    if lam:
        run = backend.casimir_svrg_adapt(objective, **options)
        assert np.array_equal(run.x, backend.casimir(objective, schedule=Corollary18(lam, lam, 2.0), **options).x)


def test_kappa_is_that_of_propositions_29_and_31(rng):
    """Four parabolas of curvature 8: backtracking finds L = 8."""
    parabolas, start = Parabolas([8.0] * 4, [1.0, -1.0, 0.5, 2.0]), np.zeros(1)
    for lam, kappa in ((0.1, 8 / 4 - 0.1), (0.4, 8 / 4 - 0.4), (0.6, 0.6), (0.0, 8 / 5)):
        choice, calls = module.Plans(lam).constant(parabolas, start, 0.5, np.random.default_rng(0))
        np.testing.assert_allclose(choice.kappa_k(7), kappa, rtol=1e-9)
        assert choice.mu_k(3) == 0.5 and calls > 0
    choice, calls = module.Plans(0.0).adaptive(parabolas, start, 0.5, np.random.default_rng(0))
    np.testing.assert_allclose(choice.kappa_k(1), 8 / 5, rtol=1e-9)
    assert choice.kappa_k(3) == 3 * choice.kappa_k(1) and choice.mu_k(2) == 0.25 and calls > 0


def test_smoothing_that_falls_stops_before_it_is_nothing():
    falling = module.Falling(0.1, 0.1, 2.0)
    mu = [falling.mu_k(k) for k in (1, 2, 50, 10**4, 10**9)]
    assert mu == sorted(mu, reverse=True) and mu[-1] == mu[-2] == 1e-10
    eta = 1 - np.sqrt(0.5) / 2
    np.testing.assert_allclose(mu[:3], 2.0 * eta ** np.array([0.5, 1.0, 25.0]), rtol=1e-12)
    assert module.Falling(0.1, 0.1, 1e-12).mu_k(1) <= 1e-12  # never above what was asked for


def test_presets_close_the_gap_that_their_smoothing_leaves(backend, rng):
    """Constant smoothing to within mu D of the optimum, falling smoothing further; no step size and no constant
    given.
    """
    objective, lam = classes_with_entropy(backend, rng), 0.2
    best, D = bracket(objective, lam)[0], objective.width()
    options = {"lam": lam, "epochs": 20, "rng": 0}
    for mu in (1.0, 0.1):
        constant = backend.casimir_svrg_const(objective, mu=mu, **options)
        assert constant.fun - best <= mu * D + 0.02 * best
    for mu in (None, 20.0):
        falling = backend.casimir_svrg_adapt(objective, mu=mu, **options)
        assert -1e-8 <= falling.fun - best <= falling.certificate + 1e-8
        assert falling.fun - best <= 0.05 * best, mu


def test_what_cannot_be_smoothed_is_refused(backend, rng):
    objective = loss_of(backend, "entropy", *chains(backend))
    with pytest.raises(ValueError, match="mu: the log loss is defined at mu = 1"):
        backend.casimir_svrg_adapt(backend.LogLoss(objective.model, objective.data), lam=0.1)
    with pytest.raises(ValueError, match="schedule: 'adapt' needs something to smooth"):
        backend.casimir_svrg_adapt(random_logistic(rng), np.zeros(4), lam=0.1)
    assert backend.casimir_svrg_const(random_logistic(rng), np.zeros(4), lam=0.1, tol=1e-4, epochs=100).success
    with pytest.raises(ValueError, match="objective: casimir needs a smoothing"):
        backend.casimir_svrg_const(loss_of(backend, "hinge", *chains(backend)), lam=0.1)
