"""SGD step by step against its equations; L-BFGS against the optimality conditions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.tolerances import close


class Quadratic:
    """mean_i 1/2 ||w - c_i||^2: a plain finite sum, with nothing of ours in it."""

    def __init__(self, centres):
        self.centres = np.asarray(centres, dtype=np.float64)
        self.n = len(self.centres)

    def zeros(self):
        return np.zeros(self.centres.shape[1])

    def value_and_gradient(self, w, batch=None, mu=None):
        difference = w - self.centres[np.arange(self.n) if batch is None else batch]
        return 0.5 * float((difference**2).sum(axis=1).mean()), difference.mean(axis=0)


@pytest.fixture
def problem(backend, rng):
    X, Y = [rng.normal(size=(n, 3)) for n in (2, 4, 1, 3, 0)], [rng.integers(0, 3, n) for n in (2, 4, 1, 3, 0)]
    model = backend.SequenceModel(3, 3)
    return backend.LogLoss(model, model.pack(X, Y))


def by_hand(objective, w, lam, steps, batch_size, epochs, seed):
    """All iterates of w <- w - gamma (g + lam w), batches in the order of one permutation an epoch."""
    rng, iterates, t = np.random.default_rng(seed), [], 0
    for _ in range(epochs):
        order = rng.permutation(objective.n)
        for first in range(0, objective.n, batch_size):
            t += 1
            w = w - steps(t) * (objective.value_and_gradient(w, order[first : first + batch_size])[1] + lam * w)
            iterates.append(w)
    return np.array(iterates)


@pytest.mark.parametrize("batch_size", [1, 2, 7])
@pytest.mark.parametrize("average", ["last", "uniform", "weighted"])
def test_sgd_is_its_equation(backend, problem, average, batch_size):
    w0 = np.random.default_rng(0).normal(size=problem.model.size)
    result = backend.sgd(problem, w0, lam=0.3, step_size=0.1, epochs=3, batch_size=batch_size, average=average, rng=4)
    iterates = by_hand(problem, w0, 0.3, lambda t: 0.1, batch_size, 3, 4)
    t = np.arange(1, len(iterates) + 1)
    weights = {"last": t == len(t), "uniform": np.ones(len(t)), "weighted": t}[average]
    close(result.x, (weights[:, None] * iterates).sum(axis=0) / weights.sum())
    close(result.fun, problem.value_and_gradient(result.x)[0] + 0.15 * result.x @ result.x)
    assert result.oracle_calls == 3 * problem.n == result.history[-1].oracle_calls
    assert [row.epoch for row in result.history] == [1, 2, 3] and result.nit == 3


def test_schedules_are_their_formulas(backend, problem):
    t, lam = np.arange(1, 9), 0.25
    formulas = [
        (backend.steps.Constant(0.5), lambda t: 0.5 + 0 * t),
        (backend.steps.InverseTime(0.5), lambda t: 0.5 / t),
        (backend.steps.InverseSqrt(0.5), lambda t: 0.5 / np.sqrt(t)),
        (backend.steps.Pegasos(), lambda t: 1 / (lam * t)),
        (backend.steps.Pegasos(offset=3), lambda t: 1 / (lam * (t + 3))),
        (backend.steps.Steps(0.5, 3), lambda t: 0.5 / (1 + t // 3)),
    ]
    for schedule, formula in formulas:
        close(schedule(t, lam), formula(t))
        result = backend.sgd(problem, lam=lam, step_size=schedule, epochs=2, average="last", rng=1)
        close(result.x, by_hand(problem, problem.zeros(), lam, formula, 1, 2, 1)[-1])
    result = backend.sgd(problem, lam=lam, epochs=2, average="last", rng=1)
    close(
        result.x,
        by_hand(problem, problem.zeros(), lam, lambda t: 1 / (lam * (t + max(problem.n, 1 / lam))), 1, 2, 1)[-1],
    )


def test_callbacks_stop_a_run(backend, problem):
    seen = []
    result = backend.sgd(problem, lam=0.1, epochs=9, rng=0, callback=lambda row, w: seen.append(row) or row.epoch == 2)
    assert [row.epoch for row in seen] == [1, 2] and result.nit == 2 and "callback" in result.message

    def stop(row, w):
        raise StopIteration

    assert backend.sgd(problem, lam=0.1, epochs=9, rng=0, callback=stop).nit == 1
    stopped = backend.lbfgs(problem, lam=0.1, callback=stop)
    assert stopped.nit == 1 and stopped.success and "callback" in stopped.message
    assert backend.sgd(problem, lam=0.1, epochs=9, callback=lambda row, w: np.float64(row.epoch) == 3).nit == 3


def test_rng_is_an_int_a_generator_or_none(backend, problem):
    options = {"lam": 0.1, "epochs": 2}
    one, two = backend.sgd(problem, rng=5, **options), backend.sgd(problem, rng=np.random.default_rng(5), **options)
    assert np.array_equal(one.x, two.x)
    assert not np.array_equal(one.x, backend.sgd(problem, rng=6, **options).x)
    assert backend.sgd(problem, **options).nit == 2


def test_no_epochs_is_the_start(backend, problem):
    w0 = np.random.default_rng(0).normal(size=problem.model.size)
    result = backend.sgd(problem, w0, lam=0.1, epochs=0)
    assert np.array_equal(result.x, w0) and result.history == ()
    close(result.fun, problem.value_and_gradient(w0)[0] + 0.05 * w0 @ w0)


def test_the_start_is_not_written_on(backend, problem):
    w0 = np.random.default_rng(0).normal(size=problem.model.size)
    before = w0.copy()
    backend.sgd(problem, w0, lam=0.1, epochs=1, rng=0)
    backend.lbfgs(problem, w0, lam=0.1, iterations=3)
    assert np.array_equal(w0, before)


def test_a_schedule_gives_one_step_for_each_batch(backend, problem):
    for schedule in (
        lambda t, lam: np.array([0.1]),
        lambda t, lam: 0.1,
        lambda t, lam: -0.1 * t,
        lambda t, lam: np.nan * t,
    ):
        with pytest.raises(ValueError, match="step_size: expected 5 finite steps >= 0"):
            backend.sgd(problem, lam=0.1, step_size=schedule)


def test_a_run_that_diverges_says_so(backend, problem):
    result = backend.sgd(problem, lam=1.0, step_size=1e200, epochs=5, rng=0)
    assert not result.success and "diverged in epoch" in result.message and result.nit < 5


def test_a_list_is_a_start(backend, problem):
    w0 = [0.5] * problem.model.size
    assert np.array_equal(
        backend.sgd(problem, w0, lam=0.1, epochs=1, rng=0).x,
        backend.sgd(problem, np.array(w0), lam=0.1, epochs=1, rng=0).x,
    )


def test_lbfgs_without_iterations_is_the_start(backend, problem):
    w0 = np.random.default_rng(0).normal(size=problem.model.size)
    result = backend.lbfgs(problem, w0, lam=0.1, iterations=0)
    assert np.array_equal(result.x, w0) and result.nit == 0 and not result.success


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -1.0}, "lam: expected a finite number >= 0, got -1.0"),
        ({"lam": 0.0}, "step_size: lam = 0 has no default step size"),
        ({"lam": 0.1, "epochs": -1}, "epochs: expected an integer >= 0, got -1"),
        ({"lam": 0.1, "batch_size": 0}, "batch_size: expected an integer >= 1, got 0"),
        ({"lam": 0.1, "average": "mean"}, "average: expected one of last, uniform, weighted, got 'mean'"),
        ({"lam": 0.1, "step_size": 0.0}, "gamma0: expected a finite number > 0"),
    ],
)
def test_bad_options_are_named(backend, problem, options, message):
    with pytest.raises(ValueError, match=message):
        backend.sgd(problem, **options)


def test_lbfgs_solves_and_certifies(backend, problem):
    lam = 0.1
    loose = backend.lbfgs(problem, lam=lam, tol=1e-2)
    tight = backend.lbfgs(problem, lam=lam, tol=1e-7)
    g = problem.value_and_gradient(tight.x)[1] + lam * tight.x
    assert np.abs(g).max() <= 1e-7 and tight.success
    assert 0 <= loose.fun - tight.fun <= loose.certificate
    objectives = [row.objective for row in tight.history]
    assert objectives == sorted(objectives, reverse=True) and tight.history[-1].objective == tight.fun
    assert not backend.lbfgs(problem, lam=lam, iterations=1, tol=0.0).success
    assert backend.lbfgs(problem, lam=0.0, iterations=2).certificate.startswith("none")


def test_lbfgs_on_a_plain_quadratic(backend, rng):
    centres = rng.normal(size=(20, 5))
    result = backend.lbfgs(Quadratic(centres), lam=0.5, tol=1e-10)
    close(result.x, centres.mean(axis=0) / 1.5)


def test_optimisers_work_in_every_namespace(backend, space, rng):
    X, Y = [rng.normal(size=(3, 2)) for _ in range(4)], [rng.integers(0, 2, 3) for _ in range(4)]
    model = backend.SequenceModel(2, 2)
    objective = backend.LogLoss(model, model.pack(X, Y, like=space.put(0.0)))
    plain = backend.LogLoss(model, model.pack(X, Y))
    for run in (lambda f: backend.sgd(f, lam=0.1, epochs=2, rng=0), lambda f: backend.lbfgs(f, lam=0.1, iterations=5)):
        x = space.get(run(objective).x)
        assert x.dtype == space.dtype
        close(x, run(plain).x, space.dtype, 50.0 if space.dtype == "float32" else None)


def test_without_a_gap_to_reach_frank_wolfe_makes_all_its_passes(backend, rng):
    """Even where the gap is 0 from the start: losses and features of nothing."""
    model = backend.SequenceModel(1, 2, cost=np.zeros((2, 2)))
    nothing = backend.StructuralHinge(model, model.pack([np.zeros((2, 1))], [[0, 1]]))
    model = backend.SequenceModel(2, 2)
    hinge = backend.StructuralHinge(model, model.pack([rng.normal(size=(3, 2)) for _ in range(3)], [[0, 1, 0]] * 3))
    for objective in (nothing, hinge):
        result = backend.bcfw(objective, lam=0.1, epochs=4, tol=None, rng=0)
        assert result.nit == 4 and result.success and result.message == "4 epochs done"
    assert backend.bcfw(nothing, lam=0.1, epochs=4, tol=0.0, rng=0).nit < 4


class InNumPyScalars(Quadratic):
    """A user's sum whose number of examples and values are scalars of NumPy, of low precision at that."""

    def __init__(self, centres):
        super().__init__(centres)
        self.n = np.int64(self.n)

    def value_and_gradient(self, w, batch=None, mu=None):
        value, gradient = super().value_and_gradient(w, batch, mu)
        return np.float32(value), gradient


@pytest.mark.parametrize("optimiser", ["lbfgs", "sgd", "svrg", "casimir", "bcfw", "online_proximal"])
def test_results_are_of_plain_numbers(backend, rng, optimiser):
    """So that JSON takes them: numbers of whatever type the objective gives, and the objectives of the package."""
    model = backend.SequenceModel(2, 2)
    data = model.pack([rng.normal(size=(3, 2)) for _ in range(3)], [[0, 1, 0]] * 3)
    options = {"mu": 0.5} if optimiser in ("sgd", "svrg", "casimir", "online_proximal") else {}
    runs = [
        backend.StructuralHinge(model, data, smoothing=None if optimiser == "bcfw" else backend.smoothings.Entropy())
    ]
    runs += [] if optimiser == "bcfw" else [InNumPyScalars(rng.normal(size=(4, 3)))]
    for objective in runs:
        options |= (
            {"regularizer": backend.L1(0.3), "step_size": 0.1} if optimiser == "online_proximal" else {"lam": 0.3}
        )
        result = getattr(backend, optimiser)(objective, **options)
        kinds = {
            "fun": (float,),
            "nit": (int,),
            "success": (bool,),
            "oracle_calls": (int,),
            "certificate": (float, str),
        }
        assert all(type(getattr(result, name)) in kind for name, kind in kinds.items())
        for row in result.history:
            fields = row.as_dict()
            assert all(type(value) in (int, float, type(None)) for value in fields.values())
            assert type(row.epoch) is type(row.oracle_calls) is int and json.loads(json.dumps(fields)) == fields
        assert result.history


@pytest.mark.parametrize("average", ["weighted", "uniform", "last"])
@pytest.mark.parametrize("optimiser", ["lbfgs", "sgd", "svrg", "casimir", "bcfw", "online_proximal"])
def test_callbacks_get_the_weights_of_the_row(backend, rng, optimiser, average):
    """Those that a run of so many passes returns: their objective is the row's, they stay what they are, the last
    are the result's.
    """
    model = backend.SequenceModel(2, 2)
    data = model.pack([rng.normal(size=(3, 2)) for _ in range(4)], [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    unsmoothed = backend.StructuralHinge(model, data)
    objective = (
        unsmoothed
        if optimiser == "bcfw"
        else backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    )
    options = {"mu": 0.5} if optimiser in ("lbfgs", "sgd", "svrg", "online_proximal") else {}
    if average in {
        "sgd": ("weighted", "uniform", "last"),
        "svrg": ("uniform", "last"),
        "bcfw": ("weighted", "last"),
        "online_proximal": ("uniform", "last"),
    }.get(optimiser, ()):
        options["average"] = average
    seen = []

    def callback(row, w):
        mu = 0.0 if optimiser in ("bcfw", "casimir") else 0.5
        close(row.objective, objective.value_and_gradient(w, mu=mu)[0] + 0.05 * w @ w)
        seen.append((w, w.copy()))
        return len(seen) == 5

    ridge = {"regularizer": backend.HalfSquaredL2(0.1), "step_size": 0.1}
    options |= ridge if optimiser == "online_proximal" else {"lam": 0.1}
    options |= {"tol": None} if optimiser in ("bcfw", "casimir") else {}
    options |= {} if optimiser == "lbfgs" else {"rng": 0}
    result = getattr(backend, optimiser)(objective, callback=callback, **options)
    assert len(seen) == len(result.history) == 5
    assert all(np.array_equal(w, then) for w, then in seen) and np.array_equal(seen[-1][0], result.x)


@pytest.mark.parametrize("optimiser", ["bcfw", "casimir"])
def test_the_callback_sees_the_epoch_that_reaches_tol(backend, optimiser):
    model = backend.MulticlassModel(n_features=2, labels=["a", "b"])
    data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])
    smoothing = None if optimiser == "bcfw" else backend.smoothings.Entropy()
    rows = []
    result = getattr(backend, optimiser)(
        backend.StructuralHinge(model, data, smoothing=smoothing),
        lam=0.1,
        tol=0.1,
        rng=0,
        callback=lambda row, w: rows.append(row),
    )
    assert result.success and "callback" not in result.message and rows == list(result.history)
