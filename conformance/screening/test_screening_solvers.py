"""Solving with screening: the listed optimum whatever the rule, true certificates, any solver; paths."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from conformance.specimens.learners import chains, loss_of
from conformance.specimens.rules import (
    ALPHAS,
    LISTED,
    duplicates,
    every_problem,
    feasible,
    optimum,
    random_classes,
    random_list,
    rules,
    words,
)
from conformance.tolerances import close
from reference.screening.dynamic import Screened
from reference.screening.proximal import proximal_step
from reference.screening.scored import scored_of
from reference.screening.solvers import solve_problem


class Watched:
    """A rule, and the weights of the whole problem that it has removed."""

    def __init__(self, rule, size):
        self.rule, self.removed = rule, np.zeros(size, dtype=bool)

    def screen(self, state):
        screened = self.rule.screen(state)
        self.removed[np.asarray(state.problem.columns)[screened]] = True
        return screened


def ways(backend, listed, alpha):
    """No rule, the l1 rule, and all together with each solver; then a solver that leaves its problems to the other at
    once, and one that skips no zeros."""
    l1, newton, gradients = backend.L1GapRule(), backend.ProximalNewton, backend.AcceleratedProximalGradient
    every = backend.UnionRule(*rules(backend, listed, alpha))
    yield from itertools.product((None, l1, every), (newton(), gradients()))
    yield from ((l1, newton(memory=2, largest=1)), (l1, gradients(skip_zeros=False)))


@every_problem
@pytest.mark.parametrize("alpha", ALPHAS)
def test_solutions_are_the_listed_optimum(backend, rng, make, alpha):
    """Objectives within the gap, weights within 2 sqrt(2 gap/(alpha beta)); screened weights are 0 at the optimum:
    each solver with each rule."""
    objective, listed_at = make(backend, rng)
    beta, tol = 0.3 * backend.beta_max(objective), 1e-9
    listed = listed_at(alpha, beta)
    best, _, gap = optimum(listed)
    least, size = listed.primal(best), np.max(np.abs(best))
    unsure = np.sqrt(2 * max(gap, 0.0) / (alpha * beta)) if alpha > 0 else 1e-5 * size  # of the listed optimum itself
    for rule, solver in ways(backend, make in LISTED, alpha):
        watched = rule and Watched(rule, listed.d)
        result = backend.solve_sparse(objective, alpha=alpha, beta=beta, tol=tol, rule=watched, solver=solver)
        x = np.asarray(result.x)
        assert isinstance(result, backend.SparseResult) and result.success
        assert 0 <= result.certificate <= tol * result.fun
        close(result.fun, listed.primal(x), scale=least)
        assert -1e-14 * least <= result.fun - least <= result.certificate + 1e-12 * least
        if alpha > 0:
            assert np.linalg.norm(x - best) <= 2 * np.sqrt(2 * result.certificate / (alpha * beta)) + 1e-9 * size
        assert np.array_equal(result.support, np.flatnonzero(x))
        for row in result.history:
            assert row.objective - least <= row.gap + 1e-12 * least and row.dual <= least * (1 + 1e-12)
        kept = [s.kept for s in result.screenings]
        assert kept == sorted(kept, reverse=True) and (rule is not None) == bool(kept)
        if watched:
            assert np.sum(watched.removed) == listed.d - kept[-1] and not np.any(x[watched.removed])
            assert np.all(np.abs(best[watched.removed]) <= unsure)


@pytest.mark.parametrize("make", [random_classes, words], ids=lambda make: make.__name__)
def test_screening_removes_nearly_all_zeros(backend, rng, make):
    """Rejection rises to the share of zeros that are not at beta; each screening waits for the gap to fall by gamma."""
    objective, listed_at = make(backend, rng)
    for gamma in (0.9, 0.1):
        beta = 0.4 * backend.beta_max(objective)
        result = backend.solve_sparse(objective, beta=beta, tol=1e-12, gamma=gamma)
        listed = listed_at(1.0, beta)
        moment = np.abs(listed.moment(listed.theta(np.asarray(result.x))))
        clear, zeros = int(np.sum(moment < beta * (1 - 1e-3))), listed.d - len(result.support)
        assert 0 < clear <= listed.d - result.screenings[-1].kept <= zeros
        close(result.rejection[-1], (listed.d - result.screenings[-1].kept) / zeros)
        close(result.reservation, [s.kept / listed.d for s in result.screenings])
        gaps = {row.epoch: row.gap for row in result.history}
        for before, after in zip(result.screenings, result.screenings[1:], strict=False):
            assert gaps[after.iteration] < gamma * before.gap
            between = range(before.iteration + 1, after.iteration)
            assert all(gaps[k] >= gamma * before.gap for k in between)
        assert result.work < listed.d * result.nit


class Memory(NamedTuple):
    state: Any
    calls: int


class Ista:
    """A solver of one's own: proximal gradient with a fixed step."""

    narrowed = 0

    def start(self, state, before=None):
        return Memory(state, 0)

    def step(self, memory):
        state = memory.state
        x = proximal_step(state.problem, state.w, state.gradient, 10.0)
        return Memory(state.problem.evaluate(x), memory.calls + state.problem.n)

    def narrow(self, memory, state, columns):
        assert state.problem.size == len(columns) == len(state.w) < len(memory.state.w)
        self.narrowed += 1
        return memory._replace(state=state)


def test_any_solver_can_be_wrapped(backend, rng):
    objective, listed_at = random_classes(backend, rng)
    beta = 0.3 * backend.beta_max(objective)
    listed = listed_at(1.0, beta)
    ista = Ista()
    result = backend.solve_sparse(objective, beta=beta, tol=1e-10, solver=ista)
    assert result.success and ista.narrowed > 0
    close(result.fun, listed.primal(listed.solve()))
    assert result.oracle_calls == objective.n * (result.nit + 1)
    path = backend.sparse_path(objective, count=3, ratio=0.5, solver=Ista())
    assert all(point.success for point in path.points)


def test_weights_that_are_not_zero_may_be_screened(backend, rng):
    """From a start far off: what leaves is dropped, and the state is that of the rest."""
    objective, listed_at = random_list(backend, rng)
    beta = 0.9 * backend.beta_max(objective)
    best = listed_at(1.0, beta).solve()

    class Oracle:
        """Knows the optimum."""

        def screen(self, state):
            whole = state.problem.size == len(best)
            return (best == 0) if whole else np.zeros(state.problem.size, dtype=bool)

    w0 = rng.normal(size=len(best))
    result = backend.solve_sparse(objective, w0, beta=beta, tol=1e-12, rule=Oracle())
    assert result.screenings[0].kept == np.sum(best != 0) < len(best)
    close(result.fun, listed_at(1.0, beta).primal(best))
    np.testing.assert_allclose(result.x, best, atol=1e-5)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=beta)
    box = Screened(backend.AcceleratedProximalGradient(), Oracle(), 0.5)
    before = box.start(problem, w0)
    after = box.screened(before)
    assert after.gap == after.memory.state.gap != before.memory.state.gap  # the next screening waits for half of it


class Counted:
    """A log loss by its scores that counts what it is asked, in all that is left of it."""

    def __init__(self, scored, count):
        self.scored, self.count = scored, count

    def __getattr__(self, name):
        found = getattr(self.scored, name)
        if name == "narrow":
            return lambda *arguments: Counted(found(*arguments), self.count)
        if name in self.count:
            self.count[name] += 1
        return found


@pytest.mark.parametrize("make", [random_classes, random_list, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("solver", ["AcceleratedProximalGradient", "ProximalNewton"])
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_products_are_counted(backend, rng, make, solver, alpha):
    """An iteration takes one product each way, but for steps that are tried again; no other inference than is
    counted, also from weights that are not 0 and are screened."""
    objective, _ = make(backend, rng)
    scored, problem = scored_of(objective), backend.ElasticNetCRF(objective, alpha=alpha, beta=1.0)
    made, rule = getattr(backend, solver)(), backend.L1GapRule()
    for beta, w0 in ((0.5, None), (0.1, None), (0.3, rng.normal(size=problem.size))):
        count = dict.fromkeys(("forward", "loss", "loss_and_gradient", "losses"), 0)
        problem = problem.with_beta(beta * backend.beta_max(objective))
        problem.scored = Counted(scored, count)
        result, memory = solve_problem(problem, w0, 1e-6, rule, 0.5, made, 100)
        assert result.success and 1 < result.nit <= (15 if solver == "ProximalNewton" and alpha > 0 else 100)
        assert count["loss"] + count["loss_and_gradient"] + count["losses"] == result.oracle_calls / objective.n
        if alpha == 0 or w0 is not None:
            continue  # steps along which the dual point is far are taken again more often
        tried_again = count["loss"] - result.nit if solver == "AcceleratedProximalGradient" else 1
        assert count["forward"] <= result.nit + tried_again + 3 and tried_again <= 0.3 * result.nit + 2
        assert count["loss_and_gradient"] <= result.nit + tried_again + 3 and count["losses"] == 0
        count.update(dict.fromkeys(count, 0))
        problem.with_beta(0.9 * problem.beta).resumed(memory.state)
        if solver == "ProximalNewton" and scored.keeps:
            assert not any(count[name] for name in ("forward", "loss", "loss_and_gradient"))


@pytest.mark.parametrize("make", [random_classes, duplicates, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_far_starts_and_no_tolerance(backend, rng, make, alpha):
    """From weights at which one output has all the probability: F is flat there, and no model of it is of use. tol = 0
    is as near as floating point gets, not as long as there are iterations."""
    objective, listed_at = make(backend, rng)
    beta = 0.3 * backend.beta_max(objective)
    listed = listed_at(alpha, beta)
    least, w0 = listed.primal(listed.solve()), rng.normal(size=listed.d)
    options = [
        {"w0": scale * w0, "rule": rule, "tol": 1e-8}
        for scale in ((1e1, 1e3, 1e6) if alpha > 0 else (1e1,))  # the lasso goes back by a fixed length a step
        for rule in (None, backend.L1GapRule())
    ]
    solvers = backend.ProximalNewton(), backend.AcceleratedProximalGradient()
    for each in (*options, *({"solver": solver, "tol": 0.0} for solver in solvers)):
        result = backend.solve_sparse(objective, **{"w0": None, "alpha": alpha, "beta": beta, **each})
        tol = each["tol"] or 1e-13
        assert result.success and 0 < result.nit < 2000 and result.fun - least <= tol * result.fun
        x = np.asarray(result.x)
        gap = listed.primal(x) + listed.dual(feasible(listed, listed.theta(x)))
        assert gap - 1e-15 * least <= result.certificate <= tol * result.fun


def test_a_solver_that_is_too_slow_makes_way(backend, rng, monkeypatch):
    """Where ten steps do not halve the gap, or a step cannot be taken, gradients go on, with momentum and over what
    is left."""
    objective, listed_at = random_classes(backend, rng)
    beta = 0.1 * backend.beta_max(objective)
    listed = listed_at(1.0, beta)
    scored = scored_of(objective)
    for wrong in (
        lambda H, q, w, alpha, beta: w,
        lambda H, q, w, alpha, beta: w - 1e-7 * q,
        lambda H, q, w, alpha, beta: w + 9 * q,
    ):
        monkeypatch.setattr(type(scored), "descend", lambda self, *arguments, wrong=wrong: wrong(*arguments))
        result = backend.solve_sparse(objective, beta=beta, tol=1e-9)
        assert result.success and result.nit > 10 and result.screenings[-1].kept < listed.d
        close(result.fun, listed.primal(listed.solve()))


def test_what_a_rule_or_a_solver_gives_is_checked(backend, rng):
    objective, _ = random_classes(backend, rng)
    for answer in (None, [], np.arange(5), np.ones(3, bool), np.zeros(12), np.ones(13, bool)):
        give = lambda *_, answer=answer: answer  # noqa: E731
        with pytest.raises(ValueError, match=r"rule: expected screen\(state\) to give 12 booleans, got"):
            backend.solve_sparse(objective, beta=0.1, rule=SimpleNamespace(screen=give))
        with pytest.raises(TypeError, match="solver: expected start to give a memory with state and calls"):
            backend.solve_sparse(objective, beta=0.1, solver=SimpleNamespace(start=give, step=give, narrow=give))


def test_a_pair_of_weights_that_have_left_is_forgotten(backend, rng):
    """Of a move along one weight nothing is left without it: <move, change> = 0 tells of no curvature, and the BFGS
    matrix would be singular."""
    objective, _ = words(backend, rng)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.3 * backend.beta_max(objective))
    solver, alone = backend.ProximalNewton(), np.eye(1, problem.size)
    memory = solver.step(solver.start(problem.evaluate(np.zeros(problem.size))))
    moves, changes = np.concatenate([memory.moves, alone]), np.concatenate([memory.changes, 2 * alone])
    columns = np.arange(1, problem.size)
    state, _ = problem.narrowed(memory.state, columns)
    narrowed = solver.narrow(memory._replace(moves=moves, changes=changes), state, columns)
    assert len(narrowed.moves) == len(narrowed.changes) == 1
    assert solver.step(narrowed).state.fun < state.fun


# paths ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [random_classes, duplicates, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-10])
def test_a_path_is_its_problems(backend, rng, make, alpha, tol):
    objective, listed_at = make(backend, rng)
    most, options = backend.beta_max(objective), {"alpha": alpha, "count": 4, "ratio": 0.1, "tol": tol}
    path, without = (backend.sparse_path(objective, **options, **rule) for rule in ({}, {"rule": None}))
    np.testing.assert_allclose(path.betas, most * 0.1 ** (np.arange(4) / 3))
    assert isinstance(path, backend.SparsePath)
    assert path.betas[0] == path.beta_max == most and path.alpha == alpha
    first = path.points[0]
    assert first.iterations == 0 and 0 < first.gap < 1e-12 and first.nonzeros == 0 and not np.any(path.weights(0))
    for k, (point, plain) in enumerate(zip(path.points, without.points, strict=True)):
        listed = listed_at(alpha, point.beta)
        least = listed.primal(listed.solve())
        assert point.success and point.gap <= tol * point.fun
        close(point.fun, listed.primal(np.asarray(path.weights(k))))
        for each in (point, plain):
            assert -1e-12 * least <= each.fun - least <= each.gap + 1e-12 * least
        assert np.array_equal(point.support, np.flatnonzero(path.weights(k))) and point.screenings[0].iteration == 0
        assert len(point.rejection) == len(point.reservation) == len(point.screenings)
    work, whole = (sum(p.work for p in each.points) for each in (path, without))
    assert work < whole or (work == whole and (make is duplicates or tol > 1e-3))
    assert path.seconds >= sum(p.solver_seconds for p in path.points)


def test_steps_of_a_path_screen_before_they_start(backend, rng):
    """Close values of beta: the last solution's small gap removes weights before the first iteration."""
    objective, _ = random_classes(backend, rng)
    most = backend.beta_max(objective)
    path = backend.sparse_path(objective, most * np.array([0.5, 0.499, 0.498]), tol=1e-9)
    assert all(point.screenings[0].kept < path.size for point in path.points[1:])


@pytest.mark.parametrize("make", [random_list, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{}, {"largest": 2}, {"memory": 1}], ids=str)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_values_in_any_order_beyond_the_largest(backend, rng, make, options, alpha):
    """All weights may leave and come back, whatever a solver remembers of them."""
    objective, listed_at = make(backend, rng)
    betas = backend.beta_max(objective) * np.array([0.2, 1.5, 2.0, 0.5, 0.1])
    solver = backend.ProximalNewton(**options)
    path = backend.sparse_path(objective, betas, alpha=alpha, tol=1e-10, solver=solver)
    for beta, point in zip(betas, path.points, strict=True):
        listed = listed_at(alpha, beta)
        assert point.success and (point.nonzeros == 0) == (beta > path.beta_max)
        close(point.fun, listed.primal(listed.solve()))


@pytest.mark.parametrize("make", [random_list, words], ids=lambda make: make.__name__)
@pytest.mark.parametrize("solver", ["ProximalNewton", "AcceleratedProximalGradient"])
def test_a_path_of_pairs_is_its_problems(backend, rng, make, solver):
    """Each point is that of its pair alone within both certificates; what was screened at the last pair's solution is 0
    at the optimum with every output listed, also where alpha falls to 0 and rises again.
    """
    objective, listed_at = make(backend, rng)
    betas = backend.beta_max(objective) * np.array([0.7, 0.5, 0.5, 0.3, 0.3, 0.1])
    alphas, options = [3.0, 0.5, 0.0, 2.0, 1e-3, 1.0], {"tol": 1e-7, "solver": getattr(backend, solver)()}
    path, removed = backend.sparse_path(objective, betas, alpha=np.array(alphas), **options), 0
    assert np.isnan(path.alpha) and [point.alpha for point in path.points] == alphas
    for k, (alpha, beta, point) in enumerate(zip(alphas, betas, path.points, strict=True)):
        alone = backend.solve_sparse(objective, alpha=alpha, beta=beta, **options)
        listed, w = listed_at(alpha, beta), np.asarray(path.weights(k))
        assert point.success and -alone.certificate <= point.fun - alone.fun <= point.gap
        close(point.fun, listed.primal(w))
        best = listed.solve()
        assert point.fun - point.gap <= listed.primal(best) * (1 + 1e-12)
        for screening in point.screenings if alpha > 0 else ():
            assert screening.kept >= np.sum(np.abs(best) > 1e-5)
            removed += path.size - screening.kept
    assert removed > 0
    assert backend.sparse_path(objective, betas, alpha=[2.0] * 6, **options).alpha == 2.0


def test_a_callback_sees_copies_and_ends_a_path(backend, rng):
    objective, _ = random_list(backend, rng)
    most, seen = backend.beta_max(objective), []
    path = backend.sparse_path(objective, count=3, callback=seen.append)
    assert [repr(point) for point in seen] == [repr(point) for point in path.points]
    for point, own in zip(path.points, seen, strict=True):  # the path's arrays are out of a callback's reach
        for there, here in ((point.values, own.values), (point.support, own.support)):
            assert np.array_equal(there, here) and not np.shares_memory(there, here) and not here.flags.writeable
    short = backend.sparse_path(objective, count=5, callback=lambda point: point.beta < most)
    assert len(short.points) == 2
    assert len(backend.sparse_path(objective, count=1).points) == 1


def test_an_interrupt_ends_a_path(backend, rng):
    objective, _ = random_classes(backend, rng)

    class Interrupting(backend.AcceleratedProximalGradient):
        def step(self, memory):
            if memory.state.problem.beta < 0.5 * backend.beta_max(objective):
                raise KeyboardInterrupt
            return super().step(memory)

    path = backend.sparse_path(objective, count=5, solver=Interrupting())
    assert path.interrupted and len(path.points) == 3 and not path.points[-1].success


def test_paths_in_every_namespace(backend, space):
    objective = loss_of(backend, "log loss", *chains(backend, space.put(0.0)))
    path = backend.sparse_path(objective, [0.3 * backend.beta_max(objective)], tol=1e-3)
    assert space.get(path.weights(0)).dtype == space.dtype and path.points[0].success
