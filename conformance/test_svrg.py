"""SVRG: each step is its equation, runs converge linearly to the optimum of a generic solver, bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize

import reference
from conformance import strategies
from conformance.strategies import SequenceProblem
from conformance.test_models import sequence_model
from conformance.tolerances import close
from reference.optimizers import svrg as module
from reference.optimizers.smoothness import ComponentSteps, component_smoothness, secant


class Logistic:
    """mean_i log(1 + exp(-y_i <x_i, w>)): a plain finite sum, with nothing of ours in it; no zeros(), no smoothness()."""

    def __init__(self, X, y):
        self.A, self.n = -np.asarray(y)[:, None] * np.asarray(X), len(y)

    def value_and_gradient(self, w, batch=None, mu=None):
        A = self.A if batch is None else self.A[batch]
        z = A @ w
        return float(np.logaddexp(0.0, z).mean()), A.T @ (0.5 * (1 + np.tanh(0.5 * z))) / len(A)

    def smoothest(self):
        return 0.25 * (self.A**2).sum(axis=1).max()


class Parabolas:
    """mean_i curvature_i / 2 (w - centre_i)^2 in one dimension."""

    def __init__(self, curvature, centre):
        self.curvature, self.centre, self.n = np.asarray(curvature, float), np.asarray(centre, float), len(curvature)

    def zeros(self):
        return np.zeros(1)

    def value_and_gradient(self, w, batch=None, mu=None):
        i = np.arange(self.n) if batch is None else batch
        difference = w[0] - self.centre[i]
        return float((0.5 * self.curvature[i] * difference**2).mean()), np.array(
            [(self.curvature[i] * difference).mean()]
        )


def optimum(objective, size, lam, mu=None, kappa=0.0, center=0.0):
    """argmin F + lam/2 ||w||^2 + kappa/2 ||w - center||^2 by a generic solver, polished by Newton steps of differences."""

    def whole(w):
        value, g = objective.value_and_gradient(w, None, mu)
        off = w - center
        return value + 0.5 * lam * w @ w + 0.5 * kappa * off @ off, g + lam * w + kappa * off

    return minimize(whole, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-10}).x


def total(objective, w, lam, mu=None):
    return objective.value_and_gradient(w, None, mu)[0] + 0.5 * lam * w @ w


@pytest.fixture
def logistic(rng):
    return Logistic(rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], 30))


@pytest.fixture(params=["LogLoss", "smoothed hinge"])
def problem(backend, rng, request):
    """(objective, mu) over five short sequences, one of them empty."""
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 4, 1, 3, 0)], [rng.integers(0, 3, n) for n in (2, 4, 1, 3, 0)]
    model = backend.SequenceModel(3, 3)
    data = model.pack(X, Y)
    if request.param == "LogLoss":
        return backend.LogLoss(model, data), None
    return backend.StructuralHinge(model, data, smoothing=backend.Entropy()), 0.5


def run_epoch(objective, start, order, **options):
    """The objective's own epoch: the fused one where it has one."""
    fused = getattr(objective, "fused_epoch", lambda name: None)("svrg")
    return (fused or module.epoch)(start, objective, order, **options)


@pytest.mark.parametrize("kappa", [0.0, 0.03, 2.0])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_a_pass_is_its_equation(problem, average, kappa):
    """Each step solves 0 = (w' - w)/gamma + v + lam w' + kappa (w' - z); some examples come twice, one not at all."""
    objective, mu = problem
    rng = np.random.default_rng(0)
    s, z, gamma, lam = rng.normal(size=objective.model.size), rng.normal(size=objective.model.size), 0.2, 0.3
    start = module.snapshot(objective, s, mu)
    order, w, iterates = np.array([1, 3, 1, 4, 0]), s, []
    for i in order:
        g, g_s = (objective.value_and_gradient(x, [i], mu)[1] for x in (w, s))
        v = g - g_s + objective.value_and_gradient(s, None, mu)[1]
        w = (w / gamma - v + kappa * z) / (1 / gamma + lam + kappa)
        iterates.append(w)
    expected = iterates[-1] if average == "last" else np.mean(iterates, axis=0)
    options = {"step_size": gamma, "lam": lam, "kappa": kappa, "center": z if kappa else None, "mu": mu}
    close(run_epoch(objective, start, order, average=average, **options), expected)
    close(run_epoch(objective, start, order[:0], average=average, **options), s)


def test_the_mean_of_variance_reduced_gradients_is_the_full_gradient(problem):
    objective, mu = problem
    rng = np.random.default_rng(1)
    w, s = rng.normal(size=(2, objective.model.size))
    start = module.snapshot(objective, s, mu)
    each = [module.variance_reduced(w, start, objective, np.array([i]), mu) for i in range(objective.n)]
    close(np.mean(each, axis=0), objective.value_and_gradient(w, None, mu)[1])
    for i in range(objective.n):
        close(module.variance_reduced(s, start, objective, np.array([i]), mu), start.gradient)


@pytest.mark.parametrize("kappa", [0.0, 0.5])
def test_the_optimum_is_a_fixed_point(problem, kappa):
    objective, mu = problem
    z = np.random.default_rng(2).normal(size=objective.model.size)
    best = optimum(objective, objective.model.size, 0.1, mu, kappa, z)
    for average in ("last", "uniform"):
        options = {"step_size": 0.1, "lam": 0.1, "kappa": kappa, "center": z if kappa else None, "mu": mu}
        x = run_epoch(
            objective, module.snapshot(objective, best, mu), np.arange(objective.n), average=average, **options
        )
        np.testing.assert_allclose(x, best, atol=1e-6)


@pytest.mark.parametrize("average", ["last", "uniform"])
def test_linear_convergence_to_the_optimum(backend, problem, average):
    """The gap at least halves every ten passes, down to what the optimum is known to."""
    objective, mu = problem
    lam = 0.5
    best = total(objective, optimum(objective, objective.model.size, lam, mu), lam, mu)
    result = backend.svrg(objective, lam=lam, mu=mu, passes=80, average=average, rng=0)
    gaps = np.array([row.objective for row in result.history]) - best
    assert gaps.min() >= -1e-9
    assert all(gaps[k + 10] <= 0.5 * gaps[k] + 1e-9 for k in range(len(gaps) - 10))
    assert gaps[-1] <= 1e-6 * gaps[0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_plain_logistic_objective_of_any_scale(backend, logistic, scale):
    """Steps are found without a constant, features scaled by ``scale`` and lam by its square: the same problem."""
    scaled = Logistic(scale * logistic.A, -np.ones(logistic.n))
    lam = 0.05 * scale**2
    result = backend.svrg(scaled, np.zeros(4), lam=lam, passes=300, tol=1e-10, rng=1)
    assert result.success and result.nit < 300
    close(result.fun, total(logistic, optimum(logistic, 4, 0.05), 0.05))


def test_the_certificate_is_true(backend, problem):
    objective, mu = problem
    lam = 0.5
    best = total(objective, optimum(objective, objective.model.size, lam, mu), lam, mu)
    for tol in (1.0, 1e-2, 1e-5):
        result = backend.svrg(objective, lam=lam, mu=mu, passes=500, tol=tol, rng=0)
        g = objective.value_and_gradient(result.x, None, mu)[1] + lam * result.x
        assert result.success and result.certificate <= tol * result.fun
        close(result.certificate, g @ g / (2 * lam))
        close(result.fun, total(objective, result.x, lam, mu))
        assert result.fun - best <= result.certificate + 1e-12
        for row in result.history:
            assert row.objective - best <= row.gap + 1e-12 and row.dual <= best + 1e-12
            close(row.objective - row.dual, row.gap)
    stopped = backend.svrg(objective, lam=lam, mu=mu, passes=1, tol=1e-9, rng=0)
    assert not stopped.success and stopped.certificate > 1e-9 and stopped.nit == 1
    assert backend.svrg(objective, lam=0.0, mu=mu, passes=1, rng=0).certificate.startswith("none")


def test_calls_are_counted(backend, problem):
    """Every example counts once for the full gradient and once for its step; trials for the step size on top."""
    objective, mu = problem
    n = objective.n
    result = backend.svrg(objective, lam=0.1, mu=mu, step_size=0.01, passes=3, rng=0)
    assert [row.oracle_calls for row in result.history] == [2 * n, 4 * n, 6 * n] and result.oracle_calls == 6 * n
    assert [row.epoch for row in result.history] == [1, 2, 3] and result.nit == 3

    asked = []

    class Counting:
        n = objective.n

        def value_and_gradient(self, w, batch=None, mu=None):
            asked.append(n if batch is None else len(batch))
            return objective.value_and_gradient(w, batch, mu)

    found = backend.svrg(Counting(), objective.zeros(), lam=0.1, mu=objective.mu or mu, passes=3, rng=0)
    trials = found.oracle_calls - 6 * n
    assert trials > 0
    # the loop asks again for each example's gradient at the snapshot, and once for the objective at the end
    assert sum(asked) == 4 * n + 3 * 2 * n + trials
    seconds = [row.seconds for row in found.history]
    assert seconds == sorted(seconds)


# One component of curvature 50, fifty of 0.01: the average's smoothness is 1.
UNEVEN = Parabolas([50.0] + [0.01] * 50, [1.0] + [-1.0] * 50)
LAM = 1e-3
BEST = float((UNEVEN.curvature * UNEVEN.centre).mean() / (UNEVEN.curvature.mean() + LAM))


def test_the_smoothness_of_the_average_is_not_enough(backend):
    with_average = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (UNEVEN.curvature.mean() + LAM), passes=60, rng=0)
    assert not with_average.success and "shorter steps" in with_average.message
    over_components = backend.svrg(UNEVEN, lam=LAM, step_size=1 / (50 + LAM), passes=60, rng=0)
    assert over_components.success
    close(over_components.x, BEST)


def test_a_guess_that_is_too_small_is_taken_back(backend):
    """The rare component is seldom among the examples that L is tried on: passes that go wrong are repeated."""
    result = backend.svrg(UNEVEN, lam=LAM, passes=100, rng=3)
    objectives = [row.objective for row in result.history]
    assert np.all(np.diff(objectives) <= 1e-12) and "taken back" in result.message
    np.testing.assert_allclose(result.x, BEST, rtol=1e-3)


def test_a_known_smoothness_bounds_the_guess(backend):
    class Known(Parabolas):
        def smoothness(self, mu):
            return 50.0

    known = Known(UNEVEN.curvature, UNEVEN.centre)
    steps = ComponentSteps(known, None, LAM)
    order = np.arange(known.n)
    assert steps.at(np.zeros(1), order) == 1 / (50 + LAM) and not steps.guessed
    steps.judge(False)
    assert steps.at(np.zeros(1), order) == 1 / (50 + LAM)
    close(backend.svrg(known, lam=LAM, passes=100, rng=0).x, BEST, scale=1e3)


def test_component_smoothness_is_the_least_power_of_two_that_is_enough(logistic, rng):
    w, batch = rng.normal(size=4), np.arange(10)
    below, asked = secant(logistic, w, None, batch)
    assert 0 < below <= 0.25 * (logistic.A[batch] ** 2).sum(axis=1).max() and asked == 20

    def enough(L, i):
        value, g = logistic.value_and_gradient(w, [i])
        return logistic.value_and_gradient(w - g / L, [i])[0] <= value - g @ g / (2 * L) + 1e-13

    for start in (1e-3, 0.3, below):
        L, calls = component_smoothness(logistic, w, None, batch, start)
        doublings = np.log2(L / start)
        assert doublings == round(doublings) >= 0 and calls == 20 + doublings
        assert all(enough(L, i) for i in batch)
        assert start == L or not all(enough(L / 2, i) for i in batch)
    L, _ = component_smoothness(logistic, w, None, batch, 1e-12)
    assert 0.5 * (logistic.A[batch] ** 2).sum(axis=1).max() >= L


def test_parabolas_have_their_curvature():
    order = np.arange(3)
    parabolas = Parabolas([3.0, 0.5, 0.0], [1.0, 2.0, 0.0])
    close(secant(parabolas, np.zeros(1), None, order)[0], 3.0)
    assert component_smoothness(parabolas, np.zeros(1), None, order, 3.0)[0] == 3.0
    assert component_smoothness(parabolas, np.zeros(1), None, order, 0.75)[0] == 3.0
    assert component_smoothness(parabolas, np.zeros(1), None, order[:0], 0.75) == (0.75, 0)


def test_no_curvature_and_no_regulariser_give_no_step(backend):
    flat = Parabolas([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="step_size: no curvature was found at the start and lam = 0"):
        backend.svrg(flat, lam=0.0)
    result = backend.svrg(flat, [1.0], lam=0.5, passes=60, rng=0)
    assert result.success and abs(result.x[0]) < 1e-5


def test_same_rng_same_run_and_the_start_is_kept(backend, problem):
    objective, mu = problem
    w0 = np.random.default_rng(0).normal(size=objective.model.size)
    before = w0.copy()
    options = {"lam": 0.1, "mu": mu, "passes": 2}
    one = backend.svrg(objective, w0, rng=5, **options)
    assert np.array_equal(one.x, backend.svrg(objective, w0, rng=np.random.default_rng(5), **options).x)
    assert not np.array_equal(one.x, backend.svrg(objective, w0, rng=6, **options).x)
    assert np.array_equal(one.x, backend.svrg(objective, w0.tolist(), rng=5, **options).x)
    assert np.array_equal(w0, before)
    nothing = backend.svrg(objective, w0, lam=0.1, mu=mu, passes=0)
    assert np.array_equal(nothing.x, w0) and nothing.history == () and nothing.oracle_calls == 0
    close(nothing.fun, total(objective, w0, 0.1, mu))


def test_a_callback_stops_a_run(backend, problem):
    objective, mu = problem
    seen = []
    result = backend.svrg(objective, lam=0.1, mu=mu, rng=0, callback=lambda row: seen.append(row) or row.epoch == 2)
    assert [row.epoch for row in seen] == [1, 2] and result.nit == 2 and "callback" in result.message


def test_a_run_that_diverges_says_so(backend, problem):
    objective, mu = problem
    result = backend.svrg(objective, lam=0.0, mu=mu, step_size=1e200, passes=9, rng=0)
    assert not result.success and "shorter steps" in result.message
    steep = backend.svrg(UNEVEN, lam=0.0, step_size=1e100, passes=9, rng=0)
    assert not steep.success and "diverged in pass" in steep.message and steep.nit < 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -1.0}, "lam: expected a finite number >= 0, got -1.0"),
        ({"lam": np.nan}, "lam: expected a finite number >= 0, got nan"),
        ({"lam": 0.1, "passes": -1}, "passes: expected an integer >= 0, got -1"),
        ({"lam": 0.1, "average": "weighted"}, "average: expected one of last, uniform, got 'weighted'"),
        ({"lam": 0.1, "step_size": 0.0}, "step_size: expected a finite number > 0, got 0.0"),
        ({"lam": 0.0, "tol": 1e-3}, "tol: expected a number >= 0, and lam > 0"),
        ({"lam": 0.1, "tol": np.nan}, "tol: expected a number >= 0"),
    ],
)
def test_bad_options_are_named(backend, options, message):
    with pytest.raises(ValueError, match=message):
        backend.svrg(UNEVEN, **options)


def test_an_unsmoothed_hinge_is_refused(backend, problem):
    objective, _ = problem
    if objective.mu == 0:
        for mu in (None, 0.0):
            with pytest.raises(ValueError, match="mu: svrg needs a smooth objective: give mu > 0"):
                backend.svrg(objective, lam=0.1, mu=mu)
        with pytest.raises(ValueError, match="mu"):
            backend.svrg(backend.StructuralHinge(objective.model, objective.data), lam=0.1, mu=0.5)


def test_svrg_works_in_every_namespace(backend, space, rng):
    X, Y = [rng.normal(size=(3, 2)) for _ in range(4)], [rng.integers(0, 2, 3) for _ in range(4)]
    model = backend.SequenceModel(2, 2)
    objective = backend.LogLoss(model, model.pack(X, Y, like=space.put(0.0)))
    plain = backend.LogLoss(model, model.pack(X, Y))
    for options in ({"step_size": 0.05}, {"average": "uniform", "tol": 1e-3}):
        result = backend.svrg(objective, lam=0.1, passes=3, rng=0, **options)
        x = space.get(result.x)
        assert x.dtype == space.dtype
        expected = backend.svrg(plain, lam=0.1, passes=3, rng=0, **options)
        close(x, expected.x, space.dtype, 50.0 if space.dtype == "float32" else None)


def passes_of(backend, problem, lam, kappa, average, mu, gamma=0.2):
    """Three passes with the backend's own epoch, as Casimir makes them; the iterates after each."""
    model, data = sequence_model(backend, problem)
    loss = (
        backend.LogLoss(model, data)
        if mu is None
        else backend.StructuralHinge(model, data, smoothing=backend.Entropy())
    )
    rng = np.random.default_rng(12)
    x, z = rng.normal(size=(2, model.size))
    options = {"step_size": gamma, "lam": lam, "kappa": kappa, "mu": mu, "average": average}
    for _ in range(3):
        order = rng.permutation(loss.n)
        x = run_epoch(loss, module.snapshot(loss, x, mu), order, center=z if kappa else None, **options)
        yield x


@pytest.mark.parametrize("mu", [None, 0.5])
@pytest.mark.parametrize("average", ["last", "uniform"])
@pytest.mark.parametrize(("lam", "kappa"), [(0.0, 0.0), (0.1, 0.03), (1e7, 0.0), (0.0, 30.0)])
@given(problem=strategies.sequence_problems())
def test_fused_passes_agree(other, mu, average, lam, kappa, problem):
    """Rows that wait and catch up, against the dense loop, to rounding; also where a step shrinks the weights to a millionth."""
    for ours, theirs in zip(
        passes_of(reference, problem, lam, kappa, average, mu),
        passes_of(other, problem, lam, kappa, average, mu),
        strict=True,
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("average", ["last", "uniform"])
@pytest.mark.parametrize("kappa", [0.0, 0.03])
def test_fused_passes_agree_where_features_are_rare(other, average, kappa, rng):
    """Most rows wait for many steps, some for all of them."""
    X = [[rng.integers(0, 300, 4).tolist() for _ in range(n)] for n in rng.integers(0, 6, 60)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    problem = SequenceProblem(X, Y, 310, 3, {})
    for ours, theirs in zip(
        passes_of(reference, problem, 0.01, kappa, average, 0.5),
        passes_of(other, problem, 0.01, kappa, average, 0.5),
        strict=True,
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-11, atol=1e-11 * np.abs(ours).max())


@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
@pytest.mark.parametrize("kappa", [0.0, 0.03])
def test_fused_passes_over_the_best_outputs_agree(other, kappa, smoothing):
    """From random weights with real features no two scores tie, so the panels find the same outputs."""
    words = reference.load_letters().take(np.arange(20))
    found = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        kind = b.TopK(5) if smoothing == "TopK" else b.SquaredL2(16)
        loss = b.StructuralHinge(model, model.pack(words.X, words.Y), smoothing=kind)
        x, z = 0.1 * np.random.default_rng(0).normal(size=(2, model.size))
        options = {"step_size": 0.02, "lam": 0.01, "kappa": kappa, "center": z if kappa else None, "mu": 1.0}
        for average in ("uniform", "last"):
            x = run_epoch(loss, module.snapshot(loss, x, 1.0), np.arange(20), average=average, **options)
        found.append(x)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11)


def test_runs_agree_with_their_steps_found(other):
    """Both panels find the same step sizes, take back the same passes, and arrive at the same weights: real words."""
    words = reference.load_letters().take(np.arange(40))
    runs = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        loss = b.LogLoss(model, model.pack(words.X, words.Y))
        runs.append(b.svrg(loss, lam=0.01, passes=3, rng=0))
    ours, theirs = runs
    np.testing.assert_allclose(theirs.x, ours.x, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(theirs.certificate, ours.certificate, rtol=1e-9)
    assert theirs.oracle_calls == ours.oracle_calls and theirs.message == ours.message


@pytest.mark.parametrize("mu", [None, 0.5])
def test_compiled_trials_of_a_smoothness_agree(other, rng, mu):
    """The same power of two after the same number of calls, with features that occur several times in a sequence."""
    X = [rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.7) for n in (2, 5, 1, 0, 9, 3)]
    problem = SequenceProblem(X, [rng.integers(0, 3, len(x)) for x in X], 3, 3, {})
    for scale, start in ((0.0, 1e-3), (1.0, 0.5), (10.0, 1e-6)):
        found = []
        w = scale * rng.normal(size=24)
        for b in (reference, other):
            model, data = sequence_model(b, problem)
            smooth = b.LogLoss(model, data) if mu is None else b.StructuralHinge(model, data, smoothing=b.Entropy())
            steps = ComponentSteps(smooth, mu, 0.0)
            found.append(steps.find(smooth, w, mu, np.array([4, 1, 3, 0, 4]), start))
        assert found[0] == found[1]
        assert found[0][0] > start
