"""SGD step by step against its equations; Frank-Wolfe without a gap to reach."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.learners import WITH_EMPTY, chains, loss_of
from conformance.tolerances import close


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


def test_without_a_gap_to_reach_frank_wolfe_makes_all_its_passes(backend):
    """Even where the gap is 0 from the start: losses and features of nothing."""
    model = backend.SequenceModel(1, 2, cost=np.zeros((2, 2)))
    nothing = backend.StructuralHinge(model, model.pack([np.zeros((2, 1))], [[0, 1]]))
    result = backend.bcfw(nothing, lam=0.1, epochs=4, tol=None, rng=0)
    assert result.nit == 4 and result.message.startswith("4 epochs done")
    assert backend.bcfw(nothing, lam=0.1, epochs=4, tol=0.0, rng=0).nit < 4
