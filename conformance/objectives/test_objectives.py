"""Objectives of every model against its listed outputs: values, gradients, corners, lower bounds, smoothness."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.degenerate import CASES, learners, packed
from conformance.objectives.test_smoothing import smoothed_max
from conformance.specimens.models import MODELS
from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference.identities import pillutla

seeds = given(seed=st.integers(0, 2**32 - 1))
every_model = pytest.mark.parametrize("name", MODELS)


def losses_of(backend, name, model, data):
    """Objectives by name, and their mu, among them those that need expectations where the model has them."""
    hinge, smoothings = partial(backend.StructuralHinge, model, data), backend.smoothings
    found = {"hinge": (hinge(), 0.0), "l2": (hinge(smoothing=smoothings.SquaredL2()), 0.7)}
    found["top"] = hinge(smoothing=smoothings.TopK(2)), 0.7
    if MODELS[name].sums:
        found |= {"entropy": (hinge(smoothing=smoothings.Entropy()), 0.7), "log": (backend.LogLoss(model, data), None)}
        found["margin"] = backend.LogLoss(model, data, cost=True), None
    return found


def by_enumeration(problem, w, loss, mu):
    """The mean loss and its gradient (that of a best output where there is no smoothing) with every output listed."""
    total, gradient = 0.0, np.zeros(len(w))
    for _, phi, losses, gold in problem.listed:
        values = phi @ w + (0.0 if loss == "log" else losses)
        if mu == 0.0:
            value, u = np.max(values), np.eye(len(values))[np.argmax(values)]
        elif loss in ("l2", "top"):
            order = np.argsort(-values, kind="stable")[: 2 if loss == "top" else None]
            value, shares = smoothed_max(values[order], mu)
            u = np.zeros(len(values))
            u[order] = shares
        else:
            value, u = log_sum_exp(values, mu or 1.0)
        total += value - phi[gold] @ w
        gradient += u @ phi - phi[gold]
    return total / len(problem.listed), gradient / len(problem.listed)


@every_model
@seeds
def test_losses_are_their_definitions(backend, space, name, seed):
    problem = MODELS[name].draw(seed)
    w = problem.weights(backend, 5).astype(space.dtype)
    model, data = problem.packed(backend, space.put(0.0))
    for loss, (objective, mu) in losses_of(backend, name, model, data).items():
        for level in {mu, 0.0} if loss == "entropy" else {mu}:
            value, gradient = objective.value_and_gradient(space.put(w), mu=level)
            space.again(objective.value(space.put(w), mu=level), value)
            expected, slope = by_enumeration(problem, w.astype(np.float64), loss, level)
            close(value, expected, space.dtype, 10.0)
            assert space.get(gradient).dtype == space.dtype
            if (
                level != 0.0
                and (loss != "top" or _best_are_alone(problem, w))
                and (loss != "l2" or space.dtype == "float64")
            ):
                close(space.get(gradient), slope, space.dtype, 100.0)
    if not MODELS[name].sums:
        for refused in (
            lambda: backend.LogLoss(model, data),
            lambda: backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy()),
        ):
            with pytest.raises((backend.IntractableError, backend.UnsupportedError), match="needs expectation"):
                refused()


@every_model
@seeds
def test_the_hinge_lies_above_its_tangents(backend, name, seed):
    """The subgradient inequality at random pairs of points; ties included (w = 0)."""
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend)
    hinge = backend.StructuralHinge(model, data)
    for w in (np.zeros(model.size), problem.weights(backend, 7)):
        value, g = hinge.value_and_gradient(w)
        assert value >= -1e-12
        for v in problem.weights(backend, 8, 5):
            assert hinge.value_and_gradient(v)[0] >= value + g @ (v - w) - 1e-9 * (1 + abs(value))


@every_model
@seeds
def test_a_batch_is_the_mean_of_its_examples(backend, space, name, seed):
    """In any order, with repeats, in the data's namespace and dtype."""
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend, space.put(0.0))
    w, batch = space.put(problem.weights(backend, 8)), np.random.default_rng(seed).integers(0, data.n, 2 * data.n + 1)
    found = losses_of(backend, name, model, data)
    for objective, mu in (found["hinge"], found.get("log", found["l2"]), found.get("margin", found["l2"])):
        value, g = objective.value_and_gradient(w, batch, mu)
        space.again(objective.value(w, batch, mu), value)
        each = [objective.value_and_gradient(w, [i], mu) for i in range(data.n)]
        close(value, np.mean([each[i][0] for i in batch]), space.dtype, 10.0)
        close(space.get(g), np.mean([space.get(each[i][1]) for i in batch], axis=0), space.dtype, 10.0)


@every_model
@seeds
def test_corners_are_the_planes_of_the_hinge(backend, space, name, seed):
    """The k best of the listed planes by rank, whose first is the hinge; of each example of a batch, in its order."""
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend, space.put(0.0))
    objective, w = backend.StructuralHinge(model, data), problem.weights(backend, 5).astype(space.dtype)
    batch = [data.n - 1, 0]
    for k in (1, 3):
        corners = objective.corners(space.put(w), batch, k)
        assert isinstance(corners, backend.Corners)
        directions, losses = space.get(corners.directions), space.get(corners.losses)
        assert directions.shape == (2, k, model.size) and losses.shape == (2, k)
        assert directions.dtype == losses.dtype == space.dtype
        for i, count, V, loss in zip(batch, space.get(corners.count), directions, losses, strict=True):
            outputs, phi, costs, gold = problem.listed[i]
            planes = phi - phi[gold]
            assert count == min(k, len(outputs))
            best = np.sort(costs + planes @ w)[::-1][:count]
            close(loss[:count] + V[:count] @ w, best, space.dtype, 10.0)
            assert np.all(loss[count:] == -np.inf) and not np.any(V[count:])
            for direction, cost in zip(V[:count], loss[:count], strict=True):
                assert np.any(np.all(np.abs(planes - direction) <= 1e-4, axis=1) & (np.abs(costs - cost) <= 1e-4))


@every_model
@seeds
def test_linearize_is_a_lower_bound_everywhere(backend, name, seed):
    """The weights are a dual point: the hinge lies above task_loss + <gradient, v> at any v, for every smoothing."""
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend)
    found, w = losses_of(backend, name, model, data), problem.weights(backend, 4)
    hinge = found["hinge"][0]
    for loss, (objective, mu) in found.items():
        line, (value, g) = objective.linearize(w, mu=mu), objective.value_and_gradient(w, mu=mu)
        assert isinstance(line, backend.Linearization) and 0 <= line.exact <= 1
        close(line.value, value)
        close(line.gradient, g)
        if loss == "log":
            assert line.task_loss == 0 and line.exact == 1
            continue
        for v in problem.weights(backend, 9, 4):
            assert hinge.value_and_gradient(v)[0] >= line.task_loss + line.gradient @ v - 1e-9
    line = hinge.linearize(w)  # the max touches its own
    close(line.value, line.task_loss + line.gradient @ w)
    assert line.exact == 1


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.sums])
@seeds
def test_softmax_margin_bounds_the_log_loss_and_the_hinge(backend, name, seed):
    """With costs >= 0 it is above both, and above the cost of the predicted output, and above the hinge by at most the
    log of the number of outputs; it is the hinge smoothed at 1; without costs it is the log loss, bit for bit.
    """
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend)
    margin, w = backend.LogLoss(model, data, cost=True), problem.weights(backend, 6)
    hinge = backend.StructuralHinge(model, data, smoothing=backend.smoothings.Entropy())
    for i in range(data.n):
        value, slack = margin.value_and_gradient(w, [i])[0], 1e-9 * (1 + float(np.abs(w).sum()))
        assert value >= backend.LogLoss(model, data).value_and_gradient(w, [i])[0] - slack
        low = hinge.value_and_gradient(w, [i], 0.0)[0]
        assert low - slack <= value <= low + np.log(len(problem.listed[i].outputs)) + slack
        close(value, hinge.value_and_gradient(w, [i], 1.0)[0])
        assert problem.listed[i].loss[np.argmax(problem.listed[i].phi @ w)] <= value + slack
    line = margin.linearize(w)
    close(line.task_loss, np.mean([_expected(each, w) for each in problem.listed]))
    assert (line.exact, margin.loss_augmented, repr(margin)[-12:]) == (1, True, ", cost=True)")
    if hasattr(model, "cost"):
        model.cost = 0.0 * model.cost
        (a, g), (b, h) = (backend.LogLoss(model, data, cost=cost).value_and_gradient(w) for cost in (False, True))
        assert a == b
        np.testing.assert_array_equal(g, h)


def _expected(listed, w):
    """The task loss averaged by softmax of score plus task loss, by enumeration."""
    return log_sum_exp(listed.phi @ w + listed.loss, 1.0)[1] @ listed.loss


@every_model
@seeds
def test_smoothness_of_every_example(backend, name, seed):
    """||g_i(v) - g_i(w)|| <= L ||v - w|| for the losses that know L; for the top K, while these stay the same."""
    problem, mu = MODELS[name].draw(seed), 0.3
    model, data = problem.packed(backend)
    found = losses_of(backend, name, model, data)
    assert found["hinge"][0].smoothness() is None
    top, _ = found["top"]
    assert top.smoothness(1.0) is None
    checked = [
        (o, o.smoothness(m and mu), m and mu) for loss, (o, m) in found.items() if loss in ("entropy", "log", "margin")
    ]
    if (L := found["l2"][0].smoothness(mu)) is not None:  # outputs are listed
        checked += [(found["l2"][0], L, mu)]
    if (L := top.local_smoothness(mu)) is not None:
        checked += [(top, L, mu)]
    if MODELS[name].sums:
        assert found["log"][0].local_smoothness() == np.inf
    for objective, L, level in checked:
        for i in range(data.n) if L is not None else ():
            w, v = problem.weights(backend, seed, 2)
            for scale in (1e-3, 1.0):
                v = w + scale * (v - w)
                if objective is top and not _same_best(problem.listed[i], w, v):
                    continue
                change = objective.value_and_gradient(v, [i], level)[1] - objective.value_and_gradient(w, [i], level)[1]
                assert np.linalg.norm(change) <= L * np.linalg.norm(v - w) * (1 + 1e-9) + 1e-9


def _best_are_alone(problem, w):
    """Whether no third output ties with the two best, of any example: which are the top two is then no choice."""
    values = [np.sort(each.loss + each.phi @ w)[::-1] for each in problem.listed]
    return all(len(x) < 3 or x[1] - x[2] > 1e-4 for x in values)


def _same_best(listed, w, v):
    """Whether the two best outputs, which do not tie with others, are the same at both."""
    values = [listed.loss + listed.phi @ x for x in (w, v)]
    if len(listed.outputs) > 2 and min(np.diff(np.sort(x)[::-1])[1] for x in values) > -1e-9:
        return False
    return set(np.argsort(-values[0])[:2]) == set(np.argsort(-values[1])[:2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_give_no_number(backend, bad):
    """A diverged run must be seen: nan, not some finite loss."""
    model = backend.SequenceModel(2, 3)
    data = model.pack([np.ones((3, 2))], [[0, 1, 2]])
    for at in (0, model.size - 1):
        w = np.zeros(model.size)
        w[at] = bad
        for loss in (backend.LogLoss, backend.StructuralHinge):
            with np.errstate(invalid="ignore"):
                value, _ = loss(model, data).value_and_gradient(w)
                assert np.isnan(value) or value == np.inf, (at, loss)
                np.testing.assert_equal(loss(model, data).value(w), value)


def test_what_is_wrong_is_named(backend):
    model = backend.SequenceModel(1, 2)
    log, four = (backend.LogLoss(model, model.pack([np.zeros((2, 1))] * n, [[0, 1]] * n)) for n in (1, 4))
    names = {"np": np, "b": backend, "law": pillutla, "log": log, "weighted": partial(backend.Weighted, four)}
    names["hinge"] = lambda smoothing=None: backend.StructuralHinge(model, log.data, smoothing=smoothing)
    check_refusals("wrong_objectives.txt", names)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e3, 1e150])
def test_values_of_all_scales_are_those_beside_gradients(backend, scale):
    """Where sum-product leaves the scaled domain for the log domain, the value alone does."""
    problem = MODELS["sequences"].training()
    model, data = problem.packed(backend)
    w = scale * problem.weights(backend)
    found = losses_of(backend, "sequences", model, data)
    for loss, mu in (("log", None), ("entropy", 1e-3), ("hinge", None)):
        objective, _ = found[loss]
        assert objective.value(w, None, mu) == objective.value_and_gradient(w, None, mu)[0]


def test_a_subclass_with_its_own_loss_is_evaluated_by_it(backend):
    """Twice the log loss, by overriding ``value_and_gradient`` alone."""

    class Twice(backend.LogLoss):
        def value_and_gradient(self, w, batch=None, mu=None):
            value, gradient = super().value_and_gradient(w, batch, mu)
            return 2.0 * value, 2.0 * gradient

    problem = MODELS["classes"].training()
    (model, data), w = problem.packed(backend), problem.weights(backend)
    assert Twice(model, data).value(w) == 2.0 * backend.LogLoss(model, data).value(w)


# data packed without true outputs: every learner says so in the same words, in both panels ----------------------------

MISSING = {"AlignmentModel": "alignments", "ListModel": "outputs", "ParsingModel": "heads"}  # others: labels
MISSING |= dict.fromkeys(("CandidateModel", "SubwindowModel", "TwoLayerModel"), "true boxes")
# what a learner says of the model, whatever the data
OF_THE_MODEL = ("IntractableError", "UnsupportedError", "ValueError: objective: ")


@pytest.mark.parametrize("case", CASES)
def test_every_learner_names_the_missing_outputs(backend, case):
    model, data = packed(backend, case, outputs=False)
    missing = f"Y: this data was packed without {MISSING.get(type(model).__name__, 'labels')}; pack(X, Y) gives them"
    asked = 0
    for name, run in learners(backend, model, data):
        with pytest.raises((TypeError, ValueError)) as raised:
            run()
        answer = f"{type(raised.value).__name__}: {raised.value}"
        assert answer.startswith(OF_THE_MODEL) or answer == f"ValueError: {missing}", name
        asked += missing in answer
    assert asked > 3
    objective = backend.StructuralHinge(model, data)
    for ask in (objective.value_and_gradient, objective.linearize, objective.corners):
        with pytest.raises(ValueError) as raised:
            ask(objective.zeros())
        assert str(raised.value) == missing
