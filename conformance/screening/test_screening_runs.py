"""Runs with screening: how they end, what they refuse, namespaces, rules and solvers of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.learners import chains, loss_of
from conformance.specimens.rules import random_classes, words


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("solver", ["ProximalNewton", "AcceleratedProximalGradient"])
def test_no_tolerance_ends_at_the_unit_of_rounding(backend, rng, alpha, solver):
    """tol = 0 is as near as floating point gets, not as long as there are iterations."""
    objective, listed_at = random_classes(backend, rng)
    beta = 0.2 * backend.beta_max(objective)
    result = backend.solve_sparse(objective, alpha=alpha, beta=beta, tol=0.0, solver=getattr(backend, solver)())
    listed, x = listed_at(alpha, beta), np.asarray(result.x)
    theta = listed.theta(x) if alpha > 0 else listed.shrunken(listed.theta(x))
    assert result.success and 0 < result.nit < 2000
    assert listed.primal(x) + listed.dual(theta) <= result.certificate <= 1e-13 * result.fun


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


# paths ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [None, [], np.arange(5), np.ones(3, bool), np.zeros(12), np.ones(13, bool)], ids=repr
)
def test_what_a_rule_or_a_solver_gives_is_checked(backend, rng, answer):
    objective, _ = random_classes(backend, rng)

    class Other:
        def screen(self, state):
            return answer

        def start(self, state, before=None):
            return answer

        step = narrow = start

    with pytest.raises(ValueError, match=r"rule: expected screen\(state\) to give 12 booleans, got"):
        backend.solve_sparse(objective, beta=0.1, rule=Other())
    with pytest.raises(TypeError, match="solver: expected start to give a memory with state and calls"):
        backend.solve_sparse(objective, beta=0.1, solver=Other())


def test_a_pair_of_weights_that_have_left_is_forgotten(backend, rng):
    """Of a move along one weight nothing is left without it: <move, change> = 0 tells of no curvature, and the BFGS
    matrix would be singular.
    """
    objective, _ = words(backend, rng)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.3 * backend.beta_max(objective))
    solver = backend.ProximalNewton()
    memory = solver.step(solver.start(problem.evaluate(np.zeros(problem.size))))
    alone = np.zeros((1, problem.size))
    alone[0, 0] = 1.0
    memory = memory._replace(
        moves=np.concatenate([memory.moves, alone]), changes=np.concatenate([memory.changes, 2 * alone])
    )
    columns = np.arange(1, problem.size)
    state, _ = problem.narrowed(memory.state, columns)
    narrowed = solver.narrow(memory, state, columns)
    assert len(narrowed.moves) == len(narrowed.changes) == 1
    assert solver.step(narrowed).state.fun < state.fun
