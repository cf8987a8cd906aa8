"""Block-coordinate Frank-Wolfe against its equations with every output listed, against a generic solver, against
batch Frank-Wolfe.
"""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from conformance.listed_svm import Listed, by_hand, hinge, labelling, listed
from conformance.tolerances import close
from reference.training.counterparts import counterpart


@pytest.mark.parametrize("average", ["weighted", "last"])
@pytest.mark.parametrize(("cached_passes", "line_search"), [(0, True), (0, False), (1, True), (3, True)])
def test_bcfw_is_its_equations(backend, rng, average, cached_passes, line_search):
    """x = w(alpha) and the dual of the averaged alpha, after each epoch; the gap is that of the iterate returned."""
    X, Y = labelling(rng, (2, 3, 1, 3, 0))
    problem = listed(X, Y, 3, 0.07)
    options = {"cached_passes": cached_passes, "average": average, "line_search": line_search}
    expected = by_hand(problem, 6, 4, **options)
    result = backend.bcfw(hinge(backend, X, Y), lam=0.07, epochs=6, tol=0.0, rng=4, **options)
    close(result.x, expected[-1][0])
    for row, (w, dual) in zip(result.history, expected, strict=True):
        close(row.dual, dual)
        close(row.objective, problem.primal(w))
        close(row.gap, problem.primal(w) - dual)
    assert result.fun == result.history[-1].objective and result.certificate == result.history[-1].gap
    assert result.iterate == {"weighted": "weighted average", "last": "last"}[average]
    assert [row.oracle_calls for row in result.history] == [5 * k for k in range(1, 7)] and result.oracle_calls == 30


def test_multiclass_and_listed_outputs(backend, rng):
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    problem = Listed(0.1)
    for x, y in zip(X, Y, strict=True):
        order = [y, *(c for c in range(3) if c != y)]
        problem.add([np.outer(x, np.eye(3)[c]).ravel() for c in order], cost[y, order])
    classes = backend.MulticlassModel(2, 3, cost=cost)
    lists = backend.ListModel(
        lambda x: np.kron(x[None, :], np.eye(3)), backend.Table, task_loss=lambda x, y: cost[y], size=6
    )
    for model in (classes, lists):
        objective = backend.StructuralHinge(model, model.pack(X, Y))
        for options in ({"cached_passes": 0, "average": "weighted"}, {"cached_passes": 2, "average": "last"}):
            result = backend.bcfw(objective, lam=0.1, epochs=5, tol=0.0, rng=2, **options)
            w, dual = by_hand(problem, 5, 2, **options)[-1]
            close(result.x, w)
            close(result.history[-1].dual, dual)


def test_labels_without_weights_are_one_output():
    """Two labellings with equal features and losses, of which one joins a set: the attribute has a weight for A."""
    X, Y = [[["x"]], [["y"]], [["y"]]], [["A"], ["B"], ["C"]]
    for panel in (reference, accelerated):
        model = panel.TaggingModel.of(X, Y, None)
        objective = panel.StructuralHinge(model, model.pack(X, Y))
        box = counterpart(panel.algorithms.BCFW(1.0, cached_passes=0), objective)
        state = box.init(objective, objective.zeros())
        for _ in range(4):
            state = box.epoch(objective, state, np.random.default_rng(0))
        sizes = state.sets.outputs if panel is accelerated else [len(state.sets[i].alpha) for i in range(3)]
        assert sizes[0] == 2
