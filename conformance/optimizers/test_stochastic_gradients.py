"""SGD, SVRG and SAGA: steps are their equations, rates, compiled passes are the loops; SGD's first step size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import accelerated
import reference
from conformance.finite_sums import Logistic, bracket, optimum, random_logistic, total
from conformance.listed_svm import hinge, labelling, listed
from conformance.models.test_models import seeds
from conformance.specimens.learners import WITH_EMPTY, chains, loss_of, run
from conformance.specimens.models import MODELS, TAGGERS, labellings
from conformance.tolerances import close
from reference.algorithms import SAGA, SVRG
from reference.optimizers.sgd import SGD, SGDState
from reference.optimizers.subproblem import Subproblem
from reference.steps import Pegasos
from reference.training.counterparts import counterpart
from reference.training.smoothness import OffsetSearch


@pytest.fixture
def problem(backend):
    return loss_of(backend, "log loss", *chains(backend, lengths=WITH_EMPTY))


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


def test_numbers_of_schedules_are_positive(backend):
    """An offset may be 0."""
    steps = backend.steps
    for make, name in (
        (steps.Constant, "gamma0"),
        (steps.InverseTime, "gamma0"),
        (steps.InverseSqrt, "gamma0"),
        (lambda t0: steps.Steps(0.5, t0), "t0"),
        (steps.Pegasos, "offset"),
    ):
        for wrong in (-1.0, np.inf, np.nan, *([] if name == "offset" else [0.0])):
            with pytest.raises(ValueError, match=f"^{name}: expected a finite number > 0, got {wrong}"):
                make(wrong)
    assert steps.Pegasos(0)(np.array([1, 4]), 0.5).tolist() == [2.0, 0.5]


def test_default_steps_are_the_best_of_halvings(backend, problem):
    """On passes over a few examples, from min(1/(lam n), 1) on; oracle calls of the search are counted."""
    lam, n = 0.05, problem.n
    some = np.unique(np.linspace(0, n - 1, max(n // 50, 5)).astype(int))
    schedules = [backend.steps.Pegasos(max(n, 1 / lam) * 2.0**j) for j in range(12)]
    ends = []
    for schedule in schedules:
        box = backend.algorithms.SGD(lam, schedule)
        w = box.sweep(problem, box.init(problem, problem.zeros()), some).x
        ends.append(problem.value_and_gradient(w, some)[0] + 0.5 * lam * float(w @ w))
    best = int(np.argmin(ends))
    found = backend.sgd(problem, lam=lam, epochs=2, rng=1)
    close(found.x, backend.sgd(problem, lam=lam, step_size=schedules[best], epochs=2, rng=1).x)
    assert found.oracle_calls == 2 * n + 2 * len(some) * (best + 4)  # three more that are no lower


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_stochastic_subgradients_keep_their_rate(backend, rng, lam):
    """E F(w_bar) - F* <= 8 R^2/(lam (T + 1)) with steps 1/(lam t), the weighted average and examples drawn at random.

    R is the largest ||phi(x, y) - phi(x, y_i)||; then lam ||w_t|| <= R, and subgradients have norm 2 R at most. A pass
    over T drawn examples takes them in random order, which are draws again. From 10 to 160 steps the mean gap falls at
    least as 1/T does, up to chance.
    """
    X, Y = labelling(rng, (2, 1, 2, 1, 2), L=3)
    problem = listed(X, Y, 3, lam)
    low = bracket(hinge(backend, X, Y), lam)[0]
    R = max(np.max(np.linalg.norm(V, axis=1)) for V in problem.V)
    gaps = []
    for T in (10, 160):
        found = []
        for seed in range(4):
            drawn = np.random.default_rng(seed).integers(len(X), size=T)
            objective = hinge(backend, [X[i] for i in drawn], [Y[i] for i in drawn])
            options = {"step_size": backend.steps.Pegasos(), "epochs": 1, "average": "weighted"}
            result = backend.sgd(objective, lam=lam, rng=0, **options)
            found.append(problem.primal(result.x) - low)
        gaps.append(np.mean(found))
        assert 0 <= gaps[-1] <= 8 * R**2 / (lam * (T + 1))
    assert gaps[1] <= 2 * gaps[0] * 10 / 160


KINDS = ["sequences", "classes", "trees", *(f"tags {options}" for options in TAGGERS)]


def sequences(panel, rng, width=5):
    """Only the first five of ``width`` features occur."""
    model = panel.SequenceModel(width, 3, start_stop=False)
    X = [[sorted({*rng.integers(0, 5, 3).tolist()}) for _ in range(n)] for n in (2, 4, 1, 3)]
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X])


@pytest.mark.parametrize("of_loss", [True, False])
@pytest.mark.parametrize("kind", ["rare features", *KINDS])
def test_trials_agree(other, rng, kind, of_loss):
    """From weights that are not 0, so that those that no example of a trial touches count: they shrink."""
    seed, found = rng.integers(2**32), []
    some = np.array([0, 2])
    for panel in (reference, other):
        drawn = np.random.default_rng(seed)
        rare = kind == "rare features"
        model, data = sequences(panel, drawn) if rare else MODELS[kind].training(4, seed=seed).packed(panel)
        objective = panel.LogLoss(model, data) if of_loss else panel.StructuralHinge(model, data)
        box = counterpart(SGD(0.3, Pegasos(1.0)), objective)
        search, w = counterpart(OffsetSearch(), objective), drawn.normal(size=model.size)
        state = SGDState(w, w, 3)
        trial = search.trial(objective, box, state, some)
        found.append([trial(offset) for offset in (4.0, 64.0, 4.0)])
        assert found[-1][0] == found[-1][2]  # no trial changes the next one
        found[-1] += search.find(objective, box, state)
    close(found[1], found[0])


def test_a_trial_costs_its_examples():
    """Its bytes do not depend on the number of weights."""

    def peak(width):
        model, data = sequences(accelerated, np.random.default_rng(0), width)
        loss = accelerated.LogLoss(model, data)
        box, state = counterpart(SGD(0.3, Pegasos(1.0)), loss), SGDState(loss.zeros(), loss.zeros(), 0)
        trial = counterpart(OffsetSearch(), loss).trial(loss, box, state, np.array([0, 2]))
        trial(4.0)  # what is compiled or imported on first use
        tracemalloc.start()
        try:
            trial(8.0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert abs(peak(2**20) - peak(5)) < 2**12


boxes = pytest.mark.parametrize("box", [SVRG(average="last"), SVRG(average="uniform"), SAGA()], ids=str)
losses = pytest.mark.parametrize("loss", ["log loss", "entropy", "top-k"])
MU = {"log loss": None, "entropy": 0.5, "top-k": 0.5, "l2": 0.5}


def textbook(box, objective, w, order, table, gamma, lam, kappa, z, mu):
    """A pass of steps that solve 0 = (w' - w)/gamma + v + lam w' + kappa (w' - z), with a table (n, d) of gradients at
    the snapshot or, for SAGA, at each example's last visit.
    """
    iterates, table = [], table.copy()
    for i in order:
        g = objective.value_and_gradient(w, [i], mu)[1]
        v = g - table[i] + table.mean(axis=0)
        w = (w / gamma - v + kappa * z) / (1 / gamma + lam + kappa)
        iterates.append(w)
        if isinstance(box, SAGA):
            table[i] = g
    averaged = iterates and getattr(box, "average", "last") == "uniform"
    return np.mean(iterates, axis=0) if averaged else w, table


@boxes
@losses
@pytest.mark.parametrize("kappa", [0.0, 0.03, 2.0])
def test_a_pass_is_its_equation(backend, box, loss, kappa):
    """Some examples come twice in a pass, one not at all; SAGA's table goes from one pass to the next, and a pass that
    is taken back leaves the one that it was given.
    """
    objective, mu = loss_of(backend, loss, *chains(backend, lengths=WITH_EMPTY)), MU[loss]
    w, z = np.random.default_rng(0).normal(size=(2, objective.model.size))
    ours, subproblem = counterpart(box, objective), Subproblem(objective, 0.3, kappa, mu, z if kappa else None)
    table, memory = None, None
    for order in ([1, 3, 1, 4, 0], [4, 2, 2, 1], [0, 1, 2, 3, 4], []):
        if table is None or isinstance(box, SVRG):
            table = np.array([objective.value_and_gradient(w, [i], mu)[1] for i in range(objective.n)])
        order, start = np.array(order, np.int64), ours.snapshot(objective, w, mu)
        expected, table = textbook(box, objective, w, order, table, 0.2, 0.3, kappa, z, mu)
        first, calls, after = ours.one_pass(subproblem, start, order, 0.2, memory)
        again = ours.one_pass(subproblem, start, order, 0.2, memory)[0] if memory is not None else first
        np.testing.assert_allclose(first, expected, rtol=1e-10, atol=1e-11)
        np.testing.assert_array_equal(first, again)
        assert calls >= len(order)
        w, memory = first, after


def passes(objective, box, mu, lam=0.01, kappa=0.0, gamma=0.2, scale=1.0):
    """Of three passes of the backend's own, as Casimir makes them, the gradients where they start and the iterates
    after them; some examples may be left out of an order, others come twice.
    """
    rng, ours, memory = np.random.default_rng(12), counterpart(box, objective), None
    x, z = scale * rng.normal(size=(2, objective.model.size))
    subproblem = Subproblem(objective, lam, kappa, mu, z if kappa else None)
    for _ in range(3):
        order = rng.permutation(objective.n) if kappa else rng.integers(0, objective.n, objective.n)
        start = ours.snapshot(objective, x, mu)
        yield start.gradient
        x, _, memory = ours.one_pass(subproblem, start, order, gamma, memory)
        yield x


def agree(other, make, rtol=1e-10, **options):
    """Both panels' passes; ``make(panel)`` gives the objective."""
    for ours, theirs in zip(*(passes(make(panel), **options) for panel in (reference, other)), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=rtol, atol=rtol * max(1.0, np.abs(ours).max()))


def of_problem(problem, loss):
    return lambda panel: loss_of(panel, loss, *problem.packed(panel))


@boxes
@pytest.mark.parametrize("loss", ["log loss", "entropy"])
@pytest.mark.parametrize(("lam", "kappa"), [(0.0, 0.0), (0.1, 0.03), (1e7, 0.0), (0.0, 30.0)])
@seeds
def test_passes_agree(other, box, loss, lam, kappa, seed):
    """Also where a step shrinks the weights to a millionth."""
    agree(other, of_problem(MODELS["sequences"].draw(seed), loss), box=box, mu=MU[loss], lam=lam, kappa=kappa)


@boxes
@pytest.mark.parametrize("kappa", [0.0, 0.03])
@pytest.mark.parametrize("scale", [0.1, 1e3])
@pytest.mark.parametrize("loss", ["entropy", "top-k", "l2"])
def test_passes_agree_at_every_scale(other, box, rng, loss, scale, kappa):
    """Real features, so that no two scores tie and the panels find the same best outputs. At the
    large scale transitions are too far apart for probabilities: the answers come from the log domain."""
    X = [rng.normal(size=(n, 4)) for n in rng.integers(0, 6, 12)]
    problem = labellings(X, [rng.integers(0, 3, len(x)) for x in X], 4, 3)
    options = {"mu": 0.5, "lam": 0.1, "kappa": kappa, "gamma": 0.1 * min(scale, 1.0), "scale": scale}
    agree(other, of_problem(problem, loss), 1e-9, box=box, **options)
    if loss == "entropy" and scale < 1:  # features are rare: most rows wait for many steps, some for all of them
        X = [[rng.integers(0, 300, 4).tolist() for _ in range(n)] for n in rng.integers(0, 6, 60)]
        problem = labellings(X, [rng.integers(0, 3, len(x)) for x in X], 310, 3)
        agree(other, of_problem(problem, loss), box=box, mu=0.5, kappa=kappa)


@pytest.mark.parametrize("loss", ["log loss", "entropy"])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_linear_convergence_to_the_optimum(backend, loss, average):
    """The gap at least halves every ten passes, down to what the optimum is known to; the gradient's norm bounds it."""
    objective, mu = loss_of(backend, loss, *chains(backend, lengths=WITH_EMPTY)), MU[loss]
    lam = 0.5
    best = total(objective, optimum(objective, objective.model.size, lam, mu), lam, mu)
    result = backend.svrg(objective, lam=lam, mu=mu, epochs=40, average=average, rng=0)
    gaps = np.array([row.objective for row in result.history]) - best
    assert gaps.min() >= -1e-9
    assert all(gaps[k + 10] <= 0.5 * gaps[k] + 1e-9 for k in range(len(gaps) - 10))
    assert gaps[-1] <= 1e-6 * gaps[0]
    g = objective.value_and_gradient(result.x, None, mu)[1] + lam * result.x
    close(result.certificate, g @ g / (2 * lam))


@pytest.mark.parametrize("name", ["svrg", "casimir"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_plain_logistic_objective_of_any_scale(backend, rng, name, scale):
    """Steps are found without a constant, features scaled by ``scale`` and lam by its square: the same problem."""
    logistic = random_logistic(rng)
    scaled = Logistic(scale * logistic.A, -np.ones(logistic.n))
    lam = 0.05 * scale**2
    result = run(backend, name, scaled, np.zeros(4), lam=lam, epochs=300, tol=1e-10, rng=1)
    assert result.success and result.nit < 300
    close(result.fun, total(logistic, optimum(logistic, 4, 0.05), 0.05))
