"""Training of every model: both panels take the same steps, also at ties; planted weights are learned."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance.specimens.learners import loss_of
from conformance.specimens.models import MODELS
from conformance.tolerances import close
from reference.optimizers.bcfw import BCFW
from reference.optimizers.saga import SAGA
from reference.optimizers.sgd import SGD
from reference.optimizers.subproblem import Subproblem
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart
from reference.training.smoothness import Backtracking

SUMS = {"entropy": 0.5, "entropy at 1e-3": 1e-3, "log loss": None}  # losses that need expectations, and their mu
LOSSES = {"hinge": None, "top-k": 0.7, "l2": 0.5, **SUMS}
PAIRS = [(name, loss) for name, kind in MODELS.items() for loss in LOSSES if kind.sums or loss not in SUMS]
FORMS = [  # of bcfw
    *({"average": "weighted", "capacity": 3}, {"capacity": 1}, {"line_search": False}),
    *({"l1": 0.02, "average": "weighted", "capacity": 2}, {"l1": 0.1}),
]


def seed_of(name, usual):
    """Of a problem where bcfw, which starts at 0, and dependency trees come by no tie that rounding decides."""
    return 5 if name.startswith(("arcs", "trees")) else usual


def objective_of(panel, problem, loss, like=None):
    return loss_of(panel, loss.split(" at ")[0], *problem.packed(panel, like))


def scales(t, lam):
    """Steps at lam = 0.5 that set the scale of the weights to 0, and to less."""
    return np.where(t == 2, 2.0, 0.1 + 3.0 * (t == 3))


def linear(objective, w, mu):
    """What the objective says at w."""
    line = objective.linearize(w, mu=mu)
    assert objective.value_and_gradient(w, mu=mu)[0] == pytest.approx(line.value, rel=1e-12, abs=1e-12)
    return [np.array([line.value, line.task_loss, line.exact]), line.gradient]


def swept(objective, box, w, order):
    """The weights and their mean after each of two passes of SGD."""
    box, found = counterpart(box, objective), []
    state = box.init(objective, w)
    for _ in range(2):
        state = box.sweep(objective, state, order)
        found += [state.x, state.mean]
    return found


def passes(objective, w, mu, order):
    """What the objective says at w, and passes of each box from one state."""
    found = linear(objective, w, mu)
    for average in ("last", "uniform", "weighted"):
        for lam, steps in ((0.1, reference.steps.Constant(0.25)), (0.5, scales)):
            found += swept(objective, SGD(lam, steps, mu, average=average), w, order)
    if mu == 0:
        arcs = isinstance(objective.model, reference.ParsingModel)  # no kernel, and ties of trees where weights are 0
        for form in FORMS[: 3 if arcs else None]:
            bcfw = counterpart(BCFW(0.1, **form), objective)
            state = bcfw.init(objective)
            for orders in ([order], [order, order[::-1], order], [order, order]):
                state = bcfw.sweep(objective, state, orders)
                found += [state.x, state.mean, np.array([state.loss, state.mean_loss, state.t])]
    if mu == 0 or objective.model.nonnegative is not None:
        return found
    svrg, saga, steps = (counterpart(box, objective) for box in (SVRG(average="uniform"), SAGA(), Backtracking()))
    subproblem, snapshot = Subproblem(objective, 0.1, 0.2, mu, w[::-1].copy()), svrg.snapshot(objective, w, mu)
    found += [svrg.sweep(subproblem, snapshot, snapshot.x, order, 0.1)]
    found += [saga.one_pass(subproblem, saga.snapshot(objective, w, mu), order, 0.1, None)[0]]
    found += [np.array(steps.find(objective, w, mu, order, 1e-3, np.inf))]
    return [*found, np.array(steps.least(objective, w, mu, order))]


@pytest.mark.parametrize(("name", "loss"), PAIRS)
def test_loops_agree_from_one_state(other, rng, name, loss):
    """A pass of each box in both panels; at mu = 1e-3 probabilities leave the range of numbers."""
    problem, mu = MODELS[name].training(7, 6, seed_of(name, 3)), 0.0 if loss == "hinge" else LOSSES[loss]
    order, w = rng.permutation(7), problem.weights(reference, 4)
    mine, theirs = (passes(objective_of(panel, problem, loss), w, mu, order) for panel in (other, reference))
    for a, b in zip(mine, theirs, strict=True):
        close(a, b, scale=10.0)


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("arcs")])
def test_gradients_agree_where_outputs_tie(other, rng, name):
    """Small integers, whose sums are exact: of outputs that tie all take the same; a subclass, by a loop, too."""
    problem = MODELS[name].training(9, 6, seed=2, ties=True)
    size, order = problem.make(reference).size, rng.permutation(9)
    for w in (np.zeros(size), *rng.integers(0 if name == "images" else -1, 2, (4, size)).astype(float)):
        answers = []
        for panel, own in ((other, True), (other, False), (reference, False)):
            objective = objective_of(panel, problem, "hinge")
            if own:
                objective.model.__class__ = type("Mine", (type(objective.model),), {})
            steps = swept(objective, SGD(0.0, reference.steps.Constant(0.25), 0.0, average="last"), w, order)
            line = objective.linearize(w, np.array([4, 0, 1, 4]))
            answers.append([*linear(objective, w, 0.0), line.gradient, steps[0], steps[2]])
        for mine, found, theirs in zip(*answers, strict=True):
            np.testing.assert_array_equal(found, mine)
            if not name.startswith("alignments"):  # where many are best, panels may take different ones
                np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_training_works_in_every_namespace(backend, space, name):
    problem = MODELS[name].training(4, 3)
    loss = "log loss" if MODELS[name].sums else "top-k"
    objective = objective_of(backend, problem, loss, space.put(0.0))
    for average in ("last", "weighted"):
        result = backend.sgd(objective, lam=0.1, mu=LOSSES[loss], step_size=0.1, epochs=2, rng=0, average=average)
        assert space.get(result.x).dtype == np.dtype(space.dtype)
    assert result.fun < objective.value_and_gradient(objective.zeros(), None, LOSSES[loss])[0]


def planted(name, n):
    """n examples, their best outputs under drawn weights, and these as ``pack`` takes them."""
    problem = MODELS[name].training(n, 5, seed=3)
    model, w = problem.make(reference), 2.0 * problem.weights(reference, 5)
    best = model.predict(model.pack(problem.X), None, w)
    return problem, best, [problem.truth(i, y) for i, y in enumerate(best)]


LEARNED = {"sequences": 0.7, "classes": 0.75, "trees": 0.85, "arcs": 0.7, "arcs, one root": 0.7}  # right at least
LEARNED |= {"alignments": 0.85, "alignments with null": 0.85, "images": 0.8}
LEARNED |= {"candidates": 0.8, "windows": 0.8, "windows of words": 0.8}


@pytest.mark.parametrize("name", LEARNED)
def test_planted_weights_are_learned_with_a_certificate(backend, rng, name):
    """To a certified gap of 5 %, which bounds from below; most new outputs are those of the planted weights."""
    problem, best, Y = planted(name, 60)
    model = problem.make(backend)
    hinge = backend.StructuralHinge(model, model.pack(problem.X[:40], Y[:40]))
    result = backend.bcfw(hinge, lam=0.006, tol=0.05, epochs=200, rng=0)
    assert result.success and 0 <= result.certificate <= 0.05 * result.fun
    value = lambda w: hinge.value_and_gradient(w)[0] + 0.003 * w @ w  # noqa: E731
    close(value(result.x), result.fun)
    for v in rng.normal(size=(20, model.size)):
        w = result.x + 0.3 * v
        if model.nonnegative is not None:
            assert np.all(result.x[model.nonnegative] >= 0)
            w[model.nonnegative] = np.abs(w[model.nonnegative])
        assert value(w) >= result.fun - result.certificate - 1e-9
    guess = model.predict(model.pack(problem.X[40:]), None, result.x)
    right = [np.ravel(np.equal(a, b)) for a, b in zip(guess, best[40:], strict=True)]
    assert np.mean(np.concatenate(right)) > LEARNED[name]
