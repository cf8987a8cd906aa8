"""Multi-sample updates from a sampler of the user's own: what is promised of any sampler, and what of one that lists
everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.golden.problems import Problems
from conformance.listed_svm import hinge, labelling, listed
from conformance.tolerances import close


def everything(i, space, size, rng):
    """Every output."""
    return list(space.enumerate())


def anything(i, space, size, rng):
    """Some of the outputs, none now and then, one of them twice."""
    outputs = list(space.enumerate())
    return [outputs[j] for j in rng.integers(0, len(outputs), rng.integers(0, size + 1))]


def worst(i, space, size, rng):
    """The outputs of lowest score: no help at all."""
    return sorted(space.enumerate(), key=lambda y: float(space.score(np.array(y, int))))[:size]


def models(backend):
    """Chains, trees, classes, lists and dependency trees: an objective each."""
    return [Problems(backend).objective(f"{name}/hinge") for name in ("chain", "trees", "classes", "listed", "parsing")]


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("sampler", [anything, worst])
@pytest.mark.parametrize("update", ["moves", "exact"])
def test_with_any_sampler_the_dual_rises_and_the_gap_holds(backend, rng, sampler, update):
    for objective in models(backend):
        run = backend.multisample(objective, lam=0.1, k=4, sampler=sampler, update=update, epochs=12, tol=None, rng=0)
        best = backend.bcfw(objective, lam=0.1, epochs=400, tol=1e-3, rng=0)
        duals = [row.dual for row in run.history]
        assert np.all(np.diff(duals) >= -1e-12) and duals[-1] > duals[0]
        close(run.fun, objective.value_and_gradient(run.x)[0] + 0.05 * run.x @ run.x)
        assert duals[-1] <= best.fun + 1e-9 and run.fun - run.certificate <= best.fun + 1e-9
        assert best.fun - best.certificate <= run.fun + 1e-9


def test_a_sampler_of_everything_makes_the_exact_step(backend, rng):
    """One example, all its outputs: after one exact step the weights are those of the maximum of its dual, by
    enumeration."""
    X, Y = labelling(rng, (3,))
    problem = listed(X, Y, 3, 0.2)
    result = backend.multisample(
        hinge(backend, X, Y), lam=0.2, k=28, sampler=everything, update="exact", epochs=1, tol=None
    )
    assert result.oracle_calls == 1 and abs(result.certificate) <= 1e-8  # the optimum, in one step
    close(result.fun, problem.primal(result.x))


@pytest.mark.parametrize("update", ["moves", "exact"])
def test_a_sampler_of_the_best_is_top_k(backend, rng, update):
    X, Y = labelling(rng, (2, 3, 1, 3))
    objective, seen = hinge(backend, X, Y), []

    def best(i, space, size, rng):
        seen.append((i, size, tuple(space.scores.unary.shape)))
        return space.topk(size + 1).labels[1:, :]

    options = {"lam": 0.1, "update": update, "epochs": 3, "tol": None, "rng": 0}
    ours, theirs = (backend.multisample(objective, k=3, sampler=s, **options) for s in (best, "topk"))
    close(ours.x, theirs.x)
    close([row.dual for row in ours.history], [row.dual for row in theirs.history])
    assert set(seen) == {(i, 2, (n, 3)) for i, n in enumerate((2, 3, 1, 3))} and len(seen) == 12


def test_draws_of_the_structure_are_those_of_gibbs(backend, rng):
    for objective in models(backend)[:4]:
        options = {"lam": 0.1, "k": 4, "mu": 0.7, "epochs": 3, "tol": None, "rng": 0}
        ours, theirs = (
            backend.multisample(objective, sampler=s, **options)
            for s in (lambda i, space, size, rng: space.sample(size, 0.7, rng), "gibbs")
        )
        close(ours.x, theirs.x, scale=100.0)


def test_the_space_has_the_loss_in_it(backend, rng):
    """score(y) is loss_i(y) + <w, phi(x_i, y)>, for the weights of the call."""
    X, Y = labelling(rng, (2, 3))
    objective = hinge(backend, X, Y)
    problem, w = listed(X, Y, 3, 0.1), rng.normal(size=objective.model.size)

    def check(i, space, size, rng):
        outputs = list(itertools.product(range(3), repeat=len(Y[i])))
        scores = np.array([float(space.score(np.array(y))) for y in outputs])
        true = scores[outputs.index(tuple(int(label) for label in Y[i]))]
        close(np.sort(scores - true), np.sort(problem.loss[i] + problem.V[i] @ w))
        return outputs[:1]

    assert np.all(objective.sampled_corners(w, None, 2, sampler=check).count <= 2)


def test_samplers_in_every_namespace(backend, space, rng):
    X, Y = labelling(rng, (2, 3), F=2, L=2)
    model = backend.SequenceModel(2, 2)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    result = backend.multisample(objective, lam=0.3, k=9, sampler=everything, update="exact", epochs=30, tol=1e-2)
    assert space.get(result.x).dtype == space.dtype and result.success


@pytest.mark.parametrize(
    ("proposed", "error", "message"),
    [
        (lambda y: 3, TypeError, "sampler: expected a list of outputs of example 0, got int"),
        (lambda y: [y] * 4, ValueError, "sampler: expected at most 3 outputs of example 0, got 4"),
        (lambda y: [y, [0, 3]], ValueError, r"sampler: output 1 of example 0: y: expected labels in 0..2"),
        (
            lambda y: [[0]],
            ValueError,
            r"sampler: output 0 of example 0: y: expected labels of shape \(2,\), got \(1,\)",
        ),
        (lambda y: [[0.0, 1.0]], TypeError, "sampler: output 0 of example 0: y: expected integers, got float64"),
        (lambda y: [[-1, -1]], ValueError, "sampler: output 0 of example 0: expected a state of each variable, got"),
    ],
)
def test_proposals_are_checked(backend, rng, proposed, error, message):
    X, Y = labelling(rng, (2,))
    with pytest.raises(error, match=message):
        backend.multisample(
            hinge(backend, X, Y), lam=0.1, k=4, sampler=lambda i, space, size, rng: proposed(Y[0]), rng=0
        )


def test_forbidden_proposals_are_refused(backend):
    model = backend.ListModel(
        lambda x: np.zeros((6, 1)),
        backend.Arborescence,
        task_loss=lambda x, y: np.zeros(6),
        size=1,
        shape=lambda x, v: backend.ArborescenceScores(np.where([[1, 1, 1], [0, 1, 1]], v.reshape(2, 3), -np.inf)),
    )
    objective = backend.StructuralHinge(model, model.pack([0], [[0, 1]]))
    with pytest.raises(ValueError, match=r"sampler: output 0 of example 0: expected an output that is not forbidden"):
        objective.sampled_corners(np.zeros(1), None, 2, sampler=lambda i, space, size, rng: [[0, 0]])
